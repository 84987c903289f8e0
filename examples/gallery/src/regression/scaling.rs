//! How columns are shifted and scaled. The shift of a sparse column is not carried out, since it would make the column dense:
//! who uses such a column reckons with it.

use stradsap_examples::{Error, Result};

use crate::regression::table::Table;

/// What columns are before the regression sees them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Columns {
    /// Of mean 0, and the sum of their squares is the number of rows
    Standardised,
    /// Not shifted; the sum of their squares is the number of rows
    Scaled,
    /// As the file has them
    Given,
}

/// How to treat a column that has the same value in all rows and can't be scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Constant {
    /// It is an error
    Refuse,
    /// Its coefficient stays 0
    Drop,
}

/// A column is stored with its zeros where at least one value in this many isn't zero: sums over it are then as fast.
const DENSE: usize = 3;

/// What the values of each column are multiplied by, and what is then taken off each of them, zeros too.
#[derive(Debug, Clone, PartialEq)]
pub struct Scaling {
    /// The factor of each column; 0 for one that is left out.
    pub factors: Vec<f64>,
    /// Whether a column is stored with its zeros.
    pub dense: Vec<bool>,
    /// What is taken off after that in columns that are stored so.
    pub taken_off: Vec<f64>,
    /// What is to be reckoned with in the others.
    pub shifts: Vec<f64>,
    /// Each column's sum of squares after both.
    pub squares: Vec<f64>,
    /// Columns that are left out: constant ones, and those that no row has a value of.
    pub left_out: usize,
}

/// What one pass over the values tells of a column.
#[derive(Debug, Clone, Copy)]
struct Seen {
    values: usize,
    least: f64,
    most: f64,
    sum: f64,
    squares: f64,
    row: u32,
}

impl Seen {
    fn constant(&self, rows: usize) -> bool {
        self.least == self.most && (self.values == rows || self.least == 0.0)
    }
}

impl Scaling {
    /// As `columns` says; columns are shifted if `centre` says so.
    ///
    /// # Errors
    /// [`Error::Line`] with the first line that has a value of a constant column, if those are refused and have to be scaled;
    /// [`Error::Data`] if no column is left.
    pub fn of(table: &Table, columns: Columns, centre: bool, constant: Constant) -> Result<Scaling> {
        let rows = table.len() as f64;
        let blank = Seen { values: 0, least: f64::INFINITY, most: f64::NEG_INFINITY, sum: 0.0, squares: 0.0, row: 0 };
        let mut seen = vec![blank; table.features()];
        for i in 0..table.len() {
            for entry in table.row(i) {
                let column = &mut seen[entry.index as usize];
                if column.values == 0 {
                    column.row = i as u32;
                }
                column.values += 1;
                column.least = column.least.min(entry.value);
                column.most = column.most.max(entry.value);
                column.sum += entry.value;
                column.squares += entry.value * entry.value;
            }
        }
        let means: Vec<f64> = seen.iter().map(|column| column.sum / rows).collect();
        // In a second pass: the difference of two large sums would have no digits left.
        let mut about: Vec<f64> =
            seen.iter().zip(&means).map(|(column, mean)| (rows - column.values as f64) * mean * mean).collect();
        for entry in (0..table.len()).flat_map(|i| table.row(i)) {
            about[entry.index as usize] += (entry.value - means[entry.index as usize]).powi(2);
        }

        let none = || Vec::with_capacity(seen.len());
        let mut scaling = Scaling {
            factors: none(),
            dense: Vec::with_capacity(seen.len()),
            taken_off: none(),
            shifts: none(),
            squares: none(),
            left_out: 0,
        };
        for (j, column) in seen.iter().enumerate() {
            // Where columns are only scaled, a constant one is of use, unless an intercept is there already.
            let none = column.values == 0 || (column.least == 0.0 && column.most == 0.0);
            let of_no_use = none || (column.constant(table.len()) && (centre || columns == Columns::Standardised));
            if of_no_use && column.values > 0 && columns != Columns::Given && constant == Constant::Refuse {
                return Err(refused(table, j, column));
            }
            let size = match columns {
                Columns::Standardised => about[j],
                Columns::Scaled => column.squares,
                Columns::Given => rows,
            };
            let factor = if of_no_use { 0.0 } else { (rows / size).sqrt() };
            scaling.left_out += usize::from(of_no_use);
            scaling.factors.push(factor);
            let shift = if centre { factor * means[j] } else { 0.0 };
            let dense = factor != 0.0 && column.values * DENSE >= table.len();
            scaling.dense.push(dense);
            scaling.taken_off.push(if dense { shift } else { 0.0 });
            scaling.shifts.push(if dense { 0.0 } else { shift });
            let squares = if centre { about[j] } else { column.squares };
            scaling.squares.push(squares * factor * factor);
        }
        if scaling.left_out == table.features() {
            let problem = "no column has two different values; expected at least one".to_owned();
            return Err(Error::Data { path: table.path().to_path_buf(), problem });
        }
        Ok(scaling)
    }

    /// How many columns there are, those that are left out too.
    pub fn len(&self) -> usize {
        self.factors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.factors.is_empty()
    }

    /// What `coefficients` of these columns mean for the columns of the file: coefficients, and what a row of zeros has.
    pub fn unscaled(&self, coefficients: &[f64]) -> (Vec<f64>, f64) {
        let given = coefficients.iter().zip(&self.factors).map(|(b, factor)| b * factor).collect();
        let shifts = self.shifts.iter().zip(&self.taken_off).map(|(a, b)| a + b);
        (given, -coefficients.iter().zip(shifts).fold(0.0, |sum, (b, shift)| sum + b * shift))
    }
}

fn refused(table: &Table, column: usize, seen: &Seen) -> Error {
    let problem = format!(
        "column {} is {} in all {} rows, so it can't be scaled; expected two different values, or --constant drop",
        column + 1,
        seen.least,
        table.len()
    );
    Error::Line { path: table.path().to_path_buf(), line: table.line(seen.row as usize), column: None, problem }
}
