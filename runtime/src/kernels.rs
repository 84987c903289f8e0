//! Vector kernels on rows of floats, written so that the compiler uses vector registers. A row is an array or a slice: those
//! that a call gets must be equally long.
//!
//! The order of additions is fixed (the lanes of 64 bytes, then pairwise from the halves) and no product is fused with
//! a sum, so results don't depend on the machine. [`Shared`](crate::Shared) has the same kernels, with the same bits, for
//! rows that other threads use meanwhile.

use std::ops::{AddAssign, Mul, MulAssign};

use wide::{f32x8, f64x4};

use crate::memory::shared::{Lane, imp};

/// A float that the kernels compute with: `f32` or `f64`.
pub trait Float: Lane + imp::FloatVector + Default + AddAssign + MulAssign + Mul<Output = Self> {
    /// Products that are added up: the lanes of 64 bytes.
    #[doc(hidden)]
    type Sums: Copy;
    #[doc(hidden)]
    const NO_SUMS: Self::Sums;
    /// Adds products, the first of them to the first lane.
    #[doc(hidden)]
    fn add_products(sums: Self::Sums, a: &[Self], b: &[Self]) -> Self::Sums;
    #[doc(hidden)]
    fn sum(sums: Self::Sums) -> Self;
}

/// Two vectors of `$half` lanes each, which the lanes' products are added to in turn. The vectors are explicit: left to
/// itself the compiler takes some lengths apart into single lanes.
macro_rules! floats {
    ($($float:ident $vector:ident $half:literal $both:literal [$($rest:literal)*], $sum:expr;)*) => {$(
        impl Float for $float {
            type Sums = [$vector; 2];
            const NO_SUMS: [$vector; 2] = [$vector::ZERO; 2];
            #[inline(always)]
            fn add_products(mut lanes: [$vector; 2], a: &[Self], b: &[Self]) -> [$vector; 2] {
                /// As many numbers, with zeros behind them.
                #[inline(always)]
                fn padded<const R: usize>(rest: &[$float]) -> $vector {
                    let mut x = [0.0; $half];
                    if let Some(rest) = rest.first_chunk::<R>() {
                        x[..R].copy_from_slice(rest);
                    }
                    $vector::new(x)
                }
                let product = |a: &[Self; $half], b: &[Self; $half]| $vector::new(*a) * $vector::new(*b);
                let (a_chunks, a_rest) = a.as_chunks::<$both>();
                let (b_chunks, b_rest) = b.as_chunks::<$both>();
                for (a, b) in a_chunks.iter().zip(b_chunks) {
                    let ((a, _), (b, _)) = (a.as_chunks::<$half>(), b.as_chunks::<$half>());
                    lanes[0] += product(&a[0], &b[0]);
                    lanes[1] += product(&a[1], &b[1]);
                }
                let (a_half, a_rest) = a_rest.as_chunks::<$half>();
                let (b_half, b_rest) = b_rest.as_chunks::<$half>();
                let place = a_half.len();
                if let ([a], [b]) = (a_half, b_half) {
                    lanes[0] += product(a, b);
                }
                // (Of a length that isn't known before, copies would be calls.)
                let rest = match a_rest.len() {
                    $($rest => padded::<$rest>(a_rest) * padded::<$rest>(b_rest),)*
                    _ => return lanes,
                };
                if place == 0 {
                    lanes[0] += rest;
                } else {
                    lanes[1] += rest;
                }
                lanes
            }
            #[inline(always)]
            fn sum(lanes: [$vector; 2]) -> Self {
                $sum((lanes[0] + lanes[1]).to_array())
            }
        }
    )*};
}
floats! {
    f32 f32x8 8 16 [1 2 3 4 5 6 7], |eight: [f32; 8]| {
        let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
        (four[0] + four[2]) + (four[1] + four[3])
    };
    f64 f64x4 4 8 [1 2 3], |four: [f64; 4]| (four[0] + four[2]) + (four[1] + four[3]);
}

/// Runs a kernel on rows of `$n` numbers. For widths that are usual there is code of their own, chosen by one comparison that
/// has the same outcome throughout a loop: without it short rows cost up to a fifth more.
macro_rules! by_width {
    ($n:expr, |$k:ident| $kernel:expr) => {
        by_width!(@ $n, $k, $kernel; 32 64 100 128)
    };
    (@ $n:expr, $k:ident, $kernel:expr; $($width:literal)*) => {
        match $n {
            $($width => {
                let $k = $width;
                $kernel
            })*
            $k => $kernel,
        }
    };
}

/// Rows must be equally long. (Of arrays the compiler knows it.)
#[inline(always)]
fn equally_long(a: usize, b: usize) {
    assert!(a == b, "a row of {a} numbers and one of {b}");
}

/// The dot product of two rows, arrays or slices.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// assert_eq!(stradsap::kernels::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline(always)]
pub fn dot<N: Float>(a: &[N], b: &[N]) -> N {
    equally_long(a.len(), b.len());
    by_width!(a.len(), |k| N::sum(N::add_products(N::NO_SUMS, &a[..k], &b[..k])))
}

/// `y += a * x`, number by number.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let mut y = [1.0, 1.0];
/// stradsap::kernels::axpy(2.0, &[1.0, 3.0], &mut y);
/// assert_eq!(y, [3.0, 7.0]);
/// ```
#[inline(always)]
pub fn axpy<N: Float>(a: N, x: &[N], y: &mut [N]) {
    equally_long(x.len(), y.len());
    by_width!(x.len(), |k| y[..k].iter_mut().zip(&x[..k]).for_each(|(y, x)| *y += a * *x));
}

/// `y += x`, number by number.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let mut y = [1.0, 1.0];
/// stradsap::kernels::add(&[1.0, 3.0], &mut y);
/// assert_eq!(y, [2.0, 4.0]);
/// ```
#[inline(always)]
pub fn add<N: Float>(x: &[N], y: &mut [N]) {
    equally_long(x.len(), y.len());
    by_width!(x.len(), |k| y[..k].iter_mut().zip(&x[..k]).for_each(|(y, x)| *y += *x));
}

/// `x *= a`, number by number.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let mut x = [1.0, 3.0];
/// stradsap::kernels::scale(0.5, &mut x);
/// assert_eq!(x, [0.5, 1.5]);
/// ```
#[inline(always)]
pub fn scale<N: Float>(a: N, x: &mut [N]) {
    by_width!(x.len(), |k| x[..k].iter_mut().for_each(|x| *x *= a));
}

/// `change += g * row`, then `row += g * x`, in one pass: one step of gradient descent on the product of two rows, which changes
/// `row` at once and collects the change of `x` in `change`. The bits are those of two calls of [`axpy`].
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let (mut row, mut change) = ([1.0, 2.0], [0.0, 10.0]);
/// stradsap::kernels::step(0.5, &mut row, &[4.0, 8.0], &mut change);
/// assert_eq!((row, change), ([3.0, 6.0], [0.5, 11.0]));
/// ```
#[inline(always)]
pub fn step<N: Float>(g: N, row: &mut [N], x: &[N], change: &mut [N]) {
    equally_long(row.len(), x.len());
    equally_long(row.len(), change.len());
    by_width!(row.len(), |k| {
        for ((row, x), change) in row[..k].iter_mut().zip(&x[..k]).zip(&mut change[..k]) {
            *change += g * *row;
            *row += g * *x;
        }
    });
}

/// Calls `f` with the numbers at each place of two rows. It changes two rows of a [`DMatrix`](crate::DMatrix) as fast as if their
/// width were known at compile time.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let (mut p, mut q) = (vec![1.0, 2.0], vec![10.0, 20.0]);
/// stradsap::kernels::each_pair(&mut p, &mut q, |p, q| {
///     let old = *p;
///     *p += 0.5 * *q;
///     *q -= old;
/// });
/// assert_eq!((p, q), (vec![6.0, 12.0], vec![9.0, 18.0]));
/// ```
///
/// # Panics
/// If the rows aren't equally long.
#[inline(always)]
pub fn each_pair<A, B>(a: &mut [A], b: &mut [B], mut f: impl FnMut(&mut A, &mut B)) {
    equally_long(a.len(), b.len());
    by_width!(a.len(), |k| a[..k].iter_mut().zip(&mut b[..k]).for_each(|(a, b)| f(a, b)));
}

/// Prefetches the first 512 bytes of an element that will be needed some hundred nanoseconds from now. It changes nothing but
/// speed.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// let rows = vec![[0.0f32; 100]; 1000];
/// let order = [7, 911, 42];
/// for n in 0..order.len() {
///     if let Some(&next) = order.get(n + 1) {
///         stradsap::kernels::prefetch(&rows[next]);
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
