//! The exponential of the digamma function, in the precision of `f32` and without a branch, so that it is computed for
//! many topics at a time.
//!
//! What inference needs is never the digamma function itself but `exp(digamma(x))`. As in MA-LDA a recursion leads to where
//! a few terms of an asymptotic series are enough: `digamma(x) = digamma(x + 4) - 1/x - 1/(x+1) - 1/(x+2) - 1/(x+3)`. The
//! exponential has a series of its own, `exp(digamma(t + 1/2)) = t + 1/(24 t) - 37/(5760 t^3) + ...`, which takes no logarithm; the
//! next term left out is 7e-7 of the value at worst.

use wide::f32x16;

/// The exponential of numbers from -87 to 0, with a relative error below 2e-7; smaller numbers count as -87.
#[inline(always)]
fn exp_negative(x: f32x16) -> f32x16 {
    // Adding it leaves a whole number in the lowest bits.
    const ROUND: f32 = 12_582_912.0;
    let x = x.fast_max(f32x16::splat(-87.0));
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let whole = shifted - ROUND;
    // ln 2 in two parts, of which the first has so few digits that its multiples are exact.
    let r = x - whole * 0.693_359_4 - whole * -2.121_944_4e-4;
    let series = r * (1.0 / 720.0) + 1.0 / 120.0;
    let series = series * r + 1.0 / 24.0;
    let series = series * r + 1.0 / 6.0;
    let series = series * r + 0.5;
    let series = series * r + 1.0;
    let series = series * r + 1.0;
    let exponent = |shifted: f32| (shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127)) << 23;
    series * f32x16::new(shifted.to_array().map(|shifted| f32::from_bits(exponent(shifted))))
}

/// `exp(digamma(x))` for numbers above 0, with a relative error below 2e-6 wherever the result is above 1e-12; smaller results
/// count as 1e-12.
///
/// ```
/// use stradsap_examples::variational::exp_digamma;
///
/// let euler_gamma = 0.577_215_7f32;
/// let one = exp_digamma([1.0; 16].into()).to_array()[0];
/// assert!((one - (-euler_gamma).exp()).abs() < 1e-6);
/// ```
#[inline(always)]
pub fn exp_digamma(x: f32x16) -> f32x16 {
    let t = x + 3.5;
    let u = f32x16::ONE / (t * t);
    let series = ((u * (10313.0 / 2_903_040.0) - 37.0 / 5760.0) * u + 1.0 / 24.0) * u + 1.0;
    // Beyond, the reciprocals don't count; their products would overflow.
    let x = x.fast_max(f32x16::splat(1e-9)).fast_min(f32x16::splat(1e9));
    let above = ((x * 4.0 + 18.0) * x + 22.0) * x + 6.0;
    let below = (((x + 6.0) * x + 11.0) * x + 6.0) * x;
    (t * series * exp_negative(-(above / below))).fast_max(f32x16::splat(1e-12))
}
