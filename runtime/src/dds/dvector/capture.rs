//! How loops capture DVectors and DMatrices.
//!
//! # Why this is sound
//! Rule 1: as `body::capture` says: the engine makes views of slots that it filled from these descriptions.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::body::capture::{
    ByMerge, ByNothing, Capture, Captured, Dealt, Nothing, Read, ReadCapture, SharedCapture, Write, WriteCapture,
    WriteShared,
};
use crate::body::index::ElementIndex;
use crate::body::shared_view::SharedView;
use crate::body::slot::Slot;
use crate::body::summed::{SumCapture, Tallied};
use crate::body::view::{ReadView, WriteView};
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::memory::additive::{Additive, TallyOps, tally_ops_of};
use crate::memory::merge::{Merge, MergeOps, merge_ops_of, row_merge_ops_of};

/// A DDS whose elements are reached by index.
macro_rules! captured_by_index {
    ($($dds:ident<T> of $element:ty;)*) => {$(
        impl<T: 'static> ReadCapture for $dds<T> {
            type Dds = Self;
            fn dds(&self) -> &Self {
                self
            }
        }

        impl<T: 'static> WriteCapture for $dds<T> {
            type Handle<'h> = Write<'h, $dds<T>>;
            fn handle(&mut self) -> Write<'_, $dds<T>> {
                Write(self)
            }
        }

        impl<T: 'static, const W: usize> Capture for Read<'_, $dds<T>, W> {
            type View<'v, const C: usize> = ReadView<'v, $element, C, W>;
            const HAS_NEAR: bool = ReadView::<'_, $element, 0, W>::NEAR > 0;
            const HAS_WHOLE: bool = ReadView::<'_, $element, 0, W>::HAS_WHOLE;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                self.0.describe(false)
            }

            unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> ReadView<'v, $element, C, W> {
                // SAFETY: rule 1.
                unsafe { ReadView::new(slot) }
            }

            #[inline(always)]
            fn begin<const C: usize>(view: &mut ReadView<'_, $element, C, W>, slot: &Slot<'_>) {
                view.begin(slot);
            }

            #[inline(always)]
            fn enter<const C: usize>(view: &mut ReadView<'_, $element, C, W>, place: usize, first: usize, n: usize) -> Range<usize> {
                view.enter(place, first, n);
                view.near()
            }

            #[inline(always)]
            fn turn_to<const C: usize>(view: &mut ReadView<'_, $element, C, W>, place: usize, i: usize) {
                view.turn_to(place, i);
            }

            #[inline(always)]
            fn is_fixed<const C: usize>(view: &ReadView<'_, $element, C, W>) -> bool {
                view.is_fixed()
            }

            #[inline(always)]
            fn turn_own<const C: usize>(view: &mut ReadView<'_, $element, C, W>, place: usize, i: usize) {
                view.turn_own(place, i);
            }

            #[inline(always)]
            fn is_scattered<const C: usize>(view: &ReadView<'_, $element, C, W>) -> bool {
                view.is_scattered()
            }

            #[inline(always)]
            fn fetch_own<const C: usize>(view: &ReadView<'_, $element, C, W>, i: usize) {
                view.fetch_own(i);
            }

            #[inline(always)]
            fn set_near<const C: usize>(view: &mut ReadView<'_, $element, C, W>, near: bool) {
                view.set_near(near);
            }

            #[inline(always)]
            fn may_be_whole<const C: usize>(view: &ReadView<'_, $element, C, W>) -> bool {
                view.may_be_whole()
            }

            #[inline(always)]
            fn set_whole<const C: usize>(view: &mut ReadView<'_, $element, C, W>, whole: bool) {
                view.set_whole(whole);
            }

            #[inline(always)]
            fn step<const C: usize>(view: &mut ReadView<'_, $element, C, W>, i: usize) {
                view.step(i);
            }
        }

        impl<T: 'static, const W: usize> Capture for Write<'_, $dds<T>, W> {
            type View<'v, const C: usize> = WriteView<'v, $element, C, W>;
            const IN_TILES: bool = WriteView::<'_, $element, 0, W>::IN_TILES;
            const HAS_NEAR: bool = WriteView::<'_, $element, 0, W>::NEAR > 0;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                self.0.describe(true)
            }

            unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> WriteView<'v, $element, C, W> {
                // SAFETY: rule 1.
                unsafe { WriteView::new(slot) }
            }

            #[inline(always)]
            fn begin<const C: usize>(view: &mut WriteView<'_, $element, C, W>, slot: &Slot<'_>) {
                view.begin(slot);
            }

            #[inline(always)]
            fn enter<const C: usize>(view: &mut WriteView<'_, $element, C, W>, place: usize, first: usize, n: usize) -> Range<usize> {
                view.enter(place, first, n);
                view.look_ahead(place);
                view.near()
            }

            #[inline(always)]
            fn turn_to<const C: usize>(view: &mut WriteView<'_, $element, C, W>, place: usize, i: usize) {
                view.turn_to(place, i);
                view.look_ahead(place);
            }

            #[inline(always)]
            fn is_fixed<const C: usize>(view: &WriteView<'_, $element, C, W>) -> bool {
                view.is_fixed() && view.looks_nowhere()
            }

            #[inline(always)]
            fn turn_own<const C: usize>(view: &mut WriteView<'_, $element, C, W>, place: usize, i: usize) {
                view.turn_own(place, i);
            }

            #[inline(always)]
            fn is_scattered<const C: usize>(view: &WriteView<'_, $element, C, W>) -> bool {
                view.is_scattered()
            }

            #[inline(always)]
            fn fetch_own<const C: usize>(view: &WriteView<'_, $element, C, W>, i: usize) {
                view.fetch_own(i);
            }

            #[inline(always)]
            fn set_near<const C: usize>(view: &mut WriteView<'_, $element, C, W>, near: bool) {
                view.set_near(near);
            }

            #[inline(always)]
            fn step<const C: usize>(view: &mut WriteView<'_, $element, C, W>, i: usize) {
                view.step(i);
            }

            #[inline(always)]
            fn turn_to_row<const C: usize>(view: &mut WriteView<'_, $element, C, W>, k: usize) {
                view.turn_to_row(k);
            }
        }
    )*};
}
captured_by_index! {
    DVector<T> of T;
    DMatrix<T> of [T];
}

impl<T: 'static> Capture for Dealt<'_, DVector<T>> {
    type View<'v, const C: usize> = ReadView<'v, T, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        Captured { dealt: true, ..self.0.describe(false) }
    }

    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> ReadView<'v, T, C> {
        // SAFETY: rule 1.
        unsafe { ReadView::new(slot) }
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut ReadView<'_, T, C>, slot: &Slot<'_>) {
        view.begin(slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(view: &mut ReadView<'_, T, C>, place: usize, first: usize, n: usize) -> Range<usize> {
        <Read<'_, DVector<T>>>::enter(view, place, first, n)
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut ReadView<'_, T, C>, place: usize, i: usize) {
        view.turn_to(place, i);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut ReadView<'_, T, C>, i: usize) {
        view.step(i);
    }
}

// (These are not made by the macro below: rustc shows them to who captures something else.)

impl<T: Merge> SharedCapture<ByMerge> for DVector<T> {
    type Handle<'h> = WriteShared<'h, DVector<T>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DVector<T>> {
        WriteShared(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Merge + Nothing> SharedCapture<ByNothing> for DVector<T> {
    type Handle<'h> = WriteShared<'h, DVector<T>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DVector<T>> {
        WriteShared(self)
    }
}

impl<T: Merge> SharedCapture<ByMerge> for DMatrix<T> {
    type Handle<'h> = WriteShared<'h, DMatrix<T>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DMatrix<T>> {
        WriteShared(self)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Merge + Nothing> SharedCapture<ByNothing> for DMatrix<T> {
    type Handle<'h> = WriteShared<'h, DMatrix<T>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DMatrix<T>> {
        WriteShared(self)
    }
}

/// The same, in a synchronous loop that writes them.
macro_rules! shared_by_index {
    ($($dds:ident<T> of $element:ty, $merge:ident;)*) => {$(
        impl<T: Merge> Capture for WriteShared<'_, $dds<T>> {
            type View<'v, const C: usize> = SharedView<'v, $element, C>;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                self.0.describe(true)
            }

            unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> SharedView<'v, $element, C> {
                const { assert!(T::PLAIN, "elements that a synchronous loop writes must be plain: numbers, and arrays of them") };
                // SAFETY: rule 1.
                unsafe { SharedView::new(slot) }
            }

            #[allow(private_interfaces)]
            fn merge() -> Option<&'static MergeOps> {
                Some($merge::<T>())
            }
        }
    )*};
}
shared_by_index! {
    DVector<T> of T, merge_ops_of;
    DMatrix<T> of [T], row_merge_ops_of;
}

impl<T: Additive> SumCapture for DVector<T> {
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps {
        tally_ops_of::<T>()
    }
}

impl<T: Additive> SumCapture for DMatrix<T> {
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps {
        tally_ops_of::<T>()
    }
}

macro_rules! added_by_index {
    ($($dds:ident)*) => {$(
        impl<T: Additive, const W: usize> Tallied for Write<'_, $dds<T>, W> {
            #[allow(private_interfaces)]
            fn tally_ops() -> &'static TallyOps {
                tally_ops_of::<T>()
            }
        }
    )*};
}
added_by_index!(DVector DMatrix);

impl<T: Additive, const C: usize, const W: usize> WriteView<'_, T, C, W> {
    /// Adds `by` to the element at `k`, to all of an array or a tuple at once. Integers wrap around.
    #[inline(always)]
    #[allow(clippy::needless_pass_by_value, reason = "bodies make what they add on the spot")]
    pub fn add(&mut self, k: impl ElementIndex, by: T) {
        self[k].unite(&by);
    }
}

impl<T: Additive, const C: usize, const W: usize> WriteView<'_, [T], C, W> {
    /// Adds `by` to the row at `k`, number by number. Integers wrap around.
    ///
    /// # Panics
    /// If `by` isn't as long as the row.
    #[inline(always)]
    pub fn add(&mut self, k: impl ElementIndex, by: &[T]) {
        let row = &mut self[k];
        assert!(row.len() == by.len(), "a row of {} numbers and one of {}", row.len(), by.len());
        row.iter_mut().zip(by).for_each(|(own, by)| own.unite(by));
    }
}
