//! The working set's schedule for a loss that isn't quadratic (newGLMNET: Yuan, Ho and Lin, 2012).
//!
//! Blocks are updated on a quadratic model of the loss, whose step is then searched along; so on, until a pass over a new model
//! does little. The rest is as in the schedule for a quadratic loss.

use serde::{Deserialize, Serialize};
use stradsap::Schedule;

use super::job::{Change, Job};
use super::model::Model;
use super::set::Set;

/// A pass on the quadratic model that does less than this part of what the first did is the last.
const LITTLE: f64 = 0.05;
/// Passes on one model at the most, and models in an epoch.
const MOST: (u32, u32) = (60, 100);
/// The shortest part of a step that is tried.
const SHORTEST: f64 = 1e-6;

/// The jobs of a loss that isn't quadratic, beside those of all regressions.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Newton {
    /// Takes the loss's second derivative where it is now for a quadratic model of the loss, which blocks then minimise.
    Model,
    /// Takes a part of the step that blocks have found on the quadratic model, if the objective falls enough.
    Search {
        /// Which part of it.
        part: f64,
    },
    /// The dual objective where the residual is scaled by so much.
    Dual {
        /// By how much.
        scale: f64,
    },
}

/// The schedule for a logistic loss.
#[derive(Debug, Clone)]
pub struct NewtonSet {
    set: Set,
    tolerance: f64,
    next: Next,
    goal: f64,
    models: u32,
    passes: u32,
    /// What the objective fell by before this pass, and in the first pass.
    fell: f64,
    first: f64,
    part: f64,
    /// Whether only the intercept is dealt with, at an epoch's end: the dual point needs it to be exact.
    centring: bool,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Next {
    Start,
    Model,
    Block(usize),
    Passed,
    Search,
    Searched,
    Whole,
    Dual,
}

impl NewtonSet {
    /// With these columns; `tolerance` is the relative gap that is wanted in the end.
    pub fn new(set: Set, tolerance: f64) -> NewtonSet {
        let next = Next::Start;
        let (goal, fell, first, part) = (0.0, 0.0, 0.0, 1.0);
        NewtonSet { set, tolerance, next, goal, models: 0, passes: 0, fell, first, part, centring: false }
    }

    fn start(&mut self, model: &Model) {
        self.set.screen(model);
        self.set.grow(model);
        let primal = model.whole.primal;
        self.goal = (0.3 * model.whole.absolute()).max(0.3 * self.tolerance * primal).max(1e-15 * primal);
        (self.models, self.centring) = (0, false);
        self.next = if self.set.blocks() == 0 { Next::Whole } else { Next::Model };
    }

    fn passed(&mut self, model: &Model) {
        let fell = model.fell - self.fell;
        self.fell = model.fell;
        self.passes += 1;
        if self.passes == 1 {
            self.first = fell;
        }
        let enough = self.centring || fell <= LITTLE * self.first || self.passes >= MOST.0;
        self.next = if enough { Next::Search } else { Next::Block(0) };
    }

    fn searched(&mut self, model: &Model) {
        if !model.taken && self.part > 0.0 {
            // The last resort is a part of 0, which leaves everything as it was.
            self.part = if self.part > SHORTEST { self.part / 2.0 } else { 0.0 };
            self.next = Next::Search;
            return;
        }
        self.models += 1;
        let stuck = self.part == 0.0 || self.models >= MOST.1;
        let little = if self.centring { 1e-22 * model.some.primal } else { 0.02 * self.goal };
        self.next = Next::Model;
        if stuck || self.first <= little {
            if self.centring || self.set.design().intercept().is_none() {
                self.next = Next::Whole;
            }
            (self.centring, self.models) = (true, 0);
        }
    }
}

impl AsRef<Set> for NewtonSet {
    fn as_ref(&self) -> &Set {
        &self.set
    }
}

impl AsMut<Set> for NewtonSet {
    fn as_mut(&mut self) -> &mut Set {
        &mut self.set
    }
}

impl Schedule<Model, Job<Newton>, Change> for NewtonSet {
    fn schedule(&mut self, _round: usize, model: &Model, jobs: &mut Vec<Job<Newton>>) {
        while jobs.is_empty() {
            match self.next {
                Next::Start => self.start(model),
                Next::Model => {
                    jobs.push(Job::Own(Newton::Model));
                    (self.passes, self.fell, self.part) = (0, 0.0, 1.0);
                    self.next = Next::Block(0);
                }
                Next::Block(number) => {
                    let intercept = self.set.intercept_block();
                    let number = if self.centring { intercept.unwrap_or(number) } else { number };
                    jobs.push(self.set.block(number, model, Some(1), 0.0));
                    let last = self.centring || number + 1 == self.set.blocks();
                    self.next = if last { Next::Passed } else { Next::Block(number + 1) };
                }
                Next::Passed => self.passed(model),
                Next::Search => {
                    jobs.push(Job::Own(Newton::Search { part: self.part }));
                    self.next = Next::Searched;
                }
                Next::Searched => self.searched(model),
                Next::Whole => {
                    jobs.push(Job::Gradient { columns: self.set.alive(), whole: true });
                    self.next = Next::Dual;
                }
                Next::Dual => {
                    jobs.push(Job::Own(Newton::Dual { scale: model.whole.scale }));
                    self.next = Next::Start;
                }
            }
        }
    }
}
