//! Scheduled programs: one body for every number of threads and workers and every depth of the pipeline.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod failures;
mod interpreter;
#[path = "../jobs/mod.rs"]
mod jobs;
mod models;
mod places;
mod program;
mod random;
#[path = "../cluster/seen.rs"]
mod seen;
mod trips;

use jobs::runner;
use seen::Scenario;
use stradsap::prelude::*;

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Scenario { name: stringify!($name), run: $module::$name }),*]
    };
}

const SCENARIOS: &[Scenario] = scenarios![
    random::light,
    random::heavy,
    random::one_after_the_other,
    failures::panics,
    failures::misuse,
    failures::unsteady,
    models::lasso,
    models::rotation,
    models::factorisation,
];

#[stradsap::main]
fn main(_: &Session) -> Result<(), Box<dyn std::error::Error>> {
    let mut tests = places::tests(SCENARIOS);
    tests.extend(trips::tests());
    runner::run(tests)
}
