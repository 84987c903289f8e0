//! The documents to learn from, and those that are kept apart.

use std::path::Path;

use stradsap::Element;
use stradsap::random::Stream;
use stradsap_examples::{Error, Result};

use crate::topics::{Corpus, Entry};

/// The purposes of random numbers.
const ORDER: u64 = 0x1da0;
const TEST: u64 = 0x1da1;
const HIDDEN: u64 = 0x1da2;

/// How often a document has a word.
#[derive(Debug, Clone, Copy, PartialEq, Element)]
pub struct Term {
    /// The word.
    pub word: u32,
    /// How often.
    pub count: f32,
}

/// A document: its different words, in the order of the file.
#[derive(Debug, Clone, PartialEq, Default, Element)]
pub struct Document {
    /// Its words.
    pub terms: Vec<Term>,
}

/// A document to test with: its topics are inferred from one half of its words, and say how likely the other half is.
#[derive(Debug, Clone, PartialEq, Default, Element)]
pub struct Probe {
    /// The half that is shown.
    pub shown: Document,
    /// The half that is to be predicted.
    pub hidden: Vec<Term>,
}

/// A corpus as it is trained on and tested with.
#[derive(Debug, Clone, PartialEq)]
pub struct Documents {
    /// To train on; none is empty.
    pub train: Vec<Document>,
    /// To test with; both halves of each have words.
    pub test: Vec<Probe>,
}

impl Documents {
    /// Sets documents apart, about the given part of them, chosen by the seed, as each half of each of their words is. The others come
    /// in a random order, or in that of the corpus.
    ///
    /// # Errors
    /// [`Error::Data`] if there is nothing left to train on, or nothing to test with.
    pub fn of(corpus: &Corpus, path: &Path, seed: u64, test_fraction: f64, file_order: bool) -> Result<Documents> {
        let chosen = Stream::new(seed, TEST);
        let mut documents = Documents { train: Vec::new(), test: Vec::new() };
        for (number, entries) in by_document(corpus).into_iter().enumerate() {
            if entries.is_empty() {
                continue;
            }
            if chosen.chosen(number as u64, test_fraction) {
                let probe = halves(&entries, Stream::new(seed, HIDDEN).bits(number as u64));
                documents.test.extend(probe);
            } else {
                let term = |e: &Entry| Term { word: e.word, count: e.count as f32 };
                documents.train.push(Document { terms: entries.iter().map(term).collect() });
            }
        }
        let problem = if documents.train.is_empty() {
            "no document is left to train on (--test-fraction)"
        } else if documents.test.is_empty() {
            "no document of two words or more is kept for the test: expected more documents, or another --test-fraction"
        } else {
            if !file_order {
                Stream::new(seed, ORDER).shuffle(&mut documents.train);
            }
            return Ok(documents);
        };
        Err(Error::Data { path: path.to_path_buf(), problem: problem.to_owned() })
    }
}

/// The entries of each document.
fn by_document(corpus: &Corpus) -> Vec<Vec<Entry>> {
    let mut documents = vec![Vec::new(); corpus.documents];
    corpus.entries.iter().for_each(|&entry| documents[entry.document as usize].push(entry));
    documents
}

/// Each occurrence of each word is hidden or shown by a coin; none if all are the same.
fn halves(entries: &[Entry], seed: u64) -> Option<Probe> {
    let mut coins = Stream::new(seed, HIDDEN).sequence(0);
    let mut probe = Probe::default();
    for entry in entries {
        let hidden = hidden(entry.count, &mut || coins.bits());
        let term = |count: u32| (count > 0).then_some(Term { word: entry.word, count: count as f32 });
        probe.hidden.extend(term(hidden));
        probe.shown.terms.extend(term(entry.count - hidden));
    }
    (!probe.hidden.is_empty() && !probe.shown.terms.is_empty()).then_some(probe)
}

/// How many of `count` coins fall on one side. Of very many it is half of them.
fn hidden(count: u32, coins: &mut impl FnMut() -> u64) -> u32 {
    if count > 1 << 16 {
        return count / 2;
    }
    (0..count.div_ceil(64)).map(|part| (coins() >> (64 - (count - part * 64).min(64))).count_ones()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topics::Vocabulary;

    fn corpus() -> Corpus {
        let entry = |n: u32| Entry { document: n * 7 % 50, word: n % 83, count: 1 + n % 5 * (n % 3) * 40 };
        let entries: Vec<_> = (0..2000).filter(|n| n * 7 % 50 != 9).map(entry).collect();
        let tokens = entries.iter().map(|e| u64::from(e.count)).sum();
        Corpus { documents: 50, words: 83, tokens, entries, vocabulary: Vocabulary::unknown(), path: "c".into() }
    }

    #[test]
    fn no_word_is_lost() {
        let corpus = corpus();
        let split = Documents::of(&corpus, Path::new("f"), 5, 0.3, false).unwrap();
        let tokens = |terms: &[&[Term]]| terms.iter().copied().flatten().map(|t| f64::from(t.count)).sum::<f64>();
        let train = tokens(&split.train.iter().map(|d| &d.terms[..]).collect::<Vec<_>>());
        let shown = tokens(&split.test.iter().map(|p| &p.shown.terms[..]).collect::<Vec<_>>());
        let hidden = tokens(&split.test.iter().map(|p| &p.hidden[..]).collect::<Vec<_>>());
        assert_eq!((train + hidden + shown) as u64, corpus.tokens);
        assert_eq!(split.train.len() + split.test.len(), 49);
        let half = hidden / (hidden + shown);
        assert!((half - 0.5).abs() < 0.02, "{half}");
    }

    #[test]
    fn the_seed_chooses() {
        let split = |seed, file_order| Documents::of(&corpus(), Path::new("f"), seed, 0.3, file_order).unwrap();
        assert_eq!(split(5, false), split(5, false));
        assert_ne!(split(5, false), split(6, false));
        assert_eq!(split(5, false).test, split(5, true).test);
        assert_ne!(split(5, false).train, split(5, true).train);
    }

    #[test]
    fn something_must_be_left_on_both_sides() {
        let error = |fraction| Documents::of(&corpus(), Path::new("f"), 5, fraction, true).unwrap_err().to_string();
        assert!(error(0.0).starts_with("f: no document of two words or more is kept for the test"));
        assert_eq!(error(0.999_999), "f: no document is left to train on (--test-fraction)");
    }

    #[test]
    fn coins_fall_for_every_occurrence() {
        assert_eq!((0..200).map(|n| hidden(n, &mut || u64::MAX)).collect::<Vec<_>>(), (0..200).collect::<Vec<_>>());
        assert_eq!(hidden(200, &mut || 0), 0);
        assert_eq!(hidden(u32::MAX, &mut || 0), u32::MAX / 2);
    }
}
