//! Independent copies of the sequential twin, one a thread, each with its own ratings and factors. They share nothing
//! but the machine, so what they reach together is the most that its cores and memory give to this plain loop.

use std::thread;

use anyhow::Result;

use super::sequential::plain_loop;
use super::{COPIES, Contestant, sum_of};
use crate::data::{Rating, RatingSet};
use crate::model::Factors;

/// Several twins at once.
pub struct Copies<const K: usize> {
    twins: Vec<Twin<K>>,
}

struct Twin<const K: usize> {
    ratings: Vec<Rating>,
    factors: Factors<K>,
    alpha: f32,
    lambda: f32,
}

impl<const K: usize> Copies<K> {
    /// A copy for each thread, at the initial factors.
    pub fn new(set: &RatingSet, threads: usize) -> Self {
        let twin = || Twin {
            ratings: set.train.clone(),
            factors: Factors::initial(set),
            alpha: set.alpha,
            lambda: set.lambda,
        };
        Self { twins: (0..threads).map(|_| twin()).collect() }
    }
}

impl<const K: usize> Contestant<K> for Copies<K> {
    fn name(&self) -> &'static str {
        COPIES
    }

    fn threads(&self) -> usize {
        self.twins.len()
    }

    fn passes(&self) -> usize {
        self.twins.len()
    }

    fn epoch(&mut self) -> Result<f64> {
        thread::scope(|scope| {
            let running: Vec<_> = self.twins.iter_mut().map(|twin| scope.spawn(|| twin.epoch())).collect();
            Ok(sum_of(running))
        })
    }

    fn factors(&self) -> Result<Factors<K>> {
        Ok(self.twins[0].factors.clone())
    }
}

impl<const K: usize> Twin<K> {
    fn epoch(&mut self) -> f64 {
        plain_loop(&self.ratings, &mut self.factors, self.alpha, self.lambda)
    }
}
