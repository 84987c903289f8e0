//! Vector kernels on rows of floats, written so that the compiler uses vector registers.
//!
//! The order of additions is fixed (the lanes of 64 bytes, then pairwise from the halves) and no product is fused with
//! a sum, so results don't depend on the machine. [`Shared`](crate::Shared) has the same kernels, with the same bits, for
//! rows that other threads use meanwhile.

use std::ops::{AddAssign, Mul, MulAssign};

use wide::{f32x8, f64x4};

use crate::memory::shared::{Lane, imp};

/// A float that the kernels compute with: `f32` or `f64`.
pub trait Float: Lane + imp::FloatVector + AddAssign + MulAssign + Mul<Output = Self> {
    #[doc(hidden)]
    fn dot<const K: usize>(a: &[Self; K], b: &[Self; K]) -> Self;
}

/// Two vectors of `$half` lanes each, which the lanes' products are added to in turn. The vectors are explicit: left to
/// itself the compiler takes some lengths apart into single lanes.
macro_rules! floats {
    ($($float:ident $vector:ident $half:literal, $sum:expr;)*) => {$(
        impl Float for $float {
            #[inline(always)]
            fn dot<const K: usize>(a: &[Self; K], b: &[Self; K]) -> Self {
                let (a_halves, a_rest) = a.as_chunks::<$half>();
                let (b_halves, b_rest) = b.as_chunks::<$half>();
                let mut lanes = [$vector::ZERO; 2];
                for (k, (x, y)) in a_halves.iter().zip(b_halves).enumerate() {
                    lanes[k % 2] += $vector::new(*x) * $vector::new(*y);
                }
                if !a_rest.is_empty() {
                    let (mut x, mut y) = ([0.0; $half], [0.0; $half]);
                    x[..a_rest.len()].copy_from_slice(a_rest);
                    y[..b_rest.len()].copy_from_slice(b_rest);
                    lanes[a_halves.len() % 2] += $vector::new(x) * $vector::new(y);
                }
                $sum((lanes[0] + lanes[1]).to_array())
            }
        }
    )*};
}
floats! {
    f32 f32x8 8, |eight: [f32; 8]| {
        let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    };
    f64 f64x4 4, |four: [f64; 4]| (four[0] + four[2]) + (four[1] + four[3]);
}

/// The dot product of two rows.
///
/// ```
/// assert_eq!(stradsap_runtime::kernels::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline(always)]
pub fn dot<N: Float, const K: usize>(a: &[N; K], b: &[N; K]) -> N {
    N::dot(a, b)
}

/// `y += a * x`, row by row.
///
/// ```
/// let mut y = [1.0, 1.0];
/// stradsap_runtime::kernels::axpy(2.0, &[1.0, 3.0], &mut y);
/// assert_eq!(y, [3.0, 7.0]);
/// ```
#[inline(always)]
pub fn axpy<N: Float, const K: usize>(a: N, x: &[N; K], y: &mut [N; K]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * *x;
    }
}

/// `y += x`, row by row.
///
/// ```
/// let mut y = [1.0, 1.0];
/// stradsap_runtime::kernels::add(&[1.0, 3.0], &mut y);
/// assert_eq!(y, [2.0, 4.0]);
/// ```
#[inline(always)]
pub fn add<N: Float, const K: usize>(x: &[N; K], y: &mut [N; K]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += *x;
    }
}

/// `x *= a`, row by row.
///
/// ```
/// let mut x = [1.0, 3.0];
/// stradsap_runtime::kernels::scale(0.5, &mut x);
/// assert_eq!(x, [0.5, 1.5]);
/// ```
#[inline(always)]
pub fn scale<N: Float, const K: usize>(a: N, x: &mut [N; K]) {
    for x in x {
        *x *= a;
    }
}

/// `change += g * row`, then `row += g * x`: one step of gradient descent on a product of two rows, of which the other
/// one, `x`, changes later. The bits are those of the two [`axpy`], in one pass.
///
/// ```
/// let (mut row, mut change) = ([1.0, 2.0], [0.0, 10.0]);
/// stradsap_runtime::kernels::step(0.5, &mut row, &[4.0, 8.0], &mut change);
/// assert_eq!((row, change), ([3.0, 6.0], [0.5, 11.0]));
/// ```
#[inline(always)]
pub fn step<N: Float, const K: usize>(g: N, row: &mut [N; K], x: &[N; K], change: &mut [N; K]) {
    for ((row, x), change) in row.iter_mut().zip(x).zip(change) {
        *change += g * *row;
        *row += g * *x;
    }
}

/// Asks for an element that will be needed some hundred nanoseconds from now, so that it comes from memory meanwhile: its
/// first 512 bytes. Changes nothing but speed.
///
/// ```
/// let rows = vec![[0.0f32; 100]; 1000];
/// let order = [7, 911, 42];
/// for n in 0..order.len() {
///     if let Some(&next) = order.get(n + 1) {
///         stradsap_runtime::kernels::prefetch(&rows[next]);
///     }
///     // ... work with rows[order[n]] ...
/// }
/// ```
#[inline(always)]
pub fn prefetch<T: ?Sized>(element: &T) {
    fetch_bytes(element, size_of_val(element));
}

/// Asks for an element of this many bytes that will be needed soon. Any address will do.
#[allow(unsafe_code)]
#[inline(always)]
pub(crate) fn fetch_bytes<T: ?Sized>(at: *const T, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..bytes.div_ceil(64).min(8) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch of any address is harmless.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(64 * line)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, bytes);
}
