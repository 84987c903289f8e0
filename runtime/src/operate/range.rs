//! Pipes that begin with no DDS: their items are numbers, which each process counts by itself.
//!
//! # Why this is sound
//! What it implements of `kernel` and `body` is safe code: nothing is read from memory that others share.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use super::body::Travels;
use super::kernel::{Cx, IndexedKernel, Kernel};
use super::pipe::{Flow, Pipe};
use crate::memory::codec::CodecError;
use crate::session::Session;

/// The indices of the chunk's elements.
#[doc(hidden)]
pub struct Indices;

impl Travels for Indices {
    fn encode(&self, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    unsafe fn decode(_bytes: &mut &[u8]) -> Result<Self, CodecError> {
        Ok(Indices)
    }
}

impl Kernel for Indices {
    type Item = usize;
    const ONE_EACH: bool = true;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&usize)) {
        self.each_owned(cx, |i| sink(&i));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(usize)) {
        for i in cx.start..cx.start + cx.len {
            cx.set(i);
            sink(i);
        }
    }

    fn shift(&mut self, _inputs: usize, _slots: usize) {}
}

impl IndexedKernel for Indices {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> usize {
        cx.set(cx.start + k);
        cx.start + k
    }
}

impl Session {
    /// A pipe of the numbers from 0 to `len - 1`. Use it to make data and initial models where they will be used: each worker
    /// counts its own numbers, makes items of them and keeps these. The program's own process holds nothing for each number, and
    /// in one process all threads work.
    ///
    /// Closures depend on the number alone, and so must be free of state: for random numbers capture a stream, `session.rng(0)` of
    /// the crate `stradsap`, in `stradsap::with!`. (A closure that has state makes a DVector in the program's own process:
    /// [`DVector::from_fn`](crate::DVector::from_fn).)
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMatrix, DVector, Session};
    ///
    /// let session = Session::builder().threads(2).build()?;
    /// let squares: DVector<u64> = session.range(1000).map(|i| (i * i) as u64).collect()?;
    /// assert_eq!(squares.get(30)?, 900);
    /// let model: DMatrix<f32> = session.range(100).map(|i| vec![*i as f32; 8]).collect_rows(8)?;
    /// assert_eq!(model.get(99)?, [99.0; 8]);
    /// assert_eq!(session.range(1000).filter(|i| i % 7 == 0).count()?, 143);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// `len` may be any number. Operators that make a DVector of more than 2^48 items return
    /// [`Error::TooLong`](crate::Error::TooLong).
    ///
    /// # Cost
    /// The program's own process holds what the operator at the end gives it, at most 32,768 chunks' results. After a loss a worker
    /// makes items again.
    ///
    /// # Determinism
    /// As of other pipes: results depend on `len` and the closures alone.
    pub fn range(&self, len: usize) -> Pipe<'static, Indices> {
        Pipe { flow: Flow::of(self.inner(), Vec::new(), len), kernel: Indices, borrowed: PhantomData }
    }
}
