//! Shards in this process: light rounds run where they are scheduled, heavy ones on the session's threads.
//!
//! How the threads share a round: its updates are listed, heaviest first, and each thread takes the next that nobody has
//! taken, by a counter. An update writes nothing but its own slot, behind a lock that nobody else takes before all
//! threads have ended; `apply` takes a shard's own state with the same counter, and all of the round's changes in order.
//! So who runs what can't show, and nobody waits for anybody while holding something. Of updates that panic the first in the
//! order of jobs and shards is reported: those before one that has panicked are run, those behind it need not be.

use std::cell::Cell;
use std::cmp::Reverse;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::drive::{At, Field, Function, Round, RoundCause, RoundFailure};
use super::program::{Program, Shards};
use crate::body::panics;
use crate::session::locked;
use crate::session::pool::Pool;

/// From this many nanoseconds of work on, a round is worth waking threads.
const HEAVY: f64 = 30_000.0;
/// Light rounds are timed once in this many.
const TIMED: u32 = 64;

/// About how long a unit of work takes. No result depends on it.
struct Gauge {
    nanoseconds: f64,
    rest: u32,
}

impl Gauge {
    fn new() -> Gauge {
        Gauge { nanoseconds: 0.0, rest: 0 }
    }

    /// Whether this many units are worth waking threads.
    #[inline(always)]
    fn is_heavy(&self, pool: &Pool, units: impl FnOnce() -> usize) -> bool {
        if pool.threads() == 1 || self.nanoseconds == 0.0 {
            return false;
        }
        let units = units();
        units > 1 && self.nanoseconds * units as f64 >= HEAVY
    }

    /// Begins to time this round, if it is its turn.
    #[inline(always)]
    fn begin(&mut self, pool: &Pool) -> Option<Instant> {
        if pool.threads() == 1 {
            return None;
        }
        self.rest = self.rest.wrapping_sub(1);
        (self.rest == u32::MAX).then(Instant::now)
    }

    fn end(&mut self, since: Option<Instant>, units: usize) {
        if let (Some(since), 1..) = (since, units) {
            self.record(since.elapsed().as_nanos() as f64 / units as f64);
            self.rest = if self.nanoseconds * (units as f64) < HEAVY { TIMED } else { 0 };
        }
    }

    fn record(&mut self, nanoseconds: f64) {
        self.nanoseconds =
            if self.nanoseconds == 0.0 { nanoseconds } else { 0.75 * self.nanoseconds + 0.25 * nanoseconds };
    }
}

/// The shards of this process: those of a call that runs in one, or a worker's. Used within [`panics::quietly`].
pub(crate) struct LocalShards<'h, P: Program> {
    program: &'h P,
    shards: &'h [P::Shard],
    locals: &'h mut [P::Local],
    /// The number of the first, and how many there are everywhere.
    first: usize,
    all: usize,
    pool: &'h Pool,
    updating: Gauge,
    applying: Gauge,
    /// Since when nothing is done any more, and with which round that is reported.
    failed: Option<(usize, RoundFailure)>,
    /// Its job has got its number.
    named: bool,
}

#[derive(Clone, Copy)]
struct Task {
    weight: u64,
    job: usize,
    shard: usize,
    slot: usize,
}

/// Where something panicked.
type Panicked = (usize, usize, panics::CaughtPanic);

impl<'h, P: Program> LocalShards<'h, P> {
    /// As many shards as locals, from the `first` of `all`.
    pub(crate) fn new(
        program: &'h P,
        shards: &'h [P::Shard],
        locals: &'h mut [P::Local],
        first: usize,
        all: usize,
        pool: &'h Pool,
    ) -> Self {
        LocalShards {
            program,
            shards,
            locals,
            first,
            all,
            pool,
            updating: Gauge::new(),
            applying: Gauge::new(),
            failed: None,
            named: false,
        }
    }

    /// What has failed, if it is to be reported with this round.
    pub(crate) fn failure(&self, told_with: usize) -> Option<&RoundFailure> {
        self.failed.as_ref().filter(|(round, _)| *round <= told_with).map(|(_, failed)| failed)
    }

    /// Gives a job that has just failed its number in the whole round.
    pub(crate) fn name_job(&mut self, names: &[u32]) {
        if let Some((_, RoundFailure { job: Some(job), .. })) = self.failed.as_mut().filter(|_| !self.named) {
            *job = names.get(*job).map_or(*job, |&name| name as usize);
            self.named = true;
        }
    }

    /// Those of some shards that are here, counted from the first here. That they are shards at all was checked before.
    #[inline(always)]
    fn own(&self, shards: Shards) -> Range<usize> {
        let range = shards.range(self.all).unwrap_or(0..0);
        let clamp = |shard: usize| shard.clamp(self.first, self.first + self.shards.len()) - self.first;
        clamp(range.start)..clamp(range.end)
    }

    /// Applies what came of the jobs of a round. A failure is reported with another.
    pub(crate) fn apply(&mut self, round: usize, jobs: &[P::Job], changes: &[P::Change], told_with: usize) {
        if self.failed.is_some() || jobs.is_empty() {
            return;
        }
        let threaded = self.shards.len() > 1
            && self
                .applying
                .is_heavy(self.pool, || jobs.iter().map(|job| self.own(self.program.applied_to(job)).len()).sum());
        let ran = if threaded { self.apply_on_threads(jobs, changes) } else { self.apply_inline(jobs, changes) };
        if let Err((job, shard, note)) = ran {
            let (shard, what) = (Some(self.first + shard), RoundCause::Panic(note));
            self.failed =
                Some((told_with, RoundFailure { round, function: Function::Apply, job: Some(job), shard, what }));
        }
    }

    fn apply_inline(&mut self, jobs: &[P::Job], changes: &[P::Change]) -> Result<(), Panicked> {
        let since = self.applying.begin(self.pool);
        let (at, mut units) = (At::default(), 0);
        let ran = panics::caught_within(|| {
            for (j, (job, change)) in jobs.iter().zip(changes).enumerate() {
                at.job.set(j);
                let own = self.own(self.program.applied_to(job));
                units += own.len();
                for p in own {
                    at.shard.set(p);
                    self.program.apply(job, change, &self.shards[p], &mut self.locals[p]);
                }
            }
        });
        self.applying.end(since, units);
        ran.map_err(|note| (at.job.get(), at.shard.get(), note))
    }

    fn apply_on_threads(&mut self, jobs: &[P::Job], changes: &[P::Change]) -> Result<(), Panicked> {
        let (program, shards) = (self.program, self.shards);
        let mut ranges = Vec::with_capacity(jobs.len());
        for (j, job) in jobs.iter().enumerate() {
            let range = panics::caught_within(|| self.own(program.applied_to(job)));
            ranges.push(range.map_err(|note| (j, 0, note))?);
        }
        let units: usize = ranges.iter().map(ExactSizeIterator::len).sum();
        let locals: Vec<Mutex<&mut P::Local>> = self.locals.iter_mut().map(Mutex::new).collect();
        let (next, spent, first) = (AtomicUsize::new(0), AtomicU64::new(0), Mutex::new(None));
        self.pool.everywhere(locals.len(), |_| {
            let since = Instant::now();
            loop {
                let p = next.fetch_add(1, Relaxed);
                let Some(local) = locals.get(p) else { break };
                let (mut local, at) = (locked(local), Cell::new(0));
                let ran = panics::caught(|| {
                    for (j, (range, change)) in ranges.iter().zip(changes).enumerate() {
                        if range.contains(&p) {
                            at.set(j);
                            program.apply(&jobs[j], change, &shards[p], &mut local);
                        }
                    }
                });
                if let Err(note) = ran {
                    keep_first(&first, (at.get(), p, note));
                }
            }
            spent.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        });
        self.applying.record(spent.load(Relaxed) as f64 / units.max(1) as f64);
        locked(&first).take().map_or(Ok(()), Err)
    }

    /// Runs a round's updates into its slots.
    pub(crate) fn update(&mut self, round: &mut Round<P>) {
        if self.failed.is_some() {
            return;
        }
        let threaded = self
            .updating
            .is_heavy(self.pool, || round.jobs.iter().map(|job| self.own(self.program.updated_on(job)).len()).sum());
        let ran = if threaded {
            self.update_on_threads(&round.jobs, &mut round.slots)
        } else {
            self.update_inline(&round.jobs, &mut round.slots)
        };
        if let Err((job, shard, note)) = ran {
            let (round, shard, what) = (round.number, Some(self.first + shard), RoundCause::Panic(note));
            self.failed =
                Some((round, RoundFailure { round, function: Function::Update, job: Some(job), shard, what }));
        }
    }

    fn update_inline(&mut self, jobs: &[P::Job], slots: &mut Vec<Option<P::Partial>>) -> Result<(), Panicked> {
        let since = self.updating.begin(self.pool);
        let at = At::default();
        let ran = panics::caught_within(|| {
            for (j, job) in jobs.iter().enumerate() {
                at.job.set(j);
                for p in self.own(self.program.updated_on(job)) {
                    at.shard.set(p);
                    slots.push(Some(self.program.update(job, &self.shards[p], &self.locals[p])));
                }
            }
        });
        self.updating.end(since, slots.len());
        ran.map_err(|note| (at.job.get(), at.shard.get(), note))
    }

    fn update_on_threads(&mut self, jobs: &[P::Job], slots: &mut Vec<Option<P::Partial>>) -> Result<(), Panicked> {
        let (program, shards, locals) = (self.program, self.shards, &*self.locals);
        let mut tasks = Vec::new();
        for (j, job) in jobs.iter().enumerate() {
            let listed = panics::caught_within(|| {
                for shard in self.own(program.updated_on(job)) {
                    let slot = tasks.len();
                    tasks.push(Task { weight: program.weight(job, &shards[shard]), job: j, shard, slot });
                }
            });
            listed.map_err(|note| (j, 0, note))?;
        }
        tasks.sort_unstable_by_key(|task| (Reverse(task.weight), task.slot));
        let made: Vec<Mutex<Option<P::Partial>>> = tasks.iter().map(|_| Mutex::new(None)).collect();
        let (next, spent) = (AtomicUsize::new(0), AtomicU64::new(0));
        let (stop, first) = (AtomicUsize::new(usize::MAX), Mutex::new(None));
        self.pool.everywhere(tasks.len(), |_| {
            let since = Instant::now();
            while let Some(task) = tasks.get(next.fetch_add(1, Relaxed)) {
                if task.slot > stop.load(Relaxed) {
                    continue;
                }
                let (job, p) = (&jobs[task.job], task.shard);
                match panics::caught(|| program.update(job, &shards[p], &locals[p])) {
                    Ok(partial) => *locked(&made[task.slot]) = Some(partial),
                    Err(note) => {
                        stop.fetch_min(task.slot, Relaxed);
                        keep_first(&first, (task.job, p, note));
                    }
                }
            }
            spent.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        });
        if let Some(panicked) = locked(&first).take() {
            return Err(panicked);
        }
        self.updating.record(spent.load(Relaxed) as f64 / tasks.len().max(1) as f64);
        slots.extend(made.into_iter().map(|slot| slot.into_inner().unwrap_or_else(PoisonError::into_inner)));
        Ok(())
    }
}

/// Keeps the first in the order of jobs and shards.
fn keep_first(kept: &Mutex<Option<Panicked>>, other: Panicked) {
    let mut kept = locked(kept);
    if kept.as_ref().is_none_or(|kept| (other.0, other.1) < (kept.0, kept.1)) {
        *kept = Some(other);
    }
}

impl<P: Program> Field<P> for LocalShards<'_, P> {
    type Stop = RoundFailure;

    #[inline]
    fn step(&mut self, settled: Option<&Round<P>>, fresh: Option<&mut Round<P>>) -> Result<(), RoundFailure> {
        if let Some(old) = settled {
            let told_with = fresh.as_ref().map_or(usize::MAX, |new| new.number);
            self.apply(old.number, &old.jobs, &old.changes, told_with);
        }
        if let Some(new) = fresh {
            self.update(new);
        }
        Ok(())
    }

    #[inline]
    fn collect(&mut self, round: &mut Round<P>) -> Result<(), RoundFailure> {
        self.failure(round.number).map_or(Ok(()), |failed| Err(failed.clone()))
    }

    fn finish(&mut self) -> Result<(), RoundFailure> {
        self.failure(usize::MAX).map_or(Ok(()), |failed| Err(failed.clone()))
    }
}

#[cfg(test)]
#[path = "here_tests.rs"]
mod tests;
