//! Records and their fields, as `csv-core` sees them.

use csv_core::{ReadFieldResult, ReadRecordResult, Reader, ReaderBuilder};

use super::border::{Marks, QUOTE, borders};
use crate::read::blocks::{Parsed, misplaced};

/// The fields of a record.
pub(crate) struct Record {
    text: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
    /// Those between quotes, of a record that has any with blanks at an end.
    quoted: Vec<usize>,
}

impl Record {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The `k`-th field without blanks around it.
    #[inline]
    pub(crate) fn field(&self, k: usize) -> Option<&[u8]> {
        let field = self.all_of(k)?;
        Some(if is_trim(field) { field } else { field.trim_ascii() })
    }

    /// The same as a text: with the blanks around it if they are between quotes.
    pub(crate) fn text(&self, k: usize) -> Option<&[u8]> {
        if self.quoted.contains(&k) { self.all_of(k) } else { self.field(k) }
    }

    #[inline]
    fn all_of(&self, k: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.len].get(k)?;
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        Some(&self.text[start..end])
    }

    fn has_blanks(&self) -> bool {
        (0..self.len).any(|k| self.all_of(k).is_some_and(|field| !is_trim(field) && field.trim_ascii() != field))
    }
}

/// Whether a field certainly has no blanks around it, as most.
#[inline]
fn is_trim(field: &[u8]) -> bool {
    matches!(field, [first, .., last] if *first > b' ' && *last > b' ')
}

/// What reads records, one after the other.
pub(crate) struct Records {
    reader: Reader,
    marks: Marks,
    pub(crate) record: Record,
}

fn reader(marks: Marks) -> Reader {
    ReaderBuilder::new().delimiter(marks.delimiter).build()
}

impl Records {
    pub(crate) fn new(marks: Marks) -> Self {
        let record = Record { text: vec![0; 256], ends: vec![0; 32], len: 0, quoted: Vec::new() };
        Records { reader: reader(marks), marks, record }
    }

    /// Forgets how the block before ended.
    pub(crate) fn restart(&mut self) {
        self.reader.reset();
        pass_mark(&mut self.reader);
    }

    /// Reads the next record from `at` on, moves `at` behind it, and says where it began.
    pub(crate) fn advance(&mut self, bytes: &[u8], at: &mut usize) -> Parsed<Option<usize>> {
        loop {
            match bytes.get(*at) {
                None => return Ok(None),
                Some(b'\n' | b'\r') => *at += 1,
                Some(byte) if Some(*byte) == self.marks.comment => {
                    *at += memchr::memchr(b'\n', &bytes[*at..]).map_or(bytes.len() - *at, |newline| newline + 1);
                }
                Some(_) => break,
            }
        }
        let start = *at;
        let (mut text, mut ends) = (0, 0);
        let Record { text: all_text, ends: all_ends, len, quoted } = &mut self.record;
        quoted.clear();
        loop {
            let ended = *at == bytes.len();
            let (result, read, written, found) =
                self.reader.read_record(&bytes[*at..], &mut all_text[text..], &mut all_ends[ends..]);
            *at += read;
            text += written;
            ends += found;
            match result {
                // The next round tells the reader that there is no more.
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull => all_text.resize(2 * all_text.len(), 0),
                ReadRecordResult::OutputEndsFull => all_ends.resize(2 * all_ends.len(), 0),
                ReadRecordResult::Record | ReadRecordResult::End => {
                    *len = ends;
                    if ended && let Some(quote) = borders(&bytes[start..], self.marks).open {
                        let problem = "the quoted field that begins here never ends; a closing quote was expected";
                        return misplaced(start + quote, problem);
                    }
                    // Without quotes a byte at most stands behind each field.
                    if *at - start > text + ends && self.record.has_blanks() {
                        self.record.quoted = self.quoted(&bytes[start..*at]);
                    }
                    return Ok(Some(start));
                }
            }
        }
    }

    /// Which fields of a record are quoted.
    fn quoted(&self, bytes: &[u8]) -> Vec<usize> {
        let begins = (0..).zip(self.field_offsets(bytes));
        begins.filter(|&(_, at)| bytes.get(at) == Some(&QUOTE)).map(|(k, _)| k).collect()
    }

    /// Where the `k`-th field of the record that begins the bytes begins, or the last if it has fewer.
    pub(crate) fn field_offset(&self, bytes: &[u8], k: usize) -> usize {
        self.field_offsets(bytes).take(k + 1).last().unwrap_or(0)
    }

    /// Where each field of the record that begins the bytes begins.
    fn field_offsets(&self, bytes: &[u8]) -> impl Iterator<Item = usize> {
        let mut reader = reader(self.marks);
        pass_mark(&mut reader);
        let mut text = [0; 256];
        std::iter::successors(Some(0), move |&begin| {
            let mut at = begin;
            loop {
                let (result, read, _) = reader.read_field(&bytes[at..], &mut text);
                at += read;
                match result {
                    ReadFieldResult::Field { record_end: false } => return Some(at),
                    ReadFieldResult::OutputFull => {}
                    _ => return None,
                }
            }
        })
    }
}

/// At its first byte the reader would skip a byte order mark, which would be in the midst of the file.
fn pass_mark(reader: &mut Reader) {
    reader.read_record(b"\n", &mut [0], &mut [0]);
}
