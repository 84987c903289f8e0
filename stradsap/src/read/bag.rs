//! Bags of words, as the UCI repository has them.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::apart::{self, Travelling};
use super::blocks::{Format, Parsed, Reading, Records, Whole, misplaced};
use super::source::{Input, resolve};
use super::text::{each_line, excerpt, last_line, number, words};
use crate::{DVector, Element, Error, Result, Session};

/// Documents as counts of their words: [`read_bag_of_words`](crate::ReadFiles::read_bag_of_words).
#[derive(Debug)]
pub struct BagOfWords {
    /// The number of documents, with empty ones.
    pub documents: u32,
    /// The number of words in the vocabulary.
    pub words: u32,
    /// How often each document has each of its words.
    pub entries: DVector<Entry>,
}

/// How often a document has a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Element)]
pub struct Entry {
    /// The document. Documents are counted from 0 here and from 1 in the file.
    pub document: u32,
    /// The word. Words are counted from 0 here and from 1 in the file.
    pub word: u32,
    /// How often the document has the word; at least 1.
    pub count: u32,
}

pub(super) fn read(session: &Session, path: &Path) -> Result<BagOfWords> {
    let inputs = resolve(path)?;
    if inputs.len() > 1 {
        let problem = format!("{} files match the pattern; a bag of words is one file", inputs.len());
        return Err(Error::File { path: path.to_path_buf(), source: std::io::Error::other(problem) });
    }
    collect(&Reading::new(session, &inputs))
}

pub(super) fn collect(reading: &Reading<'_>) -> Result<BagOfWords> {
    let Some(Input { path, .. }) = reading.inputs.first() else {
        return Err(Error::usage("a bag of words is one file, and none was given"));
    };
    if let Some((entries, head)) = apart::read(reading, &Bag)? {
        head.check(path, entries.len())?;
        return Ok(BagOfWords { documents: head.documents, words: head.words, entries });
    }
    let Records { chunks, files } = reading.records(&Bag)?;
    let Some(Whole { head, records, .. }) = files.first() else { unreachable!("a file that was read has a head") };
    head.check(path, *records)?;
    let entries = DVector::from_chunks(reading.session, chunks)?;
    Ok(BagOfWords { documents: head.documents, words: head.words, entries })
}

impl Sizes {
    /// Whether the file's numbers agree with how many entries it has.
    fn check(&self, path: &Path, records: usize) -> Result<()> {
        if self.entries != records as u64 {
            let problem = format!("the header promises {} entries, but {records} follow", self.entries);
            let (line, column) = self.places[2];
            return Err(Error::Input { path: path.to_path_buf(), line, column: Some(column), problem });
        }
        let most = MOST_UNSEEN.max(records.saturating_mul(UNSEEN_AN_ENTRY) as u64);
        for (k, claimed) in [self.documents, self.words].into_iter().enumerate() {
            if u64::from(claimed) > most {
                let problem = format!("{} is {claimed}; of {records} entries at most {most} were expected", WHAT[k]);
                let (line, column) = self.places[k];
                return Err(Error::Input { path: path.to_path_buf(), line, column: Some(column), problem });
            }
        }
        Ok(())
    }
}

#[derive(Clone, Serialize, Deserialize)]
struct Bag;

impl Travelling for Bag {}

/// The numbers that a file begins with.
const WHAT: [&str; 3] = ["the number of documents", "the size of the vocabulary", "the number of entries"];
/// Programs make room for each document and word: a file may name many that have no entry.
const MOST_UNSEEN: u64 = 1 << 22;
const UNSEEN_AN_ENTRY: usize = 16;

/// The three numbers that a file begins with.
#[derive(Serialize, Deserialize)]
struct Sizes {
    documents: u32,
    words: u32,
    entries: u64,
    /// Line and column of each.
    places: [(u64, u64); 3],
}

impl Format for Bag {
    type Head = Sizes;
    type Scratch = ();
    type Item = Entry;

    fn head(&self, bytes: &[u8], last: bool) -> Parsed<Option<(Sizes, usize)>> {
        let whole = &bytes[..if last { bytes.len() } else { last_line(bytes) }];
        let (mut numbers, mut end, mut places, mut lines) = (Vec::new(), 0, [(0, 0); 3], 0);
        each_line(whole, |start, line| {
            if numbers.len() == WHAT.len() {
                return Ok(());
            }
            lines += 1;
            end = memchr::memchr(b'\n', &whole[start..]).map_or(whole.len(), |newline| start + newline + 1);
            let mut words = words(start, line);
            let Some((at, word)) = words.next() else { return Ok(()) };
            let what = WHAT[numbers.len()];
            let most = if numbers.len() == 2 { u64::MAX } else { u64::from(u32::MAX) };
            let expected = format_args!("a number up to {most}");
            let found: u64 = number(at, word, what, expected)?;
            if found > most {
                return misplaced(at, format!("{what} is {found}; {expected} was expected"));
            }
            if let Some((at, word)) = words.next() {
                return misplaced(at, format!("{} follows {what}; a number a line was expected", excerpt(word)));
            }
            places[numbers.len()] = (lines, (at - start) as u64 + 1);
            numbers.push(found);
            Ok(())
        })?;
        match numbers[..] {
            [documents, words, entries] => {
                // They were compared with the largest possible above.
                let (documents, words) = (documents as u32, words as u32);
                Ok(Some((Sizes { documents, words, entries, places }, end)))
            }
            _ if last => misplaced(bytes.len(), format!("the file ends here; {} was expected", WHAT[numbers.len()])),
            _ => Ok(None),
        }
    }

    fn scratch(&self) {}

    fn border(&self, _: &Sizes, bytes: &[u8]) -> usize {
        last_line(bytes)
    }

    fn parse(&self, sizes: &Sizes, bytes: &[u8], (): &mut (), items: &mut Vec<Entry>) -> Parsed<()> {
        each_line(bytes, |start, line| {
            let mut words = words(start, line).peekable();
            if words.peek().is_none() {
                return Ok(());
            }
            let mut next = |what: &str, most: u32| -> Parsed<u32> {
                let Some((at, word)) = words.next() else {
                    return misplaced(start + line.len(), format!("{what} is missing; three numbers were expected"));
                };
                let found: u64 = number(at, word, what, format_args!("a number from 1 to {most}"))?;
                match u32::try_from(found) {
                    Ok(found @ 1..) if found <= most => Ok(found),
                    _ => misplaced(at, format!("{what} is {found}; a number from 1 to {most} was expected")),
                }
            };
            let document = next("the document", sizes.documents)? - 1;
            let word = next("the word", sizes.words)? - 1;
            let count = next("the count", u32::MAX)?;
            if let Some((at, word)) = words.next() {
                return misplaced(at, format!("{} follows the count; three numbers were expected", excerpt(word)));
            }
            items.push(Entry { document, word, count });
            Ok(())
        })
    }
}
