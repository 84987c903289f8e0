//! Tables of delimited text.

pub(crate) mod border;
mod columns;
mod record;
mod row;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::apart::{Passage, Travelling};
use super::blocks::{Format, Misplaced, Parsed, Reading, misplaced};
use super::source::{Input, extension, resolve};
use super::text::excerpt;
use crate::{DVector, Element, Error, Result, Session};
use border::{Marks, QUOTE, borders};
use columns::Columns;
#[cfg(feature = "parquet")]
pub(super) use columns::fields;
use record::Records;
#[cfg(feature = "parquet")]
pub(super) use row::Fault;

/// The form of a table, for [`read_csv_with`](crate::ReadFiles::read_csv_with).
///
/// ```
/// use stradsap::{Csv, prelude::*};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// let path = "ratings.dat";
/// # let path = &folder.path().join(path);
/// std::fs::write(&path, "% user item stars\n7|3|4.5\n8|2|3\n9|9|1\n")?;
///
/// let session = Session::new()?;
/// let table = Csv::new().delimiter(b'|').header(false).comment(b'%').limit(2);
/// let ratings = session.read_csv_with::<(u32, u32, f32)>(&path, &table)?;
/// assert_eq!(ratings.to_vec()?, [(7, 3, 4.5), (8, 2, 3.0)]);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Csv {
    delimiter: Option<u8>,
    no_header: bool,
    comment: Option<u8>,
    limit: Option<usize>,
}

impl Csv {
    /// A table with a header and without comments. `.tsv` files have tabs between fields, all others commas.
    pub fn new() -> Self {
        Csv::default()
    }

    /// Sets the delimiter between fields: an ASCII character that is no quote and no line end.
    pub fn delimiter(mut self, delimiter: u8) -> Self {
        self.delimiter = Some(delimiter);
        self
    }

    /// Sets whether the first record names the columns. Without a header, the fields of a struct or tuple are the first columns,
    /// and further columns are ignored.
    pub fn header(mut self, header: bool) -> Self {
        self.no_header = !header;
        self
    }

    /// Sets a prefix for comments: lines that begin with it are skipped, before the header as well.
    pub fn comment(mut self, prefix: u8) -> Self {
        self.comment = Some(prefix);
        self
    }

    /// Sets how many records are read at most: the first ones of all files together.
    pub fn limit(mut self, records: usize) -> Self {
        self.limit = Some(records);
        self
    }

    fn marks(&self, path: &Path) -> Result<Marks> {
        let tabs = extension(path).is_some_and(|extension| extension == "tsv");
        let delimiter = self.delimiter.unwrap_or(if tabs { b'\t' } else { b',' });
        for (what, mark) in [("delimiter", Some(delimiter)), ("comment prefix", self.comment)] {
            if let Some(mark) = mark.filter(|mark| !mark.is_ascii() || matches!(mark, b'"' | b'\n' | b'\r')) {
                let given = mark.escape_ascii();
                let expected = "an ASCII character that is no quote and no end of a line was expected";
                return Err(Error::usage(format!("the {what} of a table is `{given}`; {expected}")));
            }
        }
        if self.comment == Some(delimiter) {
            let given = delimiter.escape_ascii();
            return Err(Error::usage(format!("`{given}` is both delimiter and comment prefix; two were expected")));
        }
        Ok(Marks { delimiter, comment: self.comment })
    }
}

pub(crate) fn read<T: Element + DeserializeOwned>(session: &Session, path: &Path, csv: &Csv) -> Result<DVector<T>> {
    let table = Table::<T>::of(csv, path)?;
    let inputs: Vec<Input> = resolve(path)?;
    Reading { limit: csv.limit, ..Reading::new(session, &inputs) }.vector(&table)
}

/// Tables whose records are `T`.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Table<T> {
    marks: Marks,
    header: bool,
    element: PhantomData<fn() -> T>,
}

impl<T> Table<T> {
    pub(super) fn of(csv: &Csv, path: &Path) -> Result<Self> {
        Ok(Table::new(csv.marks(path)?, !csv.no_header))
    }

    fn new(marks: Marks, header: bool) -> Self {
        Table { marks, header, element: PhantomData }
    }
}

impl<T> Clone for Table<T> {
    fn clone(&self) -> Self {
        Table::new(self.marks, self.header)
    }
}

impl<T: Element + DeserializeOwned> Travelling for Table<T> {
    fn hides_borders(&self, bytes: &[u8]) -> bool {
        memchr::memchr(QUOTE, bytes).is_some()
    }

    fn passage(&self, bytes: &[u8]) -> Passage {
        border::passage(bytes, self.marks)
    }

    fn border_in(&self, state: u8, bytes: &[u8]) -> Option<usize> {
        border::border_in(state, bytes, self.marks)
    }
}

impl<T: Element + DeserializeOwned> Format for Table<T> {
    type Head = Columns;
    type Scratch = Records;
    type Item = T;

    fn head(&self, bytes: &[u8], last: bool) -> Parsed<Option<(Columns, usize)>> {
        let whole = if last { bytes } else { &bytes[..borders(bytes, self.marks).last] };
        let mut records = Records::new(self.marks);
        let mut at = 0;
        let first = records.advance(whole, &mut at)?;
        if !self.header {
            return Ok((first.is_some() || last).then(|| (Columns::positional(records.record.len()), 0)));
        }
        let Some(start) = first else {
            return if last {
                misplaced(0, "the file is empty; a header line with the names of the fields was expected")
            } else {
                Ok(None)
            };
        };
        let names = self.names(&records, &whole[start..]).map_err(|found| shifted(found, start))?;
        if whole[at - 1] == b'\r' && whole.get(at) == Some(&b'\n') {
            at += 1;
        }
        let mut next = at;
        let first = records.advance(whole, &mut next);
        if matches!(first, Ok(None)) && !last {
            return Ok(None);
        }
        // What is wrong with the record is said where it is read.
        let first = first.is_ok_and(|first| first.is_some()).then_some(&records.record);
        let columns = Columns::named::<T>(names.clone(), first).map_err(|fault| {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            Misplaced { offset: start, problem: format!("{}; the header has {}", fault.problem, names.join(", ")) }
        })?;
        Ok(Some((columns, at)))
    }

    fn scratch(&self) -> Records {
        Records::new(self.marks)
    }

    fn border(&self, _: &Columns, bytes: &[u8]) -> usize {
        borders(bytes, self.marks).last
    }

    fn parse(&self, columns: &Columns, bytes: &[u8], records: &mut Records, items: &mut Vec<T>) -> Parsed<()> {
        records.restart();
        let mut at = 0;
        while let Some(start) = records.advance(bytes, &mut at)? {
            let here = &bytes[start..at];
            let len = records.record.len();
            if len != columns.width {
                let width = columns.width;
                let by = if columns.names.is_some() { "header" } else { "first record" };
                let offset = if len > width { records.field_offset(here, width) } else { here.trim_ascii_end().len() };
                let s = if len == 1 { "" } else { "s" };
                return misplaced(
                    start + offset,
                    format!("{len} field{s}; the {by} has {width}, so {width} were expected"),
                );
            }
            match columns.element(&records.record) {
                Ok(element) => items.push(element),
                Err(fault) => {
                    let offset = records.field_offset(here, fault.column.unwrap_or(0));
                    return misplaced(start + offset, fault.problem);
                }
            }
        }
        Ok(())
    }
}

impl<T> Table<T> {
    fn names(&self, records: &Records, bytes: &[u8]) -> Parsed<Vec<String>> {
        let name = |k| {
            let field = records.record.field(k).unwrap_or_default();
            let text = std::str::from_utf8(field).map(str::to_string);
            text.or_else(|_| {
                let offset = records.field_offset(bytes, k);
                misplaced(offset, format!("the column's name is {}; UTF-8 text was expected", excerpt(field)))
            })
        };
        (0..records.record.len()).map(name).collect()
    }
}

fn shifted(found: Misplaced, by: usize) -> Misplaced {
    Misplaced { offset: found.offset + by, ..found }
}
