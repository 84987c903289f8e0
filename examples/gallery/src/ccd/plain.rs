//! The model, and training as a plain sequential program.

use std::path::Path;

use stradsap::Digest;
use stradsap_examples::Result;
use stradsap_examples::model::{self, DataSize};
use stradsap_examples::ratings::Ratings;

use super::{ByUser, Order, best, start};

/// The factors, by feature: `w[k * users + user]`, `h[k * items + item]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// Values of a row.
    pub rank: usize,
    /// Users.
    pub users: usize,
    /// Items.
    pub items: usize,
    /// Of users.
    pub w: Vec<f32>,
    /// Of items.
    pub h: Vec<f32>,
}

impl Factors {
    /// As they start.
    pub fn new(rank: usize, size: &DataSize, seed: u64) -> Factors {
        let (users, items) = (size.users, size.items);
        let h = (0..rank * items).map(|at| start(seed, rank, at % items, at / items)).collect();
        Factors { rank, users, items, w: vec![0.0; rank * users], h }
    }

    /// The predicted rating.
    pub fn predict(&self, user: u32, item: u32) -> f64 {
        let (w, h) = (self.w.iter().skip(user as usize), self.h.iter().skip(item as usize));
        let pairs = w.step_by(self.users).zip(h.step_by(self.items));
        pairs.map(|(&w, &h)| f64::from(w) * f64::from(h)).sum()
    }

    /// Stores the rows of users and items as other factorisations do.
    ///
    /// # Errors
    /// [`Error::File`](stradsap_examples::Error::File).
    pub fn store(&self, folder: &Path, ratings: &Ratings) -> Result<()> {
        let row = |values: &[f32], rows: usize, at: usize| -> Vec<f32> {
            values.iter().skip(at).step_by(rows).copied().collect()
        };
        let w = (0..self.users).map(|user| row(&self.w, self.users, user));
        let h = (0..self.items).map(|item| row(&self.h, self.items, item));
        model::store(folder, ratings, self.rank, w, h)
    }

    /// The digest of the values.
    pub fn digest(&self) -> Digest {
        Digest::new().matrix([&self.w, &self.h])
    }
}

/// One pass over all coordinates; `left` is what the factors leave of the ratings.
pub fn train_epoch(factors: &mut Factors, ratings: &ByUser, left: &mut [f32], order: Order, lambda: f64) {
    match order {
        Order::Matrix => {
            (0..factors.rank).for_each(|k| users(factors, k, ratings, left, lambda));
            (0..factors.rank).for_each(|k| items(factors, k, ratings, left, lambda));
        }
        Order::Feature => {
            for k in 0..factors.rank {
                users(factors, k, ratings, left, lambda);
                items(factors, k, ratings, left, lambda);
            }
        }
    }
}

/// Feature `k` of all users.
fn users(factors: &mut Factors, k: usize, ratings: &ByUser, left: &mut [f32], lambda: f64) {
    let h = &factors.h[k * factors.items..][..factors.items];
    for (user, w) in factors.w[k * factors.users..][..factors.users].iter_mut().enumerate() {
        let range = ratings.of(user);
        let (items, left) = (&ratings.items[range.clone()], &mut left[range]);
        let (mut products, mut squares) = (0.0, 0.0);
        for (&item, &r) in items.iter().zip(left.iter()) {
            let h = f64::from(h[item as usize]);
            products += f64::from(r) * h;
            squares += h * h;
        }
        let new = best(*w, products, squares, lambda);
        let change = new - *w;
        *w = new;
        items.iter().zip(left).for_each(|(&item, r)| *r -= change * h[item as usize]);
    }
}

/// Feature `k` of all items.
fn items(factors: &mut Factors, k: usize, ratings: &ByUser, left: &mut [f32], lambda: f64) {
    let w = &factors.w[k * factors.users..][..factors.users];
    let mut sums = vec![[0.0; 2]; factors.items];
    for (user, &w) in w.iter().enumerate() {
        let range = ratings.of(user);
        for (&item, &r) in ratings.items[range.clone()].iter().zip(&left[range]) {
            let [products, squares] = &mut sums[item as usize];
            *products += f64::from(r) * f64::from(w);
            *squares += f64::from(w) * f64::from(w);
        }
    }
    let h = &mut factors.h[k * factors.items..][..factors.items];
    let changes: Vec<f32> = h
        .iter_mut()
        .zip(sums)
        .map(|(h, [products, squares])| {
            let old = std::mem::replace(h, best(*h, products, squares, lambda));
            *h - old
        })
        .collect();
    for (user, &w) in w.iter().enumerate() {
        let range = ratings.of(user);
        let left = &mut left[range.clone()];
        ratings.items[range].iter().zip(left).for_each(|(&item, r)| *r -= w * changes[item as usize]);
    }
}
