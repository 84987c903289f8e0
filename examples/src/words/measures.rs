//! What is measured of a training run on text.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::corpus::Corpus;
use crate::run::Measures;

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
