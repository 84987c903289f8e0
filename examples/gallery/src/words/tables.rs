//! What training looks up by a word's number.

use stradsap_examples::{Error, Result};

use super::huffman::{Path, Tree};
use super::negatives::Negatives;
use super::options::{Settings, WordArgs};
use super::sampling::keep_probabilities;
use super::vocabulary::Vocabulary;

/// What training looks up by a word's number, and how many rows the output layer has.
#[derive(Debug)]
pub struct Tables {
    /// How likely an occurrence of the word is kept.
    pub keep: Vec<f32>,
    /// The words' paths in the tree; empty without hierarchical softmax.
    pub paths: Vec<Path>,
    /// The tree's inner nodes.
    pub nodes: usize,
    /// The words that are told from others are drawn from it; empty without negative sampling.
    pub negatives: Negatives,
}

impl Tables {
    /// Of a vocabulary.
    ///
    /// # Errors
    /// [`Error::Usage`] if a word's code in the tree would be too long.
    pub fn new(args: &WordArgs, settings: &Settings, vocabulary: &Vocabulary) -> Result<Tables> {
        let counts = || vocabulary.counts();
        let none = || Vec::new().into_iter();
        let tree = if settings.hs { Tree::new(counts()) } else { Tree::new(none()) };
        let tree = tree.ok_or_else(|| {
            let problem = "the counts of this text's words make codes too long; use --hs 0 --negative 5".to_owned();
            Error::Usage { option: "--hs", problem }
        })?;
        Ok(Tables {
            keep: keep_probabilities(counts(), vocabulary.total(), args.sample.into()),
            paths: tree.paths,
            nodes: tree.inner_nodes,
            negatives: if settings.negative > 0 { Negatives::new(counts()) } else { Negatives::new(none()) },
        })
    }

    /// Words that are told from each other: all or, without negative sampling, none.
    pub fn targets(&self) -> usize {
        self.negatives.slots.len()
    }
}
