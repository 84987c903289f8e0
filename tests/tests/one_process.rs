//! Tests of loops in this process, under the standard harness. Those on workers are in `workers.rs`.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bodies;
mod captured;
mod checkpoint;
mod decoding;
mod documentation;
mod drops;
mod elements;
mod failures;
mod first_calls;
mod generated;
mod grain;
mod kept_plans;
mod matrices;
mod matrix_files;
mod misspeculation;
mod odd;
mod old;
mod options;
mod outcomes;
mod plans;
mod poisoned;
mod programs;
mod races;
mod random;
mod random_loops;
mod ranges;
mod recording;
mod reductions;
mod relaxed;
mod rows;
mod seen;
mod sharing;
mod slices;
mod sound;
mod summing;
mod sums;
mod tables;
mod threads;
mod tiles;
mod undone;
mod values;
mod verified;
mod views;

use stradsap_test_jobs::common;

/// Runs scenarios in this process, where each asserts what it expects.
pub(crate) fn on_1_2_and_4_threads(scenarios: &[seen::Scenario]) {
    for threads in [1, 2, 4] {
        let session = common::session(threads);
        for scenario in scenarios {
            (scenario.run)(&session, &mut seen::Seen::default())
                .unwrap_or_else(|error| panic!("{}: {error}", scenario.name));
        }
    }
}
