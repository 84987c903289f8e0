//! The way to an element that is not in a view's own range.
//!
//! Out of line, and the same machine code for every element type. What it does depends on what the thread is
//! doing: recording logs the access and lends a scratch copy to writers; a run looks among the block's other
//! ranges, and lends a copy when the plan didn't foresee the access: the block has failed then (`astray`).
//!
//! # Why this is sound
//! 1. The elements are lent: they live as long as the [`SlowPath`], and every index is compared with their number first.
//! 2. While recording nothing is written to them: writers get scratch, so any thread may read any element. (On a worker a
//!    pager first brings those that are elsewhere; so it does to operators.)
//! 3. In a run an address is given only for an element that the block owns in that way: the spans and lists
//!    come from the plan, whose conflicting blocks the executor keeps apart; a DDS captured for reading is
//!    written by nobody. For any other element it is that of a copy, which the block alone has (`astray`).
//!    Of a tally by pages, which is the block's own, addresses are given to those who write.
//! 4. Scratch copies are boxed one by one (a `RawBuf` each) and live until the next iteration, so that an
//!    address stays good while its borrow lasts. A scratch copy is refilled only by a write access to its
//!    number `nth`, which needs the view alone.
#![allow(unsafe_code)]

mod listed;
mod pager;
mod ranges;

use std::cell::{Cell, RefCell};
use std::panic::resume_unwind;
use std::ptr::null_mut;
use std::rc::Rc;

pub(crate) use self::listed::{Listed, Listing, MORE, More};
pub(crate) use self::pager::Pager;
use crate::body::astray::{Astray, Before};
use crate::body::context::{AccessTrouble, BlockState, EndIteration};
use crate::body::lease::Lent;
use crate::body::panics;
use crate::body::runs::Runs;
use crate::body::saved::Saved;
use crate::body::tiling::Entry;
use crate::body::tiling::Tiling;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::pages::Pages;
use crate::planner::recording::CaptureLog;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    /// `nth` tells apart the elements that one call asks for.
    Write {
        nth: u8,
    },
}

/// A range of elements that a block owns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewRange {
    pub(crate) lo: usize,
    pub(crate) len: usize,
    /// How many of them, from `lo` on, may be written.
    pub(crate) wlen: usize,
}

impl ViewRange {
    pub(crate) const EMPTY: ViewRange = ViewRange { lo: 0, len: 0, wlen: 0 };
}

/// What the thread is doing with this capture. What depends on the running iterations is `None` until the first begins: what
/// sets up a block's scratch runs before.
pub(crate) enum Doing<'t> {
    /// The DDS is only read, by everybody: any element may be reached.
    ReadOnly,
    /// The DDS is only read, by everybody; a pager brings elements that are elsewhere. Those around the last one are here.
    Fetched(&'t dyn Pager, Cell<ViewRange>),
    /// A run by parts: the spans that don't fit the view's one range.
    Spans(Vec<ViewRange>),
    /// Each iteration owns the element at a distance from its number. Those of the running ones are the view's range. The block
    /// owns `own`, which is one of them.
    InStep { own: usize },
    /// Each iteration reads the element at a distance from its number, and all lie in the order of execution, the block's
    /// from `start` on. Of the running ones: place and number of the first, and how many they are.
    Packed { offset: usize, now: Cell<Option<(usize, usize, usize)>>, elements: &'t RawBuf, start: usize },
    /// A run by single iterations.
    Listed(Listing<'t>, Listed),
    /// A run by tiles: each run of iterations owns elements at some distances.
    Tiled(Tiling<'t>),
    /// As `Spans`, but each element is saved before its first change: few of many are touched.
    Logged { spans: Vec<ViewRange>, saved: RefCell<Saved> },
    /// The virtual iteration.
    Record(Box<Recorder<'t>>),
    /// The block's own tally, of few elements of many.
    Tally(RefCell<Box<Pages>>),
    /// The capture is a reduction, and has no elements.
    Reduction,
}

pub(crate) struct Recorder<'t> {
    pager: Option<&'t dyn Pager>,
    pub(crate) log: RefCell<CaptureLog>,
    /// The elements that placeholders are filled from: the middle one, a value that the program itself put there.
    elements: &'t Lent,
    pub(crate) placeholders: RefCell<Vec<RawBuf>>,
    /// Which of them the running iteration has been lent, a bit each.
    lent: Cell<u64>,
    /// The first of them, if it has been lent and is not filled anew; or null.
    again: Cell<*mut u8>,
    /// Placeholders side by side, for a range that is written.
    pub(crate) range: RefCell<Option<RawBuf>>,
    range_lent: Cell<bool>,
    /// With real values: the iteration's own changes.
    pub(crate) own: RefCell<Runs>,
    /// Memory for single ones of these.
    spare: RefCell<Vec<RawBuf>>,
    pub(crate) concrete: Cell<bool>,
    /// How often an iteration may touch the DDS on placeholders.
    most_symbolic: u32,
    /// Set where placeholders have misled a plan before.
    pub(crate) always_concrete: bool,
}

/// An iteration that touches one DDS this often on placeholders, and more often than would be so often each element of the
/// loop's longest DDS, is run again with real values.
const RUNAWAY_SYMBOLIC: u32 = 1 << 16;
const RUNAWAY_EACH: usize = 4;
/// But not more often than this.
const RUNAWAY_MOST: u32 = 1 << 22;
/// And with real values this many are taken for an endless loop. (In builds for tests an access takes ten times as long.)
const RUNAWAY_CONCRETE: u32 = if cfg!(debug_assertions) { 1 << 23 } else { 1 << 26 };

/// Of more spans than this the one is looked for by halves.
const FEW_SPANS: usize = 6;

pub(crate) struct SlowPath<'t> {
    capture: usize,
    lent: Option<&'t Lent>,
    /// Where its elements lie, and how long they are.
    base: *mut u8,
    size: usize,
    len: usize,
    doing: Doing<'t>,
    more: More,
    astray: Astray<'t>,
    state: Rc<BlockState>,
}

impl<'t> Doing<'t> {
    /// The recording side of a capture.
    pub(crate) fn recording(
        log: CaptureLog,
        elements: &'t Lent,
        concrete: bool,
        longest: usize,
        pager: Option<&'t dyn Pager>,
    ) -> Self {
        let often = u32::try_from(longest.saturating_mul(RUNAWAY_EACH)).unwrap_or(u32::MAX);
        Doing::Record(Box::new(Recorder {
            pager,
            log: RefCell::new(log),
            elements,
            placeholders: RefCell::new(Vec::new()),
            lent: Cell::new(0),
            again: Cell::new(null_mut()),
            range: RefCell::new(None),
            range_lent: Cell::new(false),
            own: RefCell::default(),
            spare: RefCell::default(),
            concrete: Cell::new(concrete),
            most_symbolic: often.clamp(RUNAWAY_SYMBOLIC, RUNAWAY_MOST),
            always_concrete: concrete,
        }))
    }
}

impl<'t> SlowPath<'t> {
    pub(super) fn new(
        (capture, lent): (usize, &'t Lent),
        doing: Doing<'t>,
        more: [ViewRange; MORE],
        before: Option<&'t dyn Before>,
        state: &Rc<BlockState>,
    ) -> Self {
        let astray = Astray::new(before);
        let (base, size, len) = (lent.base(), lent.ops().size, lent.len());
        SlowPath {
            capture,
            lent: Some(lent),
            base,
            size,
            len,
            doing,
            more: More::new(more),
            astray,
            state: Rc::clone(state),
        }
    }

    /// Of what is reached by other means: every access through here ends the iteration.
    pub(super) fn without_elements(capture: usize, len: usize, state: &Rc<BlockState>) -> Self {
        let (doing, more, astray) = (Doing::Reduction, More::default(), Astray::default());
        SlowPath { capture, lent: None, base: null_mut(), size: 0, len, doing, more, astray, state: Rc::clone(state) }
    }

    /// Of a tally by pages.
    pub(super) fn of_pages(capture: usize, pages: Box<Pages>, state: &Rc<BlockState>) -> Self {
        let len = pages.len();
        SlowPath { doing: Doing::Tally(RefCell::new(pages)), ..SlowPath::without_elements(capture, len, state) }
    }

    /// The tally by pages, if it is one.
    pub(super) fn take_pages(&mut self) -> Option<Box<Pages>> {
        if !matches!(self.doing, Doing::Tally(_)) {
            return None;
        }
        match std::mem::replace(&mut self.doing, Doing::Reduction) {
            Doing::Tally(pages) => Some(pages.into_inner()),
            _ => None,
        }
    }

    #[inline(always)]
    pub(crate) fn more(&self) -> &More {
        &self.more
    }

    pub(crate) fn dds_len(&self) -> usize {
        self.len
    }

    /// Whether runs are of one iteration, since each owns elements of its own.
    pub(crate) fn is_listed(&self) -> bool {
        matches!(self.doing, Doing::Listed(..))
    }

    /// Whether a block of it is a tile.
    pub(crate) fn is_tiled(&self) -> bool {
        matches!(self.doing, Doing::Tiled(_))
    }

    pub(crate) fn doing(&self) -> &Doing<'t> {
        &self.doing
    }

    /// Copies of elements to which the block strayed, to be dropped.
    pub(crate) fn take_astray(&self) -> Runs {
        self.astray.take()
    }

    pub(crate) fn into_doing(self) -> Doing<'t> {
        self.doing
    }

    /// The address of element `i` to be read, or no return. (Few arguments: the call stands in every loop body, and
    /// small bodies are inlined.)
    #[cold]
    #[inline(never)]
    pub(crate) fn reach_read(&self, i: usize) -> *mut u8 {
        self.soon(i, Access::Read).unwrap_or_else(|| self.reach(i, Access::Read))
    }

    /// The address of element `i` to be written, or no return. The view is borrowed alone.
    #[cold]
    #[inline(never)]
    pub(crate) fn reach_write(&self, i: usize) -> *mut u8 {
        let access = Access::Write { nth: 0 };
        self.soon(i, access).unwrap_or_else(|| self.reach(i, access))
    }

    /// The address of element `i`, the `nth` of several to be written at once, or no return. The view is borrowed alone.
    #[cold]
    #[inline(never)]
    pub(crate) fn reach_nth(&self, i: usize, nth: u8) -> *mut u8 {
        self.reach(i, Access::Write { nth })
    }

    /// What most accesses come for that take this way often: an element of another of the block's ranges.
    #[inline(always)]
    fn soon(&self, i: usize, access: Access) -> Option<*mut u8> {
        match &self.doing {
            Doing::Spans(spans) if i < self.len => self.in_spans(spans, i, access),
            Doing::Listed(listing, listed) if i < self.len => listed.owns(listing, i, access).then(|| self.address(i)),
            Doing::Fetched(_, last) if i < self.len => self.in_spans(&[last.get()], i, access),
            Doing::Record(recorder) if i < self.len => match access {
                Access::Read => recorder.reads_at_once(i).then(|| self.address(i)),
                Access::Write { .. } => recorder.writes_at_once(i),
            },
            _ => None,
        }
    }

    #[inline(never)]
    fn reach(&self, i: usize, access: Access) -> *mut u8 {
        if i >= self.len {
            self.end(AccessTrouble::OutOfRange { capture: self.capture, index: i });
        }
        match &self.doing {
            Doing::ReadOnly if access == Access::Read => self.address(i),
            Doing::Fetched(pager, last) if access == Access::Read => {
                match pager.bring(self.capture, i) {
                    Some(here) => last.set(ViewRange { lo: here.start, len: here.len(), wlen: 0 }),
                    None => self.end(AccessTrouble::Unreachable),
                }
                self.address(i)
            }
            Doing::Tally(pages) if access != Access::Read => pages.borrow_mut().reach(i),
            Doing::Spans(spans) => self.in_spans(spans, i, access).unwrap_or_else(|| self.stray(i)),
            Doing::Packed { offset, now, elements, start } => match now.get() {
                Some((place, first, n))
                    if access == Access::Read && i.wrapping_sub(first.wrapping_add(*offset)) < n =>
                {
                    let place = start + place + i.wrapping_sub(first.wrapping_add(*offset));
                    assert!(place < elements.len());
                    elements.base().wrapping_add(place * elements.ops().size)
                }
                _ => self.stray(i),
            },
            Doing::Listed(listing, listed) if listed.owns(listing, i, access) => self.address(i),
            Doing::Tiled(tiling) if tiling.owns(i, access != Access::Read) => self.address(i),
            Doing::Logged { spans, saved } => {
                let Some(address) = self.in_spans(spans, i, access) else { return self.stray(i) };
                if access != Access::Read {
                    self.save_first(saved, i);
                }
                address
            }
            Doing::Record(recorder) => self.record(recorder, i, access),
            Doing::ReadOnly
            | Doing::Fetched(..)
            | Doing::InStep { .. }
            | Doing::Listed(..)
            | Doing::Tiled(_)
            | Doing::Tally(_)
            | Doing::Reduction => self.stray(i),
        }
    }

    #[inline(always)]
    fn address(&self, i: usize) -> *mut u8 {
        // (An empty range may begin where the last element ends.)
        match self.lent {
            Some(_) if i <= self.len => self.base.wrapping_add(i * self.size),
            _ => self.stray(i),
        }
    }

    /// The iteration or the minibatch that runs.
    pub(crate) fn iteration(&self) -> usize {
        self.state.at.get()
    }

    /// Ends the iteration, since element `i` is not below the length.
    #[cold]
    #[inline(never)]
    pub(crate) fn out_of_range(&self, i: usize) -> ! {
        self.end(AccessTrouble::OutOfRange { capture: self.capture, index: i })
    }

    fn end(&self, trouble: AccessTrouble) -> ! {
        self.state.record(trouble);
        resume_unwind(Box::new(EndIteration));
    }

    /// The address of a copy, since the plan didn't foresee that the block reaches the element.
    fn stray(&self, i: usize) -> *mut u8 {
        let trouble = AccessTrouble::Misspeculation { capture: self.capture };
        self.state.record(trouble);
        let of_own = || panics::caught(|| Some(self.clone_of(self.lent?, self.own()?))).ok().flatten();
        self.astray.reach(self.capture, i, of_own).unwrap_or_else(|| self.end(trouble))
    }

    /// An element that the block owns.
    fn own(&self) -> Option<usize> {
        let index = match &self.doing {
            Doing::Spans(spans) | Doing::Logged { spans, .. } => spans.iter().find(|span| span.len > 0)?.lo,
            Doing::InStep { own } => *own,
            Doing::Tiled(tiling) => tiling.own()?,
            Doing::Listed(listing, listed) => (*listed.entries(listing)?.first()? >> 1) as usize,
            Doing::ReadOnly
            | Doing::Fetched(..)
            | Doing::Packed { .. }
            | Doing::Record(_)
            | Doing::Tally(_)
            | Doing::Reduction => return None,
        };
        (index < self.len).then_some(index)
    }

    #[inline(always)]
    fn in_spans(&self, spans: &[ViewRange], i: usize, access: Access) -> Option<*mut u8> {
        let owned = |span: &ViewRange| if access == Access::Read { span.len } else { span.wlen };
        // Few are looked through, which takes less time than to jump between them.
        let rest = match spans.len() {
            0..=FEW_SPANS => spans,
            _ => &spans[spans.partition_point(|span| span.lo <= i).saturating_sub(1)..][..1],
        };
        rest.iter().any(|span| i.wrapping_sub(span.lo) < owned(span)).then(|| self.address(i))
    }

    /// Turns to a run of iterations: the `n` of the loop from `first` on, from the block's `place`-th on. Gives what they own
    /// beside each other: of listed elements some that follow each other.
    #[inline(never)]
    pub(crate) fn enter(&self, place: usize, first: usize, n: usize) -> ViewRange {
        let none = ViewRange::EMPTY;
        // (The view makes addresses of what is given without another look.)
        match &self.doing {
            Doing::Packed { now, .. } => {
                now.set(Some((place, first, n)));
                none
            }
            Doing::Listed(listing, listed) => {
                // Of several iterations each would own what the others do.
                assert!(n == 1);
                let first = listed.enter(listing, place, &self.more);
                let is_within = |range: ViewRange| range.lo + range.len <= self.len;
                assert!(is_within(first) && self.more.iter().all(is_within));
                first
            }
            Doing::Tiled(tiling) => {
                tiling.enter(first, n);
                none
            }
            _ => none,
        }
    }

    /// The same for a view of a loop that runs by tiles. Gives at which distances from these iterations the block owns all
    /// elements.
    #[inline(never)]
    pub(crate) fn enter_tile(&self, first: usize, n: usize) -> Entry {
        match &self.doing {
            Doing::Tiled(tiling) => tiling.enter(first, n),
            _ => Entry::default(),
        }
    }

    fn save_first(&self, saved: &RefCell<Saved>, i: usize) {
        let Some(lent) = self.lent.filter(|lent| i < lent.len()) else { return };
        // SAFETY: rules 1 and 3: an element is there, which the block owns.
        saved.borrow_mut().save(i, lent.ops(), |copies| unsafe { copies.push_clones(lent.at(i), 1) });
    }

    fn clone_of(&self, lent: &Lent, i: usize) -> RawBuf {
        self.clone_into(lent, i, RawBuf::new(lent.ops(), 1))
    }

    /// A clone of an element in memory that is empty, and of the same type.
    fn clone_into(&self, lent: &Lent, i: usize, mut copy: RawBuf) -> RawBuf {
        assert!(i < lent.len() && copy.len() == 0 && copy.ops().is(lent.ops()));
        // SAFETY: rule 1: an element is there. Nobody writes it now: while recording nobody does (rule 2), and in a run
        // the block owns it (rule 3).
        unsafe { copy.push_clones(lent.at(i), 1) };
        copy
    }

    /// Logs an access of the virtual iteration, and reaches nothing. False where the iteration is none, and nothing is logged.
    pub(crate) fn note(&self, i: usize, write: bool) -> bool {
        let Doing::Record(recorder) = &self.doing else { return false };
        if i >= self.len {
            self.end(AccessTrouble::OutOfRange { capture: self.capture, index: i });
        }
        recorder.log.borrow_mut().access_listed(i, write);
        true
    }

    fn record(&self, recorder: &Recorder<'_>, i: usize, access: Access) -> *mut u8 {
        let lent = recorder.elements;
        let write = access != Access::Read;
        let concrete = recorder.concrete.get();
        let touched = recorder.log.borrow_mut().access(i, write);
        if touched > RUNAWAY_SYMBOLIC && touched > recorder.most_accesses() {
            self.end(AccessTrouble::Runaway);
        }
        if let Some(pager) = recorder.pager
            && (concrete || !write)
            && pager.bring(self.capture, i).is_none()
        {
            self.end(AccessTrouble::Unreachable);
        }
        if concrete && lent.is_writable() {
            let mut own = recorder.own.borrow_mut();
            return match own.at(i) {
                Some(copy) => copy,
                None if write => {
                    let spare = recorder.spare.borrow_mut().pop();
                    own.insert(i, self.clone_into(lent, i, spare.unwrap_or_else(|| RawBuf::new(lent.ops(), 1))))
                }
                None => lent.at(i),
            };
        }
        let Access::Write { nth } = access else { return lent.at(i) };
        let mut placeholders = recorder.placeholders.borrow_mut();
        let new = placeholders.len() <= usize::from(nth);
        while placeholders.len() <= usize::from(nth) {
            // The middle one: the first rows are often special (a root, a padding word).
            placeholders.push(self.clone_of(lent, lent.len() / 2));
        }
        let scratch = placeholders[usize::from(nth)].as_mut_ptr();
        let bit = 1 << nth;
        let lent_before = recorder.lent.replace(recorder.lent.get() | bit) & bit != 0;
        let is_cheap = is_cheap(lent.ops());
        if nth == 0 && !is_cheap {
            recorder.again.set(scratch);
        }
        if !new && (!lent_before || is_cheap) {
            // SAFETY: both are elements of this type (there is one, since `i` is below the length); the scratch copy is this
            // view's alone (rule 4).
            unsafe { lent.ops().assign(lent.at(lent.len() / 2), scratch) };
        }
        scratch
    }
}

/// Whether a placeholder is filled at each access: others once an iteration, since a body may reach a long row number by
/// number.
fn is_cheap(ops: &ElementOps) -> bool {
    ops.plain && ops.size <= 64
}

impl Recorder<'_> {
    /// How often an iteration may touch the DDS.
    fn most_accesses(&self) -> u32 {
        if self.concrete.get() { RUNAWAY_CONCRETE } else { self.most_symbolic }
    }

    /// Logs that an element is read, if it can be read where it lies, and was not read so often that it is asked whether the
    /// iteration ends.
    #[inline(always)]
    fn reads_at_once(&self, i: usize) -> bool {
        let here = self.pager.is_none() && !(self.concrete.get() && self.elements.is_writable());
        here && self.log.borrow_mut().access(i, false) <= RUNAWAY_SYMBOLIC
    }

    /// The placeholder of elements that are written one at a time, where it stays as the iteration left it. Logs the access.
    #[inline(always)]
    fn writes_at_once(&self, i: usize) -> Option<*mut u8> {
        let again = Some(self.again.get()).filter(|again| !again.is_null() && self.pager.is_none())?;
        (self.log.borrow_mut().access(i, true) <= RUNAWAY_SYMBOLIC).then_some(again)
    }

    /// Forgets what the iteration changed.
    pub(crate) fn next_iteration(&self) {
        self.lent.set(0);
        self.again.set(null_mut());
        self.range_lent.set(false);
        if self.concrete.get() {
            self.own.borrow_mut().clear(&mut self.spare.borrow_mut());
        }
    }
}
