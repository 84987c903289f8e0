//! What the example programs share: command line, input, progress, report, plot and stored models.
//!
//! Only `parallel` and `saving` use `stradsap`; here and there a type derives `Element`. The sequential twins are plain
//! programs.

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
pub mod vectors;
pub mod words;

mod error;

pub use error::{Error, Result};
