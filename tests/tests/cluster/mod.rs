//! The same programs in one process and on many: what they leave is the same, bit for bit.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test workers -- "random loops"` runs thousands of random loops
//! instead of a hundred; `STRADSAP_SEED=n` the one with that seed.

mod matrix;
mod measures;
mod random;
mod relaxed;
mod strategies;
mod troubles;
mod values;

use stradsap::prelude::*;

use crate::jobs::runner::Test;
use crate::scenarios;
use crate::seen::Scenario;

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

pub(crate) const GROUP: &str = "cluster";

/// The program that runs some scenarios, where this process is to be it.
pub(crate) fn asked_for(session: &Session) -> Option<stradsap::Result<()>> {
    let chosen = std::env::var("STRADSAP_TEST_SCENARIOS").ok()?;
    if std::env::var_os("STRADSAP_TEST_MEMORY").is_some() {
        return Some(measures::use_memory(session));
    }
    if std::env::var_os("STRADSAP_TEST_THREADS").is_some() {
        return Some(measures::say_copies(session));
    }
    matrix::print_all(session, SCENARIOS, &chosen);
    Some(Ok(()))
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = matrix::tests(SCENARIOS);
    tests.extend(measures::tests());
    tests.extend(random::tests());
    tests
}
