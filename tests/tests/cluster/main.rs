//! The same programs in one process and on many: what they leave is the same, bit for bit.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test cluster -- random` runs thousands of random loops instead
//! of a hundred; `STRADSAP_SEED=n` the one with that seed.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../jobs/mod.rs"]
mod jobs;
mod matrix;
mod measures;
#[path = "../random_loops/program.rs"]
mod program;
mod random;
mod relaxed;
#[path = "../random_loops/running.rs"]
mod running;
mod seen;
mod strategies;
mod troubles;
mod values;

use jobs::runner;
use seen::Scenario;
use stradsap::prelude::*;

macro_rules! scenarios {
    ($($module:ident :: $name:ident),* $(,)?) => {
        &[$(Scenario { name: stringify!($name), run: $module::$name }),*]
    };
}

const SCENARIOS: &[Scenario] = scenarios![
    strategies::factorisation,
    strategies::long_factorisation,
    strategies::preserving_factorisation,
    strategies::preserve_is_the_plain_loop,
    strategies::stencil,
    strategies::in_step,
    strategies::in_step_by_index,
    strategies::strategies,
    strategies::nothing_is_parallel,
    strategies::sparse,
    strategies::small,
    strategies::alternating,
    values::reductions,
    values::strings,
    values::lists,
    values::enums,
    values::by_serde,
    values::odd_sizes,
    values::several_at_once,
    values::captured_values,
    values::generic,
    troubles::changing_patterns,
    troubles::unforeseeable,
    troubles::misleading_sample,
    troubles::failures,
    troubles::nested,
    troubles::caught,
    troubles::between_loops,
    troubles::made_and_dropped,
    troubles::verified,
    troubles::reuse,
    relaxed::relaxed_counts,
    relaxed::relaxed_floats,
    relaxed::relaxed_everywhere,
    relaxed::relaxed_failures,
    relaxed::scratch,
];

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    if let Ok(chosen) = std::env::var("STRADSAP_TEST_SCENARIOS") {
        if std::env::var_os("STRADSAP_TEST_MEMORY").is_some() {
            return Ok(measures::use_memory(session)?);
        }
        matrix::print_all(session, SCENARIOS, &chosen);
        return Ok(());
    }
    let mut tests = matrix::tests(SCENARIOS);
    tests.extend(measures::tests());
    tests.extend(random::tests());
    runner::run(tests)
}
