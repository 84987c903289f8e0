//! What the example programs share: command line, input, progress, report, plot and stored models.
//!
//! Nothing here depends on `stradsap`, so that the sequential twins are plain programs.

pub mod cli;
pub mod data;
pub mod files;
pub mod hyper;
pub mod model;
pub mod npy;
pub mod plot;
pub mod progress;
pub mod rank;
pub mod ratings;
pub mod report;
pub mod rng;
pub mod run;

mod error;

pub use error::{Error, Result};
