//! Linear models with L2 regularisation, as far as the parallel program and its sequential twin share them: losses,
//! objective, learning rates, and how a model is stored.
//!
//! The objective of weights w is the mean of the examples' losses plus `lambda / 2 |w|²`. A step of rate `eta` on a
//! gradient g of the loss is proximal in the regulariser: `w = (w - eta g) / (1 + eta lambda)`. Written as `w = scale v`,
//! it changes `scale` and, in v, only the features that an example has; so it costs as much as the example has values
//! (Bottou, "Stochastic gradient descent tricks", section 5.1). Nothing here can make the scale negative.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use stradsap_examples::files::{Staged, create_folder};
use stradsap_examples::numbers::{not_negative, positive};
use stradsap_examples::run::Measures;
use stradsap_examples::{Result, data};

use crate::libsvm::{Classes, Examples, Feature};

mod plain;
mod rate;

pub use plain::{Model, gradient_descent, sgd};
pub use rate::{choose_for_gradients, choose_for_sgd};

/// What an error costs, as a function of the margin z = label * w.x.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Loss {
    /// max(0, 1 - z): a linear support vector machine
    Hinge,
    /// ln(1 + exp(-z)): logistic regression
    Logistic,
}

impl Loss {
    /// The loss at a margin.
    #[inline]
    pub fn value(self, z: f64) -> f64 {
        match self {
            Loss::Hinge => (1.0 - z).max(0.0),
            // The larger of two exponents is taken out, so that neither overflows.
            Loss::Logistic => (-z).max(0.0) + (-z.abs()).exp().ln_1p(),
        }
    }

    /// How fast the loss falls as the margin grows; at the hinge's kink 0.
    #[inline]
    pub fn slope(self, z: f64) -> f64 {
        match self {
            Loss::Hinge => f64::from(u8::from(z < 1.0)),
            Loss::Logistic => 1.0 / (1.0 + z.exp()),
        }
    }

    fn solver(self) -> &'static str {
        match self {
            Loss::Hinge => "L2R_L1LOSS_SVC_DUAL",
            Loss::Logistic => "L2R_LR",
        }
    }
}

/// The options of linear models.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Linear model")]
pub struct LinearArgs {
    /// What an error costs
    #[arg(long, value_enum, default_value_t = Loss::Hinge)]
    pub loss: Loss,

    /// How strongly large weights are pulled towards zero
    #[arg(long, visible_aliases = ["regularisation", "regularization"], value_name = "L", default_value_t = 1e-4, value_parser = not_negative::<f64>)]
    pub lambda: f64,

    /// The first learning rate [default: the best on a sample of the training set]
    #[arg(long, visible_alias = "learning-rate", value_name = "A", value_parser = positive::<f64>)]
    pub eta0: Option<f64>,

    /// Examples to test with [default: those of the repository's data set, if --data isn't given]
    #[arg(long, value_name = "PATH")]
    pub test: Option<PathBuf>,

    /// Keep the examples in the order of the file, not in a random one chosen by the seed
    #[arg(long)]
    pub file_order: bool,
}

impl LinearArgs {
    /// Reads the training set, in the order that it is trained in, and the test set, if there is one: of `data`, or of
    /// the repository.
    ///
    /// # Errors
    /// As [`Examples::read`] and [`data::default_examples`].
    pub fn read(&self, data: Option<&Path>, seed: u64) -> Result<(Examples, Option<Examples>)> {
        let (data, test) = match data {
            Some(path) => (path.to_path_buf(), self.test.clone()),
            None => {
                let [data, test] = data::default_examples()?;
                (data, Some(self.test.clone().unwrap_or(test)))
            }
        };
        let mut train = Examples::read(&data, None)?;
        let test = test.map(|path| Examples::read(&path, Some(train.classes()))).transpose()?;
        if !self.file_order {
            train.shuffle(seed);
        }
        Ok((train, test))
    }
}

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct DataSize {
    /// Examples to train on.
    pub train: usize,
    /// Examples kept for the test.
    pub test: usize,
    /// Features, whether or not an example has them.
    pub features: usize,
    /// Values of the training examples that aren't zero.
    pub values: usize,
}

impl DataSize {
    /// Of both sets.
    pub fn of(train: &Examples, test: Option<&Examples>) -> DataSize {
        DataSize {
            train: train.len(),
            test: test.map_or(0, Examples::len),
            features: train.features().max(test.map_or(0, Examples::features)),
            values: train.values(),
        }
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DataSize { train, test, features, values } = self;
        write!(f, "{train} examples of {features} features ({values} values) to train on, {test} for the test")
    }
}

/// How a model does after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Mean loss over the training set, and the regulariser.
    pub regularised_loss: f64,
    /// Part of the training examples on the right side.
    pub train_accuracy: f64,
    /// Part of the test examples on the right side; absent when there are none.
    pub test_accuracy: Option<f64>,
    /// Times that the copies of the model have been united so far.
    pub rounds: u64,
}

/// Sums over a set of examples: their losses, and how many are on the right side of the plane.
#[derive(Debug, Clone, Copy, Default)]
pub struct Score {
    /// The sum of the losses.
    pub loss: f64,
    /// Examples whose margin is above 0.
    pub right: u64,
}

impl Score {
    /// Adds an example.
    pub fn add(&mut self, loss: Loss, z: f64) {
        self.loss += loss.value(z);
        self.right += u64::from(z > 0.0);
    }
}

impl Fit {
    /// From sums over the sets, and the square of the weights' length.
    pub fn of(size: &DataSize, lambda: f64, squares: f64, train: Score, test: Score, rounds: u64) -> Fit {
        let part = |right: u64, of: usize| right as f64 / of as f64;
        Fit {
            regularised_loss: train.loss / size.train as f64 + lambda / 2.0 * squares,
            train_accuracy: part(train.right, size.train),
            test_accuracy: (size.test > 0).then(|| part(test.right, size.test)),
            rounds,
        }
    }
}

impl Measures for Fit {
    const AXIS: &'static str = "regularised loss, accuracy";
    const ADVICE: &'static str = "try a smaller --eta0";

    fn objective(&self) -> f64 {
        self.regularised_loss
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        let test = self.test_accuracy.map(|part| ("test accuracy", part));
        let own = [("objective", self.regularised_loss), ("training accuracy", self.train_accuracy)];
        own.into_iter().chain(test).collect()
    }
}

/// The inner product of an example with weights, in the order of the example's values.
#[inline]
pub fn dot(values: &[Feature], weights: &[f64]) -> f64 {
    values.iter().fold(0.0, |sum, f| sum + f64::from(f.value) * weights[f.index as usize])
}

/// Stores the weights in a folder: `svm.model`, in LIBLINEAR's format.
///
/// # Errors
/// [`Error::File`](stradsap_examples::Error::File).
pub fn store(folder: &Path, loss: Loss, classes: Classes, weights: impl ExactSizeIterator<Item = f64>) -> Result<()> {
    create_folder(folder)?;
    let staged = Staged::write(&folder.join("svm.model"), |out| {
        writeln!(out, "solver_type {}\nnr_class 2", loss.solver())?;
        writeln!(out, "label {} {}\nnr_feature {}\nbias -1\nw", classes.positive, classes.negative, weights.len())?;
        weights.into_iter().try_for_each(|w| writeln!(out, "{w}"))
    })?;
    staged.commit()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_losses() {
        for loss in [Loss::Hinge, Loss::Logistic] {
            for z in [-30.0, -2.0, -0.5, 0.3, 0.9, 1.5, 30.0] {
                let h = 1e-6;
                let difference = (loss.value(z - h) - loss.value(z + h)) / (2.0 * h);
                assert!((loss.slope(z) - difference).abs() < 1e-8, "{loss:?} at {z}");
            }
            assert!(loss.value(-1e4).is_finite() && loss.value(1e4) == 0.0 && loss.slope(1e4) == 0.0);
        }
    }
}
