//! The model that every contestant trains.

use std::hash::{DefaultHasher, Hasher};

use stradsap_examples::model::{Matrix, dot};

use crate::data::{Rating, RatingSet};

/// Both factor matrices: a row of `K` for each user and for each item.
#[derive(Clone)]
pub struct Factors<const K: usize> {
    /// A row for each user.
    pub p: Vec<[f32; K]>,
    /// A row for each item.
    pub q: Vec<[f32; K]>,
}

/// A user's or an item's initial row.
pub fn initial<const K: usize>(set: &RatingSet, matrix: Matrix, index: usize) -> [f32; K] {
    let mut row = [0.0; K];
    row.iter_mut().zip(set.start.row(matrix, K, index)).for_each(|(to, x)| *to = x);
    row
}

impl<const K: usize> Factors<K> {
    /// The initial factors of `set`: the same for every contestant, and the ones of the example program.
    pub fn initial(set: &RatingSet) -> Self {
        Self {
            p: (0..set.users).map(|user| initial(set, Matrix::Users, user)).collect(),
            q: (0..set.items).map(|item| initial(set, Matrix::Items, item)).collect(),
        }
    }

    /// A hash of every bit.
    pub fn fingerprint(&self) -> u64 {
        let mut hash = DefaultHasher::new();
        self.p.iter().chain(&self.q).flatten().for_each(|x| hash.write_u32(x.to_bits()));
        hash.finish()
    }

    /// Root mean squared error over `ratings`; 0 when there are none.
    pub fn rmse(&self, ratings: &[Rating]) -> f64 {
        let squares: f64 = ratings
            .iter()
            .map(|r| f64::from(r.stars - dot(&self.p[r.user as usize], &self.q[r.item as usize])).powi(2))
            .sum();
        (squares / ratings.len().max(1) as f64).sqrt()
    }
}
