//! What the elements held before the loop, so that a loop that fails leaves no trace.
//!
//! Each part is saved by the first block, in the part's own order, that writes it: at that moment it still holds
//! what it held before the loop, and it is about to be needed in the cache anyway.
//!
//! # Why this is sound
//! `save` is called by the thread that runs that block, which owns the part; `restore` when all threads of the
//! loop have ended.
#![allow(unsafe_code)]

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::body::capture::{Captured, Kind};
use crate::body::lease::{Lease, Lent};
use crate::body::panics::{self, CaughtPanic};
use crate::memory::buffer::RawBuf;
use crate::memory::spare::Spare;
use crate::planner::plan::{Block, Listed, Plan};
use crate::planner::recording::Usage;
use crate::session::locked;
use crate::session::options::Strategy;

/// Fewer than one in this many elements are saved one by one.
const WORTH_LISTING: usize = 8;

/// Which elements are saved together.
#[derive(Debug, Clone)]
enum Extent {
    Range {
        lo: usize,
        len: usize,
    },
    List(Vec<u32>),
    /// One for each iteration of a block, at a distance from it.
    Steps {
        block: Block,
        first: usize,
    },
}

struct Saved {
    capture: usize,
    extent: Extent,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    copy: Option<RawBuf>,
    filled: bool,
    /// Where the copy's memory goes when the loop has ended, and for how many elements there may be room; none where elements
    /// are dropped, whose copies stay with the plan.
    lent_by: Option<(Arc<Spare>, usize)>,
}

impl Held {
    fn copy_of(&mut self, lent: &Lent, len: usize) -> &mut RawBuf {
        let Held { copy, lent_by, .. } = self;
        copy.get_or_insert_with(|| {
            if lent.ops().needs_drop {
                return RawBuf::new(lent.ops(), len);
            }
            *lent_by = Some((Arc::clone(lent.spare()), 2 * lent.len()));
            lent.spare().take(lent.ops(), len)
        })
    }
}

/// What is kept of a plan's undoing from call to call: which elements are saved when, and copies of those that have to be dropped.
pub(crate) struct Undo {
    saved: Vec<Saved>,
    /// Which of them each block fills.
    starts: Vec<u32>,
    by_block: Vec<u32>,
    /// Those that are filled before the first block.
    upfront: Vec<u32>,
    /// For each capture, which other one holds its elements as they were before the loop: nothing else of it is saved.
    copies: Vec<Option<usize>>,
    /// For each capture, whether others have its elements as they were before the loop: none of it is saved.
    elsewhere: Vec<AtomicBool>,
    /// Whether nothing is saved at all.
    unsaved: bool,
}

/// What other workers do with a plan's parts, by the parts' numbers; in one process nothing.
#[derive(Default)]
pub(crate) struct OtherWorkers<'s> {
    /// Whether another worker is the first to write a part: it saves it.
    pub(crate) saved: &'s [bool],
    /// Parts that come from another worker, with all that was changed there.
    pub(crate) arrives: BTreeSet<usize>,
    /// Of a spread plan: the written elements of each shared capture that this worker has before the loop.
    pub(crate) owned: Option<Vec<&'s [u32]>>,
}

impl Undo {
    /// Buffers for a plan.
    pub(crate) fn new(plan: &Plan, captured: &[Captured], others: &OtherWorkers<'_>) -> Undo {
        let mut saved = Vec::new();
        let mut upfront = Vec::new();
        let copies: Vec<Option<usize>> = captured.iter().map(|capture| copy_of(captured, capture)).collect();
        let mut store = |capture: usize, extent: Extent| {
            if copies[capture].is_some() {
                return None;
            }
            saved.push(Saved { capture, extent, held: Mutex::default() });
            Some(saved.len() as u32 - 1)
        };
        for (c, extent) in upfront_extents(plan, captured, others) {
            upfront.extend(store(c, extent));
        }
        let mut part_saved = others.saved.to_vec();
        part_saved.resize(plan.parts.as_ref().map_or(0, crate::planner::plan::Parts::resources), false);
        let mut starts = vec![0];
        let mut by_block = Vec::new();
        for (b, &block) in plan.blocks.iter().enumerate() {
            for touch in plan.touches(b).iter().filter(|touch| touch.write) {
                let Some(parts) = &plan.parts else { continue };
                if !std::mem::replace(&mut part_saved[touch.resource as usize], true) {
                    let (slot, part) = parts.part_of(touch.resource);
                    let (lo, hi) = (parts.cuts[slot].bounds[part], parts.cuts[slot].bounds[part + 1]);
                    // Of sparse parts blocks save the single elements that they change; but not what comes back changed.
                    if !plan.is_sparse(plan.shared[slot]) || others.arrives.contains(&(touch.resource as usize)) {
                        by_block.extend(store(plan.shared[slot], Extent::Range { lo, len: hi - lo }));
                    }
                }
            }
            for c in 0..plan.usage.len() {
                let Some(by) = written_at(plan, c) else { continue };
                let first = plan.range.start.wrapping_add_signed(by);
                let range = |from: usize, to: usize| Extent::Range { lo: first.wrapping_add(from), len: to - from };
                let extent = match &plan.tiles {
                    // All of its tiles wait for the first of a band.
                    Some(tiles) => {
                        let band = Some(tiles.band_of(b)).filter(|band| band.blocks.start == b);
                        band.map(|band| tiles.numbers(c, plan.range.start, band)).map(|at| range(at.start, at.end))
                    }
                    None if plan.offsets.is_empty() => Some(range(block.start, block.end)),
                    None => Some(Extent::Steps { block, first }),
                };
                by_block.extend(extent.and_then(|extent| store(c, extent)));
            }
            starts.push(by_block.len() as u32);
        }
        let elsewhere = captured.iter().map(|_| AtomicBool::new(false)).collect();
        Undo { saved, starts, by_block, upfront, copies, elsewhere, unsaved: false }
    }

    /// Of a loop that leaves what it wrote when it fails.
    pub(crate) fn nothing(plan: &Plan) -> Undo {
        let starts = vec![0; plan.blocks.len() + 1];
        let (saved, by_block, upfront, copies, elsewhere) = Default::default();
        Undo { saved, starts, by_block, upfront, copies, elsewhere, unsaved: true }
    }

    /// Lets the next run save nothing of these captures.
    pub(crate) fn leave_out(&self, captures: &[usize]) {
        for (c, elsewhere) in self.elsewhere.iter().enumerate() {
            elsewhere.store(captures.contains(&c), Relaxed);
        }
    }

    /// Saves what every block may change.
    pub(crate) fn save_upfront(&self, plan: &Plan, lease: &Lease<'_>) {
        self.upfront.iter().for_each(|&k| self.fill(k, plan, lease));
    }

    /// Saves what this block is the first to write.
    pub(crate) fn save_for(&self, b: usize, plan: &Plan, lease: &Lease<'_>) {
        let range = self.starts[b] as usize..self.starts[b + 1] as usize;
        self.by_block[range].iter().for_each(|&k| self.fill(k, plan, lease));
    }

    fn fill(&self, k: u32, plan: &Plan, lease: &Lease<'_>) {
        let saved = &self.saved[k as usize];
        let is_elsewhere = self.elsewhere.get(saved.capture).is_some_and(|elsewhere| elsewhere.load(Relaxed));
        let Some(lent) = lease.vector(saved.capture).filter(|_| !is_elsewhere) else { return };
        let mut held = locked(&saved.held);
        let copy = held.copy_of(lent, saved.extent.len());
        // Of the call before.
        let kept = copy.ops().keeps_room && copy.len() == saved.extent.of(plan, saved.capture).len();
        if !kept {
            copy.clear();
        }
        let mut at = 0;
        // SAFETY: the block that saves owns these elements now, or no block runs yet.
        saved.extent.of(plan, saved.capture).each_run(plan, |lo, len| unsafe {
            assert!(len <= lent.len() && lo <= lent.len() - len);
            match kept {
                true => copy.clone_into(at, lent.at(lo), len),
                false => copy.push_clones(lent.at(lo), len),
            }
            at += len;
        });
        held.filled = true;
    }

    /// A copy of an element as it was before the loop, which runs. None where that can't be had without a race: where elements
    /// are saved one by one, and on a worker (`apart`) that may not hold the element.
    pub(crate) fn before(
        &self,
        plan: &Plan,
        lease: &Lease<'_>,
        apart: bool,
        (capture, index): (usize, usize),
    ) -> Option<RawBuf> {
        let lent = lease.vector(capture).filter(|lent| index < lent.len())?;
        let mut copy = RawBuf::new(lent.ops(), 1);
        if let Some(all) = self.copy(lease, capture) {
            // SAFETY: it has as many elements, and nobody writes them.
            unsafe { copy.push_clones(all.at(index), 1) };
            return Some(copy);
        }
        for saved in self.saved.iter().filter(|saved| saved.capture == capture) {
            let Some(place) = saved.extent.of(plan, capture).place(index)? else { continue };
            let held = locked(&saved.held);
            let from = match held.copy.as_ref() {
                Some(all) if held.filled && place < all.len() => all.as_ptr().wrapping_add(place * lent.ops().size),
                _ if apart || held.filled => return None,
                _ => lent.at(index).cast_const(),
            };
            // SAFETY: the copy has as many elements; and who writes the element itself saves it first, under this lock.
            unsafe { copy.push_clones(from, 1) };
            return Some(copy);
        }
        let logged = plan.is_sparse(capture) && plan.strategy != Strategy::Coloured;
        if self.unsaved || apart || logged || plan.strategy == Strategy::Serial {
            return None;
        }
        // SAFETY: nobody writes it: by the plan all that is written is saved, and blocks that stray write copies.
        unsafe { copy.push_clones(lent.at(index), 1) };
        Some(copy)
    }

    /// Puts back what a block saved as the first to write it, and leaves what the loop made of it to `commit`. All threads of the loop
    /// have ended, and what later blocks saved is back.
    pub(crate) fn restore_of(&self, b: usize, plan: &Plan, lease: &Lease<'_>) {
        let range = self.starts[b] as usize..self.starts[b + 1] as usize;
        self.put_back(&self.by_block[range], plan, lease);
    }

    /// The same of what was saved before the first block, or is in copies that the loop reads.
    pub(crate) fn restore_upfront(&self, plan: &Plan, lease: &Lease<'_>) {
        self.put_back(&self.upfront, plan, lease);
        for capture in 0..self.copies.len() {
            if let (Some(lent), Some(copy)) = (lease.vector(capture), self.copy(lease, capture)) {
                // SAFETY: both are plain elements of one type, as many, of different DDSs; nobody else runs.
                unsafe { std::ptr::copy_nonoverlapping(copy.base(), lent.base(), lent.len() * lent.ops().size) };
            }
        }
    }

    /// The capture that holds the elements of another one as they were before the loop.
    fn copy<'l>(&self, lease: &'l Lease<'_>, capture: usize) -> Option<&'l Lent> {
        let (lent, copy) = (lease.vector(capture)?, lease.vector((*self.copies.get(capture)?)?)?);
        assert!(lent.len() == copy.len() && copy.ops().is(lent.ops()) && lent.ops().plain, "a copy of other elements");
        Some(copy)
    }

    fn put_back(&self, saved: &[u32], plan: &Plan, lease: &Lease<'_>) {
        for saved in saved.iter().map(|&k| &self.saved[k as usize]) {
            let mut held = locked(&saved.held);
            let Held { copy, filled, .. } = &mut *held;
            let (Some(lent), Some(copy)) = (lease.vector(saved.capture), copy.as_mut()) else { continue };
            if std::mem::take(filled) {
                let extent = saved.extent.of(plan, saved.capture);
                assert!(copy.len() == extent.len());
                let size = lent.ops().size;
                let mut from = copy.as_mut_ptr();
                extent.each_run(plan, |lo, len| {
                    assert!(len <= lent.len() && lo <= lent.len() - len);
                    // SAFETY: both ranges hold `len` elements, apart from each other; nobody else runs. What the
                    // loop made of them goes to the copy.
                    unsafe {
                        std::ptr::swap_nonoverlapping(from, lent.at(lo), len * size);
                        from = from.add(len * size);
                    }
                });
            }
        }
    }

    /// Drops what the copies hold, unless it is nothing but memory that the next call can use; says what the first destructor
    /// that panicked said.
    pub(crate) fn commit(&self) -> Result<(), CaughtPanic> {
        let mut ended = Ok(());
        for saved in &self.saved {
            let mut held = locked(&saved.held);
            held.filled = false;
            if let Some((spare, most)) = held.lent_by.take() {
                held.copy.take().into_iter().for_each(|copy| spare.give(copy, most));
            }
            if let Some(copy) = held.copy.as_mut().filter(|copy| copy.len() > 0 && !copy.ops().keeps_room) {
                ended = ended.and(panics::caught(|| copy.clear()));
            }
        }
        ended
    }
}

impl Extent {
    /// What is saved of it where a part of the plan's range runs: what iterations that don't run would write, nobody writes.
    fn of(&self, plan: &Plan, capture: usize) -> Cow<'_, Extent> {
        match (self, plan.window(capture)) {
            (&Extent::Range { lo, len }, Some(window)) => {
                let (first, end) = (lo.max(window.start), (lo + len).min(window.end));
                Cow::Owned(Extent::Range { lo: first, len: end.saturating_sub(first) })
            }
            _ => Cow::Borrowed(self),
        }
    }

    /// Where an element stands in it, if it does. None at all where that takes long to find out.
    fn place(&self, index: usize) -> Option<Option<usize>> {
        match self {
            Extent::Range { lo, len } => Some(index.checked_sub(*lo).filter(|place| place < len)),
            Extent::List(list) => Some(list.binary_search(&u32::try_from(index).ok()?).ok()),
            Extent::Steps { .. } => None,
        }
    }

    fn len(&self) -> usize {
        match self {
            Extent::Range { len, .. } => *len,
            Extent::List(list) => list.len(),
            Extent::Steps { block, .. } => block.end - block.start,
        }
    }

    fn each_run(&self, plan: &Plan, mut f: impl FnMut(usize, usize)) {
        match self {
            Extent::Range { lo, len } => f(*lo, *len),
            Extent::List(list) => list.iter().for_each(|&i| f(i as usize, 1)),
            Extent::Steps { block, first } => plan.offsets[block.start..block.end]
                .iter()
                .for_each(|&offset| f(first.wrapping_add(offset as usize), 1)),
        }
    }
}

/// What is saved before the first block, by capture.
fn upfront_extents(plan: &Plan, captured: &[Captured], others: &OtherWorkers<'_>) -> Vec<(usize, Extent)> {
    let whole = |c: usize| match captured[c].kind {
        Kind::Vector { len, writable: true, .. } => Some((c, Extent::Range { lo: 0, len })),
        _ => None,
    };
    match plan.strategy {
        Strategy::Coloured => {
            // A worker without blocks has no lists, and saves nothing.
            let listed = |(slot, (&c, listed)): (usize, (&usize, &Listed))| {
                let listed = match &others.owned {
                    Some(owned) => owned.get(slot).map(|owned| owned_extent(owned, &captured[c])),
                    None => plan.is_sparse(c).then(|| Extent::List(listed.written())),
                };
                listed.map(|extent| (c, extent)).or_else(|| whole(c))
            };
            plan.shared.iter().zip(&plan.listed).enumerate().filter_map(listed).collect()
        }
        Strategy::Aligned | Strategy::Grid => Vec::new(),
        Strategy::Tiled => {
            plan.shared.iter().filter_map(|&c| whole(c).filter(|_| written_at(plan, c).is_none())).collect()
        }
        // Serial.
        _ if is_logged(captured, plan) => Vec::new(),
        _ => (0..captured.len()).filter_map(whole).collect(),
    }
}

/// Which capture holds the elements of this one as they were before the loop, if it writes plain elements. Copies of others stay
/// what they are when the loop is undone, since nothing of them may be dropped twice.
fn copy_of(captured: &[Captured], capture: &Captured) -> Option<usize> {
    match capture.kind {
        Kind::Vector { writable: true, ops, .. } if ops.plain => captured.iter().position(|copy| {
            copy.copy_of == Some(capture.id) && matches!(copy.kind, Kind::Vector { writable: false, .. })
        }),
        _ => None,
    }
}

/// What a worker saves of a spread plan. Plain elements between those that it owns are saved with them: nobody needs what a worker
/// has of elements that are others'.
fn owned_extent(owned: &[u32], capture: &Captured) -> Extent {
    match (&capture.kind, owned.first(), owned.last()) {
        (Kind::Vector { ops, .. }, Some(&first), Some(&last)) if ops.plain => {
            let all = (last - first) as usize + 1;
            if all / WORTH_LISTING <= owned.len() {
                return Extent::Range { lo: first as usize, len: all };
            }
        }
        _ => {}
    }
    Extent::List(owned.to_vec())
}

/// The one distance from each iteration at which it writes a capture that is saved block by block, if there is one.
fn written_at(plan: &Plan, c: usize) -> Option<isize> {
    match (&plan.tiles, plan.usage[c]) {
        (Some(tiles), _) => tiles.written_at[c],
        (None, Usage::InStep { offset, written: true }) => Some(offset as isize),
        (None, _) => None,
    }
}

/// Whether a serial loop saves element by element: it makes few accesses, and what it may write is long.
pub(crate) fn is_logged(captured: &[Captured], plan: &Plan) -> bool {
    let writable: usize = captured
        .iter()
        .map(|capture| match capture.kind {
            Kind::Vector { len, writable: true, .. } => len,
            _ => 0,
        })
        .sum();
    writable > 4096 + 8 * plan.range.len().max(plan.facts.accesses)
}
