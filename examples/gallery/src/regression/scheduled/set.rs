//! A working set of columns: which columns can still come to have a coefficient, and which are worked on, in blocks.

use std::sync::Arc;

use super::design::Design;
use super::job::{Block, Job};
use super::model::Model;
use super::rounds::Kept;
use crate::regression::Loss;
use crate::regression::newton;
use crate::regression::problem::Problem;

/// What a column costs in a pass besides its values, in values.
const ROUND: f64 = 60.0;
/// Columns in the first working set.
const FIRST: usize = 50;
/// This many columns join for each that has more in common with the residual than it may in the end.
const NEAR: usize = 3;
/// Columns of a block, at least and at most.
const ROOM: (usize, usize) = (32, 512);
/// The most where inner products change with each model of the loss: they serve some passes only.
const ROOM_ON_MODEL: usize = 64;

/// The columns that count, and those that are worked on.
#[derive(Debug, Clone)]
pub struct Set {
    design: Arc<Design>,
    /// How many values each column has.
    stored: Arc<[u32]>,
    kept: Kept,
    inside: Vec<bool>,
    most_room: usize,
}

impl Set {
    /// Of none of a problem's columns yet; `stored` is how many values each has.
    pub(super) fn new(problem: &Problem, design: &Design, stored: Vec<u32>) -> Set {
        let inside = vec![false; design.columns() + 1];
        let most_room = if problem.loss == Loss::Square { ROOM.1 } else { ROOM_ON_MODEL };
        let (design, stored) = (Arc::new(design.clone()), stored.into());
        let mut set = Set { design, stored, kept: Kept::default(), inside, most_room };
        set.restart(problem);
        set
    }

    /// What all columns are.
    pub(super) fn design(&self) -> &Design {
        &self.design
    }

    /// All columns count again. Those that are worked on stay.
    pub(super) fn restart(&mut self, problem: &Problem) {
        self.kept.alive = self.design.with_intercept(&problem.columns());
    }

    /// What has to be kept between epochs.
    pub(super) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Goes on with what another run had kept.
    pub(super) fn restore(&mut self, kept: Kept) {
        kept.blocks.iter().flatten().for_each(|&column| self.inside[column as usize] = true);
        self.kept = kept;
    }

    /// All that count.
    pub(super) fn alive(&self) -> Vec<u32> {
        self.kept.alive.clone()
    }

    /// All that are worked on.
    pub(super) fn members(&self) -> Vec<u32> {
        self.kept.blocks.iter().flatten().copied().collect()
    }

    /// How many blocks they are.
    pub(super) fn blocks(&self) -> usize {
        self.kept.blocks.len()
    }

    /// The job of a block: this many passes, or as many as lead to a gap of `goal`.
    pub(super) fn block<Own>(&self, number: usize, model: &Model, passes: Option<u32>, goal: f64) -> Job<Own> {
        let columns = self.kept.blocks[number].clone();
        let (number, known) = (Some(number as u32), model.known(number) as u32);
        let room = if self.is_intercept(columns[0]) { 1 } else { self.kept.room as u32 };
        Job::Block(Block { number, columns, known, room, passes, goal })
    }

    /// The job of all columns that have a coefficient, as one block: until their gap is not above `goal`. None if they are too
    /// many, or if that would take longer than this many passes over all blocks.
    pub(super) fn support<Own>(&self, model: &Model, passes: u32, goal: f64) -> Option<Job<Own>> {
        let stored =
            |columns: &[u32]| columns.iter().map(|&column| f64::from(self.stored[column as usize])).sum::<f64>();
        let members = self.members();
        let pass = stored(&members) + ROUND * members.len() as f64;
        let columns: Vec<u32> =
            members.into_iter().filter(|&column| model.coefficients[column as usize] != 0.0).collect();
        let values = stored(&columns);
        let equations = (columns.len() as f64).powi(3) / 24.0;
        let products = values * values / self.design.rows();
        if columns.is_empty() || columns.len() > newton::MOST || equations + products > f64::from(passes) * pass {
            return None;
        }
        let (number, room) = (None, columns.len() as u32);
        Some(Job::Block(Block { number, columns, known: 0, room, passes: None, goal }))
    }

    /// The block of the intercept, if there is one.
    pub(super) fn intercept_block(&self) -> Option<usize> {
        self.kept.blocks.iter().position(|block| self.is_intercept(block[0]))
    }

    fn is_intercept(&self, column: u32) -> bool {
        self.design.intercept() == Some(column)
    }

    /// Drops columns for good that can't have a coefficient where the objective is least (gap-safe screening).
    pub(super) fn screen(&mut self, model: &Model) {
        let gap = model.whole.absolute();
        if !gap.is_finite() {
            return;
        }
        let design = &self.design;
        self.kept.alive.retain(|&column| {
            let share = (model.whole.scale * model.gradient[column as usize]).abs();
            model.coefficients[column as usize] != 0.0
                || design.intercept() == Some(column)
                || share + design.safe_distance(column, gap) >= model.lambda
        });
    }

    /// Lets columns in: those that have a coefficient, and those that are nearest to having one.
    pub(super) fn grow(&mut self, model: &Model) {
        let Set { design, inside, .. } = &*self;
        let lambda = model.lambda;
        // How far the dual point is from where the column may have a coefficient.
        let distance = |column: u32| {
            let share = (model.whole.scale * model.gradient[column as usize]).abs();
            (lambda - share) / design.curvature(column).max(f64::MIN_POSITIVE).sqrt()
        };
        let mut joining: Vec<u32> = Vec::new();
        let mut outside: Vec<(f64, u32)> = Vec::new();
        let (mut nonzeros, mut violators) = (0, 0);
        for &column in &self.kept.alive {
            let j = column as usize;
            nonzeros += usize::from(model.coefficients[j] != 0.0);
            if inside[j] {
                continue;
            }
            if model.coefficients[j] != 0.0 || self.is_intercept(column) {
                joining.push(column);
            } else {
                violators += usize::from(model.gradient[j].abs() > lambda);
                outside.push((distance(column), column));
            }
        }
        let size: usize = self.kept.blocks.iter().map(Vec::len).sum();
        let wanted =
            if size == 0 { FIRST.max(2 * nonzeros) } else { (NEAR * violators).min((size / 2).max(2 * nonzeros)) };
        let wanted = wanted.min(outside.len());
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        if wanted > 0 && wanted < outside.len() {
            outside.select_nth_unstable_by(wanted - 1, order);
        }
        outside.truncate(wanted);
        outside.sort_unstable_by(order);
        joining.extend(outside.iter().map(|&(_, column)| column));
        if self.kept.room == 0 && !joining.is_empty() {
            // An update within a block should cost about as much as an inner product of its column.
            let stored = |column: &u32| self.stored.get(*column as usize).map_or(0, |&values| values as usize);
            let values: usize = joining.iter().map(stored).sum();
            let room = (2 * values / joining.len()).next_multiple_of(16);
            self.kept.room = room.clamp(ROOM.0, self.most_room);
        }
        joining.into_iter().for_each(|column| self.add(column));
    }

    fn add(&mut self, column: u32) {
        self.inside[column as usize] = true;
        let intercept = self.design.intercept();
        let Kept { blocks, room, .. } = &mut self.kept;
        match blocks.last_mut() {
            Some(block) if block.len() < *room && Some(column) != intercept && Some(block[0]) != intercept => {
                block.push(column);
            }
            _ => blocks.push(vec![column]),
        }
    }
}
