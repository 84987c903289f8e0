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

/// `exp(digamma(x))` for numbers above 0, with a relative error below 6e-6 (2e-6 from 1/16 on); results below 1e-12, for x below
/// 0.036, count as 1e-12.
///
/// ```
/// use stradsap_gallery::variational::exp_digamma;
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

#[cfg(test)]
mod tests {
    use super::*;

    fn one(x: f32) -> f32 {
        exp_digamma(f32x16::splat(x)).to_array()[7]
    }

    /// In `f64`, with a recursion so long and a series so far that the error is that of the arithmetic.
    fn digamma(x: f64) -> f64 {
        let (mut x, mut sum) = (x, 0.0);
        while x < 30.0 {
            sum -= 1.0 / x;
            x += 1.0;
        }
        let u = 1.0 / (x * x);
        sum + x.ln() - 0.5 / x - u * (1.0 / 12.0 - u * (1.0 / 120.0 - u * (1.0 / 252.0 - u / 240.0)))
    }

    #[test]
    fn values_are_those_of_forty_digits() {
        // Computed by mpmath with 40 digits.
        let known: &[(f64, f64)] = &[
            (0.0625, 6.97147799965e-8),
            (0.100000001, 2.97180845736e-5),
            (0.150000006, 0.000892938300631),
            (0.200000003, 0.00504660359045),
            (0.25, 0.0145894949478),
            (0.333333343, 0.0436289795986),
            (0.5, 0.140364870892),
            (0.75, 0.337611018253),
            (1.0, 0.561459483567),
            (1.25, 0.796559434065),
            (1.46163213, 0.999999987964),
            (1.5, 1.03716390534),
            (2.0, 1.5262051116),
            (2.5, 2.02011944458),
            (3.0, 2.51628683094),
            (4.5, 4.01031954975),
            (7.0, 6.50638716437),
            (10.0, 9.50437851808),
            (33.25, 32.7512720819),
            (100.0, 99.5004187539),
            (1234.5, 1234.00003377),
            (100000.0, 99999.5000004),
            (10000000.0, 9999999.5),
            (1.0e9, 999999999.5),
            (4.0e9, 3999999999.5),
            (9.99999996e11, 999999995904.0),
        ];
        for &(x, value) in known {
            let error = f64::from(one(x as f32)) / value - 1.0;
            assert!(error.abs() < 2e-6, "{x}: {error:e}");
            if x < 1e6 {
                assert!((digamma(f64::from(x as f32)).exp() / value - 1.0).abs() < 1e-8, "{x}");
            }
        }
    }

    #[test]
    fn errors_are_bounded_everywhere() {
        let mut x = 0.037f64;
        while x < 1e6 {
            let (found, want) = (f64::from(one(x as f32)), digamma(f64::from(x as f32)).exp());
            assert!((found / want - 1.0).abs() < 6e-6, "{x}: {found:e}, not {want:e}");
            x *= 1.0007;
        }
    }

    #[test]
    fn small_and_large_numbers_are_no_trouble() {
        for x in [1e-38, 1e-20, 1e-9, 1e-3, 0.03] {
            assert_eq!(one(x), 1e-12, "{x}");
        }
        for x in [1e9, 1e13, 1e18] {
            assert!((one(x) / x - 1.0).abs() < 1e-6, "{x}");
        }
        let strips: [f32; 16] = std::array::from_fn(|k| 0.1 + k as f32);
        let together = exp_digamma(f32x16::new(strips)).to_array();
        assert!(together.iter().zip(strips).all(|(&y, x)| y == one(x)));
    }
}
