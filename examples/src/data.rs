//! The data sets that come with the repository.

use std::path::PathBuf;

use crate::{Error, Result};

/// The small set of real ratings: the input of an example on ratings that is given no `--data`.
///
/// # Errors
/// [`Error::Data`] when the program runs where the repository isn't.
pub fn default_ratings() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/anime-ratings.tsv.gz"))
}

/// The small text: the input of an example on text that is given no `--data`.
///
/// # Errors
/// As [`default_ratings`].
pub fn default_text() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/text8x-part.gz"))
}

/// The small corpus: the input of a topic model that is given no `--data`. Its vocabulary lies beside it.
///
/// # Errors
/// As [`default_ratings`].
pub fn default_corpus() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/docword.enwiki-part.txt.gz"))
}

/// WordSim-353: pairs of words with how alike people found them.
///
/// # Errors
/// As [`default_ratings`].
pub fn word_pairs() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/wordsim353.tsv"))
}

/// The Google analogies.
///
/// # Errors
/// As [`default_ratings`].
pub fn analogies() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/questions-words.txt"))
}

/// The small sets of real examples of two classes, to train on and to test with: the input of a linear model that is
/// given no `--data`.
///
/// # Errors
/// As [`default_ratings`].
pub fn default_examples() -> Result<[PathBuf; 2]> {
    let file = |name| of_the_repository(name);
    Ok([
        file(concat!(env!("CARGO_MANIFEST_DIR"), "/data/a9a.gz"))?,
        file(concat!(env!("CARGO_MANIFEST_DIR"), "/data/a9a.t.gz"))?,
    ])
}

/// The small set of real texts of two classes, with many more features than most have: the input of a regression that is given
/// no `--data`.
///
/// # Errors
/// As [`default_ratings`].
pub fn default_regression() -> Result<PathBuf> {
    of_the_repository(concat!(env!("CARGO_MANIFEST_DIR"), "/data/reuters.trn.gz"))
}

fn of_the_repository(path: &str) -> Result<PathBuf> {
    let path = PathBuf::from(path);
    if path.is_file() {
        return Ok(path);
    }
    let problem = "the repository's data set isn't here; name an input on the command line".to_owned();
    Err(Error::Data { path, problem })
}
