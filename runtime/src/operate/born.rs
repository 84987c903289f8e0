//! Elements that are born where they will live: made piece by piece by a source that needs no other DDS, such as a reader of files.
//! On workers each makes consecutive pieces and keeps what it made; after a loss they are made again.
//!
//! # Why this is sound
//! A source travels by serde, which is safe code.
#![allow(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::{Travels, decode_one};
use super::kernel::Cx;
use super::pipe::Flow;
use super::rows::{RowList, arrived_ops};
use super::stage::{Items, Stage, decode_list, joined};
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;
use crate::loops::backend::LoopBackend;
use crate::memory::codec::{CodecError, read_value, write_value};
use crate::memory::decode::DecodeError;
use crate::memory::element::Element;
use crate::memory::element_ops::{ElementOps, ops_of};
use crate::session::Session;
use crate::session::error::Result;

/// What makes elements, in pieces that any process can make.
#[doc(hidden)]
pub trait Source: Serialize + DeserializeOwned + Send + Sync + 'static {
    type Item: Element;
    /// Whether it can be made again as long as the job lasts. Otherwise other processes store its elements at once.
    #[doc(hidden)]
    const LASTS: bool = true;
    /// Appends the elements of a piece, the same whenever and wherever it is made; or says why it can't.
    #[doc(hidden)]
    fn make(&self, piece: usize, items: &mut Vec<Self::Item>) -> std::result::Result<(), String>;
}

/// Whether a session's elements live in other processes than the program's.
#[doc(hidden)]
pub fn is_apart(session: &Session) -> bool {
    !session.inner().backend::<dyn LoopBackend>().is_one_process()
}

/// A DVector of the elements of all pieces, in order. Each stays where it was made.
///
/// # Errors
/// [`Error::Operator`](crate::Error::Operator) names the first piece that can't be made as its element.
#[doc(hidden)]
pub fn born<S: Source>(session: &Session, site: &str, pieces: usize, source: &S) -> Result<DVector<S::Item>> {
    flow::<S>(session, pieces).store(site, &Born::of(source, ops_of::<S::Item>()))
}

/// A DMatrix of the numbers of all pieces, in order; each piece is whole rows.
///
/// # Errors
/// As [`born`].
#[doc(hidden)]
pub fn born_rows<S: Source>(
    session: &Session,
    site: &str,
    (pieces, width): (usize, usize),
    source: &S,
) -> Result<DMatrix<S::Item>> {
    let ops = DMatrix::<S::Item>::ops(0, width)?;
    flow::<S>(session, pieces).store_rows(site, &Born::of(source, ops), ops)
}

/// The elements of all pieces, in order and in this process.
///
/// # Errors
/// As [`born`].
#[doc(hidden)]
pub fn given<S: Source>(session: &Session, site: &str, pieces: usize, source: &S) -> Result<Vec<S::Item>> {
    flow::<S>(session, pieces).give(site, &Born::of(source, ops_of::<S::Item>())).map(joined)
}

fn flow<S: Source>(session: &Session, pieces: usize) -> Flow {
    Flow::of_pieces(session.inner(), pieces, S::LASTS)
}

/// A source, and what its items make: elements, or rows of them.
struct Born<'s, S> {
    source: Whose<'s, S>,
    ops: &'static ElementOps,
}

/// What the program's own process has, or one that was sent it.
pub(super) enum Whose<'s, S> {
    Lent(&'s S),
    Arrived(S),
}

impl<S> Whose<'_, S> {
    pub(super) fn get(&self) -> &S {
        match self {
            Whose::Lent(own) => own,
            Whose::Arrived(own) => own,
        }
    }
}

impl<'s, S: Source> Born<'s, S> {
    fn of(source: &'s S, ops: &'static ElementOps) -> Born<'s, S> {
        Born { source: Whose::Lent(source), ops }
    }

    fn list(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        decode_list::<S::Item>(n.saturating_mul(self.ops.width()), bytes)
    }
}

impl<S: Source> Travels for Born<'_, S> {
    fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), CodecError> {
        self.ops.width().encode(out);
        write_value(0, self.source.get(), out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, CodecError> {
        let ops = arrived_ops::<S::Item>(decode_one(bytes)?)?;
        Ok(Born { source: Whose::Arrived(read_value(0, bytes)?), ops })
    }
}

impl<S: Source> Stage for Born<'_, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut numbers = Vec::new();
        for piece in cx.start..cx.start + cx.len {
            cx.at.set(piece);
            if let Err(problem) = self.source.get().make(piece, &mut numbers) {
                cx.refuse(problem);
            }
        }
        let width = self.ops.width();
        if !numbers.len().is_multiple_of(width) {
            cx.refuse(format!("its {} numbers are no whole rows of {width}", numbers.len()));
        }
        numbers.shrink_to_fit();
        vec![Box::new(RowList { numbers, ops: self.ops })]
    }

    fn partitions(&self) -> usize {
        1
    }

    fn shuffles(&self) -> bool {
        false
    }

    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
        Box::new(RowList { numbers: joined::<S::Item>(lists), ops: self.ops })
    }

    fn arrived(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        self.list(n, bytes)
    }

    fn returned(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        self.list(n, bytes)
    }
}
