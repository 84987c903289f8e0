//! The tokens of a corpus, word by word, and the topics that they start with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stradsap::Element;
use stradsap::random::Stream;

use super::{DocumentRow, WordRow};
use crate::topics::Corpus;

/// One occurrence of a word in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Element)]
pub struct Token {
    /// The document.
    pub document: u32,
    /// The word.
    pub word: u32,
}

/// Random numbers for the first topics.
const START: u64 = 0x1da;
/// And for the draws of an epoch, counted from here on.
const EPOCHS: u64 = 0x1da_0000;

/// All tokens of a corpus.
#[derive(Debug)]
pub struct Tokens {
    seed: u64,
    topics: usize,
    /// By word, and for each word by document.
    pub all: Vec<Token>,
    documents: usize,
    words: usize,
}

impl Tokens {
    /// Sorts a corpus' entries by word, as stable as they come.
    pub fn new(corpus: &Corpus, topics: usize, seed: u64) -> Tokens {
        let mut ends = vec![0usize; corpus.words + 1];
        for entry in &corpus.entries {
            ends[entry.word as usize + 1] += entry.count as usize;
        }
        for word in 0..corpus.words {
            ends[word + 1] += ends[word];
        }
        let mut all = vec![Token { document: 0, word: 0 }; ends[corpus.words]];
        for entry in &corpus.entries {
            let start = ends[entry.word as usize];
            let count = entry.count as usize;
            all[start..start + count].fill(Token { document: entry.document, word: entry.word });
            ends[entry.word as usize] += count;
        }
        Tokens { seed, topics, all, documents: corpus.documents, words: corpus.words }
    }

    /// A token's first topic, drawn evenly.
    pub fn first_topic(&self, token: usize) -> u16 {
        let random = Stream::new(self.seed, START).bits(token as u64);
        // The high half of the product is below `topics`.
        ((u128::from(random) * self.topics as u128) >> 64) as u16
    }

    /// The document-topic table of an assignment.
    pub fn document_rows(&self, assignment: impl Iterator<Item = u16>) -> Vec<DocumentRow> {
        let mut lengths = vec![0u64; self.documents];
        self.all.iter().for_each(|token| lengths[token.document as usize] += 1);
        let longest = lengths.into_iter().max().unwrap_or(0);
        let mut rows = vec![DocumentRow::empty(self.topics, longest); self.documents];
        self.all.iter().zip(assignment).for_each(|(token, topic)| rows[token.document as usize].add(topic));
        rows
    }

    /// The word-topic table of an assignment.
    pub fn word_rows(&self, assignment: impl Iterator<Item = u16>) -> Vec<WordRow> {
        let mut rows = vec![WordRow::default(); self.words];
        self.all.iter().zip(assignment).for_each(|(token, topic)| rows[token.word as usize].add(topic));
        rows
    }

    /// How many tokens each topic has in an assignment.
    pub fn totals(&self, assignment: impl Iterator<Item = u16>) -> Vec<i64> {
        let mut totals = vec![0; self.topics];
        assignment.for_each(|topic| totals[usize::from(topic)] += 1);
        totals
    }

    /// The random numbers of the first epoch, one for each token.
    pub fn draws(&self) -> Draws {
        Draws { seed: self.seed, epoch: 0 }
    }
}

/// Where tables, totals and assignments disagree, if they do.
pub fn disagreement(
    tokens: impl Iterator<Item = Token>,
    assignment: impl Iterator<Item = u16>,
    documents: &[DocumentRow],
    words: &[WordRow],
    totals: &[i64],
) -> Option<String> {
    let mut of_documents = vec![BTreeMap::<u16, u32>::new(); documents.len()];
    let mut of_words = vec![BTreeMap::<u16, u32>::new(); words.len()];
    let mut of_topics = vec![0i64; totals.len()];
    for (token, topic) in tokens.zip(assignment) {
        *of_documents[token.document as usize].entry(topic).or_default() += 1;
        *of_words[token.word as usize].entry(topic).or_default() += 1;
        of_topics[usize::from(topic)] += 1;
    }
    let differs = |(counted, row): (&BTreeMap<u16, u32>, Vec<(u16, u32)>)| {
        !row.into_iter().eq(counted.iter().map(|(&topic, &count)| (topic, count)))
    };
    let document = of_documents.iter().zip(documents.iter().map(DocumentRow::counts)).position(differs);
    let word = of_words.iter().zip(words.iter().map(WordRow::counts)).position(differs);
    let topic = of_topics.iter().zip(totals).position(|(counted, total)| counted != total);
    let [document, word] = [("document", document), ("word", word)]
        .map(|(what, at)| at.map(|at| format!("the counts of {what} {} aren't those of its tokens", at + 1)));
    document.or(word).or(topic.map(|at| format!("the total of topic {at} isn't that of its tokens")))
}

/// The random numbers of an epoch.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Draws {
    seed: u64,
    epoch: u32,
}

impl Draws {
    /// Those of another epoch.
    pub fn of_epoch(self, epoch: u32) -> Draws {
        Draws { epoch, ..self }
    }

    /// A token's number in [0, 1).
    #[inline(always)]
    pub fn of(self, token: usize) -> f32 {
        Stream::new(self.seed, EPOCHS + u64::from(self.epoch)).unit(token as u64)
    }
}
