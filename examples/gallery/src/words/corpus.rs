//! A text as numbers of words, in sentences.

use std::path::Path;

use stradsap::Element;
use stradsap_examples::{Error, Result, files};

use super::reader::{Skipped, Token, read_words};
use super::vocabulary::{Counts, Vocabulary};

/// The most words of a sentence: a longer one is cut.
pub const MAX_SENTENCE: usize = 1000;

/// Words that follow each other; windows end where it ends.
#[derive(Debug, Clone, PartialEq, Eq, Element)]
pub struct Sentence {
    /// The words of the vocabulary in the text before it, ends of sentences among them: what the learning rate goes by.
    pub before: u64,
    /// The numbers of its words.
    pub words: Vec<u32>,
}

/// What is trained on: 4 bytes a word, and 32 a sentence.
#[derive(Debug)]
pub struct Corpus {
    /// The words that occur often enough.
    pub vocabulary: Vocabulary,
    /// In the order of the text; none is empty.
    pub sentences: Vec<Sentence>,
    /// All words in the text, whether they are in the vocabulary or not.
    pub words: u64,
    /// What couldn't be read.
    pub skipped: Skipped,
}

impl Corpus {
    /// Reads a text twice: to count its words, and to number them. Words that occur less than `min_count` times are left
    /// out, as if they weren't there. A name that ends in `.gz` is unpacked.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read, [`Error::Data`] when no word is left.
    pub fn read(path: &Path, min_count: u64) -> Result<Corpus> {
        let failed = |e| Error::file("read", path, e);
        let mut counts = Counts::default();
        let mut words = 0;
        let skipped = read_words(files::open_regular(path)?, |token| match token {
            Token::Word(word) => {
                words += 1;
                counts.add(word);
            }
            Token::LineEnd => counts.add_sentence_end(),
        })
        .map_err(failed)?;
        let (different, most) = counts.seen();
        let vocabulary = counts.into_vocabulary(min_count);
        if vocabulary.is_empty() {
            return Err(nothing_left(path, different, most, min_count));
        }
        let mut sentences = Sentences::default();
        read_words(files::open_regular(path)?, |token| match token {
            Token::Word(word) => {
                if let Some(number) = vocabulary.number(word) {
                    sentences.word(number);
                }
            }
            Token::LineEnd => sentences.word(0),
        })
        .map_err(failed)?;
        Ok(Corpus { sentences: sentences.finish(), vocabulary, words, skipped })
    }

    /// One line about what couldn't be read, if there was something.
    pub fn warning(&self, path: &Path) -> Option<String> {
        let Skipped { bytes, words, line } = self.skipped;
        (words > 0).then(|| {
            let path = stradsap::files::shown(path);
            format!(
                "warning: {path}: skipped {words} words with {bytes} bytes that aren't UTF-8, the first in line {line}"
            )
        })
    }
}

/// No word is frequent enough.
pub(super) fn nothing_left(path: &Path, different: usize, most: u64, min_count: u64) -> Error {
    let problem = match different {
        0 => "no words; expected text with spaces or line ends between words".to_owned(),
        _ => format!(
            "no word occurs {min_count} times or more (--min-count); the most frequent of {different} occurs {most} times"
        ),
    };
    Error::Data { path: path.to_path_buf(), problem }
}

/// Cuts words into sentences.
#[derive(Default)]
pub(super) struct Sentences {
    done: Vec<Sentence>,
    words: Vec<u32>,
    /// Words before the one that is begun.
    before: u64,
}

impl Sentences {
    pub(super) fn word(&mut self, number: u32) {
        if number == 0 {
            self.end(1);
            return;
        }
        self.words.push(number);
        if self.words.len() == MAX_SENTENCE {
            self.end(0);
        }
    }

    /// Ends a sentence, with this many words that end it.
    fn end(&mut self, ends: u64) {
        let before = self.before;
        self.before += self.words.len() as u64 + ends;
        if !self.words.is_empty() {
            self.done.push(Sentence { before, words: self.words.as_slice().into() });
            self.words.clear();
        }
    }

    pub(super) fn finish(mut self) -> Vec<Sentence> {
        self.end(0);
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(text: &[u8], min_count: u64) -> Result<Corpus> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("corpus.txt");
        std::fs::write(&path, text).unwrap();
        Corpus::read(&path, min_count)
    }

    fn sentence(before: u64, words: &[u32]) -> Sentence {
        Sentence { before, words: words.to_vec() }
    }

    #[test]
    fn a_text_becomes_numbered_sentences() {
        // Lines 2 and 5 have no sentence, and count as words before the next all the same.
        let corpus = corpus(b"b a a\n\na rare b\nb a </s> a b\nonce\na", 3).unwrap();
        assert_eq!(corpus.vocabulary.words().collect::<Vec<_>>(), ["</s>", "a", "b"]);
        assert_eq!(corpus.vocabulary.counts().collect::<Vec<_>>(), [6, 6, 4]);
        let expected = [
            sentence(0, &[2, 1, 1]),
            sentence(5, &[1, 2]),
            sentence(8, &[2, 1]),
            sentence(11, &[1, 2]),
            sentence(15, &[1]),
        ];
        assert_eq!(corpus.sentences, expected);
        assert_eq!((corpus.words, corpus.vocabulary.total()), (13, 16));
    }

    #[test]
    fn long_sentences_are_cut() {
        let corpus = corpus("w ".repeat(2500).as_bytes(), 1).unwrap();
        let lengths: Vec<_> = corpus.sentences.iter().map(|s| (s.before, s.words.len())).collect();
        assert_eq!(lengths, [(0, 1000), (1000, 1000), (2000, 500)]);
    }

    #[test]
    fn a_text_without_frequent_words_is_refused() {
        let message = |text: &[u8]| corpus(text, 5).unwrap_err().to_string();
        assert!(message(b"a b a\nc a").ends_with(
            "corpus.txt: no word occurs 5 times or more (--min-count); the most frequent of 3 occurs 3 times"
        ));
        assert!(
            message(b" \n\n").ends_with("corpus.txt: no words; expected text with spaces or line ends between words")
        );
    }

    #[test]
    fn what_is_no_text_is_told_in_one_line() {
        let corpus = corpus(b"a a\nb\xff b\xfe\n\xffc a", 1).unwrap();
        assert_eq!(
            corpus.warning(Path::new("x")).unwrap(),
            "warning: x: skipped 3 words with 3 bytes that aren't UTF-8, the first in line 2"
        );
        assert_eq!(corpus.vocabulary.words().collect::<Vec<_>>(), ["</s>", "a"]);
    }
}
