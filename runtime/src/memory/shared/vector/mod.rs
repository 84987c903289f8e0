//! Shared elements by vectors: the kernels for x86-64.
//!
//! Loads and stores are assembly, into which the compiler must not look (`moves.rs`). What is computed between is
//! ordinary code, in which products are never fused with sums, so that the bits are those of the plain kernels.
//!
//! # Why this is sound
//! Shared memory is accessed by `walk.rs` and by the atomics of `lane.rs`, within the element. Local elements are of the
//! same type, so places in the shared one are places in them.
#![allow(unsafe_code)]
#![allow(unreachable_pub, reason = "parts of public traits that nobody else can name")]
#![allow(clippy::modulo_one, reason = "how many registers make 64 bytes is the machine's matter")]

mod lanes;
mod moves;
mod shape;
mod walk;

#[cfg(all(target_feature = "avx512f", target_feature = "avx512vl", target_feature = "avx512bw"))]
#[path = "avx512.rs"]
mod registers;
#[cfg(all(
    target_feature = "avx2",
    not(all(target_feature = "avx512f", target_feature = "avx512vl", target_feature = "avx512bw"))
))]
#[path = "avx2.rs"]
mod registers;
#[cfg(not(target_feature = "avx2"))]
#[path = "sse2.rs"]
mod registers;

use std::mem::MaybeUninit;

pub use lanes::{FloatVector, Vector};

use super::lane::Lane;
use super::portable;
use crate::kernels::Float;
use lanes::SUMS;
use registers::{Reg, ZERO};
use shape::Shape;
use walk::{Position, Visit, walk};

/// # Safety
/// `from` holds an element of a plain type that nobody accesses meanwhile but by relaxed atomics.
#[inline(always)]
pub(crate) unsafe fn get<T>(from: *const T) -> T {
    if size_of::<T>() <= 8 {
        // SAFETY: the caller's promise.
        return unsafe { portable::get(from) };
    }
    let mut out = MaybeUninit::<T>::uninit();
    // SAFETY: the caller vouches for `from`; the walk and the rest write every byte of `out`, and any are a value.
    unsafe {
        walk(from.cast_mut(), Get(out.as_mut_ptr()));
        portable::get_rest(from, out.as_mut_ptr(), Shape::<T>::REST_AT);
        out.assume_init()
    }
}

/// # Safety
/// `to` holds an element of a plain type that nobody accesses meanwhile but by relaxed atomics; `value` is one.
#[inline(always)]
pub(crate) unsafe fn set<T>(to: *mut T, value: *const T) {
    // SAFETY: the caller's promise.
    unsafe {
        if size_of::<T>() <= 8 {
            return portable::set(to, value);
        }
        walk(to, Set(value));
        portable::set_rest(to, value, Shape::<T>::REST_AT);
    }
}

/// # Safety
/// `row` holds K numbers that nobody accesses meanwhile but by relaxed atomics. Likewise for all below.
#[inline(always)]
pub(crate) unsafe fn add<N: Lane, const K: usize>(row: *mut [N; K], x: &[N; K]) {
    // SAFETY: the caller's promise.
    unsafe {
        walk(row, Add(x));
        portable::add_rest(row, x, Shape::<[N; K]>::REST_AT / size_of::<N>());
    }
}

#[inline(always)]
pub(crate) unsafe fn dot<N: Float, const K: usize>(row: *const [N; K], x: &[N; K]) -> N {
    // SAFETY: the caller's promise.
    total::<N>(unsafe { add_products(no_sums::<N>(), row, x) })
}

/// Products that are added up.
pub(crate) type Sums = [Reg; SUMS];

#[inline(always)]
#[allow(clippy::extra_unused_type_parameters, reason = "the portable one has it")]
pub(crate) fn no_sums<N: Float>() -> Sums {
    [ZERO; SUMS]
}

/// Adds products, the first of them to the first lane.
#[inline(always)]
pub(crate) unsafe fn add_products<N: Float, const K: usize>(lanes: Sums, row: *const [N; K], x: &[N; K]) -> Sums {
    // SAFETY: the caller's promise.
    unsafe { walk(row.cast_mut(), Dot { lanes, x }) }.lanes
}

#[inline(always)]
pub(crate) fn total<N: Float>(sums: Sums) -> N {
    N::total(sums)
}

#[inline(always)]
pub(crate) unsafe fn axpy<N: Float, const K: usize>(row: *mut [N; K], a: N, x: &[N; K]) {
    // SAFETY: the caller's promise.
    unsafe { walk(row, Axpy { a: a.splat(), x }) };
}

#[inline(always)]
pub(crate) unsafe fn scale<N: Float, const K: usize>(row: *mut [N; K], a: N) {
    // SAFETY: the caller's promise.
    unsafe { walk(row, Scale(a)) };
}

#[inline(always)]
pub(crate) unsafe fn add_to<N: Float, const K: usize>(row: *const [N; K], a: N, y: &mut [N; K]) {
    // SAFETY: the caller's promise.
    unsafe { walk(row.cast_mut(), AddTo { a: a.splat(), y }) };
}

#[inline(always)]
pub(crate) unsafe fn step<N: Float, const K: usize>(row: *mut [N; K], g: N, x: &[N; K], change: &mut [N; K]) {
    // SAFETY: the caller's promise.
    unsafe { walk(row, Step { g: g.splat(), x, change }) };
}

/// A kernel's visit of each vector: what it has, what it reads and writes, and what it does there.
macro_rules! visits {
    ($(
        [$($generic:tt)*] $visit:ty, of $t:ty, reads $reads:literal, writes $writes:literal,
        |$self:ident, $k:pat_param, $place:ident, $reg:ident| $body:expr;
    )*) => {$(
        impl<$($generic)*> Visit<$t> for $visit {
            const READS: bool = $reads;
            const WRITES: bool = $writes;

            #[inline(always)]
            fn visit<const WHOLE: bool>(&mut $self, $k: usize, $place: Position<$t, WHOLE>, $reg: Reg) -> Reg {
                #[allow(unused_unsafe, reason = "some have nothing at hand")]
                // SAFETY: what the kernels have at hand are whole, local elements of the same type, or room for one.
                unsafe { $body }
            }
        }
    )*};
}

struct Get<T>(*mut T);
struct Set<T>(*const T);
struct Add<'a, N, const K: usize>(&'a [N; K]);
struct Dot<'a, N, const K: usize> {
    lanes: [Reg; SUMS],
    x: &'a [N; K],
}
struct Axpy<'a, N, const K: usize> {
    a: Reg,
    x: &'a [N; K],
}
struct Scale<N>(N);
struct AddTo<'a, N, const K: usize> {
    a: Reg,
    y: &'a mut [N; K],
}
struct Step<'a, N, const K: usize> {
    g: Reg,
    x: &'a [N; K],
    change: &'a mut [N; K],
}

visits! {
    [T] Get<T>, of T, reads true, writes false, |self, _, place, reg| {
        place.store(self.0, reg);
        reg
    };
    [T] Set<T>, of T, reads false, writes true, |self, _, place, _reg| place.load(self.0);
    [N: Lane, const K: usize] Add<'_, N, K>, of [N; K], reads true, writes true, |self, _, place, reg| {
        N::plus_lanes(reg, place.load(self.0))
    };
    [N: Float, const K: usize] Dot<'_, N, K>, of [N; K], reads true, writes false, |self, k, place, reg| {
        let lanes = &mut self.lanes[k % SUMS];
        *lanes = N::plus_lanes(*lanes, N::times_lanes(reg, place.load(self.x)));
        reg
    };
    [N: Float, const K: usize] Axpy<'_, N, K>, of [N; K], reads true, writes true, |self, _, place, reg| {
        N::plus_lanes(reg, N::times_lanes(self.a, place.load(self.x)))
    };
    [N: Float, const K: usize] Scale<N>, of [N; K], reads true, writes true, |self, _, _place, reg| {
        N::times_lanes(reg, self.0.splat())
    };
    [N: Float, const K: usize] AddTo<'_, N, K>, of [N; K], reads true, writes false, |self, _, place, reg| {
        place.store(self.y, N::plus_lanes(place.load(self.y), N::times_lanes(self.a, reg)));
        reg
    };
    [N: Float, const K: usize] Step<'_, N, K>, of [N; K], reads true, writes true, |self, _, place, reg| {
        let change = N::plus_lanes(place.load(self.change), N::times_lanes(self.g, reg));
        place.store(self.change, change);
        N::plus_lanes(reg, N::times_lanes(self.g, place.load(self.x)))
    };
}
