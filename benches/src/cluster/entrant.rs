//! Contestants that take turns, and what is kept of their epochs.

use std::time::Instant;

use anyhow::Result;
use stradsap::ClusterOptions;

use super::RANK;
use super::ranks::Ranks;
use crate::data::RatingSet;
use crate::harness::Samples;
use crate::peers::ours::Ours;
use crate::peers::{Contestant, Preparation};

/// A contestant and its epochs so far.
pub struct Entrant {
    /// What tables call it.
    pub name: &'static str,
    /// How many processes run blocks.
    pub processes: usize,
    /// On how many threads each.
    pub threads: usize,
    engine: Engine,
    epochs: Vec<Epoch>,
    /// Seconds an epoch, by turn.
    turns: Vec<f64>,
}

enum Engine {
    Ours(Box<Ours<RANK>>),
    Ranks(Ranks),
}

#[derive(Clone, Copy)]
struct Epoch {
    seconds: f64,
    loss: f64,
    bytes_sent: u64,
    /// Seconds, the average of the workers.
    transferring: f64,
    waiting: f64,
    computing: f64,
    /// Seconds of the worker that computed longest.
    longest: f64,
}

impl Entrant {
    /// stradsap on this many threads of this process.
    ///
    /// # Errors
    /// As [`Ours::new`].
    pub fn alone(set: &RatingSet, threads: usize) -> Result<Self> {
        Ok(Self::of("one process", 1, threads, Engine::Ours(Box::new(Ours::new(set, threads)?))))
    }

    /// stradsap on worker processes of one thread.
    ///
    /// # Errors
    /// As [`Ours::on_workers`].
    pub fn workers(name: &'static str, set: &RatingSet, job: &ClusterOptions) -> Result<Self> {
        Ok(Self::of(name, job.workers(), 1, Engine::Ours(Box::new(Ours::on_workers(set, job)?))))
    }

    /// The program written for MPI.
    pub fn ranks(ranks: Ranks, processes: usize) -> Self {
        Self::of("MPI by hand", processes, 1, Engine::Ranks(ranks))
    }

    fn of(name: &'static str, processes: usize, threads: usize, engine: Engine) -> Self {
        Self { name, processes, threads, engine, epochs: Vec::new(), turns: Vec::new() }
    }

    /// Some epochs, of which nothing is kept.
    ///
    /// # Errors
    /// Whatever keeps the contestant from running.
    pub fn warm_up(&mut self, epochs: usize) -> Result<()> {
        self.run(epochs).map(drop)
    }

    /// A turn of this many epochs.
    ///
    /// # Errors
    /// Whatever keeps the contestant from running.
    pub fn turn(&mut self, epochs: usize) -> Result<()> {
        let run = self.run(epochs)?;
        self.turns.push(run.iter().map(|epoch| epoch.seconds).sum::<f64>() / epochs as f64);
        self.epochs.extend(run);
        Ok(())
    }

    fn run(&mut self, epochs: usize) -> Result<Vec<Epoch>> {
        match &mut self.engine {
            Engine::Ours(ours) => (0..epochs).map(|_| epoch_of(ours)).collect(),
            Engine::Ranks(ranks) => {
                let quiet = |e: super::ranks::Epoch| Epoch {
                    seconds: e.seconds,
                    loss: e.loss,
                    bytes_sent: 0,
                    transferring: 0.0,
                    waiting: 0.0,
                    computing: 0.0,
                    longest: 0.0,
                };
                Ok(ranks.epochs(epochs)?.into_iter().map(quiet).collect())
            }
        }
    }

    /// Seconds an epoch, a sample for each turn.
    pub fn seconds(&self) -> Samples {
        Samples::new(self.turns.clone())
    }

    /// Seconds an epoch on average, snapshots included, which come every this many loops.
    pub fn mean(&self) -> f64 {
        self.average(|epoch| epoch.seconds)
    }

    /// The sum of squared errors of the last epoch.
    pub fn loss(&self) -> f64 {
        self.epochs.last().map_or(f64::NAN, |epoch| epoch.loss)
    }

    /// Bytes that an epoch sends, the median.
    pub fn bytes_sent(&self) -> f64 {
        Samples::new(self.epochs.iter().map(|epoch| epoch.bytes_sent as f64).collect()).median()
    }

    /// The part of an epoch in which a worker's network received parts, on average.
    pub fn transferring(&self) -> f64 {
        self.average(|epoch| epoch.transferring) / self.mean()
    }

    /// The part of an epoch in which a worker's threads waited, on average.
    pub fn waiting(&self) -> f64 {
        self.average(|epoch| epoch.waiting) / self.mean()
    }

    /// How much longer the slowest worker of each epoch computes than they do on average, in parts of that.
    pub fn uneven(&self) -> f64 {
        self.average(|epoch| epoch.longest) / self.average(|epoch| epoch.computing) - 1.0
    }

    fn average(&self, what: impl Fn(&Epoch) -> f64) -> f64 {
        self.epochs.iter().map(what).sum::<f64>() / self.epochs.len() as f64
    }

    /// What the first call cost; none for a program that has no such thing.
    pub fn preparation(&self) -> Option<Preparation> {
        match &self.engine {
            Engine::Ours(ours) => ours.preparation(),
            Engine::Ranks(_) => None,
        }
    }

    /// How many blocks stradsap's plan has; none for a program without a plan, or before the first epoch.
    pub fn blocks(&self) -> Option<usize> {
        let Engine::Ours(ours) = &self.engine else { return None };
        Some(ours.report()?.blocks())
    }

    /// A hash of the factors; none for a program that keeps them to itself.
    ///
    /// # Errors
    /// The factors can't be fetched.
    pub fn fingerprint(&self) -> Result<Option<u64>> {
        match &self.engine {
            Engine::Ours(ours) => Ok(Some(ours.factors()?.fingerprint())),
            Engine::Ranks(_) => Ok(None),
        }
    }
}

fn epoch_of(ours: &mut Ours<RANK>) -> Result<Epoch> {
    let start = Instant::now();
    let loss = ours.epoch()?;
    let seconds = start.elapsed().as_secs_f64();
    let (workers, bytes_sent) = ours.report().map_or((&[][..], 0), |report| (report.workers(), report.bytes_sent()));
    let count = workers.len().max(1) as f64;
    Ok(Epoch {
        seconds,
        loss,
        bytes_sent,
        transferring: workers.iter().map(|worker| worker.transferring).sum::<f64>() / count,
        waiting: workers.iter().map(|worker| worker.waiting).sum::<f64>() / count,
        computing: workers.iter().map(|worker| worker.computing).sum::<f64>() / count,
        longest: workers.iter().map(|worker| worker.computing).fold(0.0, f64::max),
    })
}
