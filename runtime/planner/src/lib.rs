//! The planner of [stradsap](https://docs.rs/stradsap): it makes a plan for a loop from the accesses of its iterations.
//!
//! Every function depends only on its arguments: a [recording](recording::Recording), which is a log of the elements
//! that each iteration touches, and the loop's [options](PlanOptions). No function runs an iteration, reads a clock or
//! depends on the number of threads. The time that a recording took may decide how many blocks a loop without conflicts has,
//! but nothing that the bits depend on. Each module uses only those before it:
//!
//! | module | what it does |
//! |---|---|
//! | [`bulk`], [`Threads`], [`PlanOptions`] | what the others have in common |
//! | [`recording`] | the log of a loop's accesses, listed or as rules |
//! | [`inference`] | finds such rules in a sample of the iterations |
//! | [`survey`] | passes over iterations where the elements are that say what these touch |
//! | [`plan`] | cuts DDSs into parts, groups or colours iterations, and orders the blocks |
//! | [`layout`] | which worker runs which block, and which parts travel when |
//! | [`placement`] | which process holds which range of a DDS |
//! | [`share`] | what one worker has to know about a plan |
//! | [`simulate`] | how long a plan would take on other machines |
#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod bulk;
pub mod inference;
pub mod layout;
mod log;
mod options;
pub mod placement;
pub mod plan;
pub mod recording;
mod rule;
pub mod share;
pub mod simulate;
pub mod survey;
mod threads;

pub use options::{Order, PlanOptions, Strategy};
pub use threads::{Inline, Threads};
