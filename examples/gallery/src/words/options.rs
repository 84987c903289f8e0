//! The options of word vectors, with the original's names.

use serde::{Deserialize, Serialize};
use stradsap::Session;
use stradsap_examples::cli::CommonArgs;
use stradsap_examples::numbers::{at_least_1, not_negative, positive};
use stradsap_examples::run::{Measures, Run};
use stradsap_examples::{Error, Result, data};

use super::corpus::Corpus;
use super::sampling::Choices;
use super::vocabulary::Vocabulary;
use crate::vectors::{self, Format};

/// The options of word vectors.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Word vectors")]
pub struct WordArgs {
    /// Values in each word's vector
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = at_least_1)]
    pub size: usize,

    /// The most words on each side that a word is learnt from; the number is random for each word
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub window: u32,

    /// Frequency above which occurrences of a word are dropped at random; 0: none are dropped
    #[arg(long, value_name = "F", default_value_t = 1e-3, value_parser = not_negative::<f32>)]
    pub sample: f32,

    /// Negative sampling: how many random words each word is told apart from; 0: none
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1000))]
    pub negative: u32,

    /// 1: learn by hierarchical softmax; 0: don't [default: 1 without --negative, 0 with it]
    #[arg(long, value_name = "0|1", value_parser = flag)]
    pub hs: Option<bool>,

    /// 0: skip-gram, a word is learnt from each of its neighbours; 1: continuous bag of words, from their mean
    #[arg(long, value_name = "0|1", default_value = "0", value_parser = flag, action = clap::ArgAction::Set)]
    pub cbow: bool,

    /// Leave out words that occur less often
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub min_count: u64,

    /// Learning rate at the beginning; it falls linearly with the words read, to 1/10,000 of this [default: 0.025, or 0.05 with
    /// --cbow 1]
    #[arg(long, visible_alias = "learning-rate", value_name = "A", value_parser = positive::<f32>)]
    pub alpha: Option<f32>,

    /// Format of the stored vectors [default: binary for names in .bin, else text]
    #[arg(long, value_name = "text|binary", requires = "output")]
    pub format: Option<Format>,
}

/// What training depends on, besides the corpus, the size and the tables.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Settings {
    /// Words to each side, at the most.
    pub window: u32,
    /// Negative samples for each prediction.
    pub negative: usize,
    /// Whether there is a hierarchical softmax.
    pub hs: bool,
    /// Whether the mean of a window is learnt from, and not each of its words.
    pub cbow: bool,
    /// The learning rate at the beginning.
    alpha: f32,
    /// Words of the vocabulary in the text.
    words: u64,
    epochs: u32,
    seed: u64,
}

impl WordArgs {
    /// Reads the text that `--data` names, or that of the repository, and shows what couldn't be read.
    ///
    /// # Errors
    /// As [`Corpus::read`], and [`data::default_text`].
    pub fn read<M: Measures>(&self, common: &CommonArgs, run: &mut Run<'_, M>) -> Result<Corpus> {
        let path = common.data.clone().map_or_else(data::default_text, Ok)?;
        let corpus = Corpus::read(&path, self.min_count)?;
        corpus.warning(&path).iter().for_each(|warning| run.line(warning));
        Ok(corpus)
    }

    /// The same on a session's threads or workers.
    ///
    /// # Errors
    /// As [`Corpus::read_with`], and [`data::default_text`].
    pub fn read_with<M: Measures>(
        &self,
        session: &Session,
        common: &CommonArgs,
        run: &mut Run<'_, M>,
    ) -> std::result::Result<Corpus, Box<dyn std::error::Error>> {
        let path = common.data.clone().map_or_else(data::default_text, Ok)?;
        let corpus = Corpus::read_with(session, &path, self.min_count)?;
        corpus.warning(&path).iter().for_each(|warning| run.line(warning));
        Ok(corpus)
    }

    /// Stores vectors where `--output` says, if it does.
    ///
    /// # Errors
    /// As [`vectors::store`].
    pub fn store<R: AsRef<[f32]>>(
        &self,
        common: &CommonArgs,
        vocabulary: &Vocabulary,
        rows: impl Iterator<Item = R>,
    ) -> Result<()> {
        let Some(path) = &common.output else { return Ok(()) };
        let format = self.format.unwrap_or_else(|| Format::of(path));
        vectors::store(path, format, vocabulary.words(), self.size, rows)
    }

    /// What training depends on, for a text with this many words of the vocabulary.
    ///
    /// # Errors
    /// [`Error::Usage`] if there would be nothing to learn.
    pub fn settings(&self, words: u64, common: &CommonArgs) -> Result<Settings> {
        let CommonArgs { epochs, seed, .. } = *common;
        let WordArgs { window, cbow, .. } = *self;
        let negative = self.negative as usize;
        let hs = self.hs.unwrap_or(negative == 0);
        if !hs && negative == 0 {
            let problem = "0 leaves nothing to learn; give --negative N, or --hs 1".to_owned();
            return Err(Error::Usage { option: "--hs", problem });
        }
        let alpha = self.alpha.unwrap_or(if cbow { 0.05 } else { 0.025 });
        Ok(Settings { window, negative, hs, cbow, alpha, words, epochs, seed })
    }

    /// All that the model depends on: runs with the same text train the same model.
    pub fn describe(&self, settings: &Settings, data: &str) -> String {
        let Settings { window, negative, hs, cbow, alpha, words: _, epochs, seed } = *settings;
        let (size, sample, min_count) = (self.size, self.sample, self.min_count);
        format!(
            "{data}, --size {size} --window {window} --sample {sample} --negative {negative} --hs {} --cbow {} \
             --min-count {min_count} --alpha {alpha} --epochs {epochs} --seed {seed}",
            u8::from(hs),
            u8::from(cbow),
        )
    }
}

impl Settings {
    /// The learning rate of a sentence that has this many words before it, in this epoch (from 0).
    #[inline]
    pub fn alpha(&self, epoch: u32, before: u64) -> f32 {
        let read = u64::from(epoch) * self.words + before;
        let all = u64::from(self.epochs) * self.words + 1;
        let left = 1.0 - read as f64 / all as f64;
        (f64::from(self.alpha) * left.max(1e-4)) as f32
    }

    /// The same with a learning rate this many times as high.
    #[must_use]
    pub fn faster(self, times: f32) -> Settings {
        Settings { alpha: self.alpha * times, ..self }
    }

    /// The random choices of a sentence, in this epoch (from 0).
    pub fn choices(&self, epoch: u32, sentence: usize) -> Choices {
        Choices::new(self.seed, epoch, sentence)
    }
}

fn flag(text: &str) -> std::result::Result<bool, String> {
    match text {
        "0" => Ok(false),
        "1" => Ok(true),
        _ => Err("expected 0 or 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Args {
        #[command(flatten)]
        words: WordArgs,
        #[command(flatten)]
        common: CommonArgs,
    }

    fn settings(line: &str) -> Result<Settings> {
        let args = Args::try_parse_from(line.split(' ').chain(["--epochs", "2"])).unwrap();
        args.words.settings(100, &args.common)
    }

    #[test]
    fn the_learning_rate_falls_in_step_with_the_words() {
        let settings = settings("x --alpha 0.2").unwrap();
        assert_eq!(settings.alpha(0, 0), 0.2);
        let middle = settings.alpha(1, 0);
        assert!((middle - 0.2 * (1.0 - 100.0 / 201.0)).abs() < 1e-7, "{middle}");
        assert!(settings.alpha(1, 99) < settings.alpha(1, 98));
        assert_eq!(settings.alpha(5, 0), 0.2 * 1e-4);
        assert_eq!(settings.faster(2.0).alpha(0, 0), 0.4);
    }

    #[test]
    fn one_of_the_two_ways_to_learn_is_chosen() {
        let ways = |line| settings(line).map(|s| (s.hs, s.negative)).ok();
        assert_eq!(ways("x"), Some((true, 0)));
        assert_eq!(ways("x --negative 5"), Some((false, 5)));
        assert_eq!(ways("x --negative 5 --hs 1"), Some((true, 5)));
        let error = settings("x --hs 0").unwrap_err();
        assert_eq!((error.exit_code(), &error.to_string()[..28]), (2, "--hs: 0 leaves nothing to le"));
    }

    #[test]
    fn the_learning_rate_s_default_is_the_method_s() {
        assert_eq!(settings("x").unwrap().alpha(0, 0), 0.025);
        assert_eq!(settings("x --cbow 1").unwrap().alpha(0, 0), 0.05);
        assert!(Args::try_parse_from(["x", "--cbow", "2"]).unwrap_err().to_string().contains("expected 0 or 1"));
    }
}
