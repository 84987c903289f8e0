//! What the body of a synchronous loop sees of a DDS captured as `&mut x`: elements that copies and threads share.
//!
//! # Why this is sound
//! 1. The slot's base is the address of `len` plain elements, which stay where they are while the loop runs, and which
//!    everybody reaches through [`Shared`] only: its accesses are atomic.
//! 2. An index is compared with `len` before an address is made of it.
//! 3. A row of a copy's table is reached directly only where its stamp is `now`: it holds a value of this round then. The masked index of a
//!    stamp is below their number, unless there are none (`Slot::of_rows`).
//! 4. A path lives in the slot that the view borrows. It gives addresses of elements of the same kind; a thread's own copies are such
//!    elements.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Index;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use crate::body::index::ElementIndex;
use crate::body::slot::{HotCopies, Slot};
use crate::body::stored::SharedRow;
use crate::memory::shared::Shared;

/// A DVector captured as `&mut x` by a synchronous loop. `x[i]`, with an integer of any type, gives a [`Shared`] element, which is
/// read and changed by its methods: `x[i].get()`, `x[i].add(d)`, `x[i].dot(&row)`.
///
/// For a DMatrix it gives rows, `Shared<[N]>`, of the DMatrix's width.
///
/// `C` is its place among the captures.
///
/// # Dependencies
/// Accesses make no minibatches conflict. The policy says which changes of other copies a read sees.
pub struct SharedView<'v, T: SharedRow + ?Sized, const C: usize> {
    base: *const T::Number,
    /// Of a row.
    width: T::Width,
    len: usize,
    /// Null where all rows are there.
    stamps: *const AtomicU32,
    shift: u32,
    mask: usize,
    now: u32,
    copies: HotCopies<'v>,
    slot: &'v Slot<'v>,
    lifetime: PhantomData<&'v T>,
}

impl<'v, T: SharedRow + ?Sized, const C: usize> SharedView<'v, T, C> {
    /// # Safety
    /// The slot describes elements of type T that meet the rules above while the view lives.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: &'v Slot<'v>) -> Self {
        let rows = slot.rows();
        SharedView {
            base: rows.map_or(std::ptr::null(), |rows| rows.base.cast::<T::Number>().cast_const()),
            width: T::width(slot.width()),
            len: rows.map_or(0, |rows| rows.len),
            stamps: rows.filter(|rows| !rows.stamps.is_empty()).map_or(std::ptr::null(), |rows| rows.stamps.as_ptr()),
            shift: rows.map_or(0, |rows| rows.shift),
            mask: rows.map_or(0, |rows| rows.mask),
            now: rows.map_or(0, |rows| rows.now),
            copies: rows.map_or(HotCopies::NONE, |rows| rows.copies),
            slot,
            lifetime: PhantomData,
        }
    }

    /// How many elements the whole DVector has.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether the DVector has no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline(always)]
    fn at(&self, i: usize) -> &Shared<T> {
        if i >= self.len {
            self.slot.no_such_row(i);
        }
        // SAFETY: rules 2 and 3.
        let here = || unsafe { T::shared(self.base.add(T::numbers(i, self.width)), self.width) };
        if self.stamps.is_null() {
            return here();
        }
        // SAFETY: rules 2 and 3.
        let stamp = unsafe { (*self.stamps.add(i >> self.shift & self.mask)).load(Acquire) };
        if stamp == self.now {
            return here();
        }
        let place = (stamp as usize).wrapping_sub(1);
        let at = match self.copies.copies.get(place) {
            Some(copy) if copy.take(i) => self.copies.base.wrapping_add(place * self.copies.stride),
            _ => self.slot.reach_row(i),
        };
        // SAFETY: rule 4.
        unsafe { T::shared(at.cast_const().cast(), self.width) }
    }
}

impl<T: SharedRow + ?Sized, I: ElementIndex, const C: usize> Index<I> for SharedView<'_, T, C> {
    type Output = Shared<T>;
    #[inline(always)]
    fn index(&self, i: I) -> &Shared<T> {
        self.at(i.to_usize())
    }
}
