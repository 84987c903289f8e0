//! Which coefficients a round has: the schedule that the command line asks for.

use stradsap::{Element, Schedule};

use super::drawn::Drawn;
use super::job::{Change, Job};
use super::model::Model;
use super::set::Set;
use crate::regression::problem::Problem;

/// A schedule: blocks of a working set, or coefficients that are drawn.
#[derive(Debug, Clone)]
pub enum Rounds<S, D> {
    /// An epoch ends with the gradient of all columns.
    Set(S),
    /// An epoch is a number of updates.
    Drawn(Box<Drawn<D>>),
}

/// What has to be kept between epochs to go on in another process.
#[derive(Debug, Clone, Default, Element)]
pub struct Kept {
    /// Columns that may still come to have a coefficient.
    pub(super) alive: Vec<u32>,
    /// Columns of the working set.
    pub(super) blocks: Vec<Vec<u32>>,
    pub(super) room: usize,
    /// Values that updates went over.
    pub(super) touched: u64,
}

impl<S: AsRef<Set> + AsMut<Set>, D: Fn(usize, usize) -> f64 + Clone> Rounds<S, D> {
    /// Another lambda: all columns count again.
    pub fn restart(&mut self, problem: &Problem) {
        if let Rounds::Set(set) = self {
            set.as_mut().restart(problem);
        }
    }

    /// Begins an epoch. It ends when the gradient of all columns has been measured, or when the model has had as many updates as
    /// this says.
    pub fn begin_epoch(&mut self, model: &mut Model) -> u64 {
        model.measured = false;
        match self {
            Rounds::Set(_) => u64::MAX,
            Rounds::Drawn(drawn) => drawn.begin_epoch(model),
        }
    }

    /// The values of the columns that were updated so far, where columns are updated one at a time.
    pub fn touched(&self) -> u64 {
        if let Rounds::Drawn(drawn) = self { drawn.touched } else { 0 }
    }

    pub(super) fn kept(&self) -> Kept {
        match self {
            Rounds::Set(set) => set.as_ref().kept().clone(),
            Rounds::Drawn(drawn) => Kept { touched: drawn.touched, ..Kept::default() },
        }
    }

    pub(super) fn restore(&mut self, kept: Kept) {
        match self {
            Rounds::Set(set) => set.as_mut().restore(kept),
            Rounds::Drawn(drawn) => drawn.touched = kept.touched,
        }
    }
}

impl<Own, S, D> Schedule<Model, Job<Own>, Change> for Rounds<S, D>
where
    S: Schedule<Model, Job<Own>, Change>,
    D: Fn(usize, usize) -> f64 + Clone,
{
    fn begin(&mut self, pipeline: usize) {
        match self {
            Rounds::Set(set) => set.begin(pipeline),
            Rounds::Drawn(drawn) => drawn.begin(pipeline),
        }
    }

    fn schedule(&mut self, round: usize, model: &Model, jobs: &mut Vec<Job<Own>>) {
        match self {
            Rounds::Set(set) => set.schedule(round, model, jobs),
            Rounds::Drawn(drawn) => jobs.extend(drawn.schedule(round).map(Job::One)),
        }
    }

    fn observe(&mut self, job: &Job<Own>, change: &Change) {
        if let (Rounds::Drawn(drawn), Job::One(column), Change::One(step)) = (self, job, change) {
            drawn.observe(*column, *step);
        }
    }
}

/// One job, in every round.
#[derive(Debug, Clone)]
pub struct Always<Own>(pub Job<Own>);

impl<Own: Clone> Schedule<Model, Job<Own>, Change> for Always<Own> {
    fn schedule(&mut self, _round: usize, _model: &Model, jobs: &mut Vec<Job<Own>>) {
        jobs.push(self.0.clone());
    }
}
