//! Vectors of words, as word2vec writes them.

use std::path::Path;

use super::atomic;
use crate::{Error, Result};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Text,
    Binary,
}

/// The rows, in chunks of a megabyte or so, each as its numbers.
pub(super) fn write<W: AsRef<str>>(
    (rows, width): (usize, usize),
    chunks: impl Iterator<Item = Result<Vec<f32>>>,
    path: &Path,
    words: &[W],
    form: Form,
) -> Result<()> {
    if words.len() != rows {
        let found = words.len();
        return Err(Error::usage(format!("{found} words for {rows} vectors; as many were expected")));
    }
    // A name with a blank would end there for readers of the file.
    let bad = words.iter().map(AsRef::as_ref).find(|word| word.is_empty() || word.contains(char::is_whitespace));
    if let Some(word) = bad {
        return Err(Error::usage(format!("the word {word:?} can't be written; one without blanks was expected")));
    }
    atomic::write(path, |out| {
        writeln!(out, "{rows} {width}")?;
        let mut words = words.iter();
        for chunk in chunks {
            for (row, word) in chunk?.chunks(width).zip(&mut words) {
                out.write_all(word.as_ref().as_bytes())?;
                match form {
                    Form::Text => row.iter().try_for_each(|x| write!(out, " {x}"))?,
                    Form::Binary => {
                        out.write_all(b" ")?;
                        row.iter().try_for_each(|x| out.write_all(&x.to_le_bytes()))?;
                    }
                }
                out.write_all(b"\n")?;
            }
        }
        Ok(())
    })
}
