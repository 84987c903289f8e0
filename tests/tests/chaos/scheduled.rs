//! Losses while scheduled programs run, at any moment of their rounds, and between them and loops: what the job leaves stays
//! the same.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::proxy::Wire;
use crate::common::below;
use crate::jobs::job::{Job, Setting, joining};
use crate::jobs::processes::{a_secret, assert_alone, free_port, ports, signal_to, wait_for};
use crate::jobs::runner::{Test, Watch, seeds};
use crate::jobs::scheduled::SAYS;

const EPOCHS: usize = 9;

fn setting(workers: usize, servers: usize) -> Setting<'static> {
    Setting { scheduled: true, epochs: EPOCHS, workers, servers, threads: 1, ..Setting::default() }
}

/// What every such job must leave: what one thread does.
fn expected() -> String {
    Job::start(&setting(0, 0)).digest("scheduled programs in one process").0
}

pub(crate) fn tests() -> Vec<Test> {
    let cell = Rc::new(OnceCell::new());
    let test = |name: &str, seconds, body: fn(&str)| {
        let cell = Rc::clone(&cell);
        Test::new(name, seconds, move || {
            body(cell.get_or_init(expected));
            assert_alone(Duration::from_secs(2));
        })
    };
    vec![
        test("undisturbed", 60, undisturbed),
        test("one is killed", 3600, one),
        test("one after the other is killed", 120, repeated),
        test("a worker is stopped", 60, stopped),
        test("nothing arrives at a worker", 60, cut_off),
    ]
}

fn undisturbed(expected: &str) {
    for (workers, servers) in [(2, 0), (3, 2)] {
        let (digest, err) = Job::start(&setting(workers, servers)).digest("undisturbed");
        assert_eq!((digest.as_str(), err.as_str()), (expected, ""), "{workers} workers, {servers} servers");
    }
}

/// In the middle of a call's rounds, or between calls.
fn one(expected: &str) {
    for seed in seeds(10, 100) {
        let case = super::seed_of(seed, "scheduled::one is killed");
        let _watch = Watch::new(&case, Duration::from_secs(60));
        let pick = |k: u64, n: usize| below(seed * 10 + k, n);
        let (workers, servers) = (2 + pick(0, 2), if pick(1, 2) == 0 { 0 } else { 2 });
        let mut job = Job::start(&Setting { snapshot_every: 1 + pick(2, 9), ..setting(workers, servers) });
        let epoch = pick(3, EPOCHS - 1);
        match seed % 4 {
            0 => drop(job.driver.line("begins at ", Duration::from_secs(30))),
            1 => job.reached(epoch),
            _ => drop(job.driver.line(&format!("round {epoch}.{}", SAYS * (1 + pick(4, 3))), Duration::from_secs(30))),
        }
        std::thread::sleep(Duration::from_micros(pick(5, 20_000) as u64));
        let all = job.workers();
        assert_eq!(all.len(), workers, "{case}");
        let victim = all[pick(6, workers)];
        signal_to(victim, "KILL");
        let (digest, err) = job.digest(&case);
        let named = err.lines().any(|line| line.ends_with(&format!(", pid {victim}): signal 9 (SIGKILL)")));
        assert!(named, "{case}: {victim} is not named as killed:\n{err}");
        assert_eq!(digest, expected, "{case}: {workers} workers, {servers} servers");
    }
}

fn repeated(expected: &str) {
    let mut job = Job::start(&Setting { snapshot_every: 4, ..setting(3, 2) });
    let mut killed = Vec::new();
    for k in 0..5usize {
        job.driver.line(&format!("round {}.{}", 1 + k, SAYS * (1 + k % 3)), Duration::from_secs(30));
        let all = if k == 3 { job.servers() } else { job.workers() };
        let Some(&victim) = all.get(k % all.len().max(1)) else { continue };
        signal_to(victim, "KILL");
        killed.push(victim);
    }
    assert!(killed.len() >= 3);
    let (digest, err) = job.digest("repeated kills");
    for victim in killed {
        assert!(err.contains(&format!("pid {victim}): signal 9")), "{victim} is not named:\n{err}");
    }
    assert_eq!(digest, expected);
}

/// One that says nothing more is given up, and replaced.
fn stopped(expected: &str) {
    let mut job = Job::start(&setting(2, 0));
    job.driver.line(&format!("round 2.{SAYS}"), Duration::from_secs(30));
    let pid = job.workers()[1];
    let since = Instant::now();
    signal_to(pid, "STOP");
    wait_for("word of a lost process", Duration::from_secs(6), || {
        job.driver.err().contains(&format!(", pid {pid})")).then_some(())
    });
    assert!(since.elapsed() < Duration::from_millis(5500));
    assert_eq!(job.digest("a stopped worker is replaced").0, expected);
}

/// What the driver tells of rounds goes astray without a word: the worker isn't waited for in vain.
fn cut_off(expected: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(6));
    let (wire, entry) = Wire::new();
    let mut job = Job::start(&Setting { listen: Some((&at, &secret)), ..setting(3, 0) });
    // The driver is told that it listens at the wire's end.
    let mut workers = vec![joining(&at, &secret, |command| _ = command.env("STRADSAP_ADVERTISE", entry.to_string()))];
    workers.extend((0..2).map(|_| joining(&at, &secret, |_| {})));
    let pid = workers[0].pid();
    let port = wait_for("the port of a worker", Duration::from_secs(10), || ports(pid).first().copied());
    wire.leads_to(format!("127.0.0.1:{port}").parse().unwrap());
    job.driver.line(&format!("round 2.{SAYS}"), Duration::from_secs(30));
    assert!(wire.bytes() > 1000, "nothing goes through the wire");
    let since = Instant::now();
    wire.cut();
    let line = wait_for("word of a lost process", Duration::from_secs(15), || {
        job.driver.err().lines().find(|line| line.starts_with("warning: lost ")).map(String::from)
    });
    assert!(since.elapsed() < Duration::from_secs(6), "after {} s: {line}", since.elapsed().as_secs_f64());
    assert_eq!(job.digest("cut off").0, expected);
    for worker in &mut workers {
        worker.wait("a worker whose job is done", Duration::from_secs(6));
    }
}
