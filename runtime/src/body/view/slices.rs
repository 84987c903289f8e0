//! `x[a..b]`: elements that lie side by side, as a slice; of rows their numbers, one row after the other.
//!
//! # Why this is sound
//! By the rules of `view`: a comparison finds that the whole range lies in one that the block owns (rule 2), or is near the running
//! iteration's number, in a run whose iterations own all that is (rule 5); else the slow
//! path gives the address of as many elements, each of them owned or a copy (`slow_path/ranges`). The borrow of the view
//! guards them all (rule 3).
#![allow(unsafe_code)]

use std::ops::{Bound, Index, IndexMut, Range, RangeBounds};
use std::ops::{RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{ReadView, WriteView};
use crate::body::index::ElementIndex;
use crate::body::slow_path::ViewRange;
use crate::body::stored::Stored;

/// From the first to before the last. A bound that no element can have is beyond all of them. Their number besides, such that the
/// compiler knows that of `i - 1..=i + 1`.
#[inline(always)]
fn bounds<I: ElementIndex>(range: &impl RangeBounds<I>, len: usize) -> (Range<usize>, usize) {
    let start = match range.start_bound() {
        Bound::Included(&start) => start.to_usize(),
        Bound::Excluded(&before) => before.to_usize().saturating_add(1),
        Bound::Unbounded => 0,
    };
    let end = match range.end_bound() {
        Bound::Included(&last) => last.to_usize().saturating_add(1),
        Bound::Excluded(&end) => end.to_usize(),
        Bound::Unbounded => len.max(start),
    };
    let number = match range.end_bound() {
        Bound::Included(&last) => {
            let number = last.to_usize().wrapping_sub(start).wrapping_add(1);
            // (All numbers there are, one too many to be counted.)
            if number == 0 && last.to_usize() == usize::MAX { usize::MAX } else { number }
        }
        _ => end.wrapping_sub(start),
    };
    (start..end, number)
}

/// Whether `n` elements from one on are among those that a range begins with.
#[inline(always)]
fn is_in((lo, len): (usize, usize), start: usize, n: usize) -> bool {
    let k = start.wrapping_sub(lo);
    k < len && n <= len - k
}

macro_rules! slices_of_views {
    ($view:ident: $($range:ident)*) => {
        impl<T: Stored + ?Sized, const C: usize, const W: usize> $view<'_, T, C, W> {
            /// Whether the ends of a range say enough to know that the running iteration owns its `n` elements, each less than `W`
            /// away from it: `here` is where it counts from.
            #[inline(always)]
            fn are_surely_owned<I: ElementIndex>(&self, start: usize, n: usize) -> bool {
                let near = Self::NEAR.wrapping_sub(1);
                let distance = start.wrapping_sub(self.iteration).wrapping_add(near);
                I::NEAR && Self::NEAR > 0 && self.near && distance <= 2 * near && n <= 2 * near + 1 - distance
            }

            #[inline(always)]
            #[track_caller]
            fn slice<I: ElementIndex>(&self, (range, n): (Range<usize>, usize)) -> &[T::Number] {
                let k = range.start.wrapping_sub(self.lo);
                let ptr = if self.are_surely_owned::<I>(range.start, n) {
                    self.behind(self.here, range.start)
                } else if is_in((self.lo, self.len), range.start, n) {
                    // SAFETY: the range is within the owned one.
                    unsafe { self.ptr.add(T::numbers(k, self.width)) }
                } else if self.more.iter().any(|more| is_in((more.lo, more.len), range.start, n)) {
                    self.behind(self.base, range.start)
                } else {
                    let own = ViewRange { lo: self.lo, len: self.len, wlen: self.wlen };
                    self.slow_path.reach_range(range, own, false).cast()
                };
                // SAFETY: rules 1 to 3, and 5: as many elements are there, each as many numbers, and nobody writes them while the view is borrowed.
                unsafe { std::slice::from_raw_parts(ptr, T::numbers(n, self.width)) }
            }
        }

        impl<T: Stored + ?Sized, const C: usize, const W: usize> Index<RangeFull> for $view<'_, T, C, W> {
            type Output = [T::Number];
            #[inline(always)]
            fn index(&self, _all: RangeFull) -> &[T::Number] {
                self.slice::<usize>((0..self.len(), self.len()))
            }
        }

        $(impl<T: Stored + ?Sized, I: ElementIndex, const C: usize, const W: usize> Index<$range<I>> for $view<'_, T, C, W> {
            type Output = [T::Number];
            #[inline(always)]
            #[track_caller]
            fn index(&self, range: $range<I>) -> &[T::Number] {
                self.slice::<I>(bounds(&range, self.len()))
            }
        })*
    };
}
slices_of_views!(ReadView: Range RangeFrom RangeInclusive RangeTo RangeToInclusive);
slices_of_views!(WriteView: Range RangeFrom RangeInclusive RangeTo RangeToInclusive);

impl<T: Stored + ?Sized, const C: usize, const W: usize> WriteView<'_, T, C, W> {
    #[inline(always)]
    #[track_caller]
    fn slice_mut<I: ElementIndex>(&mut self, (range, n): (Range<usize>, usize)) -> &mut [T::Number] {
        let k = range.start.wrapping_sub(self.lo);
        let ptr = if self.are_surely_owned::<I>(range.start, n) {
            self.behind(self.here, range.start)
        } else if is_in((self.lo, self.wlen), range.start, n) {
            // SAFETY: the range is within the owned one.
            unsafe { self.ptr.add(T::numbers(k, self.width)) }
        } else if self.more.iter().any(|more| is_in((more.lo, more.wlen), range.start, n)) {
            self.behind(self.base, range.start)
        } else {
            let own = ViewRange { lo: self.lo, len: self.len, wlen: self.wlen };
            self.slow_path.reach_range(range, own, true).cast()
        };
        // SAFETY: rules 1 to 3, and 5: as many elements are there, each as many numbers, this block's alone, and the view is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(ptr, T::numbers(n, self.width)) }
    }
}

impl<T: Stored + ?Sized, const C: usize, const W: usize> IndexMut<RangeFull> for WriteView<'_, T, C, W> {
    #[inline(always)]
    fn index_mut(&mut self, _all: RangeFull) -> &mut [T::Number] {
        let n = self.len();
        self.slice_mut::<usize>((0..n, n))
    }
}

macro_rules! slices_to_write {
    ($($range:ident)*) => {$(
        impl<T: Stored + ?Sized, I: ElementIndex, const C: usize, const W: usize> IndexMut<$range<I>> for WriteView<'_, T, C, W> {
            #[inline(always)]
            #[track_caller]
            fn index_mut(&mut self, range: $range<I>) -> &mut [T::Number] {
                let range = bounds(&range, self.len());
                self.slice_mut::<I>(range)
            }
        }
    )*};
}
slices_to_write!(Range RangeFrom RangeInclusive RangeTo RangeToInclusive);

impl<T: Stored<Number = T>, const C: usize, const W: usize> WriteView<'_, T, C, W> {
    /// All elements in their order, to change: those of `x[..]`. `for element in &mut x` does the same.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, T> {
        self[..].iter_mut()
    }
}

impl<'a, T: Stored<Number = T>, const C: usize, const W: usize> IntoIterator for &'a mut WriteView<'_, T, C, W> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}

// A body has its views by mutable reference.
impl<'a, T: Stored<Number = T>, const C: usize, const W: usize> IntoIterator for &'a mut &mut WriteView<'_, T, C, W> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter_mut()
    }
}
