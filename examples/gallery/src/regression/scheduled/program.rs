//! Update, aggregate and apply: what a job is, under any schedule.

use serde::{Deserialize, Serialize};
use stradsap::{Element, Partials, Program};

use super::job::{Block, Change, Job, Partial};
use super::model::Model;
use crate::regression::Loss;
use crate::regression::columns::{Column, Part};
use crate::regression::gap::{Gap, entropy, logistic};
use crate::regression::gram::products;
use crate::regression::kernels;
use crate::regression::scaling::Scaling;
use crate::regression::solve::soft_threshold;

/// The constants of a regression.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Regression {
    loss: Loss,
    rows: f64,
    /// Whether a last coefficient is added to every row.
    intercept: bool,
    shifts: Vec<f64>,
    squares: Vec<f64>,
    /// The sum of the residual, where columns are shifted: no step changes it then.
    total: f64,
}

/// What a part of the rows keeps between rounds.
#[derive(Debug, Clone, Default, PartialEq, Element)]
pub struct Rest {
    /// What the coefficients leave of the labels, less `offset`; or the loss's slope, on the quadratic model if there is one.
    residual: Vec<f64>,
    offset: f64,
    /// With a logistic loss: what the coefficients make of each row.
    margins: Vec<f64>,
    /// The loss's second derivative, and where blocks are on the quadratic model.
    weights: Vec<f64>,
    direction: Vec<f64>,
}

impl Rest {
    /// Of coefficients that are 0, but for an intercept.
    pub fn of(part: &Part, loss: Loss, intercept: f64) -> Rest {
        let mut rest = Rest { residual: part.labels.clone(), ..Rest::default() };
        if loss == Loss::Logistic {
            rest.margins = vec![intercept; part.height()];
            rest.make_slopes(&part.labels);
        }
        rest
    }

    fn make_slopes(&mut self, labels: &[f64]) {
        let rows = self.residual.iter_mut().zip(&self.margins).zip(labels);
        rows.for_each(|((slope, z), y)| *slope = y * logistic(y * z).1);
    }
}

impl Regression {
    /// Of the columns as they are scaled; `total` is the sum of the labels, where columns are shifted.
    pub fn new(loss: Loss, rows: usize, intercept: bool, scaling: &Scaling, total: f64) -> Regression {
        let (shifts, mut squares) = (scaling.shifts.clone(), scaling.squares.clone());
        if intercept {
            squares.push(rows as f64);
        }
        if loss == Loss::Logistic {
            squares.iter_mut().for_each(|square| *square /= 4.0);
        }
        Regression { loss, rows: rows as f64, intercept, shifts, squares, total }
    }

    /// How many columns there are.
    pub fn columns(&self) -> usize {
        self.shifts.len()
    }

    /// The intercept's number, where it is a coefficient.
    pub fn intercept(&self) -> Option<usize> {
        self.intercept.then_some(self.columns())
    }

    /// How many rows there are.
    pub fn rows(&self) -> f64 {
        self.rows
    }

    /// The loss.
    pub fn loss(&self) -> Loss {
        self.loss
    }

    /// The most that the loss's second derivative along a coefficient can be.
    pub fn curvature(&self, coefficient: usize) -> f64 {
        self.squares[coefficient]
    }

    /// Where a column's share of the residual can't come to matter any more, if the gap is so large (Fercoq, Gramfort and
    /// Salmon, "Mind the duality gap: safer rules for the Lasso", 2015): how far it may be from lambda.
    pub fn safe_distance(&self, column: usize, gap: f64) -> f64 {
        // The squares are already a quarter for the logistic loss, whose dual is four times as curved.
        (2.0 * gap * self.squares[column]).sqrt()
    }

    /// What a column is to be reckoned with as being shifted by; the intercept isn't.
    pub(super) fn shift(&self, column: usize) -> f64 {
        self.shifts.get(column).copied().unwrap_or(0.0)
    }

    fn dot(&self, part: &Part, rest: &Rest, column: usize) -> f64 {
        if column == self.columns() {
            return kernels::sum(&rest.residual);
        }
        let sum = part.dot(column, &rest.residual);
        if rest.offset == 0.0 { sum } else { sum + rest.offset * part.sum(column) }
    }

    /// What a column has in common with the residual, from the sums over the parts.
    pub(super) fn shifted(&self, column: usize, sum: f64) -> f64 {
        sum - self.shift(column) * self.total
    }

    fn losses(&self, part: &Part, rest: &Rest) -> f64 {
        rest.margins.iter().zip(&part.labels).fold(0.0, |sum, (z, y)| sum + logistic(y * z).0)
    }

    pub(super) fn penalty(&self, column: usize, lambda: f64) -> f64 {
        if column == self.columns() { 0.0 } else { lambda }
    }

    pub(super) fn norm(&self, coefficients: &[f64]) -> f64 {
        coefficients[..self.columns()].iter().fold(0.0, |sum, b| sum + b.abs())
    }

    /// Takes a step off a part's residual.
    fn take(&self, column: usize, step: f64, part: &Part, rest: &mut Rest) {
        match self.loss {
            Loss::Square => {
                part.add(column, -step, &mut rest.residual);
                rest.offset += step * self.shifts[column];
            }
            Loss::Logistic if !rest.direction.is_empty() => {
                let Rest { residual, weights, direction, .. } = rest;
                each(part, column, |i, x| {
                    direction[i] += step * x;
                    residual[i] -= step * weights[i] * x;
                });
            }
            Loss::Logistic => {
                let Rest { residual, margins, .. } = rest;
                each(part, column, |i, x| {
                    margins[i] += step * x;
                    residual[i] = part.labels[i] * logistic(part.labels[i] * margins[i]).1;
                });
            }
        }
    }

    fn step(&self, column: usize, gradient: f64, model: &mut Model) -> f64 {
        let square = self.squares[column];
        if square <= 0.0 {
            return 0.0;
        }
        let old = model.coefficients[column];
        let new = soft_threshold(old * square + gradient, self.penalty(column, model.lambda)) / square;
        model.coefficients[column] = new;
        new - old
    }

    /// The linear predictor of a step of these coefficients.
    fn predictor(&self, columns: &[u32], steps: &[f64], part: &Part) -> Vec<f64> {
        let mut sum = vec![0.0; part.height()];
        let mut offset = 0.0;
        for (&column, &step) in columns.iter().zip(steps) {
            if step != 0.0 {
                part.add(column as usize, step, &mut sum);
                offset += step * self.shifts[column as usize];
            }
        }
        sum.iter_mut().for_each(|x| *x -= offset);
        sum
    }
}

/// The rows and values of a column; the intercept's are all 1.
fn each(part: &Part, column: usize, mut each: impl FnMut(usize, f64)) {
    if column == part.width() {
        return (0..part.height()).for_each(|i| each(i, 1.0));
    }
    match part.column(column) {
        Column::Dense(values) => values.iter().enumerate().for_each(|(i, &x)| each(i, x)),
        Column::Sparse(rows, values) => rows.iter().zip(values).for_each(|(&i, &x)| each(i as usize, x)),
    }
}

impl Program for Regression {
    type Shard = Part;
    type Local = Rest;
    type Model = Model;
    type Job = Job;
    type Partial = Partial;
    type Change = Change;

    #[inline]
    fn update(&self, job: &Job, part: &Part, rest: &Rest) -> Partial {
        match job {
            Job::One(column) => Partial::One(self.dot(part, rest, *column as usize)),
            Job::Block(block) => {
                let gradient = block.columns.iter().map(|&column| self.dot(part, rest, column as usize)).collect();
                let sum = if block.passes.is_none() { square(rest) } else { 0.0 };
                let weights = (self.loss == Loss::Logistic).then_some(&rest.weights[..]);
                let gram = if block.known as usize == block.columns.len() {
                    Vec::new()
                } else if block.columns[0] as usize == self.columns() {
                    vec![weights.map_or(part.height() as f64, kernels::sum)]
                } else {
                    products(part, &block.columns, block.known as usize, weights)
                };
                Partial::Products { sum, gradient, gram }
            }
            Job::Gradient { columns, .. } => {
                let sum = match self.loss {
                    Loss::Square => square(rest),
                    Loss::Logistic => self.losses(part, rest),
                };
                let gradient = columns.iter().map(|&column| self.dot(part, rest, column as usize)).collect();
                Partial::Products { sum, gradient, gram: Vec::new() }
            }
            Job::Move { columns, steps } => {
                let moved = self.predictor(columns, steps, part);
                let common = kernels::dot(&moved, &rest.residual) + rest.offset * kernels::sum(&moved);
                Partial::Sums([kernels::dot(&moved, &moved), common])
            }
            Job::Model => Partial::One(self.losses(part, rest)),
            Job::Search { part: by, .. } => {
                let rows = rest.margins.iter().zip(&rest.direction).zip(&part.labels);
                Partial::One(rows.fold(0.0, |sum, ((z, v), y)| sum + logistic(y * (z + by * v)).0))
            }
            Job::Dual { scale } => {
                let rows = rest.residual.iter();
                Partial::One(rows.fold(0.0, |sum, slope| sum + entropy(scale * slope.abs())))
            }
        }
    }

    #[inline]
    fn aggregate(&self, job: &Job, partials: Partials<'_, Partial>, model: &mut Model) -> Change {
        model.measured = false;
        match job {
            Job::One(column) => {
                model.updates += 1;
                let column = *column as usize;
                let gradient = self.shifted(column, one(partials));
                Change::One(self.step(column, gradient, model))
            }
            Job::Block(block) => {
                let (sum, gradient, gram) = united(partials);
                self.aggregate_block(block, sum, &gradient, &gram, model)
            }
            Job::Gradient { columns, whole } => {
                let (sum, gradient, _) = united(partials);
                self.aggregate_gradient(columns, *whole, sum, &gradient, model);
                Change::None
            }
            Job::Move { columns, steps } => {
                let mut all = [0.0; 2];
                for partial in partials {
                    if let Partial::Sums(sums) = partial {
                        all.iter_mut().zip(sums).for_each(|(all, sum)| *all += sum);
                    }
                }
                self.aggregate_move(columns, steps, all, model)
            }
            Job::Model => {
                let primal = one(partials) + model.lambda * self.norm(&model.coefficients);
                model.some = Gap { primal, ..model.some };
                model.base = model.coefficients.clone();
                model.forget();
                model.fell = 0.0;
                Change::None
            }
            Job::Search { part, .. } => self.aggregate_search(*part, one(partials), model),
            Job::Dual { .. } => {
                model.whole.dual = one(partials);
                model.best_dual = model.best_dual.max(model.whole.dual);
                model.measured = true;
                Change::None
            }
        }
    }

    #[inline]
    fn apply(&self, job: &Job, change: &Change, part: &Part, rest: &mut Rest) {
        match (job, change) {
            (Job::One(column), Change::One(step)) if *step != 0.0 => self.take(*column as usize, *step, part, rest),
            (Job::Block(Block { columns, .. }), Change::Steps(steps)) => {
                for (&column, &step) in columns.iter().zip(steps).filter(|(_, step)| **step != 0.0) {
                    self.take(column as usize, step, part, rest);
                }
            }
            (Job::Move { columns, steps }, Change::Taken(_)) => {
                let moved = self.predictor(columns, steps, part);
                kernels::axpy(-1.0, &moved, &mut rest.residual);
            }
            (Job::Gradient { .. }, _) if rest.offset != 0.0 => {
                let offset = std::mem::take(&mut rest.offset);
                rest.residual.iter_mut().for_each(|r| *r += offset);
            }
            (Job::Model, _) => {
                rest.make_slopes(&part.labels);
                rest.weights.clear();
                rest.weights.extend(rest.residual.iter().map(|slope| slope.abs() * (1.0 - slope.abs())));
                rest.direction.clear();
                rest.direction.resize(part.height(), 0.0);
            }
            (Job::Search { .. }, Change::Taken(by)) => {
                kernels::axpy(*by, &rest.direction, &mut rest.margins);
                rest.direction.clear();
                rest.make_slopes(&part.labels);
            }
            _ => {}
        }
    }

    fn weight(&self, job: &Job, part: &Part) -> u64 {
        let stored = |columns: &[u32]| columns.iter().map(|&c| part.stored_or_height(c as usize) as u64).sum();
        match job {
            Job::One(column) => part.stored_or_height(*column as usize) as u64,
            Job::Block(Block { columns, .. }) | Job::Gradient { columns, .. } | Job::Move { columns, .. } => {
                stored(columns)
            }
            Job::Model | Job::Search { .. } | Job::Dual { .. } => part.height() as u64,
        }
    }
}

/// The sum of the residual's squares.
fn square(rest: &Rest) -> f64 {
    if rest.offset == 0.0 {
        return kernels::dot(&rest.residual, &rest.residual);
    }
    rest.residual.iter().fold(0.0, |sum, r| sum + (r + rest.offset) * (r + rest.offset))
}

fn one(partials: Partials<'_, Partial>) -> f64 {
    partials.fold(0.0, |sum, partial| if let Partial::One(x) = partial { sum + x } else { sum })
}

/// The sums over the parts, in their order.
fn united(partials: Partials<'_, Partial>) -> (f64, Vec<f64>, Vec<f64>) {
    let mut all: Option<(f64, Vec<f64>, Vec<f64>)> = None;
    for partial in partials {
        let Partial::Products { sum, gradient, gram } = partial else { continue };
        match &mut all {
            None => all = Some((sum, gradient, gram)),
            Some((sums, gradients, grams)) => {
                *sums += sum;
                gradients.iter_mut().zip(gradient).for_each(|(all, x)| *all += x);
                grams.iter_mut().zip(gram).for_each(|(all, x)| *all += x);
            }
        }
    }
    all.unwrap_or_default()
}
