//! A synchronous loop's policy, which says how its copies agree, and its options.

/// How the copies of what a [`sync_parallel_for!`](https://docs.rs/stradsap/latest/stradsap/macro.sync_parallel_for.html)
/// writes are kept together.
///
/// A *copy* is one thread's own state of the DDSs captured as `&mut x` (under [`Hybrid`](SyncPolicy::Hybrid), one process's). There
/// are as many copies as threads, in this process or on all workers together. With one copy every policy is the plain sequential
/// loop, bit for bit.
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
    /// Bulk synchronous parallel. In each round every copy runs one minibatch; then the changes of all copies are united, and all
    /// copies agree. The result has the same bits for the same number of copies, whatever the timing.
    Bsp,
    /// Stale synchronous parallel (Ho et al., NIPS 2013). What a copy reads in its minibatch `t` has the changes of every copy's
    /// minibatches before `t - staleness`, and perhaps of later ones. A copy that is too far ahead waits.
    Ssp {
        /// How many minibatches a copy may be ahead of the slowest.
        staleness: usize,
    },
    /// The threads of one process share rows without locks (HOGWILD!, Recht et al., NIPS 2011). Processes agree, as under `Bsp`,
    /// when each of their threads has run one minibatch.
    Hybrid,
    /// Each copy trains a model of its own for `every` minibatches. Then the models are averaged (MA-SGD); each process averages
    /// its share of the rows. The result has the same bits for the same number of copies.
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

/// How the changes of several copies become one, under policies that unite changes ([`Bsp`](SyncPolicy::Bsp), and
/// [`Hybrid`](SyncPolicy::Hybrid) between processes). Under each rule a row that a single copy changed takes that copy's value.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::MergeRule;
///
/// assert_eq!(MergeRule::default(), MergeRule::Sum);
/// assert_eq!([MergeRule::Sum, MergeRule::Combine].map(MergeRule::as_str), ["sum", "combine"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum MergeRule {
    /// All changes are added up ([`Merge::apply`](crate::Merge::apply)). If `n` copies do the same work on the same rows, the sum
    /// is `n` times the step of one copy.
    #[default]
    Sum,
    /// Changes of floats are combined row by row, two at a time. What they have in common counts once, and the rest is added up: `a
    /// (1 - a.b / 2|a|^2) + b (1 - a.b / 2|b|^2)` (Adasum: Maleki and others, 2020). Types that don't
    /// [combine](crate::Merge::combine), such as counts, are added up.
    Combine,
}

impl MergeRule {
    /// The name in reports and on command lines.
    pub fn as_str(self) -> &'static str {
        match self {
            MergeRule::Sum => "sum",
            MergeRule::Combine => "combine",
        }
    }
}

impl std::fmt::Display for MergeRule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// The options of a synchronous loop. The macro makes them from `label = "epoch", merge = Combine` after the policy.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{MergeRule, SyncOptions};
///
/// let options = SyncOptions::new().label("epoch").merge(MergeRule::Combine).interval(4).prefetch(false).early(20).caches(64);
/// assert_ne!(options, SyncOptions::new());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use]
pub struct SyncOptions {
    pub(crate) label: Option<String>,
    pub(crate) merge: MergeRule,
    pub(crate) interval: usize,
    pub(crate) prefetch: bool,
    pub(crate) early: usize,
    pub(crate) caches: usize,
}

impl Default for SyncOptions {
    fn default() -> Self {
        SyncOptions { label: None, merge: MergeRule::Sum, interval: 1, prefetch: true, early: 10, caches: usize::MAX }
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

    /// `merge = Combine`: how the changes of copies become one.
    pub fn merge(mut self, rule: MergeRule) -> Self {
        self.merge = rule;
        self
    }

    /// `interval = N`: under `Bsp` and `Hybrid` the copies meet when each of their threads has run `N` minibatches instead of 1.
    pub fn interval(mut self, minibatches: usize) -> Self {
        self.interval = minibatches;
        self
    }

    /// `prefetch = false`: rows of other processes are fetched only when they are touched, one by one.
    pub fn prefetch(mut self, on: bool) -> Self {
        self.prefetch = on;
        self
    }

    /// `early = N`: of the rows that a round is known to touch, N % are there before it begins, 10 unless told otherwise; the others come
    /// while its bodies run. 100, and more, are all of them.
    pub fn early(mut self, percent: usize) -> Self {
        self.early = percent;
        self
    }

    /// `caches = N`: under `Hybrid` each thread has copies of its own of N rows of a DDS at most, 512 unless told otherwise; `false`,
    /// like 0, stands for none.
    pub fn caches(mut self, rows: impl Into<CachedRows>) -> Self {
        self.caches = rows.into().0;
        self
    }
}

/// How many of the hottest rows a thread caches at most: a number, or whether it does at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CachedRows(usize);

impl From<usize> for CachedRows {
    fn from(rows: usize) -> Self {
        Self(rows)
    }
}

impl From<bool> for CachedRows {
    fn from(on: bool) -> Self {
        Self(if on { usize::MAX } else { 0 })
    }
}

/// The policy of a loop, as the macro passes it.
pub fn policy(policy: SyncPolicy) -> SyncPolicy {
    policy
}
