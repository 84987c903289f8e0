//! The options, the measures and the stored tables of latent Dirichlet allocation.

use std::path::Path;

use serde::{Deserialize, Serialize};
use stradsap::Digest;
use stradsap_examples::files::{Staged, create_folder};
use stradsap_examples::numbers::positive;
use stradsap_examples::run::Measures;
use stradsap_examples::{Error, Result};

use super::{DocumentRow, Prior, WordRow};
use crate::topics::{Corpus, CorpusSize, TopWords, Vocabulary};

/// The options of latent Dirichlet allocation.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Topics")]
pub struct LdaArgs {
    /// How many topics
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=65_534))]
    pub topics: u16,

    /// Prior of each topic in a document
    #[arg(long, visible_alias = "document-prior", value_name = "A", default_value_t = 0.1, value_parser = positive::<f32>)]
    pub alpha: f32,

    /// Prior of each word in a topic
    #[arg(long, visible_alias = "word-prior", value_name = "B", default_value_t = 0.01, value_parser = positive::<f32>)]
    pub beta: f32,
}

impl LdaArgs {
    /// The priors for a corpus.
    ///
    /// # Errors
    /// [`Error::Data`] for one of more tokens than are told apart.
    pub fn prior(&self, corpus: &Corpus) -> Result<Prior> {
        if corpus.tokens > u64::from(u32::MAX) {
            let problem = format!("{} tokens are too many; at most {} were expected", corpus.tokens, u32::MAX);
            return Err(Error::Data { path: corpus.path.clone(), problem });
        }
        let (topics, words) = (usize::from(self.topics), corpus.words);
        Ok(Prior { topics, alpha: self.alpha, beta: self.beta, words })
    }

    /// What the model depends on, besides the number of epochs.
    pub fn settings(&self, seed: u64, size: &CorpusSize) -> String {
        let LdaArgs { topics, alpha, beta } = self;
        format!("{size}, --topics {topics} --alpha {alpha} --beta {beta} --seed {seed}")
    }
}

/// Tokens that a part of either table should have in each block, at least.
const WORTH_A_BLOCK: u64 = 1 << 14;
/// Parts of each table, at most: a word's `phi` is set up anew in each block that has the word.
const MOST_PARTS: u64 = 16;

/// How many parts each table is cut into, from the corpus alone.
pub fn parts(size: &CorpusSize) -> usize {
    let mut parts = MOST_PARTS;
    while parts > 2 && size.tokens / (parts * parts) < WORTH_A_BLOCK {
        parts /= 2;
    }
    parts as usize
}

/// What an epoch has come to.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Fit {
    /// Log-likelihood of tokens and assignments together.
    pub log_likelihood: f64,
    /// The same a token.
    pub per_token: f64,
    /// Tokens a second, while training.
    pub tokens_per_second: f64,
    /// How far off the blocks' topic totals were on average (STRADS, supplement section 1); 0 in the twin.
    pub s_error: f64,
}

impl Measures for Fit {
    const AXIS: &'static str = "log-likelihood";
    const ADVICE: &'static str = "the counts of a topic model always have a likelihood; please report this";

    fn objective(&self) -> f64 {
        self.log_likelihood
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        vec![("log-likelihood", self.log_likelihood)]
    }
}

impl Fit {
    /// Of a corpus of this many tokens, after an epoch of this many seconds.
    pub fn new(log_likelihood: f64, tokens: u64, seconds: f64, s_error: f64) -> Fit {
        let tokens = tokens as f64;
        Fit {
            log_likelihood,
            per_token: log_likelihood / tokens,
            tokens_per_second: tokens / seconds.max(f64::MIN_POSITIVE),
            s_error,
        }
    }
}

/// The words of each topic that it has most often.
pub fn top_words(topics: usize, most: usize, words: &[WordRow]) -> TopWords {
    let mut top = TopWords::new(topics, most);
    for (word, row) in words.iter().enumerate() {
        row.iter().for_each(|(topic, count)| top.add(word, usize::from(topic), f64::from(count)));
    }
    top
}

/// Hashes both tables, the topics of each row in their order.
pub fn digest(documents: &[DocumentRow], words: &[WordRow]) -> Digest {
    let values = |row: Vec<(u16, u32)>| {
        let ends = std::iter::once(f64::NAN);
        row.into_iter().flat_map(|(topic, count)| [f64::from(topic), f64::from(count)]).chain(ends)
    };
    let documents = documents.iter().flat_map(|row| values(row.counts()));
    let words = words.iter().flat_map(|row| values(row.counts()));
    Digest::new().vector(documents).vector(words)
}

/// Stores a model in a folder: `document-topics.tsv` and `word-topics.tsv`, each a line an entry: the number of the
/// document or the word, from 1 as in the corpus, the topic, from 0, and the count; `topics.txt` with each topic's top
/// words. Files get their names only when all are complete.
///
/// # Errors
/// [`Error::File`].
pub fn store(
    folder: &Path,
    documents: &[DocumentRow],
    words: &[WordRow],
    top: &TopWords,
    vocabulary: &Vocabulary,
) -> Result<()> {
    create_folder(folder)?;
    let documents = documents.iter().map(DocumentRow::counts);
    let words = words.iter().map(WordRow::counts);
    let staged = [
        stage_table(&folder.join("document-topics.tsv"), "document", documents)?,
        stage_table(&folder.join("word-topics.tsv"), "word", words)?,
        top.stage(&folder.join("topics.txt"), vocabulary)?,
    ];
    staged.into_iter().try_for_each(Staged::commit)
}

fn stage_table(path: &Path, of: &str, rows: impl Iterator<Item = Vec<(u16, u32)>>) -> Result<Staged> {
    Staged::write(path, |out| {
        writeln!(out, "{of}\ttopic\tcount")?;
        for (number, row) in (1..).zip(rows) {
            row.into_iter().try_for_each(|(topic, count)| writeln!(out, "{number}\t{topic}\t{count}"))?;
        }
        Ok(())
    })
}
