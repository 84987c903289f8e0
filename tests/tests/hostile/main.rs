//! Strangers at the ports of a running job, and processes that don't belong together: they are refused, and the job goes on
//! as if they were not there.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../jobs/mod.rs"]
mod jobs;
mod refused;
mod strangers;

use std::time::Duration;

use jobs::job::asked_for;
use jobs::processes::assert_alone;
use jobs::runner::{self, Test};
use stradsap::prelude::*;

fn test(name: &'static str, seconds: u64, body: fn()) -> Test {
    Test::new(name, seconds, move || {
        body();
        assert_alone(Duration::from_secs(2));
    })
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(ended) = asked_for(session) {
        return Ok(ended?);
    }
    runner::run(vec![
        test("strangers are refused and the job is not disturbed", 120, strangers::all_at_once),
        test("a worker with another secret is refused", 30, refused::another_secret),
        test("a worker of another build is refused", 30, refused::another_build),
        test("a worker without a secret does not start", 30, refused::no_secret),
        test("other machines are not let in without a secret", 30, refused::exposed),
        test("a secret that others can read is refused", 30, refused::readable_secret),
    ])
}
