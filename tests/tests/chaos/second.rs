//! A second fault while the first one is being handled, and faults of processes that have not joined yet.

use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use super::alone_after;
use crate::jobs::job::{Job, Setting};
use crate::jobs::processes::{signal_to, wait_for};
use crate::jobs::runner::Test;
use crate::jobs::written_once::{SLOW, expected};

/// Without servers the driver keeps what it has: several workers may be lost at once.
const KEPT: &[(&str, &str)] = &[("STRADSAP_DRIVER_MEMORY", "64")];

fn setting(workers: usize, servers: usize) -> Setting<'static> {
    let with = if servers == 0 { KEPT } else { &[] };
    Setting { written_once: true, workers, servers, epochs: usize::MAX, threads: 1, with, ..Setting::default() }
}

/// Ends a job, which must have left what its plain loops leave; gives what it wrote as warnings.
fn ends_well(job: Job, case: &str) -> String {
    let (left, err) = job.ends_now(case);
    assert_eq!(left, expected(&left), "{case}");
    err
}

fn kill_all(pids: &[u32]) {
    pids.iter().for_each(|&pid| signal_to(pid, "KILL"));
}

/// Another worker dies while the first one's replacement is started; and all do, that one included.
fn while_recovering() {
    let mut alone = Job::start(&setting(0, 0));
    alone.reached(SLOW + 2);
    ends_well(alone, "a job in one process");
    // Without servers two neighbours may have both copies of a part, unless there was no snapshot yet.
    for (workers, servers, of, snapshot_every) in [
        (4, 2, "another", 3),
        (4, 0, "another", 1000),
        (3, 2, "all", 3),
        (3, 1, "all", 3),
        (3, 2, "all at once", 3),
        (3, 0, "all at once", 1000),
    ] {
        let case = format!("{of} of {workers} workers with {servers} servers");
        let mut job = Job::start(&Setting { snapshot_every, ..setting(workers, servers) });
        job.reached(SLOW + 2);
        let before = job.workers();
        let since = Instant::now();
        if of == "all at once" {
            kill_all(&before);
        } else {
            signal_to(before[0], "KILL");
            let newcomer = job.newcomer(&before);
            kill_all(if of == "another" { &before[2..3] } else { &before[1..] });
            if of == "all" {
                signal_to(newcomer, "KILL");
            }
        }
        job.goes_on_without(before[if of == "another" { 2 } else { 1 }]);
        // It does not wait in vain for somebody who can't come.
        assert!(since.elapsed() < Duration::from_secs(6), "{case}: {:?}\n{}", since.elapsed(), job.driver.err());
        wait_for("all workers", Duration::from_secs(10), || (job.workers().len() == workers).then_some(()));
        ends_well(job, &case);
    }
}

/// A replacement that dies before it has joined is replaced itself, and the next loss is one like others.
fn of_a_replacement() {
    let mut job = Job::start(&setting(3, 0));
    job.reached(SLOW + 2);
    let mut known = job.workers();
    signal_to(known[1], "KILL");
    let word = "; trying again in ";
    // Where the machine is busy with other things, some have joined before they are seen.
    for _ in 0..50 {
        let newcomer = job.newcomer(&known);
        signal_to(newcomer, "KILL");
        known.push(newcomer);
        if job.driver.err().contains(word) {
            break;
        }
    }
    job.says(word, Duration::from_secs(5));
    job.says("that was started as process ", Duration::from_secs(1));
    job.goes_on();
    let all = wait_for("all workers", Duration::from_secs(20), || Some(job.workers()).filter(|all| all.len() == 3));
    // Until they take part.
    (0..4).for_each(|_| job.goes_on());
    signal_to(all[0], "KILL");
    job.goes_on_without(all[0]);
    ends_well(job, "a replacement dies");
}

/// Nothing can be started for a while: the others go on, and later there are all again.
fn of_starting() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("job");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let may_run = |may: bool| {
        let mode = std::fs::Permissions::from_mode(if may { 0o755 } else { 0o644 });
        std::fs::set_permissions(&program, mode).unwrap();
    };
    may_run(true);
    let mut job = Job::start(&Setting { program: Some(&program), ..setting(3, 0) });
    job.reached(SLOW + 2);
    may_run(false);
    let victim = job.workers()[2];
    signal_to(victim, "KILL");
    job.goes_on_without(victim);
    job.says("a worker could not be started: ", Duration::from_secs(1));
    job.says("going on with 2 workers while 1 processes are not there", Duration::from_secs(1));
    may_run(true);
    wait_for("all workers", Duration::from_secs(20), || (job.workers().len() == 3).then_some(()));
    ends_well(job, "nothing can be started for a while");
}

/// The driver has no file descriptors left for a while, and a worker is lost: nobody else is given up, and later there are all again.
fn of_descriptors() {
    let limit = |job: &Job, soft: &str| {
        let mut command = std::process::Command::new("prlimit");
        let done = command.args(["--pid", &job.pid().to_string(), &format!("--nofile={soft}:")]).status();
        assert!(done.unwrap().success());
    };
    for (servers, seconds) in [(0, 4), (2, 6)] {
        let mut job = Job::start(&setting(3, servers));
        job.reached(SLOW + 2);
        let victim = job.workers()[1];
        limit(&job, "8");
        signal_to(victim, "KILL");
        job.says("Too many open files", Duration::from_secs(10));
        std::thread::sleep(Duration::from_secs(seconds));
        limit(&job, "1024");
        job.goes_on_without(victim);
        wait_for("all workers", Duration::from_secs(40), || (job.workers().len() == 3).then_some(()));
        let case = format!("no descriptors for {seconds} s, {servers} servers");
        let err = ends_well(job, &case);
        assert_eq!(err.matches("warning: lost ").count(), 1, "{case}: {err}");
    }
}

/// Workers that die while the job starts are started again.
fn at_the_start() {
    let mut seen = false;
    for round in 0..6 {
        let mut job = Job::start(&setting(3, round % 2));
        let first = job.newcomer(&[]);
        signal_to(first, "KILL");
        job.reached(SLOW + 2);
        let err = ends_well(job, "a worker dies while the job starts");
        seen |= err.contains(&format!("the worker that was started as process {first} ended with signal 9"));
    }
    assert!(seen, "none died before it had joined");
}

/// More kills from outside than a body has attempts, all in one loop; a limit can be set.
fn from_outside() {
    for limit in [None, Some(4)] {
        let text = limit.map(|limit: usize| limit.to_string()).unwrap_or_default();
        let with = [("STRADSAP_ATTEMPTS", text.as_str()), ("STRADSAP_LOG", "info")];
        let mut job = Job::start(&Setting { with: &with, ..setting(3, 2) });
        job.reached(SLOW - 1);
        std::thread::sleep(Duration::from_millis(50));
        for round in 0..limit.map_or(11, |limit| limit + 1) {
            assert_eq!(job.last_epoch(), Some(SLOW - 1), "the loop was done in spite of {round} kills");
            let before = generation(&job);
            signal_to(job.workers()[0], "KILL");
            if limit.is_some_and(|limit| round == limit) {
                break;
            }
            wait_for("a new generation", Duration::from_secs(10), || (generation(&job) > before).then_some(()));
            std::thread::sleep(Duration::from_millis(40));
        }
        if limit.is_some() {
            let err = job.error("too many losses", Duration::from_secs(10));
            let expected = "error: 5 processes were lost, the last ones before any loop was done";
            assert!(err.contains(expected), "{err}");
        } else {
            job.reached(SLOW + 2);
            ends_well(job, "killed again and again");
        }
    }
}

/// The last generation that workers have heard of.
fn generation(job: &Job) -> usize {
    let err = job.driver.err();
    let all = err.split("a new generation generation=").skip(1);
    all.filter_map(|rest| rest.split(' ').next()?.parse().ok()).max().unwrap_or(0)
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("a second one while the first is replaced", 180, || alone_after(while_recovering)),
        Test::new("a replacement while it starts", 120, || alone_after(of_a_replacement)),
        Test::new("nothing can be started for a while", 120, || alone_after(of_starting)),
        Test::new("no descriptors are left for a while", 180, || alone_after(of_descriptors)),
        Test::new("a worker while the job starts", 120, || alone_after(at_the_start)),
        Test::new("again and again from outside", 120, || alone_after(from_outside)),
    ]
}
