//! Running a stage over the chunks of its source, in this process; and one chunk in any process.
//!
//! # Why this is sound
//! Sources and captures are borrowed by whoever called the operator, and nobody writes them meanwhile; on a worker their
//! shards are kept alive, and hold every element of the chunks and captures. Slots of captures cover all their elements, to
//! be read.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use super::kernel::Cx;
use super::stage::{Piece, Stage};
use crate::capture::{Captured, Kind};
use crate::cold::{Cold, Doing};
use crate::error::{BatchProblem, Error, LoopProblem, Result};
use crate::frame::Frame;
use crate::panics;
use crate::pool::Pool;
use crate::session::SessionInner;
use crate::task::{Failure, outcome, unwound};

/// So many chunks at most, unless they would be larger than [`LARGEST`].
const CHUNKS: usize = 2048;
const SMALLEST: usize = 32;
const LARGEST: usize = 1 << 16;

/// How many elements of a source of this length a chunk has. It depends on the length alone: where chunks begin decides
/// how floating-point sums are rounded.
pub(crate) fn chunk_of(len: usize) -> usize {
    len.div_ceil(CHUNKS).clamp(SMALLEST, LARGEST)
}

/// An operator's call, without its types.
pub(crate) struct Operation<'c> {
    pub(crate) session: &'c SessionInner,
    /// The operator's name, and where it was called.
    pub(crate) site: &'c str,
    pub(crate) sources: &'c [Captured],
    pub(crate) captured: &'c [Captured],
    pub(crate) len: usize,
    pub(crate) stage: &'c dyn Stage,
    /// What it needs to run elsewhere.
    pub(crate) pack: crate::engine::Pack<'c>,
}

/// Where a source's elements lie.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub(crate) base: *const u8,
    pub(crate) size: usize,
}

// SAFETY: an address of elements that nobody writes while the operator runs.
unsafe impl Send for Source {}
// SAFETY: as above.
unsafe impl Sync for Source {}

pub(crate) fn sources_of(captured: &[Captured]) -> Vec<Source> {
    captured
        .iter()
        .filter_map(|capture| match capture.kind {
            Kind::Vector { base, ops, .. } => Some(Source { base, size: ops.size }),
            Kind::Reduction { .. } => None,
        })
        .collect()
}

/// A frame whose views reach every element of the captures, to be read.
fn reading(captured: &[Captured]) -> Frame {
    let mut frame = Frame::new(|shared| {
        let cold = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Vector { base, len, ops, .. } => Cold::new(c, base, len, Some(ops), Doing::ReadOnly, shared),
            Kind::Reduction { .. } => Cold::new(c, std::ptr::null_mut(), 0, None, Doing::Reduction, shared),
        };
        captured.iter().enumerate().map(cold).collect()
    });
    for (slot, capture) in frame.slots.iter_mut().zip(captured) {
        if let Kind::Vector { base, len, .. } = capture.kind {
            (slot.ptr, slot.base, slot.lo, slot.len, slot.wlen) = (base, base, 0, len, 0);
        }
    }
    frame
}

/// What chunks are run with.
pub(crate) struct Chunks<'c> {
    pub(crate) stage: &'c dyn Stage,
    pub(crate) sources: &'c [Source],
    pub(crate) captured: &'c [Captured],
    /// Of the whole source.
    pub(crate) len: usize,
    /// Set by whoever doesn't want the result any more.
    pub(crate) stopped: &'c AtomicBool,
}

/// An element of the source for which an operator failed.
pub(crate) type Failed = (usize, Failure);

impl Chunks<'_> {
    pub(crate) fn count(len: usize) -> usize {
        len.div_ceil(chunk_of(len))
    }

    /// The elements of consecutive chunks.
    pub(crate) fn elements(len: usize, chunks: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let size = chunk_of(len);
        len.min(chunks.start.saturating_mul(size))..len.min(chunks.end.saturating_mul(size))
    }

    /// One chunk: a piece for each partition.
    ///
    /// # Safety
    /// Sources, captures and stage belong together, and the chunk's elements and the captures' are here.
    unsafe fn run_one(&self, chunk: usize) -> std::result::Result<Vec<Box<dyn Piece>>, Failed> {
        let size = chunk_of(self.len);
        let (start, end) = (chunk * size, self.len.min((chunk + 1) * size));
        let frame = reading(self.captured);
        frame.shared.at.set(start);
        let inputs: Vec<*const u8> =
            self.sources.iter().map(|source| source.base.wrapping_add(start * source.size)).collect();
        let cx = Cx { inputs: &inputs, start, len: end - start, slots: &frame.slots, at: &frame.shared.at };
        let mut made = None;
        let ran = unwound(|| {
            // SAFETY: the caller's promise.
            made = Some(unsafe { self.stage.run(&cx) });
            None
        });
        let at = frame.shared.at.get();
        outcome(&frame, Some(at), ran).map_err(|(_, failure)| (at, failure))?;
        Ok(made.unwrap_or_default())
    }

    /// Consecutive chunks, on the threads of a pool; after a failure those behind it may be left out.
    ///
    /// # Safety
    /// As for one, for all of them.
    pub(crate) unsafe fn run(
        &self,
        chunks: std::ops::Range<usize>,
        pool: &Pool,
    ) -> std::result::Result<Vec<Vec<Box<dyn Piece>>>, Failed> {
        let failed = AtomicUsize::new(usize::MAX);
        let ran = pool.map(chunks.len(), |k| {
            if k > failed.load(Relaxed) {
                return Ok(Vec::new());
            }
            if self.stopped.load(Relaxed) {
                return Err((0, Failure::Stopped));
            }
            // SAFETY: the caller's promise.
            unsafe { self.run_one(chunks.start + k) }.inspect_err(|_| {
                failed.fetch_min(k, Relaxed);
            })
        });
        ran.into_iter().collect()
    }
}

/// What all the pieces of each partition become, in order; without partitions, the chunks' pieces.
pub(crate) fn gather_here(
    stage: &dyn Stage,
    chunks: Vec<Vec<Box<dyn Piece>>>,
    pool: &Pool,
) -> std::result::Result<Vec<Box<dyn Piece>>, Failed> {
    let partitions = stage.partitions();
    if !stage.gathers() {
        return Ok(chunks.into_iter().flatten().collect());
    }
    let mut dealt: Vec<Vec<Box<dyn Piece>>> = (0..partitions).map(|_| Vec::new()).collect();
    for chunk in chunks {
        chunk.into_iter().zip(&mut dealt).for_each(|(piece, part)| part.push(piece));
    }
    gather_partitions(stage, dealt, pool)
}

/// One piece of the pieces of each partition.
pub(crate) fn gather_partitions(
    stage: &dyn Stage,
    dealt: Vec<Vec<Box<dyn Piece>>>,
    pool: &Pool,
) -> std::result::Result<Vec<Box<dyn Piece>>, Failed> {
    let dealt: Vec<_> = dealt.into_iter().map(|pieces| std::sync::Mutex::new(Some(pieces))).collect();
    let gathered = pool.map(dealt.len(), |p| {
        let pieces = crate::session::locked(&dealt[p]).take().unwrap_or_default();
        // Comparisons and clones are the program's own code.
        panics::caught(|| stage.gather(pieces)).map_err(|note| (0, Failure::Panic(note)))
    });
    gathered.into_iter().collect()
}

impl Operation<'_> {
    /// Checks that it can run at all.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = |problem| Err(Error::Loop { site: self.site.to_string(), problem });
        if panics::inside_body() {
            return problem(LoopProblem::Nested);
        }
        for capture in self.captured.iter().chain(self.sources) {
            if matches!(capture.kind, Kind::Reduction { .. }) {
                return problem(LoopProblem::ReductionInOperator);
            }
            if !capture.session.is(self.session) {
                return problem(LoopProblem::TwoSessions { first: "the data", second: "a capture" });
            }
        }
        Ok(())
    }

    /// All pieces of the result in order, made in this process.
    pub(crate) fn run_here(&self) -> Result<Vec<Box<dyn Piece>>> {
        let pool = self.session.pool()?;
        let (sources, never) = (sources_of(self.sources), AtomicBool::new(false));
        let chunks =
            Chunks { stage: self.stage, sources: &sources, captured: self.captured, len: self.len, stopped: &never };
        // SAFETY: the pipe holds the borrows of its sources and captures, and put all of this together.
        let made = unsafe { chunks.run(0..Chunks::count(self.len), &pool) };
        made.and_then(|made| gather_here(self.stage, made, &pool)).map_err(|failed| self.error(failed))
    }

    pub(crate) fn error(&self, (element, failure): Failed) -> Error {
        let problem = match failure {
            Failure::Panic(note) => BatchProblem::Panic { message: note.message, location: note.location },
            Failure::Body(source) => BatchProblem::Body(source),
            Failure::OutOfRange { capture, index } => {
                let len = self.captured.get(capture).map_or(0, |capture| match capture.kind {
                    Kind::Vector { len, .. } => len,
                    Kind::Reduction { .. } => 0,
                });
                BatchProblem::IndexOutOfRange { dds: "a captured DVector", index, len }
            }
            Failure::Stray { .. } | Failure::Stopped | Failure::Difference { .. } => BatchProblem::Stopped,
        };
        Error::Operator { site: self.site.to_string(), element, problem }
    }
}
