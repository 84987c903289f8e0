//! The sequential programs: cyclic coordinate descent, and nothing else.

use std::time::Instant;

use stradsap::Digest;
use stradsap_examples::{CommonArgs, Result, Run};

use crate::regression::Loss;
use crate::regression::args::RegressionArgs;
use crate::regression::columns::{Column, Part};
use crate::regression::fit::{DataSize, Fit};
use crate::regression::gap::{Gap, entropy, logistic};
use crate::regression::kernels;
use crate::regression::problem::{Fitted, Problem};
use crate::regression::solve::soft_threshold;

/// A regression on its way.
#[derive(Debug, Clone)]
pub struct Plain {
    loss: Loss,
    part: Part,
    columns: Vec<u32>,
    shifts: Vec<f64>,
    squares: Vec<f64>,
    total: f64,
    /// Of the scaled columns; then the intercept, if it is a coefficient.
    pub coefficients: Vec<f64>,
    /// What the coefficients make of each row, and with the square loss what they leave of the labels.
    fitted: Vec<f64>,
    /// See there.
    offset: f64,
    /// Coefficients that were updated so far.
    pub updates: u64,
    /// The values of their columns.
    pub values_touched: u64,
}

impl Plain {
    /// Of coefficients that are 0.
    pub fn new(problem: &Problem) -> Plain {
        let (loss, part) = (problem.loss, Part::rows(problem, 0..problem.table.len()));
        let mut columns = problem.columns();
        let mut squares = problem.scaling.squares.clone();
        let mut coefficients = vec![0.0; squares.len()];
        if let Some(intercept) = problem.free_intercept() {
            columns.push(squares.len() as u32);
            squares.push(part.height() as f64);
            coefficients.push(intercept);
        }
        let fitted = match loss {
            Loss::Square => part.labels.clone(),
            Loss::Logistic => vec![problem.free_intercept().unwrap_or(0.0); part.height()],
        };
        let total = problem.labels.iter().sum();
        let shifts = problem.scaling.shifts.clone();
        Plain {
            loss,
            part,
            columns,
            shifts,
            squares,
            total,
            coefficients,
            fitted,
            offset: 0.0,
            updates: 0,
            values_touched: 0,
        }
    }

    fn is_intercept(&self, column: usize) -> bool {
        column == self.shifts.len()
    }

    /// What a column has in common with the residual, or with the loss's slope.
    fn gradient(&self, column: usize) -> f64 {
        match self.loss {
            Loss::Square => {
                let sum = self.part.dot(column, &self.fitted) + self.offset * self.part.sum(column);
                sum - self.shifts[column] * self.total
            }
            Loss::Logistic => {
                let slope = |i: usize| {
                    let y = self.part.labels[i];
                    y * logistic(y * self.fitted[i]).1
                };
                if self.is_intercept(column) {
                    return (0..self.fitted.len()).map(slope).sum();
                }
                match self.part.column(column) {
                    Column::Dense(values) => values.iter().enumerate().map(|(i, x)| x * slope(i)).sum(),
                    Column::Sparse(rows, values) => rows.iter().zip(values).map(|(&i, x)| x * slope(i as usize)).sum(),
                }
            }
        }
    }

    /// Updates each coefficient once.
    pub fn pass(&mut self, lambda: f64) {
        for k in 0..self.columns.len() {
            let column = self.columns[k] as usize;
            self.updates += 1;
            self.values_touched += self.part.stored_or_height(column) as u64;
            let square = match self.loss {
                Loss::Square => self.squares[column],
                Loss::Logistic => self.squares[column] / 4.0,
            };
            if square <= 0.0 {
                continue;
            }
            let penalty = if self.is_intercept(column) { 0.0 } else { lambda };
            let old = self.coefficients[column];
            let new = soft_threshold(old * square + self.gradient(column), penalty) / square;
            let step = new - old;
            if step == 0.0 {
                continue;
            }
            self.coefficients[column] = new;
            match self.loss {
                Loss::Square => {
                    self.part.add(column, -step, &mut self.fitted);
                    self.offset += step * self.shifts[column];
                }
                Loss::Logistic if self.is_intercept(column) => self.fitted.iter_mut().for_each(|z| *z += step),
                Loss::Logistic => self.part.add(column, step, &mut self.fitted),
            }
        }
    }

    /// The least lambda with which all coefficients are 0. They have to be 0.
    pub fn largest_lambda(&self) -> f64 {
        let columns = self.columns.iter().map(|&column| column as usize).filter(|&column| !self.is_intercept(column));
        columns.fold(0.0, |most, column| most.max(self.gradient(column).abs()))
    }

    /// Objective and gap.
    pub fn gap(&mut self, lambda: f64) -> Gap {
        let gap = self.measure(lambda);
        // Carried out now and then, it stays small.
        let offset = std::mem::take(&mut self.offset);
        if offset != 0.0 {
            self.fitted.iter_mut().for_each(|r| *r += offset);
        }
        gap
    }

    fn measure(&self, lambda: f64) -> Gap {
        let (mut largest, mut shared, mut norm, mut balance) = (0.0f64, 0.0, 0.0, 0.0);
        for &column in &self.columns {
            let (column, gradient) = (column as usize, self.gradient(column as usize));
            if self.is_intercept(column) {
                balance = gradient;
                continue;
            }
            let b = self.coefficients[column];
            largest = largest.max(gradient.abs());
            shared += b * gradient;
            norm += b.abs();
        }
        match self.loss {
            Loss::Square => {
                let rest: Vec<f64> = self.fitted.iter().map(|r| r + self.offset).collect();
                Gap::of_lasso(lambda, kernels::dot(&rest, &rest), shared, norm, largest)
            }
            Loss::Logistic => self.logistic_gap(lambda, norm, balance),
        }
    }

    /// The dual point has to be balanced, which the intercept only makes it in the limit: the larger class is scaled down.
    fn logistic_gap(&self, lambda: f64, norm: f64, balance: f64) -> Gap {
        let losses: Vec<(f64, f64)> = self.fitted.iter().zip(&self.part.labels).map(|(z, y)| logistic(y * z)).collect();
        let mut slopes: Vec<f64> = losses.iter().zip(&self.part.labels).map(|((_, p), y)| p * y).collect();
        if balance != 0.0 {
            let larger = balance.signum();
            let sum: f64 = slopes.iter().filter(|s| s.signum() == larger).map(|s| s.abs()).sum();
            let scale = 1.0 - balance.abs() / sum;
            slopes.iter_mut().filter(|s| s.signum() == larger).for_each(|s| *s *= scale);
        }
        let columns = self.columns.iter().map(|&column| column as usize).filter(|&column| !self.is_intercept(column));
        let largest = columns.fold(0.0f64, |most, column| most.max(self.part.dot(column, &slopes).abs()));
        let scale = if largest > lambda { lambda / largest } else { 1.0 };
        let dual = slopes.iter().map(|s| entropy(scale * s.abs())).sum();
        Gap { primal: losses.iter().map(|(loss, _)| loss).sum::<f64>() + lambda * norm, dual, scale }
    }
}

/// A whole run, as the command line says.
///
/// # Errors
/// Of the input and the options.
pub fn train(loss: Loss, name: &'static str, common: &CommonArgs, args: &RegressionArgs) -> Result<()> {
    let mut run = Run::sequential(name, common)?;
    let problem = Problem::read(common.data.as_deref(), loss, args)?;
    let mut plain = Plain::new(&problem);
    let largest = plain.largest_lambda();
    let size = DataSize::of(&problem, largest, 0);
    run.line(&format!("{size}, sequential"));
    let mut path: Vec<(f64, Vec<f64>)> = Vec::new();
    for lambda in args.lambdas(largest)? {
        for _epoch in 0..common.epochs {
            let clock = Instant::now();
            plain.pass(lambda);
            let gap = plain.gap(lambda);
            let seconds = clock.elapsed().as_secs_f64();
            let columns = &plain.coefficients[..problem.scaling.len()];
            let fit = Fit::of(lambda, gap, columns, plain.updates, plain.updates).touching(plain.values_touched);
            run.epoch(seconds, 0, fit)?;
            if fit.relative_gap <= args.tolerance {
                break;
            }
        }
        path.push((lambda, plain.coefficients.clone()));
    }
    if let Some(folder) = &common.output {
        let path: Vec<Fitted> = path.iter().map(|(lambda, b)| problem.fitted(*lambda, b)).collect();
        problem.store(folder, &path)?;
    }
    run.finish(size, &Digest::new().vector(path.iter().flat_map(|(_, b)| b).copied()))
}
