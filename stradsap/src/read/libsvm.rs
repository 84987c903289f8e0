//! Labelled sparse vectors in LIBSVM's text format.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde::{Deserialize, Serialize};

use super::apart::{self, Travelling};
use super::blocks::{Format, Parsed, Reading, misplaced};
use super::source;
use super::text::{each_line, excerpt, last_line, number, words};
use crate::{DVector, Element, Result, Session};

/// An example with its label and the features that it has: [`read_libsvm`](crate::ReadFiles::read_libsvm).
#[derive(Clone, Debug, PartialEq, Element)]
pub struct Labelled {
    /// The class, or the value to predict.
    pub label: f64,
    /// The indices of the features that the example has, in ascending order, counted from 0.
    pub indices: Vec<u32>,
    /// The values of these features.
    pub values: Vec<f32>,
}

/// Features are counted from 1 until one of number 0 is met: then the files count from 0, as those of scikit-learn do.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct Libsvm {
    #[serde(skip)]
    from_zero: AtomicBool,
}

impl Clone for Libsvm {
    fn clone(&self) -> Self {
        Libsvm::default()
    }
}

impl Travelling for Libsvm {}

pub(super) fn read(session: &Session, path: &Path) -> Result<DVector<Labelled>> {
    let (inputs, format) = (source::resolve(path)?, Libsvm::default());
    let reading = Reading::new(session, &inputs);
    if let Some((mut examples, ())) = apart::read(&reading, &format)? {
        if examples.filter(|example| example.indices.first() == Some(&BEFORE_ONE)).count()? > 0 {
            examples
                .transform(|example| example.indices.iter_mut().for_each(|index| *index = index.wrapping_add(1)))?;
        }
        return Ok(examples);
    }
    let mut chunks = reading.records(&format)?.chunks;
    if format.from_zero.into_inner() {
        let indices = chunks.iter_mut().flatten().flat_map(|example| &mut example.indices);
        indices.for_each(|index| *index = index.wrapping_add(1));
    }
    DVector::from_chunks(session, chunks)
}

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
            // What ranks belong to is nothing to learn from here.
            for (at, word) in words.filter(|(_, word)| !word.starts_with(b"qid:")) {
                feature(at, word, indices, values)?;
            }
            if indices.first() == Some(&BEFORE_ONE) {
                self.from_zero.store(true, Relaxed);
            }
            // Copies have no room to spare.
            items.push(Labelled { label, indices: indices.clone(), values: values.clone() });
            Ok(())
        })
    }
}

/// The number that stands for feature 0 as long as features may be counted from 1.
const BEFORE_ONE: u32 = u32::MAX;
const LARGEST: u32 = u32::MAX - 1;

fn feature(at: usize, word: &[u8], indices: &mut Vec<u32>, values: &mut Vec<f32>) -> Parsed<()> {
    let Some(colon) = memchr::memchr(b':', word) else {
        return misplaced(at, format!("{} has no colon; index:value was expected", excerpt(word)));
    };
    let expected = format_args!("a number from 0 to {LARGEST}");
    let index: u32 = number(at, &word[..colon], "the index", expected)?;
    if index > LARGEST {
        return misplaced(at, format!("the index is \"{index}\"; {expected} was expected"));
    }
    if let Some(last) = indices.last().map(|last| last.wrapping_add(1)).filter(|last| *last >= index) {
        return misplaced(at, format!("index {index} follows index {last}; rising indices were expected"));
    }
    indices.push(index.wrapping_sub(1));
    values.push(number(at + colon + 1, &word[colon + 1..], "the value", "a number")?);
    Ok(())
}
