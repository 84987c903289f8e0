//! A whole run: data, lambdas, epochs, checkpoints, and what it leaves.

use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::time::Instant;

use stradsap::{Checkpoint, DVector, Digest, Result, Session};
use stradsap_examples::numbers::{nonzero, not_negative};
use stradsap_examples::{AnyError, CommonArgs, Training};

use super::model::Model;
use super::solver::{Epoch, Solver};
use crate::regression::Loss;
use crate::regression::args::RegressionArgs;
use crate::regression::fit::{DataSize, Fit};
use crate::regression::gap::Gap;
use crate::regression::problem::{Fitted, Problem};

/// How the coefficients of a round are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum ScheduleName {
    /// Blocks of a growing set of columns that the gradient and the gap choose
    WorkingSet,
    /// At random (Shotgun)
    Random,
    /// In proportion to the square of the last change
    Priority,
    /// The same, and none that is correlated with another of its round or in flight
    #[value(name = "priority+dependency")]
    PriorityDependency,
    /// In turn
    Cyclic,
}

/// The options of the schedule.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Schedule")]
pub struct ScheduleArgs {
    /// How the coefficients of a round are chosen
    #[arg(long, value_enum, default_value_t = ScheduleName::WorkingSet)]
    pub schedule: ScheduleName,

    /// Coefficients that are updated at the same time, without each other's changes; not for working-set
    #[arg(long, value_name = "L", default_value = "4", value_parser = nonzero::<NonZeroUsize>)]
    pub concurrent: NonZeroUsize,

    /// With priority+dependency: how much two columns may be correlated whose coefficients are updated at the same time
    #[arg(long, value_name = "RHO", default_value_t = 0.1, value_parser = not_negative::<f64>)]
    pub correlation: f64,

    /// Rounds that are in flight at a time: updates of a round don't see those of D - 1 rounds before it [default: 3, and 1
    /// with working-set, whose rounds need each other's changes]
    #[arg(long, value_name = "D", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub pipeline: Option<u16>,

    /// Updates from one gradient of all columns, objective and gap to the next [default: as many as there are columns]; not for
    /// working-set, whose epoch is a set
    #[arg(long, value_name = "U", value_parser = nonzero::<NonZeroU32>)]
    pub updates_per_epoch: Option<NonZeroU32>,

    /// Parts that the rows are cut into [default: by the size of the data]
    #[arg(long, value_name = "P", value_parser = nonzero::<NonZeroU16>)]
    pub parts: Option<NonZeroU16>,
}

impl ScheduleArgs {
    /// How many rounds are in flight.
    pub fn pipeline(&self) -> usize {
        self.pipeline.map_or(if self.schedule == ScheduleName::WorkingSet { 1 } else { 3 }, usize::from)
    }

    fn check(&self) -> stradsap_examples::Result<()> {
        if self.schedule == ScheduleName::WorkingSet && self.pipeline() > 1 {
            let problem =
                "rounds of --schedule working-set need each other's changes; leave the option out, or choose \
                           another schedule"
                    .to_owned();
            return Err(stradsap_examples::Error::Usage { option: "--pipeline", problem });
        }
        Ok(())
    }
}

/// The values of [`Progress`], for a checkpoint.
const NUMBERS: usize = 11;

/// Where a run is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Which lambda it is at, and how many epochs it has run with it.
    lambda: usize,
    epochs: u32,
    rounds: u64,
    staleness: u64,
    /// What was fitted with the lambdas before.
    path: Vec<Vec<f64>>,
}

/// Fits as the command line says.
///
/// # Errors
/// Of the input, the options and the session.
pub fn train(
    session: &Session,
    loss: Loss,
    name: &'static str,
    common: &CommonArgs,
    args: &RegressionArgs,
    schedule: &ScheduleArgs,
) -> std::result::Result<(), AnyError> {
    schedule.check().map_err(told)?;
    for (option, asked) in [("--dot", &common.dot), ("--plan", &common.plan)] {
        if asked.is_some() {
            let problem = format!("{option}: a scheduled program has no conflict graph; leave the option out");
            return Err(stradsap::Error::usage(problem).into());
        }
    }
    let mut run: Training<'_, Fit> = Training::start(name, session, common)?;
    let problem = Problem::read(common.data.as_deref(), loss, args).map_err(told)?;
    let mut solver = Solver::new(session, &problem, loss, schedule, common.seed, args.tolerance)?;
    let clock = Instant::now();
    let (largest, first) = solver.largest_lambda()?;
    let mut seconds = clock.elapsed().as_secs_f64();
    let lambdas = args.lambdas(largest).map_err(told)?;
    let size = DataSize::of(&problem, largest, solver.parts());
    run.line(&format!("{size}, parts {}, threads {}", solver.parts(), session.threads()));

    let settings = format!("{size}, {args:?}, {schedule:?}, seed {}", common.seed);
    run.resume(settings)?;
    let mut at = Progress::default();
    if let Some(checkpoint) = run.resumed() {
        at = restore(session, &mut solver, checkpoint)?;
    }
    let mut bytes = first.bytes;
    run.record_scheduled(&first.calls);
    while at.lambda < lambdas.len() {
        let close = solver.model().gap().relative() <= args.tolerance;
        if at.epochs >= common.epochs || (at.epochs > 0 && close) {
            at.path.push(solver.model().coefficients.clone());
            (at.lambda, at.epochs) = (at.lambda + 1, 0);
            continue;
        }
        let clock = Instant::now();
        let mut parts: Vec<Epoch> = Vec::new();
        if at.epochs == 0 {
            parts.push(solver.set_lambda(lambdas[at.lambda])?);
        }
        if solver.model().gap().relative() > args.tolerance {
            parts.push(solver.epoch()?);
        }
        seconds += clock.elapsed().as_secs_f64();
        for part in &parts {
            at.rounds += part.rounds;
            at.staleness = at.staleness.max(part.staleness);
            bytes += part.bytes;
            run.record_scheduled(&part.calls);
        }
        let model = solver.model();
        let columns = &model.coefficients[..problem.scaling.len()];
        let fit = Fit::of(model.lambda, model.gap(), columns, model.updates, model.columns_read);
        let fit = fit.touching(model.values_touched).on_schedule(at.rounds, at.staleness);
        run.epoch(std::mem::take(&mut seconds), std::mem::take(&mut bytes), fit)?;
        at.epochs += 1;
        save(session, &mut run, &solver, &at)?;
    }

    let path: Vec<Fitted> = lambdas.iter().zip(&at.path).map(|(&lambda, b)| problem.fitted(lambda, b)).collect();
    if let Some(folder) = &common.output {
        problem.store(folder, loss, &path)?;
    }
    let values = at.path.iter().flatten().copied();
    run.finish(size, &Digest::new().vector(values))
}

/// What is wrong with the command line is the library's kind of error, too, for the exit status.
fn told(error: stradsap_examples::Error) -> AnyError {
    match error {
        stradsap_examples::Error::Usage { .. } => stradsap::Error::usage(error.to_string()).into(),
        other => other.into(),
    }
}

fn save(session: &Session, run: &mut Training<'_, Fit>, solver: &Solver<'_>, at: &Progress) -> Result<()> {
    if !run.save_due() {
        return Ok(());
    }
    let model = solver.model();
    let Gap { primal, dual, scale } = model.whole;
    let numbers: [f64; NUMBERS] = [
        model.lambda,
        primal,
        dual,
        scale,
        model.best_dual,
        model.updates as f64,
        model.columns_read as f64,
        at.rounds as f64,
        at.staleness as f64,
        at.epochs.into(),
        model.values_touched as f64,
    ];
    let (rests, state) = solver.state();
    let vector = |values: Vec<f64>| DVector::from_vec(session, values);
    let numbers = vector(numbers.to_vec())?;
    let coefficients = vector(model.coefficients.clone())?;
    let gradient = vector(model.gradient.clone())?;
    let path = vector(at.path.concat())?;
    let state = DVector::from_vec(session, state)?;
    run.save(&[
        ("rests", rests),
        ("numbers", &numbers),
        ("coefficients", &coefficients),
        ("gradient", &gradient),
        ("path", &path),
        ("schedule", &state),
    ])
}

fn restore(session: &Session, solver: &mut Solver<'_>, checkpoint: &Checkpoint) -> Result<Progress> {
    let values = |name| -> Result<Vec<f64>> { Ok(checkpoint.vector::<f64>(session, name)?.iter()?.collect()) };
    let numbers = values("numbers")?;
    let number = |i: usize| numbers.get(i).copied().unwrap_or(0.0);
    let coefficients = values("coefficients")?;
    let path: Vec<Vec<f64>> = values("path")?.chunks(coefficients.len().max(1)).map(<[f64]>::to_vec).collect();
    let model = Model {
        gradient: values("gradient")?,
        lambda: number(0),
        whole: Gap { primal: number(1), dual: number(2), scale: number(3) },
        best_dual: number(4),
        updates: number(5) as u64,
        columns_read: number(6) as u64,
        values_touched: number(10) as u64,
        ..Model::of(coefficients)
    };
    let at = Progress {
        lambda: path.len(),
        epochs: number(9) as u32,
        rounds: number(7) as u64,
        staleness: number(8) as u64,
        path,
    };
    let state: Vec<u32> = checkpoint.vector::<u32>(session, "schedule")?.iter()?.collect();
    solver.restore(checkpoint.vector(session, "rests")?, model, &state);
    Ok(at)
}
