//! What a loop may capture by reference, and tuples of such captures.
//!
//! # Why this is sound
//! `describe` hands the engine addresses that are good for the borrow which the handle holds; the loop keeps
//! the handles until its last block has ended. `view` is called by the engine only, with slots that it filled
//! from these descriptions: the type of a capture decides both the description and the view.
#![allow(unsafe_code)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::body::context::Slot;
use crate::body::view::{ReadView, WriteView};
use crate::dds::dvector::DVector;
use crate::dds::reduction::{
    Count, CountView, Extreme, ExtremeView, Number, Reduction, ReductionOps, Sum, SumView, Which,
};
use crate::dds::relaxed::{Cell, Relaxed, RelaxedNumberView, RelaxedOps, RelaxedVector, RelaxedView};
use crate::memory::buffer::{ElementOps, Home, RawBuf};
use crate::memory::element::Element;
use crate::memory::merge::{Merge, MergeOps, merge_ops_of};
use crate::minibatch::SharedView;
use crate::session::SessionInner;

/// A shared borrow of a DDS or a reduction, from `&x` in a capture list.
pub struct Read<'h, D>(pub(crate) &'h D);

/// A borrow of a DDS alone, from `&mut x` in a capture list.
pub struct Write<'h, D>(pub(crate) &'h mut D);

/// A borrow of a DDS alone whose elements a synchronous loop shares, from `&mut x` in its capture list.
pub struct WriteShared<'h, D>(pub(crate) &'h mut D);

/// What the engine knows of a capture, without its type. Addresses are good as long as the loop's borrows.
pub(crate) struct Captured {
    pub(crate) id: u64,
    pub(crate) session: Arc<SessionInner>,
    pub(crate) kind: Kind,
    /// What keeps a DVector's elements in this process.
    pub(crate) home: Option<Home>,
}

#[derive(Clone)]
pub(crate) enum Kind {
    Vector {
        base: *mut u8,
        len: usize,
        ops: &'static ElementOps,
        writable: bool,
        version: *const AtomicU64,
    },
    Reduction {
        ops: &'static ReductionOps,
        cell: *const Reduction,
    },
    /// On a worker the cell is null: what the state was before is told with each run.
    Relaxed {
        ops: &'static RelaxedOps,
        cell: *const Cell,
        len: usize,
    },
}

// SAFETY: the addresses are of DVectors and reductions, which are Send and Sync, and the threads of a loop
// end before the loop returns the borrow. Who may touch which element is the views' argument.
unsafe impl Send for Captured {}
// SAFETY: as above.
unsafe impl Sync for Captured {}

impl Captured {
    /// The loop ended well: a reduction takes its new value, and what may have been written a new version.
    pub(crate) fn commit(&self, word: u64, version: u64) {
        match self.kind {
            // SAFETY: the loop holds both borrowed.
            Kind::Reduction { cell, .. } => unsafe { (*cell).set_word(word) },
            // SAFETY: as above.
            Kind::Vector { writable: true, version: at, .. } => unsafe { (*at).store(version, Ordering::Relaxed) },
            Kind::Vector { .. } | Kind::Relaxed { .. } => {}
        }
    }

    /// A copy of relaxed state, where this process has it.
    pub(crate) fn relaxed(&self) -> Option<RawBuf> {
        match self.kind {
            // SAFETY: the loop holds it borrowed.
            Kind::Relaxed { cell, .. } if !cell.is_null() => Some(unsafe { (*cell).copy() }),
            _ => None,
        }
    }

    /// The loop ended well: relaxed state takes its new values.
    pub(crate) fn commit_relaxed(&self, values: RawBuf) {
        if let Kind::Relaxed { cell, .. } = self.kind {
            // SAFETY: the loop holds it borrowed.
            unsafe { (*cell).replace(values) };
        }
    }

    /// Whether it is state that blocks only add to, and which has no place in a plan.
    pub(crate) fn is_added_to(&self) -> bool {
        matches!(self.kind, Kind::Reduction { .. } | Kind::Relaxed { .. })
    }
}

/// One capture by reference.
#[doc(hidden)]
pub trait Capture {
    /// What the loop body gets.
    type View<'v, const C: usize>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured;
    /// How many DDSs the engine is given for it besides its own: a map's index.
    #[doc(hidden)]
    const COMPANIONS: usize = 0;
    /// Those, which come after all captures, so that the captures' numbers are what the program's are.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn companions(&mut self) -> Vec<Captured> {
        Vec::new()
    }
    /// # Safety
    /// The slots were filled from the descriptions of this capture and of its companions, and meet the view's rules.
    #[doc(hidden)]
    unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(
        slot: &'v Slot,
        companions: &'v [Slot],
    ) -> Self::View<'v, C>;
    /// The view of a capture without companions.
    ///
    /// # Safety
    /// The slot was filled from this capture's description, and meets the view's rules.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn view<'v, const C: usize, const CONSECUTIVE: bool>(slot: &'v Slot) -> Self::View<'v, C> {
        const { assert!(Self::COMPANIONS == 0, "this capture has companions") };
        // SAFETY: passed on.
        unsafe { Self::view_beside::<C, CONSECUTIVE>(slot, &[]) }
    }
    #[doc(hidden)]
    fn step<const C: usize>(view: &mut Self::View<'_, C>, j: usize, i: usize);
    #[doc(hidden)]
    fn finish<const C: usize>(_view: &Self::View<'_, C>, _slot: &Slot) {}
    /// In a synchronous loop: how changes of copies are united.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn merge() -> Option<&'static MergeOps> {
        None
    }
}

impl<T: 'static> Capture for Read<'_, DVector<T>> {
    type View<'v, const C: usize> = ReadView<'v, T, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.describe(false)
    }

    unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(
        slot: &'v Slot,
        _: &'v [Slot],
    ) -> ReadView<'v, T, C> {
        // SAFETY: passed on.
        unsafe { ReadView::new::<CONSECUTIVE>(slot) }
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut ReadView<'_, T, C>, j: usize, i: usize) {
        view.step(j, i);
    }
}

impl<T: 'static> Capture for Write<'_, DVector<T>> {
    type View<'v, const C: usize> = WriteView<'v, T, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.describe(true)
    }

    unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(
        slot: &'v Slot,
        _: &'v [Slot],
    ) -> WriteView<'v, T, C> {
        // SAFETY: passed on.
        unsafe { WriteView::new::<CONSECUTIVE>(slot) }
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut WriteView<'_, T, C>, j: usize, i: usize) {
        view.step(j, i);
        view.look_ahead(j);
    }
}

impl<T: Merge> Capture for WriteShared<'_, DVector<T>> {
    type View<'v, const C: usize> = SharedView<'v, T, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.describe(true)
    }

    unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(
        slot: &'v Slot,
        _: &'v [Slot],
    ) -> SharedView<'v, T, C> {
        const { assert!(T::PLAIN, "elements that a synchronous loop writes must be plain: numbers, and arrays of them") };
        // SAFETY: passed on.
        unsafe { SharedView::new(slot) }
    }

    #[inline(always)]
    fn step<const C: usize>(_view: &mut SharedView<'_, T, C>, _j: usize, _i: usize) {}

    #[allow(private_interfaces)]
    fn merge() -> Option<&'static MergeOps> {
        Some(merge_ops_of::<T>())
    }
}

macro_rules! reductions {
    ($([$($generic:tt)*] $reduction:ty, $view:ident;)*) => {$(
        impl<$($generic)*> Capture for Read<'_, $reduction> {
            type View<'v, const C: usize> = $view!('v);

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                let (session, cell, ops) = self.0.parts();
                Captured {
                    id: cell.id(),
                    session: Arc::clone(session),
                    kind: Kind::Reduction { ops, cell: &raw const **cell },
                    home: None,
                }
            }

            unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(slot: &'v Slot, _: &'v [Slot]) -> Self::View<'v, C> {
                <$view!('v)>::new(slot)
            }

            #[inline(always)]
            fn step<const C: usize>(view: &mut Self::View<'_, C>, _j: usize, i: usize) {
                view.step(i);
            }


            #[inline(always)]
            fn finish<const C: usize>(view: &Self::View<'_, C>, slot: &Slot) {
                view.finish(slot);
            }
        }
    )*};
}
macro_rules! sum_view { ($v:lifetime) => { SumView<$v, N, C> } }
macro_rules! extreme_view { ($v:lifetime) => { ExtremeView<$v, N, W, C> } }
macro_rules! count_view { ($v:lifetime) => { CountView<$v, C> } }
reductions! {
    [N: Number] Sum<N>, sum_view;
    [N: Number, W: Which] Extreme<N, W>, extreme_view;
    [] Count, count_view;
}

macro_rules! relaxed {
    ($($t:ident, $view:ident;)*) => {$(
        impl<N: Number + Element> Capture for Read<'_, $t<N>> {
            type View<'v, const C: usize> = $view<'v, N, C>;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                let (session, cell, ops) = self.0.parts();
                Captured {
                    id: cell.id,
                    session: Arc::clone(session),
                    kind: Kind::Relaxed { ops, cell: &raw const **cell, len: cell.len },
                    home: None,
                }
            }

            unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(slot: &'v Slot, _: &'v [Slot]) -> Self::View<'v, C> {
                // SAFETY: passed on.
                unsafe { $view::new(slot) }
            }

            #[inline(always)]
            fn step<const C: usize>(_view: &mut Self::View<'_, C>, _j: usize, _i: usize) {}
        }
    )*};
}
relaxed! {
    RelaxedVector, RelaxedView;
    Relaxed, RelaxedNumberView;
}

/// A tuple of captures.
#[doc(hidden)]
pub trait Handles {
    /// What the loop body gets.
    type Views<'v>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn describe(&mut self) -> Vec<Captured>;
    /// # Safety
    /// As for every single capture; there is a slot for each, and then for each companion.
    #[doc(hidden)]
    unsafe fn views<'v, const CONSECUTIVE: bool>(slots: &'v [Slot]) -> Self::Views<'v>;
    #[doc(hidden)]
    fn step(views: &mut Self::Views<'_>, j: usize, i: usize);
    #[doc(hidden)]
    fn finish(views: &Self::Views<'_>, slots: &[Slot]);
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn merges() -> Vec<Option<&'static MergeOps>>;
}

macro_rules! handles {
    ($(($($name:ident $n:tt)*))*) => {$(
        impl<$($name: Capture),*> Handles for ($($name,)*) {
            type Views<'v> = ($($name::View<'v, $n>,)*);

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Vec<Captured> {
                #[allow(unused_mut)]
                let mut captured = vec![$(self.$n.describe()),*];
                $(captured.extend(self.$n.companions());)*
                captured
            }

            #[allow(unused_variables, clippy::unused_unit)]
            #[inline(always)]
            unsafe fn views<'v, const CONSECUTIVE: bool>(slots: &'v [Slot]) -> Self::Views<'v> {
                #[allow(unused_mut)]
                let mut companions = &slots[<[usize]>::len(&[$($n),*])..];
                ($({
                    let own = companions.split_off(..$name::COMPANIONS).unwrap_or(&[]);
                    // SAFETY: passed on; companions come in the order of the captures that they belong to.
                    unsafe { $name::view_beside::<$n, CONSECUTIVE>(&slots[$n], own) }
                },)*)
            }

            #[inline(always)]
            #[allow(unused_variables)]
            fn step(views: &mut Self::Views<'_>, j: usize, i: usize) {
                $($name::step::<$n>(&mut views.$n, j, i);)*
            }


            #[inline(always)]
            #[allow(unused_variables)]
            fn finish(views: &Self::Views<'_>, slots: &[Slot]) {
                $($name::finish::<$n>(&views.$n, &slots[$n]);)*
            }

            #[allow(private_interfaces)]
            fn merges() -> Vec<Option<&'static MergeOps>> {
                let companions = 0 $(+ $name::COMPANIONS)*;
                [$($name::merge()),*].into_iter().chain(std::iter::repeat_n(None, companions)).collect()
            }
        }
    )*};
}
handles! {
    ()
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 G 5)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11)
}

/// What `&x` in a capture list may name: a DDS or a reduction, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured by reference",
    label = "only DDSs, reductions and relaxed state can be captured by reference",
    note = "capture it as a value instead: its name without `&`"
)]
pub trait ReadCapture {
    /// The DDS behind the references.
    type Dds;
    #[doc(hidden)]
    fn dds(&self) -> &Self::Dds;
}

/// What `&mut x` in a capture list may name: a DDS, through any number of mutable references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured by mutable reference",
    label = "only DDSs can be captured as `&mut`",
    note = "capture a value by its name without `&mut`; capture reductions and relaxed state as `&x`"
)]
pub trait WriteCapture {
    /// What the loop gets. (Named by the trait, since rustc would otherwise take whatever is no DDS for one, and
    /// report mistakes that follow from it.)
    type Handle<'h>: Capture
    where
        Self: 'h;
    #[doc(hidden)]
    fn handle(&mut self) -> Self::Handle<'_>;
}

/// What `&mut x` in the capture list of a synchronous loop may name, through any number of mutable references.
///
/// `By` is always [`ByMerge`]. Were there one implementation alone, rustc would take a DVector of any elements for it, and
/// report mistakes that follow from it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be written by a synchronous loop",
    label = "neither a DVector whose elements can be merged nor a DMap whose values can",
    note = "its elements must be numbers or arrays of them, or implement `Merge`; capture what is only read as `&x`"
)]
pub trait SharedCapture<By> {
    /// What the loop gets.
    type Handle<'h>: Capture
    where
        Self: 'h;
    #[doc(hidden)]
    fn shared_handle(&mut self) -> Self::Handle<'_>;
}

/// How a DVector whose elements are [`Merge`] is captured.
#[doc(hidden)]
pub enum ByMerge {}

/// How no DVector is captured.
#[doc(hidden)]
pub enum ByNothing {}

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

/// Implemented by nothing.
#[doc(hidden)]
pub trait Nothing {}

impl<By, C: SharedCapture<By> + ?Sized> SharedCapture<By> for &mut C {
    type Handle<'h>
        = C::Handle<'h>
    where
        Self: 'h;
    fn shared_handle(&mut self) -> C::Handle<'_> {
        (**self).shared_handle()
    }
}

/// `&mut x` of a synchronous loop's capture list.
pub fn write_shared<By, C: SharedCapture<By> + ?Sized>(capture: &mut C) -> C::Handle<'_> {
    capture.shared_handle()
}

macro_rules! read_captures {
    ($([$($generic:tt)*] $t:ty;)*) => {$(
        impl<$($generic)*> ReadCapture for $t {
            type Dds = $t;
            fn dds(&self) -> &$t { self }
        }
    )*};
}
read_captures! {
    [T: 'static] DVector<T>;
    [N: Number] Sum<N>;
    [N: Number, W: Which] Extreme<N, W>;
    [] Count;
    [N: Number + Element] RelaxedVector<N>;
    [N: Number + Element] Relaxed<N>;
}

impl<T: 'static> WriteCapture for DVector<T> {
    type Handle<'h> = Write<'h, DVector<T>>;
    fn handle(&mut self) -> Write<'_, DVector<T>> {
        Write(self)
    }
}

impl<C: ReadCapture + ?Sized> ReadCapture for &C {
    type Dds = C::Dds;
    fn dds(&self) -> &C::Dds {
        (**self).dds()
    }
}

impl<C: ReadCapture + ?Sized> ReadCapture for &mut C {
    type Dds = C::Dds;
    fn dds(&self) -> &C::Dds {
        (**self).dds()
    }
}

impl<C: WriteCapture + ?Sized> WriteCapture for &mut C {
    type Handle<'h>
        = C::Handle<'h>
    where
        Self: 'h;
    fn handle(&mut self) -> C::Handle<'_> {
        (**self).handle()
    }
}

/// `&x` of a capture list.
pub fn read<C: ReadCapture + ?Sized>(capture: &C) -> Read<'_, C::Dds> {
    Read(capture.dds())
}

/// `&mut x` of a capture list.
pub fn write<C: WriteCapture + ?Sized>(capture: &mut C) -> C::Handle<'_> {
    capture.handle()
}

/// A borrow of a place alone, by method call: so that `&mut p` in a capture list reborrows where `p` is a
/// reference itself, as a closure's own capturing would, and `p` need not be declared `mut`.
pub trait Reborrow {
    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_reborrow(&mut self) -> &mut Self {
        self
    }
}

impl<C: ?Sized> Reborrow for C {}
