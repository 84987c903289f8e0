//! Jobs whose processes are killed, stopped and cut off: what they leave is what undisturbed ones leave, or they end with
//! an error at once; and nothing of them is left.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test chaos` kills with 50 seeds instead of 5;
//! `STRADSAP_SEED=n` with that one.

#![allow(clippy::unwrap_used)]

#[path = "../common/mod.rs"]
mod common;
#[path = "../jobs/mod.rs"]
mod jobs;
mod kills;
mod minibatches;
mod operators;
mod partitions;
mod proxy;
mod scheduled;

use std::rc::Rc;
use std::time::Duration;

use jobs::job::{Job, LONG, Setting, asked_for};
use jobs::processes::assert_alone;
use jobs::runner::{self, Test};
use stradsap::prelude::*;

/// What every job must leave, however it ran.
fn expected() -> String {
    Job::start(&Setting { epochs: LONG, ..Setting::default() }).digest("a job in one process").0
}

/// A test that is given what the job must leave, and after which nothing may be left.
fn test(name: &'static str, seconds: u64, expected: &Rc<std::cell::OnceCell<String>>, body: fn(&str)) -> Test {
    let cell = Rc::clone(expected);
    Test::new(name, seconds, move || {
        body(cell.get_or_init(self::expected));
        assert_alone(Duration::from_secs(2));
    })
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    if let Some(ended) = asked_for(session) {
        return Ok(ended?);
    }
    let expected = Rc::default();
    let mut tests = vec![
        test("undisturbed", 60, &expected, kills::undisturbed),
        test("one is killed", 3600, &expected, kills::one),
        test("one after the other is killed", 120, &expected, kills::repeated),
        test("all workers are killed", 60, &expected, kills::all),
        test("the driver is killed and resumes", 120, &expected, kills::driver),
        test("a worker of others is killed", 60, &expected, kills::joined),
        test("a worker is stopped for ten seconds", 60, &expected, partitions::stopped),
        test("a worker is cut off from the driver", 60, &expected, partitions::from_driver),
        test("a worker is cut off from another", 60, &expected, |expected| {
            partitions::from_worker(expected, proxy::Wire::sever);
        }),
        test("nothing arrives from one worker at another", 60, &expected, |expected| {
            partitions::from_worker(expected, proxy::Wire::cut);
        }),
    ];
    tests.extend(minibatches::tests());
    tests.extend(operators::tests());
    tests.extend(scheduled::tests());
    runner::run(tests)
}
