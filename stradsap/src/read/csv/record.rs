//! Records and their fields, as `csv-core` sees them.

use csv_core::{ReadFieldResult, ReadRecordResult, Reader, ReaderBuilder};

use super::border::{Marks, borders};
use crate::read::blocks::{Parsed, misplaced};

/// The fields of a record.
pub(crate) struct Record {
    text: Vec<u8>,
    ends: Vec<usize>,
    len: usize,
}

impl Record {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The `k`-th field without blanks around it.
    #[inline]
    pub(crate) fn field(&self, k: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.len].get(k)?;
        let start = if k == 0 { 0 } else { self.ends[k - 1] };
        let field = &self.text[start..end];
        // Most fields have none, and then one look at both ends is enough.
        match field {
            [first, .., last] if *first > b' ' && *last > b' ' => Some(field),
            _ => Some(field.trim_ascii()),
        }
    }
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
        let record = Record { text: vec![0; 256], ends: vec![0; 32], len: 0 };
        Records { reader: reader(marks), marks, record }
    }

    /// Forgets how the block before ended.
    pub(crate) fn restart(&mut self) {
        self.reader.reset();
        // At its first byte the reader would skip a byte order mark, which here would be in the midst of the file.
        self.reader.read_record(b"\n", &mut self.record.text, &mut self.record.ends);
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
        let Record { text: all_text, ends: all_ends, len } = &mut self.record;
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
                    return Ok(Some(start));
                }
            }
        }
    }

    /// Where the `k`-th field of the record that begins the bytes begins, as far as there is one.
    pub(crate) fn field_offset(&self, bytes: &[u8], k: usize) -> usize {
        let mut reader = reader(self.marks);
        let mut text = [0; 256];
        let (mut at, mut field) = (0, 0);
        while field < k {
            let (result, read, _) = reader.read_field(&bytes[at..], &mut text);
            at += read;
            match result {
                ReadFieldResult::Field { record_end: false } => field += 1,
                ReadFieldResult::OutputFull => {}
                _ => break,
            }
        }
        at
    }
}
