//! A worker's part of a synchronous loop, from the driver's message to its answer.
//!
//! # Why this is sound
//! Names of code and constants come from the driver alone (see `naming`). Shards live as long as what points at them
//! (`Syncing` holds them), the packed input as long as the loop.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::body::capture::Captured;
use crate::body::lease::Lease;
use crate::body::outcome::Failure;
use crate::body::panics;
use crate::cluster::wire::keepers::{Keepers, Places, Touches};
use crate::cluster::wire::links::Links;
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{
    Fetching, INPUTS, InputKey, KeptBy, Node, Problem, RemoteCause, SyncEnd, SyncJob, SyncRan, WorkerSeconds,
};
use crate::cluster::wire::serve::Blobs;
use crate::cluster::worker::bench::{Workbench, dds_of};
use crate::cluster::worker::exchange::{Clocks, ClocksShape, Setup, Syncing, Team, Written};
use crate::cluster::worker::site::LoopMemory;
use crate::memory::buffer::RawBuf;
use crate::memory::merge::Merging;
use crate::memory::reservation::Reservation;
use crate::minibatch::{
    Base, BatchTask, Counts, Input, Ledger, Observed, Outcomes, OwnCopies, Purpose, Rounds, Runner, Stale, SyncPolicy,
    backup, bases, caches, in_place, merges, tables,
};
use crate::session::locked;
use crate::session::pool::Pool;

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

/// What a loop changed, as it was before: reservation, which rows these are, and their values one after the other.
type Saved = Vec<(Arc<Reservation>, Vec<Range<u32>>, RawBuf)>;

/// What a worker keeps of synchronous loops.
#[derive(Default)]
pub(crate) struct SyncBench {
    sites: Mutex<BTreeMap<u64, Arc<LoopMemory>>>,
    inputs: Mutex<Vec<(InputKey, Arc<RawBuf>)>>,
    /// The loop that ran last, until it is certain that it ended well everywhere.
    last: Mutex<Option<(u64, Arc<LoopMemory>, Saved)>>,
    /// By DDS, who keeps which rows, and the number of that.
    keepers: Mutex<BTreeMap<u64, (u64, Arc<Keepers>)>>,
}

impl SyncBench {
    /// A generation begins.
    pub(crate) fn clear(&self) {
        locked(&self.sites).clear();
        locked(&self.inputs).clear();
        locked(&self.keepers).clear();
        *locked(&self.last) = None;
    }

    pub(crate) fn commit(&self) {
        *locked(&self.last) = None;
    }

    /// Puts back what a run changed.
    pub(crate) fn undo(&self, call: u64, pool: &Pool) {
        let Some((_, site, saved)) = locked(&self.last).take_if(|(last, ..)| *last == call) else { return };
        site.forget_wants();
        for (reservation, runs, rows) in saved {
            // SAFETY: no loop runs; the rows were saved from there.
            unsafe { backup::restore_runs(&rows, reservation.base(), &runs, pool) };
        }
    }

    pub(crate) fn forget(&self, ddss: &[u64], sites: &[u64]) {
        locked(&self.inputs).retain(|(key, _)| !ddss.contains(&key.dds));
        locked(&self.sites).retain(|site, _| !sites.contains(site));
        locked(&self.keepers).retain(|dds, _| !ddss.contains(dds));
    }

    /// Who keeps which rows of a DDS, and the number under which that is known; 0 where it is forgotten.
    fn kept_by(&self, dds: u64, kept: &KeptBy) -> Result<(u64, Arc<Keepers>), Problem> {
        match kept {
            KeptBy::Once(keepers) => Ok((0, Arc::new(keepers.clone()))),
            KeptBy::New(number, keepers) => {
                let known = (*number, Arc::new(keepers.clone()));
                locked(&self.keepers).insert(dds, known.clone());
                Ok(known)
            }
            KeptBy::Known(number) => self.known_keepers(dds, *number).map(|keepers| (*number, keepers)),
        }
    }

    fn known_keepers(&self, dds: u64, number: u64) -> Result<Arc<Keepers>, Problem> {
        let known =
            locked(&self.keepers).get(&dds).filter(|(known, _)| *known == number).map(|(_, keepers)| keepers.clone());
        known.ok_or_else(|| broken("rows that were never dealt out"))
    }

    fn site(&self, number: u64) -> Arc<LoopMemory> {
        Arc::clone(locked(&self.sites).entry(number).or_default())
    }

    /// An input that was fetched before. In the order of their last use: the driver knows which are there.
    pub(crate) fn kept_input(&self, key: InputKey) -> Option<Arc<RawBuf>> {
        let mut inputs = locked(&self.inputs);
        let at = inputs.iter().position(|(known, _)| *known == key)?;
        let kept = inputs.remove(at);
        let elements = Arc::clone(&kept.1);
        inputs.push(kept);
        Some(elements)
    }

    pub(crate) fn keep_input(&self, key: InputKey, elements: RawBuf) -> Arc<RawBuf> {
        let elements = Arc::new(elements);
        let mut inputs = locked(&self.inputs);
        if inputs.len() >= INPUTS {
            inputs.remove(0);
        }
        inputs.push((key, Arc::clone(&elements)));
        elements
    }
}

/// A loop that is about to run.
pub(crate) struct PreparedLoop {
    pub(crate) syncing: Arc<Syncing>,
    captured: Vec<Captured>,
    merges: Vec<Option<Merging>>,
    task: Box<dyn BatchTask>,
}

// SAFETY: a task is a closure without captures and values that are `Send` and `Sync`; the rest is sent freely.
unsafe impl Send for PreparedLoop {}

/// Makes what the network must know before messages of the loop come.
pub(crate) fn begin(
    bench: &Workbench,
    job: &SyncJob,
    generation: u32,
    nodes: Vec<Node>,
    links: &Arc<Links>,
    threads: usize,
) -> Result<PreparedLoop, Problem> {
    let maker = naming::batch_task_maker(job.task.maker).ok_or_else(|| broken("a loop of another program"))?;
    let task = maker(&job.task.values).map_err(broken)?;
    let captured = bench.captured(&job.captures)?;
    let merges = merges(&*task, &captured);
    let reservations = bench.reservations_of(&job.captures);
    let me = nodes.iter().position(|&node| node == bench.me()).ok_or_else(|| broken("a loop of others"))?;
    if merges.len() != captured.len() || job.keepers.len() != captured.len() || job.copies.len() != nodes.len() {
        return Err(broken("captures, keepers and copies are of different loops"));
    }
    let (written, numbers) = written(bench, job, reservations, (me, nodes.len()))?;
    let clocks = clocks(job, (me, nodes.len()), bases(&Lease::of(&captured), &merges), &written);
    let site = bench.sync.site(job.site);
    let dealt: Vec<bool> = numbers.iter().map(|&number| number > 0).collect();
    if site.keeps(numbers) && job.fetching != Fetching::All {
        // Of rows that are cut by number others may be about to fetch theirs from here.
        let own = written.iter().zip(dealt).filter_map(|(written, dealt)| written.as_ref().filter(|_| dealt));
        own.for_each(|written| give_up_others(written, me));
    }
    let team = Team { call: job.call, generation, me, nodes, links: Arc::clone(links) };
    let setup = Setup { written, copies: job.copies.clone(), fetching: job.fetching, early: job.early, clocks, site };
    let syncing = Syncing::new(team, setup, threads);
    Ok(PreparedLoop { syncing: Arc::new(syncing), captured, merges, task })
}

/// What the loop writes, by capture, and the numbers of who keeps its rows.
fn written(
    bench: &Workbench,
    job: &SyncJob,
    reservations: Vec<Option<Arc<Reservation>>>,
    (me, workers): (usize, usize),
) -> Result<(Vec<Option<Written>>, Vec<u64>), Problem> {
    let (mut all, mut numbers) = (Vec::new(), Vec::new());
    for ((reservation, kept), capture) in reservations.into_iter().zip(&job.keepers).zip(&job.captures) {
        let (Some(reservation), Some(kept), Some(dds)) = (reservation, kept, dds_of(capture)) else {
            all.push(None);
            numbers.push(0);
            continue;
        };
        let (number, keepers) = bench.sync.kept_by(dds, kept)?;
        if !keepers.covers(reservation.len(), workers) {
            return Err(broken("rows are dealt out in a way that doesn't cover them"));
        }
        let places = Places::of(&keepers, me);
        let away = |row: usize| AtomicU8::new(u8::from(places.place(row as u32).is_none()));
        let in_rounds = job.fetching != Fetching::All && !matches!(job.policy, SyncPolicy::Ssp { .. });
        let missing = if in_rounds { (0..reservation.len()).map(away).collect() } else { Vec::new() };
        all.push(Some(Written { reservation, keepers, places, missing }));
        numbers.push(number);
    }
    Ok((all, numbers))
}

/// Gives back the memory of rows that others keep: those of them that are touched come anew.
fn give_up_others(written: &Written, me: usize) {
    let (mut start, runs) = (0, written.keepers.runs(me));
    let bounds = runs.iter().map(|own| (own.start as usize, own.end as usize));
    let len = written.reservation.len();
    for (end, next) in bounds.chain(std::iter::once((len, len))) {
        // SAFETY: no loop runs yet, and in this call rows of others are read only when they have come.
        unsafe { written.reservation.forget(start..end) };
        start = next;
    }
}

impl Workbench {
    /// Who is to have which elements of a DDS.
    pub(crate) fn keepers(&self, dds: u64, kept: &KeptBy, workers: usize) -> Result<Arc<Keepers>, Problem> {
        let (_, keepers) = self.sync.kept_by(dds, kept)?;
        let covers = keepers.covers(self.known(dds)?.len(), workers);
        covers.then_some(keepers).ok_or_else(|| broken("rows are dealt out in a way that doesn't cover them"))
    }
}

/// What a loop under `Ssp` needs: who is where, of workers.
fn clocks(
    job: &SyncJob,
    (me, workers): (usize, usize),
    bases: Vec<Base>,
    written: &[Option<Written>],
) -> Option<Clocks> {
    let SyncPolicy::Ssp { staleness } = job.policy else { return None };
    let each = |copy| job.schedule.minibatches_of(copy..copy + 1).count();
    let minibatches: Vec<usize> = (0..job.schedule.copies).map(each).collect();
    let own = job.copies[me].clone();
    let shape = ClocksShape {
        workers,
        staleness,
        rounds: job.schedule.rounds(),
        minibatches: minibatches[own.clone()].iter().sum(),
        own,
    };
    let ledger = Ledger::new(bases, &minibatches, Some((workers, me)));
    Some(Clocks::new(ledger, shape, job.fetching, written))
}

/// Runs a worker's copies.
pub(crate) fn run(
    prepared: &PreparedLoop,
    job: &SyncJob,
    input: &RawBuf,
    (bench, blobs): (&Workbench, &Blobs),
    preparing: f64,
) -> Result<SyncEnd, Problem> {
    let syncing = &*prepared.syncing;
    let pool = bench.pool().map_err(broken)?;
    save(syncing, job.call, bench, &pool);
    let copies = job.copies[syncing.team.me].clone();
    let own = own_minibatches(job, &copies, input)?;
    let input = Input { base: input.as_ptr(), packed: Some(own), ..Input::of(Some(input.ops())) };
    let alone = job.schedule.copies == 1;
    let mut kept = locked(&syncing.setup.site.kept);
    if !alone && kept.len() != copies.len() {
        *kept = tables(&prepared.captured, &prepared.merges, copies.len(), purpose(job)).map_err(|(len, size)| {
            broken(format!("no address space is left for copies of {len} rows of {size} bytes"))
        })?;
        syncing.setup.site.stamp.store(0, Relaxed);
    }
    let stamp = syncing.setup.site.stamps_for(job.schedule.rounds(), &kept);
    let outcome = Outcomes::default();
    let lease = Lease::of(&prepared.captured);
    let runner = Runner {
        task: &*prepared.task,
        lease: &lease,
        merges: &prepared.merges,
        input: &input,
        schedule: job.schedule,
        before: &job.before,
        serial: alone && pool.threads() == 1,
        threads: pool.threads(),
        stopped: &syncing.stopped,
        outcome: &outcome,
        caches: caches(&syncing.setup.site.hot, job.caches, job.policy),
    };
    let watch = prepared.task.watch();
    let since = Instant::now();
    let observed = Observed::default();
    if alone {
        // Others keep rows only where they run a copy.
        if !copies.is_empty() {
            in_place::run(&runner, &pool);
        }
    } else if syncing.begin() {
        let own = OwnCopies { copies, tables: &kept, source: syncing, peers: Some(syncing), stamp };
        run_policy(runner, job, syncing, own, &observed, &pool);
    }
    if let Some(end) = how_it_ended(syncing, job, &outcome)? {
        return Ok(end);
    }
    let new = match panics::caught(|| outcome.new.encode(&prepared.task.new_entry_ops())) {
        Ok(new) => new.map(|new| blobs.offer(new)),
        Err(note) => return Ok(failed(job.schedule.last(), Failure::Panic(note))),
    };
    Ok(SyncEnd::Done(SyncRan {
        totals: outcome.take_totals(),
        changed: watch.changed(&prepared.task.watch()),
        time: seconds(&outcome, since, pool.threads()),
        counts: counts(syncing, &outcome, &observed),
        violations: observed.violations.load(Relaxed),
        holds_all: alone || syncing.holds_all(),
        foresees: locked(&syncing.setup.site.foreseen).complete && !syncing.setup.site.wild.load(Relaxed),
        touches: touches(syncing, job),
        new,
        seconds_preparing: preparing,
    }))
}

/// What its copies' tables are for.
fn purpose(job: &SyncJob) -> Purpose {
    if matches!(job.policy, SyncPolicy::Ssp { .. }) { Purpose::Clocks } else { Purpose::Rounds }
}

/// The minibatches of some copies, in order, if the input is just their elements.
fn own_minibatches(job: &SyncJob, copies: &Range<usize>, input: &RawBuf) -> Result<Vec<usize>, Problem> {
    let mut own: Vec<usize> = job.schedule.minibatches_of(copies.clone()).collect();
    own.sort_unstable();
    let all = own.iter().map(|&b| job.schedule.elements(b).len()).sum::<usize>();
    if all == input.len() { Ok(own) } else { Err(broken("an input of another length")) }
}

/// Saves the rows that this worker keeps, to be put back if the call has to be undone.
fn save(syncing: &Syncing, call: u64, bench: &Workbench, pool: &Pool) {
    let mut saved = Saved::new();
    for written in syncing.setup.written.iter().flatten() {
        let (reservation, runs) = (&written.reservation, written.keepers.runs(syncing.team.me));
        // SAFETY: the rows that this worker keeps are here, and no loop runs yet.
        let rows = unsafe { backup::save_runs(reservation.ops(), reservation.base(), &runs, pool) };
        saved.push((Arc::clone(reservation), runs, rows));
    }
    *locked(&bench.sync.last) = Some((call, Arc::clone(&syncing.setup.site), saved));
}

/// Runs several copies as the policy of the loop says.
fn run_policy(
    runner: Runner<'_>,
    job: &SyncJob,
    syncing: &Syncing,
    own: OwnCopies<'_>,
    observed: &Observed,
    pool: &Pool,
) {
    let (Some(clocks), SyncPolicy::Ssp { staleness }) = (&syncing.setup.clocks, job.policy) else {
        return Rounds::new(runner, job.policy, job.rule, own).run(pool);
    };
    let stale = Stale {
        runner,
        staleness,
        copies: own.copies,
        tables: own.tables,
        source: syncing,
        ledger: &clocks.ledger,
        peers: Some(syncing),
        stamp: own.stamp,
        checks: job.checks,
        observed,
    };
    stale.run(pool);
    // The elements are to hold what the slowest copy made of them.
    clocks.ledger.wait_for_all(&syncing.stopped);
}

/// Ends a call here. Gives how it ended if that isn't well.
fn how_it_ended(syncing: &Syncing, job: &SyncJob, outcome: &Outcomes) -> Result<Option<SyncEnd>, Problem> {
    if let Some(clocks) = &syncing.setup.clocks {
        clocks.close();
    }
    if let Some(why) = locked(&syncing.broken).take() {
        return Err(broken(why));
    }
    if let Some((copy, minibatches, note)) = locked(&syncing.panicked).take() {
        let of_copy = || job.schedule.minibatches_of(copy..copy + 1);
        let minibatch = of_copy().take(usize::try_from(minibatches).unwrap_or(usize::MAX)).last();
        outcome.fail(minibatch.unwrap_or_default(), Failure::Panic(note));
    }
    if let Some((minibatch, failure)) = outcome.take_failure() {
        return Ok(Some(failed(minibatch, failure)));
    }
    Ok(syncing.stopped.load(Relaxed).then_some(SyncEnd::Stopped))
}

/// By capture, how often its rows are touched, where the driver asks for that.
fn touches(syncing: &Syncing, job: &SyncJob) -> Vec<Touches> {
    let touches = |(c, written): (usize, &Option<Written>)| match written {
        Some(written) if job.asked.get(c) == Some(&true) => syncing.setup.site.touches(c, written.reservation.len()),
        _ => Touches::new(),
    };
    syncing.setup.written.iter().enumerate().map(touches).collect()
}

fn counts(syncing: &Syncing, outcome: &Outcomes, observed: &Observed) -> Counts {
    Counts {
        touched: outcome.touched.load(Relaxed),
        cached: outcome.cached.load(Relaxed),
        merging: outcome.merging.load(Relaxed),
        ahead: syncing.counted.ahead.load(Relaxed),
        on_demand: syncing.counted.on_demand.load(Relaxed),
        reads: observed.reads.load(Relaxed),
        worst: observed.worst.load(Relaxed),
        ..Counts::default()
    }
}

/// What the worker's threads did since then.
fn seconds(outcome: &Outcomes, since: Instant, threads: usize) -> WorkerSeconds {
    let computing = outcome.computing.load(Relaxed) as f64 / 1e9 / threads as f64;
    let waiting = (since.elapsed().as_secs_f64() - computing).max(0.0);
    WorkerSeconds { computing, waiting, transferring: 0.0 }
}

fn failed(minibatch: usize, failure: Failure) -> SyncEnd {
    SyncEnd::Failed { minibatch, what: what(failure) }
}

fn what(failure: Failure) -> RemoteCause {
    match failure {
        Failure::OutOfRange { capture, index } => RemoteCause::OutOfRange { capture, index },
        Failure::Body(error) => RemoteCause::Body { message: error.to_string() },
        Failure::Panic(note) => RemoteCause::Panic { message: note.message, location: note.location },
        Failure::Undoing(note) => RemoteCause::Undoing { message: note.message, location: note.location },
        Failure::Misspeculation { capture } | Failure::Difference { capture, .. } => {
            RemoteCause::Misspeculation { capture }
        }
        Failure::Stopped => RemoteCause::Misspeculation { capture: 0 },
    }
}
