//! What a step of training needs to know, where the model starts, and how it is stored.

use std::num::NonZeroUsize;
use std::path::Path;

use serde::{Deserialize, Serialize};
use stradsap::random::Stream;
use stradsap_examples::files::{Staged, create_folder};
use stradsap_examples::{Error, Result, npy};

use super::{Inference, STRIP, Strip, TopicSize, VariationalArgs};
use crate::topics::{TopWords, Vocabulary};

/// The purpose of the random numbers that the model starts from.
const START: u64 = 0x1da3;

/// Documents of a minibatch at the least and at the most, and each copy's minibatches of an epoch in between, where the
/// command line doesn't say how many.
const MINIBATCH: std::ops::RangeInclusive<usize> = 16..=256;
const MINIBATCHES: usize = 16;

/// What was learnt before an epoch may shrink to this part, as a power of e: numbers stay within those of `f32`.
const MOST_DECAY: f64 = 40.0;

/// The numbers that training goes by.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// Topics.
    pub topics: usize,
    /// Words of the vocabulary.
    pub words: usize,
    /// Documents to train on.
    pub documents: usize,
    /// Documents of a minibatch.
    pub minibatch: usize,
    /// The prior of a document's topics.
    pub alpha: f32,
    /// The prior of a topic's words.
    pub eta: f32,
    tau0: f64,
    kappa: f64,
}

impl Settings {
    /// As the command line says, for this many copies of the model.
    ///
    /// # Errors
    /// [`Error::Usage`] if the steps of an epoch would be this many and so large that nothing of what they start from is left.
    pub fn new(
        args: &VariationalArgs,
        size: &TopicSize,
        minibatch: Option<NonZeroUsize>,
        copies: usize,
    ) -> Result<Settings> {
        let topics = args.topics.get();
        let minibatch = minibatch.map_or_else(
            || size.train.div_ceil(MINIBATCHES * copies).clamp(*MINIBATCH.start(), *MINIBATCH.end()),
            NonZeroUsize::get,
        );
        let settings = Settings {
            topics,
            words: size.words,
            documents: size.train,
            minibatch,
            alpha: args.alpha,
            eta: args.eta,
            tau0: args.tau0,
            kappa: args.kappa,
        };
        let steps = size.train.div_ceil(minibatch);
        let decay: f64 = (0..steps).map(|step| settings.step(step as f64, minibatch)).sum();
        if decay > MOST_DECAY {
            let problem = format!(
                "{steps} minibatches an epoch leave e^-{decay:.0} of what was there before, which is less than e^-{MOST_DECAY}; \
                 expected larger minibatches (now of {minibatch} documents), or a larger --tau0 or --kappa"
            );
            return Err(Error::Usage { option: "--minibatch", problem });
        }
        Ok(settings)
    }

    /// Of numbers, for tests: topics, words, documents and documents of a minibatch, priors.
    #[cfg(test)]
    pub(super) fn of_numbers(
        topics: usize,
        words: usize,
        documents: usize,
        minibatch: usize,
        alpha: f32,
        eta: f32,
    ) -> Settings {
        Settings { topics, words, documents, minibatch, alpha, eta, tau0: 4.0, kappa: 0.7 }
    }

    /// How far a minibatch of this many documents moves the model, after this many steps: what was there before is multiplied by
    /// `e^-step`. A minibatch that is smaller than the others moves it less.
    pub fn step(&self, steps: f64, documents: usize) -> f64 {
        (self.tau0 + steps).powf(-self.kappa) * documents as f64 / self.minibatch as f64
    }

    /// What each document of a minibatch is worth that moves the model by `step`, in numbers of `v` after that step.
    pub fn weight(&self, step: f64, log_scale: f64, documents: usize) -> f64 {
        self.documents as f64 / documents as f64 * (1.0 - (-step).exp()) / log_scale.exp()
    }

    /// Strips of a word's row.
    pub fn strips(&self) -> usize {
        self.topics.div_ceil(STRIP)
    }

    /// Strip `at` of all words' rows together, as it starts: random, since equal topics would stay equal.
    pub fn start(&self, seed: u64, at: usize) -> Strip {
        let random = Stream::new(seed, START);
        let topic = at % self.strips() * STRIP;
        std::array::from_fn(|k| if topic + k < self.topics { 0.5 + random.unit((at * STRIP + k) as u64) } else { 0.0 })
    }

    /// `lambda` from what is stored of it.
    #[inline(always)]
    pub fn lambda(&self, scale: f64, strip: &Strip) -> Strip {
        strip.map(|v| self.eta + scale as f32 * v)
    }

    /// A number of `v` when `scale` becomes 1 again. What is next to nothing becomes 0, before it slows computing down.
    #[inline(always)]
    pub fn folded(&self, scale: f64, v: f32) -> f32 {
        let v = scale as f32 * v;
        if v < 1e-30 { 0.0 } else { v }
    }

    /// What is inferred of one document at a time.
    pub fn inference(&self) -> Inference {
        Inference::new(*self)
    }

    /// The text of everything that the model depends on.
    pub fn describe(&self, size: &TopicSize, args: &VariationalArgs, seed: u64) -> String {
        let VariationalArgs { test_fraction, file_order, .. } = args;
        format!(
            "{size}, {self:?}, --test-fraction {test_fraction} --seed {seed}, in the order of the file: {file_order}"
        )
    }

    /// The words that have the largest part of each topic, by the rows of `v` when `scale` is 1.
    pub fn top_words(&self, most: usize, v: impl Iterator<Item = Strip>) -> TopWords {
        let mut top = TopWords::new(self.topics, most);
        for (at, strip) in v.enumerate() {
            let (word, first) = (at / self.strips(), at % self.strips() * STRIP);
            strip.iter().enumerate().for_each(|(k, &x)| top.add(word, first + k, f64::from(x)));
        }
        top
    }
}

/// Sums of `v` over all words, for each topic, as the model starts.
pub fn start(settings: &Settings, v: impl Iterator<Item = Strip>) -> Vec<[f64; STRIP]> {
    let mut totals = vec![[0.0; STRIP]; settings.strips()];
    for (at, strip) in v.enumerate() {
        let sums = &mut totals[at % settings.strips()];
        sums.iter_mut().zip(strip).for_each(|(sum, x)| *sum += f64::from(x));
    }
    totals
}

/// Stores `lambda`, which is `eta` and `v` when `scale` is 1, as `words.npy`, a row a word and a column a topic, and the topics' words as `topics.txt`.
///
/// # Errors
/// [`Error::File`].
pub fn store(folder: &Path, settings: &Settings, vocabulary: &Vocabulary, v: &[Strip], top: &TopWords) -> Result<()> {
    create_folder(folder)?;
    let rows = v.chunks_exact(settings.strips()).map(|row| {
        let lambda = row.iter().flat_map(|strip| settings.lambda(1.0, strip));
        lambda.take(settings.topics).collect::<Vec<_>>()
    });
    let matrix = Staged::write(&folder.join("words.npy"), |out| npy::write_matrix(out, settings.topics, rows))?;
    let topics = top.stage(&folder.join("topics.txt"), vocabulary)?;
    matrix.commit()?;
    topics.commit()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        variational: VariationalArgs,
    }

    fn settings(line: &str, minibatch: usize) -> Result<Settings> {
        let args = Args::try_parse_from(line.split(' ')).unwrap().variational;
        let size = TopicSize { train: 100_000, test: 1, words: 10, tokens: 1, hidden: 1 };
        Settings::new(&args, &size, NonZeroUsize::new(minibatch), 1)
    }

    #[test]
    fn steps_become_smaller() {
        let settings = settings("x --tau0 2 --kappa 0.6", 100).unwrap();
        assert!((settings.step(0.0, 100) - 2.0f64.powf(-0.6)).abs() < 1e-15);
        assert!((settings.step(30.0, 100) - 32.0f64.powf(-0.6)).abs() < 1e-15);
        assert!((settings.step(30.0, 25) - settings.step(30.0, 100) / 4.0).abs() < 1e-15);
        // The documents of a minibatch that replaces the whole stand for all documents; by how little it moves it otherwise.
        assert!((settings.weight(50.0, 0.0, 20) - 1e5 / 20.0).abs() < 1e-5);
        let little = 1e5 * (1.0 - (-0.01f64).exp()) * 1.0f64.exp() / 7.0;
        assert!((settings.weight(0.01, -1.0, 7) / little - 1.0).abs() < 1e-12);
    }

    #[test]
    fn steps_that_forget_everything_are_refused() {
        assert_eq!(settings("x", 1000).unwrap().minibatch, 1000);
        assert_eq!(settings("x", 0).unwrap().minibatch, 256);
        let error = settings("x --kappa 0.6", 1).unwrap_err();
        assert_eq!(error.exit_code(), 2);
        assert_eq!(
            error.to_string(),
            "--minibatch: 100000 minibatches an epoch leave e^-246 of what was there before, which is less than e^-40; \
             expected larger minibatches (now of 1 documents), or a larger --tau0 or --kappa"
        );
    }

    #[test]
    fn rows_start_at_random_and_end_with_the_topics() {
        let settings = settings("x --topics 21", 1000).unwrap();
        assert_eq!(settings.strips(), 2);
        assert!(settings.start(1, 4).iter().all(|x| (0.5..1.5).contains(x)));
        assert_ne!(settings.start(1, 4), settings.start(1, 6));
        assert_ne!(settings.start(1, 4), settings.start(2, 4));
        let last = settings.start(1, 5);
        assert!(last[..5].iter().all(|&x| x > 0.0) && last[5..] == [0.0; 11]);
    }
}
