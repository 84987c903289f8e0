//! Bags of words as the UCI repository has them, read line by line. Mistakes are reported as the library reports them.

use std::path::Path;

use stradsap_examples::{Error, Result};

use super::Entry;
use crate::lines::{Lines, excerpt, words};

/// What a file says.
#[derive(Debug, PartialEq)]
pub(super) struct Bag {
    pub(super) documents: u32,
    pub(super) words: u32,
    pub(super) entries: Vec<Entry>,
}

/// The header's numbers, in their order.
const HEADER: [&str; 3] = ["the number of documents", "the size of the vocabulary", "the number of entries"];

/// Room is made for each document and word: a file may name many that have no entry.
const MOST_UNSEEN: u64 = 1 << 22;
const UNSEEN_AN_ENTRY: usize = 16;

/// Reads a file; one whose name ends in `.gz` is unpacked.
///
/// # Errors
/// [`Error::File`], and [`Error::Line`] with the line and column that isn't as it should be.
pub(super) fn read(path: &Path) -> Result<Bag> {
    parse(Lines::open(path)?)
}

/// A column, from 1, and what is wrong there.
type Misplaced = (usize, String);

fn parse(mut lines: Lines<'_>) -> Result<Bag> {
    let mut header = [0; 3];
    let mut places = [(0, 0); 3];
    for (k, what) in HEADER.iter().enumerate() {
        let most = if k == 2 { u64::MAX } else { u64::from(u32::MAX) };
        loop {
            let Some(line) = lines.advance()? else {
                let problem = format!("the file ends here; {what} was expected");
                return Err(after_the_end(&lines, problem));
            };
            match header_number(line, what, most) {
                Ok(None) => {}
                Ok(Some((number, column))) => {
                    header[k] = number;
                    places[k] = (lines.number(), column);
                    break;
                }
                Err((column, problem)) => return Err(lines.error(Some(column), problem)),
            }
        }
    }
    // Both were compared with the largest possible above.
    let (documents, words) = (header[0] as u32, header[1] as u32);
    let mut entries = Vec::new();
    while let Some(line) = lines.advance()? {
        match entry(line, documents, words) {
            Ok(found) => entries.extend(found),
            Err((column, problem)) => return Err(lines.error(Some(column), problem)),
        }
    }
    if header[2] != entries.len() as u64 {
        let problem = format!("the header promises {} entries, but {} follow", header[2], entries.len());
        return Err(at(&lines, places[2], problem));
    }
    let most = MOST_UNSEEN.max(entries.len().saturating_mul(UNSEEN_AN_ENTRY) as u64);
    if let Some(k) = (0..2).find(|&k| header[k] > most) {
        let (what, claimed, held) = (HEADER[k], header[k], entries.len());
        let problem = format!("{what} is {claimed}; of {held} entries at most {most} were expected");
        return Err(at(&lines, places[k], problem));
    }
    Ok(Bag { documents, words, entries })
}

fn at(lines: &Lines<'_>, (line, column): (u64, usize), problem: String) -> Error {
    Error::Line { path: lines.path().to_path_buf(), line, column: Some(column), problem }
}

/// An error at the beginning of the line that would follow the last.
fn after_the_end(lines: &Lines<'_>, problem: String) -> Error {
    Error::Line { path: lines.path().to_path_buf(), line: lines.number() + 1, column: Some(1), problem }
}

/// The one number of a line, and its column; none of a blank line.
fn header_number(line: &[u8], what: &str, most: u64) -> std::result::Result<Option<(u64, usize)>, Misplaced> {
    let mut words = words(line);
    let Some((column, word)) = words.next() else { return Ok(None) };
    let number = number(word, what, column, format_args!("a number up to {most}"))?;
    if number > most {
        return Err((column, format!("{what} is {number}; a number up to {most} was expected")));
    }
    match words.next() {
        Some((column, word)) => {
            Err((column, format!("{} follows {what}; a number a line was expected", excerpt(word))))
        }
        None => Ok(Some((number, column))),
    }
}

/// The entry of a line; none of a blank line.
fn entry(line: &[u8], documents: u32, all_words: u32) -> std::result::Result<Option<Entry>, Misplaced> {
    let mut words = words(line).peekable();
    if words.peek().is_none() {
        return Ok(None);
    }
    let mut next = |what: &str, most: u32| {
        let Some((column, word)) = words.next() else {
            return Err((line.len() + 1, format!("{what} is missing; three numbers were expected")));
        };
        let found: u64 = number(word, what, column, format_args!("a number from 1 to {most}"))?;
        match u32::try_from(found) {
            Ok(found @ 1..) if found <= most => Ok(found),
            _ => Err((column, format!("{what} is {found}; a number from 1 to {most} was expected"))),
        }
    };
    let document = next("the document", documents)? - 1;
    let word = next("the word", all_words)? - 1;
    let count = next("the count", u32::MAX)?;
    match words.next() {
        Some((column, word)) => {
            Err((column, format!("{} follows the count; three numbers were expected", excerpt(word))))
        }
        None => Ok(Some(Entry { document, word, count })),
    }
}

fn number(
    word: &[u8],
    what: &str,
    column: usize,
    expected: impl std::fmt::Display,
) -> std::result::Result<u64, Misplaced> {
    let number = std::str::from_utf8(word).ok().and_then(|text| text.parse().ok());
    number.ok_or_else(|| (column, format!("{what} is {}; {expected} was expected", excerpt(word))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Bag, String> {
        parse(Lines::of(Path::new("f"), text.as_bytes())).map_err(|e| e.to_string())
    }

    #[test]
    fn entries_come_in_the_order_of_the_file() {
        let entry = |document, word, count| Entry { document, word, count };
        let want = Bag { documents: 2, words: 5, entries: vec![entry(1, 0, 4), entry(0, 4, 1)] };
        assert_eq!(read("2\n5\n2\n2 1 4\n1 5 1\n"), Ok(want));
        assert_eq!(read("\n 2 \r\n5\r\n2\r\n\r\n2 1 4\r\n1\t5 1"), read("2\n5\n2\n2 1 4\n1 5 1\n"));
    }
}
