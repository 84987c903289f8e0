//! DDSs that a loop's body only adds to: those that the capture list says (`sum x`), and those of which the macro has seen it.
//!
//! # Why this is sound
//! Views are made of slots that were filled from the wrapped handle's own description, which says one thing more: that a
//! slot may have a tally, of elements of the same type, in place of the DDS's elements.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ops::Range;

use crate::body::capture::{Adding, Capture, Captured, Kind, WriteCapture};
use crate::body::slot::Slot;
use crate::memory::additive::TallyOps;

/// What `sum x` in a capture list may name: a DDS whose elements or values are [`Additive`](crate::Additive), through any
/// number of mutable references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured as `sum`",
    label = "neither a DVector, a DMatrix nor a DMap of numbers, of arrays or tuples of them, or of other `Additive` values",
    note = "capture it as `&mut`, or implement `Additive` for its elements; a number of its own is a reduction: `session.sum(0.0)`"
)]
pub trait SumCapture: WriteCapture {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps;
}

impl<C: SumCapture + ?Sized> SumCapture for &mut C {
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps {
        C::tally_ops()
    }
}

/// A capture whose blocks may add to copies of it.
pub struct Summed<H> {
    handle: H,
    adding: Option<Adding>,
}

/// `sum x` of a capture list.
pub fn sum<C: SumCapture + ?Sized>(capture: &mut C) -> Summed<C::Handle<'_>> {
    Summed { handle: capture.handle(), adding: Some(Adding { ops: C::tally_ops(), declared: true }) }
}

/// `&mut x` of a capture list, where the body only adds to `x`. By the type of what was captured the macro's `adding` knows
/// whether it can be added up in copies.
pub fn summed<H>(adding: Option<Adding>, handle: H) -> Summed<H> {
    Summed { handle, adding }
}

/// A handle that can be added up in copies.
pub trait Tallied {
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps;
}

/// The type of a handle.
pub struct HandleType<H>(PhantomData<fn() -> H>);

/// Names the type of a handle.
pub fn handle_type<H>(_handle: &H) -> HandleType<H> {
    HandleType(PhantomData)
}

/// Chosen for handles that can be added up in copies.
pub trait AddsUp {
    #[doc(hidden)]
    fn adding(&self) -> Option<Adding>;
}

/// Chosen for all others.
pub trait AddsInOrder {
    #[doc(hidden)]
    fn adding(&self) -> Option<Adding>;
}

impl<H: Tallied> AddsUp for &HandleType<H> {
    fn adding(&self) -> Option<Adding> {
        Some(Adding { ops: H::tally_ops(), declared: false })
    }
}

impl<H> AddsInOrder for HandleType<H> {
    fn adding(&self) -> Option<Adding> {
        None
    }
}

impl<H: Capture> Capture for Summed<H> {
    type View<'v, const C: usize> = H::View<'v, C>;
    const KEY_INDEXES: usize = H::KEY_INDEXES;
    const HAS_NEAR: bool = H::HAS_NEAR;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        let mut captured = self.handle.describe();
        if let Kind::Vector { adding, .. } = &mut captured.kind {
            *adding = self.adding;
        }
        captured
    }

    #[allow(private_interfaces)]
    fn key_indexes(&mut self) -> Vec<Captured> {
        self.handle.key_indexes()
    }

    #[inline(always)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, key_indexes: &'v [Slot<'v>]) -> H::View<'v, C> {
        // SAFETY: the caller's promise; the description is the handle's own.
        unsafe { H::view_beside::<C>(slot, key_indexes) }
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut H::View<'_, C>, slot: &Slot<'_>) {
        H::begin::<C>(view, slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(view: &mut H::View<'_, C>, place: usize, first: usize, n: usize) -> Range<usize> {
        H::enter::<C>(view, place, first, n)
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut H::View<'_, C>, place: usize, i: usize) {
        H::turn_to::<C>(view, place, i);
    }

    #[inline(always)]
    fn is_fixed<const C: usize>(view: &H::View<'_, C>) -> bool {
        H::is_fixed::<C>(view)
    }

    #[inline(always)]
    fn turn_own<const C: usize>(view: &mut H::View<'_, C>, place: usize, i: usize) {
        H::turn_own::<C>(view, place, i);
    }

    #[inline(always)]
    fn set_near<const C: usize>(view: &mut H::View<'_, C>, near: bool) {
        H::set_near::<C>(view, near);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut H::View<'_, C>, i: usize) {
        H::step::<C>(view, i);
    }

    #[inline(always)]
    fn turn_to_row<const C: usize>(view: &mut H::View<'_, C>, k: usize) {
        H::turn_to_row::<C>(view, k);
    }

    #[inline(always)]
    fn finish<const C: usize>(view: &H::View<'_, C>, slot: &Slot<'_>) {
        H::finish::<C>(view, slot);
    }
}
