//! Write the sequential training loop that you would have written anyway; run it in parallel.
//!
//! ```
//! use stradsap::prelude::*;
//!
//! #[stradsap::main]
//! fn main(session: &Session) -> stradsap::Result<()> {
//!     let edges = DVector::from_vec(session, vec![[0u32, 1], [1, 2], [3, 4], [4, 5]])?;
//!     let mut x = DVector::from_fn(session, 6, |i| i as f64)?;
//!     let (rate, moved) = (0.25, session.sum(0.0));
//!     async_parallel_for!(0..edges.len(), [rate, &edges, &mut x, &moved], |n| {
//!         let [a, b] = edges[n];
//!         let step = rate * (x[b] - x[a]);
//!         x[a] += step;
//!         x[b] -= step;
//!         moved.add(step.abs());
//!     })?;
//!     assert!((x.iter()?.sum::<f64>() - 15.0).abs() < 1e-9);
//!     Ok(())
//! }
//! ```
//!
//! The [book](https://github.com/stradsap/stradsap/tree/main/docs) has a tutorial and guides; this is the reference.
//!
//! # What there is
//!
//! | | |
//! |---|---|
//! | **A program** | [`#[stradsap::main]`](macro@main), [`Session`] (the threads that loops run on; [`Session::builder`] makes one elsewhere), [`prelude`], [`Error`], [`Result`] |
//! | **Loops** | [`async_parallel_for!`], with [`Order`], [`Strategy`], [`OnFailure`]; [`sync_parallel_for!`], over minibatches, with a [`SyncPolicy`] |
//! | **Programs with schedules** | [`scheduled`], [`Program`], [`Schedule`], [`Shards`], [`Partials`], [`Rotation`] |
//! | **Data** | [`DVector`], [`DMatrix`] (rows of equal width, chosen at run time), [`DMap`], [`DMultiMap`]; what they hold: [`Element`](derive@Element), [`Key`], [`Additive`], [`Merge`] |
//! | **What iterations add to** | [`Session::sum`], [`min`](Session::min), [`max`](Session::max), [`count`](Session::count); [`RelaxedVector`] and [`Relaxed`], which are read, too |
//! | **Operators** | [`Pipe`]: `map`, `filter`, `join`, `sort_by_key`, `split`, `shuffle`, `top_k`, `number_by_key` and others; [`with!`] where closures capture; [`Ordered`] floats as keys |
//! | **Random numbers** | [`session.rng(purpose)`](RandomNumbers::rng), [`random`] |
//! | **Files** | [`ReadFiles`], [`WriteFiles`], [`WriteRows`], [`WriteWordVectors`], [`write_safetensors`], [`Csv`] |
//! | **Going on later** | [`Checkpoints`], [`Checkpoint`]; [`Session::stopping`] |
//! | **What was done** | [`LoopReport`], [`SyncReport`], [`ScheduledReport`], [`Progress`], [`Digest`], [`Session::verify`], [`Session::trace`] |
//! | **Arithmetic** | [`kernels`]: vector operations on rows of floats |
//! | **Processes** | [`Session::start_workers`], [`ClusterOptions`], [`ClusterError`] |
//! | **What bodies see** | [`ReadView`], [`WriteView`], [`Shared`], [`Batch`] and other views; [`machinery`] is what the macros name |
//!
//! A loop returns a report of what was parallel, what conflicted and how long it took. If its body fails, the loop returns an
//! [`Error`] that names the iteration, and everything is as it was before.
//!
//! # What a loop promises
//! [`async_parallel_for!`] leaves the data as some sequential order of the iterations would have, for any body
//! ([`order = Preserve`](Order::Preserve): the loop's own order). The order depends only on the data and the options, so the result
//! has the same bits on any number of threads and processes. [`LoopReport::serial_order`] gives the order, and [`Session::verify`]
//! replays it and compares. [`scheduled`] programs and operators have the same bits everywhere, too.
//!
//! The result of [`sync_parallel_for!`] depends on its [`SyncPolicy`]. Under `Bsp` and `ModelAverage` the bits depend on the number
//! of copies (threads times processes), not on timing. Under `Ssp`, and under `Hybrid` with several threads in a process, they
//! differ from run to run.
//!
//! # Processes
//! After [`Session::start_workers`] all loops run on worker processes. `STRADSAP_WORKERS=4`, `mpirun` and `srun` have the same
//! effect. Workers run the same program: [`#[stradsap::main]`](macro@main) finds out whether a process is a worker. A program must
//! not rely on side effects of loop bodies.
//!
//! # The environment
//! These variables set what a program leaves to its default: `STRADSAP_THREADS=4`, `STRADSAP_EXPLAIN=1` (print each new plan to
//! standard error), `STRADSAP_VERIFY=1` (replay each loop and compare) and `STRADSAP_STACK_SIZE=16MiB` (for each thread).
//! `STRADSAP_LOG=info` logs what processes do.
//!
//! # Features
//! - `cluster`, on by default: loops on worker processes. It adds tokio, tarpc and their dependencies. Without it
//!   (`default-features = false`) there is no `Session::start_workers`. A program that the environment, `--join` or a launcher then
//!   asks for workers ends with an error that says why.
//! - `parquet`: reading columns of Parquet files.
//! - `remote`: reading objects from `s3://`, `gs://`, `az://` and `https://`.
//!
//! # Limits
//! Bodies run *virtually* while a loop is recorded, and again when it is undone or a process was lost. So they must have no side
//! effects. Failed iterations are unwound, so a program with `panic = "abort"` doesn't compile.
// What the macros expand to names this crate, in itself as well.
extern crate self as stradsap;

pub mod random;

mod checkpoint;
mod command;
mod digest;
mod macros;
mod numeric;
mod progress;
mod read;
mod write;

pub use checkpoint::{Checkpoint, Checkpoints, Saved};
pub use digest::Digest;
pub use macros::{Element, async_parallel_for, main, sync_parallel_for, with};
pub use numeric::Numeric;
pub use progress::Progress;
pub use random::RandomNumbers;
pub use read::{BagOfWords, Csv, Edge, Entry, Labelled, ReadFiles, open_unpacked};
pub use stradsap_runtime::*;
pub use write::{Tensor, WriteFiles, WriteRows, WriteWordVectors, write_safetensors};

// Examples that need the loop macro, which the runtime's own documentation can't have.

/// A loop's report.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let edges = DVector::from_fn(&session, 5000, |n| [n as u32 * 7 % 1000, n as u32 * 11 % 1000])?;
/// let mut x = DVector::from_fn(&session, 1000, |i| i as f32)?;
/// let report = async_parallel_for!(0..edges.len(), [&edges, &mut x], |n| {
///     let [a, b] = edges[n];
///     x[a] = 0.5 * x[a] + 0.5 * x[b];
/// }, label = "mix")?;
/// println!("{report}"); // strategy, blocks, parallelism, the elements that conflict most, advice
/// assert_eq!((report.label(), report.iterations(), report.reused()), (Some("mix"), 5000, false));
/// assert!(report.parallelism() >= 1.0 && report.critical_path() <= report.work());
/// assert_eq!(report.conflicts()[0].dds, "x");
///
/// // The order that the result is equal to.
/// let mut plain: Vec<f32> = (0..1000).map(|i| i as f32).collect();
/// for n in report.serial_order() {
///     let [a, b] = edges.get(n)?.map(|i| i as usize);
///     plain[a] = 0.5 * plain[a] + 0.5 * plain[b];
/// }
/// assert_eq!(x.to_vec()?, plain);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::LoopReport;

/// A loop's order.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut sums = DVector::from_vec(&session, vec![1u64; 5])?;
/// async_parallel_for!(1..sums.len(), [&mut sums], |i| sums[i] += sums[i - 1], order = Preserve)?;
/// assert_eq!(sums.to_vec()?, [1, 2, 3, 4, 5]);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Order;

/// What happens to data when a loop's body fails.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut x = DVector::from_vec(&session, vec![1u32, 0, 3])?;
/// let ran = async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 6 / x[i]); // everything stays as it was
/// assert!(ran.is_err() && x.to_vec()? == [1, 0, 3]);
/// let ran = async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 6 / x[i], on_failure = Poison); // no copy is made
/// assert!(ran.is_err() && x.to_vec().is_err());
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::OnFailure;

/// A loop's strategy.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let mut x = DVector::from_fn(&session, 100, |i| i as u32)?;
/// let report = async_parallel_for!(0..x.len(), [&mut x], |i| x[i] += 1)?;
/// assert_eq!(report.strategy(), Strategy::Aligned);
/// let report = async_parallel_for!(0..x.len(), [&mut x], |i| x[i] += 1, strategy = Serial)?;
/// assert_eq!(report.strategy(), Strategy::Serial);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Strategy;

/// Numbers that a loop adds to and reads, as stale as its option `staleness` allows; `scratch` is a value of each block
/// of iterations.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let colours = DVector::from_fn(&session, 1000, |i| i % 3)?;
/// let totals = session.relaxed_vector(vec![0u64; 3]);
/// let report = async_parallel_for!(
///     0..colours.len(),
///     [&colours, &totals],
///     |i, seen| {
///         *seen += 1;
///         totals.add(colours[i], 1);
///         assert!(totals[colours[i]] > 0 && *seen > 0);
///     },
///     scratch = 0usize,
///     staleness = 1
/// )?;
/// assert_eq!(totals.to_vec(), [334, 333, 333]);
/// assert_eq!(report.staleness()[0].name, "totals");
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::RelaxedVector;

/// One number that a loop adds to and reads.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let x = DVector::from_fn(&session, 100, |i| i as f64)?;
/// let largest_sum = session.relaxed(0.0f64);
/// async_parallel_for!(0..x.len(), [&x, &largest_sum], |i| {
///     if largest_sum.get() < 1000.0 {
///         largest_sum.add(x[i]);
///     }
/// })?;
/// assert!(largest_sum.get() >= 1000.0);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Relaxed;

/// A sum that a loop adds to.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let x = DVector::from_fn(&session, 100, |i| i as f64)?;
/// let sum = session.sum(0.0);
/// async_parallel_for!(0..x.len(), [&x, &sum], |i| sum.add(x[i]))?;
/// assert_eq!(sum.get(), 4950.0);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Sum;

/// The extremes of what a loop saw.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let x = DVector::from_fn(&session, 100, |i| (i as f64 - 30.0).abs())?;
/// let (lo, hi) = (session.min(f64::INFINITY), session.max(f64::NEG_INFINITY));
/// async_parallel_for!(0..x.len(), [&x, &lo, &hi], |i| {
///     lo.min(x[i]);
///     hi.max(x[i]);
/// })?;
/// assert_eq!((lo.get(), hi.get()), (0.0, 69.0));
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Extreme;

/// A count that a loop adds to.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let session = Session::builder().threads(2).build()?;
/// let x = DVector::from_fn(&session, 100, |i| i % 3)?;
/// let zeros = session.count();
/// async_parallel_for!(0..x.len(), [&x, &zeros], |i| {
///     if x[i] == 0 {
///         zeros.add(1);
///     }
/// })?;
/// assert_eq!(zeros.get(), 34);
/// # Ok(())
/// # }
/// ```
pub use stradsap_runtime::Count;

/// What the macros' code names, so that rustc's messages can name it, too. Programs use none of it, and it may change with any
/// version.
pub mod machinery {
    #[doc(no_inline)]
    pub use stradsap_runtime::private::*;
}

#[doc(hidden)]
pub mod __private {
    pub use crate::command::command_line;
    pub use stradsap_runtime::private::*;
}

/// What programs import: `use stradsap::prelude::*;`
pub mod prelude {
    #[cfg(feature = "cluster")]
    pub use crate::kernels;
    pub use crate::{
        Additive, BagOfWords, Checkpoints, Csv, DMap, DMatrix, DMultiMap, DVector, Digest, Edge, Element, Labelled,
        LoopReport, Merge, MergeRule, Order, Ordered, Partials, Program, Progress, RandomNumbers, ReadFiles, Schedule,
        ScheduledReport, Session, Shards, Shared, Strategy, SyncPolicy, SyncReport, WriteFiles, WriteRows,
        WriteWordVectors, async_parallel_for, schedule_dyn_regr, schedule_round_robin, schedule_static_rota, scheduled,
        sync_parallel_for, with,
    };
    #[cfg(feature = "cluster")]
    pub use crate::{ClusterOptions, Homes};
}

// The programs in the documentation, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/tutorial.md")]
pub struct Tutorial;

#[cfg(doctest)]
#[doc = include_str!("../../docs/synchronous.md")]
pub struct Synchronous;

#[cfg(doctest)]
#[doc = include_str!("../../docs/scheduled.md")]
pub struct ScheduledPrograms;

#[cfg(doctest)]
#[doc = include_str!("../../docs/data.md")]
pub struct Data;
