//! Tables in this process: they run by tiles, and say so.

use crate::rows;
use crate::seen::Seen;
use crate::tables::SCENARIOS;
use stradsap::prelude::*;

#[test]
fn scenarios() {
    crate::on_1_2_and_4_threads(SCENARIOS);
    crate::on_1_2_and_4_threads(rows::SCENARIOS);
}

#[test]
fn verified_tables_replay_their_tiles() {
    let session = Session::builder().threads(3).verify(true).build().unwrap();
    for scenario in SCENARIOS.iter().chain(rows::SCENARIOS) {
        (scenario.run)(&session, &mut Seen::default()).unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
    }
}

#[test]
fn a_report_says_how_a_table_was_cut() {
    let session = Session::builder().threads(2).build().unwrap();
    let (n, w) = (300usize, 200usize);
    let mut x = DVector::from_fn(&session, n * w, |i| i as f64).unwrap();
    let report = async_parallel_for!(
        0..n * w,
        [&mut x, n, w],
        |k| {
            let (row, column) = (k / w, k % w);
            if row > 0 && row < n - 1 && column > 0 && column < w - 1 {
                x[k] = 0.25 * (x[k - w] + x[k + w] + x[k - 1] + x[k + 1]);
            }
        },
        order = Preserve
    )
    .unwrap();
    let text = report.to_string();
    assert!(text.contains("tiled") && text.contains("on the diagonals of rows of 200"), "{text}");
    assert!(report.parallelism() > 4.0, "{text}");
    let mut order: Vec<usize> = report.serial_order().collect();
    assert_ne!(order, (0..n * w).collect::<Vec<_>>());
    order.sort_unstable();
    assert_eq!(order, (0..n * w).collect::<Vec<_>>(), "each iteration once");
}
