//! Several elements of a view at once, to change.
//!
//! # Why this is sound
//! As [`super`] says: each address is one of an element that the view may write, or of a scratch copy.
#![allow(unsafe_code)]

use super::WriteView;
use crate::body::index::ElementIndex;
use crate::body::stored::Stored;

impl<T: Stored + ?Sized, const C: usize, const W: usize> WriteView<'_, T, C, W> {
    /// One of several elements at once. Scratch copies are told apart by `nth`.
    fn nth_address_mut(&mut self, i: usize, nth: u8) -> *mut T::Number {
        let k = i.wrapping_sub(self.lo);
        if k < self.wlen {
            // SAFETY: k < wlen, so the element is in the owned range.
            unsafe { self.ptr.add(T::numbers(k, self.width)) }
        } else if self.is_written_besides(i) {
            self.behind(self.base, i)
        } else {
            self.slow_path.reach_nth(i, nth).cast()
        }
    }

    /// Element `i`, to change, or `None` if `i` is out of range.
    #[inline]
    pub fn get_mut(&mut self, i: impl ElementIndex) -> Option<&mut T> {
        let i = i.to_usize();
        (i < self.len()).then(|| &mut self[i])
    }

    /// Borrows two different elements at once.
    ///
    /// # Panics
    /// If `i == j`: an element can't be borrowed twice.
    #[inline]
    #[track_caller]
    pub fn pair_mut(&mut self, i: impl ElementIndex, j: impl ElementIndex) -> (&mut T, &mut T) {
        let [a, b] = self.many_mut([i.to_usize(), j.to_usize()]);
        (a, b)
    }

    /// Swaps two elements. If `i == j`, the element stays as it is, and counts as read.
    #[inline]
    #[track_caller]
    pub fn swap(&mut self, i: impl ElementIndex, j: impl ElementIndex) {
        let (i, j) = (i.to_usize(), j.to_usize());
        if i == j {
            self.at(i);
        } else {
            let (a, b) = self.pair_mut(i, j);
            a.swap(b);
        }
    }

    /// Borrows several different elements at once, at most 64.
    ///
    /// # Panics
    /// If two of the indices are equal: an element can't be borrowed twice.
    #[inline]
    #[track_caller]
    pub fn many_mut<const N: usize>(&mut self, indices: [impl ElementIndex; N]) -> [&mut T; N] {
        const { assert!(N <= 64, "many_mut gives at most 64 elements") };
        let indices = indices.map(ElementIndex::to_usize);
        for (k, i) in indices.iter().enumerate() {
            assert!(!indices[..k].contains(i), "element {i} is asked for twice at once");
        }
        let mut nth = 0;
        let addresses = indices.map(|i| {
            let address = self.nth_address_mut(i, nth);
            nth += 1;
            address
        });
        // SAFETY: rule 1 for each; the indices differ, and so do the scratch copies, which are told apart by
        // `nth`; the view stays borrowed as long as the references live.
        addresses.map(|address| unsafe { T::get_mut(address, self.width) })
    }
}
