//! What is measured of a training run on text.

use std::fmt;

use serde::{Deserialize, Serialize};
use stradsap_examples::run::Measures;

use super::corpus::Corpus;

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct CorpusSize {
    /// Words in the text.
    pub rows: u64,
    /// Those of them that are in the vocabulary.
    pub words: u64,
    /// Different words in the vocabulary, the end of a sentence among them.
    pub vocabulary: usize,
    /// Sentences of at most 1000 words.
    pub sentences: usize,
    /// Words left out since they weren't UTF-8.
    pub skipped: u64,
}

impl CorpusSize {
    /// Of a corpus.
    pub fn of(corpus: &Corpus) -> CorpusSize {
        let Corpus { vocabulary, sentences, words, skipped } = corpus;
        CorpusSize {
            rows: *words,
            words: vocabulary.total() - vocabulary.counts().next().unwrap_or(0),
            vocabulary: vocabulary.len(),
            sentences: sentences.len(),
            skipped: skipped.words,
        }
    }
}

impl fmt::Display for CorpusSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CorpusSize { rows, words, vocabulary, sentences, .. } = self;
        write!(f, "{rows} words, {words} of them in a vocabulary of {vocabulary}, in {sentences} sentences")
    }
}

/// How well an epoch predicted.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct LogLoss {
    /// The mean negative log-likelihood of a prediction, in nats, each as it was just before its own step.
    pub loss: f64,
    /// How many there were: one for each word and neighbour (skip-gram) or for each word (bag of words).
    pub predictions: u64,
    /// Words of the text, those that are dropped included, over seconds of training.
    pub words_per_second: f64,
}

impl LogLoss {
    /// From the sum of the negative log-likelihoods of an epoch.
    pub fn of(size: &CorpusSize, sum: f64, predictions: u64, seconds: f64) -> LogLoss {
        let words_per_second = size.words as f64 / seconds;
        LogLoss { loss: sum / predictions.max(1) as f64, predictions, words_per_second }
    }
}

impl Measures for LogLoss {
    const AXIS: &'static str = "negative log-likelihood (nats a prediction)";
    const ADVICE: &'static str = "try a smaller --alpha";

    fn objective(&self) -> f64 {
        self.loss
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        vec![("loss", self.loss)]
    }
}

/// The likelihood of predictions, each a product of decisions. Logarithms are taken now and then, not of each decision.
#[derive(Debug, Clone, Copy)]
pub struct Likelihood {
    product: f64,
    /// By how many times [`FAR`] the product is too large.
    times: f64,
}

/// A product below it is brought back by its inverse. (A logarithm at that place would be a call, around which the rows of the loop
/// that decides leave their registers.)
const FAR: f64 = 1.0 / (1u128 << 100) as f64;

/// What a decision's likelihood is taken for at the least: the logistic function at -6, where its table ends.
const LEAST: f32 = 0.002_472_623;

impl Default for Likelihood {
    fn default() -> Likelihood {
        Likelihood { product: 1.0, times: 0.0 }
    }
}

impl Likelihood {
    /// Adds a decision, by its error: how far the probability of what is so was from 1.
    #[inline(always)]
    pub fn decided(&mut self, error: f32) {
        let likelihood = 1.0 - error.abs();
        // NaN stays, so that a model that isn't finite is noticed.
        self.product *= f64::from(if likelihood < LEAST { LEAST } else { likelihood });
        if self.product < FAR {
            self.times += 1.0;
            self.product *= 1.0 / FAR;
        }
    }

    /// The negative log-likelihood of all, in nats.
    pub fn negative_log(self) -> f64 {
        -(self.product.ln() + self.times * FAR.ln())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_add_up() {
        let mut likelihood = Likelihood::default();
        assert_eq!(likelihood.negative_log(), 0.0);
        let errors = (0..1000).map(|i| (i % 10) as f32 * if i % 2 == 0 { 0.1 } else { -0.1 });
        errors.clone().for_each(|error| likelihood.decided(error));
        let expected: f64 = errors.map(|error| -f64::from(1.0 - error.abs()).ln()).sum();
        assert!((likelihood.negative_log() - expected).abs() < 1e-6 * expected);
    }

    #[test]
    fn the_worst_decisions_count_alike_and_nan_is_noticed() {
        let mut likelihood = Likelihood::default();
        likelihood.decided(1.0);
        assert!((likelihood.negative_log() - 6.0).abs() < 0.01);
        likelihood.decided(f32::NAN);
        assert!(likelihood.negative_log().is_nan());
    }
}
