//! Each fault in each phase of a job, and each second one soon after: the job ends as an undisturbed one, or with an error that
//! says whom it has lost, where both copies of a part may have been with those; and nothing of it is left.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use crate::common::below;
use crate::jobs::job::{Job, LONG, Setting};
use crate::jobs::processes::{assert_alone, runs, signal_to, wait_for};
use crate::jobs::runner::{Test, Watch, seeds};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// While processes are started.
    Start,
    /// Loops, and a snapshot after each or after some.
    Loops,
    /// The same with a checkpoint after each epoch.
    Checkpoints,
    /// What the job leaves is read.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    KillWorker,
    StopWorker,
    KillServer,
    StopServer,
    /// A worker is killed, and none can be started for a while.
    NoneStarts,
    /// The driver has no descriptors left for a while, and a worker is killed.
    NoDescriptors,
}

/// When the second fault comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Second {
    AtOnce,
    /// When somebody new was started.
    WithTheNewcomer,
    /// After a moment.
    Later,
}

const PHASES: [Phase; 4] = [Phase::Start, Phase::Loops, Phase::Checkpoints, Phase::End];
const FAULTS: [Fault; 6] = [
    Fault::KillWorker,
    Fault::StopWorker,
    Fault::KillServer,
    Fault::StopServer,
    Fault::NoneStarts,
    Fault::NoDescriptors,
];
const SECONDS: [Second; 3] = [Second::AtOnce, Second::WithTheNewcomer, Second::Later];
const ALL: usize = PHASES.len() * FAULTS.len() * FAULTS.len() * SECONDS.len();

impl Fault {
    fn of_server(self) -> bool {
        matches!(self, Fault::KillServer | Fault::StopServer)
    }

    /// Does it, where there is anybody to whom it could be done; then what is undone later, if anything.
    fn happens(self, job: &Job, program: &Path, pick: usize) -> Option<Fault> {
        let all = if self.of_server() { job.servers() } else { job.workers() };
        let victim = *all.get(pick.checked_rem(all.len())?)?;
        match self {
            Fault::NoneStarts => may_run(program, false),
            Fault::NoDescriptors => descriptors(job, 8),
            _ => {}
        }
        let signal = if matches!(self, Fault::StopWorker | Fault::StopServer) { "STOP" } else { "KILL" };
        if runs(victim) {
            let _it_may_be_gone = std::panic::catch_unwind(|| signal_to(victim, signal));
        }
        matches!(self, Fault::NoneStarts | Fault::NoDescriptors).then_some(self)
    }

    fn is_over(self, job: &Job, program: &Path) {
        match self {
            Fault::NoneStarts => may_run(program, true),
            Fault::NoDescriptors => descriptors(job, 1024),
            _ => {}
        }
    }
}

fn may_run(program: &Path, may: bool) {
    let mode = std::fs::Permissions::from_mode(if may { 0o755 } else { 0o644 });
    std::fs::set_permissions(program, mode).unwrap();
}

/// How many descriptors the driver may have.
fn descriptors(job: &Job, limit: usize) {
    let mut command = std::process::Command::new("prlimit");
    let command = command.args(["--pid", &job.pid().to_string(), &format!("--nofile={limit}:")]);
    // The job may have ended.
    let _status = command.stderr(std::process::Stdio::null()).status().unwrap();
}

/// Any two faults: `seed` counts through all of them, in an order in which neighbours have little in common.
fn pair(seed: u64, expected: &str) {
    let k = (seed as usize * 115) % ALL;
    let phase = PHASES[k % PHASES.len()];
    let second_comes = SECONDS[k / PHASES.len() % SECONDS.len()];
    let faults = k / PHASES.len() / SECONDS.len();
    let (first, second) = (FAULTS[faults % FAULTS.len()], FAULTS[faults / FAULTS.len()]);
    let pick = |k: u64, n: usize| below(seed * 16 + k, n);
    let servers = if first.of_server() || second.of_server() || pick(0, 2) == 0 { 2 } else { 0 };
    let case = format!(
        "{first:?}, then {second:?} {second_comes:?}, in phase {phase:?} with {servers} servers; {}",
        super::seed_of(seed, "pairs::two faults")
    );
    let _watch = Watch::new(&case, Duration::from_secs(90));
    let folder = tempfile::tempdir().unwrap();
    let (program, checkpoints) = (folder.path().join("job"), folder.path().join("checkpoints"));
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    may_run(&program, true);
    let mut job = Job::start(&Setting {
        workers: 3,
        servers,
        snapshot_every: 1 + pick(1, 3),
        checkpoints: (phase == Phase::Checkpoints).then_some(&*checkpoints),
        program: Some(&program),
        ..Setting::default()
    });
    match phase {
        Phase::Start => _ = wait_for("a process", Duration::from_secs(10), || job.workers().first().copied()),
        Phase::Loops | Phase::Checkpoints => job.reached(pick(2, LONG / 2)),
        Phase::End => job.reached(LONG - 1),
    }
    std::thread::sleep(Duration::from_micros(pick(3, 30_000) as u64));
    let before: Vec<u32> = job.workers().into_iter().chain(job.servers()).collect();
    let mut lasting: Vec<Fault> = first.happens(&job, &program, pick(4, 8)).into_iter().collect();
    match second_comes {
        Second::AtOnce => {}
        Second::WithTheNewcomer => {
            let since = std::time::Instant::now();
            let newcomer = |job: &Job| job.workers().into_iter().chain(job.servers()).any(|pid| !before.contains(&pid));
            while since.elapsed() < Duration::from_secs(5) && job.driver.ended().is_none() && !newcomer(&job) {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        Second::Later => std::thread::sleep(Duration::from_millis(pick(5, 600) as u64)),
    }
    lasting.extend(second.happens(&job, &program, pick(6, 8)));
    if !lasting.is_empty() {
        std::thread::sleep(Duration::from_millis(500 + pick(7, 2000) as u64));
        lasting.iter().for_each(|fault| fault.is_over(&job, &program));
    }
    let mut may_fail = Vec::new();
    // Without servers, or with one of the two gone, both copies of a part can go.
    if servers == 0 || first.of_server() || second.of_server() {
        may_fail.push("the only copies of elements");
    }
    // A checkpoint that can't be written is the program's to care for.
    if phase == Phase::Checkpoints && [first, second].contains(&Fault::NoDescriptors) {
        may_fail.push(".unfinished: Too many open files");
    }
    let err = job.ends(&case, &may_fail, expected);
    assert!(!err.contains("panicked"), "{case}: {err}");
    assert_alone(Duration::from_secs(2));
}

fn some(expected: &str) {
    for seed in seeds(8, ALL as u64) {
        pair(seed, expected);
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("two faults", 7200, || {
        some(&super::expected());
        assert_alone(Duration::from_secs(2));
    })]
}
