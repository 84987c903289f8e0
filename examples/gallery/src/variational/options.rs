//! The options of stochastic variational inference.

use std::num::NonZeroUsize;
use std::path::Path;

use stradsap_examples::numbers::{fraction, nonzero, number, positive};

use super::Documents;
use crate::topics::Corpus;

/// The options of stochastic variational inference.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Variational inference")]
pub struct VariationalArgs {
    /// Topics
    #[arg(long, value_name = "K", default_value = "50", value_parser = nonzero::<NonZeroUsize>)]
    pub topics: NonZeroUsize,

    /// How many topics a document has: the smaller, the fewer. The parameter of its Dirichlet distribution
    #[arg(long, visible_alias = "document-prior", value_name = "A", default_value_t = 0.1, value_parser = positive::<f32>)]
    pub alpha: f32,

    /// How many words a topic has: the smaller, the fewer. The parameter of its Dirichlet distribution
    #[arg(long, visible_alias = "word-prior", value_name = "B", default_value_t = 0.1, value_parser = positive::<f32>)]
    pub eta: f32,

    /// The N-th minibatch moves the model by the part (T + N) ^ -KAPPA of the way
    #[arg(long, value_name = "T", default_value_t = 4.0, value_parser = at_least_one)]
    pub tau0: f64,

    /// How fast the steps become smaller
    #[arg(long, value_name = "KAPPA", default_value_t = 0.7, value_parser = decay)]
    pub kappa: f64,

    /// Part of the documents that is kept apart for the test, chosen by the seed
    #[arg(long, value_name = "F", default_value_t = 0.1, value_parser = fraction)]
    pub test_fraction: f64,

    /// Keep the documents in the order of the file, not in a random one chosen by the seed
    #[arg(long)]
    pub file_order: bool,
}

impl VariationalArgs {
    /// The documents of the corpus at `path` that are trained on and tested with.
    ///
    /// # Errors
    /// As [`Documents::of`].
    pub fn split(&self, corpus: &Corpus, path: &Path, seed: u64) -> stradsap_examples::Result<Documents> {
        Documents::of(corpus, path, seed, self.test_fraction, self.file_order)
    }
}

fn at_least_one(text: &str) -> Result<f64, String> {
    number(text, |x| (1.0..1e9).contains(&x), "a number from 1 to 1e9")
}

fn decay(text: &str) -> Result<f64, String> {
    number(text, |x| x > 0.5 && x <= 1.0, "a number above 0.5 and up to 1")
}
