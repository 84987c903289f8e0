//! What the example programs share: command line, input, progress, report, plot and stored models.
//!
//! Only `parallel`, `saving`, `sync`, `regression::scheduled` and what reads input for parallel programs use `stradsap`;
//! here and there a type derives `Element`. The sequential twins are plain programs.

pub mod ccd;
pub mod cli;
pub mod data;
pub mod files;
pub mod graph;
pub mod hyper;
pub mod ids;
pub mod libsvm;
pub mod linear;
pub mod lines;
pub mod model;
pub mod npy;
pub mod pagerank;
pub mod parallel;
pub mod plot;
pub mod progress;
pub mod rank;
pub mod ratings;
pub mod regression;
pub mod report;
pub mod rmat;
pub mod rng;
pub mod run;
pub mod saving;
pub mod sync;
pub mod topics;
pub mod variational;
pub mod vectors;
pub mod words;

mod error;

pub use error::{Error, Result};
