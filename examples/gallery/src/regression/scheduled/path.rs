//! A run along a path of lambdas: what it has reached, its report, its checkpoints.

use stradsap::{DVector, Digest, Element, ScheduledReport, Session};
use stradsap_examples::{AnyError, Error, Training};

use super::model::Model;
use super::options::FitArgs;
use super::rounds::{Kept, Rounds};
use super::set::Set;
use crate::regression::fit::{DataSize, Fit};
use crate::regression::problem::{Fitted, Problem};

/// A run along a path of lambdas.
pub struct Path<'a> {
    run: Training<'a, Fit>,
    session: &'a Session,
    args: &'a FitArgs,
    problem: &'a Problem,
    size: DataSize,
    lambdas: Vec<f64>,
    reached: Reached,
    /// What processes have sent each other since the last epoch.
    bytes: u64,
}

/// How far it is.
#[derive(Debug, Clone, Default, Element)]
struct Reached {
    /// Epochs with this lambda.
    epochs: u32,
    rounds: u64,
    staleness: u64,
    /// What was fitted with the lambdas before.
    fitted: Vec<Vec<f64>>,
}

/// All that a checkpoint holds besides what the parts keep.
type Saved = (Reached, Model, Kept);

impl<'a> Path<'a> {
    /// Begins a run whose first gradient, of coefficients that are 0, was this call's.
    ///
    /// # Errors
    /// Of the options.
    pub fn start(
        run: Training<'a, Fit>,
        session: &'a Session,
        args: &'a FitArgs,
        problem: &'a Problem,
        model: &Model,
        first: &[ScheduledReport],
    ) -> Result<Path<'a>, AnyError> {
        let gradients = problem.columns().into_iter().map(|column| model.gradient[column as usize].abs());
        let largest = gradients.fold(0.0, f64::max);
        let lambdas = args.regression.lambdas(largest).map_err(Error::for_main)?;
        let parts = first.first().map_or(0, ScheduledReport::shards);
        let size = DataSize::of(problem, largest, parts);
        let mut path = Path { run, session, args, problem, size, lambdas, reached: Reached::default(), bytes: 0 };
        path.run.line(&format!("{}, parts {parts}, threads {}", path.size, session.threads()));
        let FitArgs { regression, schedule, common } = args;
        path.run.resume(format!("{}, {regression:?}, {schedule:?}, seed {}", path.size, common.seed))?;
        path.bytes = first.iter().map(ScheduledReport::bytes_sent).sum();
        path.run.record_scheduled(first);
        Ok(path)
    }

    /// What the parts keep as the run begins with it, with model and schedule: those of the checkpoint that the run goes on from, or
    /// else what is given.
    ///
    /// # Errors
    /// Of the checkpoint.
    pub fn resume<T: Element, S: AsRef<Set> + AsMut<Set>, D: Fn(usize, usize) -> f64 + Clone>(
        &mut self,
        locals: DVector<T>,
        model: &mut Model,
        rounds: &mut Rounds<S, D>,
    ) -> stradsap::Result<DVector<T>> {
        if let Some(checkpoint) = self.run.resumed() {
            let saved: DVector<Saved> = checkpoint.vector(self.session, "reached")?;
            let kept;
            (self.reached, *model, kept) = saved.get(0)?;
            rounds.restore(kept);
        }
        self.run.vector("locals", || Ok(locals))
    }

    /// The lambda of the next epoch, if there is one.
    pub fn next(&mut self, model: &Model) -> Option<f64> {
        let Reached { epochs, fitted, .. } = &mut self.reached;
        let close = *epochs > 0 && model.gap().relative() <= self.args.regression.tolerance;
        if close || *epochs >= self.args.common.epochs {
            fitted.push(model.coefficients.clone());
            *epochs = 0;
        }
        self.lambdas.get(fitted.len()).copied()
    }

    /// Takes note of a call.
    pub fn note(&mut self, call: &ScheduledReport) {
        let Reached { rounds, staleness, .. } = &mut self.reached;
        *rounds += call.rounds() as u64;
        *staleness = (*staleness).max(call.staleness_max() as u64);
        self.bytes += call.bytes_sent();
        self.run.record_scheduled([call]);
    }

    /// Ends an epoch: measures, and saves a checkpoint where one is due.
    ///
    /// # Errors
    /// The objective isn't finite; those of checkpoints.
    pub fn epoch<T: Element, S: AsRef<Set> + AsMut<Set>, D: Fn(usize, usize) -> f64 + Clone>(
        &mut self,
        seconds: f64,
        locals: &DVector<T>,
        model: &Model,
        rounds: &Rounds<S, D>,
    ) -> Result<(), AnyError> {
        let columns = &model.coefficients[..self.problem.scaling.len()];
        let fit = Fit::of(model.lambda, model.gap(), columns, model.updates, model.columns_read);
        let fit = fit.touching(rounds.touched()).on_schedule(self.reached.rounds, self.reached.staleness);
        self.run.epoch(seconds, std::mem::take(&mut self.bytes), fit)?;
        self.reached.epochs += 1;
        if self.run.save_due() {
            let saved: Vec<Saved> = vec![(self.reached.clone(), model.clone(), rounds.kept())];
            let saved = DVector::from_vec(self.session, saved)?;
            self.run.save(&[("locals", locals), ("reached", &saved)])?;
        }
        Ok(())
    }

    /// Stores what was fitted, and writes the report.
    ///
    /// # Errors
    /// Of the files.
    pub fn finish(self) -> Result<(), AnyError> {
        let fitted = &self.reached.fitted;
        if let Some(folder) = &self.args.common.output {
            let path = self.lambdas.iter().zip(fitted).map(|(&lambda, b)| self.problem.fitted(lambda, b));
            self.problem.store(folder, &path.collect::<Vec<Fitted>>())?;
        }
        let digest = Digest::new().vector(fitted.iter().flatten().copied());
        self.run.finish(self.size, &digest)
    }
}
