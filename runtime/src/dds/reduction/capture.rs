//! How loops capture reductions. Their views need nothing but the slot's numbers.
#![allow(unsafe_code)]

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
    ($([$($generic:tt)*] $reduction:ty, $view:ident;)*) => {$(
        impl<$($generic)*> Capture for Read<'_, $reduction> {
            type View<'v, const C: usize> = $view!('v);

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                let (session, cell, ops) = self.0.parts();
                Captured {
                    id: cell.id(),
                    session: Arc::clone(session),
                    kind: Kind::Reduction { ops, cell: Some(Arc::clone(cell)) },
                }
            }

            unsafe fn view_beside<'v, const C: usize, const CONSECUTIVE: bool>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> Self::View<'v, C> {
                <$view!('v)>::new(slot)
            }

            #[inline(always)]
            fn step<const C: usize>(view: &mut Self::View<'_, C>, _j: usize, i: usize) {
                view.step(i);
            }


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
    [N: Number] Sum<N>, sum_view;
    [N: Number, W: Which] Extreme<N, W>, extreme_view;
    [J: Joins] Flag<J>, flag_view;
    [] Count, count_view;
}
