//! What the example programs share: the command line, input, progress, report, plot and stored models; and matrix
//! factorisation, as far as `sgdmf` and its sequential twin share it. What other programs share is in the crate
//! `stradsap-gallery`, so that the first program is built soon.
//!
//! Only `training`, `parallel`, `saving` and `ids` use the library's session; the sequential twins are plain programs.

pub mod cli;
pub mod data;
pub mod files;
pub mod hyper;
pub mod ids;
pub mod model;
pub mod npy;
pub mod numbers;
pub mod parallel;
pub mod plot;
pub mod ratings;
pub mod report;
pub mod run;
pub mod saving;

mod error;
mod training;

use std::io::{Write, stdout};

pub use cli::CommonArgs;
pub use error::{Error, Result};
pub use run::Run;
pub use stradsap::Digest;
pub use training::Training;

/// Prints a line on standard output: it is the result.
///
/// # Errors
/// [`Error::Output`] when it can't be written, for example since nobody reads any more.
pub fn print_line(text: &str) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Output)
}

/// The error of a program's main function: the library's, or this crate's.
pub type AnyError = Box<dyn std::error::Error>;
