//! The same corpus by operators: its words counted, ordered and numbered on all threads or workers.

use std::collections::HashMap;
use std::io::{BufRead, Read};
use std::path::Path;

use stradsap::prelude::*;
use stradsap_examples::{Error, files};

use super::corpus::{Corpus, Sentences, nothing_left};
use super::reader::{Skipped, Token, read_words};
use super::vocabulary::{SENTENCE_END, Vocabulary, WordHash};

/// About this many bytes of the text belong together.
const CHUNK: usize = 256 << 10;

/// Some of the text, up to the end of a word.
#[derive(Clone, Element)]
struct Chunk {
    text: Vec<u8>,
    /// Where it comes in the text.
    number: u64,
    /// The line that it begins in, from 0.
    line: u64,
}

/// How often a word was seen, and when first.
type Seen = (u64, u64);

/// A chunk as numbers of words, and all that is reported about the text.
#[derive(Clone, Element)]
struct Numbered {
    numbers: Vec<u32>,
    words: u64,
    skipped: [u64; 3],
}

impl Chunk {
    /// Passes each word to `each`, the end of a line as [`SENTENCE_END`].
    fn each(&self, mut each: impl FnMut(&str, bool)) -> Skipped {
        let read = read_words(&self.text[..], |token| match token {
            Token::Word(word) => each(word, true),
            Token::LineEnd => each(SENTENCE_END, false),
        });
        // Memory can always be read.
        read.unwrap_or_default()
    }

    /// Its different words. The end of a sentence is always among those of the first chunk.
    fn words(&self) -> Vec<(String, Seen)> {
        let mut words = HashMap::<Box<str>, Seen, WordHash>::with_hasher(WordHash);
        if self.number == 0 {
            words.insert(SENTENCE_END.into(), (0, 0));
        }
        let mut place = self.number << 32;
        self.each(|word, _| {
            place += 1;
            match words.get_mut(word) {
                Some((count, _)) => *count += 1,
                None => drop(words.insert(word.into(), (1, place))),
            }
        });
        words.into_iter().map(|(word, seen)| (word.into(), seen)).collect()
    }

    fn numbered(&self, number: impl Fn(&str) -> Option<u32>) -> Numbered {
        let (mut numbers, mut words) = (Vec::new(), 0);
        let Skipped { bytes, words: without, line } = self.each(|word, is_word| {
            words += u64::from(is_word);
            numbers.extend(number(word));
        });
        Numbered { numbers, words, skipped: [bytes, without, if line > 0 { self.line + line } else { 0 }] }
    }
}

/// Cuts a text.
fn chunks(path: &Path) -> stradsap_examples::Result<Vec<Chunk>> {
    let failed = |e| Error::file("read", path, e);
    let mut input = files::open(path)?;
    let (mut chunks, mut line) = (Vec::new(), 0);
    loop {
        let mut text = Vec::with_capacity(CHUNK + CHUNK / 8);
        input.by_ref().take(CHUNK as u64).read_to_end(&mut text).map_err(failed)?;
        while !text.last().is_none_or(|&b| matches!(b, b' ' | b'\t' | b'\n')) {
            let rest = input.fill_buf().map_err(failed)?;
            let end = rest.iter().position(|&b| matches!(b, b' ' | b'\t' | b'\n')).map_or(rest.len(), |end| end + 1);
            if end == 0 {
                break;
            }
            text.extend_from_slice(&rest[..end]);
            input.consume(end);
        }
        if text.is_empty() {
            return Ok(chunks);
        }
        let lines = text.iter().filter(|&&b| b == b'\n').count() as u64;
        chunks.push(Chunk { text, number: chunks.len() as u64, line });
        line += lines;
    }
}

impl Corpus {
    /// As [`Corpus::read`], on the session's threads or workers. However many different words there are, none is forgotten.
    ///
    /// # Errors
    /// As there, and those of the operators.
    pub fn read_with(session: &Session, path: &Path, min_count: u64) -> Result<Corpus, Box<dyn std::error::Error>> {
        let text = DVector::from_vec(session, chunks(path)?)?;
        let seen = text.flat_map(Chunk::words).reduce_by_key(|a, b| (a.0 + b.0, a.1.min(b.1)))?;
        let known = with!([min_count], seen.filter(|(word, (count, _))| *count >= min_count || word == SENTENCE_END));
        // The most frequent first; of words seen equally often the one that was seen first.
        let known = known.sort_by_key(|(word, (count, first))| (word != SENTENCE_END, u64::MAX - count, *first))?;
        let numbers = known.enumerate().map(|(number, (word, _))| (word.clone(), *number as u32)).collect_map()?;
        let vocabulary = Vocabulary::of(known.iter()?.map(|(word, (count, _))| (word, count)));
        if vocabulary.is_empty() {
            let words = seen.filter(|(word, _)| word != SENTENCE_END);
            let most = words.map(|(_, (count, _))| *count).reduce(u64::max)?.unwrap_or(0);
            return Err(nothing_left(path, seen.len()?.saturating_sub(1), most, min_count).into());
        }
        let numbered = with!([&numbers], text.map(|chunk| chunk.numbered(|word| numbers.get(word).copied())));
        let (mut sentences, mut words, mut skipped) = (Sentences::default(), 0, Skipped::default());
        for chunk in numbered.to_vec()? {
            chunk.numbers.into_iter().for_each(|number| sentences.word(number));
            words += chunk.words;
            let [bytes, without, line] = chunk.skipped;
            skipped.bytes += bytes;
            skipped.words += without;
            if skipped.line == 0 {
                skipped.line = line;
            }
        }
        Ok(Corpus { sentences: sentences.finish(), vocabulary, words, skipped })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_corpus_is_that_of_reading_one_word_after_the_other() -> Result<(), Box<dyn std::error::Error>> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("text");
        let mut text = Vec::new();
        for n in 0..300_000u64 {
            let word = (n * n) % 7919 % (1 + n % 1000);
            text.extend_from_slice(format!("w{word}{}", if n % 97 == 0 { "\n" } else { " " }).as_bytes());
            if n % 50_000 == 7 {
                text.extend_from_slice(b"</s> bad\xff\n\nlong");
                text.extend_from_slice(&[b'x'; 300]);
            }
        }
        std::fs::write(&path, text)?;
        let plain = Corpus::read(&path, 20)?;
        assert!(plain.vocabulary.len() > 500 && plain.skipped.words == 6);
        for threads in [1, 3] {
            let session = Session::builder().threads(threads).build()?;
            let corpus = Corpus::read_with(&session, &path, 20)?;
            assert!(corpus.vocabulary.words().eq(plain.vocabulary.words()));
            assert!(corpus.vocabulary.counts().eq(plain.vocabulary.counts()));
            assert!(corpus.sentences == plain.sentences);
            assert_eq!((corpus.words, corpus.skipped), (plain.words, plain.skipped));
            let error = Corpus::read_with(&session, &path, 1 << 30).unwrap_err().to_string();
            assert_eq!(error, Corpus::read(&path, 1 << 30).unwrap_err().to_string());
        }
        Ok(())
    }
}
