//! The paper's schedules: some coefficients a round, each of which sees the residual that the round began with.

use std::sync::{Arc, Mutex, PoisonError};

use stradsap::{DynRegr, Pick, Result, Schedule, schedule_dyn_regr};

use super::job::{Change, Job};
use super::model::Model;
use super::program::Regression;
use super::solver::{Epoch, Epochs, Solver};
use super::train::ScheduleArgs;
use crate::regression::columns::{Column, Part};
use crate::regression::kernels;
use crate::regression::solve::soft_threshold;

/// How columns are correlated, estimated on some rows.
#[derive(Debug)]
pub struct Correlation {
    part: Part,
    /// Of each column: what is taken off its values, and the inverse of the length that it then has.
    means: Vec<(f64, f64)>,
    /// A column with its zeros, and which one: a candidate is compared with many others.
    wide: Mutex<(Option<usize>, Vec<f64>)>,
}

impl Correlation {
    /// On these rows, of columns that are shifted or not.
    pub fn new(part: Part, centred: bool) -> Correlation {
        let rows = part.height() as f64;
        let mean = |column| {
            let mean = if centred { part.sum(column) / rows } else { 0.0 };
            let squares = match part.column(column) {
                Column::Dense(values) | Column::Sparse(_, values) => kernels::dot(values, values),
            } - rows * mean * mean;
            (mean, if squares > 0.0 { 1.0 / squares.sqrt() } else { 0.0 })
        };
        let means = (0..part.width()).map(mean).collect();
        let wide = Mutex::new((None, vec![0.0; part.height()]));
        Correlation { part, means, wide }
    }

    /// Of two columns.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        if a.max(b) >= self.part.width() {
            // The intercept: how far the other's mean is from 0.
            let other = a.min(b);
            return self.part.sum(other) * self.means[other].1 / (self.part.height() as f64).sqrt();
        }
        let mut wide = self.wide.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, values) = &mut *wide;
        if *held != Some(a) {
            values.fill(0.0);
            self.part.add(a, 1.0, values);
            *held = Some(a);
        }
        let product = self.part.dot(b, values);
        let ((mean, inverse), (other_mean, other_inverse)) = (self.means[a], self.means[b]);
        (product - self.part.height() as f64 * mean * other_mean) * inverse * other_inverse
    }
}

/// How coefficients are chosen: the library's schedule, for the columns that count.
#[derive(Debug, Clone)]
pub struct Chosen<D> {
    inner: DynRegr<D>,
    columns: Arc<[u32]>,
    /// The place of each column in the list.
    places: Arc<[u32]>,
    /// A change counts by what it does to the objective.
    weights: Arc<[f64]>,
    /// How many values each column has, and all columns so far that were updated.
    stored: Arc<[u32]>,
    touched: u64,
    scratch: Vec<usize>,
}

impl<D: Fn(usize, usize) -> f64 + Clone> Chosen<D> {
    /// Of these columns, whose curvatures are told by `curvature`, and numbers of values by `stored`.
    pub fn new(
        inner: DynRegr<D>,
        columns: Arc<[u32]>,
        stored: Arc<[u32]>,
        curvature: impl Fn(usize) -> f64,
    ) -> Chosen<D> {
        let most = columns.iter().max().map_or(0, |&column| column as usize + 1);
        let (mut places, mut weights) = (vec![0; most], vec![0.0; most]);
        for (place, &column) in columns.iter().enumerate() {
            places[column as usize] = place as u32;
            weights[column as usize] = curvature(column as usize).sqrt();
        }
        let (places, weights) = (places.into(), weights.into());
        Chosen { inner, columns, places, weights, stored, touched: 0, scratch: Vec::new() }
    }

    /// The values of the columns that were updated so far.
    pub fn touched(&self) -> u64 {
        self.touched
    }

    /// Tells how far each coefficient is going to move, in the order of the columns.
    pub fn set_priorities(&mut self, step: impl Fn(usize) -> f64) {
        let (columns, weights) = (&self.columns, &self.weights);
        self.inner.set_priorities(|place| {
            let column = columns[place] as usize;
            step(column) * weights[column]
        });
    }
}

impl<D: Fn(usize, usize) -> f64 + Clone> Schedule<Model, Job, Change> for Chosen<D> {
    fn begin(&mut self, pipeline: usize) {
        Schedule::<(), usize, f64>::begin(&mut self.inner, pipeline);
    }

    fn schedule(&mut self, round: usize, _model: &Model, jobs: &mut Vec<Job>) {
        self.scratch.clear();
        Schedule::<(), usize, f64>::schedule(&mut self.inner, round, &(), &mut self.scratch);
        jobs.extend(self.scratch.iter().map(|&place| Job::One(self.columns[place])));
    }

    fn observe(&mut self, job: &Job, change: &Change) {
        if let (Job::One(column), Change::One(step)) = (job, change) {
            let column = *column as usize;
            self.touched += u64::from(self.stored.get(column).copied().unwrap_or(0));
            let size = step * self.weights[column];
            Schedule::<(), usize, f64>::observe(&mut self.inner, &(self.places[column] as usize), &size);
        }
    }
}

/// The paper's schedules, epoch by epoch. Each begins with a schedule of its own, whose random numbers follow from the seed and
/// the updates so far: so a run can go on from there.
pub(super) struct Choosing<D> {
    columns: Vec<u32>,
    /// How many values each column has, the intercept's after them.
    stored: Arc<[u32]>,
    pick: Pick,
    width: usize,
    pipeline: usize,
    /// Updates of an epoch.
    updates: u64,
    seed: u64,
    check: Option<(f64, D)>,
}

impl<D: Fn(u32, u32) -> f64 + Clone> Choosing<D> {
    pub(super) fn new(
        columns: &[u32],
        stored: &[u32],
        program: &Arc<Regression>,
        args: &ScheduleArgs,
        pick: Pick,
        seed: u64,
        between: Option<D>,
    ) -> Choosing<D> {
        let columns: Vec<u32> = columns.iter().copied().chain(program.intercept().map(|j| j as u32)).collect();
        Choosing {
            updates: args.updates_per_epoch.map_or(columns.len() as u64, |updates| updates.get().into()),
            columns,
            stored: stored.iter().copied().chain([program.rows() as u32]).collect(),
            pick,
            width: args.concurrent.into(),
            pipeline: args.pipeline(),
            seed,
            check: between.map(|between| (args.correlation, between)),
        }
    }
}

impl<D: Fn(u32, u32) -> f64 + Clone> Epochs for Choosing<D> {
    fn epoch(&mut self, solver: &mut Solver<'_>, epoch: &mut Epoch) -> Result<()> {
        let Model { coefficients, gradient, lambda, updates, .. } = solver.model();
        let end = updates + self.updates;
        let mut columns = self.columns.clone();
        if self.pick == Pick::Cyclic {
            let first = (updates % columns.len() as u64) as usize;
            columns.rotate_left(first);
        }
        let columns: Arc<[u32]> = columns.into();
        let dynamic = schedule_dyn_regr(columns.len(), self.width).pick(self.pick).seed(self.seed ^ (updates << 20));
        let (program, numbered) = (solver.program(), Arc::clone(&columns));
        let curvature = |column| program.curvature(column);
        let step = |column: usize| {
            let (square, b) = (program.curvature(column), coefficients[column]);
            let penalty = if program.intercept() == Some(column) { 0.0 } else { *lambda };
            if square > 0.0 { soft_threshold(b * square + gradient[column], penalty) / square - b } else { 0.0 }
        };
        let until = |_: usize, model: &Model| model.updates >= end;
        let stored = Arc::clone(&self.stored);
        let (report, touched) = match &self.check {
            Some((rho, between)) => {
                let between = between.clone();
                let dynamic = dynamic.uncorrelated(*rho, move |a, b| between(numbered[a], numbered[b]));
                let mut chosen = Chosen::new(dynamic, columns, stored, curvature);
                chosen.set_priorities(step);
                (solver.call(&mut chosen, self.pipeline, until)?, chosen.touched())
            }
            None => {
                let mut chosen = Chosen::new(dynamic, columns, stored, curvature);
                if self.pick == Pick::Priority {
                    chosen.set_priorities(step);
                }
                (solver.call(&mut chosen, self.pipeline, until)?, chosen.touched())
            }
        };
        solver.touched(touched);
        epoch.record(report);
        solver.centre(epoch)?;
        solver.measure(epoch)
    }
}

/// One job, in the first round.
#[derive(Debug, Clone)]
pub struct Once(pub Vec<Job>);

impl Schedule<Model, Job, Change> for Once {
    fn schedule(&mut self, _round: usize, _model: &Model, jobs: &mut Vec<Job>) {
        // The rounds after it are those that a pipeline needs to be empty again.
        jobs.append(&mut self.0);
    }
}

/// One job, in every round.
#[derive(Debug, Clone)]
pub(super) struct Always(pub(super) Job);

impl Schedule<Model, Job, Change> for Always {
    fn schedule(&mut self, _round: usize, _model: &Model, jobs: &mut Vec<Job>) {
        jobs.push(self.0.clone());
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::regression::scaling::{Columns, Constant, Scaling};
    use crate::regression::table::{Labels, Table};

    #[test]
    fn correlations_are_those_of_plain_loops() {
        let value = |i: usize, j: usize| {
            let x = ((i * (j + 3) * 5 + j) % 17) as f64 - 6.0;
            if j < 2 || (i + j).is_multiple_of(j + 2) { x + 0.5 } else { 0.0 }
        };
        let (rows, columns) = (60, 6);
        let values = |i: usize| (0..columns).map(move |j| (j, value(i, j))).filter(|(_, x)| *x != 0.0);
        let line = |i: usize| format!("{i}{}\n", values(i).map(|(j, x)| format!(" {}:{x}", j + 1)).collect::<String>());
        let text: String = (0..rows).map(line).collect();
        let table = Table::parse(Path::new("t"), text.as_bytes(), Labels::Numbers).unwrap();
        for centred in [true, false] {
            let scaling = Scaling::of(&table, Columns::Scaled, centred, Constant::Refuse).unwrap();
            let part = Part::of(&table, table.labels(), &scaling, 0..rows);
            let correlation = Correlation::new(part, centred);
            let column = |j: usize| -> Vec<f64> {
                let mean = (0..rows).map(|i| value(i, j)).sum::<f64>() / rows as f64;
                (0..rows).map(|i| value(i, j) - if centred { mean } else { 0.0 }).collect()
            };
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            for a in 0..columns {
                for b in 0..columns {
                    let (x, y) = (column(a), column(b));
                    let plain = product(&x, &y) / (product(&x, &x) * product(&y, &y)).sqrt();
                    assert!((correlation.between(a, b) - plain).abs() < 1e-12, "{a} and {b}, {centred}");
                }
            }
        }
    }
}
