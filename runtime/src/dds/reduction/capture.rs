//! How loops capture reductions. Their views need nothing but the slot's numbers.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::body::capture::{Capture, Captured, Kind, Read, ReadCapture};
use crate::body::slot::Slot;
use crate::dds::reduction::{
    Count, CountView, Extreme, ExtremeView, Flag, FlagView, Joins, Number, Sum, SumView, Which,
};

impl<N: Number> ReadCapture for Sum<N> {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

impl<N: Number, W: Which> ReadCapture for Extreme<N, W> {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

impl<J: Joins> ReadCapture for Flag<J> {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

impl ReadCapture for Count {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

macro_rules! reductions {
    ($([$($generic:tt)*] $reduction:ty, $view:ident { $($more:tt)* })*) => {$(
        impl<$($generic)*> Capture for Read<'_, $reduction, NEAR> {
            type View<'v, const C: usize> = $view!('v);

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                let (session, cell, ops) = self.0.parts();
                Captured {
                    id: cell.id(),
                    session: Arc::clone(session),
                    name: None,
                    copy_of: None,
                    dealt: false,
                    kind: Kind::Reduction { ops, cell: Some(Arc::clone(cell)) },
                }
            }

            unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> Self::View<'v, C> {
                <$view!('v)>::new(slot)
            }

            $($more)*

            #[inline(always)]
            fn finish<const C: usize>(view: &Self::View<'_, C>, slot: &Slot<'_>) {
                view.finish(slot);
            }
        }
    )*};
}
macro_rules! sum_view { ($v:lifetime) => { SumView<$v, N, C> } }
macro_rules! extreme_view { ($v:lifetime) => { ExtremeView<$v, N, W, C> } }
macro_rules! flag_view { ($v:lifetime) => { FlagView<$v, J, C> } }
macro_rules! count_view { ($v:lifetime) => { CountView<$v, C> } }
reductions! {
    [N: Number, const NEAR: usize] Sum<N>, sum_view {
        #[inline(always)]
        fn enter<const C: usize>(view: &mut Self::View<'_, C>, _: usize, _: usize, _: usize) -> Range<usize> {
            view.near()
        }

        #[inline(always)]
        fn set_near<const C: usize>(view: &mut Self::View<'_, C>, near: bool) {
            view.set_near(near);
        }

        #[inline(always)]
        fn step<const C: usize>(view: &mut Self::View<'_, C>, i: usize) {
            view.step(i);
        }
    }
    [N: Number, W: Which, const NEAR: usize] Extreme<N, W>, extreme_view {}
    [J: Joins, const NEAR: usize] Flag<J>, flag_view {}
    [const NEAR: usize] Count, count_view {}
}
