//! Elements that are taken where they are, equally many at a time: by what writes them to files.
//!
//! # Why this is sound
//! A stage gets the elements of one DDS (see `kernel`), of the type that it was made with. Plain elements are bytes without padding.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Travels, decode_one};
use super::born::Whose;
use super::kernel::{Cx, Input};
use super::pipe::Flow;
use super::stage::{Items, Stage, decode_list, joined, no_partitions};
use crate::body::capture::Captured;
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::memory::codec::{CodecError, read_value, write_value};
use crate::memory::decode::DecodeError;
use crate::memory::element::Element;
use crate::session::backend::Whereabouts;
use crate::session::error::Result;

/// What takes the bytes of elements, in any process.
#[doc(hidden)]
pub trait Sink: Serialize + DeserializeOwned + Send + Sync + 'static {
    /// What it says of them.
    type Note: Element;
    /// Takes a piece: perhaps once more, if a worker is lost.
    #[doc(hidden)]
    fn take(&self, piece: usize, bytes: &[u8]) -> Self::Note;
}

/// Has a sink take all elements, `each` at a time, where they are; gives its notes in the order of the pieces. The elements must be plain.
///
/// # Errors
/// Those of operators.
#[doc(hidden)]
pub fn taken<T: Element, S: Sink>(vector: &DVector<T>, site: &str, each: usize, sink: &S) -> Result<Vec<S::Note>> {
    take::<T, S>(vector.describe(false), vector.len(), (site, each), sink)
}

/// The same of rows.
///
/// # Errors
/// As [`taken`].
#[doc(hidden)]
pub fn taken_rows<T: Element, S: Sink>(rows: &DMatrix<T>, site: &str, each: usize, sink: &S) -> Result<Vec<S::Note>> {
    take::<T, S>(rows.describe(false), rows.len(), (site, each), sink)
}

/// Where the elements are.
///
/// # Errors
/// [`Error::Cluster`](crate::Error::Cluster) within the functions of a scheduled program.
#[doc(hidden)]
pub fn whereabouts<T: 'static>(vector: &DVector<T>) -> Result<Whereabouts> {
    vector.whereabouts()
}

/// Where the rows are.
///
/// # Errors
/// As [`whereabouts`].
#[doc(hidden)]
pub fn whereabouts_of_rows<T: 'static>(rows: &DMatrix<T>) -> Result<Whereabouts> {
    let Captured { id, session, .. } = rows.describe(false);
    session.elements().whereabouts(id)
}

fn take<T: Element, S: Sink>(
    source: Captured,
    len: usize,
    (site, each): (&str, usize),
    sink: &S,
) -> Result<Vec<S::Note>> {
    assert!(T::PLAIN, "elements that are not plain have no bytes to be taken");
    let each = each.max(1);
    let taking = Taking { sink: Whose::Lent(sink), each, element: PhantomData::<fn() -> T> };
    Flow::of_runs(source, len, each).give(site, &taking).map(joined)
}

/// A sink of the bytes of `T`s.
struct Taking<'s, T, S> {
    sink: Whose<'s, S>,
    each: usize,
    element: PhantomData<fn() -> T>,
}

impl<T: Element, S: Sink> Travels for Taking<'_, T, S> {
    fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), CodecError> {
        self.each.encode(out);
        write_value(0, self.sink.get(), out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, CodecError> {
        let each = decode_one::<usize>(bytes)?.max(1);
        Ok(Taking { sink: Whose::Arrived(read_value(0, bytes)?), each, element: PhantomData })
    }
}

impl<T: Element, S: Sink> Stage for Taking<'_, T, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let Some(&Input { at, width }) = cx.inputs.first().filter(|_| T::PLAIN) else { return Vec::new() };
        // SAFETY: the module's argument: `len` elements of `width` plain `T`s each, one after the other.
        let bytes = unsafe { std::slice::from_raw_parts(at, cx.len * width * size_of::<T>()) };
        vec![Box::new(vec![self.sink.get().take(cx.start / self.each, bytes)])]
    }

    no_partitions!(S::Note);
}
