//! Maps and operators: what operators make is what the standard library's iterators make, loops over maps leave what a
//! plain map would hold, and both are the same in one process and on workers.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test workers -- data::random` runs thousands of random
//! programs instead of dozens; `STRADSAP_SEED=n` the one with that seed.

#![allow(
    clippy::redundant_closure_for_method_calls,
    clippy::manual_is_multiple_of,
    reason = "closures and loops as programs write them"
)]

mod failures;
mod keyed;
mod keys;
mod lengths;
mod loops;
mod mapped;
mod pool;
mod programs;
mod steps;
mod wandering;

use crate::jobs::runner::{Test, long};
use crate::places::{self, ALONE, Expected, Place, place};
use crate::scenarios;
use crate::seen::Scenario;

const SCENARIOS: &[Scenario] = scenarios![
    programs::random_programs,
    lengths::lengths,
    lengths::many,
    keys::words,
    keys::several_maps,
    keys::many_values,
    keys::preserved,
    keys::removed,
    keys::whole_maps,
    mapped::factorisation,
    mapped::in_minibatches,
    wandering::random_loops_over_maps,
    failures::closures_that_panic,
    failures::out_of_range,
    failures::missing_keys,
    failures::nested,
    failures::refused,
];

const PLACES: [Place; 6] = [ALONE, place(0, 2, 0), place(0, 3, 0), place(1, 1, 0), place(2, 2, 0), place(3, 1, 2)];

pub(crate) fn tests() -> Vec<Test> {
    // Loops are replayed in their serial order and compared, but where scenarios do that themselves.
    places::tests(&PLACES, &Expected::new(ALONE, Place::verified), if long() { 7200 } else { 120 }, SCENARIOS)
}
