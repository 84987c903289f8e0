//! Matrix factorisation, as far as the parallel program and its sequential twin share it: the initial values, one step
//! of stochastic gradient descent, the error, and how the factors are stored.

use std::fmt;
use std::path::Path;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};
use wide::f32x8;

use crate::files::{Staged, create_folder};
pub use crate::hyper::FactorArgs;
use crate::ratings::{Rating, Ratings, Split};
use crate::run::Measures;
use crate::{Result, npy};
use stradsap::random::Stream;

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct DataSize {
    /// Ratings in the file.
    pub rows: usize,
    /// Users among them.
    pub users: usize,
    /// Items among them.
    pub items: usize,
    /// Ratings to train on.
    pub train: usize,
    /// Ratings kept apart.
    pub test: usize,
}

impl DataSize {
    /// Of a file and its split.
    pub fn of(ratings: &Ratings, split: &Split) -> DataSize {
        DataSize {
            rows: ratings.rows.len(),
            users: ratings.users.len(),
            items: ratings.items.len(),
            train: split.train.len(),
            test: split.test.len(),
        }
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DataSize { rows, users, items, train, test } = self;
        write!(f, "{rows} ratings of {items} items by {users} users: {train} to train on, {test} for the test")
    }
}

/// Root-mean-square errors of an epoch, in the scale of the ratings.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Rmse {
    /// Over the training ratings, each as it was predicted just before its own step.
    pub train_rmse: f64,
    /// Over the test ratings after the epoch; absent when there are none.
    pub test_rmse: Option<f64>,
}

impl Measures for Rmse {
    const AXIS: &'static str = "RMSE (rating units)";
    const ADVICE: &'static str = "try a smaller --learning-rate";

    fn objective(&self) -> f64 {
        self.train_rmse
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        let test = self.test_rmse.map(|rmse| ("test RMSE", rmse));
        [("training RMSE", self.train_rmse)].into_iter().chain(test).collect()
    }
}

impl Rmse {
    /// From sums of squared errors over the training and the test ratings.
    pub fn of(size: &DataSize, train_loss: f64, test_loss: f64) -> Rmse {
        let root_mean = |sum: f64, count: usize| (sum / count as f64).sqrt();
        Rmse {
            train_rmse: root_mean(train_loss, size.train),
            test_rmse: (size.test > 0).then(|| root_mean(test_loss, size.test)),
        }
    }
}

/// Which of the two matrices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Matrix {
    /// P: a row for each user.
    Users,
    /// Q: a row for each item.
    Items,
}

/// Where the rows start: every prediction is about the mean rating, and no two rows are alike.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Start {
    seed: u64,
    mean: f32,
}

/// The spread of the initial values, as a part of their level.
const NOISE: f32 = 0.25;
/// The level that the noise goes by where the mean rating is about zero.
const LEAST_LEVEL: f32 = 0.1;

impl Start {
    /// For the ratings that will be trained on.
    pub fn new(seed: u64, train: &[Rating]) -> Start {
        let sum: f64 = train.iter().map(|r| f64::from(r.stars)).sum();
        Start { seed, mean: (sum / train.len().max(1) as f64) as f32 }
    }

    /// What the values of a row are about: rows of it have the mean rating as their product.
    pub fn level(self, matrix: Matrix, rank: usize) -> f32 {
        let level = (self.mean.abs() / rank as f32).sqrt();
        if matrix == Matrix::Items { level.copysign(self.mean) } else { level }
    }

    /// The initial row of a user or an item, a function of seed, matrix, index and rank alone.
    pub fn row(self, matrix: Matrix, rank: usize, index: usize) -> impl Iterator<Item = f32> {
        let level = self.level(matrix, rank);
        let spread = NOISE * level.abs().max(LEAST_LEVEL);
        let noise = Stream::new(self.seed, matrix as u64);
        (0..rank).map(move |k| {
            let u = noise.unit((index * rank + k) as u64);
            level + spread * (2.0 * u - 1.0)
        })
    }
}

/// The inner product of two rows, summed in sixteen lanes: the order of the additions is part of the result. (The
/// vectors are explicit, since the compiler takes the lanes of some lengths apart.)
#[inline(always)]
pub fn dot(a: &[f32], b: &[f32]) -> f32 {
    let product = |a: &[f32; 8], b: &[f32; 8]| f32x8::new(*a) * f32x8::new(*b);
    let (a_chunks, a_rest) = a.as_chunks::<16>();
    let (b_chunks, b_rest) = b.as_chunks::<16>();
    let mut lanes = [f32x8::ZERO; 2];
    for (a, b) in a_chunks.iter().zip(b_chunks) {
        let ((a, _), (b, _)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
        lanes[0] += product(&a[0], &b[0]);
        lanes[1] += product(&a[1], &b[1]);
    }
    if !a_rest.is_empty() {
        let mut rest = [[0.0; 8]; 2];
        for (lane, (a, b)) in rest.as_flattened_mut().iter_mut().zip(a_rest.iter().zip(b_rest)) {
            *lane = a * b;
        }
        lanes[0] += f32x8::new(rest[0]);
        lanes[1] += f32x8::new(rest[1]);
    }
    let sums = (lanes[0] + lanes[1]).to_array();
    ((sums[0] + sums[4]) + (sums[2] + sums[6])) + ((sums[1] + sums[5]) + (sums[3] + sums[7]))
}

/// One step of stochastic gradient descent on one rating: both rows move against the gradient of
/// `e² + lambda (|p|² + |q|²)`, each from the other's old value. Gives `e`, the error before the step.
#[inline(always)]
pub fn sgd_step(pu: &mut [f32], qi: &mut [f32], stars: f32, alpha: f32, lambda: f32) -> f32 {
    let e = stars - dot(pu, qi);
    for (p, q) in pu.iter_mut().zip(qi.iter_mut()) {
        let (old_p, old_q) = (*p, *q);
        *p += alpha * (e * old_q - lambda * old_p);
        *q += alpha * (e * old_p - lambda * old_q);
    }
    e
}

/// Stores a model in a folder: `p.npy` and `q.npy` of shapes (users, rank) and (items, rank), and `users.txt` and
/// `items.txt` with the id of each row. Files get their names only when all four are complete.
///
/// # Errors
/// [`Error::File`](crate::Error::File).
pub fn store<R: AsRef<[f32]>>(
    folder: &Path,
    ratings: &Ratings,
    rank: usize,
    p: impl ExactSizeIterator<Item = R>,
    q: impl ExactSizeIterator<Item = R>,
) -> Result<()> {
    create_folder(folder)?;
    let staged = [
        Staged::write(&folder.join("p.npy"), |out| npy::write_matrix(out, rank, p))?,
        Staged::write(&folder.join("q.npy"), |out| npy::write_matrix(out, rank, q))?,
        stage_ids(&folder.join("users.txt"), &ratings.users)?,
        stage_ids(&folder.join("items.txt"), &ratings.items)?,
    ];
    staged.into_iter().try_for_each(Staged::commit)
}

fn stage_ids(path: &Path, ids: &IndexSet<Box<str>>) -> Result<Staged> {
    Staged::write(path, |out| ids.iter().try_for_each(|id| writeln!(out, "{id}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn dot_is_an_inner_product_at_every_rank() {
        for rank in 1..=300 {
            let a: Vec<f32> = (0..rank).map(|k| k as f32 + 1.0).collect();
            let b: Vec<f32> = (0..rank).map(|k| (k % 3) as f32 - 1.0).collect();
            let exact: f32 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(dot(&a, &b), exact);
        }
    }

    #[test]
    fn a_step_lessens_the_error() {
        let start = Start { seed: 1, mean: 4.0 };
        let row = |matrix, i| start.row(matrix, 24, i).collect::<Vec<_>>();
        let (mut p, mut q) = (row(Matrix::Users, 3), row(Matrix::Items, 5));
        let first = sgd_step(&mut p, &mut q, 5.0, 0.01, 0.02);
        assert!((5.0 - dot(&p, &q)).abs() < first.abs());
    }

    #[test]
    fn initial_predictions_are_about_the_mean() {
        for mean in [3.5f32, -2.0, 0.0] {
            let start = Start { seed: 4, mean };
            let row = |matrix, i| start.row(matrix, 64, i).collect::<Vec<_>>();
            let predictions = (0..500).map(|i| dot(&row(Matrix::Users, i), &row(Matrix::Items, 2 * i)));
            let average = predictions.sum::<f32>() / 500.0;
            assert!((average - mean).abs() < 0.05 * mean.abs().max(1.0), "{average} for {mean}");
        }
    }
}
