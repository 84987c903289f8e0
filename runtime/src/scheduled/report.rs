//! What a call of a scheduled program says of itself.

use std::fmt;

use super::drive::Done;
use crate::session::report::{WorkerTime, counted};
use crate::session::verified::Verified;

/// What a call of a scheduled program did, and how long it took. `Display` prints it for people to read.
///
/// ```
/// # use stradsap_runtime::ScheduledReport;
/// fn line(report: &ScheduledReport) -> String {
///     let rate = report.rounds() as f64 / report.seconds_running();
///     format!("{rate:.0} rounds/s, reads {:.1} rounds behind on average", report.staleness_mean())
/// }
/// ```
#[derive(Clone, Debug)]
pub struct ScheduledReport {
    pub(crate) site: String,
    pub(crate) label: Option<String>,
    pub(crate) pipeline: usize,
    pub(crate) shards: usize,
    pub(crate) threads: usize,
    pub(crate) done: Done,
    pub(crate) bytes_sent: u64,
    pub(crate) seconds_preparing: f64,
    pub(crate) seconds_running: f64,
    pub(crate) workers: Vec<WorkerTime>,
    pub(crate) verified: Verified,
}

impl ScheduledReport {
    /// File and line of the call.
    pub fn site(&self) -> &str {
        &self.site
    }

    /// The call's `label`.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// How many rounds were in flight at most.
    pub fn pipeline(&self) -> usize {
        self.pipeline
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.shards
    }

    /// How many threads ran updates, in all processes.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How many rounds ran.
    pub fn rounds(&self) -> usize {
        self.done.rounds
    }

    /// How many jobs the rounds had.
    pub fn jobs(&self) -> u64 {
        self.done.jobs
    }

    /// How many updates the shards ran for these jobs.
    pub fn updates(&self) -> u64 {
        self.done.updates
    }

    /// The largest number of earlier rounds whose changes an update didn't see: with a pipeline of depth `d`, up to `d - 1`.
    pub fn staleness_max(&self) -> usize {
        self.done.behind_most
    }

    /// The mean number of earlier rounds whose changes an update didn't see.
    pub fn staleness_mean(&self) -> f64 {
        if self.done.updates == 0 { 0.0 } else { self.done.behind as f64 / self.done.updates as f64 }
    }

    /// Bytes that processes sent each other for this call. 0 in one process.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Seconds before the first round: cloning schedule, model and locals, and moving shards.
    pub fn seconds_preparing(&self) -> f64 {
        self.seconds_preparing
    }

    /// Seconds that the rounds took.
    pub fn seconds_running(&self) -> f64 {
        self.seconds_running
    }

    /// What was compared with a replay, in a session that [verifies](crate::Session::verify): `locals`.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// How the workers spent their time; empty if the call ran in one process.
    pub fn workers(&self) -> &[WorkerTime] {
        &self.workers
    }
}

impl fmt::Display for ScheduledReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "scheduled {}", self.site)?;
        if let Some(label) = &self.label {
            write!(f, " ({label})")?;
        }
        write!(
            f,
            ": {} of {} in all on {}, {}; pipeline {}: reads {} behind at most, {:.2} on average\n  prepared in {:.3} s, ran in \
             {:.3} s",
            counted(self.rounds() as u64, "round"),
            counted(self.jobs(), "job"),
            counted(self.shards as u64, "shard"),
            counted(self.threads as u64, "thread"),
            self.pipeline,
            counted(self.staleness_max() as u64, "round"),
            self.staleness_mean(),
            self.seconds_preparing,
            self.seconds_running
        )?;
        if self.bytes_sent > 0 {
            write!(f, "; processes sent each other {} bytes", self.bytes_sent)?;
        }
        if self.verified != Verified::NotAsked {
            write!(f, "\n  {}", self.verified)?;
        }
        Ok(())
    }
}
