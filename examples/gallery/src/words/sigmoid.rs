//! The logistic function from a table, as in the original.

use serde::{Deserialize, Serialize};

/// The table covers arguments above `-LIMIT` and below `LIMIT`.
pub const LIMIT: f32 = 6.0;
const ENTRIES: usize = 1000;
/// Entries per unit of the argument: a whole number, as the original divides, so that the last few are never used.
const PER_UNIT: f32 = (ENTRIES / LIMIT as usize / 2) as f32;

/// Values of `1 / (1 + exp(-x))`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sigmoid {
    table: Box<[f32]>,
}

impl Default for Sigmoid {
    fn default() -> Sigmoid {
        let entry = |i: usize| {
            let e = ((i as f32 / ENTRIES as f32 * 2.0 - 1.0) * LIMIT).exp();
            e / (e + 1.0)
        };
        Sigmoid { table: (0..ENTRIES).map(entry).collect() }
    }
}

impl Sigmoid {
    /// The value at `x`: 0 or 1 where the table has none, at [`-LIMIT`](LIMIT) and below, at `LIMIT` and above. NaN stays.
    #[inline(always)]
    pub fn at(&self, x: f32) -> f32 {
        if x > -LIMIT && x < LIMIT {
            self.table[(((x + LIMIT) * PER_UNIT) as usize).min(ENTRIES - 1)]
        } else if x.is_nan() {
            x
        } else {
            f32::from(x > 0.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_the_original_s() {
        let sigmoid = Sigmoid::default();
        // Entry 498 of 1000, since 6 * 83 = 498: the logistic function at -0.024.
        assert!((sigmoid.at(0.0) - 0.494).abs() < 1e-4);
        for x in [-5.99f32, -3.0, -0.5, 0.7, 2.0, 5.99] {
            let exact = 1.0 / (1.0 + (-x).exp());
            assert!((sigmoid.at(x) - exact).abs() < 0.012, "{x}");
        }
    }

    #[test]
    fn the_ends() {
        let sigmoid = Sigmoid::default();
        for (x, expected) in [(-6.0, 0.0), (6.0, 1.0), (-1e30, 0.0), (f32::INFINITY, 1.0)] {
            assert_eq!(sigmoid.at(x), expected);
        }
        assert!(sigmoid.at(f32::NAN).is_nan());
        assert!((0.99..1.0).contains(&sigmoid.at(6.0f32.next_down())));
        assert!((1e-4..0.01).contains(&sigmoid.at((-6.0f32).next_up())));
    }
}
