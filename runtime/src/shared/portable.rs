//! Shared elements, one relaxed atomic access a lane: for machines without kernels of their own, and for Miri.
//!
//! # Why this is sound
//! Every access is an atomic one. All accesses to an element use integers of the same size, that of its type's alignment
//! (8 bytes at most), at the same addresses: there are no overlapping accesses of different sizes. A plain type has no
//! padding, so its size is a multiple of its alignment and every byte is initialised.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

use super::lane::Sealed;
use crate::kernels::{self, Float};
use crate::shared::Lane;

macro_rules! by_granules {
    ($t:ty, $granule:ident => $body:expr) => {
        match align_of::<$t>() {
            1 => {
                type $granule = u8;
                $body
            }
            2 => {
                type $granule = u16;
                $body
            }
            4 => {
                type $granule = u32;
                $body
            }
            _ => {
                type $granule = u64;
                $body
            }
        }
    };
}

/// # Safety
/// `from` holds an element of a plain type that nobody accesses meanwhile but by relaxed atomics.
#[inline(always)]
pub(crate) unsafe fn get<T>(from: *const T) -> T {
    let mut out = MaybeUninit::<T>::uninit();
    by_granules!(T, Granule => for k in 0..size_of::<T>() / size_of::<Granule>() {
        // SAFETY: granule k is within the element, and aligned; `out` has the same shape.
        unsafe { out.as_mut_ptr().cast::<Granule>().add(k).write(Granule::load(from.cast::<Granule>().add(k))) };
    });
    // SAFETY: every byte was written, and any bytes are a value.
    unsafe { out.assume_init() }
}

/// # Safety
/// `to` holds an element of a plain type that nobody accesses meanwhile but by relaxed atomics; `value` is one.
#[inline(always)]
pub(crate) unsafe fn set<T>(to: *mut T, value: *const T) {
    by_granules!(T, Granule => for k in 0..size_of::<T>() / size_of::<Granule>() {
        // SAFETY: granule k is within both elements, and aligned.
        unsafe { value.cast::<Granule>().add(k).read().store(to.cast::<Granule>().add(k)) };
    });
}

/// Replaces lane by lane.
///
/// # Safety
/// `row` holds K numbers that nobody accesses meanwhile but by relaxed atomics.
#[inline(always)]
unsafe fn update<N: Lane, const K: usize>(row: *mut [N; K], mut f: impl FnMut(usize, N) -> N) {
    for k in 0..K {
        // SAFETY: k < K.
        unsafe {
            let lane = row.cast::<N>().add(k);
            f(k, N::load(lane)).store(lane);
        }
    }
}

/// # Safety
/// As for [`get`], and likewise for all below.
#[inline(always)]
pub(crate) unsafe fn add<N: Lane, const K: usize>(row: *mut [N; K], x: &[N; K]) {
    // SAFETY: passed on.
    unsafe { update(row, |k, lane| lane.plus(x[k])) };
}

#[inline(always)]
pub(crate) unsafe fn dot<N: Float, const K: usize>(row: *const [N; K], x: &[N; K]) -> N {
    // SAFETY: passed on.
    kernels::dot(&unsafe { get(row) }, x)
}

#[inline(always)]
pub(crate) unsafe fn axpy<N: Float, const K: usize>(row: *mut [N; K], a: N, x: &[N; K]) {
    // SAFETY: passed on.
    unsafe { update(row, |k, lane| lane.plus(a * x[k])) };
}

#[inline(always)]
pub(crate) unsafe fn scale<N: Float, const K: usize>(row: *mut [N; K], a: N) {
    // SAFETY: passed on.
    unsafe { update(row, |_, lane| lane * a) };
}

#[inline(always)]
pub(crate) unsafe fn add_to<N: Float, const K: usize>(row: *const [N; K], a: N, y: &mut [N; K]) {
    // SAFETY: passed on.
    kernels::axpy(a, &unsafe { get(row) }, y);
}

#[inline(always)]
pub(crate) unsafe fn step<N: Float, const K: usize>(row: *mut [N; K], g: N, x: &[N; K], change: &mut [N; K]) {
    // SAFETY: passed on.
    unsafe {
        update(row, |k, lane| {
            change[k] += g * lane;
            lane.plus(g * x[k])
        });
    }
}
