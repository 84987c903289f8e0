//! How loops capture relaxed state.
//!
//! # Why this is sound
//! Rule 1: as `body::capture` says: the engine makes views of slots that it filled from these descriptions.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::body::capture::{Capture, Captured, Kind, Read, ReadCapture};
use crate::body::slot::Slot;
use crate::dds::reduction::Number;
use crate::dds::relaxed::{Relaxed, RelaxedNumberView, RelaxedVector, RelaxedView};
use crate::memory::element::Element;

impl<N: Number + Element> ReadCapture for RelaxedVector<N> {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

impl<N: Number + Element> ReadCapture for Relaxed<N> {
    type Dds = Self;
    fn dds(&self) -> &Self {
        self
    }
}

macro_rules! relaxed {
    ($($t:ident, $view:ident;)*) => {$(
        impl<N: Number + Element, const W: usize> Capture for Read<'_, $t<N>, W> {
            type View<'v, const C: usize> = $view<'v, N, C>;

            #[allow(private_interfaces)]
            fn describe(&mut self) -> Captured {
                let (session, cell, ops) = self.0.parts();
                Captured {
                    id: cell.id,
                    session: Arc::clone(session),
                    name: None,
                    copy_of: None,
                    dealt: false,
                    kind: Kind::Relaxed { ops, cell: Some(Arc::clone(cell)), len: cell.len },
                }
            }

            unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> Self::View<'v, C> {
                // SAFETY: rule 1.
                unsafe { $view::new(slot) }
            }
        }
    )*};
}
relaxed! {
    RelaxedVector, RelaxedView;
    Relaxed, RelaxedNumberView;
}
