//! Tests of loops in this process, under the standard harness. Those on workers are in `workers.rs`.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bodies;
mod checkpoint;
mod decoding;
mod documentation;
mod drops;
mod elements;
mod failures;
mod first_calls;
mod grain;
mod matrix_files;
mod misspeculation;
mod options;
mod outcomes;
mod plans;
mod races;
mod random;
mod random_loops;
mod recording;
mod reductions;
mod relaxed;
mod seen;
mod several;
mod sharing;
mod sound;
mod summing;
mod sums;
mod threads;
mod values;
mod verified;

use stradsap_test_jobs::common;
