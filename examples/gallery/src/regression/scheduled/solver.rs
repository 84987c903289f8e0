//! A regression on its way: the data in parts, the model, and the schedule.

use std::ops::Range;
use std::sync::Arc;

use stradsap::{DVector, Pick, Result, Schedule, ScheduledReport, Session, scheduled};

use super::chosen::{Always, Choosing, Correlation, Once};
use super::job::{Change, Job};
use super::model::Model;
use super::newton::NewtonSet;
use super::program::{Regression, Rest};
use super::set::Set;
use super::train::{ScheduleArgs, ScheduleName};
use super::working::WorkingSet;
use crate::regression::Loss;
use crate::regression::columns::Part;
use crate::regression::problem::Problem;

/// How far the slopes of the two classes may be apart, as a part of the objective, for a dual point.
const BALANCED: f64 = 1e-7;
/// An intercept that moves by less stays where it is.
const STILL: f64 = 1e-14;
/// Rounds for it, at most.
const MOST_CENTRING: usize = 1000;

/// Values of a part: so few that several fit a worker, this many that a part's share of a round is worth a thread.
const PART_VALUES: usize = 1 << 22;
const MOST_PARTS: usize = 64;
/// Values that correlations are estimated on, at most.
const SAMPLE_VALUES: usize = 1 << 24;

/// A regression on its way.
pub struct Solver<'s> {
    session: &'s Session,
    program: Arc<Regression>,
    parts: DVector<Part>,
    rests: DVector<Rest>,
    model: Model,
    /// The columns that count.
    columns: Arc<[u32]>,
    schedule: Option<Box<dyn Epochs>>,
    label: &'static str,
}

/// A schedule, and what an epoch is with it.
pub(super) trait Epochs {
    /// Runs an epoch.
    fn epoch(&mut self, solver: &mut Solver<'_>, epoch: &mut Epoch) -> Result<()>;

    /// Another lambda: all columns count again.
    fn restart(&mut self, _columns: &[u32]) {}

    /// What has to be kept to go on with the next epoch in another process.
    fn state(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Goes on with that.
    fn restore(&mut self, _state: &[u32]) {}
}

/// What calls did in an epoch.
#[derive(Debug, Default)]
pub struct Epoch {
    /// Rounds.
    pub rounds: u64,
    /// Bytes that processes sent each other.
    pub bytes: u64,
    /// Rounds that reads were behind, at most.
    pub staleness: u64,
    /// The calls.
    pub calls: Vec<ScheduledReport>,
}

impl Epoch {
    pub(super) fn record(&mut self, report: ScheduledReport) {
        self.rounds += report.rounds() as u64;
        self.bytes += report.bytes_sent();
        self.staleness = self.staleness.max(report.staleness_max() as u64);
        self.calls.push(report);
    }
}

/// The rows of each part: a function of the data alone, unless told how many.
fn cut(problem: &Problem, parts: Option<usize>) -> Vec<Range<usize>> {
    let (rows, values) = (problem.table.len(), problem.table.values());
    let parts = parts.unwrap_or((values / PART_VALUES).clamp(1, MOST_PARTS)).clamp(1, rows);
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

impl<'s> Solver<'s> {
    /// Cuts the data up; coefficients are 0.
    ///
    /// # Errors
    /// Those of the session.
    pub fn new(
        session: &'s Session,
        problem: &Problem,
        loss: Loss,
        args: &ScheduleArgs,
        seed: u64,
        tolerance: f64,
    ) -> Result<Solver<'s>> {
        let ranges = cut(problem, args.parts.map(|parts| parts.get().into()));
        let part = |range: &Range<usize>| Part::of(&problem.table, &problem.labels, &problem.scaling, range.clone());
        let parts: Vec<Part> = ranges.iter().map(part).collect();
        let columns: Arc<[u32]> = problem.columns().into();
        let intercept = problem.free_intercept(loss);
        let coefficients = std::iter::repeat_n(0.0, problem.scaling.len()).chain(intercept);
        let model = Model::of(coefficients.collect());
        let total = problem.labels.iter().sum();
        let rows = problem.table.len();
        let program = Arc::new(Regression::new(loss, rows, intercept.is_some(), &problem.scaling, total));
        let stored = |j| parts.iter().map(|part| part.stored(j)).sum::<usize>() as u32;
        let stored: Arc<[u32]> = (0..problem.scaling.len()).map(stored).collect();
        let schedule: Box<dyn Epochs> = match (args.schedule, loss) {
            (ScheduleName::WorkingSet, _) => {
                let set = Set::new(Arc::clone(&program), &columns, stored);
                match loss {
                    Loss::Square => Box::new(WorkingSet::new(set, tolerance)),
                    Loss::Logistic => Box::new(NewtonSet::new(set, Arc::clone(&program), tolerance)),
                }
            }
            (ScheduleName::PriorityDependency, _) => {
                let sample = match problem.table.values() {
                    values if values <= SAMPLE_VALUES && parts.len() == 1 => parts[0].clone(),
                    values if values <= SAMPLE_VALUES => part(&(0..rows)),
                    values => part(&(0..(rows as u128 * SAMPLE_VALUES as u128 / values as u128) as usize)),
                };
                let correlation = Arc::new(Correlation::new(sample, problem.centred));
                let between = move |a: u32, b: u32| correlation.between(a as usize, b as usize);
                Box::new(Choosing::new(&columns, &stored, &program, args, Pick::Priority, seed, Some(between)))
            }
            (name, _) => {
                let pick = match name {
                    ScheduleName::Random => Pick::Random,
                    ScheduleName::Cyclic => Pick::Cyclic,
                    _ => Pick::Priority,
                };
                Box::new(Choosing::new(&columns, &stored, &program, args, pick, seed, None::<fn(u32, u32) -> f64>))
            }
        };
        let rests = parts.iter().map(|part| Rest::of(part, loss, intercept.unwrap_or(0.0))).collect();
        let label = match loss {
            Loss::Square => "lasso",
            Loss::Logistic => "logistic",
        };
        Ok(Solver {
            session,
            parts: DVector::from_vec(session, parts)?,
            rests: DVector::from_vec(session, rests)?,
            model,
            columns,
            program,
            schedule: Some(schedule),
            label,
        })
    }

    /// The model.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// How many parts the rows are cut into.
    pub fn parts(&self) -> usize {
        self.parts.len()
    }

    /// Notes that updates went over this many values more.
    pub(super) fn touched(&mut self, values: u64) {
        self.model.values_touched += values;
    }

    /// The program's constants.
    pub(super) fn program(&self) -> Arc<Regression> {
        Arc::clone(&self.program)
    }

    /// What has to be kept to go on with the next epoch in another process, apart from what is in the model.
    pub fn state(&self) -> (&DVector<Rest>, Vec<u32>) {
        (&self.rests, self.schedule.as_ref().map_or_else(Vec::new, |schedule| schedule.state()))
    }

    /// Goes on with what another run of the same had kept.
    pub fn restore(&mut self, rests: DVector<Rest>, model: Model, state: &[u32]) {
        (self.rests, self.model) = (rests, model);
        if let Some(schedule) = &mut self.schedule {
            schedule.restore(state);
        }
    }

    /// The largest lambda with which a coefficient isn't 0. The coefficients have to be 0.
    ///
    /// # Errors
    /// Those of a call.
    pub fn largest_lambda(&mut self) -> Result<(f64, Epoch)> {
        let mut epoch = Epoch::default();
        self.measure(&mut epoch)?;
        let shares = self.columns.iter().map(|&column| self.model.gradient[column as usize].abs());
        Ok((shares.fold(0.0, f64::max), epoch))
    }

    /// Another lambda, from where the coefficients are.
    ///
    /// # Errors
    /// Those of a call.
    pub fn set_lambda(&mut self, lambda: f64) -> Result<Epoch> {
        let mut epoch = Epoch::default();
        self.model.set_lambda(lambda);
        self.measure(&mut epoch)?;
        if let Some(schedule) = &mut self.schedule {
            schedule.restart(&self.columns);
        }
        Ok(epoch)
    }

    /// Objective and gap, with the gradient of all columns.
    pub(super) fn measure(&mut self, epoch: &mut Epoch) -> Result<()> {
        let intercept = self.program.intercept().map(|j| j as u32);
        let columns = self.columns.iter().copied().chain(intercept).collect();
        epoch.record(self.call(&mut Once(vec![Job::Gradient { columns, whole: true }]), 1, |_, _| true)?);
        if self.program.loss() == Loss::Logistic {
            let (scale, best) = (self.model.whole.scale, self.model.best_dual);
            epoch.record(self.call(&mut Once(vec![Job::Dual { scale }]), 1, |_, _| true)?);
            if !self.is_balanced() {
                // No loss is below 0, which is all that is known then.
                self.model.whole.dual = 0.0;
                self.model.best_dual = best.max(0.0);
            }
        }
        Ok(())
    }

    /// Whether the dual point is one: an intercept without penalty wants the slopes of both classes to be as large.
    fn is_balanced(&self) -> bool {
        self.program.intercept().is_none_or(|intercept| {
            let size = 1.0 + self.model.coefficients[intercept].abs();
            self.model.gradient[intercept].abs() * size <= BALANCED * self.model.whole.primal
        })
    }

    /// Moves the intercept of a logistic model to its best, given all else: an epoch's end, and no update of the schedule's.
    pub(super) fn centre(&mut self, epoch: &mut Epoch) -> Result<()> {
        let Some(intercept) = self.program.intercept().filter(|_| self.program.loss() == Loss::Logistic) else {
            return Ok(());
        };
        let updates = self.model.updates;
        let mut last = f64::INFINITY;
        let until = |round: usize, model: &Model| {
            let moved = (model.coefficients[intercept] - last).abs();
            last = model.coefficients[intercept];
            moved <= STILL * (1.0 + last.abs()) || round >= MOST_CENTRING
        };
        epoch.record(self.call(&mut Always(Job::One(intercept as u32)), 1, until)?);
        self.model.updates = updates;
        Ok(())
    }

    pub(super) fn call<S: Schedule<Model, Job, Change>>(
        &mut self,
        schedule: &mut S,
        pipeline: usize,
        until: impl FnMut(usize, &Model) -> bool,
    ) -> Result<ScheduledReport> {
        let Solver { session, program, parts, rests, model, label, .. } = self;
        let call = scheduled(session, &**program).pipeline(pipeline).label(*label);
        call.run_until(schedule, model, parts, rests, until)
    }

    /// Runs an epoch.
    ///
    /// # Errors
    /// Those of a call.
    pub fn epoch(&mut self) -> Result<Epoch> {
        let mut epoch = Epoch::default();
        let Some(mut schedule) = self.schedule.take() else { return Ok(epoch) };
        let ran = schedule.epoch(self, &mut epoch);
        self.schedule = Some(schedule);
        ran.map(|()| epoch)
    }

    /// Runs a schedule until it has looked at all columns.
    pub(super) fn run_until_measured<S: Schedule<Model, Job, Change>>(
        &mut self,
        schedule: &mut S,
        epoch: &mut Epoch,
    ) -> Result<()> {
        self.model.measured = false;
        epoch.record(self.call(schedule, 1, |_, model| model.measured)?);
        Ok(())
    }
}

impl Epochs for WorkingSet {
    fn epoch(&mut self, solver: &mut Solver<'_>, epoch: &mut Epoch) -> Result<()> {
        solver.run_until_measured(self, epoch)
    }

    fn restart(&mut self, columns: &[u32]) {
        self.set().restart(columns);
    }

    fn state(&self) -> Vec<u32> {
        self.kept().state()
    }

    fn restore(&mut self, state: &[u32]) {
        self.set().restore(state);
    }
}

impl Epochs for NewtonSet {
    fn epoch(&mut self, solver: &mut Solver<'_>, epoch: &mut Epoch) -> Result<()> {
        solver.run_until_measured(self, epoch)
    }

    fn restart(&mut self, columns: &[u32]) {
        self.set().restart(columns);
    }

    fn state(&self) -> Vec<u32> {
        self.kept().state()
    }

    fn restore(&mut self, state: &[u32]) {
        self.set().restore(state);
    }
}
