//! Whole clusters in a simulation: driver, workers and DDS servers in one thread, on a network and a clock that a seed decides, under
//! faults that it decides as well. What a program of loops computes is compared with a sequential twin.
//!
//! `STRADSAP_SEED=n cargo test -p stradsap-tests --test simulation` runs the one with that seed, and `STRADSAP_SHOW=1` beside it writes
//! everything that happens; `STRADSAP_SEEDS=n` runs that many, from `STRADSAP_FROM` on.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]
#![allow(clippy::print_stdout, reason = "what the seeds came to is worth reading")]

mod plan;
mod program;
mod seeds;
