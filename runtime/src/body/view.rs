//! What a loop body sees of a DDS: a view of the elements that its block owns.
//!
//! # Why this is sound
//! A view is made by the engine for one block of iterations on one thread, and says which elements may be
//! reached without asking: those from `lo` on, `len` of them to be read, `wlen` of them to be written.
//!
//! 1. While the block runs, no other thread writes an element of the view's readable range, and no other
//!    thread touches one of its writable range. The executor guarantees it: two blocks that share a part
//!    which one of them writes are ordered, and run one after the other.
//! 2. One comparison (`index - lo < len`, wrapping) is both the bounds check and this ownership check.
//!    What fails it goes to the view's slow path ([`SlowPath`]), which gives the address of an element that the block owns
//!    by other means, of a scratch copy (while recording), or unwinds. It lives in the slot, which the view borrows.
//! 3. Within the block the borrow checker does the rest: a view is neither `Clone` nor `Copy`, reads borrow
//!    it shared, writes borrow it alone, and the loop body must accept any lifetime, so that no reference
//!    outlives its iteration. Several elements at once are given by `pair_mut` and `many_mut`, which refuse
//!    equal indices.
//! 4. [`ReadView`]s are of DDSs captured by shared reference: the driver's borrow lasts as long as the loop
//!    and no view of it writes.
//! 5. In blocks whose iterations each own the element of their own number, the slot says so (`here`), and `step` says
//!    before each iteration which one runs. An index that is that number, compared here, needs no other comparison; where the
//!    body writes the loop's own index, the compiler knows the outcome. Before `begin`, while a block's scratch is set up,
//!    no iteration runs, and a view makes no use of it.
//! 6. What an index that stands ahead leads to is only fetched, never read: it may be anything.
#![allow(unsafe_code)]

mod slices;

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

use crate::body::index::ElementIndex;
use crate::body::slot::{Ahead, Slot};
use crate::body::slow_path::SlowPath;
use crate::kernels::fetch;

macro_rules! common_to_views {
    ($view:ident $(, $ahead:ident)?) => {
        impl<'v, T, const C: usize> $view<'v, T, C> {
            /// # Safety
            /// The slot describes elements of type T that meet the rules above while the view lives. Blocks of
            /// `CONSECUTIVE` iterations have nothing packed and nothing tracked.
            #[inline(always)]
            pub(crate) unsafe fn new<const CONSECUTIVE: bool>(slot: &'v Slot<'v>) -> Self {
                let range = slot.range();
                $view {
                    ptr: slot.ptr().cast(),
                    lo: range.lo,
                    len: range.len,
                    wlen: range.wlen,
                    slow_path: slot.slow_path(),
                    here_base: slot.base().cast(),
                    here_read: false,
                    here_write: false,
                    here_packed: !CONSECUTIVE && slot.here().is_packed(),
                    tracked: !CONSECUTIVE && slot.is_tracked(),
                    $($ahead: if CONSECUTIVE { Ahead::NOTHING } else { slot.ahead() },)?
                    place: 0,
                    iteration: usize::MAX,
                    lifetime: PhantomData,
                }
            }

            /// The first iteration is about to begin (rule 5). The slot is the one that the view was made of.
            #[inline(always)]
            pub(crate) fn begin(&mut self, slot: &Slot<'_>) {
                (self.here_read, self.here_write) = (slot.here().read, slot.here().write);
            }

            /// Moves on to the `j`-th iteration of the block, which is iteration `i` of the loop.
            #[inline(always)]
            pub(crate) fn step(&mut self, j: usize, i: usize) {
                self.place = j;
                self.iteration = i;
                if self.tracked {
                    let first = self.slow_path.begin_iteration(j, i);
                    (self.lo, self.len, self.wlen) = (first.lo, first.len, first.wlen);
                    self.ptr = self.here_base.wrapping_add(self.lo);
                }
            }

            /// How many elements the whole DVector has.
            #[inline]
            pub fn len(&self) -> usize {
                self.slow_path.dds_len()
            }

            /// Whether the DVector has no elements.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Element `i`, or none if the DVector ends before.
            #[inline]
            pub fn get(&self, i: impl ElementIndex) -> Option<&T> {
                let i = i.to_usize();
                (i < self.len()).then(|| self.at(i))
            }

            /// All elements, one after the other. Each is read when it is asked for; `for element in &x` does the same.
            #[inline]
            pub fn iter(&self) -> Elements<'_, Self> {
                Elements { view: self, left: 0..self.len() }
            }

            #[inline(always)]
            fn at(&self, i: usize) -> &T {
                let k = i.wrapping_sub(self.lo);
                let ptr = if k < self.len {
                    // SAFETY: k < len, so the element is in the owned range.
                    unsafe { self.ptr.add(k) }
                } else {
                    self.slow_path.reach_read(i).cast()
                };
                // SAFETY: rules 1 and 3: nobody writes this element while the view is borrowed.
                unsafe { &*ptr }
            }

            /// The running iteration's own element.
            #[inline(always)]
            fn here(&self) -> *mut T {
                self.here_base.wrapping_add(if self.here_packed { self.place } else { self.iteration })
            }
        }

        // A body has its views by mutable reference.
        impl<'a, 'v, T, const C: usize> IntoIterator for &'a &mut $view<'v, T, C> {
            type Item = &'a T;
            type IntoIter = Elements<'a, $view<'v, T, C>>;
            #[inline]
            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl<'a, 'v, T, const C: usize> Iterator for Elements<'a, $view<'v, T, C>> {
            type Item = &'a T;
            #[inline]
            fn next(&mut self) -> Option<&'a T> {
                self.left.next().map(|i| self.view.at(i))
            }
            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.left.size_hint()
            }
        }

        impl<'a, 'v, T, const C: usize> DoubleEndedIterator for Elements<'a, $view<'v, T, C>> {
            #[inline]
            fn next_back(&mut self) -> Option<&'a T> {
                self.left.next_back().map(|i| self.view.at(i))
            }
        }

        impl<'a, 'v, T, const C: usize> ExactSizeIterator for Elements<'a, $view<'v, T, C>> {}

        impl<T, I: ElementIndex, const C: usize> Index<I> for $view<'_, T, C> {
            type Output = T;
            #[inline(always)]
            fn index(&self, i: I) -> &T {
                let i = i.to_usize();
                if I::OWN && self.here_read && i == self.iteration {
                    // SAFETY: rule 5.
                    unsafe { &*self.here() }
                } else {
                    self.at(i)
                }
            }
        }
    };
}

/// The elements of a view that are left to be read.
pub struct Elements<'a, V> {
    view: &'a V,
    left: Range<usize>,
}

/// A DVector captured as `&x`: its elements are read by index.
///
/// `C` is its place among the captures: views of different captures are of different types, so that a body can't make
/// them change places.
#[allow(dead_code)]
pub struct ReadView<'v, T, const C: usize> {
    ptr: *mut T,
    lo: usize,
    len: usize,
    wlen: usize,
    slow_path: &'v SlowPath<'v>,
    here_base: *mut T,
    here_read: bool,
    here_write: bool,
    here_packed: bool,
    tracked: bool,
    place: usize,
    iteration: usize,
    lifetime: PhantomData<&'v T>,
}

common_to_views!(ReadView);

/// A DVector captured as `&mut x`: its elements are read and written by index.
///
/// `C` is its place among the captures.
pub struct WriteView<'v, T, const C: usize> {
    ptr: *mut T,
    lo: usize,
    len: usize,
    wlen: usize,
    slow_path: &'v SlowPath<'v>,
    here_base: *mut T,
    here_read: bool,
    here_write: bool,
    here_packed: bool,
    tracked: bool,
    ahead: Ahead<'v>,
    place: usize,
    iteration: usize,
    lifetime: PhantomData<&'v mut T>,
}

common_to_views!(WriteView, ahead);

impl<T, const C: usize> WriteView<'_, T, C> {
    /// Fetches the element of an iteration to come, where its index is known.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, j: usize) {
        if let Some(i) = self.ahead.index(j) {
            fetch(self.ptr.wrapping_add((i as usize).wrapping_sub(self.lo)));
        }
    }

    #[inline(always)]
    fn address_mut(&mut self, i: usize) -> *mut T {
        let k = i.wrapping_sub(self.lo);
        if k < self.wlen {
            // SAFETY: k < wlen, so the element is in the owned range.
            unsafe { self.ptr.add(k) }
        } else {
            self.slow_path.reach_write(i).cast()
        }
    }

    /// One of several elements at once. Scratch copies are told apart by `nth`.
    fn nth_address_mut(&mut self, i: usize, nth: u8) -> *mut T {
        let k = i.wrapping_sub(self.lo);
        if k < self.wlen {
            // SAFETY: k < wlen, so the element is in the owned range.
            unsafe { self.ptr.add(k) }
        } else {
            self.slow_path.reach_nth(i, nth).cast()
        }
    }

    /// Two different elements at once.
    ///
    /// # Panics
    /// If `i == j`: an element can't be borrowed twice.
    #[inline]
    pub fn pair_mut(&mut self, i: impl ElementIndex, j: impl ElementIndex) -> (&mut T, &mut T) {
        let [a, b] = self.many_mut([i.to_usize(), j.to_usize()]);
        (a, b)
    }

    /// Exchanges two elements. If they are one, it stays as it is, and is read.
    #[inline]
    pub fn swap(&mut self, i: impl ElementIndex, j: impl ElementIndex) {
        let (i, j) = (i.to_usize(), j.to_usize());
        if i == j {
            self.at(i);
        } else {
            let (a, b) = self.pair_mut(i, j);
            std::mem::swap(a, b);
        }
    }

    /// Several different elements at once, at most 64.
    ///
    /// # Panics
    /// If two of the indices are equal: an element can't be borrowed twice.
    #[inline]
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
        addresses.map(|address| unsafe { &mut *address })
    }
}

impl<T, I: ElementIndex, const C: usize> IndexMut<I> for WriteView<'_, T, C> {
    #[inline(always)]
    fn index_mut(&mut self, i: I) -> &mut T {
        let i = i.to_usize();
        let own = I::OWN && self.here_write && i == self.iteration;
        let address = if own { self.here() } else { self.address_mut(i) };
        // SAFETY: rules 1 and 3 (and 5): the element is this block's alone, and the view is borrowed alone.
        unsafe { &mut *address }
    }
}
