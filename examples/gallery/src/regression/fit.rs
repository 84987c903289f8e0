//! What a regression measures after each epoch, and the size of its data.

use std::fmt;

use serde::{Deserialize, Serialize};
use stradsap_examples::run::Measures;

use crate::regression::gap::Gap;
use crate::regression::problem::Problem;

/// The data's size, for the report.
#[derive(Debug, Clone, Serialize)]
pub struct DataSize {
    /// Rows.
    pub rows: usize,
    /// Columns: the largest index of a feature.
    pub columns: usize,
    /// Columns that are left out, since they are the same in all rows.
    pub left_out: usize,
    /// Values in the file.
    pub values: usize,
    /// The least lambda with which all coefficients are 0.
    pub largest_lambda: f64,
    /// How many parts the rows are cut into; 0: the program isn't parallel.
    pub parts: usize,
}

impl DataSize {
    /// Of a problem.
    pub fn of(problem: &Problem, largest_lambda: f64, parts: usize) -> DataSize {
        DataSize {
            rows: problem.table.len(),
            columns: problem.table.features(),
            left_out: problem.scaling.left_out,
            values: problem.table.values(),
            largest_lambda,
            parts,
        }
    }
}

impl fmt::Display for DataSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DataSize { rows, columns, left_out, values, largest_lambda, .. } = self;
        write!(f, "{rows} rows of {columns} columns ({values} values")?;
        if *left_out > 0 {
            write!(f, "; {left_out} columns left out")?;
        }
        write!(f, "), largest lambda {largest_lambda:.6e}")
    }
}

/// How a model does after an epoch.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// How strongly coefficients are drawn to 0.
    pub lambda: f64,
    #[serde(rename = "primal")]
    objective: f64,
    /// What the objective can't be less than.
    pub dual: f64,
    /// The difference as a part of the objective.
    pub relative_gap: f64,
    /// Coefficients that aren't 0, without the intercept.
    pub nonzeros: usize,
    /// Coefficients that were updated so far, whether or not that changed them.
    pub updates: u64,
    /// Values of the data that these updates went over, as far as they are counted: an update of a column has all its values,
    /// zeros among them where the column is stored whole. Absent where columns are worked on in blocks, whose inner products
    /// stand for the values.
    pub values_touched: Option<u64>,
    /// Columns that gradients of many were computed of so far.
    pub columns_read: u64,
    /// Rounds so far.
    pub rounds: u64,
    /// How many rounds an update was behind at most.
    pub staleness: u64,
}

impl Fit {
    /// After this many updates.
    pub fn of(lambda: f64, gap: Gap, coefficients: &[f64], updates: u64, columns_read: u64) -> Fit {
        Fit {
            lambda,
            objective: gap.primal,
            dual: gap.dual,
            relative_gap: gap.relative(),
            nonzeros: coefficients.iter().filter(|&&b| b != 0.0).count(),
            updates,
            values_touched: None,
            columns_read,
            rounds: 0,
            staleness: 0,
        }
    }

    /// With updates that went over this many values of the data; 0: they weren't counted.
    pub fn touching(self, values: u64) -> Fit {
        Fit { values_touched: (values > 0).then_some(values), ..self }
    }

    /// In this many rounds, with updates up to this many behind.
    pub fn on_schedule(self, rounds: u64, staleness: u64) -> Fit {
        Fit { rounds, staleness, ..self }
    }
}

impl Measures for Fit {
    const AXIS: &'static str = "objective";
    const ADVICE: &'static str = "try a smaller --concurrent or --pipeline, or --schedule priority+dependency";

    fn objective(&self) -> f64 {
        self.objective
    }

    fn series(&self) -> Vec<(&'static str, f64)> {
        vec![("objective", self.objective), ("dual objective", self.dual)]
    }

    fn note(&self) -> String {
        let Fit { lambda, relative_gap, nonzeros, updates, .. } = self;
        format!("  gap {relative_gap:.1e}  non-zeros {nonzeros}  updates {updates}  lambda {lambda:.3e}")
    }
}
