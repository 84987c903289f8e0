//! What one thread holds while it runs one block: a slot for every capture, and how the block is doing.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::body::slot::Slot;

/// Why a block ended before its last iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessTrouble {
    /// An access that the plan didn't foresee.
    Misspeculation { capture: usize },
    /// An index that no element has.
    OutOfRange { capture: usize, index: usize },
    /// Recording: the iteration touches implausibly much; its values may be to blame.
    Runaway,
    /// An element could not be fetched from another worker, or the loop is being ended.
    Unreachable,
}

/// The state of one thread in one block.
pub(crate) struct Context<'t> {
    /// One for each capture, in their order.
    pub(crate) slots: Vec<Slot<'t>>,
    pub(crate) state: Rc<BlockState>,
}

/// How a block is doing: what all its slots know.
#[derive(Default)]
pub(crate) struct BlockState {
    /// The iteration that is running.
    pub(crate) at: Cell<usize>,
    /// Becomes true when the loop is to end though iterations are left; none where it never does.
    pub(crate) stop: OnceCell<Arc<AtomicBool>>,
    trouble: Cell<Option<(AccessTrouble, usize)>>,
}

impl BlockState {
    /// Records why the running iteration ends early. The first one stays, whatever a body does about its unwinding.
    pub(crate) fn record(&self, trouble: AccessTrouble) {
        if self.trouble.get().is_none() {
            self.trouble.set(Some((trouble, self.at.get())));
        }
    }

    /// Whether something was recorded: what the block does from now on counts for nothing.
    pub(crate) fn is_astray(&self) -> bool {
        let trouble = self.trouble.get();
        trouble.is_some()
    }

    /// Whether the loop is to end; records that, if so.
    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        let stopped = self.stop.get().is_some_and(|stop| stop.load(Relaxed));
        if stopped {
            self.record(AccessTrouble::Unreachable);
        }
        stopped
    }

    /// What was recorded, and which iteration was counted then.
    pub(crate) fn take_trouble(&self) -> Option<(AccessTrouble, usize)> {
        self.trouble.take()
    }
}

impl<'t> Context<'t> {
    /// A context with these slots.
    pub(crate) fn new(slots: impl FnOnce(&Rc<BlockState>) -> Vec<Slot<'t>>) -> Self {
        let state = Rc::default();
        Context { slots: slots(&state), state }
    }

    /// What the block has added to relaxed state, by capture. The views are gone.
    pub(crate) fn take_relaxed(&mut self) -> impl Iterator<Item = (usize, crate::memory::buffer::RawBuf)> {
        self.slots.iter_mut().enumerate().filter_map(|(capture, slot)| Some((capture, slot.take_relaxed()?)))
    }

    /// The block's tallies, by capture. The views are gone.
    pub(crate) fn take_tallies(&mut self) -> impl Iterator<Item = (usize, crate::memory::pages::Tally)> {
        self.slots.iter_mut().enumerate().filter_map(|(capture, slot)| Some((capture, slot.take_tally()?)))
    }
}

/// The payload of the unwinding that ends an iteration for one of the reasons in [`AccessTrouble`].
pub(crate) struct EndIteration;
