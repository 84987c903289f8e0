//! What the body of a synchronous loop sees of a DDS captured as `&mut x`: elements that copies and threads share.
//!
//! # Why this is sound
//! 1. The slot's base is the address of `len` plain elements, which stay where they are while the loop runs, and which
//!    everybody reaches through [`Shared`] only: its accesses are atomic.
//! 2. An index is compared with `len` before an address is made of it.
//! 3. A row of a copy's table is reached directly only where its stamp is `now`: it holds a value of this round then (see
//!    `table`). The masked index of a stamp is below `len` or 0, and there is at least one stamp.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Index;
use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use super::table::Touch;
use crate::body::context::Slot;
use crate::memory::shared::Shared;

/// A DVector captured as `&mut x` by a synchronous loop. `x[i]` (`usize` or `u32`) gives a [`Shared`] element, which is
/// read and changed by its methods: `x[i].get()`, `x[i].add(d)`, `x[i].dot(&row)`.
///
/// `C` is its place among the captures.
pub struct SharedView<'v, T, const C: usize> {
    base: *const Shared<T>,
    len: usize,
    stamps: *const AtomicU32,
    mask: usize,
    now: u32,
    touch: *const Touch<'static>,
    lifetime: PhantomData<&'v T>,
}

/// From what a [`SharedView`] is made, besides address and length.
pub(crate) struct SharedSlot {
    pub(crate) stamps: *const AtomicU32,
    /// All bits, or none where one stamp stands for all rows.
    pub(crate) mask: usize,
    pub(crate) now: u32,
    pub(crate) touch: *const Touch<'static>,
}

impl SharedSlot {
    pub(crate) const NONE: SharedSlot =
        SharedSlot { stamps: std::ptr::null(), mask: 0, now: 0, touch: std::ptr::null() };
}

impl<'v, T, const C: usize> SharedView<'v, T, C> {
    /// # Safety
    /// The slot describes elements of type T that meet the rules above while the view lives.
    #[inline(always)]
    pub(crate) unsafe fn new(slot: &'v Slot) -> Self {
        SharedView {
            base: slot.ptr.cast::<Shared<T>>().cast_const(),
            len: slot.len,
            stamps: slot.shared.stamps,
            mask: slot.shared.mask,
            now: slot.shared.now,
            touch: slot.shared.touch,
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
        // SAFETY: rules 2 and 3. The cold side lives as long as the view, and gives addresses of rows only.
        unsafe {
            if i < self.len && (*self.stamps.add(i & self.mask)).load(Acquire) == self.now {
                &*self.base.add(i)
            } else {
                &*Touch::reach(self.touch, i).cast::<Shared<T>>()
            }
        }
    }
}

impl<T, const C: usize> Index<usize> for SharedView<'_, T, C> {
    type Output = Shared<T>;
    #[inline(always)]
    fn index(&self, i: usize) -> &Shared<T> {
        self.at(i)
    }
}

impl<T, const C: usize> Index<u32> for SharedView<'_, T, C> {
    type Output = Shared<T>;
    #[inline(always)]
    fn index(&self, i: u32) -> &Shared<T> {
        self.at(i as usize)
    }
}
