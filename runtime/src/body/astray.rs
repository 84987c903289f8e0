//! What a body is given for an access that the plan didn't foresee.
//!
//! The block has failed then, and all is going to be undone. But nothing unwinds: a guard in the body may have a destructor that
//! panics, which would abort the process. The block goes on to its end, with copies of what isn't its own.
//!
//! The slow path relies on this: a copy lives as long as the block's context, and there is one for each index that is written
//! (`runs`), so that different elements are different copies, and equal ones the same: the borrow of the view guards it.

use std::cell::{Cell, RefCell};
use std::ops::Range;

use crate::body::runs::Runs;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;

/// A block that strays more often, or to more elements, seems not to come to an end, and unwinds.
const MOST_STRAYS: u32 = 1 << 20;
const MOST_ELEMENTS: usize = 1 << 12;
/// Of ranges that a body takes at once.
const MOST_IN_RANGES: usize = 1 << 16;

/// Elements as they were before the loop, while it runs.
pub(crate) trait Before: Sync {
    /// A copy of one of them. None where it can't be read without a race.
    fn copy(&self, capture: usize, index: usize) -> Option<RawBuf>;
}

/// A block's copies of elements of one capture.
#[derive(Default)]
pub(crate) struct Astray<'t> {
    before: Option<&'t dyn Before>,
    copies: RefCell<Runs>,
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
        let before = self.counted()?;
        let mut copies = self.copies.borrow_mut();
        if let Some(address) = copies.at(index) {
            return Some(address);
        }
        if copies.elements() >= MOST_ELEMENTS {
            return None;
        }
        let copy = before.copy(capture, index).or_else(another).filter(|copy| copy.len() == 1)?;
        Some(copies.insert(index, copy))
    }

    /// The address of copies of a range's elements, side by side.
    pub(crate) fn reach_range(
        &self,
        (capture, ops): (usize, &'static ElementOps),
        range: Range<usize>,
        write: bool,
        another: impl Fn() -> Option<RawBuf>,
    ) -> Option<*mut u8> {
        let before = self.counted()?;
        let mut copies = self.copies.borrow_mut();
        if copies.elements() + range.len() > MOST_IN_RANGES {
            return None;
        }
        let mut copy = |index: usize| before.copy(capture, index).or_else(&another).filter(|copy| copy.len() == 1);
        if write { copies.unite(ops, range, &mut copy) } else { copies.side_by_side(ops, range, &mut copy) }
    }

    /// Where values from before the loop come from, unless the block has strayed too often.
    fn counted(&self) -> Option<&'t dyn Before> {
        self.strays.set(self.strays.get() + 1);
        self.before.filter(|_| self.strays.get() <= MOST_STRAYS)
    }

    /// The copies, to be dropped.
    pub(crate) fn take(&self) -> Runs {
        self.copies.take()
    }
}
