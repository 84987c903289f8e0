//! Tables of delimited text.

use std::io::{self, Read, Write};
use std::path::Path;

use serde::Serialize;

use super::Numbers;
use super::atomic::{self, Failure};
use crate::__private::each_element;
use crate::read::{MARK, Marks, borders, extension};
use crate::{DVector, Element, Numeric, Result};

fn delimiter(path: &Path) -> u8 {
    if extension(path).is_some_and(|extension| extension == "tsv") { b'\t' } else { b',' }
}

pub(super) fn write<T: Element + Serialize>(vector: &DVector<T>, path: &Path) -> Result<()> {
    atomic::write(path, |out| {
        let delimiter = delimiter(path);
        let out = Quoting { out: Marked { out, begun: false }, delimiter, pending: Vec::new(), enough: 0 };
        let mut table = csv::WriterBuilder::new().delimiter(delimiter).from_writer(out);
        let mut k = 0;
        each_element(vector, 0..vector.len(), |elements| {
            for element in elements {
                table.serialize(element).map_err(|error| failure(k, error))?;
                k += 1;
            }
            Ok::<_, Failure>(())
        })?;
        let out = table.into_inner().map_err(csv::IntoInnerError::into_error)?;
        Ok(out.finish()?)
    })
}

/// Has quotes around fields that begin or end with blanks, too: readers ignore blanks outside of quotes.
struct Quoting<W> {
    out: W,
    delimiter: u8,
    /// What has come of records that aren't whole.
    pending: Vec<u8>,
    /// From how many bytes on a border is looked for again.
    enough: usize,
}

impl<W: Write> Quoting<W> {
    fn put(&mut self, len: usize) -> io::Result<()> {
        let records = &self.pending[..len];
        if !has_loose_blanks(records, self.delimiter) {
            self.out.write_all(records)?;
        } else {
            let mut reader = csv::ReaderBuilder::new();
            // What begins like a byte order mark is none behind a line end.
            let records = b"\n".chain(records);
            let mut reader = reader.delimiter(self.delimiter).has_headers(false).flexible(true).from_reader(records);
            for record in reader.byte_records() {
                let line = quoted(&record?, self.delimiter);
                self.out.write_all(&line)?;
            }
        }
        self.pending.drain(..len);
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        self.put(self.pending.len())?;
        self.out.flush()
    }
}

impl<W: Write> Write for Quoting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() >= self.enough {
            let whole = borders(&self.pending, Marks { delimiter: self.delimiter, comment: None }).last;
            self.put(whole)?;
            self.enough = 2 * self.pending.len();
        }
        Ok(bytes.len())
    }

    /// The rest waits for its end.
    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// Whether there may be a field without quotes that begins or ends with a blank.
fn has_loose_blanks(records: &[u8], delimiter: u8) -> bool {
    let borders = |byte: Option<&u8>| byte.is_none_or(|&byte| byte == delimiter || matches!(byte, b'\n' | b'\r'));
    memchr::memchr3_iter(b' ', b'\t', b'\x0c', records)
        .any(|k| records[k] != delimiter && (borders(records[..k].last()) || borders(records.get(k + 1))))
}

/// A record as a line, with quotes where they are needed.
fn quoted(record: &csv::ByteRecord, delimiter: u8) -> Vec<u8> {
    let mut line = Vec::new();
    for (k, field) in record.iter().enumerate() {
        if k > 0 {
            line.push(delimiter);
        }
        let marks = field.iter().any(|&byte| byte == delimiter || matches!(byte, b'"' | b'\n' | b'\r'));
        if marks || field.trim_ascii().len() < field.len() || record.len() == 1 && field.is_empty() {
            line.push(b'"');
            for &byte in field {
                line.extend(std::iter::repeat_n(byte, if byte == b'"' { 2 } else { 1 }));
            }
            line.push(b'"');
        } else {
            line.extend_from_slice(field);
        }
    }
    line.push(b'\n');
    line
}

/// What is written through. If it begins like a byte order mark, which readers skip, it gets one before it.
struct Marked<W> {
    out: W,
    begun: bool,
}

impl<W: Write> Write for Marked<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // The writer of records gives kilobytes at a time.
        if !std::mem::replace(&mut self.begun, true) && bytes.starts_with(MARK) {
            self.out.write_all(MARK)?;
        }
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

fn failure(k: usize, error: csv::Error) -> Failure {
    let text = error.to_string();
    match error.into_kind() {
        csv::ErrorKind::Io(source) => source.into(),
        _ => io::Error::new(io::ErrorKind::InvalidData, format!("element {k} is no record of a table: {text}")).into(),
    }
}

/// Numbers without a header, a row a line.
pub(super) fn write_numbers<D: Numbers>(array: &D, path: &Path) -> Result<()> {
    let delimiter = char::from(delimiter(path));
    let width = array.width();
    atomic::write(path, |out| {
        let mut line = String::new();
        array.each(|rows| {
            for row in rows.chunks(width) {
                line.clear();
                for number in row {
                    number.each_text(&mut |number| {
                        if !line.is_empty() {
                            line.push(delimiter);
                        }
                        line.push_str(number);
                    });
                }
                line.push('\n');
                out.write_all(line.as_bytes())?;
            }
            Ok(())
        })
    })
}
