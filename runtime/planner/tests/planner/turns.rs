//! Places of a block that take turns, where neighbours write the same element.

use stradsap_planner::plan::{Plan, plan};
use stradsap_planner::{PlanOptions, Strategy};

use crate::loops::{Loop, Team};

/// Ratings sorted by user, each with an item.
fn sorted() -> Loop {
    let touched = |i: usize| vec![(0, i, false), (1, i / 128, true), (2, i * 7919 % 61, true)];
    Loop {
        range: 0..8192,
        captures: vec![(8192, false), (64, true), (64, true)],
        accesses: (0..8192).map(touched).collect(),
    }
}

/// Whether each block keeps the loop's order.
fn in_order(plan: &Plan) -> bool {
    assert_eq!(plan.strategy, Strategy::Grid);
    plan.blocks.iter().all(|block| plan.offsets[block.start..block.end].is_sorted())
}

#[test]
fn rows_that_own_memory_are_read_one_after_the_other() {
    let sorted = sorted();
    let mut shapes = sorted.shapes();
    let options = PlanOptions { strategy: Some(Strategy::Grid), ..PlanOptions::default() };
    assert!(!in_order(&plan(&sorted.record_all(), &shapes, &options, &Team(2))));
    shapes[0].owning = true;
    assert!(in_order(&plan(&sorted.record_all(), &shapes, &options, &Team(2))));
}
