//! Loops that take longer than workers live: what has been done of them is kept.

use std::time::{Duration, Instant};

use super::alone_after;
use crate::common::below;
use crate::jobs::job::{Job, Setting};
use crate::jobs::processes::{runs, signal_to, wait_for};
use crate::jobs::runner::{Test, seeds};
use crate::jobs::slow::SLOW_LOOPS;

/// Each worker dies about this long after another.
const EVERY: u64 = 1500;

fn killed_all_the_time() {
    let quick = [(SLOW_LOOPS, "0")];
    let expected = Job::start(&Setting { with: &quick, ..Setting::default() }).digest("a job in one process").0;
    for seed in seeds(1, 8) {
        let case = super::seed_of(seed, "slow");
        // Each loop takes 2 to 3 seconds, if nobody dies.
        let with = [(SLOW_LOOPS, "3")];
        let (servers, snapshot_every) = [(0, 3), (2, 1), (1, 1000)][below(seed, 3)];
        let setting = Setting { workers: 3, servers, snapshot_every, threads: 1, with: &with, ..Setting::default() };
        let mut job = Job::start(&setting);
        job.driver.line("begins at ", Duration::from_secs(30));
        let (begun, mut kills) = (Instant::now(), 0);
        loop {
            std::thread::sleep(Duration::from_millis(EVERY / 2 + below(seed * 1000 + kills, EVERY as usize) as u64));
            let workers = job.workers();
            if !runs(job.pid()) || workers.is_empty() || job.driver.out().contains("digest ") {
                break;
            }
            signal_to(workers[below(seed * 1000 + 500 + kills, workers.len())], "KILL");
            kills += 1;
            assert!(begun.elapsed() < Duration::from_secs(240), "{case}: {}\n{}", job.driver.out(), job.driver.err());
        }
        assert!(kills > 5, "{case}: {kills} kills");
        assert_eq!(job.digest(&case).0, expected, "{case}: {kills} kills");
    }
}

/// A loop goes on in halves, and then its body fails: the job itself looks whether the halves before have left something.
fn fails_in_a_half() {
    let with = [(SLOW_LOOPS, "3"), ("STRADSAP_LOG", "info")];
    let mut job = Job::start(&Setting { workers: 3, threads: 1, with: &with, ..Setting::default() });
    let last_begins = |job: &Job| job.driver.out().matches("without conflicts").count() == 2;
    wait_for("the loop that fails", Duration::from_secs(60), || last_begins(&job).then_some(()));
    let halves = |job: &Job| job.driver.err().contains("goes on in halves");
    assert!(!halves(&job), "{}", job.driver.err());
    // What is lost within a second of its beginning is run again as a whole.
    while !halves(&job) {
        std::thread::sleep(Duration::from_millis(1400));
        assert!(!job.driver.out().contains("failed true"), "{}", job.driver.err());
        let victim = job.workers()[1];
        signal_to(victim, "KILL");
        let word = format!(", pid {victim})");
        wait_for("word of a loss", Duration::from_secs(15), || job.driver.err().contains(&word).then_some(()));
        std::thread::sleep(Duration::from_millis(100));
    }
    job.driver.line("failed true", Duration::from_secs(60));
    let quick = [(SLOW_LOOPS, "0")];
    let expected = Job::start(&Setting { with: &quick, ..Setting::default() }).digest("a job in one process").0;
    assert_eq!(job.digest("a loop that fails in halves").0, expected);
}

/// Which worker runs what for how long.
fn named() {
    let with = [(SLOW_LOOPS, "2"), ("STRADSAP_SLOW_BODY", "1")];
    let job = Job::start(&Setting { workers: 2, threads: 1, with: &with, ..Setting::default() });
    let (_, err) = job.digest("slow bodies");
    let is_named = |line: &str| {
        line.starts_with("warning: ")
            && line.contains("slow.rs:")
            && line.contains(": block 0 has been running for 1 second on worker ")
    };
    assert!(err.lines().any(is_named), "{err}");
    let none = [(SLOW_LOOPS, "2"), ("STRADSAP_SLOW_BODY", "0")];
    let job = Job::start(&Setting { workers: 2, threads: 1, with: &none, ..Setting::default() });
    assert_eq!(job.digest("slow bodies that nobody wants to hear of").1, "");
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("longer than workers live", 2400, || alone_after(killed_all_the_time)),
        Test::new("a body fails when its loop goes on in halves", 180, || alone_after(fails_in_a_half)),
        Test::new("bodies that don't end are named", 120, || alone_after(named)),
    ]
}
