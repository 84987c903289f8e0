//! The options of cyclic coordinate descent.

use std::num::NonZeroUsize;
use std::path::Path;

use stradsap_examples::Result;
use stradsap_examples::model::DataSize;
use stradsap_examples::numbers::{fraction, nonzero, not_negative};
use stradsap_examples::ratings::{Ratings, Split};

/// In which order coordinates are updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Order {
    /// All features of W, then all of H
    Matrix,
    /// A feature of W, then the same one of H
    Feature,
}

/// What rows are pulled towards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Centre {
    /// Rows of equal values, whose inner product is the mean rating
    Mean,
    /// Zeros
    Zero,
}

/// The options of matrix factorisation by cyclic coordinate descent.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Matrix factorisation")]
pub struct CcdArgs {
    /// Values in each user's and each item's row
    #[arg(long, value_name = "K", default_value = "32", value_parser = nonzero::<NonZeroUsize>)]
    pub rank: NonZeroUsize,

    /// How strongly all values are pulled towards the centre
    #[arg(long, visible_aliases = ["lambda", "regularization"], value_name = "L", default_value_t = 20.0, value_parser = not_negative::<f32>)]
    pub regularisation: f32,

    /// What rows start from and are pulled towards
    #[arg(long, value_enum, default_value_t = Centre::Mean)]
    pub centre: Centre,

    /// The order in which coordinates are updated
    #[arg(long, value_enum, default_value_t = Order::Matrix)]
    pub order: Order,

    /// Part of the ratings that is kept apart for the test, chosen by the seed
    #[arg(long, value_name = "F", default_value_t = 0.1, value_parser = fraction)]
    pub test_fraction: f64,

    /// Keep ratings, users and items in the order of the file, not in a random one chosen by the seed
    #[arg(long)]
    pub file_order: bool,
}

impl CcdArgs {
    /// What the model depends on, besides the number of epochs: runs with the same text train the same model.
    pub fn settings(&self, seed: u64, size: &DataSize) -> String {
        format!("{size}, {self:?}, --seed {seed}")
    }

    /// The order and the split that the options ask for.
    ///
    /// # Errors
    /// As [`Ratings::split`].
    pub fn prepare(&self, mut ratings: Ratings, path: &Path, seed: u64) -> Result<(Ratings, Split)> {
        if !self.file_order {
            ratings.renumber(seed);
        }
        let split = ratings.split(path, seed, self.test_fraction)?;
        Ok((ratings, split))
    }
}
