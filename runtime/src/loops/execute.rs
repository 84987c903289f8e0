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
//! 3. Every captured DDS stays borrowed by the loop, and its elements lent, until all threads have ended.
#![allow(unsafe_code)]

mod blocks;
mod in_order;

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use self::blocks::{Blocks, Watching};
use self::in_order::InOrder;
use crate::body::astray::Before;
use crate::body::capture::{Captured, Kind};
use crate::body::context::{BlockState, Context};
use crate::body::lease::{Lease, Lent};
use crate::body::outcome::Failure;
use crate::body::panics::{self, CaughtPanic};
use crate::body::slot::{Ahead, Copies, InStep, OwnElement, Owned, Slot};
use crate::body::slow_path::{Doing, Listed, Listing, MORE, ViewRange};
use crate::body::task::{Iterations, Task};
use crate::body::tiling::Tiling;
use crate::body::waiting;
use crate::dds::relaxed::board::{Board, Missing};
use crate::loops::handoff::{Dispatch, Handoff};
use crate::loops::pack::Packed;
use crate::loops::residency::Residency;
use crate::loops::results::{BlockResult, restore, settled, unite};
use crate::loops::tallies::Tallies;
use crate::loops::undo::{Undo, is_logged};
use crate::memory::buffer::RawBuf;
use crate::planner::Inline;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::options::{Order, Strategy};
use crate::session::pool::Pool;
use crate::session::timeline::{self, Category};

/// Parts that are smaller together stay in the nearer caches by themselves.
const WORTH_FETCHING: usize = 128 << 10;

/// Nanoseconds: looking for a block takes about so long where there is one.
const NOT_WAITING: u64 = 2_000;

/// One execution of a plan.
pub(crate) struct Run<'r> {
    pub(crate) plan: &'r Plan,
    pub(crate) task: &'r dyn Task,
    pub(crate) lease: &'r Lease<'r>,
    pub(crate) packed: &'r [Option<Packed>],
    pub(crate) order: Order,
    /// Whether to keep count of iterations, to name one that unwinds.
    pub(crate) trace: bool,
    /// What each capture that is a reduction held before.
    pub(crate) before: Vec<u64>,
    pub(crate) board: Arc<Board>,
    pub(crate) tallies: &'r Tallies,
    /// On a worker, which holds no more than the plan says that its blocks touch: for each capture, whether elements in
    /// step are reached by other means than `x[i]`.
    pub(crate) apart: Option<&'r [bool]>,
}

/// What a run came to.
pub(crate) struct Ran {
    /// What the reductions hold.
    pub(crate) after: Vec<u64>,
    /// How many elements were saved one by one.
    pub(crate) saved: usize,
    /// Nanoseconds for which threads were busy, all together.
    pub(crate) busy: u64,
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
    captured.iter().map(Captured::word).collect()
}

impl Run<'_> {
    /// Runs all blocks, on this many threads at most. Gives what they came to, or the first failure with everything put back.
    pub(crate) fn run(&self, undo: &Undo, (pool, most): (&Pool, usize)) -> Result<Ran, FirstFailure> {
        // An element's `clone` may panic while parts are saved: that must not leave other threads waiting.
        self.save_upfront(undo)?;
        let (one, handoff) = (Pool::one(), Handoff::new(&self.plan.graph));
        let pool = if most == 1 { &one } else { pool };
        let in_order = InOrder::of(self);
        let (results, mut failed, nanos) = self.run_blocks(&handoff, undo, (pool, most), in_order.as_ref());
        match failed {
            Some(_) => self.tallies.clear(),
            None => failed = self.tallies.unite(self.lease, pool).err().map(|note| self.of_the_end(note)),
        }
        if let Some(mut failed) = failed {
            if let Err(note) = restore(self.plan, self.lease, results, undo) {
                failed.failure = Failure::Undoing(note);
            }
            return Err(failed);
        }
        let saved = results.iter().map(BlockResult::saved).sum();
        let mut after = self.unite(settled(results, undo).into_iter());
        if let Some(in_order) = in_order {
            in_order.give(&mut after);
        }
        Ok(Ran { after, saved, busy: nanos.saturating_sub(handoff.idle()) })
    }

    /// A panic after the last iteration.
    fn of_the_end(&self, note: CaughtPanic) -> FirstFailure {
        FirstFailure::new(self.plan.blocks.len(), Some(self.plan.range.end - 1), Failure::Panic(note))
    }

    /// Saves what every block may change, before the first of them starts.
    pub(crate) fn save_upfront(&self, undo: &Undo) -> Result<(), FirstFailure> {
        panics::caught(|| undo.save_upfront(self.plan, self.lease)).map_err(|note| {
            // One panic is enough.
            let _forgotten = undo.commit();
            FirstFailure::new(0, Some(self.plan.range.start), Failure::Panic(note))
        })
    }

    /// Runs blocks as they are handed out, on this many threads at most, until no more will be. Says what each came to, which
    /// failure is the first in the serial order, and how long threads took for it, all together, in nanoseconds. `in_order` takes
    /// what they add, where all of them run here.
    pub(crate) fn run_blocks(
        &self,
        handoff: &impl Dispatch,
        undo: &Undo,
        (pool, most): (&Pool, usize),
        in_order: Option<&InOrder<'_>>,
    ) -> (Vec<BlockResult>, Option<FirstFailure>, u64) {
        let nanos = AtomicU64::new(0);
        let running = Blocks {
            run: self,
            handoff,
            undo,
            in_order,
            residency: Residency::of(self.plan, self.lease, self.packed, || self.order_of_one_thread()),
            results: self.plan.blocks.iter().map(|_| Mutex::default()).collect(),
            first: Mutex::new(None),
        };
        pool.on_some(self.plan.blocks.len().min(most), || {
            let begun = Instant::now();
            let (mut last, mut ended) = (None, None);
            loop {
                let waiting = timeline::is_on().then(|| timeline::span(Category::Wait, 0));
                let near = |block| last.is_some_and(|last| self.near(last, block));
                let next = match ended {
                    Some(b) => handoff.done_and_next(b, &near),
                    None => handoff.next(&near),
                };
                if let Some(waiting) = waiting {
                    waiting.forget_if_shorter(NOT_WAITING);
                }
                let Some(b) = next else { break };
                ended = running.run(b);
                last = Some(b);
            }
            nanos.fetch_add(begun.elapsed().as_nanos() as u64, Relaxed);
        });
        let Blocks { results, first, .. } = running;
        let results = results.into_iter().map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner));
        (results.collect(), first.into_inner().unwrap_or_else(PoisonError::into_inner), nanos.into_inner())
    }

    /// In which order one thread alone would run the blocks.
    fn order_of_one_thread(&self) -> Vec<usize> {
        let (handoff, mut order) = (Handoff::new(&self.plan.graph), Vec::<usize>::new());
        while let Some(b) = handoff.next(|block| order.last().is_some_and(|&last| self.near(last, block))) {
            order.push(b);
            handoff.done(b);
        }
        order
    }

    /// Whether two blocks share a part, or are tiles side by side.
    fn near(&self, last: usize, block: usize) -> bool {
        if self.plan.tiles.is_some() {
            return block == last + 1;
        }
        let (a, b) = (self.plan.touches(last), self.plan.touches(block));
        a.iter().any(|a| b.iter().any(|b| a.resource == b.resource))
    }

    /// Runs a block, and those beside it that are ready then. Gives the last of them, and how it ended.
    fn run_block(&self, b: usize, others: &Blocks<'_, impl Dispatch>) -> (BlockResult, usize, BlockEnd) {
        if self.plan.blocks[b].start == self.plan.blocks[b].end {
            // It needs no scratch, and no tally.
            return (self.nothing(), b, Ok(()));
        }
        let before = BeforeLoop { run: self, undo: others.undo };
        let words = others.in_order.and_then(|in_order| in_order.begin(b));
        let Ok(mut context) = self.context((b, words.as_deref()), &self.board, &before) else {
            return (BlockResult::default(), b, Err((None, Failure::Stopped)));
        };
        if let Some(stop) = others.handoff.stopping() {
            context.state.stop.get_or_init(|| stop);
        }
        let end = self.beside(b);
        let mut at = b;
        let ran = loop {
            let watch = Watching { block: at, others, state: Rc::clone(&context.state) };
            // SAFETY: the context was made for this block of the task's own captures, and for those beside it.
            let ran = waiting::watched(&watch, || unsafe {
                if self.trace {
                    self.task.trace(&context, self.iterations(at))
                } else {
                    self.task.run(&context, self.iterations(at))
                }
            });
            if ran.is_err() || at + 1 == end || !others.handoff.go_on(at) {
                break ran;
            }
            at += 1;
        };
        if ran.is_ok() {
            self.store_relaxed(&mut context, b, &self.board);
            self.store_tallies(&mut context, b, self.tallies);
        }
        for copies in context.slots.iter().map(|slot| slot.slow_path().take_astray()).filter(|some| !some.is_empty()) {
            // What their destructors say is no failure of the loop, which hasn't happened.
            let _dropped = panics::caught(|| drop(copies));
        }
        (BlockResult::of(&context), at, ran)
    }

    /// Up to which block a context that was made for one serves those behind it: tiles of its band, where each leaves nothing of
    /// its own.
    fn beside(&self, b: usize) -> usize {
        let alone = self.trace || !self.board.is_empty() || !self.tallies.is_empty();
        match &self.plan.tiles {
            Some(tiles) if !alone => tiles.band_of(b).blocks.end,
            _ => b + 1,
        }
    }

    /// What a block without iterations comes to.
    fn nothing(&self) -> BlockResult {
        let total = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Reduction { .. } if self.plan.strategy == Strategy::Serial => self.before[c],
            Kind::Reduction { ops, .. } => (ops.neutral)(self.before[c]),
            Kind::Vector { .. } | Kind::Relaxed { .. } => 0,
        };
        let totals: Vec<u64> = self.captured().iter().enumerate().map(total).collect();
        BlockResult::of_totals(totals, Vec::new())
    }

    /// Notes what a block that ended well has added to relaxed state.
    fn store_relaxed(&self, context: &mut Context<'_>, b: usize, board: &Board) {
        for (c, added) in context.take_relaxed() {
            board.put(c, self.plan.number(b), added);
        }
    }

    fn store_tallies(&self, context: &mut Context<'_>, b: usize, tallies: &Tallies) {
        for (c, tally) in context.take_tallies() {
            tallies.put(c, self.plan.number(b), tally);
        }
    }

    fn iterations(&self, b: usize) -> Iterations<'_> {
        let (block, first) = (self.plan.blocks[b], self.plan.range.start);
        if let Some(tiles) = &self.plan.tiles {
            Iterations::Runs { first, runs: tiles.of(b) }
        } else if self.plan.offsets.is_empty() {
            Iterations::Range { start: first + block.start, end: first + block.end }
        } else {
            Iterations::List { first, offsets: &self.plan.offsets[block.start..block.end] }
        }
    }

    /// What a thread holds while it runs block `b`: the captures, as far as the block owns them. `words`: what reductions hold that the
    /// block adds to in the loop's own order.
    fn context<'s>(
        &'s self,
        (b, words): (usize, Option<&[u64]>),
        board: &Board,
        before: &'s dyn Before,
    ) -> Result<Context<'s>, Missing> {
        let mut copies = self.copies(b, board)?;
        Ok(Context::new(|state| {
            let slot = |c: usize| match (
                self.slot_of_copies(c, (b, words), (&mut copies, self.tallies), state),
                self.lease.vector(c),
            ) {
                (Some(slot), _) => slot,
                (None, None) => Slot::absent(c, state),
                // SAFETY: rules 1 and 2.
                (None, Some(lent)) => unsafe {
                    Slot::of_elements(c, lent, Owned { before: Some(before), ..self.owned(b, c, lent) }, state)
                },
            };
            (0..self.captured().len()).map(slot).collect()
        }))
    }

    /// A block's copies of relaxed state, by capture.
    fn copies(&self, b: usize, board: &Board) -> Result<Vec<Option<Copies>>, Missing> {
        if board.is_empty() {
            return Ok(Vec::new());
        }
        (0..self.captured().len()).map(|c| board.copies(c, self.plan.number(b))).collect()
    }

    /// The slot of a reduction, of relaxed state or of a tally: what has no elements that others use.
    fn slot_of_copies<'s>(
        &self,
        c: usize,
        (b, words): (usize, Option<&[u64]>),
        (copies, tallies): (&mut [Option<Copies>], &Tallies),
        state: &Rc<BlockState>,
    ) -> Option<Slot<'s>> {
        match self.captured()[c].kind {
            Kind::Vector { ops, .. } => {
                let tally = tallies.take(c, self.plan.number(b))?;
                Some(Slot::of_tally((c, ops), tally, self.plan.range.end, state))
            }
            Kind::Reduction { .. } if self.plan.strategy == Strategy::Serial => {
                Some(Slot::of_reduction(c, self.before[c], false, state))
            }
            Kind::Reduction { ops, .. } if ops.ordered && words.is_some() => {
                words.map(|words| Slot::of_reduction(c, words[c], false, state))
            }
            Kind::Reduction { ops, .. } => {
                let one_by_one = ops.ordered && self.order == Order::Preserve;
                Some(Slot::of_reduction(c, (ops.neutral)(self.before[c]), one_by_one, state))
            }
            Kind::Relaxed { len, .. } => {
                Some(Slot::of_relaxed(c, len, copies.get_mut(c).and_then(Option::take), state))
            }
        }
    }

    fn captured(&self) -> &[Captured] {
        self.lease.captured()
    }

    /// What block `b` owns of capture `c`.
    fn owned<'s>(&'s self, b: usize, c: usize, lent: &'s Lent) -> Owned<'s> {
        let plan = self.plan;
        // Where a block may read (or write) everything, that includes the element of its iteration's own number.
        let number_is_index = plan.range.end <= lent.len();
        let alone = plan.is_alone(b);
        if (alone || plan.strategy == Strategy::Serial) && lent.is_writable() {
            let whole = ViewRange { lo: 0, len: lent.len(), wlen: lent.len() };
            if alone || is_logged(self.captured(), plan) {
                let doing = Doing::Logged { spans: vec![whole], saved: RefCell::default() };
                let range = ViewRange { wlen: 0, ..whole };
                return Owned { range, here: OwnElement::new(number_is_index, false), ..Owned::by(doing) };
            }
            let here = OwnElement::new(number_is_index, number_is_index);
            return Owned { range: whole, here, ..Owned::by(Doing::Spans(vec![whole])) };
        }
        let all = || Owned { here: OwnElement::new(number_is_index, false), ..Owned::all(lent) };
        match plan.usage[c] {
            _ if alone => all(),
            Usage::Shared | Usage::InStep { written: true, .. } if plan.tiles.is_some() => {
                self.owned_in_tile(b, c, lent)
            }
            Usage::InStep { offset, written } => self.owned_in_step(b, c, lent, offset, written),
            Usage::ReadOnly => all(),
            _ if !lent.is_writable() && self.apart().is_none_or(|_| plan.strategy == Strategy::Serial) => all(),
            Usage::Untouched | Usage::Reduction => Owned::by(Doing::Spans(Vec::new())),
            Usage::Shared if plan.strategy == Strategy::Coloured => self.listed(b, c),
            Usage::Shared => self.owned_parts(b, c, lent),
        }
    }

    /// What is at some distances from the iterations of each run.
    fn owned_in_tile<'s>(&'s self, b: usize, c: usize, lent: &Lent) -> Owned<'s> {
        let Some(tiles) = &self.plan.tiles else { return Owned::by(Doing::Spans(Vec::new())) };
        let own = matches!(self.plan.usage[c], Usage::InStep { offset: 0, .. });
        let runs = &tiles.runs[tiles.starts[b] as usize..tiles.starts[self.beside(b)] as usize];
        let capture = (c, lent.len(), tiles.numbering[c]);
        let tiling = Tiling::new(capture, self.plan.range.start, runs, &tiles.kinds);
        Owned { here: OwnElement::new(own, own), tracked: true, ..Owned::by(Doing::Tiled(tiling)) }
    }

    /// On a worker that holds no more than its blocks touch: see `apart`. One with blocks that may touch anything holds all.
    fn apart(&self) -> Option<&[bool]> {
        self.apart.filter(|_| !self.plan.has_alone())
    }

    /// Each iteration's own element. An access that is not written `x[i]`, or at a distance, is found by other means.
    fn owned_in_step<'s>(&'s self, b: usize, c: usize, lent: &'s Lent, offset: usize, written: bool) -> Owned<'s> {
        let (plan, block) = (self.plan, self.plan.blocks[b]);
        let here = OwnElement::new(offset == 0, offset == 0 && written);
        let listed = !plan.offsets.is_empty();
        let packed = self.packed.get(c).and_then(Option::as_ref).filter(|_| listed && !written);
        let packed = packed.map(|packed| (&packed.elements, block.start));
        let beside = Some(offset).filter(|_| listed && packed.is_none());
        match (written, self.apart(), packed) {
            (false, None, _) => Owned { here, packed, beside, ..Owned::all(lent) },
            (false, Some(by_index), Some((elements, start))) => {
                if !by_index.get(c).is_some_and(|&by_index| by_index) {
                    return Owned { here, packed, ..Owned::by(Doing::Spans(Vec::new())) };
                }
                let doing = Doing::Packed { offset, now: Cell::new(None), elements, start };
                Owned { here, packed, tracked: true, ..Owned::by(doing) }
            }
            _ if listed => {
                let in_step = InStep { distance: offset, written, range: plan.range.clone() };
                let first = plan.offsets.get(block.start).map_or(0, |&first| first as usize);
                let own = plan.range.start.wrapping_add(first).wrapping_add(offset);
                Owned { here, in_step: Some(in_step), beside, ..Owned::by(Doing::InStep { own }) }
            }
            _ => {
                let lo = plan.range.start.wrapping_add(offset).wrapping_add(block.start);
                let len = block.end - block.start;
                let range = ViewRange { lo, len, wlen: if written { len } else { 0 } };
                Owned { range, here, ..Owned::by(Doing::Spans(Vec::new())) }
            }
        }
    }

    /// The parts of a shared DDS that a block owns.
    fn owned_parts<'s>(&'s self, b: usize, c: usize, lent: &Lent) -> Owned<'s> {
        let spans = self.spans(b, c);
        let mut largest_first = spans.clone();
        largest_first.sort_by_key(|span| Reverse((span.wlen, span.len)));
        largest_first.resize(spans.len().max(1 + MORE), ViewRange::EMPTY);
        let (mut range, mut more) = (largest_first[0], std::array::from_fn(|k| largest_first[1 + k]));
        let owned: usize = spans.iter().map(|span| span.len).sum();
        let ahead = if owned * lent.ops().size >= WORTH_FETCHING { self.ahead(b, c) } else { Ahead::NOTHING };
        if self.plan.is_sparse(c) {
            range.wlen = 0;
            more.iter_mut().for_each(|range: &mut ViewRange| range.wlen = 0);
            return Owned { range, more, ahead, ..Owned::by(Doing::Logged { spans, saved: RefCell::default() }) };
        }
        Owned { range, more, ahead, ..Owned::by(Doing::Spans(spans)) }
    }

    /// Where the indices of the elements of capture `c` stand that later iterations of block `b` will touch.
    fn ahead(&self, b: usize, c: usize) -> Ahead<'_> {
        let Some(fields) = &self.plan.fields[c] else { return Ahead::NOTHING };
        let Some(packed) = self.packed.get(fields.capture).and_then(Option::as_ref) else { return Ahead::NOTHING };
        let block = self.plan.blocks[b];
        Ahead::new(&packed.elements, block.start, block.end, &fields.bytes)
    }

    /// The ranges of a shared DDS that a block owns, neighbours joined.
    fn spans(&self, b: usize, c: usize) -> Vec<ViewRange> {
        let Some(parts) = &self.plan.parts else { return Vec::new() };
        let mut spans: Vec<ViewRange> = Vec::new();
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
                _ => spans.push(ViewRange { lo, len: hi - lo, wlen: if touch.write { hi - lo } else { 0 } }),
            }
        }
        spans
    }

    /// Of a coloured plan, the elements of every single iteration.
    fn listed(&self, b: usize, c: usize) -> Owned<'_> {
        let place = self.plan.shared.iter().position(|&shared| shared == c);
        let Some(listed) = place.and_then(|place| self.plan.listed.get(place)) else {
            return Owned::by(Doing::Spans(Vec::new()));
        };
        let block = self.plan.blocks[b];
        let listing = Listing {
            entries: &listed.entries,
            ends: &listed.ends[block.start..block.end],
            start: block.start.checked_sub(1).map_or(0, |last| listed.ends[last]),
        };
        Owned { tracked: true, ..Owned::by(Doing::Listed(listing, Listed::default())) }
    }

    /// What the reductions come to.
    pub(crate) fn unite(&self, results: impl Iterator<Item = BlockResult>) -> Vec<u64> {
        unite(self.plan, self.captured(), self.order, &self.before, results)
    }

    /// Runs the blocks one after the other in the claimed serial order on other memory: the oracle of `verify`. Views own
    /// all of it.
    pub(crate) fn replay(&self, memory: &Lease<'_>) -> Result<Replayed, (Option<usize>, Failure)> {
        let mut results = Vec::new();
        let board = self.board.fresh();
        let tallies = self.tallies.to_replay();
        for b in 0..self.plan.blocks.len() {
            let mut copies = self.copies(b, &board).map_err(|Missing| (None, Failure::Stopped))?;
            let mut context = Context::new(|state| {
                let slot = |c: usize| match (
                    self.slot_of_copies(c, (b, None), (&mut copies, &tallies), state),
                    memory.vector(c),
                ) {
                    (Some(slot), _) => slot,
                    (None, None) => Slot::absent(c, state),
                    (None, Some(lent)) => {
                        let mut owned = Owned::all(lent);
                        owned.range.wlen = if lent.is_writable() { lent.len() } else { 0 };
                        // SAFETY: nothing else runs; what may be written are copies that are this replay's alone.
                        unsafe { Slot::of_elements(c, lent, owned, state) }
                    }
                };
                (0..self.captured().len()).map(slot).collect()
            });
            // SAFETY: the context was made for this block of the task's own captures.
            unsafe { self.task.run(&context, self.iterations(b))? };
            self.store_relaxed(&mut context, b, &board);
            self.store_tallies(&mut context, b, &tallies);
            results.push(BlockResult::of(&context));
        }
        tallies.unite(memory, &Inline).map_err(|note| (None, Failure::Panic(note)))?;
        Ok(Replayed { words: self.unite(results.into_iter()), relaxed: board.total() })
    }
}

/// How a block ended.
type BlockEnd = Result<(), (Option<usize>, Failure)>;

/// Elements before the loop, for blocks that stray.
struct BeforeLoop<'b> {
    run: &'b Run<'b>,
    undo: &'b Undo,
}

impl Before for BeforeLoop<'_> {
    fn copy(&self, capture: usize, index: usize) -> Option<RawBuf> {
        let Run { plan, lease, apart, .. } = self.run;
        panics::caught(|| self.undo.before(plan, lease, apart.is_some(), (capture, index))).ok().flatten()
    }
}
