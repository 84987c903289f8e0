//! How far a training run is: a bar on a terminal, plain lines elsewhere, on standard error.

use std::io::{IsTerminal, Write, stderr, stdout};

use indicatif::{ProgressBar, ProgressStyle};

use crate::{Error, Result};

/// Shows a run's epochs as they end.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    epochs: u32,
}

impl Progress {
    /// For a run of `epochs`; `plain` asks for lines on a terminal too, for example since others print there.
    pub fn new(epochs: u32, plain: bool) -> Progress {
        let bar = (!plain && stderr().is_terminal()).then(|| {
            let style = ProgressStyle::with_template("{bar:20}  {msg}  {eta} to go");
            ProgressBar::new(epochs.into()).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        });
        Progress { bar, epochs }
    }

    /// Shows a line.
    pub fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| print(text)),
            None => print(text),
        }
    }

    /// Shows that an epoch (from 1) has ended, and what it reached.
    pub fn epoch(&self, epoch: u32, reached: &str) {
        let text = format!("epoch {epoch:>3}/{}  {reached}", self.epochs);
        match &self.bar {
            Some(bar) => {
                bar.set_position(epoch.into());
                bar.set_message(text);
            }
            None => print(&text),
        }
    }

    /// Ends the bar: what was reached is printed after it.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A closed standard error is no reason to stop training.
fn print(text: &str) {
    let _ = writeln!(stderr(), "{text}");
}

/// Prints a line on standard output: it is the result.
///
/// # Errors
/// [`Error::Output`] when it can't be written, for example since nobody reads any more.
pub fn print_line(text: &str) -> Result<()> {
    let mut out = stdout();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(Error::Output)
}
