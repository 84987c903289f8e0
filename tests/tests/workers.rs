//! Tests that start workers, which are this executable once more: hence a `main` of its own instead of the standard harness.
//! A test's name begins with its module's: `cargo test -p stradsap-tests --test workers -- sync::`.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod chaos;
mod cluster;
mod common;
mod data;
mod hostile;
mod jobs;
mod places;
mod random;
mod scheduled;
mod seen;
mod sync;

use jobs::{job, runner};
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    // Some tests start this executable to be the program that they look at.
    if let Some(ended) = job::asked_for(session).or_else(|| cluster::asked_for(session)) {
        return Ok(ended?);
    }
    runner::run(vec![
        // Those that take longest first.
        ("chaos", chaos::tests()),
        ("sync", sync::tests()),
        ("chaos::operators", chaos::operators::tests()),
        ("chaos::minibatches", chaos::minibatches::tests()),
        ("chaos::scheduled", chaos::scheduled::tests()),
        (cluster::GROUP, cluster::tests()),
        ("data", data::tests()),
        ("hostile", hostile::tests()),
        ("scheduled", scheduled::tests()),
    ])
}
