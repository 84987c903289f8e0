//! Floats that can be compared.

use std::cmp::Ordering;

/// A float as a key to sort by: `x.sort_by_key(|row| Ordered(row.score))`, or in descending order `x.sort_by_key(|row|
/// Reverse(Ordered(row.score)))`.
///
/// The order is that of [`f64::total_cmp`]: -∞ comes first, -0.0 before 0.0, and ∞ before NaN (a negative NaN comes before all).
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Ordered;
///
/// let mut scores = [2.5f64, f64::NAN, -1.0];
/// scores.sort_by_key(|score| Ordered(*score));
/// assert_eq!(scores[..2], [-1.0, 2.5]);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Ordered<F>(pub F);

macro_rules! floats {
    ($($float:ty)*) => {$(
        impl PartialEq for Ordered<$float> {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for Ordered<$float> {}

        impl PartialOrd for Ordered<$float> {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for Ordered<$float> {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }
    )*};
}
floats!(f32 f64);
