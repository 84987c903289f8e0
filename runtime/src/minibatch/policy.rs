//! A synchronous loop's policy, which says how its copies agree, and its options.

/// How the copies of what a [`sync_parallel_for!`](https://docs.rs/stradsap/latest/stradsap/macro.sync_parallel_for.html)
/// writes are kept together.
///
/// A *copy* is one thread's own state of the DDSs captured as `&mut x` (under [`Hybrid`](SyncPolicy::Hybrid): one
/// process's). In one process there are as many as threads, on workers as many as workers have threads in all. With one
/// copy every policy is the plain sequential loop, bit for bit.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::SyncPolicy;
///
/// let policies = [
///     SyncPolicy::Bsp,
///     SyncPolicy::Ssp { staleness: 2 },
///     SyncPolicy::Hybrid,
///     SyncPolicy::ModelAverage { every: 4 },
/// ];
/// let names: Vec<_> = policies.iter().map(|policy| policy.as_str()).collect();
/// assert_eq!(names, ["bsp", "ssp", "hybrid", "model-average"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum SyncPolicy {
    /// Bulk synchronous parallel: in each round every copy runs one minibatch; then the changes of all are added up, and
    /// all agree. The result has the same bits for the same number of copies, however they are timed.
    Bsp,
    /// Stale synchronous parallel (Ho et al., NIPS 2013): what a copy reads in its minibatch `t` holds all changes of
    /// every copy's minibatches before `t - staleness`, and maybe later ones. Fast copies wait, slow ones don't.
    Ssp {
        /// How many minibatches a copy may be ahead of the slowest.
        staleness: usize,
    },
    /// The threads of one process share rows without locks (HOGWILD!, Recht et al., NIPS 2011); processes agree, as under
    /// `Bsp`, when each of their threads has run one minibatch.
    Hybrid,
    /// Each copy trains a model of its own for `every` minibatches; then the models are averaged (MA-SGD), each process
    /// averaging its share of the rows. The result has the same bits for the same number of copies.
    ModelAverage {
        /// Minibatches of each copy from one average to the next, from 1 on.
        every: usize,
    },
}

impl SyncPolicy {
    /// The name in reports and on command lines.
    pub fn as_str(self) -> &'static str {
        match self {
            SyncPolicy::Bsp => "bsp",
            SyncPolicy::Ssp { .. } => "ssp",
            SyncPolicy::Hybrid => "hybrid",
            SyncPolicy::ModelAverage { .. } => "model-average",
        }
    }

    /// Whether a loop's bits follow from the number of its copies, each of this many threads.
    pub(crate) fn is_deterministic(self, copies: usize, threads: usize) -> bool {
        match self {
            SyncPolicy::Bsp | SyncPolicy::ModelAverage { .. } => true,
            SyncPolicy::Ssp { .. } => copies == 1,
            SyncPolicy::Hybrid => threads == 1,
        }
    }
}

impl std::fmt::Display for SyncPolicy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The options behind a synchronous loop's policy, which the macro makes of `label = "epoch", prefetch = false`.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::SyncOptions;
///
/// let options = SyncOptions::new().label("epoch").prefetch(false).caches(false);
/// assert_ne!(options, SyncOptions::new());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SyncOptions {
    pub(crate) label: Option<String>,
    pub(crate) prefetch: bool,
    pub(crate) caches: bool,
}

impl Default for SyncOptions {
    fn default() -> Self {
        SyncOptions { label: None, prefetch: true, caches: true }
    }
}

impl SyncOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// `label = "..."`: a name for reports.
    pub fn label(mut self, label: impl Into<String>) -> Self {
        self.label = Some(label.into());
        self
    }

    /// `prefetch = false`: rows of other processes are fetched one by one, when they are touched.
    pub fn prefetch(mut self, on: bool) -> Self {
        self.prefetch = on;
        self
    }

    /// `caches = false`: under `Hybrid` the threads share the hottest rows as well.
    pub fn caches(mut self, on: bool) -> Self {
        self.caches = on;
        self
    }
}

/// The policy of a loop, as the macro passes it.
pub fn policy(policy: SyncPolicy) -> SyncPolicy {
    policy
}
