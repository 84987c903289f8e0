//! The virtual iteration: the loop's body on every index, with nothing written (STRADS-AP section 3).

use std::ops::Range;

use once_cell::unsync::OnceCell;

use crate::body::capture::{Captured, Kind};
use crate::body::context::Frame;
use crate::body::slow_path::{Cold, Doing, Pager};
use crate::body::task::Task;
use crate::dds::relaxed::board::{self, Copies};
use crate::memory::buffer::RawBuf;
use crate::planner::inference;
use crate::planner::recording::{CaptureLog, CaptureShape, Fields, Recording, SLICE, Usage};
use crate::session::pool::Pool;

/// What the planner has to know of the captures.
pub(crate) fn shapes(captured: &[Captured]) -> Vec<CaptureShape> {
    captured
        .iter()
        .map(|capture| match capture.kind {
            Kind::Vector { len, .. } => CaptureShape { len, reduction: false },
            Kind::Reduction { .. } | Kind::Relaxed { .. } => CaptureShape { len: 0, reduction: true },
        })
        .collect()
}

/// Captures, with elements that had to be fetched from other processes to be read here.
pub(crate) struct InStep {
    pub(crate) captured: Vec<Captured>,
    /// What the captures point at.
    #[allow(dead_code, reason = "it is only kept")]
    pub(crate) elements: Vec<RawBuf>,
}

/// What rules are read from, where it had to be fetched.
pub(crate) type Fetched = OnceCell<InStep>;

/// How thoroughly a loop is recorded: each is tried after a stray from a plan of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// A sample is run, and the rest inferred, where that is possible.
    Sampled,
    /// Every iteration, with blank copies of what it writes.
    Blank,
    /// Every iteration, with copies of the real elements.
    Exact,
}

/// Records a loop on all threads, at least as thoroughly as asked, and says how it was done.
pub(crate) fn record<'c>(
    task: &dyn Task,
    captured: &'c [Captured],
    range: Range<usize>,
    depth: Depth,
    pool: &Pool,
) -> (Recording<'c>, Depth) {
    let exact = depth == Depth::Exact;
    let relaxed = board::before(captured);
    let run = |slices: Vec<Range<usize>>| {
        let logs = record_slices(task, captured, &relaxed, &slices, exact, pool, None);
        Recording::new(range.clone(), logs, &shapes(captured))
    };
    if depth == Depth::Sampled
        && let Some(samples) = inference::samples(&range)
    {
        let sampled = run(samples.clone());
        let fields = fields(&sampled, captured);
        if let Some(recording) = inference::infer(&sampled, &samples, &shapes(captured), &fields, pool) {
            return (recording, Depth::Sampled);
        }
    }
    (run(slices(&range)), if exact { Depth::Exact } else { Depth::Blank })
}

/// For each capture its elements as bytes, where rules could be read from them: those of plain elements that the loop
/// reads in step and does not write.
pub(crate) fn fields<'c>(sampled: &Recording<'_>, captured: &'c [Captured]) -> Vec<Option<Fields<'c>>> {
    let range = &sampled.range;
    let of = |(c, capture): (usize, &'c Captured)| match (&capture.kind, sampled.usage[c]) {
        (Kind::Vector { base, ops, .. }, Usage::InStep { offset, written: false }) if ops.plain => {
            let first = base.wrapping_add(range.start.wrapping_add(offset).wrapping_mul(ops.size));
            // SAFETY: the DVector has an element for each iteration (the recording checked both ends of the range). Every
            // byte of a plain element is initialised. The loop holds the DVector borrowed as long as `captured`, and
            // nobody writes it before the loop runs.
            #[allow(unsafe_code)]
            let bytes = unsafe { std::slice::from_raw_parts(first, range.len() * ops.size) };
            Some(Fields::new(range.start, ops.size, bytes))
        }
        _ => None,
    };
    captured.iter().enumerate().map(of).collect()
}

/// The slices that a whole loop is recorded in.
pub(crate) fn slices(range: &Range<usize>) -> Vec<Range<usize>> {
    range.clone().step_by(SLICE).map(|start| start..range.end.min(start + SLICE)).collect()
}

/// The logs of slices of a loop, a log for each capture, given the values of relaxed ones. Where elements are elsewhere,
/// the pager brings them.
pub(crate) fn record_slices(
    task: &dyn Task,
    captured: &[Captured],
    relaxed: &[Option<RawBuf>],
    slices: &[Range<usize>],
    exact: bool,
    pool: &Pool,
    pager: Option<&dyn Pager>,
) -> Vec<Vec<CaptureLog>> {
    pool.map(slices.len(), |s| {
        let frame = recording_frame(captured, relaxed, &slices[s], exact, pager);
        task.record(&frame, slices[s].clone());
        frame.colds.into_vec().into_iter().map(log_of).collect()
    })
}

/// A frame whose views own nothing, so that every access is noted.
fn recording_frame(
    captured: &[Captured],
    relaxed: &[Option<RawBuf>],
    slice: &Range<usize>,
    exact: bool,
    pager: Option<&dyn Pager>,
) -> Frame {
    // The frame ends with the recording, which borrows the pager.
    let pager = pager.map(unbounded);
    let mut frame = Frame::new(|shared| {
        captured
            .iter()
            .enumerate()
            .map(|(c, capture)| match capture.kind {
                Kind::Vector { base, len, ops, writable, .. } => {
                    let log = CaptureLog::new(slice.start, slice.len(), writable);
                    let doing = Cold::recorder(log, base, len, ops, writable, exact || ops.by_key, pager);
                    Cold::new(c, base, len, Some(ops), doing, shared)
                }
                Kind::Reduction { .. } => Cold::new(c, std::ptr::null_mut(), 0, None, Doing::Reduction, shared),
                Kind::Relaxed { len, .. } => Cold::new(c, std::ptr::null_mut(), len, None, Doing::Reduction, shared),
            })
            .collect()
    });
    // What an iteration adds means nothing here.
    for (c, capture) in captured.iter().enumerate() {
        let Kind::Relaxed { ops, len, .. } = capture.kind else { continue };
        let now = relaxed.get(c).and_then(Option::as_ref).map_or_else(|| (ops.zeros)(len), RawBuf::copy);
        frame.lend(c, Copies { now, added: (ops.zeros)(len) });
    }
    frame
}

fn unbounded<'p>(pager: &'p (dyn Pager + 'p)) -> *const (dyn Pager + 'static) {
    let pager: *const (dyn Pager + 'p) = pager;
    // SAFETY: only the lifetime differs; who uses the pointer says why it is good.
    #[allow(unsafe_code)]
    unsafe {
        std::mem::transmute(pager)
    }
}

fn log_of(cold: Cold) -> CaptureLog {
    match cold.into_doing() {
        Doing::Record(recorder) => recorder.log.into_inner(),
        _ => CaptureLog::default(),
    }
}
