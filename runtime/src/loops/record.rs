//! The virtual iteration: the loop's body on every index, with nothing written (STRADS-AP section 3).
//!
//! # Why this is sound
//! While a loop is recorded nobody writes the captures' elements: the loop has them borrowed, and the slow path gives
//! scratch to those who write.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::body::capture::{Captured, Kind};
use crate::body::context::Context;
use crate::body::lease::{Lease, Lent};
use crate::body::panics;
use crate::body::slot::{Copies, Owned, Slot};
use crate::body::slow_path::{Doing, Pager};
use crate::body::task::Task;
use crate::dds::relaxed::board;
use crate::loops::tallied;
use crate::loops::tallies::Tallies;
use crate::memory::buffer::RawBuf;
use crate::planner::plan::{self, beforehand, outline};
use crate::planner::recording::{
    CaptureLog, CaptureShape, Fields, LISTED, LONGEST_LISTED, Recording, Usage, long_slices,
};
use crate::planner::{inference, recording};
use crate::session::clock::Instant;
use crate::session::locked;
use crate::session::logging::warning;
use crate::session::options::{LoopOptions, Order};
use crate::session::pool::Pool;
use crate::session::slow_bodies::{self, Unit};

/// What the planner has to know of the captures.
pub(crate) fn shapes(captured: &[Captured]) -> Vec<CaptureShape> {
    captured
        .iter()
        .map(|capture| match capture.kind {
            Kind::Vector { len, ops, .. } => {
                let dealt = capture.dealt && len <= LISTED;
                CaptureShape { len, reduction: false, by_block: false, owning: ops.needs_drop, dealt }
            }
            Kind::Reduction { ops, .. } => {
                CaptureShape { len: 0, reduction: true, by_block: ops.ordered, owning: false, dealt: false }
            }
            Kind::Relaxed { .. } => {
                CaptureShape { len: 0, reduction: true, by_block: true, owning: false, dealt: false }
            }
        })
        .collect()
}

/// The same for a loop that was recorded: tallies may have bits that tell where blocks begin.
pub(crate) fn planned_shapes(captured: &[Captured], recording: &Recording<'_>) -> Vec<CaptureShape> {
    let mut shapes = shapes(captured);
    for (c, (shape, capture)) in shapes.iter_mut().zip(captured).enumerate() {
        if let Kind::Vector { adding: Some(adding), .. } = capture.kind
            && recording.usage[c] == Usage::Reduction
        {
            (shape.reduction, shape.by_block) = (true, !adding.ops.exact);
        }
    }
    shapes
}

/// How thoroughly a loop is recorded: each is tried after a misspeculation by a plan of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A sample is run, and the rest inferred, where that is possible.
    Sampled,
    /// Every iteration, with placeholders for what it writes (symbolic).
    Symbolic,
    /// Every iteration, with copies of the real elements (concrete).
    Concrete,
}

/// Records a loop on all threads, at least as thoroughly as asked, and says how it was done.
///
/// # Safety
/// The captures are those that the task was made for.
pub(crate) unsafe fn record<'l>(
    task: &dyn Task,
    lease: &'l Lease<'_>,
    range: Range<usize>,
    depth: Depth,
    (options, tables): (&LoopOptions, bool),
    pool: &Pool,
) -> (Recording<'l>, Depth) {
    let concrete = depth == Depth::Concrete;
    let (captured, relaxed) = (lease.captured(), board::before(lease.captured()));
    let logs = |slices: &[Range<usize>], tallied: &[bool]| {
        let tallies = Tallies::to_record(captured, tallied);
        let recorded = RecordedLoop { task, lease, relaxed: &relaxed, tallies: &tallies, pager: None };
        // SAFETY: the caller's promise.
        unsafe { record_slices(&recorded, slices, concrete, pool) }
    };
    let run = |slices: Vec<Range<usize>>, tallied: &[bool]| {
        let (logs, nanos) = logs(&slices, tallied);
        recording(&range, logs, nanos, captured)
    };
    let mut tallied = tallied::beforehand(captured, options, range.len());
    if depth == Depth::Sampled
        && let Some(few) = inference::few(&range)
    {
        let mut sampled = run(few, &tallied);
        tallied::leave_out(&mut sampled, &mut tallied.clone(), captured, (options, false));
        if inference::is_long(&sampled) && beforehand::is_serial(&sampled, &shapes(captured), &options.planning(tables))
        {
            return (sampled, Depth::Sampled);
        }
    }
    if depth == Depth::Sampled
        && let Some(samples) = inference::samples(&range)
    {
        let mut sampled = run(samples.clone(), &tallied);
        tallied::leave_out(&mut sampled, &mut tallied, captured, (options, false));
        let shapes = shapes(captured);
        if beforehand::is_serial(&sampled, &shapes, &options.planning(tables)) {
            return (sampled, Depth::Sampled);
        }
        if plan::are_in_rows(&sampled, &samples, &shapes, &options.planning(tables)) {
            return (sampled.as_outline(&samples), Depth::Sampled);
        }
        let shaped = (&*shapes, options.columns);
        if tables && let Some(table) = table(&sampled, &samples, shaped, |slices| logs(slices, &tallied).0) {
            return (table, Depth::Sampled);
        }
        let fields = fields(&sampled, lease, pool);
        let inferred = inference::infer(&sampled, &samples, &shapes, (&fields, options.columns), pool);
        // Cells at the ends of a table's rows touch fewer elements, and a sample may have none of them.
        let may_be_table = options.order == Order::Preserve && inferred.as_ref().is_some_and(Recording::reaches_far);
        let free = !may_be_table && !any_relaxed(captured);
        if free && beforehand::is_narrow(&sampled, &shapes, &options.planning(tables)) {
            return (sampled.as_narrow(), Depth::Sampled);
        }
        if let Some(recording) = inferred.filter(|_| !may_be_table) {
            return (recording, Depth::Sampled);
        }
    }
    if range.len() > LONGEST_LISTED {
        let sampled = run(inference::samples(&range).unwrap_or_default(), &tallied);
        return (sampled.and_no_more(), Depth::Concrete);
    }
    let mut whole = run(slices(&range, captured, options.scratch), &tallied);
    tallied::leave_out(&mut whole, &mut tallied, captured, (options, depth != Depth::Sampled));
    (whole, if concrete { Depth::Concrete } else { Depth::Symbolic })
}

/// A recording of a loop over a table, from little more than a sample, where it may be one.
fn table(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    (shapes, columns): (&[CaptureShape], Option<usize>),
    logs: impl Fn(&[Range<usize>]) -> Vec<Vec<CaptureLog>>,
) -> Option<Recording<'static>> {
    let middle = outline::middle(sampled, samples, columns)?;
    let rows = Recording::new(sampled.range.clone(), logs(&middle), shapes);
    let edges = outline::edges(&rows, &middle, columns)?;
    let logs = logs(&edges);
    Some(rows.outlined(middle, (edges, logs), shapes))
}

/// Numbers of elements with padding are written one after the other if they take no more bytes than this: that is what a few accesses of the log
/// would take.
const LARGEST_ENCODED: usize = 32;

/// For each capture its elements as bytes, where rules could be read from them: those of plain elements, and of others that are made of
/// numbers, that the loop reads in step and does not write.
pub(crate) fn fields<'l>(sampled: &Recording<'_>, lease: &'l Lease<'_>, pool: &Pool) -> Vec<Option<Fields<'l>>> {
    let (range, shares) = (&sampled.range, !sampled.shared().is_empty());
    let of = |c: usize| match (lease.vector(c), sampled.usage[c]) {
        (Some(lent), Usage::InStep { offset, written: false }) => {
            let (first, ops) = (range.start.wrapping_add(offset), lent.ops());
            if first > lent.len() || range.len() > lent.len() - first {
                return None;
            }
            if !ops.plain {
                // Where nothing is shared no rule is needed, and a loop over a small part of many elements is recorded sooner.
                let worthwhile = shares && (1..=LARGEST_ENCODED).contains(&ops.flat) && lent.len() / 4 <= range.len();
                let own =
                    worthwhile.then(|| flat(lent, pool))?.get(first * ops.flat..(first + range.len()) * ops.flat)?;
                return Some(Fields::encoded(range.start, ops.flat, own));
            }
            let size = ops.size;
            // SAFETY: there is an element for each iteration, lent as long as the slice lives. Every byte of a plain
            // element is initialised. Nobody writes them before the loop runs.
            let bytes = unsafe { std::slice::from_raw_parts(lent.at(first), range.len() * size) };
            Some(Fields::new(range.start, size, bytes))
        }
        _ => None,
    };
    (0..lease.captured().len()).map(of).collect()
}

/// The numbers of elements without padding, one after the other. Nothing if their type has no such form.
fn flat<'l>(lent: &'l Lent, pool: &Pool) -> &'l [u8] {
    /// Elements that are encoded together.
    const EACH: usize = 4096;
    let each = lent.ops().flat;
    lent.flat().get_or_init(|| {
        let mut all = vec![0; lent.len() * each];
        let chunks: Vec<Mutex<&mut [u8]>> = all.chunks_mut((EACH * each).max(1)).map(Mutex::new).collect();
        let whole = pool.map(chunks.len(), |k| {
            let (first, mut place) = (k * EACH, locked(&chunks[k]));
            let mut bytes = Vec::with_capacity(place.len());
            // SAFETY: these elements are lent, and nobody writes them before the loop runs.
            unsafe { lent.ops().encode_run(lent.at(first), EACH.min(lent.len() - first), &mut bytes) };
            let fits = bytes.len() == place.len();
            if fits {
                place.copy_from_slice(&bytes);
            }
            fits
        });
        drop(chunks);
        if whole.into_iter().all(|fits| fits) { all } else { Vec::new() }
    })
}

/// Whether a loop has relaxed state, whose bits depend on the plan's blocks under any order.
pub(crate) fn any_relaxed(captured: &[Captured]) -> bool {
    captured.iter().any(|capture| matches!(capture.kind, Kind::Relaxed { .. }))
}

/// The slices that a whole loop is recorded in: long ones where each sets up scratch, or copies of relaxed state.
pub(crate) fn slices(range: &Range<usize>, captured: &[Captured], scratch: bool) -> Vec<Range<usize>> {
    if scratch || any_relaxed(captured) { long_slices(range) } else { recording::slices(range) }
}

/// What was recorded, and the nanoseconds of threads that it took.
pub(crate) fn recording<'f>(
    range: &Range<usize>,
    logs: Vec<Vec<CaptureLog>>,
    nanos: u64,
    captured: &[Captured],
) -> Recording<'f> {
    let mut recording = Recording::new(range.clone(), logs, &shapes(captured));
    recording.took(nanos);
    recording
}

/// A loop to be recorded: its body, the memory of its captures, the values of relaxed ones, the captures that will be tallied,
/// and who brings elements that are elsewhere.
pub(crate) struct RecordedLoop<'r> {
    pub(crate) task: &'r dyn Task,
    pub(crate) lease: &'r Lease<'r>,
    pub(crate) relaxed: &'r [Option<RawBuf>],
    pub(crate) tallies: &'r Tallies,
    pub(crate) pager: Option<&'r dyn Pager>,
}

/// The logs of slices of a loop, a log for each capture, given the values of relaxed ones, and the nanoseconds of threads
/// that they took. Where elements are elsewhere, the pager brings them.
///
/// # Safety
/// The captures are those that the task was made for, and nobody writes their elements meanwhile. Those that the pager
/// doesn't bring are here.
pub(crate) unsafe fn record_slices(
    recorded: &RecordedLoop<'_>,
    slices: &[Range<usize>],
    concrete: bool,
    pool: &Pool,
) -> (Vec<Vec<CaptureLog>>, u64) {
    let recorded = pool.map(slices.len(), |s| {
        let begun = Instant::now();
        let _now = slow_bodies::running(Unit::Slice(slices[s].start as u64));
        let context = recording_context(recorded, &slices[s], concrete);
        // SAFETY: the context was made of the captures that the task was made for (the caller's promise), and records.
        unsafe { recorded.task.record(&context, slices[s].clone()) };
        let mut context = context;
        // What is in them means nothing.
        context.take_tallies().for_each(|(c, tally)| recorded.tallies.put(c, s, tally));
        let logs: Vec<CaptureLog> = context.slots.into_iter().map(log_of).collect();
        (logs, begun.elapsed().as_nanos() as u64)
    });
    let nanos = recorded.iter().map(|(_, nanos)| nanos).sum();
    (recorded.into_iter().map(|(logs, _)| logs).collect(), nanos)
}

/// A context whose views own nothing, so that every access is logged.
fn recording_context<'s>(recorded: &'s RecordedLoop<'_>, slice: &Range<usize>, concrete: bool) -> Context<'s> {
    let &RecordedLoop { lease, relaxed, tallies, pager, .. } = recorded;
    let longest = lease.captured().iter().filter_map(|capture| match capture.kind {
        Kind::Vector { len, .. } => Some(len),
        _ => None,
    });
    let longest = longest.max().unwrap_or(0);
    Context::new(|state| {
        let slot = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Vector { ops, writable, .. } => {
                if let Some(tally) = tallies.take(c, slice.start) {
                    // Nothing of it is logged.
                    return Slot::of_tally((c, ops), tally, usize::MAX, state);
                }
                let Some(lent) = lease.vector(c) else { return Slot::absent(c, state) };
                let log = CaptureLog::new(slice.start, slice.len(), writable);
                let doing = Doing::recording(log, lent, concrete || ops.by_key, longest, pager);
                // SAFETY: nothing is owned; the slow path gives what is read to nobody who writes it, and scratch.
                unsafe { Slot::of_elements(c, lent, Owned::by(doing), state) }
            }
            Kind::Reduction { .. } => Slot::of_reduction(c, 0, false, state),
            Kind::Relaxed { ops, len, .. } => {
                // What an iteration adds means nothing here.
                let start = relaxed.get(c).and_then(Option::as_ref).map_or_else(|| (ops.zeros)(len), RawBuf::copy);
                Slot::of_relaxed(c, len, Some(Copies::new(ops, Arc::new(start))), state)
            }
        };
        lease.captured().iter().enumerate().map(slot).collect()
    })
}

fn log_of(slot: Slot<'_>) -> CaptureLog {
    let Doing::Record(recorder) = slot.into_cold().into_doing() else { return CaptureLog::default() };
    let recorder = *recorder;
    // What the destructors of copies say is no failure of the loop, which has none of them.
    let placeholders = recorder.placeholders.into_inner().into_iter().chain(recorder.range.into_inner());
    let copies = placeholders.chain(recorder.own.into_inner().into_copies());
    for copy in copies {
        if let Err(note) = panics::caught(|| drop(copy)) {
            warning!("a copy of an element, made to record a loop, panicked when it was dropped: {}", note.message);
        }
    }
    recorder.log.into_inner()
}
