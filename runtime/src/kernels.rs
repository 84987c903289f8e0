//! Vector kernels on rows of floats, written so that the compiler uses vector registers.
//!
//! The order of additions is fixed (16 lanes, then pairwise from the halves), so results don't depend on the machine.

use wide::f32x8;

/// The dot product of two rows.
///
/// Two vectors of 8 lanes each, which the lanes' products are added to in turn. The vectors are explicit: left to
/// itself the compiler takes some lengths apart into single lanes.
///
/// ```
/// assert_eq!(stradsap_runtime::kernels::dot(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), 32.0);
/// ```
#[inline(always)]
pub fn dot<const K: usize>(a: &[f32; K], b: &[f32; K]) -> f32 {
    let (a_eights, a_rest) = a.as_chunks::<8>();
    let (b_eights, b_rest) = b.as_chunks::<8>();
    let mut lanes = [f32x8::ZERO; 2];
    for (k, (x, y)) in a_eights.iter().zip(b_eights).enumerate() {
        lanes[k % 2] += f32x8::new(*x) * f32x8::new(*y);
    }
    if !a_rest.is_empty() {
        let (mut x, mut y) = ([0.0; 8], [0.0; 8]);
        x[..a_rest.len()].copy_from_slice(a_rest);
        y[..b_rest.len()].copy_from_slice(b_rest);
        lanes[a_eights.len() % 2] += f32x8::new(x) * f32x8::new(y);
    }
    let eight = (lanes[0] + lanes[1]).to_array();
    let four: [f32; 4] = std::array::from_fn(|k| eight[k] + eight[k + 4]);
    (four[0] + four[2]) + (four[1] + four[3])
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
