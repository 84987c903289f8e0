//! The data sets that come with the repository.

use std::path::PathBuf;

use crate::{Error, Result};

/// The small set of real ratings: the input of an example that is given no `--data`.
///
/// # Errors
/// [`Error::Data`] when the program runs where the repository isn't.
pub fn default_ratings() -> Result<PathBuf> {
    here("anime-ratings.tsv.gz")
}

/// The small sets of real examples of two classes, to train on and to test with: the input of a linear model that is
/// given no `--data`.
///
/// # Errors
/// As [`default_ratings`].
pub fn default_examples() -> Result<[PathBuf; 2]> {
    Ok([here("a9a.gz")?, here("a9a.t.gz")?])
}

fn here(name: &str) -> Result<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/")).join(name);
    if path.is_file() {
        return Ok(path);
    }
    let problem = "the repository's data set isn't here; name an input with --data".to_owned();
    Err(Error::Data { path, problem })
}
