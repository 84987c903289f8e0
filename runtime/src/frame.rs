//! What one thread holds while it runs one block: a slot and a cold side for every capture.

use std::cell::{Cell, RefCell};
use std::ptr::null_mut;

use crate::cold::Cold;

/// How a view's range moves from one iteration of a block to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Not at all.
    Fixed,
    /// One element an iteration, kept in the order of execution.
    Gathered,
    /// One element an iteration, at its own place.
    InPlace,
    /// The elements that the plan lists for the iteration.
    Listed,
}

/// From what a view is made.
#[doc(hidden)]
pub struct Slot {
    pub(crate) ptr: *mut u8,
    pub(crate) lo: usize,
    pub(crate) len: usize,
    pub(crate) wlen: usize,
    pub(crate) step: Step,
    pub(crate) base: *mut u8,
    pub(crate) offset: usize,
    pub(crate) cold: *const Cold,
    /// What a reduction starts from, and what it came to.
    pub(crate) total: Cell<u64>,
    /// Every single addition with its iteration, where the order of additions must be the loop's own.
    pub(crate) additions: Option<RefCell<Vec<(usize, u64)>>>,
}

impl Slot {
    pub(crate) fn empty(cold: *const Cold) -> Self {
        Slot {
            ptr: null_mut(),
            lo: 0,
            len: 0,
            wlen: 0,
            step: Step::Fixed,
            base: null_mut(),
            offset: 0,
            cold,
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
}

/// The state of one thread in one block.
pub(crate) struct Frame {
    pub(crate) slots: Vec<Slot>,
    /// Boxed, since slots and views point at them.
    pub(crate) colds: Box<[Cold]>,
    pub(crate) shared: Box<FrameShared>,
}

/// What the cold sides of one frame share.
pub(crate) struct FrameShared {
    /// The iteration that is running.
    pub(crate) at: Cell<usize>,
    pub(crate) trouble: Cell<Option<Trouble>>,
}

impl Frame {
    /// A frame whose views own nothing yet.
    pub(crate) fn new(colds: impl FnOnce(*const FrameShared) -> Vec<Cold>) -> Self {
        let shared = Box::new(FrameShared { at: Cell::new(0), trouble: Cell::new(None) });
        let colds = colds(&raw const *shared).into_boxed_slice();
        let slots = colds.iter().map(|cold| Slot::empty(cold)).collect();
        Frame { slots, colds, shared }
    }
}

/// The payload of the unwinding that ends an iteration for one of the reasons in [`Trouble`].
pub(crate) struct EndIteration;
