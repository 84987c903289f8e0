//! The way to an element that is not in a view's own range.
//!
//! Out of line, and the same machine code for every element type. What it does depends on what the thread is
//! doing: recording notes the access and lends a scratch copy to writers; a run looks among the block's other
//! ranges, and ends the iteration when the plan didn't foresee the access.
//!
//! # Why this is sound
//! 1. `base` is the address of `len` live elements for as long as the loop holds the driver's borrow.
//! 2. While recording nothing is written to them: writers get scratch, so any thread may read any element. (On a worker a
//!    pager first brings those that are elsewhere.)
//! 3. In a run an address is given only for an element that the block owns in that way: the spans and lists
//!    come from the plan, whose conflicting blocks the executor keeps apart; a DDS captured for reading is
//!    written by nobody.
//! 4. Scratch copies are boxed one by one (a `RawBuf` each) and live until the next iteration, so that an
//!    address stays good while its borrow lasts. A scratch copy is refilled only by a write access to its
//!    number `nth`, which needs the view alone.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::resume_unwind;

use crate::body::context::{EndIteration, FrameShared, Trouble};
use crate::memory::buffer::{ElementOps, RawBuf};
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) lo: usize,
    pub(crate) len: usize,
    /// 0, or `len` where the block may write.
    pub(crate) wlen: usize,
}

/// The elements of every iteration of a block: index and write bit in one number, delimited by `ends`.
#[derive(Clone, Copy)]
pub(crate) struct Listing {
    pub(crate) entries: *const u32,
    pub(crate) ends: *const u32,
    /// Where the block's first iteration begins.
    pub(crate) start: u32,
    pub(crate) iterations: usize,
}

/// What the thread is doing with this capture.
pub(crate) enum Doing {
    /// The DDS is only read, by everybody: any element may be reached.
    ReadOnly,
    /// A run by parts: the spans that don't fit the view's one range.
    Spans(Vec<Span>),
    /// Each iteration owns the element at a distance from its number.
    InStep { offset: usize, written: bool, now: Cell<usize> },
    /// Each iteration reads the element at a distance from its number, and all lie in the order of execution: place and
    /// number of the running iteration, and where the first element lies.
    Gathered { offset: usize, now: Cell<(usize, usize)>, at: *mut u8 },
    /// A run by single iterations.
    Listed(Listing, Cell<(usize, usize)>),
    /// As `Spans`, but each element is saved before its first change: few of many are touched.
    Logged { spans: Vec<Span>, saved: RefCell<BTreeMap<usize, RawBuf>> },
    /// The virtual iteration.
    Record(Box<Recorder>),
    /// The capture is a reduction, and has no elements.
    Reduction,
}

/// Brings elements that are elsewhere to their places, while a loop is recorded.
pub(crate) trait Pager: Sync {
    /// False: that element can't be had now, and the recording is void.
    fn bring(&self, capture: usize, index: usize) -> bool;
}

pub(crate) struct Recorder {
    /// Lives as long as the recording.
    pager: Option<*const dyn Pager>,
    pub(crate) log: RefCell<CaptureLog>,
    /// The element that blank scratch is filled from: a value of the type that the program itself put there.
    template: *const u8,
    blank: RefCell<Vec<RawBuf>>,
    /// With real values: the iteration's own changes.
    own: RefCell<BTreeMap<usize, RawBuf>>,
    pub(crate) exact: Cell<bool>,
    /// Set where blank scratch has led a plan astray before.
    pub(crate) always_exact: bool,
    written_by_view: bool,
}

/// An iteration that touches one DDS this often on blank scratch is run again with real values.
const RUNAWAY_BLANK: u32 = 1 << 16;
/// And with real values this many are taken for an endless loop.
const RUNAWAY_EXACT: u32 = 1 << 26;

pub(crate) struct Cold {
    capture: usize,
    base: *mut u8,
    len: usize,
    ops: Option<&'static ElementOps>,
    doing: Doing,
    shared: *const FrameShared,
}

impl Cold {
    pub(crate) fn new(
        capture: usize,
        base: *mut u8,
        len: usize,
        ops: Option<&'static ElementOps>,
        doing: Doing,
        shared: *const FrameShared,
    ) -> Self {
        Cold { capture, base, len, ops, doing, shared }
    }

    /// The recording side of a capture.
    pub(crate) fn recorder(
        log: CaptureLog,
        base: *const u8,
        len: usize,
        ops: &ElementOps,
        writes: bool,
        exact: bool,
        pager: Option<*const dyn Pager>,
    ) -> Doing {
        // The middle one: the first rows are often special (a root, a padding word).
        let template = base.wrapping_add(len / 2 * ops.size);
        Doing::Record(Box::new(Recorder {
            pager,
            log: RefCell::new(log),
            template,
            blank: RefCell::new(Vec::new()),
            own: RefCell::new(BTreeMap::new()),
            exact: Cell::new(exact),
            always_exact: exact,
            written_by_view: writes,
        }))
    }

    pub(crate) fn dds_len(&self) -> usize {
        self.len
    }

    pub(crate) fn doing(&self) -> &Doing {
        &self.doing
    }

    pub(crate) fn set_doing(&mut self, doing: Doing) {
        self.doing = doing;
    }

    pub(crate) fn into_doing(self) -> Doing {
        self.doing
    }

    /// The address of element `i` to be read, or no return. (Few arguments: the call stands in every loop body, and
    /// small bodies are inlined.)
    ///
    /// # Safety
    /// `this` is alive, and the caller is the view made for it.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn reach_read(this: *const Cold, i: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { &*this }.reach(i, Access::Read)
    }

    /// The address of element `i` to be written, or no return.
    ///
    /// # Safety
    /// As for `reach_read`; the view is borrowed alone.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn reach_write(this: *const Cold, i: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { &*this }.reach(i, Access::Write { nth: 0 })
    }

    /// The address of element `i`, the `nth` of several to be written at once, or no return.
    ///
    /// # Safety
    /// As for `reach_write`.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn reach_nth(this: *const Cold, i: usize, nth: u8) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { &*this }.reach(i, Access::Write { nth })
    }

    fn reach(&self, i: usize, access: Access) -> *mut u8 {
        if i >= self.len {
            self.end(Trouble::OutOfRange { capture: self.capture, index: i });
        }
        match &self.doing {
            Doing::ReadOnly if access == Access::Read => self.address(i),
            Doing::Spans(spans) => self.in_spans(spans, i, access),
            Doing::InStep { offset, written, now }
                if i == now.get().wrapping_add(*offset) && (*written || access == Access::Read) =>
            {
                self.address(i)
            }
            Doing::Gathered { offset, now, at } if access == Access::Read && i == now.get().1.wrapping_add(*offset) => {
                at.wrapping_add(now.get().0 * self.ops.map_or(0, |ops| ops.size))
            }
            Doing::Listed(listing, current) => self.in_listing(listing, current.get(), i, access),
            Doing::Logged { spans, saved } => {
                let address = self.in_spans(spans, i, access);
                if access != Access::Read {
                    self.save_first(saved, i);
                }
                address
            }
            Doing::Record(recorder) => self.record(recorder, i, access),
            Doing::ReadOnly | Doing::InStep { .. } | Doing::Gathered { .. } | Doing::Reduction => self.stray(),
        }
    }

    fn address(&self, i: usize) -> *mut u8 {
        self.base.wrapping_add(i * self.ops.map_or(0, |ops| ops.size))
    }

    fn end(&self, trouble: Trouble) -> ! {
        // SAFETY: the frame owns both this and what it shares.
        unsafe { &*self.shared }.note(trouble);
        resume_unwind(Box::new(EndIteration));
    }

    fn stray(&self) -> ! {
        self.end(Trouble::Stray { capture: self.capture })
    }

    fn in_spans(&self, spans: &[Span], i: usize, access: Access) -> *mut u8 {
        let at = spans.partition_point(|span| span.lo <= i);
        if let Some(span) = at.checked_sub(1).map(|k| spans[k]) {
            let owned = if access == Access::Read { span.len } else { span.wlen };
            if i - span.lo < owned {
                return self.address(i);
            }
        }
        self.stray()
    }

    fn in_listing(&self, listing: &Listing, (from, to): (usize, usize), i: usize, access: Access) -> *mut u8 {
        // SAFETY: `from..to` was read from `ends`, which delimits `entries`.
        let entries = unsafe { std::slice::from_raw_parts(listing.entries.add(from), to - from) };
        match entries.binary_search_by_key(&i, |entry| (entry >> 1) as usize) {
            Ok(k) if access == Access::Read || entries[k] & 1 == 1 => self.address(i),
            _ => self.stray(),
        }
    }

    /// Turns to the `j`-th iteration of the block, `i` of the loop, and gives the first element that the plan lists for
    /// it as a range of one.
    #[inline]
    pub(crate) fn begin_iteration(&self, j: usize, i: usize) -> Span {
        let none = Span { lo: 0, len: 0, wlen: 0 };
        if let Doing::InStep { now, .. } = &self.doing {
            now.set(i);
            return none;
        }
        if let Doing::Gathered { now, .. } = &self.doing {
            now.set((j, i));
            return none;
        }
        let Doing::Listed(listing, current) = &self.doing else { return none };
        assert!(j < listing.iterations);
        // SAFETY: `ends` has one number for each of the block's iterations, and the one before the first is `start`;
        // they rise, and the last is within `entries`.
        unsafe {
            let from = if j == 0 { listing.start } else { *listing.ends.add(j - 1) } as usize;
            let to = *listing.ends.add(j) as usize;
            current.set((from, to));
            if from == to {
                return none;
            }
            let first = *listing.entries.add(from);
            Span { lo: (first >> 1) as usize, len: 1, wlen: (first & 1) as usize }
        }
    }

    fn save_first(&self, saved: &RefCell<BTreeMap<usize, RawBuf>>, i: usize) {
        if let Some(ops) = self.ops {
            saved.borrow_mut().entry(i).or_insert_with(|| self.clone_of(ops, self.address(i)));
        }
    }

    fn clone_of(&self, ops: &'static ElementOps, from: *const u8) -> RawBuf {
        let mut copy = RawBuf::new(ops, 1);
        // SAFETY: `from` is one of this DDS's elements, and nobody writes it now: while recording nobody does,
        // and in a run the block owns it.
        unsafe { copy.push_clones(from, 1) };
        copy
    }

    fn record(&self, recorder: &Recorder, i: usize, access: Access) -> *mut u8 {
        let Some(ops) = self.ops else { self.stray() };
        let write = access != Access::Read;
        let exact = recorder.exact.get();
        let touched = recorder.log.borrow_mut().access(i, write);
        if touched > if exact { RUNAWAY_EXACT } else { RUNAWAY_BLANK } {
            self.end(Trouble::Runaway);
        }
        if let Some(pager) = recorder.pager
            && (exact || !write)
            // SAFETY: the pager outlives the recording.
            && !unsafe { &*pager }.bring(self.capture, i)
        {
            self.end(Trouble::Unreachable);
        }
        if exact && recorder.written_by_view {
            let mut own = recorder.own.borrow_mut();
            return match own.get_mut(&i) {
                Some(copy) => copy.as_mut_ptr(),
                None if write => own.entry(i).or_insert_with(|| self.clone_of(ops, self.address(i))).as_mut_ptr(),
                None => self.address(i),
            };
        }
        let Access::Write { nth } = access else { return self.address(i) };
        let mut blank = recorder.blank.borrow_mut();
        while blank.len() <= usize::from(nth) {
            blank.push(self.clone_of(ops, recorder.template));
        }
        let scratch = blank[usize::from(nth)].as_mut_ptr();
        // SAFETY: both are elements of this type; the scratch copy is this view's alone (rule 4).
        unsafe { ops.assign(recorder.template, scratch) };
        scratch
    }
}

impl Recorder {
    /// Forgets what the iteration changed.
    pub(crate) fn next_iteration(&self) {
        if self.exact.get() {
            self.own.borrow_mut().clear();
        }
    }
}
