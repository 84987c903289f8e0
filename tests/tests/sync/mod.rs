//! Synchronous loops: what their policies promise, in this process and on workers.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test workers -- sync` runs thousands of random programs instead of hundreds;
//! `STRADSAP_SEED=n` the one with that seed.

mod combining;
mod counters;
mod dealt;
mod failures;
mod interest;
mod interpreter;
mod keys;
mod kinds;
mod maps;
mod patterns;
mod places;
mod policies;
mod program;
mod random;
mod running;
mod staleness;
mod values;

use crate::jobs::runner::Test;
use crate::scenarios;
use crate::seen::Scenario;

const SCENARIOS: &[Scenario] = scenarios![
    kinds::numbers,
    kinds::rows,
    kinds::matrices,
    kinds::own_merges,
    kinds::inputs,
    kinds::rows_as_input,
    values::reductions,
    values::values_and_readers,
    kinds::odd_shapes,
    patterns::foreseen,
    patterns::not_foreseen,
    patterns::another_pattern,
    patterns::changing_policies,
    patterns::loops_that_share,
    patterns::both_loops_in_turn,
    patterns::between_loops,
    patterns::made_and_dropped,
    patterns::uneven,
    failures::failures,
    dealt::wherever_rows_lie,
    dealt::in_turns,
    dealt::on_demand_from_the_first_call,
    maps::maps_beside_their_twins,
    maps::maps_without_entries,
    maps::maps_among_others,
    maps::maps_of_all_loops,
    maps::maps_after_failures,
    keys::words_are_counted,
    keys::one_key_from_several_copies,
    keys::changes_are_combined,
    keys::lists_grow_in_order,
    keys::keys_come_from_everywhere,
    keys::nothing_new_after_failures,
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = policies::tests();
    tests.extend(combining::tests());
    tests.extend(places::tests(SCENARIOS));
    tests.extend(failures::tests());
    tests.extend(maps::tests());
    tests.extend(keys::tests());
    tests.extend(counters::tests());
    tests.extend(staleness::tests());
    tests.extend(interest::tests());
    tests.extend(dealt::tests());
    tests.extend(random::tests());
    tests
}
