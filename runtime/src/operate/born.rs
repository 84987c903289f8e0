//! Elements that are born where they will live: made piece by piece by a source that needs no other DDS, such as a reader of files.
//! On workers each makes consecutive pieces and keeps what it made; after a loss they are made again.
//!
//! # Why this is sound
//! A source travels by serde, which is safe code.
#![allow(unsafe_code)]

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::body::Travels;
use super::kernel::Cx;
use super::pipe::Flow;
use super::stage::{Items, Stage, decode_list, joined};
use crate::dds::dvector::DVector;
use crate::loops::backend::LoopBackend;
use crate::memory::codec::{CodecError, read_value, write_value};
use crate::memory::decode::DecodeError;
use crate::memory::element::Element;
use crate::session::Session;
use crate::session::error::Result;

/// What makes elements, in pieces that any process can make.
#[doc(hidden)]
pub trait Source: Serialize + DeserializeOwned + Send + Sync + 'static {
    type Item: Element;
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
    Flow::of_pieces(session.inner(), pieces).store(site, &Born::Lent(source))
}

/// The elements of all pieces, in order and in this process.
///
/// # Errors
/// As [`born`].
#[doc(hidden)]
pub fn given<S: Source>(session: &Session, site: &str, pieces: usize, source: &S) -> Result<Vec<S::Item>> {
    Flow::of_pieces(session.inner(), pieces).give(site, &Born::Lent(source)).map(joined)
}

/// A source, in the process that asks for its elements and in those that are asked.
enum Born<'s, S> {
    Lent(&'s S),
    Arrived(S),
}

impl<S: Source> Travels for Born<'_, S> {
    fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), CodecError> {
        write_value(0, self.source(), out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, CodecError> {
        read_value(0, bytes).map(Born::Arrived)
    }
}

impl<S> Born<'_, S> {
    fn source(&self) -> &S {
        match self {
            Born::Lent(source) => source,
            Born::Arrived(source) => source,
        }
    }
}

impl<S: Source> Stage for Born<'_, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut items = Vec::new();
        for piece in cx.start..cx.start + cx.len {
            cx.at.set(piece);
            if let Err(problem) = self.source().make(piece, &mut items) {
                cx.refuse(problem);
            }
        }
        items.shrink_to_fit();
        vec![Box::new(items)]
    }

    fn partitions(&self) -> usize {
        1
    }

    fn shuffles(&self) -> bool {
        false
    }

    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
        Box::new(joined::<S::Item>(lists))
    }

    fn arrived(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        decode_list::<S::Item>(n, bytes)
    }

    fn returned(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        decode_list::<S::Item>(n, bytes)
    }
}
