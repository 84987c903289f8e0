//! What can go wrong in an example outside of its training loop: one line each.

use std::path::{Path, PathBuf};

use stradsap::files::shown;

use crate::AnyError;
use crate::ratings::RowProblem;

/// The result of the support library's functions.
pub type Result<T> = std::result::Result<T, Error>;

/// An error of an example program. Its text is one line that names the file, line or option.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The command line asks for something that isn't offered.
    #[error("{option}: {problem}")]
    Usage {
        /// The option as it is written on the command line.
        option: &'static str,
        /// What is wrong with it, and what would be right.
        problem: String,
    },
    /// A file or folder can't be used.
    #[error("can't {action} {}: {source}", shown(path))]
    File {
        /// What was tried: "read", "write", ...
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: std::io::Error,
    },
    /// What the program has to say can't be said.
    #[error("can't write to standard output: {0}")]
    Output(std::io::Error),
    /// A line of the input isn't what it should be.
    #[error("{}:{line}: {problem}", shown(path))]
    Row {
        /// The input file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong with the line, and what was expected.
        problem: RowProblem,
    },
    /// A line of a text isn't what it should be.
    #[error("{}:{line}:{} {problem}", shown(path), column.map_or_else(String::new, |column| format!("{column}:")))]
    Line {
        /// The input file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// The byte of the line, from 1, where one place is wrong.
        column: Option<usize>,
        /// What is wrong there, and what was expected.
        problem: String,
    },
    /// A file without lines isn't what it should be.
    #[error("{}: byte {offset}: {problem}", shown(path))]
    Offset {
        /// The file.
        path: PathBuf,
        /// How many bytes were read.
        offset: u64,
        /// What is wrong there, and what was expected.
        problem: String,
    },
    /// The input can be read but not trained on.
    #[error("{}: {problem}", shown(path))]
    Data {
        /// The input file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The model stopped being finite.
    #[error("training diverged in epoch {epoch} (objective {objective}): {advice}")]
    Diverged {
        /// The epoch, from 1.
        epoch: u32,
        /// The objective of that epoch.
        objective: f64,
        /// Which option to change.
        advice: &'static str,
    },
    /// The plot can't be drawn.
    #[error("can't draw {}: {problem}", shown(path))]
    Plot {
        /// The file that the plot was meant for.
        path: PathBuf,
        /// What the drawing library says.
        problem: String,
    },
}

impl Error {
    /// The exit status of a program that ends with this error: 2 for usage, 1 otherwise.
    pub fn exit_code(&self) -> u8 {
        match self {
            Error::Usage { .. } => 2,
            _ => 1,
        }
    }

    /// The error for the main function of a program with the library, which knows the exit status of the library's errors alone.
    pub fn for_main(self) -> AnyError {
        match self {
            Error::Usage { .. } => stradsap::Error::usage(self.to_string()).into(),
            other => other.into(),
        }
    }

    /// What the operating system says of a file; `action` is what was tried: "read", "write", ...
    pub fn file(action: &'static str, path: &Path, source: std::io::Error) -> Error {
        Error::File { action, path: path.to_path_buf(), source }
    }
}
