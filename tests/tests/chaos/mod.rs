//! Jobs whose processes are killed, stopped and cut off: what they leave is what undisturbed ones leave, or they end with
//! an error at once; and nothing of them is left.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test workers -- chaos` kills with 50 seeds instead of 5;
//! `STRADSAP_SEED=n` with that one.

pub(crate) mod given_up;
mod kills;
pub(crate) mod losses;
mod members;
pub(crate) mod minibatches;
pub(crate) mod operators;
pub(crate) mod pairs;
mod partitions;
mod proxy;
pub(crate) mod scheduled;
pub(crate) mod second;
pub(crate) mod slow;

use std::rc::Rc;
use std::time::Duration;

use crate::jobs::job::{Job, LONG, Setting};
use crate::jobs::processes::assert_alone;
use crate::jobs::runner::{Test, repeat};

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

/// Nothing is left after a test.
fn alone_after(body: fn()) {
    body();
    assert_alone(Duration::from_secs(2));
}

/// The command that runs a test here again with one seed.
fn seed_of(seed: u64, test: &str) -> String {
    format!("STRADSAP_SEED={seed} {}", repeat(&format!("chaos::{test}")))
}

pub(crate) fn tests() -> Vec<Test> {
    let expected = Rc::default();
    vec![
        test("undisturbed", 60, &expected, kills::undisturbed),
        test("one is killed", 3600, &expected, kills::one),
        test("one after the other is killed", 120, &expected, kills::repeated),
        test("some are killed with elements at servers", 60, &expected, kills::at_servers),
        test("all workers are killed", 60, &expected, kills::all),
        test("the driver is killed and resumes", 120, &expected, kills::driver),
        test("a worker of others is killed", 60, &expected, kills::joined),
        test("a worker is stopped for ten seconds", 60, &expected, partitions::stopped),
        test("the driver is stopped", 180, &expected, partitions::driver_stopped),
        test("a worker is cut off from the driver", 60, &expected, partitions::from_driver),
        test("a worker is cut off from another", 60, &expected, |expected| {
            partitions::from_worker(expected, proxy::Wire::sever);
        }),
        test("nothing arrives from one worker at another", 60, &expected, |expected| {
            partitions::from_worker(expected, proxy::Wire::cut);
        }),
        test("workers come and go", 120, &expected, members::come_and_go),
        test("workers come and go: minibatches", 120, &expected, members::minibatches),
        test("workers of its own come", 60, &expected, members::own_come),
        test("all workers go", 60, &expected, members::all_go),
        test("a worker is told to end", 60, &expected, members::own),
        test("a worker joins again", 60, &expected, members::again),
        test("one is killed where all is sealed", 60, &expected, kills::sealed),
        test("what passes is changed where all is sealed", 120, &expected, partitions::falsified),
    ]
}
