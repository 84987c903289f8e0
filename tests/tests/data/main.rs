//! Maps and operators: what operators make is what the standard library's iterators make, loops over maps leave what a
//! plain map would hold, and both are the same in one process and on workers.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test data -- random` runs thousands of random programs instead
//! of dozens; `STRADSAP_SEED=n` the one with that seed.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(
    clippy::redundant_closure_for_method_calls,
    clippy::manual_is_multiple_of,
    reason = "closures and loops as programs write them"
)]

#[path = "../common/mod.rs"]
mod common;
mod failures;
#[path = "../jobs/mod.rs"]
mod jobs;
mod keyed;
mod keys;
mod lengths;
mod loops;
mod mapped;
mod places;
mod pool;
mod programs;
#[path = "../cluster/seen.rs"]
mod seen;
mod steps;
mod wandering;

use jobs::runner;
use seen::Scenario;
use stradsap::prelude::*;

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Scenario { name: stringify!($name), run: $module::$name }),*]
    };
}

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

#[stradsap::main]
fn main(_: &Session) -> Result<(), Box<dyn std::error::Error>> {
    runner::run(places::tests(SCENARIOS))
}
