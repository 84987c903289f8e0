//! Operators on DDSs: what a training program does besides its loops.
//!
//! A pipe has its steps as one type (`kernel`, with the closures of `body`); the operator that ends it adds a stage
//! (`stage`) and has it run over chunks of the source: on the session's threads (`run`), or on workers, where the stage is
//! made again from its address and its values (`cluster::operate`).

mod body;
pub(crate) mod born;
mod dds;
mod ends;
mod folding;
mod grouped;
pub(crate) mod kernel;
mod pipe;
mod range;
mod rows;
pub(crate) mod run;
pub(crate) mod stage;
mod store;
pub(crate) mod taken;
mod transform;

pub use self::ends::Numbering;
pub use self::pipe::{IntoPipe, JoinWith, Pipe};
