//! Vectors of words, as word2vec writes them.

use std::path::Path;

use super::atomic;
use super::chunks;
use crate::{DVector, Element, Error, Result};

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Form {
    Text,
    Binary,
}

pub(super) fn write<const N: usize, W: AsRef<str>>(
    vector: &DVector<[f32; N]>,
    path: &Path,
    words: &[W],
    form: Form,
) -> Result<()>
where
    [f32; N]: Element,
{
    if words.len() != vector.len() {
        let (found, expected) = (words.len(), vector.len());
        return Err(Error::usage(format!("{found} words for {expected} vectors; as many were expected")));
    }
    // A name with a blank would end there for readers of the file.
    let bad = words.iter().map(AsRef::as_ref).find(|word| word.is_empty() || word.contains(char::is_whitespace));
    if let Some(word) = bad {
        return Err(Error::usage(format!("the word {word:?} can't be written; one without blanks was expected")));
    }
    atomic::write(path, |out| {
        writeln!(out, "{} {N}", vector.len())?;
        for chunk in chunks(vector) {
            let (start, rows) = chunk?;
            for (word, row) in words[start..].iter().zip(rows) {
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
