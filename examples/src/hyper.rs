//! The hyper-parameters of matrix factorisation.

use std::path::Path;

use stradsap::Session;

use crate::cli::CommonArgs;
use crate::model::DataSize;
use crate::numbers::{at_least_1, fraction, not_negative, positive};
use crate::ratings::{Ratings, Split};
use crate::{Result, ids};

/// The options of matrix factorisation.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Matrix factorisation")]
pub struct FactorArgs {
    /// Values in each user's and each item's row
    #[arg(long, value_name = "K", default_value_t = 32, value_parser = at_least_1)]
    pub rank: usize,

    /// Step of the gradient descent
    #[arg(long, value_name = "A", default_value_t = 0.004, value_parser = positive::<f32>)]
    pub learning_rate: f32,

    /// How strongly long rows are pulled towards zero
    #[arg(long, visible_aliases = ["lambda", "regularization"], value_name = "L", default_value_t = 0.07, value_parser = not_negative::<f32>)]
    pub regularisation: f32,

    /// Part of the ratings that is kept apart for the test, chosen by the seed
    #[arg(long, value_name = "F", default_value_t = 0.1, value_parser = fraction)]
    pub test_fraction: f64,

    /// Keep ratings, users and items in the order of the file, not in a random one chosen by the seed
    #[arg(long)]
    pub file_order: bool,
}

impl FactorArgs {
    /// What the model depends on, besides the number of epochs: runs with the same text train the same model.
    pub fn settings(&self, seed: u64, size: &DataSize) -> String {
        let FactorArgs { rank, learning_rate, regularisation, test_fraction, file_order } = self;
        format!(
            "{size}, --rank {} --learning-rate {learning_rate} --regularisation {regularisation} \
             --test-fraction {test_fraction} --seed {seed}{}",
            rank,
            if *file_order { " --file-order" } else { "" }
        )
    }

    /// Reads the ratings that the command line names, as they are trained on and tested with.
    ///
    /// # Errors
    /// As [`CommonArgs::data_or_default`], [`Ratings::read`] and [`Ratings::split`].
    pub fn read(&self, common: &CommonArgs) -> Result<(Ratings, Split)> {
        let path = common.data_or_default()?;
        self.prepare(Ratings::read(&path)?, &path, common.seed)
    }

    /// [`read`](FactorArgs::read), with users and items numbered on the session's threads or workers.
    ///
    /// # Errors
    /// Those of [`read`](FactorArgs::read) and of the operators.
    pub fn read_with(
        &self,
        session: &Session,
        common: &CommonArgs,
    ) -> std::result::Result<(Ratings, Split), crate::AnyError> {
        let path = common.data_or_default()?;
        Ok(self.prepare(ids::read(session, &path)?, &path, common.seed)?)
    }

    /// The order and the split that the options ask for.
    ///
    /// # Errors
    /// As [`Ratings::split`].
    fn prepare(&self, mut ratings: Ratings, path: &Path, seed: u64) -> Result<(Ratings, Split)> {
        if !self.file_order {
            ratings.renumber(seed);
        }
        let mut split = ratings.split(path, seed, self.test_fraction)?;
        if !self.file_order {
            split.shuffle(seed);
        }
        Ok((ratings, split))
    }
}
