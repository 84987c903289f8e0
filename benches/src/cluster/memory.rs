//! The most memory that a worker needs, beside a single process with the same data.
//!
//! Each is measured in a process of its own that does nothing else: the benchmark itself, started again with
//! `--peaks-of N`. What it needed to make up the data doesn't count: where it can't be kept apart, that is an error.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use stradsap::{ClusterOptions, Session};

use super::{RANK, processes};
use crate::data::RatingSet;
use crate::peers::Contestant;
use crate::peers::ours::Ours;

/// Enough for a snapshot, which workers keep.
const EPOCHS: usize = 12;

/// Peaks of memory, in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Peaks {
    /// Of the process with the program and its data.
    pub program: u64,
    /// Of each worker.
    pub workers: Vec<u64>,
}

/// Trains in this process, or on this many workers of one thread, and says what that took.
///
/// # Errors
/// Workers don't come, or the system doesn't tell.
pub fn here(mut set: RatingSet, workers: usize) -> Result<Peaks> {
    let session = Session::builder().threads(2).build()?;
    // The program's data are in DVectors alone.
    let train = std::mem::take(&mut set.train);
    let mut ours = Ours::<RANK>::in_session(session, &set, train, workers_of(workers).as_ref())?;
    processes::forget_peak()?;
    for _ in 0..EPOCHS {
        ours.epoch()?;
    }
    let peaks: Result<Vec<u64>> = processes::workers()?.into_iter().map(processes::peak).collect();
    let peaks = Peaks { program: processes::peak(std::process::id())?, workers: peaks? };
    if peaks.workers.len() != workers {
        bail!("{} workers are there, but {workers} were started", peaks.workers.len());
    }
    Ok(peaks)
}

fn workers_of(workers: usize) -> Option<ClusterOptions> {
    (workers > 0).then(|| ClusterOptions::new(workers).threads(1))
}

impl Peaks {
    /// The line in which a process tells the one that started it.
    pub fn line(&self) -> String {
        let all = std::iter::once(&self.program).chain(&self.workers);
        all.map(u64::to_string).collect::<Vec<_>>().join(" ")
    }

    fn from_line(line: &str) -> Option<Peaks> {
        let mut all = line.split_whitespace().map(|word| word.parse().ok());
        Some(Peaks { program: all.next()??, workers: all.collect::<Option<_>>()? })
    }

    /// The largest of a worker; 0 without workers.
    pub fn worker(&self) -> u64 {
        self.workers.iter().copied().max().unwrap_or(0)
    }
}

/// The same in a fresh process.
///
/// # Errors
/// As [`here`]; the process fails.
pub fn apart(workers: usize, quick: bool) -> Result<Peaks> {
    let program = std::env::current_exe().context("the benchmark's own file is not known")?;
    let mut command = Command::new(program);
    command.args(["--peaks-of", &workers.to_string()]).arg(if quick { "--quick" } else { "--bench" });
    let output = command.env("STRADSAP_ROLE", "driver").stderr(Stdio::inherit()).output();
    let output = output.context("the benchmark can't be started again")?;
    let told = String::from_utf8_lossy(&output.stdout);
    match Peaks::from_line(&told) {
        Some(peaks) if output.status.success() => Ok(peaks),
        _ => bail!("the process that measures memory with {workers} workers ended with {}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_are_read_as_they_are_told() {
        let peaks = Peaks { program: 5, workers: vec![2, 3] };
        assert_eq!(Peaks::from_line(&peaks.line()), Some(peaks.clone()));
        assert_eq!(peaks.worker(), 3);
        assert_eq!(Peaks::from_line("5 x"), None);
        assert_eq!(Peaks::from_line(""), None);
    }
}
