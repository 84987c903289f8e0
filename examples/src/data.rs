//! The data sets that come with the repository.

use std::path::PathBuf;

use crate::{Error, Result};

/// The small set of real ratings: the input of an example that is given no `--data`.
///
/// # Errors
/// [`Error::Data`] when the program runs where the repository isn't.
pub fn default_ratings() -> Result<PathBuf> {
    let path = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/data/anime-ratings.tsv.gz"));
    if path.is_file() {
        return Ok(path);
    }
    let problem = "the repository's data set isn't here; name an input with --data".to_owned();
    Err(Error::Data { path, problem })
}
