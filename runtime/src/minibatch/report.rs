//! What a call of a synchronous loop says of itself.

use std::fmt;

use super::policy::{MergeRule, SyncPolicy};
use crate::body::capture::{Captured, Kind};
use crate::session::options::Site;
use crate::session::report::WorkerTime;
use crate::session::verified::Verified;

/// What a call of a synchronous loop did: how its minibatches were dealt out, what its copies exchanged, and how long it took.
/// `Display` prints it for people to read.
#[derive(Clone)]
pub struct SyncReport {
    pub(crate) site: &'static Site,
    pub(crate) label: Option<String>,
    pub(crate) policy: SyncPolicy,
    pub(crate) rule: MergeRule,
    pub(crate) elements: usize,
    pub(crate) minibatches: usize,
    pub(crate) copies: usize,
    pub(crate) threads: usize,
    pub(crate) rounds: usize,
    /// The fewest bytes of a row that is written.
    pub(crate) row_bytes: usize,
    pub(crate) seconds_preparing: f64,
    pub(crate) seconds_running: f64,
    pub(crate) counts: Counts,
    pub(crate) workers: Vec<WorkerTime>,
    pub(crate) verified: Verified,
}

/// Rows of no more bytes than this take longer to unite than most bodies work on them,
const SHORT_ROW: usize = 16;
/// which matters from this many on.
const MANY_ROWS: u64 = 100_000;

/// What a loop's copies did to rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub(crate) struct Counts {
    /// Rows that copies brought, minibatch by minibatch.
    pub(crate) touched: u64,
    /// Rows of other processes that came before they were needed, and that were waited for one by one.
    pub(crate) ahead: u64,
    pub(crate) on_demand: u64,
    pub(crate) bytes_sent: u64,
    /// Rows that threads had copies of their own of under `Hybrid`.
    pub(crate) cached: u64,
    /// Nanoseconds of threads in finding what has changed, and in uniting it.
    pub(crate) merging: u64,
    /// In a checked run under `Ssp`: reads, and how many minibatches the oldest value was behind.
    pub(crate) reads: u64,
    pub(crate) worst: u64,
}

/// How many bytes a row has of a DVector that the loop writes.
pub(crate) fn written_bytes(capture: &Captured) -> Option<usize> {
    match capture.kind {
        Kind::Vector { ops, writable: true, .. } if !ops.by_key => Some(ops.size),
        _ => None,
    }
}

impl SyncReport {
    /// File and line of the loop.
    pub fn site(&self) -> String {
        self.site.to_string()
    }

    /// The column of the loop, which tells apart loops on one line.
    pub fn column(&self) -> u32 {
        self.site.column()
    }

    /// The loop's `label`.
    pub fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// The loop's policy.
    pub fn policy(&self) -> SyncPolicy {
        self.policy
    }

    /// How the changes of several copies became one, under policies that unite changes.
    pub fn merge(&self) -> MergeRule {
        self.rule
    }

    /// Seconds that a thread spent, on average, on finding what its copies had changed and on uniting the changes. They are part of
    /// [`seconds_running`](SyncReport::seconds_running). 0 under `Ssp`, and with a single copy.
    pub fn seconds_merging(&self) -> f64 {
        self.counts.merging as f64 / 1e9 / self.threads.max(1) as f64
    }

    /// How many minibatches the loop ran.
    pub fn minibatches(&self) -> usize {
        self.minibatches
    }

    /// How many copies there were of what the loop writes: the number that the result's bits depend on.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// How many threads ran minibatches, in all processes.
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// How often the copies were made to agree. Under `Ssp` it is the number of minibatches that the busiest copy ran. 0 with a
    /// single copy.
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// Seconds before the first minibatch: making tables and shares, and moving rows.
    pub fn seconds_preparing(&self) -> f64 {
        self.seconds_preparing
    }

    /// Seconds that the minibatches and their synchronisation took.
    pub fn seconds_running(&self) -> f64 {
        self.seconds_running
    }

    /// Bytes that processes sent each other for this call. 0 if the loop ran in one process.
    pub fn bytes_sent(&self) -> u64 {
        self.counts.bytes_sent
    }

    /// How many rows the copies fetched from the state that they had agreed on. A row counts once in each minibatch or round. 0
    /// with a single copy, which works in place. In one process rows of one cache line come together, and count once, except under `Ssp`.
    pub fn rows_touched(&self) -> u64 {
        self.counts.touched
    }

    /// How many rows came from other processes before they were touched.
    pub fn rows_prefetched(&self) -> u64 {
        self.counts.ahead
    }

    /// How many rows were fetched from other processes when they were touched.
    pub fn rows_on_demand(&self) -> u64 {
        self.counts.on_demand
    }

    /// How many of the hottest rows each thread had a copy of under `Hybrid`.
    pub fn rows_cached(&self) -> u64 {
        self.counts.cached
    }

    /// Under `Ssp`, in a session that [verifies](crate::Session::verify): how many reads were checked against the bound.
    pub fn reads_checked(&self) -> u64 {
        self.counts.reads
    }

    /// The largest staleness that was checked: how many minibatches a value was older than its reader.
    pub fn staleness_seen(&self) -> u64 {
        self.counts.worst
    }

    /// What was compared with a replay, in a session that [verifies](crate::Session::verify), or why nothing was.
    pub fn verified(&self) -> &Verified {
        &self.verified
    }

    /// What a person could change where copies spend their time on rows that are too short.
    pub fn advice(&self) -> Option<String> {
        let many = self.copies > 1 && self.counts.touched >= MANY_ROWS;
        (many && self.policy != SyncPolicy::Hybrid && (1..=SHORT_ROW).contains(&self.row_bytes)).then(|| {
            format!(
                "copies brought and united {} rows, some of {} bytes: that takes longer than what most bodies do with so few. \
                 `Hybrid`, whose threads change rows in place, does without; one DVector of structs or arrays in place of \
                 several of numbers, longer minibatches and `interval` leave fewer rows to unite; one copy may be the fastest",
                self.counts.touched, self.row_bytes
            )
        })
    }

    /// How the workers spent their time; empty if the loop ran in one process.
    pub fn workers(&self) -> &[WorkerTime] {
        &self.workers
    }
}

impl fmt::Display for SyncReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "loop {}", self.site)?;
        if let Some(label) = &self.label {
            write!(f, " ({label})")?;
        }
        write!(f, ": {}", self.policy)?;
        match self.policy {
            SyncPolicy::Ssp { staleness } => write!(f, ", staleness {staleness}")?,
            SyncPolicy::ModelAverage { every } => write!(f, " every {every} minibatches")?,
            SyncPolicy::Bsp | SyncPolicy::Hybrid if self.rule != MergeRule::Sum => {
                write!(f, ", merged by {}", self.rule)?;
            }
            SyncPolicy::Bsp | SyncPolicy::Hybrid => {}
        }
        writeln!(
            f,
            "\n  {} elements in {} minibatches; {} copies on {} threads, {} rounds",
            self.elements, self.minibatches, self.copies, self.threads, self.rounds
        )?;
        let Counts { touched, ahead, on_demand, bytes_sent, cached, merging, reads, worst } = self.counts;
        if touched > 0 {
            writeln!(
                f,
                "  copies brought {touched} rows ({ahead} from other processes ahead of time, {on_demand} on demand)"
            )?;
        }
        if bytes_sent > 0 {
            writeln!(f, "  processes sent each other {bytes_sent} bytes")?;
        }
        if cached > 0 {
            writeln!(f, "  each thread had copies of the {cached} hottest rows")?;
        }
        if reads > 0 {
            writeln!(f, "  {reads} reads were checked: the oldest value was {worst} minibatches behind")?;
        }
        if merging > 0 {
            writeln!(f, "  each thread united changes for {:.3} s", self.seconds_merging())?;
        }
        if self.verified != Verified::NotAsked {
            writeln!(f, "  {}", self.verified)?;
        }
        write!(f, "  prepared in {:.3} s, ran in {:.3} s", self.seconds_preparing, self.seconds_running)?;
        match self.advice() {
            Some(advice) => write!(f, "\n  advice: {advice}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for SyncReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SyncReport")
            .field("site", &self.site())
            .field("policy", &self.policy)
            .field("minibatches", &self.minibatches)
            .field("copies", &self.copies)
            .field("rounds", &self.rounds)
            .finish_non_exhaustive()
    }
}
