//! What the example programs share: command line, input, progress, report, plot and stored models.
//!
//! Only `parallel` and `saving` know `stradsap`; the sequential twins, which don't use it, are plain programs.

pub mod cli;
pub mod data;
pub mod files;
pub mod hyper;
pub mod model;
pub mod npy;
pub mod parallel;
pub mod plot;
pub mod progress;
pub mod rank;
pub mod ratings;
pub mod report;
pub mod rng;
pub mod run;
pub mod saving;

mod error;

pub use error::{Error, Result};
