//! Losses one after the other, each when the job has gone on after the one before: none is one too many, and nothing grows.

use std::time::Duration;

use super::alone_after;
use crate::common::below;
use crate::jobs::job::{Job, Setting};
use crate::jobs::processes::{memory, signal_to};
use crate::jobs::runner::{Test, long};
use crate::jobs::written_once::expected;

/// What a process may grow by, in KiB; a snapshot of the job has 160.
const GROWTH: u64 = 16 << 10;

fn setting(workers: usize, servers: usize, snapshot_every: usize) -> Setting<'static> {
    let epochs = usize::MAX;
    Setting { written_once: true, workers, servers, snapshot_every, epochs, threads: 1, ..Setting::default() }
}

/// Ends a job, which must have left what its plain loops leave.
fn ends_well(job: Job, case: &str) {
    let (left, _) = job.ends_now(case);
    assert_eq!(left, expected(&left), "{case}");
}

/// How many losses: `STRADSAP_ROUNDS=n`, otherwise 500 in the long mode.
fn rounds(short: usize) -> usize {
    let asked = std::env::var("STRADSAP_ROUNDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or(if long() { 500 } else { short })
}

/// Memory in KiB, descriptors and threads of a process.
fn of_process(pid: u32) -> (u64, usize, usize) {
    let count = |what: &str| std::fs::read_dir(format!("/proc/{pid}/{what}")).map_or(0, Iterator::count);
    (memory(pid).map_or(0, |(_, now)| now), count("fd"), count("task"))
}

fn assert_flat(case: &str, before: (u64, usize, usize), now: (u64, usize, usize)) {
    assert!(now.0 < before.0 + GROWTH, "{case}: memory of {before:?} has become {now:?}");
    assert!(now.1 <= before.1 + 8, "{case}: descriptors of {before:?} have become {now:?}");
    // Threads that wait for something to do end after some seconds.
    assert!(now.2 <= before.2 + 4, "{case}: threads of {before:?} have become {now:?}");
}

/// Before the first loop, right after a snapshot, in the middle of the log, at the beginning and the end of a loop; each time
/// another process. With a snapshot after each loop the log is empty each time.
fn single() {
    for (servers, snapshot_every) in [(0, 1), (2, 1), (0, 4), (1, 3), (0, 1000)] {
        let mut job = Job::start(&setting(3, servers, snapshot_every));
        for round in 0..8 {
            match round {
                0 => drop(job.driver.line("begins at ", Duration::from_secs(30))),
                1 => drop(job.driver.line("written once", Duration::from_secs(30))),
                _ => std::thread::sleep(Duration::from_micros(below(round as u64, 5000) as u64)),
            }
            let all = if servers > 0 && round % 3 == 2 { job.servers() } else { job.workers() };
            let victim = all[below(round as u64 * 7, all.len())];
            signal_to(victim, "KILL");
            job.goes_on_without(victim);
        }
        ends_well(job, &format!("{servers} servers, a snapshot after {snapshot_every} loops"));
    }
}

/// Single losses for a long time.
fn many() {
    let rounds = rounds(40);
    let mut job = Job::start(&setting(3, 0, 2));
    let mut before = None;
    job.driver.line("written once", Duration::from_secs(30));
    for round in 0..rounds {
        std::thread::sleep(Duration::from_micros(below(round as u64, 8000) as u64));
        let all = job.workers();
        let victim = all[below(round as u64 * 13, all.len())];
        signal_to(victim, "KILL");
        job.goes_on_without(victim);
        if round == 8 {
            before = Some(of_process(job.pid()));
        }
    }
    if let Some(before) = before {
        assert_flat("a driver that has lost many workers", before, of_process(job.pid()));
    }
    ends_well(job, "many losses");
}

/// Where the driver keeps the second copy, it forgets what no snapshot needs.
fn flat() {
    for (workers, servers) in [(1, 0), (2, 1), (2, 0)] {
        let mut job = Job::start(&setting(workers, servers, 1));
        job.reached(100);
        let all: Vec<u32> = job.workers().into_iter().chain(job.servers()).chain([job.pid()]).collect();
        let before: Vec<_> = all.iter().map(|&pid| of_process(pid)).collect();
        job.driver.line("epoch 480 ", Duration::from_secs(90));
        for (&pid, before) in all.iter().zip(before) {
            let case = format!("process {pid} of {workers} workers and {servers} servers after 400 snapshots");
            assert_flat(&case, before, of_process(pid));
        }
        ends_well(job, "a job with many snapshots");
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("one after the other, from the beginning", 400, || alone_after(single)),
        Test::new("many, one after the other", 36_000, || alone_after(many)),
        Test::new("hundreds of snapshots", 400, || alone_after(flat)),
    ]
}
