//! A job of some seconds, in processes of its own, to which something is done while it runs.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use stradsap::prelude::*;

use super::minibatches::{self, POLICY};
use super::operators::{self, OPERATORS};
use super::processes::{Process, children_as, this_program, wait_for};
use super::scheduled::{self, SCHEDULED};
use super::sets::{self, SETS};
use super::slow::{self, SLOW_LOOPS};
use super::written_once::{self, ENOUGH, WRITTEN_ONCE};
use crate::common::{below, ratings};

/// Makes this executable the job instead of the tests: how many epochs.
const EPOCHS: &str = "STRADSAP_TEST_EPOCHS";
/// Where it stores checkpoints, one an epoch, and where it resumes from.
const CHECKPOINTS: &str = "STRADSAP_TEST_CHECKPOINTS";
/// How long it rests after an epoch, in milliseconds.
pub const PAUSE: &str = "STRADSAP_TEST_PAUSE";

/// Enough for something to happen on the way, on slow machines as well.
pub const LONG: usize = 40;

/// The job, where this process is to be it.
pub fn asked_for(session: &Session) -> Option<stradsap::Result<()>> {
    let epochs = std::env::var(EPOCHS).ok()?.parse().unwrap();
    if std::env::var_os(OPERATORS).is_some() {
        return Some(operators::run(session, epochs));
    }
    if std::env::var_os(SCHEDULED).is_some() {
        return Some(scheduled::run(session, epochs));
    }
    if std::env::var_os(SLOW_LOOPS).is_some() {
        return Some(slow::run(session));
    }
    if std::env::var_os(SETS).is_some() {
        return Some(sets::run(session, epochs, std::env::var(CHECKPOINTS).ok()));
    }
    if std::env::var_os(WRITTEN_ONCE).is_some() {
        return Some(written_once::run(session, epochs));
    }
    Some(match std::env::var(POLICY) {
        Ok(policy) => minibatches::run(session, &policy, epochs),
        Err(_) => run(session, epochs),
    })
}

/// Matrix factorisation with names on the side, so that elements of all sizes travel: arrays, and rows of a matrix.
#[allow(clippy::print_stdout)]
fn run(session: &Session, epochs: usize) -> stradsap::Result<()> {
    let (users, items) = (400, 300);
    let data = DVector::from_vec(session, ratings(30_000, users, items))?;
    let mut checkpoints = std::env::var(CHECKPOINTS).ok().map(|folder| Checkpoints::new(folder, 1)).transpose()?;
    let resumed = match &mut checkpoints {
        Some(checkpoints) => checkpoints.resume()?,
        None => None,
    };
    let first = resumed.as_ref().map_or(0, |checkpoint| checkpoint.step() as usize);
    let row = |i: usize| -> [f32; 8] { std::array::from_fn(|k| below((i * 8 + k) as u64, 1000) as f32 / 2500.0) };
    let (mut p, mut q, mut names) = match &resumed {
        Some(checkpoint) => {
            (checkpoint.matrix(session, "p")?, checkpoint.vector(session, "q")?, checkpoint.vector(session, "names")?)
        }
        None => (
            DMatrix::from_rows(session, (0..users).map(row))?,
            DVector::from_fn(session, items, |i| row(i + 1_000_000))?,
            DVector::from_fn(session, users, |i| format!("user {i}"))?,
        ),
    };
    // Cells of a square that lie apart, so that their loop is coloured.
    let side = 120;
    let mut cells = match &resumed {
        Some(checkpoint) => checkpoint.vector(session, "cells")?,
        None => DVector::from_fn(session, side * side, |i| below(i as u64, 1000) as f64)?,
    };
    let moods = session.relaxed_vector(vec![0.0f32; 8]);
    if let Some(checkpoint) = &resumed {
        let (_, saved): (f64, Vec<f32>) = checkpoint.state()?;
        moods.set(&saved)?;
    }
    println!("begins at {first}");
    for epoch in first..epochs {
        let alpha = 0.02 / (1.0 + epoch as f32);
        let loss = session.sum(0.0f64);
        async_parallel_for!(0..data.len(), [alpha, &data, &mut p, &mut q, &loss, &moods], |n| {
            let r = data[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            // To take its time without a core.
            if n % 500 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let e = r.stars - kernels::dot(pu, qi) - 0.01 * moods[r.user % 8];
            moods.add(r.item % 8, 1e-4 * e);
            for k in 0..8 {
                let (a, b) = (pu[k], qi[k]);
                pu[k] += alpha * (e * b - 0.02 * a);
                qi[k] += alpha * (e * a - 0.02 * b);
            }
            loss.add(f64::from(e * e));
        })?;
        async_parallel_for!(0..users * 3, [epoch, &mut names, &p], |n| {
            let at = n * 7 % 400;
            if names[at].len() > 12 {
                names[at].clear();
            }
            names[at].push(char::from(b'a' + ((p[at][0].to_bits() as usize + epoch + n) % 26) as u8));
        })?;
        let place = |cell: usize| cell * 7919 % 14_400;
        let report = async_parallel_for!(
            0..side * side,
            [side, place, &mut cells],
            |cell| {
                let (row, column) = (cell / side, cell % side);
                let mut sum = 0.0;
                if row > 0 && row + 1 < side && column > 0 && column + 1 < side {
                    for beside in [cell - side, cell - 1, cell + 1, cell + side] {
                        sum += cells[place(beside)];
                    }
                    cells[place(cell)] = 0.25 * sum;
                }
            },
            strategy = Coloured
        )?;
        let busy = report.shares().iter().filter(|share| share.blocks > 0).count();
        assert!(epoch > first || busy > 1 || session.workers() < 2, "the cells are on one worker");
        if let Some(checkpoints) = &mut checkpoints {
            checkpoints.save(
                epoch as u64 + 1,
                &(loss.get(), moods.to_vec()),
                &[("p", &p), ("q", &q), ("names", &names), ("cells", &cells)],
            )?;
        }
        println!("epoch {epoch} {:016x}", loss.get().to_bits());
        // What is faster than this is not faster than what is done to it.
        let pause = std::env::var(PAUSE).ok().map_or(20, |text| text.parse().unwrap());
        std::thread::sleep(Duration::from_millis(pause));
    }
    let moods: Vec<u32> = moods.to_vec().into_iter().map(f32::to_bits).collect();
    let cells = cells.digest()?;
    println!("digest {} {} {} {cells} {moods:x?}", p.digest()?, q.digest()?, names.digest()?);
    Ok(())
}

/// The driver of a job, whose home and folder for temporary files are empty ones of its own.
pub struct Job {
    pub driver: Process,
    home: tempfile::TempDir,
    /// Where the job looks whether it has run for long enough.
    word: tempfile::TempDir,
    /// The processes of whose loss there was word. A number may come again.
    lost: Vec<u32>,
}

/// How a job is to run.
pub struct Setting<'s> {
    pub workers: usize,
    /// How many workers may take part, if more than the job begins with.
    pub at_most: usize,
    pub servers: usize,
    pub snapshot_every: usize,
    pub epochs: usize,
    /// That of the minibatches, for the job that has some; its copies are threads where there are no workers.
    pub policy: Option<&'s str>,
    /// Whether it is the job of operators.
    pub operators: bool,
    /// Whether it is the job of scheduled programs.
    pub scheduled: bool,
    /// Whether it is the job whose first loop writes what later ones only read; its epochs are the most that it may have.
    pub written_once: bool,
    pub threads: usize,
    pub checkpoints: Option<&'s Path>,
    /// Another file with this executable.
    pub program: Option<&'s Path>,
    /// More variables of its environment.
    pub with: &'s [(&'s str, &'s str)],
    /// Where workers join, and the secret: none is started then.
    pub listen: Option<(&'s str, &'s str)>,
}

impl Default for Setting<'_> {
    fn default() -> Self {
        Setting {
            workers: 0,
            at_most: 0,
            servers: 0,
            snapshot_every: 3,
            epochs: LONG,
            policy: None,
            operators: false,
            scheduled: false,
            written_once: false,
            threads: 0,
            checkpoints: None,
            program: None,
            with: &[],
            listen: None,
        }
    }
}

impl Job {
    pub fn start(setting: &Setting<'_>) -> Job {
        let home = tempfile::tempdir().unwrap();
        let mut command = this_program();
        if let Some(program) = setting.program {
            let mut other = Command::new(program);
            command.get_envs().filter(|(_, value)| value.is_none()).for_each(|(name, _)| _ = other.env_remove(name));
            command = other;
        }
        // The driver keeps nothing that others can store, unless it is asked to.
        command.env("STRADSAP_DRIVER_MEMORY", "0").envs(setting.with.iter().copied());
        command.env("HOME", home.path()).env("TMPDIR", home.path()).env("RUST_BACKTRACE", "0");
        let workers = match (setting.workers, setting.at_most) {
            (workers, 0) => workers.to_string(),
            (workers, most) => format!("{workers}..{most}"),
        };
        command.env(EPOCHS, setting.epochs.to_string()).env("STRADSAP_WORKERS", workers);
        command.env("STRADSAP_DDS_SERVERS", setting.servers.to_string());
        command.env("STRADSAP_SNAPSHOT_EVERY", setting.snapshot_every.to_string());
        if let Some(policy) = setting.policy {
            command.env(POLICY, policy);
        }
        if setting.operators {
            command.env(OPERATORS, "1");
        }
        if setting.scheduled {
            command.env(SCHEDULED, "1");
        }
        if setting.written_once {
            command.env(WRITTEN_ONCE, "1");
        }
        if setting.threads > 0 {
            command.env("STRADSAP_THREADS", setting.threads.to_string());
        }
        if let Some(folder) = setting.checkpoints {
            command.env(CHECKPOINTS, folder);
        }
        if let Some((address, secret)) = setting.listen {
            command.env("STRADSAP_LISTEN", address).env("STRADSAP_SECRET", secret);
        }
        let word = tempfile::tempdir().unwrap();
        command.env(ENOUGH, word.path().join("enough"));
        Job { driver: Process::start(&mut command), home, word, lost: Vec::new() }
    }

    pub fn pid(&self) -> u32 {
        self.driver.pid()
    }

    /// Waits for the end of an epoch.
    pub fn reached(&mut self, epoch: usize) {
        self.driver.line(&format!("epoch {epoch} "), Duration::from_secs(30));
    }

    pub fn workers(&self) -> Vec<u32> {
        children_as(self.pid(), "worker")
    }

    pub fn servers(&self) -> Vec<u32> {
        children_as(self.pid(), "server")
    }

    /// The last epoch that has ended.
    pub fn last_epoch(&self) -> Option<usize> {
        let out = self.driver.out();
        out.lines().rev().find_map(|line| line.strip_prefix("epoch ")?.split(' ').next()?.parse().ok())
    }

    /// Waits for a worker that was not there before, and gives its process number as soon as there is one.
    pub fn newcomer(&self, known: &[u32]) -> u32 {
        wait_for("a new worker", Duration::from_secs(15), || {
            self.workers().into_iter().find(|pid| !known.contains(pid))
        })
    }

    /// Waits until it has written something to its standard error.
    pub fn says(&self, what: &str, limit: Duration) {
        wait_for(what, limit, || self.driver.err().contains(what).then_some(()));
    }

    /// Waits for the end of another epoch.
    pub fn goes_on(&mut self) {
        self.reached(self.last_epoch().map_or(0, |epoch| epoch + 1));
    }

    /// Waits until the job has gone on without a process that was lost, and an epoch has ended since.
    pub fn goes_on_without(&mut self, pid: u32) {
        let word = format!(", pid {pid})");
        self.lost.push(pid);
        let times = self.lost.iter().filter(|lost| **lost == pid).count();
        let heard = || (self.driver.err().matches(&word).count() >= times).then_some(());
        wait_for("word of a lost process", Duration::from_secs(15), heard);
        self.goes_on();
    }

    /// Has it end after the epoch that it is in: what it left, and what it wrote as warnings.
    pub fn ends_now(self, case: &str) -> (String, String) {
        std::fs::write(self.word.path().join("enough"), "").unwrap();
        self.digest(case)
    }

    /// Waits for its good end: what it left, and what it wrote as warnings.
    pub fn digest(mut self, case: &str) -> (String, String) {
        let status = self.driver.wait(case, Duration::from_secs(120));
        let err = self.driver.err();
        assert!(status.success(), "{case}: {status}\n{err}");
        let digest = self.driver.line("digest ", Duration::from_secs(1));
        self.leaves_nothing(case);
        (digest, err)
    }

    /// Waits for its end with an error, and gives what it wrote.
    pub fn error(mut self, case: &str, limit: Duration) -> String {
        let status = self.driver.wait(case, limit);
        assert_eq!(status.code(), Some(1), "{case}: {status}\n{}", self.driver.err());
        self.leaves_nothing(case);
        self.driver.err()
    }

    /// Waits for its end: with what it must leave, or an error of one of these kinds. Gives what it wrote as warnings.
    pub fn ends(mut self, case: &str, may_fail: &[&str], expected: &str) -> String {
        let status = self.driver.wait(case, Duration::from_secs(60));
        let err = self.driver.err();
        if status.code() == Some(1) && may_fail.iter().any(|why| err.contains(why)) {
            self.leaves_nothing(case);
            return err;
        }
        let (digest, err) = self.digest(case);
        assert_eq!(digest, expected, "{case}\n{err}");
        err
    }

    pub fn leaves_nothing(&self, case: &str) {
        let left: Vec<_> = std::fs::read_dir(self.home.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{case}: {left:?} are left");
    }
}

/// A worker that joins.
pub fn joining(address: &str, secret: &str, with: impl FnOnce(&mut Command)) -> Process {
    let mut command = this_program();
    command.args(["--join", address, "--threads", "1"]).env("STRADSAP_SECRET", secret).env("RUST_BACKTRACE", "0");
    with(&mut command);
    Process::start(&mut command)
}
