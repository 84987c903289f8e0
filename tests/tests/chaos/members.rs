//! Workers that come and go while a job runs: `--workers MIN..MAX`, SIGTERM, and one that joins again after it was put out.

use std::time::Duration;

use crate::jobs::job::{Job, LONG, PAUSE, Setting, joining};
use crate::jobs::processes::{Process, a_secret, free_port, signal_to, wait_for};

const SOON: Duration = Duration::from_secs(15);

/// A worker that joins, and says more about it.
fn one_more(at: &str, secret: &str) -> Process {
    joining(at, secret, |command| _ = command.env("STRADSAP_LOG", "info"))
}

/// Waits until a worker takes part in a generation of this many workers.
fn takes_part(worker: &Process, workers: usize) {
    let word = format!("workers={workers}");
    let said = |line: &str| line.contains("a new generation") && line.contains(&word);
    wait_for("a generation of some workers", SOON, || worker.err().lines().any(said).then_some(()));
}

/// What must be left, and nothing may run again for those who leave: nobody is lost.
fn ends_well(job: Job, expected: &str, leaving: usize) -> String {
    let (digest, err) = job.digest("workers come and go");
    assert_eq!(digest, expected, "{err}");
    assert_eq!(err.matches("leaves the job, since it was told to end").count(), leaving, "{err}");
    assert!(!err.contains("lost"), "{err}");
    err
}

/// From one worker to three, of which the first two are told to end.
fn comes_and_goes(setting: &Setting<'_>, expected: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(7));
    let with: [(&str, &str); 1] = [("STRADSAP_LOG", "info")];
    let setting = Setting { workers: 1, at_most: 3, listen: Some((&at, &secret)), with: &with, ..*setting };
    let mut job = Job::start(&setting);
    let mut workers = vec![one_more(&at, &secret)];
    job.reached(1);
    for count in [2, 3] {
        workers.push(one_more(&at, &secret));
        workers.iter().for_each(|worker| takes_part(worker, count));
        job.goes_on();
    }
    for k in [0, 1] {
        workers[k].signal("TERM");
        let ended = workers[k].wait("a worker that was told to end", SOON);
        assert!(ended.success(), "{ended}: {}", workers[k].err());
        takes_part(&workers[2], 2 - k);
        job.goes_on();
    }
    let err = ends_well(job, expected, 2);
    let anew: Vec<&str> = err.lines().filter(|line| line.contains("recovered")).collect();
    assert!(anew.len() == 4 && anew.iter().all(|line| line.contains("loops=0")), "loops ran again: {anew:?}");
    assert!(workers[2].wait("a worker whose job is done", SOON).success());
}

pub(crate) fn come_and_go(expected: &str) {
    comes_and_goes(&Setting { epochs: LONG, ..Setting::default() }, expected);
    comes_and_goes(&Setting { epochs: LONG, servers: 2, snapshot_every: 1000, ..Setting::default() }, expected);
}

/// The driver starts all that may take part, and the job begins with the first; one that is killed as soon as it is there is replaced.
pub(crate) fn own_come(expected: &str) {
    let mut job = Job::start(&Setting { workers: 1, at_most: 3, epochs: LONG, ..Setting::default() });
    let known = wait_for("a worker", SOON, || Some(job.workers()).filter(|workers| !workers.is_empty()));
    signal_to(known[known.len() - 1], "KILL");
    job.reached(5);
    wait_for("three workers", SOON, || (job.workers().len() == 3).then_some(()));
    job.goes_on();
    assert_eq!(job.workers().len(), 3);
    assert_eq!(job.digest("workers of its own come").0, expected);
}

/// As many copies as workers may take part, however many do.
pub(crate) fn minibatches(_: &str) {
    let setting = |threads| Setting { policy: Some("bsp"), threads, epochs: LONG, ..Setting::default() };
    let expected = Job::start(&setting(3)).digest("minibatches in one process").0;
    comes_and_goes(&setting(1), &expected);
}

/// Where DDS servers have the elements, the job waits for another worker.
pub(crate) fn all_go(expected: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(8));
    let setting = Setting { workers: 1, at_most: 2, servers: 2, epochs: LONG, ..Setting::default() };
    let mut job = Job::start(&Setting { listen: Some((&at, &secret)), ..setting });
    let first = one_more(&at, &secret);
    job.reached(3);
    first.signal("KILL");
    job.says("all workers are gone: waiting for others to join", SOON);
    let mut second = one_more(&at, &secret);
    job.goes_on();
    assert_eq!(job.digest("all workers go").0, expected);
    assert!(second.wait("a worker whose job is done", SOON).success());
}

/// One that the driver has started and that is told to end leaves as others do, and is replaced. The timeline has what it did.
pub(crate) fn own(expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.json");
    let with: [(&str, &str); 1] = [("STRADSAP_TRACE", trace.to_str().unwrap())];
    let mut job = Job::start(&Setting { workers: 2, epochs: LONG, with: &with, ..Setting::default() });
    job.reached(3);
    let known = job.workers();
    signal_to(known[0], "TERM");
    let newcomer = job.newcomer(&known);
    job.goes_on();
    ends_well(job, expected, 1);
    let trace = std::fs::read_to_string(trace).unwrap();
    for pid in known.into_iter().chain([newcomer]) {
        assert!(trace.contains(&format!("pid {pid})")), "no process {pid} in the timeline");
    }
}

/// A worker that was stopped for too long joins again when it wakes.
pub(crate) fn again(expected: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(9));
    // Long enough for it to come back.
    let setting = Setting { workers: 2, epochs: LONG, with: &[(PAUSE, "200")], ..Setting::default() };
    let mut job = Job::start(&Setting { listen: Some((&at, &secret)), ..setting });
    let mut workers: Vec<_> = (0..2).map(|_| one_more(&at, &secret)).collect();
    job.reached(2);
    workers[0].signal("STOP");
    job.goes_on_without(workers[0].pid());
    workers[0].signal("CONT");
    wait_for("a worker that joins again", SOON, || workers[0].err().contains("and joins again").then_some(()));
    wait_for("its second generation", SOON, || {
        let err = workers[0].err();
        err.split("and joins again").nth(1).is_some_and(|since| since.contains("a new generation")).then_some(())
    });
    job.goes_on();
    assert_eq!(job.digest("a worker joins again").0, expected);
    for worker in &mut workers {
        assert!(worker.wait("a worker whose job is done", SOON).success(), "{}", worker.err());
    }
}
