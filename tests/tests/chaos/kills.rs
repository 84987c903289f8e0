//! SIGKILL to workers, servers and the driver.

use std::time::{Duration, Instant};

use crate::common::below;
use crate::jobs::job::{Job, LONG, Setting, joining};
use crate::jobs::processes::{a_secret, free_port, runs, signal_to, wait_for};
use crate::jobs::runner::{Watch, seeds};

pub(crate) fn undisturbed(expected: &str) {
    for (workers, servers) in [(2, 0), (3, 2)] {
        let (digest, err) = Job::start(&Setting { workers, servers, ..Setting::default() }).digest("undisturbed");
        assert_eq!((digest.as_str(), err.as_str()), (expected, ""), "{workers} workers, {servers} servers");
    }
}

/// A worker or a server, at any moment of any job.
pub(crate) fn one(expected: &str) {
    for seed in seeds(5, 50) {
        let case = super::seed_of(seed, "one is killed");
        let _watch = Watch::new(&case, Duration::from_secs(60));
        let pick = |k: u64, n: usize| below(seed * 10 + k, n);
        let (workers, servers) = (2 + pick(0, 3), if pick(1, 2) == 0 { 0 } else { 2 });
        let setting = Setting { workers, servers, snapshot_every: 1 + pick(2, 5), ..Setting::default() };
        let mut job = Job::start(&setting);
        job.reached(pick(3, LONG / 4));
        std::thread::sleep(Duration::from_micros(pick(4, 60_000) as u64));
        let of_workers = servers == 0 || pick(5, 3) > 0;
        let all = if of_workers { job.workers() } else { job.servers() };
        assert_eq!(all.len(), if of_workers { workers } else { servers }, "{case}");
        let victim = all[pick(6, all.len())];
        signal_to(victim, "KILL");
        let (digest, err) = job.digest(&case);
        let role = if of_workers { "worker" } else { "DDS server" };
        let named = err.lines().any(|line| {
            line.starts_with(&format!("warning: lost {role} "))
                && line.ends_with(&format!(", pid {victim}): signal 9 (SIGKILL)"))
        });
        assert!(named, "{case}: {role} {victim} is not named as killed:\n{err}");
        assert_eq!(digest, expected, "{case}: {workers} workers, {servers} servers");
    }
}

/// Where servers are the home of elements, no call runs again that has ended.
pub(crate) fn at_servers(expected: &str) {
    let with = [("STRADSAP_HOME", "servers"), ("STRADSAP_LOG", "stradsap_runtime=info")];
    let setting = Setting { workers: 3, servers: 2, snapshot_every: 100, with: &with, ..Setting::default() };
    let mut job = Job::start(&setting);
    for round in 0..4usize {
        job.reached(2 + round * 6);
        let all = if round == 2 { job.servers() } else { job.workers() };
        signal_to(all[below(round as u64, all.len())], "KILL");
    }
    let (digest, err) = job.digest("kills with elements at servers");
    let recovered: Vec<&str> = err.lines().filter(|line| line.contains("recovered")).collect();
    assert!(recovered.len() > 1, "{err}");
    assert!(recovered.iter().all(|line| line.contains("loops=0")), "{recovered:#?}");
    assert_eq!(digest, expected);
}

pub(crate) fn repeated(expected: &str) {
    let mut job = Job::start(&Setting { workers: 3, servers: 2, snapshot_every: 4, ..Setting::default() });
    let mut killed = Vec::new();
    for round in 0..6usize {
        job.reached(3 + round * 5);
        let all = if round % 3 == 2 { job.servers() } else { job.workers() };
        let victim = all[below(round as u64, all.len())];
        signal_to(victim, "KILL");
        killed.push(victim);
    }
    let (digest, err) = job.digest("repeated kills");
    for victim in killed {
        assert!(err.contains(&format!("pid {victim}): signal 9")), "{victim} is not named:\n{err}");
    }
    assert_eq!(digest, expected);
}

/// The servers have all that is needed to go on. Without them: an error at once, that names all workers.
pub(crate) fn all(expected: &str) {
    for servers in [0, 1, 2] {
        let mut job = Job::start(&Setting { workers: 3, servers, ..Setting::default() });
        job.reached(5);
        let workers = job.workers();
        assert_eq!(workers.len(), 3);
        let since = Instant::now();
        workers.iter().for_each(|&pid| signal_to(pid, "KILL"));
        if servers > 0 {
            assert_eq!(job.digest("all workers are killed").0, expected);
            continue;
        }
        let err = job.error("all workers are killed", Duration::from_secs(5));
        assert!(since.elapsed() < Duration::from_secs(5));
        let error = err.lines().find(|line| line.starts_with("error: ")).unwrap_or_else(|| panic!("no error:\n{err}"));
        for pid in workers {
            assert!(error.contains(&format!("pid {pid}): signal 9 (SIGKILL)")), "{pid} is not named: {error}");
        }
    }
}

/// Workers and servers end by themselves, and the job goes on from its last checkpoint.
pub(crate) fn driver(expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    for (round, servers) in [(1usize, 0), (2, 2)] {
        let setting = Setting { workers: 2, servers, checkpoints: Some(folder.path()), ..Setting::default() };
        let mut job = Job::start(&setting);
        job.reached(8 * round);
        let others: Vec<u32> = job.workers().into_iter().chain(job.servers()).collect();
        assert_eq!(others.len(), 2 + servers);
        job.driver.signal("KILL");
        wait_for("the end of a lost driver's processes", Duration::from_secs(5), || {
            others.iter().all(|&pid| !runs(pid)).then_some(())
        });
        job.leaves_nothing("a killed driver");
    }
    let mut job = Job::start(&Setting { workers: 3, checkpoints: Some(folder.path()), ..Setting::default() });
    let begins: usize = job.driver.line("begins at ", Duration::from_secs(20)).parse().unwrap();
    assert!(begins >= 16, "it began at {begins}");
    assert_eq!(job.digest("a resumed job").0, expected);
}

/// Connections on one machine are sealed only where that is asked for; it changes no bit.
pub(crate) fn sealed(expected: &str) {
    let with = [("STRADSAP_ENCRYPT", "always")];
    let mut job = Job::start(&Setting { workers: 3, servers: 2, with: &with, ..Setting::default() });
    for (epoch, of_servers) in [(6, false), (14, true)] {
        job.reached(epoch);
        let all = if of_servers { job.servers() } else { job.workers() };
        signal_to(all[1], "KILL");
    }
    assert_eq!(job.digest("kills where all is sealed").0, expected);
    for word in ["yes", "Always"] {
        let job = Job::start(&Setting { workers: 2, with: &[("STRADSAP_ENCRYPT", word)], ..Setting::default() });
        let err = job.error("another word", Duration::from_secs(5));
        assert!(err.contains("STRADSAP_ENCRYPT: `always` or `never` was expected"), "{err}");
    }
}

/// One that this driver has not started: it isn't replaced.
pub(crate) fn joined(expected: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(1));
    let mut job = Job::start(&Setting { workers: 3, listen: Some((&at, &secret)), ..Setting::default() });
    let mut workers: Vec<_> = (0..3).map(|_| joining(&at, &secret, |_| {})).collect();
    job.reached(6);
    let killed = workers[1].pid();
    workers[1].signal("KILL");
    let (digest, err) = job.digest("a joined worker is killed");
    assert!(err.contains(&format!("pid {killed})")), "{err}");
    assert_eq!(digest, expected);
    for (k, worker) in workers.iter_mut().enumerate() {
        let ended = worker.wait("a worker whose job is done", Duration::from_secs(5));
        assert_eq!(ended.success(), k != 1, "worker {k}: {ended}\n{}", worker.err());
    }
    // A driver that is killed: those of others notice it too.
    let mut job = Job::start(&Setting { workers: 2, listen: Some((&at, &secret)), ..Setting::default() });
    let mut workers: Vec<_> = (0..2).map(|_| joining(&at, &secret, |_| {})).collect();
    job.reached(3);
    job.driver.signal("KILL");
    for worker in &mut workers {
        worker.wait("a worker whose driver is killed", Duration::from_secs(5));
    }
}
