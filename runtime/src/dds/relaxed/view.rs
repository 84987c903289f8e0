//! What a loop body sees of relaxed state: its block's own copy.
//!
//! # Why this is sound
//! 1. A slot of relaxed state points at buffers of `len` numbers that belong to the context of the one block that runs,
//!    and stay where they are as long as the view lives: nobody else reads or writes them meanwhile; nobody writes those that the
//!    block started from. The view is neither `Clone` nor `Copy`, nor sent to another thread; reads borrow it shared, and
//!    additions borrow it alone.
//! 2. A read of what isn't exact writes `now`. It writes only another value than is there: so between two additions it writes a
//!    number once at most, before the first reference to it is given out.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Index;

use crate::body::index::ElementIndex;
use crate::body::slot::Slot;
use crate::body::slow_path::SlowPath;
use crate::dds::reduction::Number;

/// A [`RelaxedVector`](crate::RelaxedVector) inside a loop body: `totals[k]`, `totals.add(k, 1)`.
pub struct RelaxedView<'v, N, const C: usize> {
    /// What is known of the numbers here and now; where sums aren't exact, once it was read.
    now: *mut N,
    /// What the block has added, where sums aren't exact,
    added: *mut N,
    /// and what it started from.
    start: *const N,
    len: usize,
    slow_path: &'v SlowPath<'v>,
    lifetime: PhantomData<&'v mut N>,
}

impl<'v, N: Number, const C: usize> RelaxedView<'v, N, C> {
    /// # Safety
    /// The slot describes relaxed state of type N that meets the rules above.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: &'v Slot<'v>) -> Self {
        let copies = slot.relaxed();
        RelaxedView {
            now: copies.map_or(std::ptr::null_mut(), |copies| copies.now.base().cast()),
            added: copies
                .and_then(|copies| copies.added.as_ref())
                .map_or(std::ptr::null_mut(), |added| added.base().cast()),
            start: copies.map_or(std::ptr::null(), |copies| copies.start.as_ptr().cast()),
            len: copies.map_or(0, |copies| copies.now.len()),
            slow_path: slot.slow_path(),
            lifetime: PhantomData,
        }
    }

    /// The number of numbers.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no numbers.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All numbers, with the additions that the block sees.
    ///
    /// # Cost
    /// One addition for each number, if they are floats.
    #[inline(always)]
    pub fn as_slice(&self) -> &[N] {
        if !N::ASSOCIATIVE {
            (0..self.len).for_each(|k| _ = self.at(k));
        }
        // SAFETY: rule 1; where there are none the address is any.
        if self.len == 0 { &[] } else { unsafe { std::slice::from_raw_parts(self.now, self.len) } }
    }

    /// Adds `by` to the number at `k`. The block sees it at once, blocks of later strata as `staleness` says, and the
    /// program when the loop has ended.
    #[inline(always)]
    pub fn add(&mut self, k: impl ElementIndex, by: N) {
        let k = self.checked(k.to_usize());
        let sums = if N::ASSOCIATIVE { self.now } else { self.added };
        // SAFETY: rule 1; k < len.
        unsafe { *sums.add(k) = (*sums.add(k)).plus(by) };
    }

    /// Where the number at `k`, which is below `len`, lies with its current value.
    #[inline(always)]
    fn at(&self, k: usize) -> *const N {
        // SAFETY: rule 1; k < len. Rule 2.
        unsafe {
            let now = self.now.add(k);
            if !N::ASSOCIATIVE {
                let value = (*self.start.add(k)).plus(*self.added.add(k));
                // (Not-a-numbers may have other bits each time.)
                let is_there = value.to_word() == (*now).to_word() || (value.is_no_number() && (*now).is_no_number());
                if !is_there {
                    *now = value;
                }
            }
            now
        }
    }

    /// The index, or no return.
    #[inline(always)]
    fn checked(&self, k: usize) -> usize {
        if k >= self.len {
            self.slow_path.reach_read(k);
        }
        k
    }
}

impl<N: Number, I: ElementIndex, const C: usize> Index<I> for RelaxedView<'_, N, C> {
    type Output = N;
    #[inline(always)]
    fn index(&self, k: I) -> &N {
        let k = self.checked(k.to_usize());
        // SAFETY: rule 1; k < len.
        unsafe { &*self.at(k) }
    }
}

/// A [`Relaxed`](crate::Relaxed) number inside a loop body: `total.get()`, `total.add(1)`.
pub struct RelaxedNumberView<'v, N, const C: usize>(RelaxedView<'v, N, C>);

impl<'v, N: Number, const C: usize> RelaxedNumberView<'v, N, C> {
    /// # Safety
    /// As for [`RelaxedView::new`], of one number.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: &'v Slot<'v>) -> Self {
        // SAFETY: the caller's promise.
        RelaxedNumberView(unsafe { RelaxedView::new(slot) })
    }

    /// The number, with the additions that the block sees.
    #[inline(always)]
    pub fn get(&self) -> N {
        self.0[0usize]
    }

    /// Adds to it, as [`RelaxedView::add`] does.
    #[inline(always)]
    pub fn add(&mut self, by: N) {
        self.0.add(0usize, by);
    }
}
