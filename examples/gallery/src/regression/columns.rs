//! Some rows of a table, by column: what one part of the data holds.

use std::num::NonZeroU16;
use std::ops::Range;

use stradsap::Element;

use crate::regression::kernels;
use crate::regression::problem::Problem;
use crate::regression::scaling::Scaling;
use crate::regression::table::{Entry, Table};

/// Values of a part: so few that several fit a worker, this many that a part's share of a round is worth a thread.
const PART_VALUES: usize = 1 << 22;
const MOST_PARTS: usize = 64;

/// Some rows of a table by column, scaled; columns that are stored with their zeros are shifted, too.
#[derive(Debug, Clone, PartialEq, Element)]
pub struct Part {
    /// The labels of its rows.
    pub labels: Vec<f64>,
    /// Where each column's values end.
    ends: Vec<u64>,
    /// Where the rows of each column's values end: where those of the column before do, if it has its zeros too.
    row_ends: Vec<u64>,
    rows: Vec<u32>,
    values: Vec<f64>,
    /// The sum of each column.
    sums: Vec<f64>,
}

/// A column of a part.
#[derive(Debug, Clone, Copy)]
pub enum Column<'a> {
    /// With its zeros.
    Dense(&'a [f64]),
    /// The rows that aren't zero, and their values.
    Sparse(&'a [u32], &'a [f64]),
}

impl Part {
    /// The rows of a problem, cut into this many parts, or by the size of the data.
    pub fn all(problem: &Problem, parts: Option<NonZeroU16>) -> Vec<Part> {
        cut(problem, parts).into_iter().map(|rows| Part::rows(problem, rows)).collect()
    }

    /// These rows of a problem.
    pub fn rows(problem: &Problem, rows: Range<usize>) -> Part {
        Part::of(&problem.table, &problem.labels, &problem.scaling, rows)
    }

    /// These rows of the table; `labels` are those of all rows.
    pub fn of(table: &Table, labels: &[f64], scaling: &Scaling, rows: Range<usize>) -> Part {
        let columns = scaling.len();
        let used = |entry: &&Entry| entry.value != 0.0 && scaling.factors[entry.index as usize] != 0.0;
        let mut counts = vec![0usize; columns];
        for entry in rows.clone().flat_map(|i| table.row(i)).filter(used) {
            counts[entry.index as usize] += 1;
        }
        let height = rows.len();
        let mut part = Part {
            labels: labels[rows.clone()].to_vec(),
            ends: Vec::with_capacity(columns),
            row_ends: Vec::with_capacity(columns),
            rows: Vec::new(),
            values: Vec::new(),
            sums: Vec::with_capacity(columns),
        };
        // Where the next value of each column belongs.
        let mut next: Vec<(usize, usize)> = Vec::with_capacity(columns);
        for (&count, &dense) in counts.iter().zip(&scaling.dense) {
            let (end, row_end) = (part.values.len(), part.rows.len());
            next.push((end, row_end));
            let (values, rows) = if dense { (height, 0) } else { (count, count) };
            let taken_off = scaling.taken_off[part.ends.len()];
            part.values.resize(end + values, -taken_off);
            part.rows.resize(row_end + rows, 0);
            part.ends.push(part.values.len() as u64);
            part.row_ends.push(part.rows.len() as u64);
        }
        for (here, i) in rows.enumerate() {
            for entry in table.row(i).iter().filter(used) {
                let j = entry.index as usize;
                let value = entry.value * scaling.factors[j];
                let (at, row_at) = next[j];
                if scaling.dense[j] {
                    part.values[at + here] = value - scaling.taken_off[j];
                } else {
                    (part.values[at], part.rows[row_at]) = (value, here as u32);
                    next[j] = (at + 1, row_at + 1);
                }
            }
        }
        part.sums = (0..columns).map(|j| kernels::sum(part.values_of(j))).collect();
        part
    }

    /// How many rows.
    pub fn height(&self) -> usize {
        self.labels.len()
    }

    /// How many columns.
    pub fn width(&self) -> usize {
        self.ends.len()
    }

    /// The sum of a column.
    pub fn sum(&self, column: usize) -> f64 {
        self.sums[column]
    }

    /// How many values of a column are stored.
    pub fn stored(&self, column: usize) -> usize {
        self.value_range(column).len()
    }

    /// The same, of a column of ones if there is none of that number.
    pub fn stored_or_height(&self, column: usize) -> usize {
        if column < self.width() { self.stored(column) } else { self.height() }
    }

    /// The same of several columns.
    pub fn stored_of(&self, columns: &[u32]) -> u64 {
        columns.iter().map(|&column| self.stored_or_height(column as usize) as u64).sum()
    }

    fn value_range(&self, column: usize) -> Range<usize> {
        range(&self.ends, column)
    }

    fn row_range(&self, column: usize) -> Range<usize> {
        range(&self.row_ends, column)
    }

    fn values_of(&self, column: usize) -> &[f64] {
        &self.values[self.value_range(column)]
    }

    /// A column.
    #[inline]
    pub fn column(&self, column: usize) -> Column<'_> {
        let (values, rows) = (self.values_of(column), &self.rows[self.row_range(column)]);
        if rows.len() == values.len() { Column::Sparse(rows, values) } else { Column::Dense(values) }
    }

    /// The inner product of a column with a vector of a value a row.
    #[inline]
    pub fn dot(&self, column: usize, vector: &[f64]) -> f64 {
        match self.column(column) {
            Column::Dense(values) => kernels::dot(values, vector),
            Column::Sparse(rows, values) => kernels::sparse_dot(rows, values, vector),
        }
    }

    /// Adds a multiple of a column to a vector of a value a row.
    #[inline]
    pub fn add(&self, column: usize, times: f64, vector: &mut [f64]) {
        match self.column(column) {
            Column::Dense(values) => kernels::axpy(times, values, vector),
            Column::Sparse(rows, values) => kernels::sparse_axpy(times, rows, values, vector),
        }
    }
}

/// The rows of each part: a function of the data alone, unless told how many.
fn cut(problem: &Problem, parts: Option<NonZeroU16>) -> Vec<Range<usize>> {
    let (rows, values) = (problem.table.len(), problem.table.values());
    let parts = parts.map_or((values / PART_VALUES).clamp(1, MOST_PARTS), |parts| parts.get().into()).clamp(1, rows);
    let mut ranges: Vec<Range<usize>> = Vec::with_capacity(parts);
    let mut start = 0;
    for part in 1..=parts {
        // As many values in each; at least a row, and one for each part that is left.
        let goal = (values as u128 * part as u128 / parts as u128) as usize;
        let most = rows - (parts - part);
        let mut end = start + 1;
        while end < most && problem.table.end(end - 1) < goal {
            end += 1;
        }
        let end = if part == parts { rows } else { end };
        ranges.push(start..end);
        start = end;
    }
    ranges
}

fn range(ends: &[u64], column: usize) -> Range<usize> {
    let start = if column == 0 { 0 } else { ends[column - 1] };
    start as usize..ends[column] as usize
}
