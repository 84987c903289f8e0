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
//!     assert!((x.iter().sum::<f64>() - 15.0).abs() < 1e-9);
//!     Ok(())
//! }
//! ```
//!
//! - [`Session`]: the threads that loops run on. [`#[stradsap::main]`](macro@main) gives a program one;
//!   [`Session::builder`] makes one elsewhere.
//! - [`DVector`]: the data that loops share. Its elements derive [`Element`](derive@Element);
//!   [`read_csv`](ReadFiles::read_csv) reads them from files.
//! - [`async_parallel_for!`]: the loop. It gives a [`LoopReport`] of what was parallel, what conflicted and how long it
//!   took, or an [`Error`] that names the iteration, with everything as it was before the loop.
//! - Reductions ([`Session::sum`], [`min`](Session::min), [`max`](Session::max), [`count`](Session::count)): numbers that
//!   all iterations contribute to.
//! - [`kernels`]: vector operations on rows of floats.
//!
//! # What a loop promises
//! The data end as some sequential order of the iterations would have left them, for any body
//! ([`order = Preserve`](Order::Preserve): the loop's own order). Which order that is follows from the data and the
//! options, so the result has the same bits on any number of threads; [`LoopReport::serial_order`] tells it, and
//! [`Session::verify`] checks it.
//!
//! # The environment
//! `STRADSAP_THREADS=4`, `STRADSAP_EXPLAIN=1` (print each new plan to standard error) and `STRADSAP_VERIFY=1` (replay
//! each loop and compare) configure sessions that don't say otherwise.
//!
//! # Limits
//! This version runs in one process. Bodies run *virtually* while a loop is recorded, and again when it is undone, so
//! they must have no side effects. Iterations end by unwinding: a program with `panic = "abort"` doesn't compile.
// What the macros expand to names this crate, in its own tests as well.
#[cfg(test)]
extern crate self as stradsap;

mod files;

pub use files::ReadFiles;
pub use stradsap_macros::{Element, async_parallel_for, main};
pub use stradsap_runtime::*;

#[doc(hidden)]
pub mod __private {
    pub use stradsap_runtime::private::*;
}

/// What programs import: `use stradsap::prelude::*;`
pub mod prelude {
    pub use crate::kernels;
    pub use crate::{DVector, Element, LoopReport, Order, ReadFiles, Session, Strategy, async_parallel_for};
}

// The programs in the documentation, as tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../docs/tutorial.md")]
pub struct Tutorial;
