//! Hogwild: threads run over slices of the ratings and update shared rows without locks, now and then over each other.
//! Sound in Rust as relaxed atomics, one a number, which the compiler doesn't turn into vector instructions.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

use anyhow::Result;
use stradsap_examples::model::sgd_step;

use super::{Contestant, sum_of};
use crate::data::{Rating, RatingSet};
use crate::model::Factors;

/// A row of floats, each as its bits.
type SharedRow<const K: usize> = [AtomicU32; K];

/// The loop without locks.
pub struct Hogwild<'a, const K: usize> {
    set: &'a RatingSet,
    threads: usize,
    p: Vec<SharedRow<K>>,
    q: Vec<SharedRow<K>>,
}

impl<'a, const K: usize> Hogwild<'a, K> {
    /// The loop on this many threads, at the initial factors.
    pub fn new(set: &'a RatingSet, threads: usize) -> Self {
        let Factors { p, q } = Factors::initial(set);
        let share = |rows: Vec<[f32; K]>| rows.iter().map(|row| row.map(|x| AtomicU32::new(x.to_bits()))).collect();
        Self { set, threads, p: share(p), q: share(q) }
    }

    fn train(&self, ratings: &[Rating]) -> f64 {
        let (alpha, lambda) = (self.set.alpha, self.set.lambda);
        let mut loss = 0.0;
        for r in ratings {
            let (shared_p, shared_q) = (&self.p[r.user as usize], &self.q[r.item as usize]);
            let (mut p, mut q) = (load(shared_p), load(shared_q));
            let e = sgd_step(&mut p, &mut q, r.stars, alpha, lambda);
            store(shared_p, &p);
            store(shared_q, &q);
            loss += f64::from(e * e);
        }
        loss
    }
}

#[inline(always)]
fn load<const K: usize>(row: &SharedRow<K>) -> [f32; K] {
    std::array::from_fn(|k| f32::from_bits(row[k].load(Relaxed)))
}

#[inline(always)]
fn store<const K: usize>(row: &SharedRow<K>, values: &[f32; K]) {
    for (shared, value) in row.iter().zip(values) {
        shared.store(value.to_bits(), Relaxed);
    }
}

impl<const K: usize> Contestant<K> for Hogwild<'_, K> {
    fn name(&self) -> &'static str {
        "hogwild"
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn epoch(&mut self) -> Result<f64> {
        let this = &*self;
        let slice = this.set.train.len().div_ceil(this.threads).max(1);
        thread::scope(|scope| {
            let slices = this.set.train.chunks(slice);
            let running: Vec<_> = slices.map(|ratings| scope.spawn(move || this.train(ratings))).collect();
            Ok(sum_of(running))
        })
    }

    fn factors(&self) -> Result<Factors<K>> {
        Ok(Factors { p: self.p.iter().map(load).collect(), q: self.q.iter().map(load).collect() })
    }
}
