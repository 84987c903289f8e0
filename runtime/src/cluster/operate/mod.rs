//! Operators on workers: the driver's side (`drive`) and a worker's (`answer`, `work`).
//!
//! Each worker runs the stage over consecutive chunks of the source. Items that have to come together are dealt out to
//! partitions, and go straight to the worker that gathers theirs. What comes out stays where it was made, as a new DVector,
//! or is given to the driver. Two to four messages to each worker, however much data there is.

mod answer;
mod drive;
mod work;

pub(crate) use drive::OperatorLogged;
pub(crate) use work::{OperateBench, begin, gather, give, keep, run};
