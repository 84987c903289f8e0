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
use crate::memory::shared::Lane;

/// Numbers need nothing more here.
#[allow(unreachable_pub, reason = "a part of a public trait that nobody else can name")]
pub trait Vector {}
impl<N> Vector for N {}
/// Floats need nothing more here.
#[allow(unreachable_pub, reason = "a part of a public trait that nobody else can name")]
pub trait FloatVector {}
impl<N> FloatVector for N {}

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
    // SAFETY: the caller's promise; all bytes are written, and any are a value.
    unsafe {
        get_rest(from, out.as_mut_ptr(), 0);
        out.assume_init()
    }
}

/// The bytes from an offset on that is a multiple of the alignment.
///
/// # Safety
/// As for [`get`]; `out` is room for an element.
#[inline(always)]
pub(crate) unsafe fn get_rest<T>(from: *const T, out: *mut T, at: usize) {
    by_granules!(T, Granule => for k in at / size_of::<Granule>()..size_of::<T>() / size_of::<Granule>() {
        // SAFETY: granule k is within the element, and aligned; `out` has the same shape.
        unsafe { out.cast::<Granule>().add(k).write(Granule::load(from.cast::<Granule>().add(k))) };
    });
}

/// # Safety
/// `to` holds an element of a plain type that nobody accesses meanwhile but by relaxed atomics; `value` is one.
#[inline(always)]
pub(crate) unsafe fn set<T>(to: *mut T, value: *const T) {
    // SAFETY: the caller's promise.
    unsafe { set_rest(to, value, 0) };
}

/// The bytes from an offset on that is a multiple of the alignment.
///
/// # Safety
/// As for [`set`].
#[inline(always)]
pub(crate) unsafe fn set_rest<T>(to: *mut T, value: *const T, at: usize) {
    by_granules!(T, Granule => for k in at / size_of::<Granule>()..size_of::<T>() / size_of::<Granule>() {
        // SAFETY: granule k is within both elements, and aligned.
        unsafe { value.cast::<Granule>().add(k).read().store(to.cast::<Granule>().add(k)) };
    });
}

/// Replaces lane by lane, from the lane `first` on.
///
/// # Safety
/// `row` holds K numbers that nobody accesses meanwhile but by relaxed atomics.
#[inline(always)]
unsafe fn update<N: Lane, const K: usize>(row: *mut [N; K], first: usize, mut f: impl FnMut(usize, N) -> N) {
    for k in first..K {
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
    // SAFETY: the caller's promise.
    unsafe { add_rest(row, x, 0) };
}

/// From the lane `first` on.
#[inline(always)]
pub(crate) unsafe fn add_rest<N: Lane, const K: usize>(row: *mut [N; K], x: &[N; K], first: usize) {
    // SAFETY: the caller's promise.
    unsafe { update(row, first, |k, lane| lane.plus(x[k])) };
}

#[inline(always)]
pub(crate) unsafe fn dot<N: Float, const K: usize>(row: *const [N; K], x: &[N; K]) -> N {
    // SAFETY: the caller's promise.
    total::<N>(unsafe { add_products(no_sums::<N>(), row, x) })
}

/// No products yet.
#[inline(always)]
pub(crate) fn no_sums<N: Float>() -> N::Sums {
    N::NO_SUMS
}

/// Adds products, the first of them to the first lane.
#[inline(always)]
pub(crate) unsafe fn add_products<N: Float, const K: usize>(sums: N::Sums, row: *const [N; K], x: &[N; K]) -> N::Sums {
    // SAFETY: the caller's promise.
    N::add_products(sums, &unsafe { get(row) }, x)
}

#[inline(always)]
pub(crate) fn total<N: Float>(sums: N::Sums) -> N {
    N::sum(sums)
}

#[inline(always)]
pub(crate) unsafe fn axpy<N: Float, const K: usize>(row: *mut [N; K], a: N, x: &[N; K]) {
    // SAFETY: the caller's promise.
    unsafe { update(row, 0, |k, lane| lane.plus(a * x[k])) };
}

#[inline(always)]
pub(crate) unsafe fn scale<N: Float, const K: usize>(row: *mut [N; K], a: N) {
    // SAFETY: the caller's promise.
    unsafe { update(row, 0, |_, lane| lane * a) };
}

#[inline(always)]
pub(crate) unsafe fn add_to<N: Float, const K: usize>(row: *const [N; K], a: N, y: &mut [N; K]) {
    // SAFETY: the caller's promise.
    kernels::axpy(a, &unsafe { get(row) }, y);
}

#[inline(always)]
pub(crate) unsafe fn step<N: Float, const K: usize>(row: *mut [N; K], g: N, x: &[N; K], change: &mut [N; K]) {
    // SAFETY: the caller's promise.
    unsafe {
        update(row, 0, |k, lane| {
            change[k] += g * lane;
            lane.plus(g * x[k])
        });
    }
}
