//! The sequential twin: the plain loop over the ratings as they lie.

use anyhow::Result;
use stradsap_examples::model::sgd_step;

use super::{Contestant, TWIN};
use crate::data::{Rating, RatingSet};
use crate::model::Factors;

/// The plain loop.
pub struct Sequential<'a, const K: usize> {
    set: &'a RatingSet,
    factors: Factors<K>,
}

impl<'a, const K: usize> Sequential<'a, K> {
    /// The twin, at the initial factors.
    pub fn new(set: &'a RatingSet) -> Self {
        Self { set, factors: Factors::initial(set) }
    }
}

/// One step for each rating in turn; returns the sum of the squared errors.
pub(super) fn plain_loop<const K: usize>(ratings: &[Rating], factors: &mut Factors<K>, alpha: f32, lambda: f32) -> f64 {
    let Factors { p, q } = factors;
    let mut loss = 0.0;
    for r in ratings {
        let e = sgd_step(&mut p[r.user as usize], &mut q[r.item as usize], r.stars, alpha, lambda);
        loss += f64::from(e * e);
    }
    loss
}

impl<const K: usize> Contestant<K> for Sequential<'_, K> {
    fn name(&self) -> &'static str {
        TWIN
    }

    fn threads(&self) -> usize {
        1
    }

    fn epoch(&mut self) -> Result<f64> {
        Ok(plain_loop(&self.set.train, &mut self.factors, self.set.alpha, self.set.lambda))
    }

    fn factors(&self) -> Result<Factors<K>> {
        Ok(self.factors.clone())
    }
}
