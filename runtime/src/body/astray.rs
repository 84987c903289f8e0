//! What a body is given for an access that the plan didn't foresee.
//!
//! The block has failed then, and all is going to be undone. But nothing unwinds: a guard in the body may have a destructor that
//! panics, which would abort the process. The block goes on to its end, with copies of what isn't its own.
//!
//! The slow path relies on this: a copy is boxed (a `RawBuf` of one element), and lives as long as the block's context. There
//! is one for each index, so that different elements are different copies, and equal ones the same: the borrow of the view
//! guards it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::memory::buffer::RawBuf;

/// A block that strays more often, or to more elements, seems not to come to an end, and unwinds.
const MOST_STRAYS: u32 = 1 << 20;
const MOST_ELEMENTS: usize = 1 << 12;

/// Elements as they were before the loop, while it runs.
pub(crate) trait Before: Sync {
    /// A copy of one of them. None where it can't be read without a race.
    fn copy(&self, capture: usize, index: usize) -> Option<RawBuf>;
}

/// A block's copies of elements of one capture.
#[derive(Default)]
pub(crate) struct Astray<'t> {
    before: Option<&'t dyn Before>,
    copies: RefCell<BTreeMap<usize, RawBuf>>,
    strays: Cell<u32>,
}

impl<'t> Astray<'t> {
    pub(crate) fn new(before: Option<&'t dyn Before>) -> Self {
        Astray { before, ..Astray::default() }
    }

    /// The address of the copy of an element; where its own value can't be had, of another's. None: there is nothing to go on
    /// with.
    pub(crate) fn reach(
        &self,
        capture: usize,
        index: usize,
        another: impl FnOnce() -> Option<RawBuf>,
    ) -> Option<*mut u8> {
        let before = self.before?;
        self.strays.set(self.strays.get() + 1);
        let mut copies = self.copies.borrow_mut();
        if self.strays.get() > MOST_STRAYS {
            return None;
        }
        if let Some(copy) = copies.get_mut(&index) {
            return Some(copy.as_mut_ptr());
        }
        if copies.len() >= MOST_ELEMENTS {
            return None;
        }
        let mut copy = before.copy(capture, index).or_else(another).filter(|copy| copy.len() == 1)?;
        let address = copy.as_mut_ptr();
        copies.insert(index, copy);
        Some(address)
    }

    /// The copies, to be dropped.
    pub(crate) fn take(&self) -> BTreeMap<usize, RawBuf> {
        self.copies.take()
    }
}
