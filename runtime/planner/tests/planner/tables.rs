//! Plans of loops whose iterations are cells of a table: under `Preserve` they are cut into tiles.

use std::ops::Range;

use proptest::prelude::{ProptestConfig, proptest};
use stradsap_planner::plan::{Plan, Reach, Window, of_table};
use stradsap_planner::{Order, PlanOptions, Strategy};

use crate::loops::{Access, Loop, Team};
use crate::play::Chance;
use crate::random::{check, same};

/// A step of rows and columns, and whether the element there is written.
type Step = (isize, isize, bool);

/// Steps, and which cells are left out.
type Case<'c> = (&'c [Step], &'c dyn Fn(usize, usize) -> bool);

/// A table of rows of this width, and who touches what: a cell makes all steps that lead to cells, unless `left_out`.
struct Table<'s> {
    rows: usize,
    width: usize,
    steps: &'s [Step],
    left_out: &'s dyn Fn(usize, usize) -> bool,
}

impl Table<'_> {
    /// Iterations over the cells in a range, the table `before` elements behind the vector's first.
    fn cells(&self, range: Range<usize>, before: usize) -> Loop {
        let (rows, width) = (self.rows, self.width);
        let touched = |i: usize| -> Vec<Access> {
            let (row, column) = ((i - before) / width, (i - before) % width);
            let cell = |&(down, right, write): &Step| {
                let (row, column) = (row.checked_add_signed(down)?, column.checked_add_signed(right)?);
                (row < rows && column < width).then_some((0, before + row * width + column, write))
            };
            if (self.left_out)(row, column) { Vec::new() } else { self.steps.iter().filter_map(cell).collect() }
        };
        let range = range.start + before..range.end + before;
        let accesses = range.clone().map(touched).collect();
        Loop { range, captures: vec![(before + rows * width + 3, true)], accesses }
    }

    /// Iterations over pairs, in these rows and columns. Steps that lead beyond a row's border lead to the next one's cells where it `wraps`.
    fn pairs(&self, rows: Range<usize>, columns: Range<usize>, wraps: bool) -> Loop {
        let len = self.rows * self.width;
        let touched = |(row, column): (usize, usize)| -> Vec<Access> {
            let cell = |&(down, right, write): &Step| {
                let at = (row * self.width + column) as isize + down * self.width as isize + right;
                let inside = wraps || column.checked_add_signed(right).is_some_and(|column| column < self.width);
                let at = usize::try_from(at).ok().filter(|&at| inside && at < len)?;
                Some((0, at, write))
            };
            if (self.left_out)(row, column) { Vec::new() } else { self.steps.iter().filter_map(cell).collect() }
        };
        let cells = rows.flat_map(|row| columns.clone().map(move |column| (row, column)));
        let accesses: Vec<_> = cells.map(touched).collect();
        Loop { range: 0..accesses.len(), captures: vec![(len, true)], accesses }
    }
}

const FIVE_POINTS: [Step; 5] = [(-1, 0, false), (0, -1, false), (0, 1, false), (1, 0, false), (0, 0, true)];
const NINE_POINTS: [Step; 9] = [
    (-1, -1, false),
    (-1, 0, false),
    (-1, 1, false),
    (0, -1, false),
    (0, 1, false),
    (1, -1, false),
    (1, 0, false),
    (1, 1, false),
    (0, 0, true),
];
const EDIT_DISTANCE: [Step; 4] = [(-1, -1, false), (-1, 0, false), (0, -1, false), (0, 0, true)];

fn tiled(grain: usize) -> PlanOptions {
    PlanOptions {
        order: Order::Preserve,
        grain: Some(grain),
        strategy: Some(Strategy::Tiled),
        ..PlanOptions::default()
    }
}

/// All distances of some ranges.
fn distances(windows: &[Window]) -> impl Iterator<Item = isize> + '_ {
    windows.iter().flat_map(|window| window.from..window.from + window.len as isize)
}

/// Every access is within what the plan lets its run reach; and whatever runs may reach is ordered.
fn check_tiles(of: &Loop, plan: &Plan) {
    let tiles = plan.tiles.as_ref().expect("no tiles");
    let mut reached = vec![Vec::new(); of.range.len()];
    for run in &tiles.runs {
        for (c, Reach { reads, write }) in tiles.kinds[run.kind as usize].iter().enumerate() {
            for offset in run.offsets() {
                let number = tiles.numbering[c].of(of.range.start + offset);
                let element = |by: isize| number.checked_add_signed(by).unwrap();
                reached[offset].extend(distances(reads).map(|by| (c, element(by), false)));
                reached[offset].extend(distances(&[*write]).map(|by| (c, element(by), true)));
            }
        }
    }
    for (touched, reached) in of.accesses.iter().zip(&reached) {
        assert!(touched.iter().all(|access| reached.contains(access)), "{touched:?} is more than {reached:?}");
        assert!(reached.iter().all(|access| access.1 < of.captures[access.0].0));
    }
    check(of, plan, Order::Preserve);
    check(&Loop { range: of.range.clone(), captures: of.captures.clone(), accesses: reached }, plan, Order::Preserve);
}

fn parallelism(plan: &Plan) -> f64 {
    plan.graph.work() as f64 / plan.graph.critical_path() as f64
}

#[test]
fn a_large_grid_has_thirty_two_tiles_at_the_same_time() {
    let n = 2048;
    let inner = |row: usize, column: usize| row == 0 || column == 0 || row == n - 1 || column == n - 1;
    let table = Table { rows: n, width: n, steps: &FIVE_POINTS, left_out: &inner };
    let plan = table.cells(0..n * n, 0).plan(&PlanOptions { order: Order::Preserve, ..PlanOptions::default() }, 2);
    assert_eq!(plan.strategy, Strategy::Tiled, "{}", plan.facts.reason);
    assert!(parallelism(&plan) >= 32.0, "{}", parallelism(&plan));
    assert!(plan.tiles.unwrap().runs.len() < n * n / 100, "runs are long");
}

#[test]
fn rows_that_wrap_are_no_table() {
    let of = Loop {
        range: 40..1600,
        captures: vec![(1640, true)],
        accesses: (40..1600).map(|i| vec![(0, i - 40, false), (0, i - 1, false), (0, i, true)]).collect(),
    };
    assert_eq!(of.plan(&tiled(16), 1).strategy, Strategy::Serial);
    let near = |i: usize| vec![(0, i - 1, false), (0, i, true)];
    let of = Loop { range: 1..1600, captures: vec![(1600, true)], accesses: (1..1600).map(near).collect() };
    assert_eq!(of.plan(&tiled(16), 1).strategy, Strategy::Serial);
}

/// Calls with what is usual in tables of this size.
fn each_usual(rows: usize, width: usize, try_one: impl Fn(Case<'_>)) {
    let edges = |row: usize, column: usize| row == 0 || column == 0 || row == rows - 1 || column == width - 1;
    let red = |row: usize, column: usize| edges(row, column) || (row + column) % 2 == 1;
    let none = |_: usize, _: usize| false;
    let cases: [Case<'_>; 6] = [
        (&FIVE_POINTS, &edges),
        (&FIVE_POINTS, &none),
        (&FIVE_POINTS, &red),
        (&NINE_POINTS, &edges),
        (&NINE_POINTS, &none),
        (&EDIT_DISTANCE, &none),
    ];
    cases.into_iter().for_each(try_one);
}

#[test]
fn tables_are_found() {
    each_usual(40, 50, |(steps, left_out)| {
        let of = Table { rows: 40, width: 50, steps, left_out }.cells(0..2000, 0);
        let plan = of.plan(&tiled(32), 1);
        check_tiles(&of, &plan);
        assert_eq!(plan.tiles.as_ref().unwrap().width, 50);
        assert!(parallelism(&plan) > 1.5, "{}", parallelism(&plan));
        same(&plan, &of.plan(&tiled(32), 3));
    });
}

/// A small part of the iterations tells what all do.
#[test]
fn the_outline_of_a_table_gives_as_good_a_plan() {
    let options = PlanOptions { order: Order::Preserve, ..PlanOptions::default() };
    each_usual(400, 150, |(steps, left_out)| {
        for (range, before) in [(0..60_000, 0), (150..59_850, 7), (77..58_011, 0)] {
            let of = Table { rows: 400, width: 150, steps, left_out }.cells(range.clone(), before);
            let outline = of.outline(None).unwrap_or_else(|| panic!("{steps:?}: {range:?}"));
            let recorded: usize = outline.outline().iter().map(ExactSizeIterator::len).sum();
            assert!(recorded * 5 < of.range.len(), "{recorded}");
            let plan =
                of_table(&outline, &of.shapes(), &options, &Team(2)).unwrap_or_else(|| panic!("{steps:?}: {range:?}"));
            check_tiles(&of, &plan);
            let (whole, tiles) = (of.plan(&options, 2), plan.tiles.as_ref().unwrap());
            assert_eq!(tiles.width, whole.tiles.as_ref().unwrap().width);
            assert!(parallelism(&plan) > 0.95 * parallelism(&whole), "{} {}", plan.facts.reason, whole.facts.reason);
        }
    });
}

/// What is left out where nothing was recorded does no harm.
#[test]
fn the_outline_of_a_table_with_a_hole() {
    let hole = |row: usize, column: usize| (40..90).contains(&row) && (30..50).contains(&column);
    let of = Table { rows: 400, width: 150, steps: &FIVE_POINTS, left_out: &hole }.cells(0..60_000, 0);
    let plan = of_table(&of.outline(None).unwrap(), &of.shapes(), &tiled(64), &Team(1)).unwrap();
    check_tiles(&of, &plan);
}

/// Loops over pairs that leave out some of the table's borders, and tables of other widths beside.
#[test]
fn rows_of_pairs_that_are_narrower_than_the_tables() {
    for (rows, columns) in [(1..40, 1..50), (1..39, 1..49), (0..40, 2..50), (3..30, 0..41)] {
        each_usual(40, 50, |(steps, left_out)| {
            let table = Table { rows: 40, width: 50, steps, left_out };
            let mut of = table.pairs(rows.clone(), columns.clone(), false);
            let options = PlanOptions { columns: Some(columns.len()), ..tiled(32) };
            let plan = of.plan(&options, 1);
            check_tiles(&of, &plan);
            assert_eq!(plan.tiles.as_ref().unwrap().width, columns.len());
            assert!(parallelism(&plan) > 1.5, "{}", parallelism(&plan));
            same(&plan, &of.plan(&options, 3));
            // Each iteration writes an element of its own in a table without borders, and one in a wider table.
            of.captures.extend([(of.range.len(), true), (rows.end * 77, true)]);
            let cells = rows.clone().flat_map(|row| columns.clone().map(move |column| (row, column)));
            for (k, (row, column)) in cells.enumerate() {
                of.accesses[k].extend([(1, k, true), (2, row * 77 + column, true)]);
                of.accesses[k].extend((row > rows.start).then(|| (2, (row - 1) * 77 + column, false)));
            }
            check_tiles(&of, &of.plan(&options, 1));
        });
    }
}

#[test]
fn the_outline_of_narrower_rows_gives_as_good_a_plan() {
    let options = PlanOptions { order: Order::Preserve, columns: Some(147), ..PlanOptions::default() };
    each_usual(400, 150, |(steps, left_out)| {
        let of = Table { rows: 400, width: 150, steps, left_out }.pairs(1..399, 1..148, false);
        let outline = of.outline(options.columns).unwrap_or_else(|| panic!("{steps:?}"));
        let recorded: usize = outline.outline().iter().map(ExactSizeIterator::len).sum();
        assert!(recorded * 5 < of.range.len(), "{recorded}");
        let plan = of_table(&outline, &of.shapes(), &options, &Team(2)).unwrap_or_else(|| panic!("{steps:?}"));
        check_tiles(&of, &plan);
        let whole = of.plan(&options, 2);
        assert_eq!(plan.tiles.as_ref().unwrap().width, whole.tiles.as_ref().unwrap().width);
        assert!(parallelism(&plan) > 0.95 * parallelism(&whole), "{} {}", plan.facts.reason, whole.facts.reason);
    });
}

#[test]
fn what_is_no_table_has_no_outline() {
    let none = |_: usize, _: usize| false;
    let near: [Step; 2] = [(0, -1, false), (0, 0, true)];
    assert!(Table { rows: 400, width: 150, steps: &near, left_out: &none }.cells(0..60_000, 0).outline(None).is_none());
    // Few rows, and long ones: all of it may be recorded as well.
    let long = Table { rows: 4, width: 15_000, steps: &FIVE_POINTS, left_out: &none };
    assert!(long.cells(0..60_000, 0).outline(None).is_none());
    let scattered: Vec<Vec<Access>> = (0..60_000).map(|i| vec![(0, i * 7919 % 60_000, true)]).collect();
    assert!(Loop { range: 0..60_000, captures: vec![(60_000, true)], accesses: scattered }.outline(None).is_none());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(256) })]

    /// Any steps, any part of the table, cells left out here and there: if there are tiles, they are right.
    #[test]
    fn random_tables(seed: u64, rows in 1..24usize, width in 8..40usize, many in 1..7usize, from in 0..200usize, to in 0..200usize,
                     before in 0..60usize, grain in 1..200usize, holes in 0..3usize) {
        let mut chance = Chance(seed);
        let mut step = |k: usize| {
            let (down, right) = (chance.below(5) as isize - 2, chance.below(5) as isize - 2);
            (down, right, k == 0 || chance.below(4) == 0)
        };
        let steps: Vec<Step> = (0..many).map(&mut step).collect();
        let left_out = |row: usize, column: usize| holes > 0 && Chance(seed ^ (row * width + column) as u64).below(6) < holes;
        let end = (rows * width).saturating_sub(to).max(1);
        let of = Table { rows, width, steps: &steps, left_out: &left_out }.cells(from.min(end - 1)..end, before);
        let plan = of.plan(&tiled(grain), 1);
        if plan.strategy == Strategy::Tiled {
            check_tiles(&of, &plan);
            same(&plan, &of.plan(&tiled(grain), 3));
        }
    }

    /// The same of pairs within a table; steps may lead over the borders of its rows.
    #[test]
    fn random_pairs(seed: u64, rows in 3..24usize, width in 8..40usize, many in 1..7usize, grain in 1..200usize, holes in 0..3usize, wraps: bool) {
        let mut chance = Chance(seed);
        let mut step = |k: usize| {
            let (down, right) = (chance.below(5) as isize - 2, chance.below(5) as isize - 2);
            (down, right, k == 0 || chance.below(4) == 0)
        };
        let steps: Vec<Step> = (0..many).map(&mut step).collect();
        let left_out = |row: usize, column: usize| holes > 0 && Chance(seed ^ (row * width + column) as u64).below(6) < holes;
        let mut part = |n: usize| {
            let start = chance.below(3).min(n - 1);
            start..n - chance.below(3).min(n - start - 1)
        };
        let (within, columns) = (part(rows), part(width));
        let columns_each = Some(columns.len());
        let of = Table { rows, width, steps: &steps, left_out: &left_out }.pairs(within, columns, wraps);
        let options = PlanOptions { columns: columns_each, ..tiled(grain) };
        let plan = of.plan(&options, 1);
        if plan.strategy == Strategy::Tiled {
            check_tiles(&of, &plan);
            same(&plan, &of.plan(&options, 3));
        }
    }
}
