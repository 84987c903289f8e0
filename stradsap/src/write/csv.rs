//! Tables of delimited text.

use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;

use super::Numbers;
use super::atomic::{self, Failure};
use crate::__private::each_element;
use crate::read::{MARK, extension};
use crate::{DVector, Element, Numeric, Result};

fn delimiter(path: &Path) -> u8 {
    if extension(path).is_some_and(|extension| extension == "tsv") { b'\t' } else { b',' }
}

pub(super) fn write<T: Element + Serialize>(vector: &DVector<T>, path: &Path) -> Result<()> {
    atomic::write(path, |out| {
        let mut table = csv::WriterBuilder::new().delimiter(delimiter(path)).from_writer(Marked { out, begun: false });
        let mut k = 0;
        each_element(vector, 0..vector.len(), |elements| {
            for element in elements {
                table.serialize(element).map_err(|error| failure(k, error))?;
                k += 1;
            }
            Ok::<_, Failure>(())
        })?;
        Ok(table.flush()?)
    })
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
