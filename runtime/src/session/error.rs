//! What can go wrong, typed to the edge.

mod cluster;

use std::path::PathBuf;

use crate::files::shown;
use crate::memory::codec::CodecError;
use crate::session::stopping::StopSignal;

pub use cluster::ClusterError;

/// A result of this library.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// fn rows(session: &stradsap::Session) -> stradsap::Result<usize> {
///     Ok(stradsap::DVector::from_fn(session, 3, |_| 0.0)?.len())
/// }
/// # assert_eq!(rows(&stradsap_runtime::Session::new()?)?, 3);
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error that a loop body returned.
pub type BodyError = Box<dyn std::error::Error + Send + Sync>;

/// What can go wrong. Every message is one line that names what it is about and what was expected. `{:?}` prints the same line, so
/// a plain `fn main() -> stradsap::Result<()>` prints it, too.
///
/// After an error of a loop ([`Body`](Error::Body), [`Panic`](Error::Panic),
/// [`IndexOutOfRange`](Error::IndexOutOfRange), [`Loop`](Error::Loop)) every DDS and reduction holds what it held before.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DVector, Error, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let x = DVector::from_fn(&session, 3, |i| i as u32)?;
/// let error = x.get(7).unwrap_err();
/// assert!(matches!(error, Error::OutOfBounds { start: 7, len: 3, .. }));
/// assert_eq!(error.exit_code(), 1);
/// assert_eq!(format!("{error:?}"), error.to_string());
/// # Ok::<(), Error>(())
/// ```
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The program was called with options, variables or arguments that it doesn't accept.
    #[error("{0}")]
    Usage(String),
    /// A signal asked the program to end, and the program did: see [`Session::stopping`](crate::Session::stopping).
    #[error("stopped by {signal}")]
    Stopped {
        /// Which signal.
        signal: StopSignal,
    },
    /// A body used an index that no element has.
    #[error("{site}: iteration {iteration} uses `{dds}[{}]`, but `{dds}` has {len} {}", written(*index), called(*rows))]
    IndexOutOfRange {
        /// Where the loop stands.
        site: String,
        /// The name of the DDS in the capture list.
        dds: &'static str,
        /// The index that was asked for.
        index: usize,
        /// The number of elements.
        len: usize,
        /// Whether they are the rows of a DMatrix.
        rows: bool,
        /// The iteration that asked.
        iteration: usize,
    },
    /// Outside a loop, the program used an index that no element has.
    #[error("{} has {len}", asked_for(*start, *end, *rows))]
    OutOfBounds {
        /// The first index asked for.
        start: usize,
        /// One past the last index asked for.
        end: usize,
        /// The number of elements.
        len: usize,
        /// Whether they are the rows of a DMatrix.
        rows: bool,
    },
    /// The `Hash` of a map's keys gives equal keys different hashes: it must depend on the key alone.
    #[error("the `Hash` of a map's keys gives equal keys different hashes: it must depend on the key alone")]
    InconstantHash,
    /// Relaxed state was set to more or fewer numbers than it has.
    #[error("a relaxed vector of {len} numbers can't be set to {given}")]
    RelaxedLength {
        /// How many it was given.
        given: usize,
        /// How many it has.
        len: usize,
    },
    /// The body of a loop returned an error.
    #[error("{site}: iteration {iteration} failed: {source}")]
    Body {
        /// Where the loop stands.
        site: String,
        /// The first iteration, in the loop's serial order, that failed.
        iteration: usize,
        /// What it returned.
        source: BodyError,
    },
    /// The body of a loop panicked. Nothing is printed for it, unless the program sets a panic hook of its own after its first
    /// loop. Such a hook should call the hook that it replaces.
    #[error("{site}: iteration {iteration} panicked: {message} ({location})")]
    Panic {
        /// Where the loop stands.
        site: String,
        /// The first iteration, in the loop's serial order, that panicked.
        iteration: usize,
        /// What the panic said.
        message: String,
        /// The file, line and column of the panic.
        location: String,
    },
    /// A loop with `on_failure = Poison` failed, and this DDS is one that it may have written. It can be used again when the
    /// program has made it anew, or read it from a checkpoint.
    #[error(
        "`{dds}` may hold anything since the loop at {site} failed, which says `on_failure = Poison`: make it anew, or read it \
         from a checkpoint"
    )]
    Poisoned {
        /// How that loop calls the DDS.
        dds: &'static str,
        /// Where that loop stands.
        site: String,
    },
    /// An iteration of a loop with `on_failure = Poison` panicked or used an element beyond the end. Nothing was copied before the loop,
    /// so it can't run again to find out which.
    #[error(
        "{site}: one of the iterations {first} to {last} failed: {problem} (without `on_failure = Poison` it would be named)"
    )]
    SomeIteration {
        /// Where the loop stands.
        site: String,
        /// The first iteration of the block that failed.
        first: usize,
        /// The last one.
        last: usize,
        /// What went wrong.
        problem: String,
    },
    /// A minibatch of a synchronous loop failed. Every DDS and reduction holds what it held before the loop.
    #[error("{site}: minibatch {minibatch} (elements {start}..{end}) {problem}")]
    Minibatch {
        /// Where the loop stands.
        site: String,
        /// Which minibatch, from 0; of those that failed the first.
        minibatch: usize,
        /// The index of its first element in the input.
        start: usize,
        /// One past the index of its last.
        end: usize,
        /// What went wrong.
        problem: BatchProblem,
    },
    /// A closure of an operator failed. Nothing has changed.
    #[error("{site}: {} {problem}", at_work(element))]
    Operator {
        /// Which operator, and where it was called.
        site: String,
        /// The first element of the source, in order, for which it failed; none if it failed when items were brought
        /// together, as where keys are compared.
        element: Option<usize>,
        /// What went wrong.
        problem: BatchProblem,
    },
    /// A function of a scheduled program failed. Schedule, model and locals are what they were before the call.
    #[error("{site}: round {round}: `{function}`{} {problem}", of_round(*.job, *.shard))]
    Round {
        /// Where the program was called.
        site: String,
        /// Which round, from 0.
        round: usize,
        /// Which function.
        function: &'static str,
        /// Which of the round's jobs, from 0, if it was one.
        job: Option<usize>,
        /// On which shard, if it was one.
        shard: Option<usize>,
        /// What went wrong.
        problem: Box<RoundProblem>,
    },
    /// A checked run of a synchronous loop saw values older than its bound: a bug in this library.
    #[error(
        "{site}: {violations} reads were older than the bound, the oldest by {worst} minibatches; please report this"
    )]
    TooStale {
        /// Where the loop stands.
        site: String,
        /// How many reads.
        violations: u64,
        /// How many minibatches behind its reader's the oldest value was.
        worst: u64,
    },
    /// A loop was given something that it can't run over.
    #[error("{site}: {problem}")]
    Loop {
        /// Where the loop stands.
        site: String,
        /// What went wrong.
        problem: LoopProblem,
    },
    /// The replay of a loop's claimed serial order gave other bits than the loop: a bug in this library, or a body that
    /// depends on more than its captures. DDSs and reductions hold what the loop left.
    #[error(
        "{site}: verification failed: `{dds}[{index}]` differs from what the claimed serial order gives; please report this"
    )]
    Verification {
        /// Where the loop stands.
        site: String,
        /// The DDS or reduction that differs.
        dds: &'static str,
        /// The first index that differs (0 for a reduction).
        index: usize,
    },
    /// A file could not be read or written.
    #[error("{}: {source}", shown(path))]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A line of an input file is malformed.
    #[error("{}:{line}{}: {problem}", shown(path), AtColumn(*.column))]
    Input {
        /// Which file.
        path: PathBuf,
        /// Which line, from 1.
        line: u64,
        /// Which byte of the line, from 1, where one is to blame.
        column: Option<u64>,
        /// What was found and what was expected.
        problem: String,
    },
    /// More elements than one DVector can have (2^48), or entries than a map can have (2^30).
    #[error("at most {max} elements fit into a DDS of this kind, and {len} were given")]
    TooLong {
        /// How many were given.
        len: usize,
        /// How many fit.
        max: usize,
    },
    /// Rows that a DMatrix can't have: they differ in width, have width 0, or have too many numbers.
    #[error("{problem}")]
    Rows {
        /// What was given, and what is possible.
        problem: String,
    },
    /// Worker processes or DDS servers were lost, or did something wrong.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Captured values can't be sent to a worker.
    #[error("{site}: {source}")]
    Values {
        /// Where the loop stands.
        site: String,
        /// Which value, and why.
        source: CodecError,
    },
    /// The threads of the session could not be started.
    #[error("can't start {threads} threads: {reason}")]
    Threads {
        /// How many were wanted.
        threads: usize,
        /// What the system said.
        reason: String,
    },
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// `:7`, where a column is known.
struct AtColumn(Option<u64>);

impl std::fmt::Display for AtColumn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.map_or(Ok(()), |column| write!(f, ":{column}"))
    }
}

fn asked_for(start: usize, end: usize, rows: bool) -> String {
    let dds = if rows { "DMatrix" } else { "DVector" };
    format!("{} {start}..{end} were asked for, but the {dds}", called(rows))
}

/// An index as the body is likely to have computed it: a negative one is a large number in it.
fn written(index: usize) -> isize {
    index.cast_signed()
}

/// What the elements of a DDS are called.
fn called(rows: bool) -> &'static str {
    if rows { "rows" } else { "elements" }
}

fn at_work(element: &Option<usize>) -> String {
    element.map_or_else(|| "bringing items together".to_string(), |element| format!("element {element}"))
}

fn of_round(job: Option<usize>, shard: Option<usize>) -> String {
    match (job, shard) {
        (Some(job), Some(shard)) => format!(" of the round's job {job} on shard {shard}"),
        (Some(job), None) => format!(" of the round's job {job}"),
        (None, _) => String::new(),
    }
}

/// What went wrong in a round of a scheduled program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoundProblem {
    /// The function panicked.
    Panic {
        /// What the panic said.
        message: String,
        /// The file, line and column of the panic.
        location: String,
    },
    /// The job names a shard that doesn't exist.
    NoSuchShard {
        /// How many there are.
        shards: usize,
    },
}

impl std::fmt::Display for RoundProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            RoundProblem::Panic { message, location } => write!(f, "panicked: {message} ({location})"),
            RoundProblem::NoSuchShard { shards } => write!(f, "can't run: there are {shards} shards, counted from 0"),
        }
    }
}

/// What went wrong in a minibatch.
#[derive(Debug)]
#[non_exhaustive]
pub enum BatchProblem {
    /// The body returned an error.
    Body(BodyError),
    /// The body panicked.
    Panic {
        /// What the panic said.
        message: String,
        /// The file, line and column of the panic.
        location: String,
    },
    /// The body used an index that no element has.
    IndexOutOfRange {
        /// The name of the DDS in the capture list.
        dds: &'static str,
        /// The index that was asked for.
        index: usize,
        /// The number of elements.
        len: usize,
        /// Whether they are the rows of a DMatrix.
        rows: bool,
    },
    /// Another copy or process ended the loop.
    Stopped,
}

impl std::fmt::Display for BatchProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            BatchProblem::Body(source) => write!(f, "failed: {source}"),
            BatchProblem::Panic { message, location } => write!(f, "panicked: {message} ({location})"),
            BatchProblem::IndexOutOfRange { dds, index, len, rows } => {
                write!(f, "uses `{dds}[{}]`, but `{dds}` has {len} {}", written(*index), called(*rows))
            }
            BatchProblem::Stopped => f.write_str("was stopped"),
        }
    }
}

/// Why a loop can't run over what it was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LoopProblem {
    /// Nothing is captured that the loop could change or read.
    #[error("the capture list holds no DDS and no reduction: such a loop can have no effect")]
    NothingCaptured,
    /// DDSs of different sessions.
    #[error("`{first}` and `{second}` belong to different sessions")]
    TwoSessions {
        /// A capture.
        first: &'static str,
        /// A capture of another session.
        second: &'static str,
    },
    /// A captured value, or a scheduled program, holds state that a body changed. DDSs hold what the loop left.
    #[error(
        "a {of}, which bodies are given as a value, changed while the loop ran: each process has a copy of it, and bodies run more often \
         than once an iteration, so what they add up there comes out wrong; capture a reduction (`session.count()`, \
         `session.sum(0.0)`), or a `DVector` as `&mut x`"
    )]
    SharedState {
        /// The value's type.
        of: String,
    },
    /// A loop was called within the body of another one.
    #[error("a parallel loop can't be called from the body of another one: its threads are busy with that")]
    Nested,
    /// An operator's closure captures a reduction.
    #[error("an operator can't add to a reduction: use `fold` or `reduce`")]
    ReductionInOperator,
    /// A probability that isn't from 0 to 1.
    #[error("`{operator}` was given {given} as a probability: expected a number from 0 to 1, such as 0.9 for 90 %")]
    Probability {
        /// `sample` or `split`.
        operator: &'static str,
        /// What it was given.
        given: String,
    },
    /// A range begins below 0, or ends beyond the largest `usize`.
    #[error("the range has numbers below 0, or too large for an index")]
    NegativeIndex,
    /// More iterations than a loop can have: 2^48, and 2^32 - 1 over pairs.
    #[error("{len} iterations are too many: a loop has at most {max}")]
    TooLong {
        /// How many there are.
        len: usize,
        /// How many are possible.
        max: usize,
    },
    /// A synchronous loop captures a longer DVector than it can.
    #[error("`{name}` has {len} elements: synchronous loops capture at most {max}")]
    TooManyElements {
        /// The captured DVector.
        name: &'static str,
        /// How many elements it has.
        len: usize,
        /// How many are possible.
        max: usize,
    },
    /// No plan can have the number of parts that the loop asks for.
    #[error("`parts = {parts}` isn't possible: {reason}")]
    PartsRefused {
        /// What was given.
        parts: usize,
        /// Why not.
        reason: String,
    },
    /// `grain = 0`.
    #[error("`grain` must be at least 1: how many iterations are work enough for a block")]
    NoGrain,
    /// `parts = 0`, or more parts than the planner allows.
    #[error("`parts` must be from 1 to {max}, not {given}")]
    Parts {
        /// What was given.
        given: usize,
        /// The largest possible.
        max: usize,
    },
    /// `staleness = 0`.
    #[error("`staleness` must be at least 1: blocks that run at the same time can't see what each other adds")]
    NoStaleness,
    /// A synchronous loop captures relaxed state.
    #[error(
        "`{name}` is relaxed state, which `async_parallel_for!` merges: capture a DVector as `&mut` here, or a reduction"
    )]
    RelaxedInSync {
        /// The capture.
        name: &'static str,
    },
    /// An operator's closure captures relaxed state.
    #[error("an operator can't use relaxed state: pass on its values, `to_vec()` or `get()`")]
    RelaxedInOperator,
    /// Every shard of a scheduled program needs one element of the locals.
    #[error("expected one local per shard: {locals} locals, {shards} shards")]
    Locals {
        /// How many shards there are.
        shards: usize,
        /// How many elements the locals have.
        locals: usize,
    },
    /// A rotation has as many blocks as shards.
    #[error(
        "a schedule of {blocks} blocks rotates {blocks} blocks over {blocks} shards with {blocks} locals; given were {} blocks, {} shards \
         and {} locals", .given[0], .given[1], .given[2]
    )]
    Rotation {
        /// How many blocks the schedule has.
        blocks: usize,
        /// How many blocks, shards and locals were given.
        given: [usize; 3],
    },
    /// A minibatch of no elements.
    #[error("a minibatch must have at least 1 element")]
    EmptyMinibatch,
    /// `ModelAverage { every: 0 }`.
    #[error("`every` of `ModelAverage` must be at least 1")]
    NeverAveraged,
    /// `interval = 0`.
    #[error("`interval = 0` never runs a minibatch: give a number from 1 on")]
    NoInterval,
    /// `interval = N` with a policy that has its own rule for when copies meet.
    #[error("`interval` is for `Bsp` and `Hybrid`: under {policy} the policy itself says when copies meet")]
    OwnInterval {
        /// The policy.
        policy: &'static str,
    },
    /// `merge = ...` with a policy that merges in its own way.
    #[error("changes are merged by `{merge}` under `Bsp` and `Hybrid`: {policy} has a rule of its own")]
    OwnMerge {
        /// The policy.
        policy: &'static str,
        /// The rule.
        merge: &'static str,
    },
    /// `merge = Combine` in a loop that writes nothing that is combined.
    #[error(
        "`merge = Combine` combines changes of floats, and of types whose `Merge` says how: {}",
        match &names[..] {
            [] => "this loop changes no elements".to_owned(),
            [name] => format!("{name} holds neither"),
            names => format!("{} hold neither", names.join(", ")),
        }
    )]
    NothingCombines {
        /// What the loop writes. It may be nothing but new values of a DMultiMap.
        names: Vec<&'static str>,
    },
    /// The copies of what a synchronous loop writes don't fit the address space.
    #[error("there is no room for {copies} copies of {len} elements of {size} bytes")]
    NoRoomForCopies {
        /// How many elements a copy has.
        len: usize,
        /// Bytes of an element.
        size: usize,
        /// How many copies.
        copies: usize,
    },
    /// A reduction appears twice in the capture list.
    #[error("`{first}` and `{second}` are the same DDS: capture it once")]
    CapturedTwice {
        /// A capture.
        first: &'static str,
        /// The other capture.
        second: &'static str,
    },
}

impl Error {
    /// An error about the usage of the program, with exit code 2.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Error;
    ///
    /// let error = Error::usage("--rank 7: the rank is a multiple of 8");
    /// assert_eq!((error.to_string().as_str(), error.exit_code()), ("--rank 7: the rank is a multiple of 8", 2));
    /// ```
    pub fn usage(message: impl Into<String>) -> Self {
        Error::Usage(message.into())
    }

    /// The exit code for a program that ends with this error: 2 for usage, 128 plus the signal's number after a signal, and 1
    /// otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage(_) => 2,
            Error::Stopped { signal } => signal.exit_code(),
            _ => 1,
        }
    }
}
