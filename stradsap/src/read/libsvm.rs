//! Labelled sparse vectors in LIBSVM's text format.

use super::blocks::{Format, Parsed, misplaced};
use super::text::{each_line, excerpt, last_line, number, words};
use crate::Element;

/// An example with its label and the features that it has: [`read_libsvm`](crate::ReadFiles::read_libsvm).
#[derive(Clone, Debug, PartialEq, Element)]
pub struct Labelled {
    /// The class, or the value to predict.
    pub label: f64,
    /// Which features, rising. They are counted from 0 here and from 1 in the file.
    pub indices: Vec<u32>,
    /// The features' values, as many.
    pub values: Vec<f32>,
}

pub(super) struct Libsvm;

impl Format for Libsvm {
    type Head = ();
    /// The features of a line.
    type Scratch = (Vec<u32>, Vec<f32>);
    type Item = Labelled;

    fn head(&self, _: &[u8], _: bool) -> Parsed<Option<((), usize)>> {
        Ok(Some(((), 0)))
    }

    fn scratch(&self) -> Self::Scratch {
        (Vec::new(), Vec::new())
    }

    fn border(&self, (): &(), bytes: &[u8]) -> usize {
        last_line(bytes)
    }

    fn parse(&self, (): &(), bytes: &[u8], scratch: &mut Self::Scratch, items: &mut Vec<Labelled>) -> Parsed<()> {
        let (indices, values) = scratch;
        each_line(bytes, |start, line| {
            let line = &line[..memchr::memchr(b'#', line).unwrap_or(line.len())];
            let mut words = words(start, line);
            let Some((at, word)) = words.next() else { return Ok(()) };
            let label = number(at, word, "the label", "a number")?;
            indices.clear();
            values.clear();
            for (at, word) in words {
                feature(at, word, indices, values)?;
            }
            // Copies have no room to spare.
            items.push(Labelled { label, indices: indices.clone(), values: values.clone() });
            Ok(())
        })
    }
}

fn feature(at: usize, word: &[u8], indices: &mut Vec<u32>, values: &mut Vec<f32>) -> Parsed<()> {
    let Some(colon) = memchr::memchr(b':', word) else {
        return misplaced(at, format!("{} has no colon; index:value was expected", excerpt(word)));
    };
    let expected = format_args!("a number from 1 to {}", u32::MAX);
    let index: u32 = number(at, &word[..colon], "the index", expected)?;
    let Some(from_zero) = index.checked_sub(1) else {
        return misplaced(at, "the index is 0; indices begin at 1");
    };
    if let Some(last) = indices.last().filter(|last| **last >= from_zero) {
        let last = u64::from(*last) + 1;
        return misplaced(at, format!("index {index} follows index {last}; rising indices were expected"));
    }
    indices.push(from_zero);
    values.push(number(at + colon + 1, &word[colon + 1..], "the value", "a number")?);
    Ok(())
}
