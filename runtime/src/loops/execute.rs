//! Running a plan: every thread takes blocks, makes their views and runs the body.
//!
//! # Why this is sound
//! 1. [`Handoff`] starts a block only when all blocks that conflict with it and stand before it are done, so two
//!    running blocks never own an element in conflicting ways. It passes the block on under its lock, so that what
//!    the blocks before wrote is seen.
//! 2. The slots of a block give its views exactly the elements that the plan says it touches: of shared DDSs the
//!    parts (or, when coloured, the listed elements), of DDSs in step with the loop the running iteration's own,
//!    of DDSs that nobody writes all, for reading. On a worker (`apart`), which holds no other elements, views of DDSs
//!    that are read in step own no more than that, either.
//! 3. Every captured DDS stays borrowed by the loop until all threads have ended.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::{Arc, Mutex, PoisonError};

use crate::body::capture::{Captured, Kind};
use crate::body::context::{AHEAD, Ahead, Frame, Here, Slot};
use crate::body::panics;
use crate::body::slow_path::{Cold, Doing, Listing, Span};
use crate::body::task::{Failure, Iterations, Task};
use crate::dds::relaxed::board::{Board, Missing};
use crate::loops::handoff::{Dispatch, Handoff};
use crate::loops::pack::Gathered;
use crate::loops::undo::{Undo, is_logged};
use crate::memory::buffer::RawBuf;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::locked;
use crate::session::options::{Order, Strategy};
use crate::session::pool::Pool;
use crate::session::timeline::{self, Category};

/// Parts smaller than this stay in the nearer caches by themselves.
const WORTH_FETCHING: usize = 128 << 10;

/// Nanoseconds: looking for a block takes about so long where there is one.
const NOT_WAITING: u64 = 2_000;

/// One execution of a plan.
pub(crate) struct Run<'r> {
    pub(crate) plan: &'r Plan,
    pub(crate) task: &'r dyn Task,
    pub(crate) captured: &'r [Captured],
    pub(crate) gathered: &'r [Option<Gathered>],
    pub(crate) order: Order,
    /// Whether to keep count of iterations, to name one that unwinds.
    pub(crate) trace: bool,
    /// What each capture that is a reduction held before.
    pub(crate) before: Vec<u64>,
    pub(crate) board: Arc<Board>,
    /// On a worker, which holds no more than the plan says that its blocks touch: for each capture, whether elements in
    /// step are reached by other means than `x[i]`.
    pub(crate) apart: Option<&'r [bool]>,
}

/// What a block left for the reductions: a total each, and single additions where their order counts.
#[derive(Default)]
pub(crate) struct BlockResult {
    pub(crate) totals: Vec<u64>,
    pub(crate) additions: Vec<Vec<(usize, u64)>>,
    /// What single elements held before the block changed them: capture, index, value.
    old: Vec<(usize, usize, RawBuf)>,
}

/// What a replay came to, by capture: reductions and relaxed state.
pub(crate) struct Replayed {
    pub(crate) words: Vec<u64>,
    pub(crate) relaxed: Vec<Option<RawBuf>>,
}

/// The failure that comes first in the serial order.
pub(crate) struct FirstFailure {
    pub(crate) block: usize,
    /// Known unless the iteration unwound and nobody kept count.
    pub(crate) iteration: Option<usize>,
    pub(crate) failure: Failure,
}

impl FirstFailure {
    pub(crate) fn new(block: usize, iteration: Option<usize>, failure: Failure) -> Self {
        FirstFailure { block, iteration, failure }
    }
}

/// What the reductions hold before a loop.
pub(crate) fn words(captured: &[Captured]) -> Vec<u64> {
    captured
        .iter()
        .map(|capture| match capture.kind {
            // SAFETY: the loop holds the reduction borrowed.
            Kind::Reduction { cell, .. } => unsafe { (*cell).word() },
            Kind::Vector { .. } | Kind::Relaxed { .. } => 0,
        })
        .collect()
}

impl Run<'_> {
    /// Runs all blocks. Gives what the reductions hold afterwards, or the first failure with everything put back.
    pub(crate) fn run(&self, undo: &Undo, pool: &Pool) -> Result<Vec<u64>, FirstFailure> {
        // An element's `clone` may panic while parts are saved: that must not leave other threads waiting.
        self.save_upfront(undo)?;
        let (results, failed) = self.run_blocks(&Handoff::new(&self.plan.graph), undo, pool);
        if let Some(failed) = failed {
            restore(self.plan, self.captured, results, undo);
            return Err(failed);
        }
        undo.commit();
        Ok(self.unite(results.into_iter()))
    }

    /// Saves what every block may change, before the first of them starts.
    pub(crate) fn save_upfront(&self, undo: &Undo) -> Result<(), FirstFailure> {
        panics::caught(|| undo.save_upfront(self.plan, self.captured)).map_err(|note| {
            undo.commit();
            FirstFailure::new(0, Some(self.plan.range.start), Failure::Panic(note))
        })
    }

    /// Runs blocks as they are handed out, on all threads, until no more will be. Says what each came to, and which
    /// failure is the first in the serial order.
    pub(crate) fn run_blocks(
        &self,
        handoff: &impl Dispatch,
        undo: &Undo,
        pool: &Pool,
    ) -> (Vec<BlockResult>, Option<FirstFailure>) {
        let results: Vec<Mutex<BlockResult>> = self.plan.blocks.iter().map(|_| Mutex::default()).collect();
        let first: Mutex<Option<FirstFailure>> = Mutex::new(None);
        pool.everywhere(self.plan.blocks.len(), || {
            let mut last: Option<usize> = None;
            loop {
                let recorded = timeline::is_on();
                let waiting = recorded.then(|| timeline::span(Category::Wait, 0));
                let next = handoff.next(&|block| last.is_some_and(|last| self.near(last, block)));
                if let Some(waiting) = waiting {
                    waiting.forget_if_shorter(NOT_WAITING);
                }
                let Some(b) = next else { break };
                let _span = recorded.then(|| timeline::span(Category::Block, handoff.number(b) as u64));
                let saved = panics::caught(|| undo.save_for(b, self.plan, self.captured));
                let first_of_block = self.plan.range.start + self.plan.offset(self.plan.blocks[b].start);
                let (result, ended) = match saved {
                    Ok(()) => self.run_block(b),
                    Err(note) => (BlockResult::default(), Err((Some(first_of_block), Failure::Panic(note)))),
                };
                *locked(&results[b]) = result;
                match ended {
                    Ok(()) => handoff.done(b),
                    Err((iteration, failure)) => {
                        let mut first = locked(&first);
                        if first.as_ref().is_none_or(|other| b < other.block) {
                            *first = Some(FirstFailure { block: b, iteration, failure });
                        }
                        drop(first);
                        handoff.fail(b);
                    }
                }
                last = Some(b);
            }
        });
        let results = results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        (results.collect(), first.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether two blocks share a part.
    fn near(&self, last: usize, block: usize) -> bool {
        let (a, b) = (self.plan.touches(last), self.plan.touches(block));
        a.iter().any(|a| b.iter().any(|b| a.resource == b.resource))
    }

    fn run_block(&self, b: usize) -> (BlockResult, Result<(), (Option<usize>, Failure)>) {
        let mut frame = self.frame(b);
        if self.lend_relaxed(&mut frame, b, &self.board).is_err() {
            return (BlockResult::default(), Err((None, Failure::Stopped)));
        }
        let ran = if self.trace {
            self.task.trace(&frame, self.iterations(b))
        } else {
            self.task.run(&frame, self.iterations(b))
        };
        if ran.is_ok() {
            self.keep_relaxed(&mut frame, b, &self.board);
        }
        (BlockResult::of(&mut frame), ran)
    }

    /// Gives a block its copies of relaxed state.
    fn lend_relaxed(&self, frame: &mut Frame, b: usize, board: &Board) -> Result<(), Missing> {
        if board.is_empty() {
            return Ok(());
        }
        for c in 0..self.captured.len() {
            if let Some(copies) = board.copies(c, self.plan.number(b))? {
                frame.lend(c, copies);
            }
        }
        Ok(())
    }

    /// Notes what a block that ended well has added to them.
    fn keep_relaxed(&self, frame: &mut Frame, b: usize, board: &Board) {
        for (c, added) in frame.take_relaxed() {
            board.put(c, self.plan.number(b), added);
        }
    }

    fn iterations(&self, b: usize) -> Iterations<'_> {
        let (block, first) = (self.plan.blocks[b], self.plan.range.start);
        if self.plan.offsets.is_empty() {
            Iterations::Range { start: first + block.start, end: first + block.end }
        } else {
            Iterations::List { first, offsets: &self.plan.offsets[block.start..block.end] }
        }
    }

    fn frame(&self, b: usize) -> Frame {
        let mut frame = Frame::new(|shared| {
            self.captured
                .iter()
                .enumerate()
                .map(|(c, capture)| match capture.kind {
                    Kind::Vector { base, len, ops, .. } => Cold::new(c, base, len, Some(ops), Doing::ReadOnly, shared),
                    Kind::Reduction { .. } => Cold::new(c, std::ptr::null_mut(), 0, None, Doing::Reduction, shared),
                    Kind::Relaxed { len, .. } => {
                        Cold::new(c, std::ptr::null_mut(), len, None, Doing::Reduction, shared)
                    }
                })
                .collect()
        });
        for (c, capture) in self.captured.iter().enumerate() {
            match capture.kind {
                Kind::Vector { base, len, writable, .. } => {
                    let doing = self.fill(&mut frame.slots[c], b, c, base, len, writable);
                    frame.colds[c].set_doing(doing);
                }
                Kind::Reduction { ops, .. } => {
                    let slot = &mut frame.slots[c];
                    if self.plan.strategy == Strategy::Serial {
                        slot.total = Cell::new(self.before[c]);
                    } else {
                        slot.total = Cell::new((ops.neutral)(self.before[c]));
                        slot.additions =
                            (ops.ordered && self.order == Order::Preserve).then(|| RefCell::new(Vec::new()));
                    }
                }
                Kind::Relaxed { .. } => {}
            }
        }
        frame
    }

    /// What block `b` owns of capture `c`.
    fn fill(&self, slot: &mut Slot, b: usize, c: usize, base: *mut u8, len: usize, writable: bool) -> Doing {
        let (plan, block) = (self.plan, self.plan.blocks[b]);
        let Kind::Vector { ops, .. } = self.captured[c].kind else { return Doing::Reduction };
        slot.base = base;
        // Where a block may read (or write) everything, that includes the element of its iteration's own number.
        let number_is_index = plan.range.end <= len;
        if plan.strategy == Strategy::Serial && writable {
            whole(slot, base, len);
            let spans = vec![Span { lo: 0, len, wlen: len }];
            slot.here.read = number_is_index;
            if is_logged(self.captured, plan) {
                return Doing::Logged { spans, saved: RefCell::default() };
            }
            slot.wlen = len;
            slot.here.write = number_is_index;
            return Doing::Spans(spans);
        }
        let read_all = |slot: &mut Slot| {
            whole(slot, base, len);
            slot.here.read = number_is_index;
            Doing::ReadOnly
        };
        match plan.usage[c] {
            Usage::InStep { offset, written } => {
                // An access that is not written `x[i]`, or at a distance, is found by other means.
                slot.here = Here { read: offset == 0, write: offset == 0 && written, gathered: false };
                let gathered = self.gathered.get(c).and_then(Option::as_ref).filter(|_| !written);
                if let Some(gathered) = gathered {
                    slot.here.gathered = true;
                    slot.base = gathered.elements.base().wrapping_add(block.start * ops.size);
                }
                match (written, self.apart, gathered) {
                    (false, None, _) => {
                        (slot.ptr, slot.lo, slot.len) = (base, 0, len);
                        return Doing::ReadOnly;
                    }
                    (false, Some(by_index), Some(_)) => {
                        if !by_index.get(c).is_some_and(|&by_index| by_index) {
                            return Doing::Spans(Vec::new());
                        }
                        slot.tracked = true;
                        return Doing::Gathered { offset, now: Cell::new((0, 0)), at: slot.base };
                    }
                    _ => {}
                }
                if plan.offsets.is_empty() {
                    slot.lo = plan.range.start.wrapping_add(offset).wrapping_add(block.start);
                    slot.ptr = base.wrapping_add(slot.lo.wrapping_mul(ops.size));
                    slot.len = block.end - block.start;
                    slot.wlen = if written { slot.len } else { 0 };
                    return Doing::Spans(Vec::new());
                }
                slot.tracked = true;
                Doing::InStep { offset, written, now: Cell::new(0) }
            }
            Usage::ReadOnly => read_all(slot),
            _ if !writable && self.apart.is_none_or(|_| plan.strategy == Strategy::Serial) => read_all(slot),
            Usage::Untouched | Usage::Reduction => Doing::Spans(Vec::new()),
            Usage::Shared if plan.strategy == Strategy::Coloured => self.list(slot, b, c),
            Usage::Shared => {
                let spans = self.spans(b, c);
                if let Some(largest) = spans.iter().max_by_key(|span| (span.wlen, span.len)) {
                    (slot.lo, slot.len, slot.wlen) = (largest.lo, largest.len, largest.wlen);
                    slot.ptr = base.wrapping_add(largest.lo * ops.size);
                    if largest.len * ops.size >= WORTH_FETCHING && ops.size >= 64 {
                        slot.ahead = self.ahead(b, c);
                    }
                }
                if self.plan.is_sparse(c) {
                    slot.wlen = 0;
                    return Doing::Logged { spans, saved: RefCell::default() };
                }
                Doing::Spans(spans)
            }
        }
    }

    /// Where the indices of the elements of capture `c` stand that later iterations of block `b` will touch.
    fn ahead(&self, b: usize, c: usize) -> Ahead {
        let Some(field) = self.plan.fields[c] else { return Ahead::NOTHING };
        let Some(gathered) = self.gathered.get(field.capture).and_then(Option::as_ref) else { return Ahead::NOTHING };
        let (block, stride) = (self.plan.blocks[b], gathered.elements.ops().size);
        Ahead {
            at: gathered.elements.base().wrapping_add((block.start + AHEAD) * stride + field.byte),
            stride,
            iterations: (block.end - block.start).saturating_sub(AHEAD),
        }
    }

    /// The ranges of a shared DDS that a block owns, neighbours joined.
    fn spans(&self, b: usize, c: usize) -> Vec<Span> {
        let Some(parts) = &self.plan.parts else { return Vec::new() };
        let mut spans: Vec<Span> = Vec::new();
        for touch in self.plan.touches(b) {
            let (slot, part) = parts.part_of(touch.resource);
            if parts.captures[slot] != c {
                continue;
            }
            let (lo, hi) = (parts.cuts[slot].bounds[part], parts.cuts[slot].bounds[part + 1]);
            match spans.last_mut() {
                Some(last) if last.lo + last.len == lo && (last.wlen > 0) == touch.write => {
                    last.len += hi - lo;
                    last.wlen = if touch.write { last.len } else { 0 };
                }
                _ => spans.push(Span { lo, len: hi - lo, wlen: if touch.write { hi - lo } else { 0 } }),
            }
        }
        spans
    }

    fn list(&self, slot: &mut Slot, b: usize, c: usize) -> Doing {
        let place = self.plan.shared.iter().position(|&shared| shared == c);
        let Some(listed) = place.and_then(|place| self.plan.listed.get(place)) else {
            return Doing::Spans(Vec::new());
        };
        slot.tracked = true;
        let block = self.plan.blocks[b];
        let listing = Listing {
            entries: listed.entries.as_ptr(),
            ends: listed.ends[block.start..].as_ptr(),
            start: block.start.checked_sub(1).map_or(0, |last| listed.ends[last]),
            iterations: block.end - block.start,
        };
        Doing::Listed(listing, Cell::new((0, 0)))
    }

    /// What the reductions come to: the blocks' results in serial order, or all additions in the loop's.
    pub(crate) fn unite(&self, results: impl Iterator<Item = BlockResult>) -> Vec<u64> {
        let mut words = self.before.clone();
        let mut additions: Vec<Vec<(usize, u64)>> = vec![Vec::new(); words.len()];
        let serial = self.plan.strategy == Strategy::Serial;
        for result in results {
            for (c, capture) in self.captured.iter().enumerate() {
                if let Kind::Reduction { ops, .. } = capture.kind {
                    words[c] = if serial { result.totals[c] } else { (ops.unite)(words[c], result.totals[c]) };
                }
            }
            for (all, block) in additions.iter_mut().zip(result.additions) {
                all.extend(block);
            }
        }
        for (c, mut additions) in additions.into_iter().enumerate() {
            if let Kind::Reduction { ops, .. } = self.captured[c].kind
                && ops.ordered
                && self.order == Order::Preserve
                && !serial
            {
                additions.sort_by_key(|&(iteration, _)| iteration);
                words[c] = additions.iter().fold(self.before[c], |sum, &(_, word)| (ops.unite)(sum, word));
            }
        }
        words
    }

    /// Runs the blocks one after the other in the claimed serial order on other memory: the oracle of `verify`.
    ///
    /// `shadows` stands in for the captures that may be written; views own all of them.
    pub(crate) fn replay(&self, shadows: &[Option<RawBuf>]) -> Result<Replayed, (Option<usize>, Failure)> {
        let mut results = Vec::new();
        let board = self.board.fresh();
        for b in 0..self.plan.blocks.len() {
            let mut frame = self.frame(b);
            for (c, shadow) in shadows.iter().enumerate() {
                let Kind::Vector { base, len, ops, writable, .. } = self.captured[c].kind else { continue };
                let base = shadow.as_ref().map_or(base, RawBuf::base);
                let slot = &mut frame.slots[c];
                whole(slot, base, len);
                (slot.tracked, slot.here) = (false, Here::default());
                slot.wlen = if writable { len } else { 0 };
                frame.colds[c] = Cold::new(c, base, len, Some(ops), Doing::ReadOnly, &raw const *frame.shared);
            }
            self.lend_relaxed(&mut frame, b, &board).map_err(|Missing| (None, Failure::Stopped))?;
            self.task.run(&frame, self.iterations(b))?;
            self.keep_relaxed(&mut frame, b, &board);
            results.push(BlockResult::of(&mut frame));
        }
        Ok(Replayed { words: self.unite(results.into_iter()), relaxed: board.total() })
    }
}

/// Puts everything back as it was before the loop. All threads of it have ended.
pub(crate) fn restore(plan: &Plan, captured: &[Captured], results: Vec<BlockResult>, undo: &Undo) {
    undo.restore(plan, captured);
    // Of several blocks that changed an element the first saw it as it was before the loop.
    for (c, index, mut copy) in results.into_iter().rev().flat_map(|result| result.old) {
        if let Kind::Vector { base, ops, .. } = captured[c].kind {
            // SAFETY: nobody else runs; both addresses hold an element.
            unsafe { std::ptr::swap_nonoverlapping(copy.as_mut_ptr(), base.add(index * ops.size), ops.size) };
        }
    }
}

fn whole(slot: &mut Slot, base: *mut u8, len: usize) {
    (slot.ptr, slot.base, slot.lo, slot.len, slot.wlen) = (base, base, 0, len, 0);
}

impl BlockResult {
    fn of(frame: &mut Frame) -> BlockResult {
        let mut result = BlockResult::default();
        for (c, (slot, cold)) in frame.slots.iter_mut().zip(&frame.colds).enumerate() {
            result.totals.push(slot.total.get());
            result.additions.push(slot.additions.take().map_or_else(Vec::new, RefCell::into_inner));
            if let Doing::Logged { saved, .. } = cold.doing() {
                let saved = std::mem::take(&mut *saved.borrow_mut());
                result.old.extend(saved.into_iter().map(|(index, copy)| (c, index, copy)));
            }
        }
        result
    }
}
