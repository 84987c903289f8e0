//! Losses while operators run, and between them and loops: what the job leaves stays the same.

use std::cell::OnceCell;
use std::rc::Rc;
use std::time::Duration;

use crate::common::below;
use crate::jobs::job::{Job, Setting};
use crate::jobs::operators::STEPS;
use crate::jobs::processes::{assert_alone, signal_to};
use crate::jobs::runner::{Test, Watch, seeds};

const EPOCHS: usize = 4;

fn setting(workers: usize, servers: usize) -> Setting<'static> {
    Setting { operators: true, epochs: EPOCHS, workers, servers, threads: 1, ..Setting::default() }
}

/// What every such job must leave: what one thread does.
fn expected() -> String {
    Job::start(&setting(0, 0)).digest("operators in one process").0
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
    ]
}

fn undisturbed(expected: &str) {
    for (workers, servers) in [(2, 0), (3, 2)] {
        let (digest, err) = Job::start(&setting(workers, servers)).digest("undisturbed");
        assert_eq!((digest.as_str(), err.as_str()), (expected, ""), "{workers} workers, {servers} servers");
    }
}

/// After each of the steps, at once or some way into the next one.
fn one(expected: &str) {
    for seed in seeds(2 * STEPS as u64, 100) {
        let case = super::seed_of(seed, "operators::one is killed");
        let _watch = Watch::new(&case, Duration::from_secs(60));
        let pick = |k: u64, n: usize| below(seed * 10 + k, n);
        let (workers, servers) = (2 + pick(0, 2), if pick(1, 2) == 0 { 0 } else { 2 });
        let mut job = Job::start(&Setting { snapshot_every: 1 + pick(2, 5), ..setting(workers, servers) });
        let (epoch, step) = (pick(3, EPOCHS - 1), seed as usize % STEPS);
        job.driver.line(&format!("step {epoch}.{step}"), Duration::from_secs(30));
        if (seed as usize / STEPS).is_multiple_of(2) {
            std::thread::sleep(Duration::from_micros(6_000 + pick(4, 12_000) as u64));
        }
        let all = job.workers();
        assert_eq!(all.len(), workers, "{case}");
        let victim = all[pick(5, workers)];
        signal_to(victim, "KILL");
        let (digest, err) = job.digest(&case);
        let named = err.lines().any(|line| line.ends_with(&format!(", pid {victim}): signal 9 (SIGKILL)")));
        assert!(named, "{case}: {victim} is not named as killed:\n{err}");
        assert_eq!(digest, expected, "{case}: {workers} workers, {servers} servers, after step {epoch}.{step}");
    }
}

/// Workers and servers, one in each epoch.
fn repeated(expected: &str) {
    let mut job = Job::start(&Setting { snapshot_every: 4, ..setting(3, 2) });
    let mut killed = Vec::new();
    for epoch in 0..EPOCHS {
        job.driver.line(&format!("step {epoch}.{}", 1 + 2 * (epoch % 3)), Duration::from_secs(30));
        let all = if epoch == 2 { job.servers() } else { job.workers() };
        let Some(&victim) = all.get(epoch % all.len().max(1)) else { continue };
        signal_to(victim, "KILL");
        killed.push(victim);
    }
    assert!(killed.len() >= EPOCHS - 1);
    let (digest, err) = job.digest("repeated kills");
    for victim in killed {
        assert!(err.contains(&format!("pid {victim}): signal 9")), "{victim} is not named:\n{err}");
    }
    assert_eq!(digest, expected);
}
