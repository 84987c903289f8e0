//! Vector kernels on rows of floats, written so that the compiler uses vector registers.
//!
//! The order of additions is fixed (16 lanes, then pairwise), so results don't depend on the machine.

const LANES: usize = 16;

/// The dot product of two rows.
///
/// ```
/// assert_eq!(stradsap_runtime::kernels::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline(always)]
pub fn dot<const K: usize>(a: &[f32; K], b: &[f32; K]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let mut k = 0;
    while k + LANES <= K {
        for lane in 0..LANES {
            lanes[lane] += a[k + lane] * b[k + lane];
        }
        k += LANES;
    }
    while k < K {
        lanes[k % LANES] += a[k] * b[k];
        k += 1;
    }
    let mut width = LANES / 2;
    while width > 0 {
        for lane in 0..width {
            lanes[lane] += lanes[lane + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// `y += a * x`, row by row.
///
/// ```
/// let mut y = [1.0, 1.0];
/// stradsap_runtime::kernels::axpy(2.0, &[1.0, 3.0], &mut y);
/// assert_eq!(y, [3.0, 7.0]);
/// ```
#[inline(always)]
pub fn axpy<const K: usize>(a: f32, x: &[f32; K], y: &mut [f32; K]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}
