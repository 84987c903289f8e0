//! A file of rows in LIBSVM's format, as regression reads it: any label, values in double precision.

use std::io::BufRead;
use std::path::{Path, PathBuf};

use stradsap_examples::{Error, Result};

use crate::libsvm::{Misplaced, check_width, finite, pairs};
use crate::lines::{Lines, excerpt, words};

/// One value of a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Which feature, from 0.
    pub index: u32,
    /// Its value, finite.
    pub value: f64,
}

/// What labels a file may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Labels {
    /// Any finite numbers.
    Numbers,
    /// Two numbers; the larger becomes 1, the other -1.
    Classes,
}

/// A file of rows in memory: 16 bytes a value and 24 bytes a row.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    path: PathBuf,
    labels: Vec<f64>,
    /// The line of each row.
    lines: Vec<u64>,
    /// Where each row's values end.
    ends: Vec<usize>,
    entries: Vec<Entry>,
    features: usize,
    from_zero: bool,
    classes: [f64; 2],
}

impl Table {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be read, [`Error::Line`] with the line and column that isn't as it should be,
    /// [`Error::Data`] when all labels are equal.
    pub fn read(path: &Path, labels: Labels) -> Result<Table> {
        parse(path, Lines::open(path)?, labels)
    }

    /// Reads from memory or a stream; `path` is what errors name.
    ///
    /// # Errors
    /// As [`Table::read`].
    pub fn parse(path: &Path, input: impl BufRead, labels: Labels) -> Result<Table> {
        parse(path, Lines::of(path, input), labels)
    }

    /// How many rows.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none: never so for a file that was read.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// How many values the rows have.
    pub fn values(&self) -> usize {
        self.entries.len()
    }

    /// The largest index of a feature, counted from 1; 0 when no row has any.
    pub fn features(&self) -> usize {
        self.features
    }

    /// The labels of the rows.
    pub fn labels(&self) -> &[f64] {
        &self.labels
    }

    /// With [`Labels::Classes`], the smaller and the larger label of the file.
    pub fn classes(&self) -> [f64; 2] {
        self.classes
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The line that row `i` stands on.
    pub fn line(&self, i: usize) -> u64 {
        self.lines[i]
    }

    /// How many values the rows up to and with `i` have.
    pub fn end(&self, i: usize) -> usize {
        self.ends[i]
    }

    /// The values of row `i`.
    pub fn row(&self, i: usize) -> &[Entry] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.entries[start..self.ends[i]]
    }

    fn push(&mut self, line: &[u8], number: u64) -> std::result::Result<(), Misplaced> {
        let line = line.split(|&b| b == b'#').next().unwrap_or_default();
        let mut words = words(line);
        let Some((column, word)) = words.next() else { return Ok(()) };
        let label = finite(word)
            .ok_or_else(|| (column, format!("the label is {}; expected a finite number", excerpt(word))))?;
        let entries = &mut self.entries;
        let from_zero = pairs(words, |index, value| entries.push(Entry { index, value }))?;
        let last = self.ends.last().copied().unwrap_or(0);
        if let Some(entry) = self.entries[last..].last() {
            self.features = self.features.max(entry.index.wrapping_add(1) as usize);
        }
        self.from_zero |= from_zero;
        self.labels.push(label);
        self.lines.push(number);
        self.ends.push(self.entries.len());
        Ok(())
    }

    /// Makes the labels -1 and 1.
    fn classify(&mut self) -> Result<()> {
        let first = self.labels[0];
        let other = self.labels.iter().position(|&label| label != first);
        let second = other.map_or(first, |i| self.labels[i]);
        let (negative, positive) = (first.min(second), first.max(second));
        for (i, label) in self.labels.iter_mut().enumerate() {
            if *label != negative && *label != positive {
                let problem =
                    format!("the label is {label}, a third beside {first} and {second}; expected two classes");
                return Err(Error::Line { path: self.path.clone(), line: self.lines[i], column: Some(1), problem });
            }
            *label = if *label == positive { 1.0 } else { -1.0 };
        }
        self.classes = [negative, positive];
        Ok(())
    }
}

fn parse(path: &Path, mut lines: Lines<'_>, labels: Labels) -> Result<Table> {
    let mut table = Table {
        path: path.to_path_buf(),
        labels: Vec::new(),
        lines: Vec::new(),
        ends: Vec::new(),
        entries: Vec::new(),
        features: 0,
        from_zero: false,
        classes: [-1.0, 1.0],
    };
    let mut number = 0;
    while let Some(line) = lines.advance()? {
        number += 1;
        table.push(line, number).map_err(|(column, problem)| lines.error(Some(column), problem))?;
    }
    if table.is_empty() {
        return Err(lines.error(None, "no rows; expected lines of a label and index:value pairs".to_owned()));
    }
    if table.from_zero {
        table.entries.iter_mut().for_each(|entry| entry.index = entry.index.wrapping_add(1));
        table.features += 1;
    }
    let is_widest = |i: &usize| table.row(*i).last().is_some_and(|last| last.index as usize + 1 == table.features);
    let line = (0..table.len()).find(is_widest).map_or(1, |i| table.line(i));
    check_width(path, (table.features, line), table.values())?;
    let first = table.labels[0];
    if table.labels.iter().all(|&label| label == first) {
        let what = match labels {
            Labels::Numbers => "labels that differ",
            Labels::Classes => "two classes",
        };
        let problem = format!("all rows have the label {first}; expected {what}");
        return Err(Error::Data { path: path.to_path_buf(), problem });
    }
    if labels == Labels::Classes {
        table.classify()?;
    }
    Ok(table)
}
