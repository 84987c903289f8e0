//! What programs have to know of rows and columns, and never changes.

use serde::{Deserialize, Serialize};

use super::job::Job;
use crate::regression::Loss;
use crate::regression::problem::Problem;

/// The columns as they are scaled. Where the intercept is a coefficient, it is that of one more column, of ones.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Design {
    rows: f64,
    shifts: Vec<f64>,
    curvatures: Vec<f64>,
    /// The sum of the residual, where columns are shifted: no step changes it then.
    total: f64,
}

impl Design {
    /// That of a problem.
    pub fn of(problem: &Problem) -> Design {
        let rows = problem.table.len() as f64;
        let squares = problem.scaling.squares.iter().copied().chain(problem.free_intercept().map(|_| rows));
        // The logistic loss is a quarter as curved as the square loss, at most.
        let curvature = |square: f64| if problem.loss == Loss::Logistic { square / 4.0 } else { square };
        Design {
            rows,
            shifts: problem.scaling.shifts.clone(),
            curvatures: squares.map(curvature).collect(),
            total: problem.labels.iter().sum(),
        }
    }

    /// How many columns there are, without the intercept's.
    pub fn columns(&self) -> usize {
        self.shifts.len()
    }

    /// The intercept's number, where it is a coefficient.
    pub fn intercept(&self) -> Option<u32> {
        (self.curvatures.len() > self.columns()).then_some(self.columns() as u32)
    }

    /// How many rows there are.
    pub fn rows(&self) -> f64 {
        self.rows
    }

    /// The most that the loss's second derivative along a coefficient can be.
    pub fn curvature(&self, column: u32) -> f64 {
        self.curvatures[column as usize]
    }

    /// How strongly a coefficient is drawn to 0: the intercept isn't.
    pub fn penalty(&self, column: u32, lambda: f64) -> f64 {
        if self.intercept() == Some(column) { 0.0 } else { lambda }
    }

    /// The sum of the coefficients' absolute values, without the intercept's.
    pub fn norm(&self, coefficients: &[f64]) -> f64 {
        coefficients[..self.columns()].iter().fold(0.0, |sum, b| sum + b.abs())
    }

    /// What a column has to be reckoned with as being shifted by.
    pub fn shift(&self, column: u32) -> f64 {
        self.shifts.get(column as usize).copied().unwrap_or(0.0)
    }

    /// What a shifted column has in common with the residual, where the column as it is stored has `sum`.
    pub fn shifted(&self, column: u32, sum: f64) -> f64 {
        sum - self.shift(column) * self.total
    }

    /// Where a column's share of the residual can't come to matter any more, if the gap is so large (Fercoq, Gramfort and
    /// Salmon, "Mind the duality gap: safer rules for the Lasso", 2015): how far it may be from lambda.
    pub fn safe_distance(&self, column: u32, gap: f64) -> f64 {
        // The curvatures are already a quarter for the logistic loss, whose dual is four times as curved.
        (2.0 * gap * self.curvature(column)).sqrt()
    }

    /// These columns, and the intercept's.
    pub fn with_intercept(&self, columns: &[u32]) -> Vec<u32> {
        columns.iter().copied().chain(self.intercept()).collect()
    }

    /// The gradient of all columns that count.
    pub fn gradient<Own>(&self, problem: &Problem) -> Job<Own> {
        Job::Gradient { columns: self.with_intercept(&problem.columns()), whole: true }
    }
}
