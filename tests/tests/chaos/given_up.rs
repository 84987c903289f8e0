//! The driver gives up its memory of what workers or servers store: the bits stay, and its memory doesn't grow with the data.

use std::path::Path;
use std::time::Duration;

use super::alone_after;
use crate::jobs::job::{Job, Setting};
use crate::jobs::processes::{signal_to, wait_for};
use crate::jobs::runner::{Test, long};
use crate::jobs::sets::SETS;

/// Each epoch has 12 MB of data,
const DATA: u64 = 12_000;
const EPOCHS: [usize; 2] = [6, 24];
/// The driver keeps 2 MiB of them.
const KEPT: [(&str, &str); 2] = [(SETS, "1"), ("STRADSAP_DRIVER_MEMORY", "2")];

fn setting<'s>(workers: usize, servers: usize, epochs: usize, folder: &'s Path) -> Setting<'s> {
    Setting { workers, servers, epochs, threads: 1, with: &KEPT, checkpoints: Some(folder), ..Setting::default() }
}

/// What a job left, and its driver's peak in KiB; something is done to it first.
fn outcome(workers: usize, servers: usize, epochs: usize, happens: impl FnOnce(&mut Job)) -> (String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let mut job = Job::start(&setting(workers, servers, epochs, folder.path()));
    happens(&mut job);
    let peak = job.driver.line("peak ", Duration::from_secs(60)).parse().unwrap();
    let case = format!("{epochs} epochs on {workers} workers with {servers} servers");
    let (digest, _) = job.digest(&case);
    eprintln!("{case}: the driver's peak was {peak} KiB");
    (digest, peak)
}

/// The data grow by 216 MB: of that not a sixteenth is the driver's. Buffers that come and go differ by some megabytes.
fn assert_flat(case: &str, few: u64, many: u64) {
    let grown = DATA * (EPOCHS[1] - EPOCHS[0]) as u64;
    assert!(many <= few + grown / 16, "{case}: {few} KiB have become {many}");
}

fn flat() {
    let [few, many] = EPOCHS;
    let (expected, alone) = outcome(0, 0, many, |_| {});
    let all: &[_] = &[(1, 0), (3, 0), (3, 2), (2, 0), (1, 2)];
    for &(workers, servers) in &all[..if long() { 5 } else { 3 }] {
        let (digest, peak) = outcome(workers, servers, many, |_| {});
        assert_eq!(digest, expected, "{workers} workers, {servers} servers");
        // A single worker can't store anything twice.
        if workers + servers > 1 {
            let (_, before) = outcome(workers, servers, few, |_| {});
            assert_flat(&format!("{workers} workers, {servers} servers"), before, peak);
            assert!(2 * peak < alone, "{alone} KiB alone, {peak} in the driver");
        }
    }
}

/// A worker is killed and another one after that: without servers when the job has gone on, else while the first one's replacement
/// comes. Then the same with the replacement itself.
fn kill(job: &mut Job, workers: usize, servers: usize) {
    job.reached(2);
    let before = job.workers();
    signal_to(before[0], "KILL");
    if servers == 0 {
        job.goes_on_without(before[0]);
        job.goes_on();
        signal_to(before[1], "KILL");
        return;
    }
    job.newcomer(&before);
    signal_to(before[1], "KILL");
    job.goes_on_without(before[1]);
    let before =
        wait_for("all workers", Duration::from_secs(15), || Some(job.workers()).filter(|all| all.len() == workers));
    signal_to(before[0], "KILL");
    signal_to(job.newcomer(&before), "KILL");
}

fn killed() {
    let [few, many] = EPOCHS;
    let (expected, _) = outcome(0, 0, many, |_| {});
    for (workers, servers) in [(3, 0), (3, 2), (2, 2)] {
        let (digest, peak) = outcome(workers, servers, many, |job| kill(job, workers, servers));
        assert_eq!(digest, expected, "{workers} workers, {servers} servers");
        let (_, before) = outcome(workers, servers, few, |_| {});
        assert_flat(&format!("kills of {workers} workers, {servers} servers"), before, peak);
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("the driver's memory is flat", 300, || alone_after(flat)),
        Test::new("workers are killed", 300, || alone_after(killed)),
    ]
}
