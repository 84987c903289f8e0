//! The schedule that is fastest on one machine: a working set of columns that grows.
//!
//! An epoch begins with what the gradient of all columns has told: which can be left out for good, and which are the nearest
//! to having a coefficient. Those join the working set. Then its blocks are updated, in turn, until the gap of the set
//! alone is a part of the whole one, and the gradient of all columns ends the epoch. Between passes the coefficients are
//! extrapolated. A set that fits into one block needs one round.

use serde::{Deserialize, Serialize};
use stradsap::Schedule;

use super::job::{Change, Job};
use super::model::Model;
use super::set::Set;
use crate::regression::solve::Anderson;

/// A set's gap is to be this part of the whole one before the whole one is looked at again.
const PART: f64 = 0.3;
/// Passes from one look at the set's gap to the next.
const EVERY: u32 = 10;
/// Passes before the coefficients that aren't 0 are solved for by themselves.
const SOME: u32 = 5;
/// Passes at the most over one set.
const MOST: u32 = 2_000;

/// A job of the working set beside those of all regressions: moves some coefficients by so much, if the objective falls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Move {
    /// The columns.
    pub columns: Vec<u32>,
    /// By how much.
    pub steps: Vec<f64>,
}

/// The schedule for a quadratic loss.
#[derive(Debug, Clone)]
pub struct WorkingSet {
    set: Set,
    /// The relative gap that is wanted in the end.
    tolerance: f64,
    next: Next,
    passes: u32,
    /// Passes since the coefficients that aren't 0 were solved for by themselves.
    since: u32,
    /// What the objective had fallen by when the set's gap was last looked at.
    fell: f64,
    goal: f64,
    anderson: Anderson,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    Start,
    Block(usize),
    Passed,
    Look,
    Judge,
    Whole,
}

impl WorkingSet {
    /// With these columns; `tolerance` is the relative gap that is wanted in the end.
    pub fn new(set: Set, tolerance: f64) -> WorkingSet {
        WorkingSet {
            set,
            tolerance,
            next: Next::Start,
            passes: 0,
            since: 0,
            fell: 0.0,
            goal: 0.0,
            anderson: Anderson::default(),
        }
    }

    fn start(&mut self, model: &Model) {
        self.set.screen(model);
        self.set.grow(model);
        let primal = model.whole.primal;
        self.goal = (PART * model.whole.absolute()).max(0.3 * self.tolerance * primal).max(1e-15 * primal);
        (self.passes, self.since, self.fell) = (0, 0, model.fell);
        self.anderson.clear();
        self.next = if self.set.blocks() == 0 { Next::Whole } else { Next::Block(0) };
    }

    /// After a pass over all blocks of the set.
    fn passed(&mut self, model: &Model) -> Option<Job<Move>> {
        self.passes += 1;
        self.since += 1;
        self.next = if self.passes.is_multiple_of(EVERY) { Next::Look } else { Next::Block(0) };
        if self.passes.is_multiple_of(SOME)
            && let Some(job) = self.set.support(model, self.since, 0.3 * self.goal)
        {
            self.since = 0;
            self.anderson.clear();
            return Some(job);
        }
        let columns = self.set.members();
        let here: Vec<f64> = columns.iter().map(|&column| model.coefficients[column as usize]).collect();
        let guess = self.anderson.push(&here)?;
        let steps = guess.iter().zip(&here).map(|(guess, b)| guess - b).collect();
        Some(Job::Own(Move { columns, steps }))
    }
}

impl AsRef<Set> for WorkingSet {
    fn as_ref(&self) -> &Set {
        &self.set
    }
}

impl AsMut<Set> for WorkingSet {
    fn as_mut(&mut self) -> &mut Set {
        &mut self.set
    }
}

impl Schedule<Model, Job<Move>, Change> for WorkingSet {
    fn schedule(&mut self, _round: usize, model: &Model, jobs: &mut Vec<Job<Move>>) {
        while jobs.is_empty() {
            match self.next {
                Next::Start => self.start(model),
                Next::Block(number) => {
                    let alone = self.set.blocks() == 1;
                    jobs.push(self.set.block(number, model, (!alone).then_some(1), self.goal));
                    self.next = match number + 1 {
                        _ if alone => Next::Whole,
                        next if next < self.set.blocks() => Next::Block(next),
                        _ => Next::Passed,
                    };
                }
                Next::Passed => jobs.extend(self.passed(model)),
                Next::Look => {
                    jobs.push(Job::Gradient { columns: self.set.members(), whole: false });
                    self.next = Next::Judge;
                }
                Next::Judge => {
                    let fell = model.fell - std::mem::replace(&mut self.fell, model.fell);
                    let nothing = fell <= 1e-16 * model.some.primal;
                    let done = model.some.absolute() <= self.goal || nothing || self.passes >= MOST;
                    self.next = if done { Next::Whole } else { Next::Block(0) };
                }
                Next::Whole => {
                    jobs.push(Job::Gradient { columns: self.set.alive(), whole: true });
                    self.next = Next::Start;
                }
            }
        }
    }
}
