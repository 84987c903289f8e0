//! What can go wrong with other processes.

/// What can go wrong with worker processes and DDS servers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// This process could not become part of a job.
    #[error("can't join the job: {0}")]
    Join(String),
    /// This worker has lost its driver, and with it the job.
    #[error("this worker ends, since its driver is lost: {0}")]
    DriverLost(String),
    /// Not all expected processes have joined.
    #[error("{joined} of {expected} {what} have joined within {seconds} s")]
    Missing {
        /// Workers or DDS servers.
        what: &'static str,
        /// How many have joined.
        joined: usize,
        /// How many were to.
        expected: usize,
        /// How long the driver waited.
        seconds: u64,
    },
    /// Every worker was lost, and none could be replaced.
    #[error("all workers are lost: {0}")]
    AllLost(String),
    /// Processes were lost again and again, and no loop ended in between.
    #[error("{restarts} processes were lost, the last ones before any loop was done; the last was {last}")]
    TooManyLosses {
        /// How many were lost.
        restarts: usize,
        /// The last of them, and how it ended.
        last: String,
    },
    /// All copies of a part were lost together.
    #[error("the only copies of elements {start}..{end} of a DVector of {len} were lost with {lost}")]
    PartLost {
        /// The first index lost.
        start: usize,
        /// One past the last.
        end: usize,
        /// The length of the DVector.
        len: usize,
        /// Those that had them.
        lost: String,
    },
    /// A process did something wrong.
    #[error("{who}: {problem}")]
    Process {
        /// Which.
        who: String,
        /// What it said.
        problem: String,
    },
    /// The job could not be set up.
    #[error("can't start worker processes: {0}")]
    Start(String),
}
