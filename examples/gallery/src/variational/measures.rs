//! What is measured after each epoch.

use std::fmt;

use serde::{Deserialize, Serialize};
use stradsap_examples::run::Measures;

use super::{Document, Probe, Term};
use crate::topics::Corpus;

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct TopicSize {
    /// Documents to train on.
    pub train: usize,
    /// Documents kept apart.
    pub test: usize,
    /// Words of the vocabulary.
    pub words: usize,
    /// Words in the documents to train on.
    pub tokens: u64,
    /// Words in the documents kept apart that are to be predicted.
    pub hidden: u64,
}

impl TopicSize {
    /// Of a corpus and its split.
    pub fn of(corpus: &Corpus, train: &[Document], test: &[Probe]) -> TopicSize {
        TopicSize {
            train: train.len(),
            test: test.len(),
            words: corpus.words,
            tokens: tokens(train.iter().map(|document| &document.terms)),
            hidden: tokens(test.iter().map(|probe| &probe.hidden)),
        }
    }
}

/// Words, counted as often as they occur.
fn tokens<'t>(documents: impl Iterator<Item = &'t Vec<Term>>) -> u64 {
    documents.flatten().map(|term| term.count as u64).sum()
}

impl fmt::Display for TopicSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TopicSize { train, test, words, tokens, hidden } = self;
        write!(
            f,
            "{train} documents ({tokens} tokens of {words} words) to train on, {test} ({hidden} hidden tokens) for the test"
        )
    }
}

/// How well the topics predict words that they haven't seen.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Perplexity {
    /// `exp` of the mean negative log-likelihood of a hidden word, given the shown half of its document.
    pub perplexity: f64,
    /// Words that were trained on in a second.
    pub tokens_per_second: f64,
}

impl Perplexity {
    /// From the sum of the log-likelihoods of all hidden words, and an epoch's seconds.
    pub fn of(size: &TopicSize, log_likelihood: f64, seconds: f64) -> Perplexity {
        Perplexity {
            perplexity: (-log_likelihood / size.hidden as f64).exp(),
            tokens_per_second: size.tokens as f64 / seconds,
        }
    }
}

impl Measures for Perplexity {
    const AXIS: &'static str = "held-out perplexity";
    const ADVICE: &'static str = "try a larger --tau0";

    fn objective(&self) -> f64 {
        self.perplexity
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        vec![("held-out perplexity", self.perplexity)]
    }
}
