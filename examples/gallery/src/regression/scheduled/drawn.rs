//! The papers' schedules: some coefficients a round, each of which sees the residual that the round began with.

use std::sync::Arc;

use stradsap::{DynRegr, Pick, Schedule, schedule_dyn_regr};

use super::design::Design;
use super::model::Model;

/// Coefficients that the library's schedule draws. Each epoch begins with a schedule of its own, whose random numbers follow from the
/// seed and the updates so far: so a run can go on from there.
#[derive(Debug, Clone)]
pub struct Drawn<D> {
    inner: DynRegr<D>,
    design: Arc<Design>,
    /// The columns that count, with the intercept's, as the inner schedule numbers them.
    columns: Vec<u32>,
    /// The number of each column.
    places: Vec<u32>,
    /// How many values each column has.
    stored: Arc<[u32]>,
    scratch: Vec<usize>,
    /// The values of the columns that were updated so far.
    pub(super) touched: u64,
    options: DrawnOptions<D>,
}

/// How coefficients are drawn.
#[derive(Debug, Clone)]
pub(super) struct DrawnOptions<D> {
    pub(super) pick: Pick,
    /// Coefficients of a round.
    pub(super) width: usize,
    /// Updates of an epoch.
    pub(super) updates: u64,
    pub(super) seed: u64,
    /// How much two of a round may be correlated, by their numbers.
    pub(super) rho: f64,
    pub(super) correlation: D,
}

impl<D: Fn(usize, usize) -> f64 + Clone> Drawn<D> {
    pub(super) fn new(design: &Design, columns: Vec<u32>, stored: Vec<u32>, options: DrawnOptions<D>) -> Drawn<D> {
        let inner =
            schedule_dyn_regr(columns.len(), options.width).uncorrelated(options.rho, options.correlation.clone());
        let (design, stored) = (Arc::new(design.clone()), stored.into());
        let (places, scratch) = (vec![0; design.columns() + 1], Vec::new());
        let mut drawn = Drawn { inner, design, columns, places, stored, scratch, touched: 0, options };
        drawn.number();
        drawn
    }

    fn number(&mut self) {
        for (place, &column) in (0..).zip(&self.columns) {
            self.places[column as usize] = place;
        }
    }

    /// Gives how many updates the model is to have at the epoch's end.
    pub(super) fn begin_epoch(&mut self, model: &Model) -> u64 {
        let DrawnOptions { pick, width, updates, seed, rho, correlation } = &self.options;
        let inner = schedule_dyn_regr(self.columns.len(), *width).pick(*pick).seed(seed ^ (model.updates << 20));
        self.inner = inner.uncorrelated(*rho, correlation.clone());
        let end = model.updates + updates;
        match pick {
            Pick::Cyclic => {
                // Where the last epoch ended; nothing is compared with anything.
                self.columns.sort_unstable();
                let first = (model.updates % self.columns.len() as u64) as usize;
                self.columns.rotate_left(first);
                self.number();
            }
            Pick::Random => {}
            Pick::Priority => self.inner.set_priorities(|place| {
                let column = self.columns[place];
                let gradient = model.gradient[column as usize];
                let step = model.target(&self.design, column, gradient) - model.coefficients[column as usize];
                step * self.design.curvature(column).sqrt()
            }),
        }
        end
    }

    pub(super) fn begin(&mut self, pipeline: usize) {
        Schedule::<(), usize, f64>::begin(&mut self.inner, pipeline);
    }

    /// The columns of a round.
    pub(super) fn schedule(&mut self, round: usize) -> impl Iterator<Item = u32> {
        self.scratch.clear();
        Schedule::<(), usize, f64>::schedule(&mut self.inner, round, &(), &mut self.scratch);
        self.scratch.iter().map(|&place| self.columns[place])
    }

    /// A change counts by what it does to the objective.
    pub(super) fn observe(&mut self, column: u32, step: f64) {
        self.touched += u64::from(self.stored[column as usize]);
        let size = step * self.design.curvature(column).sqrt();
        Schedule::<(), usize, f64>::observe(&mut self.inner, &(self.places[column as usize] as usize), &size);
    }
}
