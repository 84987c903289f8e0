//! What a worker has: memory of DDSs, its shares of plans, and the loop that ran last, which may still be undone.
//!
//! # Why this is sound
//! Names of code and constants come from the driver alone, which has proved the job's secret and the hash of the same
//! executable before anything else was read (see `naming`).
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{Notify, mpsc};

use crate::body::capture::{Adding, Captured, Kind, Memory};
use crate::body::lease::Lease;
use crate::body::outcome::Failure;
use crate::body::panics::CaughtPanic;
use crate::body::task::Task;
use crate::cluster::wire::links::{CHUNK, Links};
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{
    Node, Problem, Ran, RemoteCapture, RemoteCause, RemoteFailure, RemoteTask, RunJob, WorkerSeconds,
};
use crate::cluster::worker::dispatch::Blocks;
use crate::cluster::worker::fetching::{self, Coming};
use crate::cluster::worker::minibatch::SyncBench;
use crate::cluster::worker::operate::OperateBench;
use crate::cluster::worker::returning::Returning;
use crate::cluster::worker::running::{Ending, Message, Out, Parcel, Running, Timed, WorkerPorts};
use crate::cluster::worker::scheduled::ScheduleBench;
use crate::dds::relaxed::board::{self, Board};
use crate::loops::execute::{FirstFailure, Run};
use crate::loops::pack::Packed;
use crate::loops::results::{Additions, BlockResult, restore, settled};
use crate::loops::tallies::Tallies;
use crate::loops::undo::{OtherWorkers, Undo};
use crate::memory::buffer::{RawBuf, give_freed_back};
use crate::memory::reservation::Reservation;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::planner::share::{ADDED, Arrival, Bulk, Share};
use crate::session::pool::Pool;
use crate::session::{Session, locked};

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

pub(crate) fn dds_of(capture: &RemoteCapture) -> Option<u64> {
    match capture {
        RemoteCapture::Vector { id, .. } => Some(*id),
        RemoteCapture::Reduction { .. } | RemoteCapture::Relaxed { .. } => None,
    }
}

/// A worker's memory and plans.
pub(crate) struct Workbench {
    session: Session,
    reservations: Mutex<BTreeMap<u64, Arc<Reservation>>>,
    plans: Mutex<BTreeMap<u64, Arc<Mutex<InstalledShare>>>>,
    /// The workers in the order of their numbers in plans.
    workers: Mutex<Vec<Node>>,
    me: AtomicU32,
    /// The loop that ran last.
    last: Mutex<Option<(u64, Arc<Mutex<InstalledShare>>)>>,
    pub(crate) sync: SyncBench,
    pub(crate) operate: OperateBench,
    pub(crate) schedule: ScheduleBench,
}

/// What a worker's blocks came to, and their tallies as bytes, where there are any.
pub(crate) type RanHere = (Ran, Option<Vec<u8>>);

/// A worker's share of a plan, ready to run.
pub(crate) struct InstalledShare {
    share: Share,
    plan: Plan,
    captured: Vec<Captured>,
    /// By capture; they keep alive what `captured` points at.
    reservations: Vec<Option<Arc<Reservation>>>,
    undo: Undo,
    packed: Vec<Option<Packed>>,
    tallies: Tallies,
    /// What doesn't stay here of the run that was last.
    returning: Option<Arc<Returning>>,
    /// What the blocks of the last run left, until it is certain that the loop ended well.
    results: Vec<BlockResult>,
    started: Vec<u32>,
}

impl Workbench {
    pub(crate) fn new(session: Session) -> Workbench {
        Workbench {
            session,
            reservations: Mutex::default(),
            plans: Mutex::default(),
            workers: Mutex::default(),
            me: AtomicU32::new(0),
            last: Mutex::default(),
            sync: SyncBench::default(),
            operate: OperateBench::default(),
            schedule: ScheduleBench::default(),
        }
    }

    /// Forgets everything: a generation begins.
    pub(crate) fn clear(&self, me: Node, workers: Vec<Node>) {
        self.me.store(me, Relaxed);
        *locked(&self.last) = None;
        self.sync.clear();
        self.operate.clear();
        self.schedule.clear();
        locked(&self.plans).clear();
        locked(&self.reservations).clear();
        *locked(&self.workers) = workers;
    }

    pub(crate) fn me(&self) -> Node {
        self.me.load(Relaxed)
    }

    pub(crate) fn workers(&self) -> Vec<Node> {
        locked(&self.workers).clone()
    }

    pub(crate) fn session(&self) -> &Session {
        &self.session
    }

    pub(crate) fn threads(&self) -> usize {
        self.session.threads()
    }

    pub(crate) fn pool(&self) -> crate::Result<Arc<Pool>> {
        self.session.inner().pool()
    }

    pub(crate) fn task(&self, task: &RemoteTask) -> Result<Box<dyn Task>, Problem> {
        let maker = naming::task_maker(task.maker).ok_or_else(|| broken("a loop of another program"))?;
        maker(&task.values).map_err(broken)
    }

    pub(crate) fn reservation(&self, dds: u64) -> Option<Arc<Reservation>> {
        locked(&self.reservations).get(&dds).cloned()
    }

    /// The same where the driver has said that there is one.
    pub(crate) fn known(&self, dds: u64) -> Result<Arc<Reservation>, Problem> {
        self.reservation(dds).ok_or_else(|| broken("an unknown DDS"))
    }

    pub(crate) fn reservations_of(&self, captures: &[RemoteCapture]) -> Vec<Option<Arc<Reservation>>> {
        captures.iter().map(|capture| dds_of(capture).and_then(|dds| self.reservation(dds))).collect()
    }

    /// Captures as the engine knows them, with memory of this worker behind them.
    pub(crate) fn captured(&self, captures: &[RemoteCapture]) -> Result<Vec<Captured>, Problem> {
        let session = self.session.inner();
        let mut reservations = locked(&self.reservations);
        let mut captured = Vec::with_capacity(captures.len());
        for capture in captures {
            let unknown = || broken("a type of another program");
            let (id, kind) = match *capture {
                RemoteCapture::Vector { id, len, ops, writable, adding } => {
                    let ops = naming::element_ops(ops).ok_or_else(unknown)?;
                    let reservation = match reservations.entry(id) {
                        Entry::Occupied(there) => there.into_mut(),
                        Entry::Vacant(place) => {
                            place.insert(Arc::new(Reservation::of_dds(ops, len).ok_or_else(|| {
                                broken(format!("no address space is left for {len} elements of {} bytes", ops.size))
                            })?))
                        }
                    };
                    if reservation.len() != len {
                        return Err(broken("two lengths of one DDS"));
                    }
                    let named = |(name, declared)| {
                        let ops = naming::named(name).ok_or_else(unknown)?;
                        Ok::<_, Problem>(Adding { ops, declared })
                    };
                    let adding = adding.map(named).transpose()?;
                    let memory = Memory::Reservation(Arc::clone(reservation));
                    (id, Kind::Vector { len, ops, writable, rows: ops.width() > 1, memory, adding })
                }
                RemoteCapture::Reduction { ops } => {
                    let ops = naming::named(ops).ok_or_else(unknown)?;
                    // Its value is the driver's: runs are sent what it was before them.
                    (0, Kind::Reduction { ops, cell: None })
                }
                RemoteCapture::Relaxed { ops, len } => {
                    let ops = naming::named(ops).ok_or_else(unknown)?;
                    (0, Kind::Relaxed { ops, cell: None, len })
                }
            };
            captured.push(Captured {
                id,
                session: Arc::clone(&session),
                name: None,
                copy_of: None,
                dealt: false,
                kind,
            });
        }
        Ok(captured)
    }

    pub(crate) fn install(&self, plan: u64, captures: &[RemoteCapture], mut share: Share) -> Result<(), Problem> {
        let captured = self.captured(captures)?;
        let reservations = self.reservations_of(captures);
        let own = share.take_plan();
        let arrives = share.arrivals.iter().map(|arrival| arrival.resource as usize).collect();
        let owned = share.owned.as_ref().map(|owned| owned.iter().map(|Bulk(owned)| owned.as_slice()).collect());
        let undo = Undo::new(&own, &captured, &OtherWorkers { saved: &share.saved_elsewhere, arrives, owned });
        let packed = captures.iter().map(|_| None).collect();
        let tallies = Tallies::new(&own, &captured);
        let installed = InstalledShare {
            share,
            plan: own,
            captured,
            reservations,
            undo,
            packed,
            tallies,
            returning: None,
            results: Vec::new(),
            started: Vec::new(),
        };
        locked(&self.plans).insert(plan, Arc::new(Mutex::new(installed)));
        Ok(())
    }

    pub(crate) fn installed(&self, plan: u64) -> Result<Arc<Mutex<InstalledShare>>, Problem> {
        locked(&self.plans).get(&plan).cloned().ok_or_else(|| broken("a plan that was never installed"))
    }

    /// Notes which loop runs: it may have to be undone.
    pub(crate) fn remember(&self, call: u64, installed: &Arc<Mutex<InstalledShare>>) {
        *locked(&self.last) = Some((call, Arc::clone(installed)));
    }

    /// The last loop ended well everywhere.
    pub(crate) fn commit(&self) {
        self.sync.commit();
        self.schedule.clear();
        if let Some((_, installed)) = locked(&self.last).take() {
            let mut installed = locked(&installed);
            let results = std::mem::take(&mut installed.results);
            settled(results, &installed.undo);
        }
    }

    /// Puts back what a run changed. Says which blocks it had started, and what an element's destructor said that panicked.
    pub(crate) fn undo(&self, call: u64) -> (Vec<u32>, Option<CaughtPanic>) {
        self.schedule.undo(call);
        if let Ok(pool) = self.pool() {
            self.sync.undo(call, &pool);
        }
        let last = locked(&self.last).take_if(|(last, _)| *last == call);
        let Some((_, installed)) = last else { return (Vec::new(), None) };
        let mut installed = locked(&installed);
        let installed = &mut *installed;
        let lease = Lease::of(&installed.captured);
        let restored = restore(&installed.plan, &lease, std::mem::take(&mut installed.results), &installed.undo);
        if let Some(returning) = installed.returning.take() {
            // SAFETY: the loop has ended, and what was read of it is sent.
            unsafe { returning.forget_all() };
        }
        (std::mem::take(&mut installed.started), restored.err())
    }

    pub(crate) fn forget(&self, ddss: &[u64], plans: &[u64]) {
        self.commit();
        self.sync.forget(ddss, plans);
        plans.iter().for_each(|plan| drop(locked(&self.plans).remove(plan)));
        for dds in ddss {
            let reservation = locked(&self.reservations).remove(dds);
            drop(reservation);
        }
    }

    /// Frees the memory of DDSs whose elements others have.
    pub(crate) fn free(&self, ddss: &[u64]) {
        self.commit();
        for reservation in ddss.iter().filter_map(|&dds| self.reservation(dds)) {
            // SAFETY: no loop runs, none can be undone any more, and what the next one needs of them it is sent.
            unsafe { reservation.forget(0..reservation.len()) };
            reservation.spare().clear();
            if reservation.ops().needs_drop {
                give_freed_back();
            }
        }
    }

    /// The elements of a DDS that the last loop of a plan left here: those of its iterations, or of a spread plan those that this worker
    /// owns.
    pub(crate) fn left_by_plan(&self, plan: u64, capture: usize) -> Result<Vec<u32>, Problem> {
        let installed = self.installed(plan)?;
        let installed = locked(&installed);
        let InstalledShare { plan, share, .. } = &*installed;
        let slot = plan.shared.iter().position(|&shared| shared == capture);
        if let Some(Bulk(owned)) = slot.and_then(|slot| share.owned.as_ref()?.get(slot)) {
            return Ok(owned.clone());
        }
        let Some(&Usage::InStep { offset, .. }) = plan.usage.get(capture) else {
            return Err(broken("not a DDS that is written in step"));
        };
        let first = plan.range.start.wrapping_add(offset);
        let places = plan.blocks.iter().filter_map(|block| plan.offsets.get(block.start..block.end)).flatten();
        Ok(places.map(|&by| first.wrapping_add(by as usize) as u32).collect())
    }

    /// How many iterations each of this worker's blocks of a plan has.
    pub(crate) fn sizes_of(&self, plan: u64) -> Result<Vec<usize>, Problem> {
        let installed = self.installed(plan)?;
        let installed = locked(&installed);
        Ok(installed.plan.blocks.iter().map(|block| block.end - block.start).collect())
    }

    /// Room for a capture's elements in the order of execution.
    pub(crate) fn begin_layout(&self, plan: u64, capture: usize) -> Result<Layingout, Problem> {
        let installed = self.installed(plan)?;
        let installed = locked(&installed);
        let Some(Kind::Vector { ops, .. }) = installed.captured.get(capture).map(|capture| &capture.kind) else {
            return Err(broken("no such capture"));
        };
        Ok(Layingout { elements: RawBuf::new(ops, installed.plan.offsets.len()), len: installed.plan.offsets.len() })
    }

    pub(crate) fn end_layout(&self, plan: u64, capture: usize, fresh: Layingout, version: u64) -> Result<(), Problem> {
        let installed = self.installed(plan)?;
        let mut installed = locked(&installed);
        if fresh.elements.len() != fresh.len {
            return Err(broken("fewer elements than iterations"));
        }
        let place = installed.packed.get_mut(capture).ok_or_else(|| broken("no such capture"))?;
        *place = Some(Packed { elements: fresh.elements, version });
        Ok(())
    }
}

/// Elements that arrive in the order of execution.
pub(crate) struct Layingout {
    elements: RawBuf,
    len: usize,
}

impl Layingout {
    /// The bytes of an element.
    pub(crate) fn size(&self) -> usize {
        self.elements.ops().size
    }

    /// The byte ranges to fetch.
    pub(crate) fn segments(&self) -> Vec<std::ops::Range<usize>> {
        let size = self.elements.ops().size.max(1);
        let (each, all) = ((CHUNK / size).max(1) * size, self.len * size);
        (0..all).step_by(each).map(|start| start..all.min(start + each)).collect()
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) -> Result<(), Problem> {
        let n = bytes.len() / self.elements.ops().size.max(1);
        self.elements.push_decoded(n, &mut bytes).map_err(broken)
    }
}

/// A loop that is about to run, what is fetched for it, and what is to be stored as it runs.
type Started = (Arc<Running>, Vec<Coming>, Option<mpsc::UnboundedReceiver<usize>>);

/// What runs of the worker's blocks, if that is not all, the task, and threads.
type Prepared = (Option<Plan>, Box<dyn Task>, Arc<Pool>);

impl InstalledShare {
    /// The loop about to run, and what is to be fetched for it: from here on parts may arrive.
    pub(crate) fn start(
        &mut self,
        generation: u32,
        job: &RunJob,
        links: &Arc<Links>,
        bench: &Workbench,
    ) -> Result<Started, Problem> {
        let workers = locked(&bench.workers).clone();
        let relaxed = board::of_bytes(&self.captured, &job.before.relaxed)
            .ok_or_else(|| broken("relaxed state of another length"))?;
        let board = Arc::new(Board::new(&self.captured, relaxed, &self.plan.strata));
        let messages = self.messages();
        let mut out = Vec::with_capacity(self.share.sends.len());
        for send in &self.share.sends {
            let to = *workers.get(send.to as usize).ok_or_else(|| broken("a worker that isn't there"))?;
            let place = self.parcel(send.resource, &board, messages.get(&send.transfer))?;
            out.push(Out { transfer: send.transfer, to, place, copy: send.copy });
        }
        let place = |arrival: &Arrival| self.parcel(arrival.resource, &board, None);
        let places = self.share.arrivals.iter().map(place).collect::<Result<_, _>>()?;
        let unsent: BTreeSet<u32> = job.unsent.iter().copied().collect();
        let (returning, stores) = match &job.returned {
            Some(returned) => {
                bench.operate.give_back();
                let loops = (&self.share, &self.plan, &unsent);
                let (returning, stores) = Returning::new(returned, loops, |capture| self.memory_of(capture))?;
                (Some(returning), Some(stores))
            }
            None => (None, None),
        };
        self.undo.leave_out(job.returned.as_ref().map_or(&[], |returned| &returned.captures));
        self.returning.clone_from(&returning);
        let ports = WorkerPorts {
            links: Arc::clone(links),
            generation,
            call: job.call,
            out,
            places,
            board: Arc::clone(&board),
            returning,
            first_failed: AtomicU32::new(u32::MAX),
            news: Notify::new(),
        };
        let by_transfer = self.share.arrivals.iter().enumerate().map(|(k, arrival)| (arrival.transfer, k)).collect();
        let mut arrivals = Cow::Borrowed(&self.share.arrivals);
        let coming = match job.fetches.as_slice() {
            [] => Vec::new(),
            fetches => {
                let ids: Vec<u64> = self.captured.iter().map(|capture| capture.id).collect();
                let plan = (&self.plan, self.share.global.as_slice(), ids.as_slice());
                fetching::coming(fetches, (arrivals.to_mut(), &by_transfer), plan, bench)?
            }
        };
        let left_out = |k: usize| unsent.contains(&self.share.sends[k].transfer);
        let blocks = Blocks::new(&arrivals, &self.share.sends, &self.plan.graph, ports).without_first(left_out);
        let running = Running {
            call: job.call,
            blocks,
            arrivals: by_transfer,
            global: self.share.global.clone(),
            waited: AtomicU64::new(0),
            received: AtomicU64::new(0),
            ended: Mutex::default(),
            end: Notify::new(),
        };
        Ok((Arc::new(running), coming, stores))
    }

    /// What blocks of a spread plan send together, by the numbers of the transfers.
    fn messages(&self) -> BTreeMap<u32, Arc<Message>> {
        let mut sizes: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
        for send in &self.share.sends {
            if let Some((_, Bulk(elements))) = self.share.cargo.get(send.resource as usize) {
                let size = sizes.entry(send.transfer).or_default();
                *size = (size.0 + elements.len(), size.1 + 1);
            }
        }
        sizes.into_iter().map(|(transfer, (elements, pieces))| (transfer, Message::new(elements, pieces))).collect()
    }

    /// A capture's DDS, and its memory here.
    fn memory_of(&self, capture: usize) -> Result<(u64, Arc<Reservation>), Problem> {
        match self.reservations.get(capture) {
            Some(Some(reservation)) => Ok((self.captured[capture].id, Arc::clone(reservation))),
            _ => Err(broken("a part of a reduction")),
        }
    }

    /// What a resource is, and where it lies. `message`: of which elements are a piece; they are one by themselves where there is none.
    fn parcel(&self, resource: u32, board: &Arc<Board>, message: Option<&Arc<Message>>) -> Result<Parcel, Problem> {
        if let Some(block) = resource.checked_sub(ADDED) {
            let block = block as usize;
            return (block < self.plan.strata.blocks())
                .then(|| Parcel::Added { board: Arc::clone(board), block })
                .ok_or_else(|| broken("additions of a block that isn't there"));
        }
        if let Some((capture, Bulk(elements))) = self.share.cargo.get(resource as usize) {
            let (dds, reservation) = self.memory_of(*capture)?;
            let message = message.cloned().unwrap_or_else(|| Message::new(elements.len(), 1));
            return Ok(Parcel::Listed { dds, reservation, elements: elements.as_slice().into(), message });
        }
        let (capture, range) = self.plan.part(resource).ok_or_else(|| broken("a part of a plan without parts"))?;
        let (dds, reservation) = self.memory_of(capture)?;
        Ok(Parcel::Part { dds, reservation, range })
    }

    /// What a run needs.
    fn prepared(&self, job: &RunJob, bench: &Workbench) -> Result<Prepared, Problem> {
        let part = match self.plan.range == job.range {
            true => None,
            false => Some(self.plan.within(&job.range).ok_or_else(|| broken("a range that is no part of the plan's"))?),
        };
        Ok((part, bench.task(&job.task)?, bench.pool().map_err(broken)?))
    }

    /// Runs the worker's blocks, and gives their tallies as bytes, where there are any. None if not all of them ended well.
    pub(crate) fn run(
        &mut self,
        running: &Arc<Running>,
        job: &RunJob,
        bench: &Workbench,
    ) -> Result<Option<RanHere>, Problem> {
        let begun = Instant::now();
        let report = |failure: Option<RemoteFailure>| {
            *locked(&running.ended) = Some(Ending { failure });
            running.end.notify_waiters();
        };
        let (part, task, pool) = self.prepared(job, bench).inspect_err(|_| report(None))?;
        let watch = task.watch();
        let lease = Lease::of(&self.captured);
        // A run before may have failed.
        self.tallies.clear();
        let run = Run {
            plan: part.as_ref().unwrap_or(&self.plan),
            task: &*task,
            lease: &lease,
            packed: &self.packed,
            order: job.order,
            trace: job.trace,
            before: job.before.words.clone(),
            board: Arc::clone(&running.blocks.ports().board),
            tallies: &self.tallies,
            apart: Some(&self.share.by_index),
        };
        let (results, failed, _) = match run.save_upfront(&self.undo) {
            Ok(()) => {
                running.blocks.begin();
                run.run_blocks(&Timed(running), &self.undo, (&pool, pool.threads()), None)
            }
            Err(failed) => (Vec::new(), Some(failed), 0),
        };
        self.started = running.blocks.started().into_iter().map(|b| self.share.global[b]).collect();
        let done = failed.is_none() && running.blocks.all_done();
        let ran = done.then(|| {
            let wall = begun.elapsed().as_secs_f64();
            let waiting = running.waited.load(Relaxed) as f64 / 1e9 / pool.threads() as f64;
            let tallied = (!self.tallies.is_empty()).then(|| self.tallies.encode());
            let ran = Ran {
                totals: results.iter().flat_map(|result| &result.totals).copied().collect(),
                additions: additions_of(&results),
                changed: watch.changed(&task.watch()),
                time: WorkerSeconds {
                    computing: (wall - waiting).max(0.0),
                    waiting,
                    transferring: running.received.load(Relaxed) as f64 / 1e9,
                },
                ..Ran::default()
            };
            (ran, tallied)
        });
        self.results = results;
        if failed.as_ref().is_some_and(|failed| failed.block == 0 && !running.blocks.started().contains(&0)) {
            // It failed before the first block, which nobody has heard of.
            running.blocks.ports().first_failed.store(0, Relaxed);
            running.blocks.ports().news.notify_one();
        }
        let global = &self.share.global;
        report(failed.map(|failed| remote(failed, global)));
        Ok(ran)
    }
}

/// Single additions of blocks that have some.
fn additions_of(results: &[BlockResult]) -> Vec<(u32, Additions)> {
    let some = results.iter().enumerate().filter(|(_, result)| !result.additions.is_empty());
    some.map(|(b, result)| (b as u32, result.additions.clone())).collect()
}

fn remote(failed: FirstFailure, global: &[u32]) -> RemoteFailure {
    let what = match failed.failure {
        Failure::Misspeculation { capture } => RemoteCause::Misspeculation { capture },
        Failure::Stopped => RemoteCause::Misspeculation { capture: 0 },
        Failure::OutOfRange { capture, index } => RemoteCause::OutOfRange { capture, index },
        Failure::Body(error) => RemoteCause::Body { message: error.to_string() },
        Failure::Panic(note) => RemoteCause::Panic { message: note.message, location: note.location },
        Failure::Undoing(note) => RemoteCause::Undoing { message: note.message, location: note.location },
        Failure::Difference { capture, index } => RemoteCause::OutOfRange { capture, index },
    };
    RemoteFailure { block: global.get(failed.block).copied().unwrap_or(0), iteration: failed.iteration, what }
}
