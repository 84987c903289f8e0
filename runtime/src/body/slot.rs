//! From what a view is made: what one block owns of one capture.
//!
//! # Why this is sound
//! The fields are private to this module. A slot of elements is made by [`Slot::of_elements`] alone, and one of rows that
//! threads share by [`Slot::of_rows`]; both are `unsafe`, and their obligations are all that views rely on:
//!
//! 1. The elements stay lent as long as the slot lives (it borrows the lease), and ranges are within them (asserted here).
//! 2. What the slot owns for reading, nobody writes as long as the slot lives; what it owns for writing, nobody else
//!    touches. [`Doing`] says what is owned beyond the range.
//! 3. Relaxed state and tallies are in the slot itself.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;
use std::ops::Range;
use std::ptr::null_mut;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use crate::body::added::RelaxedOps;
use crate::body::astray::Before;
use crate::body::context::BlockState;
use crate::body::lease::Lent;
use crate::body::new_entries::NewEntries;
use crate::body::slow_path::{Doing, MORE, SlowPath, ViewRange};
use crate::kernels::fetch_bytes;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::pages::Tally;

/// From what a view is made.
#[doc(hidden)]
pub struct Slot<'t> {
    /// The range that is reached with one comparison, and where its first element lies.
    ptr: *mut u8,
    range: ViewRange,
    here: OwnElement,
    /// What `here` counts from; for listed accesses the first element.
    base: *mut u8,
    /// How many numbers a row has; of other elements 1.
    width: usize,
    /// What each iteration owns beside it.
    in_step: Option<InStep>,
    /// Whether the slow path must know which iteration runs.
    tracked: bool,
    ahead: Ahead<'t>,
    /// Where the element would lie that iteration 0 has in step, and the size of one.
    beside: Option<(*const u8, usize)>,
    slow_path: SlowPath<'t>,
    rows: Option<Rows<'t>>,
    relaxed: Option<Copies>,
    /// A tally of the block's own.
    tally: Option<RawBuf>,
    /// What a reduction starts from, and what it came to.
    total: Cell<u64>,
    /// Every single addition with its iteration, where the order of additions must be the loop's own.
    additions: Option<RefCell<Vec<(usize, u64)>>>,
    /// What minibatches have added to a map, while none of them runs.
    new_entries: Cell<Option<NewEntries>>,
}

/// A block's own copies of relaxed state. An addition changes one of them: where sums are exact, `now`, of which the rest
/// follows; else `added`, and `now` has what was read of it.
pub(crate) struct Copies {
    ops: &'static RelaxedOps,
    pub(crate) start: Arc<RawBuf>,
    pub(crate) now: RawBuf,
    pub(crate) added: Option<RawBuf>,
}

impl Copies {
    /// Of a block that starts from these values.
    pub(crate) fn new(ops: &'static RelaxedOps, start: Arc<RawBuf>) -> Copies {
        let added = ops.subtract.is_none().then(|| (ops.zeros)(start.len()));
        Copies { ops, now: start.copy(), added, start }
    }

    fn len(&self) -> usize {
        self.start.len()
    }

    fn into_added(self) -> RawBuf {
        let Copies { ops, start, mut now, added } = self;
        added.unwrap_or_else(|| {
            if let Some(subtract) = ops.subtract {
                subtract(&mut now, &start);
            }
            now
        })
    }
}

/// What a block owns of a DVector.
pub(crate) struct Owned<'t> {
    /// What is reached with one comparison.
    pub(crate) range: ViewRange,
    /// What is reached with some more.
    pub(crate) more: [ViewRange; MORE],
    /// What iteration `i` may do with element `i` without a comparison.
    pub(crate) here: OwnElement,
    /// The block's elements in the order of execution, from this one on, instead of by the iteration's number.
    pub(crate) packed: Option<(&'t RawBuf, usize)>,
    /// Of each iteration the element at a distance from its number, in place of a range.
    pub(crate) in_step: Option<InStep>,
    /// Whether the slow path must know which iteration runs.
    pub(crate) tracked: bool,
    pub(crate) ahead: Ahead<'t>,
    /// Iterations touch the element at this distance from their number.
    pub(crate) beside: Option<usize>,
    /// What the block goes on with where it strays; without it the iteration ends.
    pub(crate) before: Option<&'t dyn Before>,
    /// What is owned besides.
    pub(crate) doing: Doing<'t>,
}

impl<'t> Owned<'t> {
    /// No range: the slow path knows.
    pub(crate) fn by(doing: Doing<'t>) -> Self {
        Owned {
            range: ViewRange::EMPTY,
            more: [ViewRange::EMPTY; MORE],
            here: OwnElement::default(),
            packed: None,
            in_step: None,
            tracked: false,
            ahead: Ahead::NOTHING,
            beside: None,
            before: None,
            doing,
        }
    }

    /// All elements, to be read.
    pub(crate) fn all(lent: &Lent) -> Self {
        Owned { range: ViewRange { lo: 0, len: lent.len(), wlen: 0 }, ..Owned::by(Doing::ReadOnly) }
    }
}

/// What may be done with the running iteration's own element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnElement {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// It lies in the order of execution, rather than by the number of the iteration.
    packed: bool,
}

impl OwnElement {
    pub(crate) fn new(read: bool, write: bool) -> OwnElement {
        OwnElement { read, write, packed: false }
    }

    #[inline(always)]
    pub(crate) fn is_packed(self) -> bool {
        self.packed
    }
}

/// Each iteration owns the element at a distance from its number, of a loop over this range.
#[derive(Clone, Debug)]
pub(crate) struct InStep {
    pub(crate) distance: usize,
    pub(crate) written: bool,
    pub(crate) range: Range<usize>,
}

impl InStep {
    /// Whether every iteration's element is one of that many.
    fn is_within(&self, len: usize) -> bool {
        let Range { start, end } = self.range;
        let (lo, n) = (start.wrapping_add(self.distance), end.saturating_sub(start));
        n == 0 || (n <= len && lo <= len - n)
    }
}

/// Indices in elements laid out in the order of execution, of iterations to come.
#[derive(Clone, Copy)]
pub(crate) struct Ahead<'t> {
    /// The element ahead of the block's first iteration.
    at: *const u8,
    stride: usize,
    iterations: usize,
    /// Where in an element an index stands, and where others do.
    first: usize,
    others: &'t [usize],
    elements: PhantomData<&'t RawBuf>,
}

/// How many iterations ahead elements are fetched.
const AHEAD: usize = 12;

impl<'t> Ahead<'t> {
    pub(crate) const NOTHING: Ahead<'static> =
        Ahead { at: std::ptr::null(), stride: 0, iterations: 0, first: 0, others: &[], elements: PhantomData };

    /// Indices of 4 bytes stand at these places of each of the elements `start..end`, one for each iteration of a block.
    pub(crate) fn new(elements: &'t RawBuf, start: usize, end: usize, places: &'t [usize]) -> Ahead<'t> {
        let stride = elements.ops().size;
        let [first, others @ ..] = places else { return Ahead::NOTHING };
        let outside = |&place: &usize| place.saturating_add(4) > stride;
        if places.iter().any(outside) || end > elements.len() || !elements.ops().plain || start + AHEAD >= end {
            return Ahead::NOTHING;
        }
        Ahead {
            at: elements.as_ptr().wrapping_add((start + AHEAD) * stride),
            stride,
            iterations: end - start - AHEAD,
            first: *first,
            others,
            elements: PhantomData,
        }
    }

    #[inline(always)]
    pub(crate) fn is_nothing(&self) -> bool {
        self.iterations == 0
    }

    /// Calls `f` with the indices that stand ahead of the block's `j`-th iteration. Mostly that is one: a loop over all of them would take
    /// as long as what it is for.
    #[inline(always)]
    pub(crate) fn each_index(&self, j: usize, f: impl Fn(u32) + Copy) {
        if j >= self.iterations {
            return;
        }
        let element = self.at.wrapping_add(j * self.stride);
        // SAFETY: `new` saw to it that this many elements are there, and that the indices are within each of them.
        let index = move |place: usize| unsafe { element.add(place).cast::<u32>().read_unaligned() };
        f(index(self.first));
        if !self.others.is_empty() {
            each(self.others, move |place| f(index(place)));
        }
    }
}

/// Apart, so that no loop stands where there is nothing to be done.
#[inline(never)]
fn each(places: &[usize], f: impl Fn(usize)) {
    places.iter().for_each(|&place| f(place));
}

/// Rows that threads share: where they lie, and which of them may be reached at once.
pub(crate) struct Rows<'t> {
    pub(crate) base: *mut u8,
    pub(crate) len: usize,
    /// How many numbers a row of a DMatrix has; 1 of others.
    pub(crate) width: usize,
    /// Row `i` is there if the stamp at `(i >> shift) & mask` is `now`; without stamps all are.
    pub(crate) stamps: &'t [AtomicU32],
    pub(crate) shift: u32,
    pub(crate) mask: usize,
    pub(crate) now: u32,
    /// The thread's own copies of some rows: a stamp that is not `now` may be 1 more than a copy's place among them.
    pub(crate) copies: HotCopies<'t>,
    pub(crate) path: Box<dyn RowPath + 't>,
}

/// One thread's own copies of the rows that it would contend for.
#[derive(Clone, Copy)]
pub(crate) struct HotCopies<'t> {
    pub(crate) base: *mut u8,
    /// Bytes from one to the next.
    pub(crate) stride: usize,
    pub(crate) copies: &'t [HotCopy],
}

impl HotCopies<'_> {
    pub(crate) const NONE: HotCopies<'static> = HotCopies { base: null_mut(), stride: 0, copies: &[] };
}

pub(crate) struct HotCopy {
    /// Of which row it is.
    pub(crate) row: u32,
    /// How often it may be used before the path is asked again.
    pub(crate) left: Cell<u32>,
}

impl HotCopy {
    /// Takes one use.
    #[inline(always)]
    pub(crate) fn take(&self, i: usize) -> bool {
        let left = self.left.get();
        let may = self.row as usize == i && left > 0;
        if may {
            self.left.set(left - 1);
        }
        may
    }
}

/// The way to a row that can't be reached at once.
pub(crate) trait RowPath {
    /// Where row `i` lies, which is below the length, or no return.
    fn reach(&self, i: usize) -> *mut u8;
    /// Ends the iteration, since row `i` is not below the length.
    fn no_such_row(&self, i: usize) -> !;
    /// The rows that were brought since the last time, in that order: the first of each run, and how many.
    fn take_touched(&self) -> Vec<(u32, u32)>;
}

impl<'t> Slot<'t> {
    /// Owns nothing.
    fn new(slow_path: SlowPath<'t>) -> Self {
        Slot {
            ptr: null_mut(),
            range: ViewRange::EMPTY,
            here: OwnElement::default(),
            base: null_mut(),
            width: 1,
            in_step: None,
            tracked: false,
            ahead: Ahead::NOTHING,
            beside: None,
            slow_path,
            rows: None,
            relaxed: None,
            tally: None,
            total: Cell::new(0),
            additions: None,
            new_entries: Cell::new(None),
        }
    }

    /// Elements that are not here.
    pub(crate) fn absent(capture: usize, state: &Rc<BlockState>) -> Self {
        Slot::new(SlowPath::without_elements(capture, 0, state))
    }

    /// A reduction that starts from `total`; `one_by_one` if each addition is to be kept.
    pub(crate) fn of_reduction(capture: usize, total: u64, one_by_one: bool, state: &Rc<BlockState>) -> Self {
        Slot {
            total: Cell::new(total),
            additions: one_by_one.then(RefCell::default),
            ..Slot::new(SlowPath::without_elements(capture, 0, state))
        }
    }

    /// Relaxed state of this many numbers. None: it is not to be used.
    pub(crate) fn of_relaxed(capture: usize, len: usize, copies: Option<Copies>, state: &Rc<BlockState>) -> Self {
        let copies = copies.filter(|copies| copies.len() == len);
        Slot { relaxed: copies, ..Slot::new(SlowPath::without_elements(capture, len, state)) }
    }

    /// A tally for a loop over iterations below `end`: views reach all of it, and it is the slot's own. Its elements are of the
    /// capture's type, which these operations are of.
    pub(crate) fn of_tally(
        (capture, ops): (usize, &ElementOps),
        tally: Tally,
        end: usize,
        state: &Rc<BlockState>,
    ) -> Self {
        let tally = match tally {
            Tally::Whole(tally) => tally,
            Tally::Pages(pages) => {
                assert!((pages.ops().element)().is(ops), "a tally of other elements");
                return Slot { width: ops.width(), ..Slot::new(SlowPath::of_pages(capture, pages, state)) };
            }
        };
        assert!(tally.ops().is(ops), "a tally of other elements");
        let (len, base) = (tally.len(), tally.base());
        Slot {
            ptr: base,
            range: ViewRange { lo: 0, len, wlen: len },
            here: OwnElement::new(end <= len, end <= len),
            base,
            width: ops.width(),
            tally: Some(tally),
            ..Slot::new(SlowPath::without_elements(capture, len, state))
        }
    }

    /// # Safety
    /// Rule 2 holds for what is owned, as long as the slot lives. Where `owned.here` says so, the number of each iteration
    /// that runs is that of an element (or the place of a packed one) which the block owns in that way. With `owned.in_step`
    /// each iteration that runs is of its range, and the block owns what lies beside it in that way.
    pub(crate) unsafe fn of_elements(capture: usize, lent: &'t Lent, owned: Owned<'t>, state: &Rc<BlockState>) -> Self {
        let Owned { range, more, mut here, packed, in_step, tracked, ahead, beside, before, doing } = owned;
        let is_within = |range: &ViewRange| {
            range.len <= lent.len() && range.wlen <= range.len && range.lo <= lent.len() - range.len
        };
        assert!(is_within(&range) && more.iter().all(is_within));
        assert!(in_step.as_ref().is_none_or(|beside| beside.is_within(lent.len())));
        // (They are found from the first element on.)
        assert!(packed.is_none() || more.iter().all(|range| range.len == 0));
        here.packed = packed.is_some();
        let base = match packed {
            Some((elements, start)) => elements.base().wrapping_add(start * lent.ops().size),
            None => lent.base(),
        };
        let size = lent.ops().size;
        let beside = beside.map(|by| (lent.base().cast_const().wrapping_add(by.wrapping_mul(size)), size));
        let slow_path = SlowPath::new((capture, lent), doing, more, before, state);
        let (ptr, width) = (lent.at(range.lo), lent.ops().width());
        Slot { ptr, range, here, base, width, in_step, tracked, ahead, beside, ..Slot::new(slow_path) }
    }

    /// Rows that threads share.
    ///
    /// # Safety
    /// `base` is the address of `len` plain elements, of that width, that live and stay there as long as the slot, that all threads reach
    /// through [`Shared`](crate::Shared) alone, and of which those hold a value whose stamp says so. `path` gives addresses
    /// of such elements alone, and `copies` are such elements, of rows below `len`. `mask` keeps every index below `len` within the stamps.
    pub(crate) unsafe fn of_rows(capture: usize, rows: Rows<'t>, state: &Rc<BlockState>) -> Self {
        let stamps = rows.stamps.len();
        assert!(stamps == 0 || rows.mask < stamps || rows.len.div_ceil(1 << rows.shift) <= stamps);
        Slot { width: rows.width, rows: Some(rows), ..Slot::new(SlowPath::without_elements(capture, 0, state)) }
    }

    #[inline(always)]
    pub(crate) fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    #[inline(always)]
    pub(crate) fn range(&self) -> ViewRange {
        self.range
    }

    #[inline(always)]
    pub(crate) fn here(&self) -> OwnElement {
        self.here
    }

    #[inline(always)]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base
    }

    #[inline(always)]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    pub(crate) fn in_step(&self) -> Option<&InStep> {
        self.in_step.as_ref()
    }

    #[inline(always)]
    pub(crate) fn is_tracked(&self) -> bool {
        self.tracked
    }

    #[inline(always)]
    pub(crate) fn ahead(&self) -> Ahead<'t> {
        self.ahead
    }

    /// Fetches what `n` iterations from `first` on touch in step.
    #[inline(always)]
    pub(crate) fn fetch(&self, first: usize, n: usize) {
        if let Some((at, size)) = self.beside {
            fetch_bytes(at.wrapping_add(first.wrapping_mul(size)), n.saturating_mul(size));
        }
    }

    #[inline(always)]
    pub(crate) fn slow_path(&self) -> &SlowPath<'t> {
        &self.slow_path
    }

    pub(crate) fn into_cold(self) -> SlowPath<'t> {
        self.slow_path
    }

    #[inline(always)]
    pub(crate) fn rows(&self) -> Option<&Rows<'t>> {
        self.rows.as_ref()
    }

    /// Where row `i` lies that can't be reached at once. Out of line, and known to the compiler as seldom: on the way that is
    /// usual a body's values stay in registers.
    #[cold]
    #[inline(never)]
    pub(crate) fn reach_row(&self, i: usize) -> *mut u8 {
        match &self.rows {
            Some(rows) => rows.path.reach(i),
            None => panic!("rows of a DDS that is not here"),
        }
    }

    /// Ends the iteration, since row `i` is not below the length.
    #[cold]
    #[inline(never)]
    pub(crate) fn no_such_row(&self, i: usize) -> ! {
        match &self.rows {
            Some(rows) => rows.path.no_such_row(i),
            None => panic!("rows of a DDS that is not here"),
        }
    }

    #[inline(always)]
    pub(crate) fn relaxed(&self) -> Option<&Copies> {
        self.relaxed.as_ref()
    }

    /// What the block has added to relaxed state. The views are gone.
    pub(crate) fn take_relaxed(&mut self) -> Option<RawBuf> {
        self.relaxed.take().map(Copies::into_added)
    }

    /// The block's tally. The views are gone.
    pub(crate) fn take_tally(&mut self) -> Option<Tally> {
        self.tally.take().map(Tally::Whole).or_else(|| self.slow_path.take_pages().map(Tally::Pages))
    }

    #[inline(always)]
    pub(crate) fn new_entries(&self) -> &Cell<Option<NewEntries>> {
        &self.new_entries
    }

    /// The iteration or the minibatch that runs.
    pub(crate) fn iteration(&self) -> usize {
        self.slow_path.iteration()
    }

    #[inline(always)]
    pub(crate) fn total(&self) -> &Cell<u64> {
        &self.total
    }

    #[inline(always)]
    pub(crate) fn additions(&self) -> Option<&RefCell<Vec<(usize, u64)>>> {
        self.additions.as_ref()
    }
}
