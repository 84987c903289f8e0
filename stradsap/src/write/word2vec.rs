//! Vectors of words, as word2vec writes them.

use std::path::Path;

use super::{Numbers, atomic};
use crate::{Error, Result};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Text,
    Binary,
}

/// What rows are made of: numbers, or rows of them.
pub(super) trait Flat: Sized {
    fn flat(rows: &[Self]) -> &[f32];
}

impl Flat for f32 {
    fn flat(rows: &[f32]) -> &[f32] {
        rows
    }
}

impl<const N: usize> Flat for [f32; N] {
    fn flat(rows: &[[f32; N]]) -> &[f32] {
        rows.as_flattened()
    }
}

/// Rows of numbers, and how many and how wide they are.
pub(super) fn write<D: Numbers<Number: Flat>, W: AsRef<str>>(
    array: &D,
    (rows, width): (usize, usize),
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
        array.each(|numbers| {
            for (row, word) in Flat::flat(numbers).chunks(width).zip(&mut words) {
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
            Ok(())
        })
    })
}
