//! Matrix factorisation by cyclic coordinate descent, as far as the parallel program and its sequential twin share it.
//!
//! The objective is the sum of `(a - w.h)^2` over all ratings and `lambda (|W - c|^2 + |H - d|^2)`. With all else held fixed,
//! it is least in one number of `W` where that is `(lambda c + sum(r h + w h h)) / (lambda + sum(h h))`, over the user's ratings,
//! of which `r` is what is left of a rating; and likewise in one of `H` (STRADS, supplement, section 2, has 0 for `c` and
//! `d`). What is left is kept for every rating, and brought up to date with each change.
//!
//! `c` and `d` are the centre: by default such that rows of them have the mean rating as their product, so that a user with
//! few ratings is predicted to rate about as others do, not 0. Where both matrices are zero nothing can move: `w` is 0 if
//! all `h` are. So `W` starts from the centre, and `H` with small random numbers about it.

mod measures;
mod options;
mod plain;

pub use measures::SquaredError;
pub use options::{CcdArgs, Centre, Order};
pub use plain::{Factors, train_epoch};

use serde::{Deserialize, Serialize};
use stradsap::random::Stream;
use stradsap_examples::ratings::Rating;

/// The purpose of the random numbers that `H` starts from.
const START: u64 = 0x0ccd;

/// Feature `k` of item `item` of `H`, as it starts where the centre is zero.
fn start(seed: u64, rank: usize, item: usize, k: usize) -> f32 {
    Stream::new(seed, START).unit((item * rank + k) as u64) / (rank as f32).sqrt()
}

/// Ratings ordered by user; those of a user are in the order of the training set.
#[derive(Debug, Clone, PartialEq)]
pub struct ByUser {
    /// Where the ratings of each user end.
    pub ends: Vec<usize>,
    /// The item of each rating.
    pub items: Vec<u32>,
    /// The ratings.
    pub stars: Vec<f32>,
}

impl ByUser {
    /// Of this many users.
    pub fn new(train: &[Rating], users: usize) -> ByUser {
        let mut starts = vec![0; users + 1];
        train.iter().for_each(|r| starts[r.user as usize + 1] += 1);
        for user in 0..users {
            starts[user + 1] += starts[user];
        }
        let ends = starts[1..].to_vec();
        let (mut items, mut stars) = (vec![0; train.len()], vec![0.0; train.len()]);
        for rating in train {
            let at = &mut starts[rating.user as usize];
            (items[*at], stars[*at]) = (rating.item, rating.stars);
            *at += 1;
        }
        ByUser { ends, items, stars }
    }

    /// Cuts the users into this many ranges, or fewer, of about as many ratings each. Gives where each range ends.
    pub fn cut(&self, parts: usize) -> Vec<usize> {
        let all = self.items.len();
        let mut borders: Vec<usize> = (1..=parts)
            .map(|part| self.ends.partition_point(|&end| end < all * part / parts) + 1)
            .map(|border| border.min(self.ends.len()))
            .collect();
        if let Some(last) = borders.last_mut() {
            *last = self.ends.len();
        }
        borders.dedup();
        borders
    }

    /// Where the ratings of a user begin and end.
    pub fn of(&self, user: usize) -> std::ops::Range<usize> {
        (if user == 0 { 0 } else { self.ends[user - 1] })..self.ends[user]
    }
}

/// How strongly values are pulled, and where to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Pull {
    /// The factor of the squared distances.
    pub lambda: f64,
    /// The centre of the users' values.
    pub users: f32,
    /// The centre of the items' values.
    pub items: f32,
}

/// The value that a coordinate takes: `products` are the sum of what is left of the ratings times the other side's
/// numbers, `squares` that of the squares of those. `lambda` pulls it towards `centre`.
#[inline(always)]
pub fn best(old: f32, products: f64, squares: f64, lambda: f64, centre: f32) -> f32 {
    let below = lambda + squares;
    let above = products + squares * f64::from(old) + lambda * f64::from(centre);
    if below > 0.0 { (above / below) as f32 } else { old }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratings() -> Vec<Rating> {
        (0..900u32).map(|n| Rating { user: n * n % 37, item: n % 23, stars: (n % 11) as f32 }).collect()
    }

    #[test]
    fn no_rating_is_lost() {
        let train = ratings();
        let by_user = ByUser::new(&train, 40);
        for user in 0..40 {
            let own: Vec<_> = by_user.of(user).map(|at| (by_user.items[at], by_user.stars[at])).collect();
            let want: Vec<_> = train.iter().filter(|r| r.user as usize == user).map(|r| (r.item, r.stars)).collect();
            assert_eq!(own, want, "user {user}");
        }
    }

    #[test]
    fn ranges_have_about_as_many_ratings_each() {
        let by_user = ByUser::new(&ratings(), 40);
        for parts in [1, 2, 3, 7, 40, 100] {
            let cut = by_user.cut(parts);
            assert!(cut.is_sorted_by(|a, b| a < b) && cut.last() == Some(&40) && cut.len() <= parts, "{cut:?}");
            let most = (0..40).map(|user| by_user.of(user).len()).max().unwrap();
            let mut first = 0;
            for end in cut {
                let ratings: usize = (first..end).map(|user| by_user.of(user).len()).sum();
                assert!(ratings <= 900 / parts + most + 1, "{parts} parts: {ratings}");
                first = end;
            }
        }
    }

    #[test]
    fn a_coordinate_takes_the_least_value() {
        let (h, left, old, lambda, centre) = ([0.5, -1.0, 2.0], [1.0, 0.25, -0.5], 0.75f32, 0.3, 0.4f32);
        let objective = |w: f64| {
            let errors = h.iter().zip(left).map(|(h, r): (&f64, f64)| (r - (w - f64::from(old)) * h).powi(2));
            errors.sum::<f64>() + lambda * (w - f64::from(centre)).powi(2)
        };
        let products = h.iter().zip(left).map(|(h, r)| h * r).sum();
        let new = f64::from(best(old, products, h.iter().map(|h| h * h).sum(), lambda, centre));
        assert!(objective(new) < objective(new + 1e-3) && objective(new) < objective(new - 1e-3));
        assert!(objective(new) < objective(f64::from(old)));
        assert_eq!(best(0.5, 0.0, 0.0, 0.0, 0.0), 0.5);
        assert_eq!(best(0.5, 0.0, 0.0, 2.0, 0.25), 0.25);
    }
}
