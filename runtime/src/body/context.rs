//! What one thread holds while it runs one block: a slot and a cold side for every capture.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;

use crate::body::slow_path::Cold;
use crate::dds::relaxed::board::Copies;
use crate::memory::buffer::RawBuf;
use crate::minibatch::SharedSlot;

/// From what a view is made.
#[doc(hidden)]
pub struct Slot {
    /// The range that is reached with one comparison: `len` elements from `lo` on, the first of them at `ptr`.
    pub(crate) ptr: *mut u8,
    pub(crate) lo: usize,
    pub(crate) len: usize,
    pub(crate) wlen: usize,
    /// The running iteration's own element, where the block owns one in each iteration.
    pub(crate) here: Here,
    /// What `here` counts from; for listed accesses the first element.
    pub(crate) base: *mut u8,
    /// Whether the cold side must know which iteration runs.
    pub(crate) tracked: bool,
    /// Where the indices of later iterations' elements stand, to fetch those early.
    pub(crate) ahead: Ahead,
    pub(crate) cold: *const Cold,
    /// In a synchronous loop, of a DDS that is written.
    pub(crate) shared: SharedSlot,
    /// What a reduction starts from, and what it came to.
    pub(crate) total: Cell<u64>,
    /// Every single addition with its iteration, where the order of additions must be the loop's own.
    pub(crate) additions: Option<RefCell<Vec<(usize, u64)>>>,
}

/// Indices in elements laid out in the order of execution: that of iteration `j + AHEAD` at `at + j * stride`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ahead {
    pub(crate) at: *const u8,
    pub(crate) stride: usize,
    /// For how many iterations of the block there is one.
    pub(crate) iterations: usize,
}

/// How many iterations ahead elements are fetched.
pub(crate) const AHEAD: usize = 12;

impl Ahead {
    pub(crate) const NOTHING: Ahead = Ahead { at: std::ptr::null(), stride: 0, iterations: 0 };
}

/// Where the running iteration's own element lies, and what may be done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Here {
    pub(crate) read: bool,
    pub(crate) write: bool,
    /// In the order of execution, rather than by the number of the iteration.
    pub(crate) gathered: bool,
}

impl Slot {
    pub(crate) fn empty(cold: *const Cold) -> Self {
        Slot {
            ptr: null_mut(),
            lo: 0,
            len: 0,
            wlen: 0,
            here: Here::default(),
            base: null_mut(),
            tracked: false,
            ahead: Ahead::NOTHING,
            cold,
            shared: SharedSlot::NONE,
            total: Cell::new(0),
            additions: None,
        }
    }
}

/// Why a block ended before its last iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// An access that the plan didn't foresee.
    Stray { capture: usize },
    /// An index that no element has.
    OutOfRange { capture: usize, index: usize },
    /// Recording: the iteration touches implausibly much; its values may be to blame.
    Runaway,
    /// On a worker: an element could not be fetched, or the loop is being ended.
    Unreachable,
}

/// The state of one thread in one block.
pub(crate) struct Frame {
    pub(crate) slots: Vec<Slot>,
    /// Boxed, since slots and views point at them.
    pub(crate) colds: Box<[Cold]>,
    pub(crate) shared: Box<FrameShared>,
    /// The block's copies of relaxed state, by capture.
    relaxed: Vec<(usize, Copies)>,
}

/// What the cold sides of one frame share.
pub(crate) struct FrameShared {
    /// The iteration that is running.
    pub(crate) at: Cell<usize>,
    trouble: Cell<Option<(Trouble, usize)>>,
}

impl FrameShared {
    /// Notes why the running iteration ends early. The first note stays, whatever a body does about its unwinding.
    pub(crate) fn note(&self, trouble: Trouble) {
        if self.trouble.get().is_none() {
            self.trouble.set(Some((trouble, self.at.get())));
        }
    }

    /// What was noted, and which iteration was counted then.
    pub(crate) fn take_trouble(&self) -> Option<(Trouble, usize)> {
        self.trouble.take()
    }
}

impl Frame {
    /// A frame whose views own nothing yet.
    pub(crate) fn new(colds: impl FnOnce(*const FrameShared) -> Vec<Cold>) -> Self {
        let shared = Box::new(FrameShared { at: Cell::new(0), trouble: Cell::new(None) });
        let colds = colds(&raw const *shared).into_boxed_slice();
        let slots = colds.iter().map(|cold| Slot::empty(cold)).collect();
        Frame { slots, colds, shared, relaxed: Vec::new() }
    }

    /// Gives a capture copies of relaxed state, which live as long as the frame.
    pub(crate) fn lend(&mut self, capture: usize, mut copies: Copies) {
        let slot = &mut self.slots[capture];
        (slot.ptr, slot.base, slot.len) = (copies.now.as_mut_ptr(), copies.added.as_mut_ptr(), copies.now.len());
        self.relaxed.push((capture, copies));
    }

    /// What the block has added, by capture. The views are gone.
    pub(crate) fn take_relaxed(&mut self) -> impl Iterator<Item = (usize, RawBuf)> {
        std::mem::take(&mut self.relaxed).into_iter().map(|(capture, copies)| (capture, copies.added))
    }
}

/// The payload of the unwinding that ends an iteration for one of the reasons in [`Trouble`].
pub(crate) struct EndIteration;
