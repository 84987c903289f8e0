//! The model, and training as a plain sequential program.

use std::path::Path;

use stradsap::Digest;
use stradsap_examples::Result;
use stradsap_examples::model::{self, DataSize, Matrix, Start};
use stradsap_examples::ratings::{Rating, Ratings};

use super::{ByUser, CcdArgs, Centre, Order, Pull, best, start};

/// The factors, by feature: `w[k * users + user]`, `h[k * items + item]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Factors {
    /// Values of a row.
    pub rank: usize,
    /// Users.
    pub users: usize,
    /// Items.
    pub items: usize,
    /// What values are pulled towards.
    pub pull: Pull,
    /// Of users.
    pub w: Vec<f32>,
    /// Of items.
    pub h: Vec<f32>,
}

impl Factors {
    /// As they start.
    pub fn new(args: &CcdArgs, size: &DataSize, train: &[Rating], seed: u64) -> Factors {
        let (rank, users, items) = (args.rank.get(), size.users, size.items);
        let lambda = f64::from(args.regularisation);
        let mean = Start::new(seed, train);
        let (pull, h) = match args.centre {
            Centre::Zero => {
                let h = (0..rank * items).map(|at| start(seed, rank, at % items, at / items)).collect();
                (Pull { lambda, users: 0.0, items: 0.0 }, h)
            }
            Centre::Mean => {
                let rows: Vec<f32> = (0..items).flat_map(|item| mean.row(Matrix::Items, rank, item)).collect();
                let h = (0..rank * items).map(|at| rows[at % items * rank + at / items]).collect();
                let centre = |matrix| mean.level(matrix, rank);
                (Pull { lambda, users: centre(Matrix::Users), items: centre(Matrix::Items) }, h)
            }
        };
        Factors { rank, users, items, pull, w: vec![pull.users; rank * users], h }
    }

    /// What the factors leave of each rating.
    pub fn left(&self, ratings: &ByUser) -> Vec<f32> {
        let users = (0..self.users as u32).flat_map(|user| ratings.of(user as usize).map(move |_| user));
        let rated = users.zip(&ratings.items).zip(&ratings.stars);
        rated.map(|((user, &item), &stars)| (f64::from(stars) - self.predict(user, item)) as f32).collect()
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
pub fn train_epoch(factors: &mut Factors, ratings: &ByUser, left: &mut [f32], order: Order) {
    match order {
        Order::Matrix => {
            (0..factors.rank).for_each(|k| users(factors, k, ratings, left));
            (0..factors.rank).for_each(|k| items(factors, k, ratings, left));
        }
        Order::Feature => {
            for k in 0..factors.rank {
                users(factors, k, ratings, left);
                items(factors, k, ratings, left);
            }
        }
    }
}

/// Feature `k` of all users.
fn users(factors: &mut Factors, k: usize, ratings: &ByUser, left: &mut [f32]) {
    let Pull { lambda, users: centre, .. } = factors.pull;
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
        let new = best(*w, products, squares, lambda, centre);
        let change = new - *w;
        *w = new;
        items.iter().zip(left).for_each(|(&item, r)| *r -= change * h[item as usize]);
    }
}

/// Feature `k` of all items.
fn items(factors: &mut Factors, k: usize, ratings: &ByUser, left: &mut [f32]) {
    let Pull { lambda, items: centre, .. } = factors.pull;
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
            let old = std::mem::replace(h, best(*h, products, squares, lambda, centre));
            *h - old
        })
        .collect();
    for (user, &w) in w.iter().enumerate() {
        let range = ratings.of(user);
        let left = &mut left[range.clone()];
        ratings.items[range].iter().zip(left).for_each(|(&item, r)| *r -= w * changes[item as usize]);
    }
}
