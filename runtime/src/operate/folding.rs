//! Closures of two arguments: what there is so far, and the next item.
//!
//! # Why this is sound
//! As in `body`.
#![allow(unsafe_code)]

use super::body::{Plain, Travels, With};
use super::kernel::Cx;
use crate::body::capture::Handles;
use crate::body::value::Values;

/// A closure that takes an accumulator on.
#[doc(hidden)]
pub(super) trait FoldBody<A, T>: Travels + Sync {
    /// The closure, ready to run on one chunk.
    #[doc(hidden)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(A, &T) -> A + 'v
    where
        A: 'v,
        T: 'v;
}

impl<A, T, F: Fn(A, &T) -> A + Copy + Sync> FoldBody<A, T> for Plain<F> {
    #[inline(always)]
    fn bind<'v>(&'v self, _cx: &Cx<'v>) -> impl FnMut(A, &T) -> A + 'v
    where
        A: 'v,
        T: 'v,
    {
        &self.0
    }
}

impl<A, T, V, H, F> FoldBody<A, T> for With<V, H, F>
where
    V: Values,
    H: Handles,
    F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, A, &'t T) -> A + Copy + Sync,
{
    #[inline(always)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(A, &T) -> A + 'v
    where
        A: 'v,
        T: 'v,
    {
        let (values, mut views, body) = self.parts(cx);
        move |so_far, element| body(values, &mut views, so_far, element)
    }
}
