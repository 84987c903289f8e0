//! Tests of loops in this process, under the standard harness. Those on workers are in `workers.rs`.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod bodies;
mod captured;
mod checkpoint;
mod common;
mod decoding;
mod documentation;
mod drops;
mod elements;
mod failures;
mod grain;
mod misspeculation;
mod options;
mod outcomes;
mod plans;
mod programs;
mod races;
mod random;
mod random_loops;
mod ranges;
mod recording;
mod reductions;
mod relaxed;
mod seen;
mod sharing;
mod slices;
mod sound;
mod summing;
mod sums;
mod threads;
mod values;
mod verified;
mod views;
