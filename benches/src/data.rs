//! Sets of ratings, cut into a training and a test part.

use std::path::Path;

use anyhow::Result;
use stradsap::prelude::*;
use stradsap_examples::model::Start;
use stradsap_examples::ratings::{self, Ratings};

use crate::generate::shuffle;

/// One rating.
#[derive(Clone, Copy, Element)]
pub struct Rating {
    /// The user's number, from 0.
    pub user: u32,
    /// The item's number, from 0.
    pub item: u32,
    /// How the user liked the item.
    pub stars: f32,
}

/// A set of ratings to train and to test on.
pub struct RatingSet {
    /// What tables call it.
    pub name: &'static str,
    /// How many users there are.
    pub users: usize,
    /// How many items there are.
    pub items: usize,
    /// The ratings to train on, in the order in which the plain loop runs over them.
    pub train: Vec<Rating>,
    /// The ratings held back.
    pub test: Vec<Rating>,
    /// Where the factors start.
    pub start: Start,
    /// Learning rate.
    pub alpha: f32,
    /// Regularisation.
    pub lambda: f32,
}

/// What initial values and the test ratings come from, as in the example program, and the hyper-parameters.
const SEED: u64 = 1;
const TEST_FRACTION: f64 = 0.1;
pub(crate) const ALPHA: f32 = 0.008;
pub(crate) const LAMBDA: f32 = 0.05;

impl RatingSet {
    /// The set of these ratings.
    pub fn new(
        name: &'static str,
        users: usize,
        items: usize,
        train: &[ratings::Rating],
        test: &[ratings::Rating],
    ) -> Self {
        Self {
            name,
            users,
            items,
            train: elements(train),
            test: elements(test),
            start: Start::new(SEED, train),
            alpha: ALPHA,
            lambda: LAMBDA,
        }
    }

    /// The ratings of a file that the example program reads. One in ten is held back to test on, the same ones in
    /// every run. They stay in the file's order unless `shuffled`.
    ///
    /// # Errors
    /// A file that can't be read, has no ratings, or has a line that is not a rating.
    pub fn read(name: &'static str, path: &Path, shuffled: bool) -> Result<Self> {
        let ratings = Ratings::read(path)?;
        let mut split = ratings.split(path, SEED, TEST_FRACTION)?;
        if shuffled {
            shuffle(&mut split.train);
        }
        Ok(Self::new(name, ratings.users.len(), ratings.items.len(), &split.train, &split.test))
    }
}

fn elements(ratings: &[ratings::Rating]) -> Vec<Rating> {
    ratings.iter().map(|r| Rating { user: r.user, item: r.item, stars: r.stars }).collect()
}
