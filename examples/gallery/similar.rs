//! Uses vectors: the words, or the items of a factorisation, that are most like one.

use std::path::PathBuf;

use clap::Parser;
use stradsap::kernels::dot;
use stradsap::prelude::*;
use stradsap_examples::{AnyError, cli, print_line};
use stradsap_gallery::stored::place_of;
use stradsap_gallery::vectors::{Format, Vectors};

/// Prints the words most similar to a word, from vectors that `word2vec` has stored, or the items most similar to an item, from a
/// model of `sgdmf` or `ccdmf`.
///
/// Each has a line, the most similar first: the word or the item's id, a tab, and the cosine of both vectors.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// Vectors of words, in the text or the binary format of word2vec
    #[arg(long, value_name = "PATH", required_unless_present = "model")]
    vectors: Option<PathBuf>,

    /// The folder of a model of ratings: q.npy, items.txt
    #[arg(long, value_name = "DIR", conflicts_with = "vectors")]
    model: Option<PathBuf>,

    /// How many
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,

    /// The word, or the item's id
    name: String,
}

#[stradsap::main]
fn main(session: &Session) -> Result<(), AnyError> {
    let Args { vectors, model, top, name } = cli::parse();
    let (names, rows) = match (vectors, model) {
        (Some(path), _) => {
            let vectors = Vectors::read(&path, Format::of(&path))?;
            let rows = DMatrix::from_rows(session, (0..vectors.words().len()).map(|word| vectors.row(word)))?;
            (DVector::from_iter(session, vectors.words().iter().map(ToString::to_string))?, rows)
        }
        (None, model) => {
            let model = model.unwrap_or_default();
            (session.read_lines(model.join("items.txt"))?, session.read_npy_rows::<f32>(model.join("q.npy"))?)
        }
    };
    let place = place_of(&names, &name, "vector of")?;
    let one = rows.get(place)?;
    let cosines = with!(
        [one, name],
        names.zip(&rows).filter(|(other, _)| *other != *name).map(|(other, row)| {
            let lengths = (dot(one, one) * dot(row, row)).sqrt();
            (other.clone(), if lengths > 0.0 { dot(one, row) / lengths } else { 0.0 })
        })
    );
    let nearest = cosines.top_k(top, |(_, cosine)| Ordered(*cosine))?;
    Ok(nearest.iter().try_for_each(|(other, cosine)| print_line(&format!("{other}\t{cosine}")))?)
}
