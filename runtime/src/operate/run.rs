//! Running a stage over the chunks of its source, in this process; and one chunk in any process.
//!
//! # Why this is sound
//! Sources and captures are borrowed by the caller of the operator, and nobody writes them meanwhile; on a worker their
//! shards are kept alive, and hold every element of the chunks and captures, but for captures of which a pager brings what is
//! looked at. Slots of captures cover all their elements, to be read.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::kernel::{Cx, Input};
use super::stage::{Items, Stage};
use crate::body::capture::{Captured, Kind};
use crate::body::context::Context;
use crate::body::lease::Lease;
use crate::body::outcome::{Failure, outcome, unwound};
use crate::body::panics;
use crate::body::slot::{Owned, Slot};
use crate::body::slow_path::{Doing, Pager, ViewRange};
use crate::memory::element_ops::ElementOps;
use crate::memory::home::Home;
use crate::session::error::{BatchProblem, Error, LoopProblem, Result};
use crate::session::pool::Pool;
use crate::session::slow_bodies::{self, Unit};
use crate::session::{SessionInner, locked};

/// This many chunks at most, unless they would be larger than [`LARGEST`].
const CHUNKS: usize = 2048;
const SMALLEST: usize = 32;
pub(super) const LARGEST: usize = 1 << 16;
/// As many chunks as the longest DVector has: longer ranges of numbers have larger ones.
const MOST: usize = 1 << 15;
/// The same for stages that deal items out: each chunk leaves a list for each partition, and has keys of its own.
const DEALT_CHUNKS: usize = 64;
pub(super) const DEALT_LARGEST: usize = 1 << 22;
const DEALT_MOST: usize = 512;

/// Chunks of a map: as few as it has buckets at the least. Buckets are ranges of hashes, and their number a power of two, so
/// that equal maps have equal chunks, however many buckets each has.
const MAP_CHUNKS: usize = crate::dds::dmap::FEWEST;

/// An operator's call, without its types.
pub(crate) struct Operation<'c> {
    pub(crate) session: &'c SessionInner,
    /// The operator's name, and where it was called.
    pub(crate) site: &'c str,
    pub(crate) sources: &'c [Captured],
    pub(crate) captured: &'c [Captured],
    /// Which of these are maps in which joins look up keys.
    pub(crate) looked_up: &'c [usize],
    pub(crate) len: usize,
    /// How many of them make a chunk, where that is for the caller to say.
    pub(crate) chunk: Option<usize>,
    /// Whether it can be run again as long as the job lasts; otherwise what it makes is stored at once.
    pub(crate) again: bool,
    pub(crate) stage: &'c dyn Stage,
    /// What it needs to run elsewhere.
    pub(crate) pack: crate::loops::call::Pack<'c>,
}

/// A result that is kept.
pub(crate) enum Made {
    Here(Vec<Box<dyn Items>>),
    /// This many elements of a new DVector, whose home has none yet.
    Elsewhere {
        dds: u64,
        home: Home,
        len: usize,
        /// How many items were made: of a map, whose elements are buckets, its entries.
        items: usize,
    },
}

/// What operators ask of a backend.
pub(crate) trait OperatorBackend: Send + Sync {
    /// Runs an operator whose result the program wants to have.
    fn give(&self, operation: &Operation<'_>) -> Result<Vec<Box<dyn Items>>>;
    /// Runs an operator whose result becomes a DVector of these elements, which may stay where they were made.
    fn store(&self, operation: &Operation<'_>, ops: &'static ElementOps) -> Result<Made>;
}

/// A context whose views reach every element of the captures, to be read.
fn reading<'s>(captures: &'s Lease<'_>, pager: Option<&'s dyn Pager>) -> Context<'s> {
    Context::new(|state| {
        let owned = |c: usize, lent| match pager {
            Some(pager) if !pager.has_all(c) => Owned::by(Doing::Fetched(pager, Cell::new(ViewRange::EMPTY))),
            _ => Owned::all(lent),
        };
        let slot = |c: usize| match captures.vector(c) {
            // SAFETY: the operator has the captures borrowed, and nobody writes them. They are here, or the pager brings them.
            Some(lent) => unsafe { Slot::of_elements(c, lent, owned(c, lent), state) },
            None => Slot::absent(c, state),
        };
        (0..captures.captured().len()).map(slot).collect()
    })
}

/// What chunks are run with.
pub(crate) struct Chunks<'c> {
    pub(crate) stage: &'c dyn Stage,
    pub(crate) sources: &'c Lease<'c>,
    pub(crate) captures: &'c Lease<'c>,
    /// Who brings elements of captures that are elsewhere.
    pub(crate) pager: Option<&'c dyn Pager>,
    pub(crate) cut: Chunking,
    /// Set when nobody wants the result any more.
    pub(crate) stopped: &'c AtomicBool,
}

/// An element of the source for which an operator failed, or none where items were brought together.
pub(crate) type ChunkFailure = (Option<usize>, Failure);

/// How a source is cut.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Chunking {
    /// How many elements it has.
    pub(crate) len: usize,
    /// How many of them a chunk has.
    chunk: usize,
}

impl Chunking {
    /// How many elements a chunk has.
    pub(crate) fn chunk(self) -> usize {
        self.chunk.max(1)
    }

    pub(crate) fn chunks(self) -> usize {
        self.len.div_ceil(self.chunk())
    }

    /// The elements of consecutive chunks.
    pub(crate) fn elements(self, chunks: &Range<usize>) -> Range<usize> {
        let bound = |chunk: usize| self.len.min(chunk.saturating_mul(self.chunk));
        bound(chunks.start)..bound(chunks.end)
    }
}

impl Chunks<'_> {
    /// One chunk: a list for each partition.
    ///
    /// # Safety
    /// Sources, captures and stage belong together, and the chunk's elements and the captures' are here, or brought.
    unsafe fn run_one(&self, chunk: usize) -> std::result::Result<Vec<Box<dyn Items>>, ChunkFailure> {
        // SAFETY: the caller's promise.
        unsafe { self.run_as(chunk, None) }
    }

    /// The same, or to find out what its joins look up.
    ///
    /// # Safety
    /// As for one.
    unsafe fn run_as(
        &self,
        chunk: usize,
        asked: Option<&dyn Fn(usize, usize) -> bool>,
    ) -> std::result::Result<Vec<Box<dyn Items>>, ChunkFailure> {
        let Range { start, end } = self.cut.elements(&(chunk..chunk + 1));
        let context = reading(self.captures, self.pager);
        context.state.at.set(start);
        let source = |k| {
            let source = self.sources.vector(k).filter(|source| end <= source.len())?;
            Some(Input { at: source.at(start).cast_const(), width: source.ops().width() })
        };
        let inputs: Option<Vec<Input>> = (0..self.sources.captured().len()).map(source).collect();
        let Some(inputs) = inputs else { return Err((None, Failure::Stopped)) };
        let (place, refused) = (Cell::new(start as u64), Cell::new(None));
        let cx = Cx {
            inputs: &inputs,
            start,
            len: end - start,
            slots: &context.slots,
            at: &context.state.at,
            place: &place,
            refused: &refused,
            asked,
        };
        let mut made = None;
        let _now = slow_bodies::running(Unit::Chunk(chunk as u64));
        let ran = unwound(|| {
            // SAFETY: the caller's promise.
            made = Some(unsafe { self.stage.run(&cx) });
            None
        });
        let ran = match refused.take() {
            Some((at, problem)) => Ok(Some((at, problem.into()))),
            None => ran,
        };
        let at = context.state.at.get();
        outcome(&context, Some(at), ran).map_err(|(_, failure)| (Some(at), failure))?;
        Ok(made.unwrap_or_default())
    }

    /// Has the pager bring, by lists, what the joins of consecutive chunks look up. Gives how long it took to find that out.
    ///
    /// # Safety
    /// As for one, for all of them.
    pub(crate) unsafe fn bring_looked_up(&self, chunks: Range<usize>, pool: &Pool, pager: &dyn Pager) -> Duration {
        let mut asking = Duration::ZERO;
        // What one join's items are is known when those of the join before it are here.
        for _ in 0..pager.by_list() {
            let since = Instant::now();
            let asked = pool.map(chunks.len(), |k| {
                if self.stopped.load(Relaxed) {
                    return BTreeMap::new();
                }
                let awaited = RefCell::new(BTreeMap::<usize, Vec<usize>>::new());
                let note = |capture: usize, index: usize| {
                    let elsewhere = pager.is_awaited(capture, index);
                    if elsewhere {
                        awaited.borrow_mut().entry(capture).or_default().push(index);
                    }
                    elsewhere
                };
                // What goes wrong goes wrong once more, in its turn.
                // SAFETY: the caller's promise.
                let _ = unsafe { self.run_as(chunks.start + k, Some(&note)) };
                awaited.take()
            });
            asking += since.elapsed();
            let mut all = BTreeMap::<usize, Vec<usize>>::new();
            for (capture, elements) in asked.into_iter().flatten() {
                all.entry(capture).or_default().extend(elements);
            }
            if all.is_empty() {
                break;
            }
            all.into_iter().for_each(|(capture, elements)| pager.bring_list(capture, elements));
        }
        asking
    }

    /// Consecutive chunks, on the threads of a pool; after a failure those behind it may be left out.
    ///
    /// # Safety
    /// As for one, for all of them.
    pub(crate) unsafe fn run(
        &self,
        chunks: Range<usize>,
        pool: &Pool,
    ) -> std::result::Result<Vec<Vec<Box<dyn Items>>>, ChunkFailure> {
        let failed = AtomicUsize::new(usize::MAX);
        let ran = pool.map(chunks.len(), |k| {
            if k > failed.load(Relaxed) {
                return Ok(Vec::new());
            }
            if self.stopped.load(Relaxed) {
                return Err((None, Failure::Stopped));
            }
            // SAFETY: the caller's promise.
            unsafe { self.run_one(chunks.start + k) }.inspect_err(|_| {
                failed.fetch_min(k, Relaxed);
            })
        });
        ran.into_iter().collect()
    }
}

/// What all the lists of each partition become, in order; without partitions, the chunks' lists.
pub(crate) fn shuffle_here(
    stage: &dyn Stage,
    chunks: Vec<Vec<Box<dyn Items>>>,
    pool: &Pool,
) -> std::result::Result<Vec<Box<dyn Items>>, ChunkFailure> {
    let partitions = stage.partitions();
    if !stage.shuffles() {
        return Ok(chunks.into_iter().flatten().collect());
    }
    let mut dealt: Vec<Vec<Box<dyn Items>>> = (0..partitions).map(|_| Vec::new()).collect();
    for chunk in chunks {
        chunk.into_iter().zip(&mut dealt).for_each(|(list, part)| part.push(list));
    }
    combine_partitions(stage, dealt, pool)
}

/// One list of the lists of each partition.
pub(crate) fn combine_partitions(
    stage: &dyn Stage,
    dealt: Vec<Vec<Box<dyn Items>>>,
    pool: &Pool,
) -> std::result::Result<Vec<Box<dyn Items>>, ChunkFailure> {
    // Comparisons and clones are the program's own code.
    let combine = |lists| panics::caught(|| stage.combine(lists)).map_err(|note| (None, Failure::Panic(note)));
    made_of_each(dealt, pool, combine).into_iter().collect()
}

/// What a function makes of each of these, on the threads of a pool.
pub(crate) fn made_of_each<T: Send, R: Send>(each: Vec<T>, pool: &Pool, f: impl Fn(T) -> R + Sync + Send) -> Vec<R> {
    let each: Vec<_> = each.into_iter().map(|one| Mutex::new(Some(one))).collect();
    pool.map(each.len(), |k| locked(&each[k]).take().map(&f)).into_iter().flatten().collect()
}

impl Operation<'_> {
    /// Checks that it can run at all.
    pub(crate) fn check(&self) -> Result<()> {
        let problem = |problem| Err(Error::Loop { site: self.site.to_string(), problem });
        if panics::inside_body() {
            return problem(LoopProblem::Nested);
        }
        for capture in self.captured.iter().chain(self.sources) {
            capture.usable()?;
            if matches!(capture.kind, Kind::Reduction { .. }) {
                return problem(LoopProblem::ReductionInOperator);
            }
            if matches!(capture.kind, Kind::Relaxed { .. }) {
                return problem(LoopProblem::RelaxedInOperator);
            }
            if !capture.session.is(self.session) {
                return problem(LoopProblem::TwoSessions {
                    first: "the data",
                    second: capture.name.unwrap_or("a capture"),
                });
            }
        }
        Ok(())
    }

    /// Depends on the length and the kind of source, and on the kind of stage: where chunks begin decides how floating-point
    /// sums are rounded.
    pub(crate) fn cut(&self) -> Chunking {
        let is_map = |capture: &Captured| matches!(capture.kind, Kind::Vector { ops, .. } if ops.by_key);
        let len = self.len;
        let chunk = match self.sources.first() {
            _ if let Some(chunk) = self.chunk => chunk,
            Some(source) if is_map(source) => len.div_ceil(MAP_CHUNKS),
            _ if self.stage.wants_long_chunks() => {
                len.div_ceil(DEALT_CHUNKS).clamp(SMALLEST, DEALT_LARGEST).max(len.div_ceil(DEALT_MOST))
            }
            _ => len.div_ceil(CHUNKS).clamp(SMALLEST, LARGEST).max(len.div_ceil(MOST)),
        };
        Chunking { len, chunk }
    }

    /// All lists of the result in order, made in this process.
    pub(crate) fn run_here(&self) -> Result<Vec<Box<dyn Items>>> {
        let pool = self.session.pool()?;
        let (sources, captures) = (Lease::of(self.sources), Lease::of(self.captured));
        let never = AtomicBool::new(false);
        let (stage, cut) = (self.stage, self.cut());
        let chunks = Chunks { stage, sources: &sources, captures: &captures, pager: None, cut, stopped: &never };
        // SAFETY: the pipe holds the borrows of its sources and captures, and put all of this together.
        let made = unsafe { chunks.run(0..self.cut().chunks(), &pool) };
        made.and_then(|made| shuffle_here(self.stage, made, &pool)).map_err(|failed| self.error(failed))
    }

    pub(crate) fn error(&self, (element, failure): ChunkFailure) -> Error {
        let problem = match failure {
            Failure::Panic(note) | Failure::Undoing(note) => {
                BatchProblem::Panic { message: note.message, location: note.location }
            }
            Failure::Body(source) => BatchProblem::Body(source),
            Failure::OutOfRange { capture, index } => {
                let (len, rows) = self.captured.get(capture).map_or((0, false), Captured::counted);
                let unnamed = if rows { "a captured DMatrix" } else { "a captured DVector" };
                let dds = self.captured.get(capture).and_then(|captured| captured.name).unwrap_or(unnamed);
                BatchProblem::IndexOutOfRange { dds, index, len, rows }
            }
            Failure::Misspeculation { .. } | Failure::Stopped | Failure::Difference { .. } => BatchProblem::Stopped,
        };
        Error::Operator { site: self.site.to_string(), element, problem }
    }
}
