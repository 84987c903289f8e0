//! The Lasso by scheduled coordinate descent: least squares with an L1 penalty. `lasso_sequential` is the program without the
//! library.
//!
//! The rows are cut into parts, and each part keeps its slice of the residual: what the coefficients leave of the labels. A schedule
//! says which coefficients a round is about. `update` sums up over a part's rows, `aggregate` makes steps of the parts' sums,
//! `apply` takes the steps off the residual.

use std::time::Instant;

use clap::Parser;
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap_examples::{AnyError, cli};
use stradsap_gallery::regression::columns::Part;
use stradsap_gallery::regression::gap::Gap;
use stradsap_gallery::regression::gram::products;
use stradsap_gallery::regression::scheduled::{
    Always, Change, Design, FitArgs, Job, Model, Move, Partial, Path, Sums, WorkingSet,
};
use stradsap_gallery::regression::{Loss, kernels};

/// Fits a Lasso by coordinate descent, in parallel: the coefficients b with the least |y - X b|²/2 + L |b|₁.
///
/// The data is in LIBSVM's format; labels are any numbers. The duality gap, relative to the objective, bounds how far the objective
/// is from its least value. `updates` counts updates of a coefficient, whether or not it changed. An epoch solves a working set, or
/// with another --schedule has as many updates as there are columns. The run ends after --epochs of them (for each lambda) or at
/// --tolerance. An epoch's seconds are those of the solver, the objective and the gap. The coefficients are stored as
/// `lasso.model`: for each lambda its value, the intercept, the number of features, and index:value for each coefficient that isn't
/// 0.
///
/// Lines are a label, then index:value for each feature that isn't 0. Indices ascend from 1, or from 0 if the file has an index 0;
/// `qid:` is ignored.
#[derive(Debug, Parser)]
#[command(version, mut_arg("epochs", |epochs| epochs.default_value("1000")))]
struct Args {
    #[command(flatten)]
    fit: FitArgs,
}

/// What never changes.
#[derive(Serialize, Deserialize)]
struct Lasso {
    design: Design,
}

/// What the coefficients leave of a part's labels: of each row so much, and `offset` of all. A sparse column isn't shifted in
/// memory, so that a step along it takes off what is stored, and the shift of all rows at once.
#[derive(Debug, Clone, Element)]
struct Residual {
    rows: Vec<f64>,
    offset: f64,
}

impl Residual {
    fn dot(&self, part: &Part, column: u32) -> f64 {
        let sum = part.dot(column as usize, &self.rows);
        if self.offset == 0.0 { sum } else { sum + self.offset * part.sum(column as usize) }
    }

    fn square(&self) -> f64 {
        if self.offset == 0.0 {
            return kernels::dot(&self.rows, &self.rows);
        }
        self.rows.iter().fold(0.0, |sum, r| sum + (r + self.offset) * (r + self.offset))
    }
}

impl Lasso {
    /// Steps along these columns: where they lead each row of a part.
    fn along(&self, columns: &[u32], steps: &[f64], part: &Part) -> Vec<f64> {
        let (mut sum, mut offset) = (vec![0.0; part.height()], 0.0);
        for (&column, &step) in columns.iter().zip(steps).filter(|(_, step)| **step != 0.0) {
            part.add(column as usize, step, &mut sum);
            offset += step * self.design.shift(column);
        }
        sum.iter_mut().for_each(|x| *x -= offset);
        sum
    }

    fn take(&self, column: u32, step: f64, part: &Part, residual: &mut Residual) {
        part.add(column as usize, -step, &mut residual.rows);
        residual.offset += step * self.design.shift(column);
    }
}

impl Program for Lasso {
    type Shard = Part;
    type Local = Residual;
    type Model = Model;
    type Job = Job<Move>;
    type Partial = Partial;
    type Change = Change;

    #[inline]
    fn update(&self, job: &Job<Move>, part: &Part, residual: &Residual) -> Partial {
        let gradient = |columns: &[u32]| columns.iter().map(|&column| residual.dot(part, column)).collect();
        Partial::Sums(match job {
            Job::One(column) => return Partial::One(residual.dot(part, *column)),
            Job::Block(block) => Sums {
                sum: if block.passes.is_none() { residual.square() } else { 0.0 },
                gradient: gradient(&block.columns),
                gram: products(part, &block.columns, block.known as usize, None),
            },
            Job::Gradient { columns, .. } => {
                Sums { sum: residual.square(), gradient: gradient(columns), gram: Vec::new() }
            }
            Job::Own(Move { columns, steps }) => {
                let moved = self.along(columns, steps, part);
                let common = kernels::dot(&moved, &residual.rows) + residual.offset * kernels::sum(&moved);
                Sums { sum: kernels::dot(&moved, &moved), gradient: vec![common], gram: Vec::new() }
            }
        })
    }

    #[inline]
    fn aggregate(&self, job: &Job<Move>, partials: Partials<'_, Partial>, model: &mut Model) -> Change {
        model.measured = false;
        match job {
            Job::One(column) => model.step(&self.design, *column, Partial::total(partials)),
            Job::Block(block) => model.solve(&self.design, block, &Partial::sums(partials)),
            Job::Gradient { columns, whole } => {
                let sums = Partial::sums(partials);
                let (largest, shared, norm) = model.look(&self.design, columns, &sums.gradient);
                model.saw(Gap::of_lasso(model.lambda, sums.sum, shared, norm, largest), *whole);
                model.measured = *whole;
                Change::None
            }
            Job::Own(Move { columns, steps }) => {
                let sums = Partial::sums(partials);
                let pairs = || columns.iter().map(|&column| column as usize).zip(steps);
                let grown =
                    |(j, step): (usize, &f64)| (model.coefficients[j] + step).abs() - model.coefficients[j].abs();
                let change = 0.5 * sums.sum - sums.gradient.iter().sum::<f64>();
                let change = pairs().fold(change, |change, pair| change + model.lambda * grown(pair));
                model.taken = change < 0.0;
                if !model.taken {
                    return Change::None;
                }
                pairs().for_each(|(j, step)| model.coefficients[j] += step);
                Change::Taken(1.0)
            }
        }
    }

    #[inline]
    fn apply(&self, job: &Job<Move>, change: &Change, part: &Part, residual: &mut Residual) {
        match (job, change) {
            (Job::One(column), Change::One(step)) if *step != 0.0 => self.take(*column, *step, part, residual),
            (Job::Block(block), Change::Steps(steps)) => {
                let steps = block.columns.iter().zip(steps).filter(|(_, step)| **step != 0.0);
                steps.for_each(|(&column, &step)| self.take(column, step, part, residual));
            }
            (Job::Own(Move { columns, steps }), Change::Taken(_)) => {
                kernels::axpy(-1.0, &self.along(columns, steps, part), &mut residual.rows);
            }
            // Carried out now and then, it stays small.
            (Job::Gradient { .. }, _) if residual.offset != 0.0 => {
                let offset = std::mem::take(&mut residual.offset);
                residual.rows.iter_mut().for_each(|r| *r += offset);
            }
            _ => {}
        }
    }

    fn weight(&self, job: &Job<Move>, part: &Part) -> u64 {
        part.stored_of(match job {
            Job::One(column) => std::slice::from_ref(column),
            Job::Block(block) => &block.columns,
            Job::Gradient { columns, .. } | Job::Own(Move { columns, .. }) => columns,
        })
    }
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { fit: args } = cli::parse();
    let (run, problem) = args.start("lasso", session, Loss::Square)?;
    let parts = Part::all(&problem, args.schedule.parts);
    let mut schedule = args.rounds(&problem, &parts, WorkingSet::new);
    let residuals = parts.iter().map(|part| Residual { rows: part.labels.clone(), offset: 0.0 });
    let mut residuals: DVector<Residual> = DVector::from_vec(session, residuals.collect())?;
    let parts: DVector<Part> = DVector::from_vec(session, parts)?;
    let (lasso, mut model) = (Lasso { design: Design::of(&problem) }, Model::new(&problem));

    // Objective, gap and the gradient of all coefficients.
    let measure = |model: &mut Model, residuals: &mut DVector<Residual>| {
        let mut gradient = Always(lasso.design.gradient(&problem));
        scheduled(session, &lasso).label("lasso").run(&mut gradient, model, &parts, residuals, 1)
    };
    let clock = Instant::now();
    let first = measure(&mut model, &mut residuals)?;
    let mut seconds = clock.elapsed().as_secs_f64();
    let mut path = Path::start(run, session, &args, &problem, &model, &[first])?;
    residuals = path.resume(residuals, &mut model, &mut schedule)?;
    while let Some(lambda) = path.next(&model) {
        let clock = Instant::now();
        if model.lambda != lambda {
            model.set_lambda(lambda);
            schedule.restart(&problem);
            path.note(&measure(&mut model, &mut residuals)?);
        }
        if model.gap().relative() > args.regression.tolerance {
            let updates = schedule.begin_epoch(&mut model);
            let over = |_: usize, model: &Model| model.measured || model.updates >= updates;
            let rounds = scheduled(session, &lasso).label("lasso").pipeline(args.schedule.pipeline());
            path.note(&rounds.run_until(&mut schedule, &mut model, &parts, &mut residuals, over)?);
            if !model.measured {
                path.note(&measure(&mut model, &mut residuals)?);
            }
        }
        seconds += clock.elapsed().as_secs_f64();
        path.epoch(std::mem::take(&mut seconds), &residuals, &model, &schedule)?;
    }
    path.finish()
}
