//! Plans stay as they are: a change here changes the bits of everybody's results.
//!
//! `STRADSAP_REGENERATE=1 cargo test -p stradsap-planner` writes the schedules in `tests/golden` anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use stradsap_planner::plan::Plan;
use stradsap_planner::{Order, PlanOptions, Strategy};

use crate::loops::{Loop, serial_order};

/// All that a schedule is.
fn schedule(plan: &Plan) -> String {
    let mut text = String::new();
    writeln!(text, "strategy      {}", plan.strategy).unwrap();
    writeln!(text, "iterations    {}", plan.range.len()).unwrap();
    writeln!(text, "blocks        {}", plan.blocks.len()).unwrap();
    writeln!(text, "work          {}", plan.graph.work()).unwrap();
    writeln!(text, "critical path {}", plan.graph.critical_path()).unwrap();
    writeln!(text, "reason        {}", plan.facts.reason).unwrap();
    writeln!(text, "serial order").unwrap();
    for line in serial_order(plan).chunks(20) {
        let line: Vec<String> = line.iter().map(ToString::to_string).collect();
        writeln!(text, "  {}", line.join(" ")).unwrap();
    }
    text
}

fn golden(name: &str, of: &Loop, options: &PlanOptions) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(format!("{name}.txt"));
    for threads in [1, 2, 3] {
        let found = schedule(&of.plan(options, threads));
        if std::env::var_os("STRADSAP_REGENERATE").is_some() {
            std::fs::write(&path, &found).unwrap();
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(found, expected.replace("\r\n", "\n"), "the schedule is not the one in {}", path.display());
    }
}

/// An epoch of matrix factorisation over all of 6 x 6 ratings: captures are the ratings, `p` and `q`.
fn ratings() -> Loop {
    let touched = |i: usize| {
        let (user, item) = (i / 6, i % 6);
        vec![(0, i, false), (1, user, false), (2, item, false), (1, user, true), (2, item, true)]
    };
    Loop { range: 0..36, captures: vec![(36, false), (6, true), (6, true)], accesses: (0..36).map(touched).collect() }
}

/// Each element is made of its neighbours and itself.
fn stencil() -> Loop {
    let touched = |i: usize| vec![(0, i - 1, false), (0, i + 1, false), (0, i, false), (0, i, true)];
    Loop { range: 1..65, captures: vec![(66, true)], accesses: (1..65).map(touched).collect() }
}

/// Every iteration adds to one element.
fn total() -> Loop {
    let touched = |i: usize| vec![(0, i, false), (1, 0, true)];
    Loop { range: 0..50, captures: vec![(50, false), (1, true)], accesses: (0..50).map(touched).collect() }
}

/// Each inner cell of 10 rows of 40 is made of those around it.
fn table() -> Loop {
    let touched = |k: usize| match (k / 40, k % 40) {
        (1..9, 1..39) => {
            vec![(0, k - 40, false), (0, k - 1, false), (0, k + 1, false), (0, k + 40, false), (0, k, true)]
        }
        _ => Vec::new(),
    };
    Loop { range: 0..400, captures: vec![(400, true)], accesses: (0..400).map(touched).collect() }
}

#[test]
fn schedules_stay_as_they_are() {
    let options = |parts, order, strategy| PlanOptions {
        order,
        parts: Some(parts),
        strategy: Some(strategy),
        ..PlanOptions::default()
    };
    golden("grid", &ratings(), &options(3, Order::Any, Strategy::Grid));
    golden("grid-preserving", &ratings(), &options(3, Order::Preserve, Strategy::Grid));
    golden("coloured", &ratings(), &options(3, Order::Any, Strategy::Coloured));
    golden("coloured-preserving", &ratings(), &options(3, Order::Preserve, Strategy::Coloured));
    golden("stencil-grid", &stencil(), &options(4, Order::Any, Strategy::Grid));
    golden("stencil-coloured", &stencil(), &options(4, Order::Any, Strategy::Coloured));
    let of_tiles = PlanOptions { parts: None, grain: Some(64), ..options(1, Order::Preserve, Strategy::Tiled) };
    golden("table-preserving", &table(), &of_tiles);
    golden("total", &total(), &PlanOptions::default());
}
