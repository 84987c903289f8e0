//! Losses while minibatches run: the job ends; what has the same bits each time has them still, and no policy loses an
//! update or makes one twice (the job looks after each call).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::proxy::Wire;
use crate::common::below;
use crate::jobs::job::{Job, Setting, joining};
use crate::jobs::minibatches::POLICIES;
use crate::jobs::processes::{a_secret, assert_alone, free_port, ports, signal_to, wait_for};
use crate::jobs::runner::{Test, Watch, seeds};

const EPOCHS: usize = 12;

/// What this many copies leave, in one process. `Hybrid` has its copies in processes alone: there it is `Bsp`.
fn expected(policy: &str, copies: usize) -> String {
    let policy = if policy == "hybrid" { "bsp" } else { policy };
    if let Some(known) = KNOWN.with_borrow(|known| known.get(&(policy.to_string(), copies)).cloned()) {
        return known;
    }
    let setting = Setting { policy: Some(policy), threads: copies, epochs: EPOCHS, ..Setting::default() };
    let digest = Job::start(&setting).digest("minibatches in one process").0;
    KNOWN.with_borrow_mut(|known| known.insert((policy.to_string(), copies), digest.clone()));
    digest
}

thread_local! {
    static KNOWN: RefCell<BTreeMap<(String, usize), String>> = RefCell::default();
}

fn setting(policy: &str, workers: usize) -> Setting<'_> {
    Setting { policy: Some(policy), threads: 1, workers, epochs: EPOCHS, ..Setting::default() }
}

pub(crate) fn tests() -> Vec<Test> {
    let test = |name: String, seconds, body: Box<dyn FnOnce()>| {
        Test::new(name, seconds, move || {
            body();
            assert_alone(Duration::from_secs(2));
        })
    };
    let mut tests = Vec::new();
    for (policy, _) in POLICIES {
        tests.push(test(format!("undisturbed: {policy}"), 60, Box::new(move || undisturbed(policy))));
        tests.push(test(format!("one is killed: {policy}"), 3600, Box::new(move || killed(policy))));
    }
    tests.push(test("both are killed, one after the other: ssp".into(), 60, Box::new(|| repeated("ssp"))));
    tests.push(test("both are killed, one after the other: bsp".into(), 60, Box::new(|| repeated("bsp"))));
    for policy in ["bsp", "ssp"] {
        tests.push(test(format!("a worker is stopped: {policy}"), 60, Box::new(move || stopped(policy))));
    }
    tests.push(test(
        "a worker is cut off from another: model-average".into(),
        60,
        Box::new(|| cut_off("model-average")),
    ));
    tests.push(test("a worker is cut off from another: ssp".into(), 60, Box::new(|| cut_off("ssp"))));
    tests
}

fn undisturbed(policy: &str) {
    for (workers, servers) in [(2, 0), (3, 2)] {
        let (digest, err) = Job::start(&Setting { servers, ..setting(policy, workers) }).digest("undisturbed");
        assert_eq!((digest, err.as_str()), (expected(policy, workers), ""), "{workers} workers, {servers} servers");
    }
}

/// A worker at any moment of any call: the first, in which rows are recorded, or one whose rows are foreseen.
fn killed(policy: &str) {
    let expected = [2, 3].map(|workers| expected(policy, workers));
    for seed in seeds(5, 60) {
        let case = super::seed_of(seed, &format!("minibatches::one is killed: {policy}"));
        let _watch = Watch::new(&case, Duration::from_secs(60));
        let pick = |k: u64, n: usize| below(seed * 10 + k + policy.len() as u64 * 1000, n);
        let (workers, servers) = (2 + pick(0, 2), if pick(1, 2) == 0 { 0 } else { 2 });
        let mut job = Job::start(&Setting { servers, snapshot_every: 1 + pick(2, 9), ..setting(policy, workers) });
        // One seed in three strikes the very first call.
        if seed % 3 == 1 {
            job.driver.line("begins at ", Duration::from_secs(30));
        } else {
            job.reached(pick(3, EPOCHS - 3));
        }
        // And one in three the pause after a call.
        if seed % 3 != 2 {
            std::thread::sleep(Duration::from_micros(pick(4, 40_000) as u64));
        }
        let all = job.workers();
        assert_eq!(all.len(), workers, "{case}");
        let victim = all[pick(5, workers)];
        signal_to(victim, "KILL");
        let (digest, err) = job.digest(&case);
        let named = err.lines().any(|line| line.ends_with(&format!(", pid {victim}): signal 9 (SIGKILL)")));
        assert!(named, "{case}: {victim} is not named as killed:\n{err}");
        assert_eq!(digest, expected[workers - 2], "{case}: {workers} workers, {servers} servers");
    }
}

fn repeated(policy: &str) {
    let expected = expected(policy, 2);
    let mut job = Job::start(&setting(policy, 2));
    let mut killed = Vec::new();
    for round in 0..4usize {
        job.reached(1 + 2 * round);
        std::thread::sleep(Duration::from_micros(below(round as u64, 12_000) as u64));
        let workers = job.workers();
        let Some(&victim) = workers.get(round % 2) else { continue };
        signal_to(victim, "KILL");
        killed.push(victim);
    }
    assert!(killed.len() > 1);
    let (digest, err) = job.digest("repeated kills");
    for victim in killed {
        assert!(err.contains(&format!("pid {victim}): signal 9")), "{victim} is not named:\n{err}");
    }
    assert_eq!(digest, expected);
}

/// One that says nothing more is given up, and replaced.
fn stopped(policy: &str) {
    let mut job = Job::start(&setting(policy, 2));
    job.reached(2);
    let pid = job.workers()[1];
    let since = Instant::now();
    signal_to(pid, "STOP");
    wait_for("word of a lost process", Duration::from_secs(6), || {
        job.driver.err().contains(&format!(", pid {pid})")).then_some(())
    });
    assert!(since.elapsed() < Duration::from_millis(5500));
    assert_eq!(job.digest("a stopped worker is replaced").0, expected(policy, 2));
}

/// Workers that joined aren't replaced: the others run all copies.
fn cut_off(policy: &str) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(5));
    let (wire, entry) = Wire::new();
    let mut job = Job::start(&Setting { listen: Some((&at, &secret)), ..setting(policy, 3) });
    // Others are told that it listens at the wire's end.
    let mut workers = vec![joining(&at, &secret, |command| _ = command.env("STRADSAP_ADVERTISE", entry.to_string()))];
    workers.extend((0..2).map(|_| joining(&at, &secret, |_| {})));
    let pid = workers[0].pid();
    let port = wait_for("the port of a worker", Duration::from_secs(10), || ports(pid).first().copied());
    wire.leads_to(format!("127.0.0.1:{port}").parse().unwrap());
    job.reached(2);
    assert!(wire.bytes() > 1000, "nothing goes through the wire");
    let since = Instant::now();
    wire.sever();
    let line = wait_for("word of a lost process", Duration::from_secs(15), || {
        job.driver.err().lines().find(|line| line.starts_with("warning: lost ")).map(String::from)
    });
    assert!(since.elapsed() < Duration::from_secs(6), "after {} s: {line}", since.elapsed().as_secs_f64());
    assert_eq!(job.digest("cut off from another worker").0, expected(policy, 3));
    for worker in &mut workers {
        worker.wait("a worker whose job is done", Duration::from_secs(6));
    }
}
