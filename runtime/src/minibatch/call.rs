//! One call of a synchronous loop.
//!
//! # Why this is sound
//! The handles keep all captured DDSs borrowed until the last body has ended; elements that are written are plain.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use super::backup;
use super::batch::Batch;
use super::cache::{CachedLoop, SyncCache, SyncKey};
use super::hot::Chosen;
use super::in_place;
use super::input::InputOf;
use super::ledger::{Base, Ledger};
use super::new_entries::{NewByCapture, are_same};
use super::policy::{MergeRule, SyncOptions, SyncPolicy};
use super::report::{Counts, SyncReport};
use super::rounds::{OwnCopies, Rounds};
use super::runner::{Input, Outcomes, Runner, unite};
use super::schedule::Schedule;
use super::stale::{Observed, Stale};
use super::table::{AllThere, Purpose, Table};
use super::task::{BatchTask, BodyTask};
use crate::body::capture::{Captured, Handles, Kind};
use crate::body::lease::{Lease, Lent};
use crate::body::outcome::{Failure, Outcome};
use crate::body::panics;
use crate::body::stored::Stored;
use crate::body::value::Values;
use crate::loops::call::Pack;
use crate::loops::execute::words;
use crate::memory::buffer::RawBuf;
use crate::memory::merge::Merging;
use crate::planner::recording::LISTED;
use crate::session::error::{BatchProblem, Error, LoopProblem, Result};
use crate::session::options::Site;
use crate::session::pool::Pool;
use crate::session::report::WorkerTime;
use crate::session::slots::Slot;
use crate::session::verified::{Unverified, Verified};
use crate::session::{SessionInner, locked, next_id};

/// What `sync_parallel_for!` calls.
///
/// # Errors
/// As the macro says.
#[allow(clippy::too_many_arguments, reason = "a macro calls it")]
pub fn sync_for<T, V, H, F, R>(
    site: &'static Site,
    options: SyncOptions,
    input: InputOf<'_, T>,
    minibatch: usize,
    policy: SyncPolicy,
    values: V,
    mut handles: H,
    body: F,
) -> Result<SyncReport>
where
    T: ?Sized + Stored + 'static,
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    let task = BodyTask::<T, V, H, F, R>::new(values, &handles, body);
    let (captured, watch) = (handles.describe(), task.watch());
    let new = Mutex::default();
    let call = SyncCall {
        site,
        options,
        policy,
        minibatch,
        input: &input.data,
        captured: &captured,
        task: &task,
        pack: &|| task.pack(),
        session: &input.data.session,
        new: &new,
    };
    let result = call.check().and_then(|()| call.run());
    // Who lends elements has them alone again.
    drop(captured);
    let taken = handles.take_new_entries(std::mem::take(&mut *locked(&new)));
    let result = result.and_then(|report| taken.map(|()| report));
    let result = result.and_then(|report| watch.unchanged(&task.watch(), site).map(|()| report));
    // The borrows that the descriptions stand for end here, not before.
    drop((handles, input));
    result
}

pub(crate) struct SyncCall<'c> {
    pub(crate) site: &'static Site,
    pub(crate) options: SyncOptions,
    pub(crate) policy: SyncPolicy,
    pub(crate) minibatch: usize,
    pub(crate) input: &'c Captured,
    pub(crate) captured: &'c [Captured],
    pub(crate) task: &'c dyn BatchTask,
    pub(crate) pack: Pack<'c>,
    pub(crate) session: &'c Arc<SessionInner>,
    /// Where what bodies added to maps is left, once the loop has ended well.
    pub(crate) new: &'c Mutex<NewByCapture>,
}

/// What synchronous loops ask of a backend.
pub(crate) trait MinibatchBackend: Send + Sync {
    /// Runs a loop, and commits what it came to. After a failure everything is as it was.
    fn run_minibatches(&self, call: &SyncCall<'_>) -> Result<SyncReport>;
}

/// How a loop ended in one process.
pub(crate) struct Ran {
    pub(crate) totals: Vec<(usize, Vec<u64>)>,
    pub(crate) counts: Counts,
    pub(crate) violations: u64,
    pub(crate) new: NewByCapture,
}

impl SyncCall<'_> {
    fn problem(&self, problem: LoopProblem) -> Error {
        Error::Loop { site: self.site.to_string(), problem }
    }

    fn check(&self) -> Result<()> {
        if panics::inside_body() {
            return Err(self.problem(LoopProblem::Nested));
        }
        if self.captured.is_empty() {
            return Err(self.problem(LoopProblem::NothingCaptured));
        }
        self.captured.iter().chain([self.input]).try_for_each(Captured::usable)?;
        for (c, capture) in self.captured.iter().enumerate() {
            if !capture.session.is(self.session) {
                return Err(self.problem(LoopProblem::TwoSessions { first: "the input", second: self.site.name(c) }));
            }
            if matches!(capture.kind, Kind::Relaxed { .. }) {
                return Err(self.problem(LoopProblem::RelaxedInSync { name: self.site.name(c) }));
            }
            if let Kind::Vector { len, .. } = capture.kind
                && len > LISTED
            {
                let name = self.site.name(c);
                return Err(self.problem(LoopProblem::TooManyElements { name, len, max: LISTED }));
            }
            let same = |other: &Captured| other.id == capture.id && matches!(other.kind, Kind::Reduction { .. });
            if let Some(other) = self.captured[..c].iter().position(same) {
                let (first, second) = (self.site.name(other), self.site.name(c));
                return Err(self.problem(LoopProblem::CapturedTwice { first, second }));
            }
        }
        if self.minibatch == 0 {
            return Err(self.problem(LoopProblem::EmptyMinibatch));
        }
        if self.policy == (SyncPolicy::ModelAverage { every: 0 }) {
            return Err(self.problem(LoopProblem::NeverAveraged));
        }
        self.check_merging()
    }

    /// Copies meet, and their changes are united, as the options say.
    fn check_merging(&self) -> Result<()> {
        let SyncOptions { merge, interval, .. } = self.options;
        let (policy, own) = (self.policy.as_str(), matches!(self.policy, SyncPolicy::Bsp | SyncPolicy::Hybrid));
        if interval == 0 {
            return Err(self.problem(LoopProblem::NoInterval));
        }
        if interval > 1 && !own {
            return Err(self.problem(LoopProblem::OwnInterval { policy }));
        }
        if merge == MergeRule::Sum {
            return Ok(());
        }
        if !own {
            return Err(self.problem(LoopProblem::OwnMerge { policy, merge: merge.as_str() }));
        }
        if merges(self.task, self.captured).iter().flatten().any(Merging::combines) {
            return Ok(());
        }
        let written = |capture: &Captured| matches!(capture.kind, Kind::Vector { writable: true, .. });
        let names =
            (0..self.captured.len()).filter(|&c| written(&self.captured[c])).map(|c| self.site.name(c)).collect();
        Err(self.problem(LoopProblem::NothingCombines { names }))
    }

    fn run(&self) -> Result<SyncReport> {
        let report = self.session.backend::<dyn MinibatchBackend>().run_minibatches(self)?;
        let site = (std::ptr::from_ref(self.site).addr(), self.policy);
        if self.session.explains() && self.session.slot::<SyncState>().is_new(site) {
            eprintln!("{report}");
        }
        Ok(report)
    }

    /// Runs the loop on the session's threads.
    pub(crate) fn run_here(&self) -> Result<SyncReport> {
        let begun = Instant::now();
        let pool = self.session.pool()?;
        // Threads that wait for each other must all be there: one such loop at a time.
        let state = self.session.slot::<SyncState>();
        let _turn = locked(&state.turn);
        let copies = if self.policy == SyncPolicy::Hybrid { 1 } else { pool.threads() };
        let (lease, elements) = (Lease::of(self.captured), Lent::of(self.input));
        let len = elements.as_ref().map_or(0, Lent::len);
        let schedule = Schedule::new((len, self.minibatch), self.policy, self.options.interval, copies, pool.threads());
        let merges = merges(self.task, self.captured);
        let before = words(self.captured);
        let mut kept = self.kept(&merges, copies)?;
        let base = elements.as_ref().map_or(std::ptr::null_mut(), Lent::base);
        let input = Input { base, ..Input::of(elements.as_ref().map(Lent::ops)) };
        let stopped = AtomicBool::new(false);
        for (c, backup) in kept.backup.iter_mut().enumerate() {
            if let Some(lent) = lease.vector(c).filter(|lent| lent.is_writable()) {
                // SAFETY: the loop has the DVector borrowed, and no body runs.
                unsafe { backup::save(backup, lent.ops(), lent.base(), 0..lent.len(), &pool) };
            }
        }
        let stamp = kept.stamps_for(schedule.rounds());
        let prepared = Instant::now();
        let outcome = Outcomes::default();
        let run = LocalRun {
            call: self,
            lease: &lease,
            merges: &merges,
            input: &input,
            schedule,
            before: &before,
            tables: &kept.tables,
            stamp,
            stopped: &stopped,
            outcome: &outcome,
            hot: &kept.hot,
        };
        let ran = run.run(&pool, pool.threads());
        let ended = match ran {
            Ok(mut ran) => {
                let serial = pool.threads() == 1 && copies == 1;
                let after = unite(self.captured, &before, serial, &ran.totals);
                let checked = self.verify(&kept, &run, &after, &ran);
                self.commit(&after, std::mem::take(&mut ran.new));
                checked.and_then(|verified| self.within_bound(&ran).map(|()| (ran, verified)))
            }
            Err((minibatch, failure)) => {
                for (c, saved) in kept.backup.iter().enumerate() {
                    if let (Some(lent), Some(saved)) = (lease.vector(c), saved) {
                        // SAFETY: all bodies have ended.
                        unsafe { backup::restore(saved, lent.base(), 0, &pool) };
                    }
                }
                Err(self.failed(schedule, minibatch, failure))
            }
        };
        let oldest = locked(&state.cache).put(kept);
        drop(oldest);
        let seconds = ((prepared - begun).as_secs_f64(), prepared.elapsed().as_secs_f64());
        let (ran, verified) = ended?;
        Ok(SyncReport { verified, ..self.report(schedule, pool.threads(), seconds, ran.counts, Vec::new()) })
    }

    /// The loop ended well: what it wrote counts.
    pub(crate) fn commit(&self, words: &[u64], new: NewByCapture) {
        *locked(self.new) = new;
        for (capture, &word) in self.captured.iter().zip(words) {
            capture.commit(word, next_id());
        }
    }

    /// The report of a call: `seconds` of preparing and of running.
    pub(crate) fn report(
        &self,
        schedule: Schedule,
        threads: usize,
        seconds: (f64, f64),
        counts: Counts,
        workers: Vec<WorkerTime>,
    ) -> SyncReport {
        SyncReport {
            site: self.site,
            label: self.options.label.clone(),
            policy: self.policy,
            rule: self.options.merge,
            elements: schedule.len,
            minibatches: schedule.minibatches(),
            copies: schedule.copies,
            threads,
            rounds: if schedule.copies == 1 { 0 } else { schedule.rounds() },
            row_bytes: self.captured.iter().filter_map(super::report::written_bytes).min().unwrap_or(0),
            seconds_preparing: seconds.0,
            seconds_running: seconds.1,
            counts,
            workers,
            verified: Verified::NotAsked,
        }
    }

    /// What tables of the loop's copies belong to.
    pub(crate) fn key(&self, copies: usize) -> SyncKey {
        let written = |capture: &Captured| match capture.kind {
            Kind::Vector { len, writable: true, .. } => (capture.id, len),
            _ => (0, 0),
        };
        SyncKey {
            site: std::ptr::from_ref(self.site).addr(),
            body: self.task.type_id(),
            written: self.captured.iter().map(written).collect(),
            copies,
            staleness: match self.policy {
                SyncPolicy::Ssp { staleness } if copies > 1 => Some(staleness),
                _ => None,
            },
        }
    }

    fn kept(&self, merges: &[Option<Merging>], copies: usize) -> Result<CachedLoop> {
        let key = self.key(copies);
        let there = locked(&self.session.slot::<SyncState>().cache).take(&key);
        if let Some(kept) = there {
            return Ok(kept);
        }
        let tables = if copies == 1 { Vec::new() } else { self.tables(merges, copies)? };
        let backup = self.captured.iter().map(|_| None).collect();
        Ok(CachedLoop { key, tables, stamp: 0, backup, hot: Chosen::default() })
    }

    fn tables(&self, merges: &[Option<Merging>], copies: usize) -> Result<Vec<Vec<Option<Table>>>> {
        let ssp = matches!(self.policy, SyncPolicy::Ssp { .. });
        tables(self.captured, merges, copies, if ssp { Purpose::Clocks } else { Purpose::OwnRounds })
            .map_err(|(len, size)| self.problem(LoopProblem::NoRoomForCopies { len, size, copies }))
    }

    /// Runs the loop once more as its copies are said to have run, one after the other on one thread, and compares.
    fn verify(&self, kept: &CachedLoop, run: &LocalRun<'_>, after: &[u64], first: &Ran) -> Result<Verified> {
        let LocalRun { lease, merges, input, schedule, before, .. } = *run;
        let copies = schedule.copies;
        let threads = if self.policy == SyncPolicy::Hybrid { self.session.pool()?.threads() } else { 1 };
        if let Some(not) = self.not_replayed(copies, threads, first.counts.reads) {
            return Ok(not);
        }
        let one = Pool::one();
        let mut shadows: Vec<Option<RawBuf>> = self.captured.iter().map(|_| None).collect();
        for (shadow, saved) in shadows.iter_mut().zip(&kept.backup) {
            if let Some(saved) = saved {
                // SAFETY: a buffer of this call's own, which nobody writes.
                unsafe { backup::save(shadow, saved.ops(), saved.as_ptr(), 0..saved.len(), &one) };
            }
        }
        let shadows = lease.with(shadows);
        let tables = if copies == 1 { Vec::new() } else { self.tables(merges, copies)? };
        let (stopped, outcome) = (AtomicBool::new(false), Outcomes::default());
        let run = LocalRun {
            call: self,
            lease: &shadows,
            merges,
            input,
            schedule,
            before,
            tables: &tables,
            stamp: 0,
            stopped: &stopped,
            outcome: &outcome,
            hot: &kept.hot,
        };
        let differs =
            |c: usize, index| Error::Verification { site: self.site.to_string(), dds: self.site.name(c), index };
        let ran = run.run(&one, 1).map_err(|_| differs(0, 0))?;
        let replayed = unite(self.captured, before, copies == 1, &ran.totals);
        let mut compared = Vec::new();
        for (c, capture) in self.captured.iter().enumerate() {
            let written = lease.vector(c).filter(|lent| lent.is_writable());
            if let (Kind::Vector { len, ops, .. }, Some((own, shadow))) =
                (&capture.kind, written.zip(shadows.vector(c)))
            {
                // SAFETY: both hold `len` elements, and no body runs.
                let other = (0..*len).find(|&i| unsafe { super::merging::differ(own.at(i), shadow.at(i), ops.size) });
                if let Some(index) = other {
                    return Err(differs(c, index));
                }
                compared.push(self.site.name(c));
            } else if matches!(capture.kind, Kind::Vector { .. }) {
                // Nothing is written there.
            } else if replayed[c] != after[c] {
                return Err(differs(c, 0));
            } else {
                compared.push(self.site.name(c));
            }
        }
        compared.extend(self.compare_new([first, &ran]).map_err(|c| differs(c, self.captured[c].counted().0))?);
        Ok(Verified::Compared(compared))
    }

    /// Compares what two runs have added to maps. Gives the names of those of which nothing else was compared, or which capture differs.
    fn compare_new(&self, runs: [&Ran; 2]) -> std::result::Result<Vec<&'static str>, usize> {
        let mut names = Vec::new();
        for (c, ops) in self.task.new_entry_ops().into_iter().enumerate() {
            let Some(ops) = ops else { continue };
            if !are_same(ops, runs.map(|ran| ran.new.get(c).and_then(Option::as_ref))) {
                return Err(c);
            }
            if !matches!(self.captured[c].kind, Kind::Vector { writable: true, .. }) {
                names.push(self.site.name(c));
            }
        }
        Ok(names)
    }

    /// What a loop says that isn't replayed.
    fn not_replayed(&self, copies: usize, threads: usize, reads: u64) -> Option<Verified> {
        match self.policy {
            _ if !self.session.verifies() => Some(Verified::NotAsked),
            policy if policy.is_deterministic(copies, threads) => None,
            SyncPolicy::Ssp { .. } => Some(Verified::NotCompared(Unverified::Stale { reads })),
            _ => Some(Verified::NotCompared(Unverified::SharedRows)),
        }
    }

    /// No read was older than the bound.
    pub(crate) fn within_bound(&self, ran: &Ran) -> Result<()> {
        match ran.violations {
            0 => Ok(()),
            violations => Err(Error::TooStale { site: self.site.to_string(), violations, worst: ran.counts.worst }),
        }
    }

    pub(crate) fn failed(&self, schedule: Schedule, minibatch: usize, failure: Failure) -> Error {
        let problem = match failure {
            Failure::OutOfRange { capture, index } => {
                let (len, rows) = self.captured.get(capture).map_or((0, false), Captured::counted);
                BatchProblem::IndexOutOfRange { dds: self.site.name(capture), index, len, rows }
            }
            Failure::Body(source) => BatchProblem::Body(source),
            Failure::Panic(note) | Failure::Undoing(note) => {
                BatchProblem::Panic { message: note.message, location: note.location }
            }
            Failure::Misspeculation { .. } | Failure::Stopped | Failure::Difference { .. } => BatchProblem::Stopped,
        };
        let elements = schedule.elements(minibatch);
        Error::Minibatch { site: self.site.to_string(), minibatch, start: elements.start, end: elements.end, problem }
    }
}

/// Tables for copies of what a loop writes, by copy and capture. Otherwise length and element size of the DDS that there is
/// no address space for.
pub(crate) fn tables(
    captured: &[Captured],
    merges: &[Option<Merging>],
    copies: usize,
    purpose: Purpose,
) -> std::result::Result<Vec<Vec<Option<Table>>>, (usize, usize)> {
    let table = |(capture, merge): (&Captured, &Option<Merging>)| match (&capture.kind, merge) {
        (&Kind::Vector { len, ops, writable: true, .. }, &Some(merge)) => {
            Table::new(ops, merge, len, purpose).map(Some).ok_or((len, ops.size))
        }
        _ => Ok(None),
    };
    (0..copies).map(|_| captured.iter().zip(merges).map(table).collect()).collect()
}

/// Which hot rows the threads of a loop cache, and how many at most, where they do.
pub(crate) fn caches(chosen: &Chosen, most: usize, policy: SyncPolicy) -> Option<(&Chosen, usize)> {
    (most > 0 && policy == SyncPolicy::Hybrid).then_some((chosen, most))
}

/// What unites copies of each capture.
pub(crate) fn merges(task: &dyn BatchTask, captured: &[Captured]) -> Vec<Option<Merging>> {
    let of = |(ops, capture): (Option<_>, &Captured)| match capture.kind {
        Kind::Vector { ops: elements, .. } => Merging::new(ops?, elements),
        _ => None,
    };
    task.merges().into_iter().zip(captured).map(of).collect()
}

/// What is lent, as the ledger knows it.
pub(crate) fn bases(lease: &Lease<'_>, merges: &[Option<Merging>]) -> Vec<Base> {
    let base = |(c, &merge): (usize, &Option<Merging>)| match lease.vector(c) {
        Some(lent) => Base { at: lent.base(), size: lent.ops().size, len: lent.len(), merge },
        None => Base { at: std::ptr::null_mut(), size: 0, len: 0, merge: None },
    };
    merges.iter().enumerate().map(base).collect()
}

/// A run in this process.
struct LocalRun<'h> {
    call: &'h SyncCall<'h>,
    lease: &'h Lease<'h>,
    merges: &'h [Option<Merging>],
    input: &'h Input,
    schedule: Schedule,
    before: &'h [u64],
    tables: &'h [Vec<Option<Table>>],
    stamp: u32,
    stopped: &'h AtomicBool,
    outcome: &'h Outcomes,
    hot: &'h Chosen,
}

impl LocalRun<'_> {
    fn run(&self, pool: &Pool, threads: usize) -> std::result::Result<Ran, (usize, Failure)> {
        let copies = self.schedule.copies;
        let runner = Runner {
            task: self.call.task,
            lease: self.lease,
            merges: self.merges,
            input: self.input,
            schedule: self.schedule,
            before: self.before,
            serial: copies == 1 && threads == 1,
            threads,
            stopped: self.stopped,
            outcome: self.outcome,
            caches: caches(self.hot, self.call.options.caches, self.call.policy),
        };
        let bases = bases(self.lease, self.merges);
        let source = AllThere { bases: bases.iter().map(|base| (base.at, base.size)).collect() };
        let observed = Observed::default();
        match self.call.policy {
            _ if copies == 1 => in_place::run(&runner, pool),
            SyncPolicy::Ssp { staleness } => {
                let each = |copy| self.schedule.minibatches_of(copy..copy + 1).count();
                let ledger = Ledger::new(bases, &(0..copies).map(each).collect::<Vec<_>>(), None);
                let stale = Stale {
                    runner,
                    staleness,
                    copies: 0..copies,
                    tables: self.tables,
                    source: &source,
                    ledger: &ledger,
                    peers: None,
                    stamp: self.stamp,
                    checks: self.call.session.verifies(),
                    observed: &observed,
                };
                stale.run(pool);
            }
            policy => {
                let own = OwnCopies {
                    copies: 0..copies,
                    tables: self.tables,
                    source: &source,
                    peers: None,
                    stamp: self.stamp,
                };
                Rounds::new(runner, policy, self.call.options.merge, own).run(pool);
            }
        }
        if let Some(failure) = self.outcome.take_failure() {
            return Err(failure);
        }
        let violations = observed.violations.load(Relaxed);
        let how = (self.call.policy, self.call.options.merge, self.schedule);
        let new = self.outcome.new.unite(&self.call.task.new_entry_ops(), how);
        let new = new.map_err(|(minibatch, note)| (minibatch, Failure::Panic(note)))?;
        Ok(Ran { totals: self.outcome.take_totals(), counts: self.counts(&observed), violations, new })
    }

    fn counts(&self, observed: &Observed) -> Counts {
        Counts {
            touched: self.outcome.touched.load(Relaxed),
            cached: self.outcome.cached.load(Relaxed),
            merging: self.outcome.merging.load(Relaxed),
            reads: observed.reads.load(Relaxed),
            worst: observed.worst.load(Relaxed),
            ..Counts::default()
        }
    }
}

/// What a session keeps of synchronous loops.
#[derive(Default)]
struct SyncState {
    /// Whose turn it is.
    turn: Mutex<()>,
    cache: Mutex<SyncCache>,
    /// Those that were explained.
    reported: Mutex<Vec<(usize, SyncPolicy)>>,
}

impl SyncState {
    /// Whether a loop hasn't been explained yet.
    fn is_new(&self, site: (usize, SyncPolicy)) -> bool {
        let mut reported = locked(&self.reported);
        let new = !reported.contains(&site);
        if new {
            reported.push(site);
        }
        new
    }
}

impl Slot for SyncState {
    fn forget(&self, dds: u64) {
        let forgotten = locked(&self.cache).remove_users_of(dds);
        drop(forgotten);
    }
}
