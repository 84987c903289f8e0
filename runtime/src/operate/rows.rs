//! Items that become the rows of a DMatrix.
//!
//! # Why this is sound
//! It passes on to its kernel what its own callers vouch for (see `stage`), and has no other unsafe code.
#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

use super::body::{Travels, broken, decode_one};
use super::kernel::{Cx, Kernel};
use super::pipe::{Flow, Pipe, site};
use super::run::{LARGEST, Made};
use super::stage::{Items, Stage, decode_list, joined, unpack};
use crate::dds::chunks;
use crate::dds::dmatrix::DMatrix;
use crate::memory::buffer::RawBuf;
use crate::memory::codec::CodecError;
use crate::memory::decode::DecodeError;
use crate::memory::element::{Element, encode_slice};
use crate::memory::element_ops::{ElementOps, ops_of, row_ops};
use crate::session::error::Result;

/// Rows of numbers, one after the other.
pub(super) struct RowList<T> {
    pub(super) numbers: Vec<T>,
    pub(super) ops: &'static ElementOps,
}

impl<T: Element> Items for RowList<T> {
    fn len(&self) -> usize {
        self.numbers.len() / self.ops.width()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_slice(&self.numbers, out);
    }

    /// Their numbers.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        Box::new(self.numbers)
    }

    fn into_buffer(self: Box<Self>) -> RawBuf {
        chunks::single(self.ops, self.numbers)
    }
}

/// The operations on rows, in a process that was told their width.
pub(super) fn arrived_ops<T: Element>(width: usize) -> std::result::Result<&'static ElementOps, CodecError> {
    let unknown = || broken::<T>(DecodeError::Serde { message: format!("no rows of width {width}") });
    row_ops(ops_of::<T>(), width).ok_or_else(unknown)
}

/// Keeps the numbers of the items, which are rows.
struct CollectedRows<K, T> {
    kernel: K,
    ops: &'static ElementOps,
    number: PhantomData<fn() -> T>,
}

impl<K: Travels, T: Element> Travels for CollectedRows<K, T> {
    fn encode(&self, out: &mut Vec<u8>) -> std::result::Result<(), CodecError> {
        self.ops.width().encode(out);
        self.kernel.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> std::result::Result<Self, CodecError> {
        let ops = arrived_ops::<T>(decode_one(bytes)?)?;
        // SAFETY: the caller's promise.
        Ok(CollectedRows { kernel: unsafe { K::decode(bytes)? }, ops, number: PhantomData })
    }
}

impl<T: Element, K: Kernel<Item: AsRef<[T]>>> Stage for CollectedRows<K, T> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let width = self.ops.width();
        let rows = if K::ONE_EACH { cx.len.min(LARGEST) } else { 0 };
        let mut numbers = Vec::with_capacity(rows.saturating_mul(width));
        self.kernel.each(cx, |row| {
            let row = row.as_ref();
            if row.len() != width {
                let plural = if row.len() == 1 { "" } else { "s" };
                cx.refuse(format!("its row has {} number{plural}, and those of the DMatrix have {width}", row.len()));
            }
            numbers.extend_from_slice(row);
        });
        vec![Box::new(RowList { numbers, ops: self.ops })]
    }

    fn partitions(&self) -> usize {
        1
    }

    fn shuffles(&self) -> bool {
        false
    }

    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
        Box::new(RowList { numbers: joined::<T>(lists), ops: self.ops })
    }

    fn arrived(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        self.returned(n, bytes)
    }

    fn returned(&self, n: usize, bytes: &[u8]) -> std::result::Result<Box<dyn Items>, DecodeError> {
        decode_list::<T>(n.saturating_mul(self.ops.width()), bytes)
    }
}

impl Flow {
    /// The rows that a stage makes, in order.
    pub(super) fn store_rows<T: Element, S: Stage + Travels>(
        &self,
        site: &str,
        stage: &S,
        ops: &'static ElementOps,
    ) -> Result<DMatrix<T>> {
        let session = &self.session;
        match self.operate(site, stage, |backend, operation| backend.store(operation, ops))? {
            Made::Here(pieces) => {
                let made = chunks::concatenate(session, ops, unpack::<T>(pieces))?;
                Ok(DMatrix::of_buffer(Arc::clone(session), made))
            }
            Made::Elsewhere { dds, home, len, .. } => Ok(DMatrix::elsewhere(Arc::clone(session), dds, len, home)),
        }
    }
}

impl<K: Kernel> Pipe<'_, K> {
    /// All items as the rows of a DMatrix. Items are `Vec`s, arrays or boxed slices, each of `width` numbers. Each worker keeps the
    /// rows that it made, so a model of any size needs no memory of the program's own process.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let lines = session.range(3).map(|i| [*i as f32, 1.0]).collect_rows(2)?;
    /// assert_eq!(lines.to_vec()?, [0.0, 1.0, 1.0, 1.0, 2.0, 1.0]);
    /// let some: DMatrix<f32> = lines.filter(|row| row[0] > 0.5).collect_rows(2)?;
    /// assert_eq!((some.len(), some.width()), (2, 2));
    ///
    /// let error = session.range(9).map(|i| vec![0u8; 3 + i / 7]).collect_rows(3).unwrap_err().to_string();
    /// assert!(error.ends_with("element 7 failed: its row has 4 numbers, and those of the DMatrix have 3"));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Cost
    /// One pass. Numbers are copied from each item.
    ///
    /// # Errors
    /// As [`collect`](Pipe::collect). If an item has another length than `width`, [`Error::Operator`](crate::Error::Operator) names
    /// the first element of the pipe's source for which that is so. [`Error::Rows`](crate::Error::Rows) if `width` is 0.
    #[track_caller]
    pub fn collect_rows<T: Element>(self, width: usize) -> Result<DMatrix<T>>
    where
        K::Item: AsRef<[T]>,
    {
        let ops = DMatrix::<T>::ops(if K::ONE_EACH { self.flow.len } else { 0 }, width)?;
        let stage = CollectedRows { kernel: self.kernel, ops, number: PhantomData };
        self.flow.store_rows(&site("collect_rows", Location::caller()), &stage, ops)
    }
}
