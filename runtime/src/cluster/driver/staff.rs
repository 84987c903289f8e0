//! Processes that the driver starts, at first and in place of lost ones. One that dies before it has joined is started again,
//! after a pause that grows; where others are there, the job goes on meanwhile.

use std::time::Duration;

use stradsap_dds_server::hello::Role;
use tokio::time::Instant;

use crate::cluster::driver::{Cluster, JOINING, State, TELLING, cant_start};
use crate::cluster::launch::children::ChildSettings;
use crate::session::error::{ClusterError, Error, Result};
use crate::session::logging::warning;

/// After how long a process that was started and has not joined is taken for one that hangs.
const HANGING: Duration = Duration::from_secs(15);
/// The pause after a try that failed; it doubles with each that follows.
const PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// No recovery waits for a try that is further away.
const SHORT: Duration = Duration::from_millis(500);
/// What passes between two looks at starting processes.
const LOOKING: Duration = Duration::from_millis(2);
/// What counts of the time between two looks: more passes only where this process is stopped.
const LONGEST_LOOK: Duration = Duration::from_millis(200);
/// How many tries in a row may fail while no worker is left to go on.
const TRIES: u32 = 6;

/// How starting processes goes.
#[derive(Default)]
pub(crate) struct Staffing {
    /// How many were started so far, workers and servers.
    started: [usize; 2],
    /// Tries in a row after which somebody was missing.
    failures: u32,
    /// When the next try is due, where somebody is missing.
    due: Option<Instant>,
    /// Why the last one failed.
    why: Option<String>,
}

/// Who is not there yet.
#[derive(Clone, Copy, Default)]
struct Absent {
    /// Has been started.
    starting: usize,
    /// Has not.
    missing: usize,
}

impl Absent {
    fn count(self) -> usize {
        self.starting + self.missing
    }
}

impl Staffing {
    /// A process was not started, or died before it had joined.
    fn failed(&mut self, why: String) {
        let now = Instant::now();
        // Those of one try fail together.
        if self.due.is_none_or(|due| due <= now) {
            self.due = Some(now + (PAUSE * 2u32.saturating_pow(self.failures.min(16))).min(LONGEST_PAUSE));
            self.failures += 1;
        }
        warning!("{why}; trying again in {:.1} s", self.pause().as_secs_f64());
        self.why = Some(why);
    }

    /// How long it is to the next try.
    fn pause(&self) -> Duration {
        self.due.map_or(Duration::ZERO, |due| due.saturating_duration_since(Instant::now()))
    }

    fn number(&mut self, role: Role) -> usize {
        let started = &mut self.started[usize::from(role == Role::Server)];
        *started += 1;
        *started - 1
    }
}

pub(super) fn name(role: Role) -> &'static str {
    if role == Role::Worker { "worker" } else { "DDS server" }
}

impl Cluster {
    /// How many processes of a role the driver starts.
    fn wanted(&self, role: Role) -> usize {
        match role {
            Role::Worker if self.starts_workers() => self.options.workers(),
            Role::Server => self.options.servers(),
            Role::Worker | Role::Driver => 0,
        }
    }

    fn start_child(&self, role: Role, index: usize, generation: u32) -> Result<()> {
        let Some(nursery) = &self.nursery else { return Ok(()) };
        let settings = ChildSettings {
            join: self.children_reach(),
            secret: self.hub.secret.to_hex(),
            index: index as u32,
            threads: Some(self.options.threads_each()),
            generation: u64::from(generation),
        };
        let child = if role == Role::Worker { nursery.worker(&settings)? } else { nursery.server(&settings)? };
        self.hub.adopt(role, child);
        Ok(())
    }

    /// Looks at the processes that were started, and starts who is missing unless there is a pause.
    fn tend(&self, state: &mut State) -> Absent {
        let (generation, staffing) = (state.generation + 1, &mut state.staffing);
        for (role, pid, why) in self.hub.died_unjoined(HANGING) {
            if staffing.due.is_some_and(|due| due.elapsed() > HANGING / 2) {
                // The series of tries that failed was over.
                staffing.failures = 0;
            }
            staffing.failed(format!("the {} that was started as process {pid} {why}", name(role)));
        }
        let due = staffing.pause().is_zero();
        let mut absent = Absent::default();
        for role in [Role::Server, Role::Worker] {
            let starting = self.hub.starting(role);
            let missing = self.wanted(role).saturating_sub(self.hub.complete(role).len() + starting);
            let mut started = 0;
            while due && started < missing {
                let index = staffing.number(role);
                if let Err(error) = self.start_child(role, index, generation) {
                    staffing.failed(format!("a {} could not be started: {error}", name(role)));
                    break;
                }
                started += 1;
            }
            absent.starting += starting + started;
            absent.missing += missing - started;
        }
        if absent.count() == 0 {
            (staffing.failures, staffing.due) = (0, None);
        }
        absent
    }

    /// Starts the processes that are still missing and whose time has come, without waiting for them.
    pub(crate) fn try_again(&self, state: &mut State) {
        if state.staffing.due.is_some_and(|due| due <= Instant::now()) {
            self.tend(state);
        }
    }

    /// Starts who is missing, and waits until all have joined. After a loss the job goes on without those that take long, if
    /// there is a worker.
    pub(crate) async fn staff(&self, state: &mut State, patience: Duration, first: bool) -> Result<(), Error> {
        // A driver that is stopped meanwhile counts no time.
        let (mut waited, mut looked, mut told) = (Duration::ZERO, Instant::now(), false);
        loop {
            let passed = looked.elapsed();
            waited += passed.min(LONGEST_LOOK);
            self.hub.give_time(passed.saturating_sub(LONGEST_LOOK));
            looked = Instant::now();
            // Who is lost from here on is missed later.
            state.seen_losses = self.hub.lost.get();
            let absent = self.tend(state);
            let workers = self.hub.complete(Role::Worker).len();
            if absent.count() == 0 && (first || workers > 0) {
                return Ok(());
            }
            if first
                && workers >= self.options.fewest()
                && self.hub.complete(Role::Server).len() >= self.options.servers()
            {
                // The others take part as soon as they have joined; one that dies on the way is missed before the next loop.
                if absent.count() > 0 {
                    state.staffing.due.get_or_insert_with(Instant::now);
                }
                return Ok(());
            }
            if absent.count() == 0 && self.options.awaits_others() && waited < JOINING {
                if waited >= TELLING && !std::mem::replace(&mut told, true) {
                    eprintln!("all workers are gone: waiting for others to join at {}", self.address);
                }
                tokio::time::sleep(LOOKING).await;
                continue;
            }
            if absent.count() == 0 {
                return Err(self.all_lost());
            }
            let late = waited >= patience;
            if !first && workers > 0 && (late || (absent.starting == 0 && state.staffing.pause() > SHORT)) {
                warning!("going on with {workers} workers while {} processes are not there", absent.count());
                state.staffing.due.get_or_insert_with(Instant::now);
                return Ok(());
            }
            if late || (absent.starting == 0 && state.staffing.failures >= TRIES) {
                return Err(self.not_there(state, patience, first));
            }
            tokio::time::sleep(LOOKING).await;
        }
    }

    fn not_there(&self, state: &State, patience: Duration, first: bool) -> Error {
        if let Some(why) = &state.staffing.why {
            let tries = state.staffing.failures;
            let why = format!("{why} (tried {tries} times)");
            return if first { cant_start(why) } else { self.all_lost_and(&why) };
        }
        if !first {
            return self.all_lost();
        }
        let missing = |&role: &Role| self.hub.complete(role).len() < self.wanted(role);
        let role = [Role::Worker, Role::Server].into_iter().find(missing).unwrap_or(Role::Server);
        let (joined, expected) = (self.hub.complete(role).len(), self.wanted(role));
        let what = if role == Role::Worker { "workers" } else { "DDS servers" };
        ClusterError::Missing { what, joined, expected, seconds: patience.as_secs() }.into()
    }
}
