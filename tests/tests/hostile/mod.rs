//! Strangers at the ports of a running job, and processes that don't belong together: they are refused, and the job goes on
//! as if they were not there.

mod refused;
mod strangers;

use std::time::Duration;

use crate::jobs::processes::assert_alone;
use crate::jobs::runner::Test;

fn test(name: &'static str, seconds: u64, body: fn()) -> Test {
    Test::new(name, seconds, move || {
        body();
        assert_alone(Duration::from_secs(2));
    })
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        test("strangers are refused and the job is not disturbed", 180, strangers::all_at_once),
        test("idle strangers keep no replacement out", 120, strangers::idle_during_a_loss),
        test("a worker with another secret is refused", 30, refused::another_secret),
        test("a worker of another build is refused", 30, refused::another_build),
        test("a worker without a secret does not start", 30, refused::no_secret),
        test("other machines are not let in without a secret", 30, refused::exposed),
        test("a secret that others can read is refused", 30, refused::readable_secret),
    ]
}
