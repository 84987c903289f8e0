//! A worker is killed in the middle of an epoch.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use stradsap::ClusterOptions;

use super::{RANK, processes};
use crate::data::RatingSet;
use crate::harness::Samples;
use crate::peers::Contestant;
use crate::peers::ours::Ours;

/// Loops between the last snapshot and the one in which the worker dies.
pub const REPLAYED: usize = 5;

/// What some kills led to.
pub struct Recovery {
    /// Seconds of each epoch in which a worker was killed.
    pub seconds: Samples,
    /// Whether the model is the one that a single process trains.
    pub same_bits: bool,
}

/// Kills a worker half-way through an epoch, `kills` times over; an undisturbed epoch takes `epoch` seconds.
///
/// # Errors
/// The job doesn't survive it, or no worker died in time.
pub fn recovery(set: &RatingSet, job: &ClusterOptions, epoch: f64, kills: usize) -> Result<Recovery> {
    // Workers of others may be about.
    let others = processes::workers()?;
    let mut ours = Ours::<RANK>::on_workers(set, job)?;
    ours.epoch()?;
    let (mut done, mut seconds) = (1, Vec::new());
    for _ in 0..kills {
        // The log begins anew with each recovery, whose own loop is the first in it.
        for _ in 1..REPLAYED {
            ours.epoch()?;
        }
        let victim = processes::workers()?.difference(&others).next().copied().context("the job has no worker")?;
        let start = Instant::now();
        thread::scope(|scope| -> Result<()> {
            let killer = scope.spawn(|| {
                thread::sleep(Duration::from_secs_f64(epoch / 2.0));
                processes::kill(victim)
            });
            ours.epoch()?;
            seconds.push(start.elapsed().as_secs_f64());
            killer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        done += REPLAYED;
        if processes::workers()?.contains(&victim) {
            bail!("worker {victim} is still alive");
        }
    }
    let mut alone = Ours::<RANK>::new(set, 2)?;
    for _ in 0..done {
        alone.epoch()?;
    }
    let same_bits = alone.factors()?.fingerprint() == ours.factors()?.fingerprint();
    Ok(Recovery { seconds: Samples::new(seconds), same_bits })
}
