//! The report of a run: one JSON object, the same for every example.

use std::path::Path;

use serde::Serialize;

use crate::{Result, files};

/// What a run did. `D` says what the data is, `M` what is measured after each epoch.
#[derive(Debug, Clone, Serialize)]
pub struct Report<D, M> {
    /// The example's name.
    pub example: &'static str,
    /// Worker processes; 0: all in the program's own process.
    pub workers: usize,
    /// Threads (in each worker).
    pub threads: usize,
    /// The seed of all random choices.
    pub seed: u64,
    /// The data's size.
    pub data: D,
    /// The parallel loops, each call site once, in the order of their first calls.
    pub loops: Vec<Loop>,
    /// The epochs that ran.
    pub epochs: Vec<Epoch<M>>,
    /// From the program's start to its last write but this one.
    pub seconds_total: f64,
    /// The most memory that the process has held; absent where the system doesn't tell.
    pub peak_rss_bytes: Option<u64>,
    /// `blake3:` and the hash of the model's values in index order.
    pub model_digest: String,
}

/// One parallel loop, as its first call was planned, and what all calls took.
#[derive(Debug, Clone, Serialize)]
pub struct Loop {
    /// The call's file and line.
    pub site: String,
    /// How it was made parallel.
    pub strategy: String,
    /// Blocks of iterations in the plan.
    pub blocks: usize,
    /// Work over critical path: the most threads that could be kept busy.
    pub parallelism: f64,
    /// Seconds of the virtual iteration.
    pub seconds_recording: f64,
    /// Seconds from the accesses to the plan.
    pub seconds_planning: f64,
    /// What `--verify` compared in the first call, or why it couldn't; absent without `--verify`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verified: Option<String>,
    /// Where the workers' time went in all calls of this run; absent where the loop ran in one process.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub worker_seconds: Vec<WorkerSeconds>,
}

/// Where a worker's time went in a loop, in seconds over all epochs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WorkerSeconds {
    /// Its number in the job, its machine and process number.
    pub worker: String,
    /// Its threads ran blocks, on average.
    pub computing: f64,
    /// Its threads waited for parts or for each other, on average.
    pub waiting: f64,
    /// Parts came in, most of them while threads computed.
    pub transferring: f64,
}

/// One epoch.
#[derive(Debug, Clone, Serialize)]
pub struct Epoch<M> {
    /// From 1.
    pub epoch: u32,
    /// Seconds of training, without evaluation.
    pub seconds: f64,
    /// What the algorithm minimises or maximises.
    pub objective: f64,
    /// Bytes that processes sent each other while training.
    pub bytes_sent: u64,
    /// The example's own measures.
    #[serde(flatten)]
    pub measures: M,
}

impl<D: Serialize, M: Serialize> Report<D, M> {
    /// Writes the report, whole or not at all.
    ///
    /// # Errors
    /// [`Error::File`](crate::Error::File).
    pub fn write(&self, path: &Path) -> Result<()> {
        files::write(path, |out| {
            serde_json::to_writer_pretty(&mut *out, self)?;
            out.write_all(b"\n")
        })
    }
}

/// The most memory that this process has held so far, where the system tells (Linux).
pub fn peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn peak_memory_is_known() {
        assert!(peak_rss_bytes().unwrap() > 1 << 20);
    }
}
