//! Processes that are there but say nothing: stopped ones, and such at the end of a cut wire.

use std::time::{Duration, Instant};

use super::proxy::Wire;
use crate::jobs::job::{Job, LONG, Setting, joining};
use crate::jobs::processes::{Process, a_secret, free_port, ports, signal_to, wait_for};
use crate::jobs::runner::long;

const PATIENCE: Duration = Duration::from_secs(15);
/// A loss must be reported this soon.
const NOTICED: Duration = Duration::from_secs(5);

/// Three workers that joined, with something different about the first.
fn job_of_three(
    with: impl FnOnce(&mut std::process::Command),
    join: impl FnOnce(&str) -> String,
) -> (Job, Vec<Process>) {
    job_under(&[], with, join)
}

/// As [`job_of_three`], with these variables for all.
fn job_under(
    variables: &[(&str, &str)],
    with: impl FnOnce(&mut std::process::Command),
    join: impl FnOnce(&str) -> String,
) -> (Job, Vec<Process>) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(2));
    let setting =
        Setting { workers: 3, listen: Some((&at, &secret)), epochs: LONG, with: variables, ..Setting::default() };
    let job = Job::start(&setting);
    let shared = |command: &mut std::process::Command| _ = command.envs(variables.iter().copied());
    let first = |command: &mut std::process::Command| {
        shared(command);
        with(command);
    };
    let mut workers = vec![joining(&join(&at), &secret, first)];
    workers.extend((0..2).map(|_| joining(&at, &secret, shared)));
    (job, workers)
}

/// Waits for workers whose job is done.
fn all_end(workers: &mut [Process]) {
    for worker in workers {
        worker.wait("a worker whose job is done", Duration::from_secs(6));
    }
}

/// Waits until the driver has told that it lost a process, and why.
fn told(job: &Job, pid: u32, since: Instant) -> String {
    let line = wait_for("word of a lost process", Duration::from_secs(15), || {
        let err = job.driver.err();
        err.lines()
            .find(|line| line.starts_with("warning: lost ") && line.contains(&format!(", pid {pid})")))
            .map(String::from)
    });
    assert!(
        since.elapsed() < NOTICED + Duration::from_millis(500),
        "after {} s: {line}",
        since.elapsed().as_secs_f64()
    );
    line
}

/// It is named within 5 s; when it wakes it ends or joins again, and nothing that it says counts.
pub(crate) fn stopped(expected: &str) {
    let (mut job, mut workers) = job_of_three(|_| {}, str::to_string);
    job.reached(6);
    let pid = workers[0].pid();
    let since = Instant::now();
    workers[0].signal("STOP");
    let line = told(&job, pid, since);
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    assert!(line.contains("worker ") && line.contains(&format!("(host {}, pid {pid})", host.trim())), "{line}");
    let (digest, _) = job.digest("one worker is stopped");
    assert_eq!(digest, expected);
    std::thread::sleep(Duration::from_secs(10).saturating_sub(since.elapsed()));
    assert!(workers[0].ended().is_none());
    workers[0].signal("CONT");
    for worker in &mut workers {
        worker.wait("a worker without a driver", Duration::from_secs(5));
    }
    // And while the job goes on: what it says is refused.
    let (mut job, mut workers) = job_of_three(|_| {}, str::to_string);
    job.reached(3);
    let since = Instant::now();
    workers[0].signal("STOP");
    told(&job, workers[0].pid(), since);
    workers[0].signal("CONT");
    assert_eq!(job.digest("a stopped worker wakes").0, expected);
    all_end(&mut workers);
    // One of the driver's own is replaced.
    let mut job = Job::start(&Setting { workers: 2, ..Setting::default() });
    job.reached(3);
    let pid = job.workers()[1];
    let since = Instant::now();
    signal_to(pid, "STOP");
    told(&job, pid, since);
    assert_eq!(job.digest("a stopped worker is replaced").0, expected);
}

/// A driver that is stopped, alone or with all its processes as by Ctrl-Z, loses nobody, and nobody ends without it.
pub(crate) fn driver_stopped(expected: &str) {
    for (servers, with_all, seconds, epoch) in [(0, false, 12, 5), (2, false, 6, 11), (0, true, 7, 3)] {
        let mut job = Job::start(&Setting { workers: 3, servers, ..Setting::default() });
        job.reached(epoch);
        std::thread::sleep(Duration::from_millis(25 * servers as u64 + 3));
        let others: Vec<u32> = job.workers().into_iter().chain(job.servers()).filter(|_| with_all).collect();
        job.driver.signal("STOP");
        others.iter().for_each(|&pid| signal_to(pid, "STOP"));
        let seconds = if long() { seconds + 20 } else { seconds };
        std::thread::sleep(Duration::from_secs(seconds));
        job.driver.signal("CONT");
        std::thread::sleep(Duration::from_millis(300));
        others.iter().for_each(|&pid| signal_to(pid, "CONT"));
        let case = format!("stopped for {seconds} s with {servers} servers, all of them: {with_all}");
        assert_eq!(job.digest(&case), (expected.to_string(), String::new()), "{case}");
    }
}

pub(crate) fn from_driver(expected: &str) {
    let (wire, entry) = Wire::new();
    let lead = wire.clone();
    let (mut job, mut workers) = job_of_three(
        // The wire's end acknowledges all, as the machine of a driver that is stopped would.
        |command| _ = command.env("STRADSAP_DRIVER_PAUSE", "4"),
        move |at| {
            lead.leads_to(at.parse().unwrap());
            entry.to_string()
        },
    );
    job.reached(5);
    assert!(wire.bytes() > 1000, "nothing goes through the wire");
    let since = Instant::now();
    wire.cut();
    told(&job, workers[0].pid(), since);
    // It notices as well, tries to join again, and does not stay.
    workers[0].wait("a worker that is cut off", Duration::from_secs(30));
    assert_eq!(job.digest("cut off from the driver").0, expected);
    all_end(&mut workers[1..]);
}

/// `cut` ends the connections or swallows what is sent.
pub(crate) fn from_worker(expected: &str, cut: fn(&Wire)) {
    let (wire, entry) = Wire::new();
    // Others are told that it listens at the wire's end.
    let (mut job, mut workers) =
        job_of_three(|command| _ = command.env("STRADSAP_ADVERTISE", entry.to_string()), str::to_string);
    let pid = workers[0].pid();
    let port = wait_for("the port of a worker", Duration::from_secs(10), || ports(pid).first().copied());
    wire.leads_to(format!("127.0.0.1:{port}").parse().unwrap());
    job.reached(5);
    assert!(wire.bytes() > 1000, "nothing goes through the wire");
    let since = Instant::now();
    cut(&wire);
    // One of the two that can't reach each other has to go; it learns so within the time that a loss may take.
    let line = wait_for("word of a lost process", Duration::from_secs(15), || {
        job.driver.err().lines().find(|line| line.starts_with("warning: lost ")).map(String::from)
    });
    assert!(since.elapsed() < NOTICED + Duration::from_secs(1), "after {} s: {line}", since.elapsed().as_secs_f64());
    assert_eq!(job.digest("cut off from another worker").0, expected);
    all_end(&mut workers);
}

/// Sealed connections of which one is changed on its way: it ends, nothing that was changed counts, and the job goes on without it.
pub(crate) fn falsified(expected: &str) {
    const SEALED: [(&str, &str); 1] = [("STRADSAP_ENCRYPT", "always")];
    let (wire, entry) = Wire::new();
    let lead = wire.clone();
    let to_driver = |at: &str| {
        lead.leads_to(at.parse().unwrap());
        entry.to_string()
    };
    let (mut job, mut workers) = job_under(&SEALED, |_| {}, to_driver);
    job.reached(5);
    let since = Instant::now();
    wire.falsify();
    told(&job, workers[0].pid(), since);
    assert!(!workers[0].wait("a worker that can't be understood", PATIENCE).success());
    assert_eq!(job.digest("what the driver hears is changed").0, expected);
    all_end(&mut workers[1..]);

    let (wire, entry) = Wire::new();
    let (mut job, mut workers) =
        job_under(&SEALED, |command| _ = command.env("STRADSAP_ADVERTISE", entry.to_string()), str::to_string);
    let pid = workers[0].pid();
    let port = wait_for("the port of a worker", PATIENCE, || ports(pid).first().copied());
    wire.leads_to(format!("127.0.0.1:{port}").parse().unwrap());
    job.reached(5);
    wire.falsify();
    wait_for("word of a lost process", PATIENCE, || job.driver.err().contains("warning: lost ").then_some(()));
    assert_eq!(job.digest("what a worker hears is changed").0, expected);
    all_end(&mut workers);
}
