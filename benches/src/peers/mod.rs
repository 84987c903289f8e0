//! The contestants: the same update of the same factors, run over the ratings in different ways.

pub mod blocked;
pub mod copies;
pub mod hogwild;
pub mod locked;
pub mod ours;
pub mod sequential;

use std::thread::ScopedJoinHandle;

use anyhow::Result;

use crate::model::Factors;

/// The name of the plain loop, which the others are compared with.
pub const TWIN: &str = "sequential twin";
/// The name of the plain loop run several times at once.
pub const COPIES: &str = "copies of the twin";
/// The name of the loop that stradsap makes parallel.
pub const STRADSAP: &str = "stradsap";

/// A way to train factors of rank `K` on a set of ratings.
pub trait Contestant<const K: usize> {
    /// What tables call it.
    fn name(&self) -> &'static str;

    /// How many threads it runs on.
    fn threads(&self) -> usize;

    /// One pass over the training ratings; returns the sum of the squared errors met on the way.
    ///
    /// # Errors
    /// Whatever keeps the contestant from running; times are never an error.
    fn epoch(&mut self) -> Result<f64>;

    /// The factors as they are now.
    ///
    /// # Errors
    /// Whatever keeps the contestant from handing them out.
    fn factors(&self) -> Result<Factors<K>>;

    /// How many times the training ratings are gone through in one epoch.
    fn passes(&self) -> usize {
        1
    }

    /// What the first epoch cost beyond its own pass, for a contestant that prepares then.
    fn preparation(&self) -> Option<Preparation> {
        None
    }

    /// How many plans it has made so far, for a contestant that makes plans: 1 when each epoch reuses the first.
    fn plans(&self) -> Option<usize> {
        None
    }
}

/// What a contestant did before its first pass, in seconds.
#[derive(Clone, Copy)]
pub struct Preparation {
    /// Recording what the loop touches.
    pub recording: f64,
    /// Planning from the record.
    pub planning: f64,
    /// The whole first call: recording, planning, laying out and one pass.
    pub first_call: f64,
}

/// Waits for threads and adds up their losses; a panic of one of them goes on here.
fn sum_of(threads: Vec<ScopedJoinHandle<'_, f64>>) -> f64 {
    threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).sum()
}
