//! Sparse logistic regression by scheduled coordinate descent. `logistic_sequential` is the program without the library.
//!
//! It is `lasso` with another loss, whose slope stands for the residual: blocks are solved on a quadratic model of the loss, and
//! the step to where that leads is searched along (newGLMNET: Yuan, Ho and Lin, 2012).

use std::time::Instant;

use clap::Parser;
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap_examples::{AnyError, cli};
use stradsap_gallery::regression::columns::{Column, Part};
use stradsap_gallery::regression::gap::{Gap, entropy, logistic};
use stradsap_gallery::regression::gram::products;
use stradsap_gallery::regression::scheduled::{
    Always, Change, Design, FitArgs, Job, Model, Newton, NewtonSet, Partial, Path, Rounds, Sums,
};
use stradsap_gallery::regression::{Loss, kernels};

/// How far the slopes of the two classes may be apart, as a part of the objective, for a dual point.
const BALANCED: f64 = 1e-7;
/// An intercept that moves by less stays where it is.
const STILL: f64 = 1e-14;
/// Rounds for it, at most.
const MOST_CENTRING: usize = 1000;

/// Fits logistic regression with an L1 penalty by coordinate descent, in parallel: the coefficients b and the intercept c with
/// the least sum of ln(1 + exp(-y (X b + c))) and L |b|₁.
///
/// The data is in LIBSVM's format, with two classes. The duality gap, relative to the objective, bounds how far the objective is
/// from its least value. `updates` counts updates of a coefficient, whether or not it changed. An epoch solves a working set, or
/// with another --schedule has as many updates as there are columns. The run ends after --epochs of them (for each lambda) or at
/// --tolerance. Columns are scaled but not shifted, since shifts would change only the intercept. The coefficients are stored as
/// `logistic.model`, in LIBLINEAR's format.
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
struct Logistic {
    design: Design,
}

/// What a part of the rows keeps between rounds.
#[derive(Debug, Clone, Default, Element)]
struct Rows {
    /// What the coefficients make of each row.
    margins: Vec<f64>,
    /// The loss's slope, on the quadratic model if there is one.
    slopes: Vec<f64>,
    /// The loss's second derivative, and where blocks are on the quadratic model.
    weights: Vec<f64>,
    direction: Vec<f64>,
}

impl Rows {
    /// Of coefficients that are 0, but for an intercept.
    fn new(part: &Part, intercept: f64) -> Rows {
        let (margins, slopes) = (vec![intercept; part.height()], vec![0.0; part.height()]);
        let mut rows = Rows { margins, slopes, ..Rows::default() };
        rows.make_slopes(part);
        rows
    }

    fn make_slopes(&mut self, part: &Part) {
        let rows = self.slopes.iter_mut().zip(&self.margins).zip(&part.labels);
        rows.for_each(|((slope, z), y)| *slope = y * logistic(y * z).1);
    }

    /// The losses at this part of the way to where blocks are.
    fn losses(&self, part: &Part, by: Option<f64>) -> f64 {
        let rows = self.margins.iter().zip(&part.labels).enumerate();
        let moved = |i: usize, z: f64| by.map_or(z, |by| z + by * self.direction[i]);
        rows.fold(0.0, |sum, (i, (&z, y))| sum + logistic(y * moved(i, z)).0)
    }

    fn dot(&self, part: &Part, column: u32) -> f64 {
        let column = column as usize;
        if column == part.width() { kernels::sum(&self.slopes) } else { part.dot(column, &self.slopes) }
    }

    /// Takes a step along a column.
    fn take(&mut self, part: &Part, column: u32, step: f64) {
        let Rows { margins, slopes, weights, direction } = self;
        if direction.is_empty() {
            each(part, column as usize, |i, x| {
                margins[i] += step * x;
                slopes[i] = part.labels[i] * logistic(part.labels[i] * margins[i]).1;
            });
        } else {
            each(part, column as usize, |i, x| {
                direction[i] += step * x;
                slopes[i] -= step * weights[i] * x;
            });
        }
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

impl Program for Logistic {
    type Shard = Part;
    type Local = Rows;
    type Model = Model;
    type Job = Job<Newton>;
    type Partial = Partial;
    type Change = Change;

    #[inline]
    fn update(&self, job: &Job<Newton>, part: &Part, rows: &Rows) -> Partial {
        let gradient = |columns: &[u32]| columns.iter().map(|&column| rows.dot(part, column)).collect();
        match job {
            Job::One(column) => Partial::One(rows.dot(part, *column)),
            Job::Block(block) => {
                let gram = if self.design.intercept() != Some(block.columns[0]) {
                    products(part, &block.columns, block.known as usize, Some(&rows.weights))
                } else if block.known == 0 {
                    vec![kernels::sum(&rows.weights)]
                } else {
                    Vec::new()
                };
                Partial::Sums(Sums { sum: 0.0, gradient: gradient(&block.columns), gram })
            }
            Job::Gradient { columns, .. } => {
                Partial::Sums(Sums { sum: rows.losses(part, None), gradient: gradient(columns), gram: Vec::new() })
            }
            Job::Own(Newton::Model) => Partial::One(rows.losses(part, None)),
            Job::Own(Newton::Search { part: by }) => Partial::One(rows.losses(part, Some(*by))),
            Job::Own(Newton::Dual { scale }) => {
                Partial::One(rows.slopes.iter().fold(0.0, |sum, slope| sum + entropy(scale * slope.abs())))
            }
        }
    }

    #[inline]
    fn aggregate(&self, job: &Job<Newton>, partials: Partials<'_, Partial>, model: &mut Model) -> Change {
        model.measured = false;
        match job {
            Job::One(column) => return model.step(&self.design, *column, Partial::total(partials)),
            Job::Block(block) => return model.solve(&self.design, block, &Partial::sums(partials)),
            Job::Gradient { columns, whole } => {
                let sums = Partial::sums(partials);
                let (largest, _, norm) = model.look(&self.design, columns, &sums.gradient);
                let scale = if largest > model.lambda { model.lambda / largest } else { 1.0 };
                // The dual objective needs another round.
                let primal = sums.sum + model.lambda * norm;
                model.saw(Gap { primal, dual: f64::NEG_INFINITY, scale }, *whole);
            }
            Job::Own(Newton::Model) => {
                let primal = Partial::total(partials) + model.lambda * self.design.norm(&model.coefficients);
                model.some = Gap { primal, ..model.some };
                model.base = model.coefficients.clone();
                model.forget();
                model.fell = 0.0;
            }
            Job::Own(Newton::Search { part }) => return self.search(*part, Partial::total(partials), model),
            Job::Own(Newton::Dual { .. }) => {
                model.saw(Gap { dual: Partial::total(partials), ..model.whole }, true);
                model.measured = true;
            }
        }
        Change::None
    }

    #[inline]
    fn apply(&self, job: &Job<Newton>, change: &Change, part: &Part, rows: &mut Rows) {
        match (job, change) {
            (Job::One(column), Change::One(step)) if *step != 0.0 => rows.take(part, *column, *step),
            (Job::Block(block), Change::Steps(steps)) => {
                let steps = block.columns.iter().zip(steps).filter(|(_, step)| **step != 0.0);
                steps.for_each(|(&column, &step)| rows.take(part, column, step));
            }
            (Job::Own(Newton::Model), _) => {
                rows.make_slopes(part);
                rows.weights = rows.slopes.iter().map(|slope| slope.abs() * (1.0 - slope.abs())).collect();
                rows.direction = vec![0.0; part.height()];
            }
            (Job::Own(Newton::Search { .. }), Change::Taken(by)) => {
                kernels::axpy(*by, &rows.direction, &mut rows.margins);
                rows.direction.clear();
                rows.make_slopes(part);
            }
            _ => {}
        }
    }

    fn weight(&self, job: &Job<Newton>, part: &Part) -> u64 {
        part.stored_of(match job {
            Job::One(column) => std::slice::from_ref(column),
            Job::Block(block) => &block.columns,
            Job::Gradient { columns, .. } => columns,
            Job::Own(_) => return part.height() as u64,
        })
    }
}

impl Logistic {
    /// Takes this part of the way that blocks have found, if the objective falls enough: by a part of what the quadratic model
    /// promises; near the end rounding hides it.
    fn search(&self, part: f64, loss: f64, model: &mut Model) -> Change {
        let pairs = model.base.iter().zip(&model.coefficients);
        let tried: Vec<f64> = pairs.map(|(&base, &there)| base + part * (there - base)).collect();
        let objective = loss + model.lambda * self.design.norm(&tried);
        let before = model.some.primal;
        model.taken = objective <= before - 0.01 * part * model.fell + 1e-15 * before.abs();
        if !model.taken {
            return Change::None;
        }
        model.coefficients = tried;
        model.some = Gap { primal: objective, ..model.some };
        Change::Taken(part)
    }

    /// Whether the dual point is one: an intercept without penalty wants the slopes of both classes to be as large.
    fn is_balanced(&self, model: &Model) -> bool {
        self.design.intercept().is_none_or(|intercept| {
            let intercept = intercept as usize;
            let size = 1.0 + model.coefficients[intercept].abs();
            model.gradient[intercept].abs() * size <= BALANCED * model.whole.primal
        })
    }
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { fit: args } = cli::parse();
    let (run, problem) = args.start("logistic", session, Loss::Logistic)?;
    let parts = Part::all(&problem, args.schedule.parts);
    let mut schedule = args.rounds(&problem, &parts, NewtonSet::new);
    let rows = parts.iter().map(|part| Rows::new(part, problem.free_intercept().unwrap_or(0.0)));
    let mut rows: DVector<Rows> = DVector::from_vec(session, rows.collect())?;
    let parts: DVector<Part> = DVector::from_vec(session, parts)?;
    let (program, mut model) = (Logistic { design: Design::of(&problem) }, Model::new(&problem));

    // Objective and the gradient of all coefficients, then the gap.
    let call = || scheduled(session, &program).label("logistic");
    let measure = |model: &mut Model, rows: &mut DVector<Rows>| -> stradsap::Result<[ScheduledReport; 2]> {
        let first = call().run(&mut Always(program.design.gradient(&problem)), model, &parts, rows, 1)?;
        let (best, dual) = (model.best_dual, Newton::Dual { scale: model.whole.scale });
        let second = call().run(&mut Always(Job::Own(dual)), model, &parts, rows, 1)?;
        if !program.is_balanced(model) {
            // No loss is below 0, which is all that is known then.
            (model.whole.dual, model.best_dual) = (0.0, best.max(0.0));
        }
        Ok([first, second])
    };
    // Moves the intercept to its best, given all else: an epoch's end, and no update of the schedule's.
    let centre = |intercept: u32, model: &mut Model, rows: &mut DVector<Rows>| {
        let (updates, mut last) = (model.updates, f64::INFINITY);
        let until = |round: usize, model: &Model| {
            let now = model.coefficients[intercept as usize];
            let moved = (now - std::mem::replace(&mut last, now)).abs();
            moved <= STILL * (1.0 + now.abs()) || round >= MOST_CENTRING
        };
        let report = call().run_until(&mut Always(Job::One(intercept)), model, &parts, rows, until);
        model.updates = updates;
        report
    };
    let clock = Instant::now();
    let first = measure(&mut model, &mut rows)?;
    let mut seconds = clock.elapsed().as_secs_f64();
    let mut path = Path::start(run, session, &args, &problem, &model, &first)?;
    rows = path.resume(rows, &mut model, &mut schedule)?;
    while let Some(lambda) = path.next(&model) {
        let clock = Instant::now();
        if model.lambda != lambda {
            model.set_lambda(lambda);
            schedule.restart(&problem);
            measure(&mut model, &mut rows)?.iter().for_each(|report| path.note(report));
        }
        if model.gap().relative() > args.regression.tolerance {
            let updates = schedule.begin_epoch(&mut model);
            let over = |_: usize, model: &Model| model.measured || model.updates >= updates;
            let rounds = call().pipeline(args.schedule.pipeline());
            path.note(&rounds.run_until(&mut schedule, &mut model, &parts, &mut rows, over)?);
            if let Rounds::Drawn(_) = schedule {
                if let Some(intercept) = program.design.intercept() {
                    path.note(&centre(intercept, &mut model, &mut rows)?);
                }
                measure(&mut model, &mut rows)?.iter().for_each(|report| path.note(report));
            }
        }
        seconds += clock.elapsed().as_secs_f64();
        path.epoch(std::mem::take(&mut seconds), &rows, &model, &schedule)?;
    }
    path.finish()
}
