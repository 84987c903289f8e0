//! A worker's side of an operator.
//!
//! # Why this is sound
//! Names of code and constants come from the driver alone (see `naming`), and with them values that were encoded for just
//! this code. Leases keep reservations alive, and the driver has had every element
//! brought here that the chunks and the captures need.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::body::capture::Captured;
use crate::body::lease::Lease;
use crate::body::outcome::Failure;
use crate::body::slow_path::Pager;
use crate::cluster::wire::naming;
use crate::cluster::wire::protocol::{Node, OperateEnd, OperateJob, Problem, RemoteCapture, RemoteCause, StoreJob};
use crate::cluster::worker::Worker;
use crate::cluster::worker::bench::{Workbench, dds_of};
use crate::cluster::worker::pager::{Elements, LOOKING, Pages, ROOM};
use crate::memory::buffer::{RawBuf, give_freed_back};
use crate::operate::run::{ChunkFailure, Chunks, combine_partitions, made_of_each};
use crate::operate::stage::{Items, Stage};
use crate::session::locked;
use crate::session::pool::Pool;

/// The operator that is under way.
#[derive(Default)]
pub(crate) struct OperateBench {
    current: Mutex<Option<Operating>>,
    /// Bytes of results that were moved, whose old places the allocator keeps for the next operator.
    moved: AtomicUsize,
}

impl OperateBench {
    /// Gives what operators have left to the allocator back to the system, if that is much.
    pub(crate) fn give_back(&self) {
        if self.moved.swap(0, Relaxed) >= MOVED {
            give_freed_back();
        }
    }

    /// A generation begins.
    pub(crate) fn clear(&self) {
        *locked(&self.current) = None;
    }

    fn take(&self, call: u64) -> Result<Operating, Problem> {
        locked(&self.current)
            .take_if(|operating| operating.call == call)
            .ok_or_else(|| broken("an operator that was never run"))
    }
}

pub(crate) struct Operating {
    call: u64,
    stage: Box<dyn Stage>,
    sources: Vec<Captured>,
    captured: Vec<Captured>,
    /// What this worker's chunks have for the partitions that it handles itself.
    own: Vec<Vec<Box<dyn Items>>>,
    results: Vec<Box<dyn Items>>,
}

// SAFETY: a stage is closures without captures and values that are `Send` and `Sync`; the rest is sent freely.
unsafe impl Send for Operating {}

/// The items of which it is found out first how much they look up, and the most of which it is found out at once.
const FIRST: usize = 64;
const MOST: usize = 1 << 18;
/// From how many bytes of results on their old places are given back.
const MOVED: usize = 8 << 20;
/// Where it takes longer than this to find out what an item looks up, that is fetched when it does: about as much time.
const DEAR: Duration = Duration::from_micros(50);

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

/// Makes the operator from what the driver sent, with room for the elements that it reads.
pub(crate) fn begin(bench: &Workbench, job: &OperateJob) -> Result<Operating, Problem> {
    bench.operate.clear();
    let maker = naming::stage_maker(job.task.maker).ok_or_else(|| broken("an operator of another program"))?;
    // SAFETY: the module's argument: the values were encoded for this stage.
    let stage = unsafe { maker(&job.task.values) }.map_err(broken)?;
    let (sources, captured) = (bench.captured(&job.sources)?, bench.captured(&job.captures)?);
    let ends = job.cut.elements(&job.chunks).end;
    let reaches = |capture: &RemoteCapture| matches!(capture, RemoteCapture::Vector { len, .. } if *len >= ends);
    if !job.sources.iter().all(reaches) {
        return Err(broken("chunks beyond the end of a source"));
    }
    Ok(Operating { call: job.call, stage, sources, captured, own: Vec::new(), results: Vec::new() })
}

/// Who brings elements of captures that are looked at here and there.
pub(crate) fn pages(
    job: &OperateJob,
    worker: &Worker,
    runtime: tokio::runtime::Handle,
    stopped: Arc<AtomicBool>,
) -> Pages {
    let reservations = worker.bench.reservations_of(&job.captures);
    let captures = job.captures.iter().zip(reservations).map(|(capture, reservation)| {
        let dds = dds_of(capture)?;
        let held = job.held.iter().find(|held| held.dds == dds)?;
        Some(Elements { dds, reservation: reservation?, held: held.segments.clone(), by_list: held.by_list })
    });
    Pages::new(worker.bench.me(), captures.collect(), Arc::clone(&worker.links), runtime, stopped, LOOKING)
}

/// Runs the chunks. What other workers handle is offered as blobs.
pub(crate) fn run(
    mut operating: Operating,
    job: &OperateJob,
    worker: &Worker,
    pages: &Pages,
    stopped: &AtomicBool,
) -> Result<OperateEnd, Problem> {
    let (bench, blobs) = (&worker.bench, &worker.blobs);
    let pool = bench.pool().map_err(broken)?;
    let (sources, captures) = (Lease::of(&operating.sources), Lease::of(&operating.captured));
    let chunks = Chunks {
        stage: &*operating.stage,
        sources: &sources,
        captures: &captures,
        pager: Some(pages),
        cut: job.cut,
        stopped,
    };
    // SAFETY: see the module's argument.
    let made = match unsafe { run_chunks(&chunks, job, &pool, pages) } {
        Ok(_) if stopped.load(Relaxed) => return Ok(OperateEnd::Stopped),
        Ok(made) => made,
        Err(failed) => return Ok(end_of(failed)),
    };
    let mut dealt = Vec::new();
    if job.cuts.is_empty() {
        operating.results = made.into_iter().flatten().collect();
    } else {
        let me = bench.workers().iter().position(|&node| node == bench.me());
        let me = me.filter(|me| me + 1 < job.cuts.len()).ok_or_else(|| broken("an operator of others"))?;
        let (own, partitions) = (job.cuts[me]..job.cuts[me + 1], operating.stage.partitions());
        let mut parts: Vec<Vec<Box<dyn Items>>> = (0..partitions).map(|_| Vec::new()).collect();
        for chunk in made {
            chunk.into_iter().zip(&mut parts).for_each(|(list, part)| part.push(list));
        }
        for (p, lists) in parts.into_iter().enumerate() {
            let n = lists.iter().map(|list| list.len()).sum();
            if own.contains(&p) {
                operating.own.push(lists);
                dealt.push((0, n));
            } else if n == 0 {
                dealt.push((0, 0));
            } else {
                let mut bytes = Vec::new();
                lists.iter().for_each(|list| list.encode(&mut bytes));
                dealt.push((blobs.offer(bytes), n));
            }
        }
    }
    let items = operating.results.iter().map(|list| list.len()).sum();
    *locked(&bench.operate.current) = Some(operating);
    Ok(OperateEnd::Done { items, dealt })
}

/// What this worker's chunks make. Before some are run, what their joins look up is fetched at once: as many chunks as look up about a
/// quarter of what there is room for.
///
/// # Safety
/// As for [`Chunks::run`].
unsafe fn run_chunks(
    chunks: &Chunks<'_>,
    job: &OperateJob,
    pool: &Pool,
    pages: &Pages,
) -> Result<Vec<Vec<Box<dyn Items>>>, ChunkFailure> {
    let (mut left, mut made) = (job.chunks.clone(), Vec::new());
    let (mut together, mut came) = (if pages.by_list() == 0 { usize::MAX } else { FIRST }, 0);
    let mut dear = false;
    while !left.is_empty() {
        let now = left.start..left.end.min(left.start.saturating_add((together / job.cut.chunk()).max(1)));
        left.start = now.end;
        // SAFETY: the caller's promise.
        unsafe {
            if !dear {
                let asking = chunks.bring_looked_up(now.clone(), pool, pages);
                dear = asking > DEAR * job.cut.elements(&now).len().min(MOST) as u32;
            }
            made.extend(chunks.run(now, pool)?);
        }
        let so_far = pages.make_room();
        let fit = together.saturating_mul(ROOM / 4) / (so_far - came).max(1);
        (together, came) = (fit.clamp(1, MOST).min(together.saturating_mul(4)), so_far);
    }
    Ok(made)
}

fn end_of((element, failure): ChunkFailure) -> OperateEnd {
    let what = match failure {
        Failure::OutOfRange { capture, index } => RemoteCause::OutOfRange { capture, index },
        Failure::Body(error) => RemoteCause::Body { message: error.to_string() },
        Failure::Panic(note) => RemoteCause::Panic { message: note.message, location: note.location },
        Failure::Undoing(note) => RemoteCause::Undoing { message: note.message, location: note.location },
        Failure::Stopped => return OperateEnd::Stopped,
        Failure::Misspeculation { capture } | Failure::Difference { capture, .. } => {
            RemoteCause::Misspeculation { capture }
        }
    };
    OperateEnd::Failed { element, what }
}

/// Makes one list of each of these partitions: what the workers dealt out, in their order.
pub(crate) fn shuffle(
    bench: &Workbench,
    call: u64,
    partitions: Range<usize>,
    arrived: Vec<Vec<(Node, usize, Vec<u8>)>>,
    me: Node,
) -> Result<OperateEnd, Problem> {
    let mut operating = bench.operate.take(call)?;
    if arrived.len() != partitions.len() || operating.own.len() != partitions.len() {
        return Err(broken("partitions of another operator"));
    }
    let own = std::mem::take(&mut operating.own);
    let mut dealt = Vec::with_capacity(partitions.len());
    for (arrived, own) in arrived.into_iter().zip(own) {
        let (mut lists, mut own) = (Vec::new(), Some(own));
        for (node, n, bytes) in arrived {
            if node == me {
                lists.extend(own.take().unwrap_or_default());
            } else {
                lists.push(operating.stage.arrived(n, &bytes).map_err(broken)?);
            }
        }
        dealt.push(lists);
    }
    let pool = bench.pool().map_err(broken)?;
    match combine_partitions(&*operating.stage, dealt, &pool) {
        Ok(results) => operating.results = results,
        Err(failed) => return Ok(end_of(failed)),
    }
    let items = operating.results.iter().map(|list| list.len()).sum();
    *locked(&bench.operate.current) = Some(operating);
    Ok(OperateEnd::Done { items, dealt: Vec::new() })
}

/// Moves the results to their place in a DVector.
pub(crate) fn store(bench: &Workbench, job: &StoreJob) -> Result<(), Problem> {
    let operating = bench.operate.take(job.call)?;
    let captured = bench.captured(std::slice::from_ref(&job.dds))?;
    let reservation = bench.reservations_of(std::slice::from_ref(&job.dds)).into_iter().flatten().next();
    let (Some(reservation), [_]) = (reservation, captured.as_slice()) else {
        return Err(broken("no room for a result"));
    };
    let lists = match job.buckets {
        Some(buckets) if buckets > 0 && operating.stage.makes_map().is_some() => {
            let pool = bench.pool().map_err(broken)?;
            made_of_each(operating.results, &pool, |entries| operating.stage.buckets(entries, buckets))
        }
        _ => operating.results,
    };
    let mut start = job.start;
    for list in lists {
        let buffer: RawBuf = list.into_buffer();
        bench.operate.moved.fetch_add(buffer.len() * buffer.ops().size, Relaxed);
        let range = start..start + buffer.len();
        if range.end > reservation.len() || !buffer.ops().is(reservation.ops()) {
            return Err(broken("a result of another length"));
        }
        start = range.end;
        // SAFETY: the DVector is new: nobody knows of it yet.
        unsafe { reservation.move_in(range, buffer) };
    }
    Ok(())
}

/// The results as bytes.
pub(crate) fn give(bench: &Workbench, call: u64) -> Result<Vec<u8>, Problem> {
    let operating = bench.operate.take(call)?;
    let mut bytes = Vec::new();
    operating.results.iter().for_each(|list| list.encode(&mut bytes));
    Ok(bytes)
}
