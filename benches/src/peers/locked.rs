//! A lock a row: rayon runs over the ratings in parallel, and each step locks the user's row, then the item's (always
//! in this order, so no two steps wait for each other).

use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::Result;
use rayon::prelude::*;
use stradsap_examples::model::sgd_step;

use super::Contestant;
use crate::data::RatingSet;
use crate::model::Factors;

/// The loop with locks.
pub struct Locked<'a, const K: usize> {
    set: &'a RatingSet,
    pool: rayon::ThreadPool,
    p: Vec<Mutex<[f32; K]>>,
    q: Vec<Mutex<[f32; K]>>,
}

impl<'a, const K: usize> Locked<'a, K> {
    /// The loop on this many threads, at the initial factors.
    ///
    /// # Errors
    /// The threads can't be started.
    pub fn new(set: &'a RatingSet, threads: usize) -> Result<Self> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
        let Factors { p, q } = Factors::initial(set);
        let lockable = |rows: Vec<[f32; K]>| rows.into_iter().map(Mutex::new).collect();
        Ok(Self { set, pool, p: lockable(p), q: lockable(q) })
    }
}

#[inline(always)]
fn locked<R>(row: &Mutex<R>) -> MutexGuard<'_, R> {
    row.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<const K: usize> Contestant<K> for Locked<'_, K> {
    fn name(&self) -> &'static str {
        "rayon, a lock a row"
    }

    fn threads(&self) -> usize {
        self.pool.current_num_threads()
    }

    fn epoch(&mut self) -> Result<f64> {
        let Self { set, p, q, .. } = &*self;
        let step = |r: &crate::data::Rating| {
            let mut p = locked(&p[r.user as usize]);
            let mut q = locked(&q[r.item as usize]);
            let e = sgd_step(&mut p[..], &mut q[..], r.stars, set.alpha, set.lambda);
            f64::from(e * e)
        };
        Ok(self.pool.install(|| set.train.par_iter().map(step).sum()))
    }

    fn factors(&self) -> Result<Factors<K>> {
        let values = |rows: &[Mutex<[f32; K]>]| rows.iter().map(|row| *locked(row)).collect();
        Ok(Factors { p: values(&self.p), q: values(&self.q) })
    }
}
