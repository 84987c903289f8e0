//! State that blocks only add to, reductions and relaxed vectors, without its type.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};

use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::locked;
use crate::memory::named::Nameable;

/// The value of a reduction between loops.
#[derive(Debug)]
pub(crate) struct Reduction {
    id: u64,
    word: AtomicU64,
}

impl Reduction {
    pub(crate) fn new(id: u64, word: u64) -> Self {
        Reduction { id, word: AtomicU64::new(word) }
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn word(&self) -> u64 {
        self.word.load(Relaxed)
    }

    pub(crate) fn set_word(&self, word: u64) {
        self.word.store(word, Relaxed);
    }
}

/// How the engine unites what blocks come to.
#[derive(Debug)]
pub(crate) struct ReductionOps {
    pub(crate) unite: fn(u64, u64) -> u64,
    /// What a block starts from, given the value before the loop.
    pub(crate) neutral: fn(u64) -> u64,
    /// Whether the order of additions shows in the bits.
    pub(crate) ordered: bool,
}

impl Nameable for ReductionOps {
    const KIND: u64 = 3;
}

/// What the engine may do to relaxed state of one type.
#[derive(Debug)]
pub(crate) struct RelaxedOps {
    pub(crate) element: fn() -> &'static ElementOps,
    /// Adds the second to the first, element by element.
    pub(crate) add: fn(&mut RawBuf, &RawBuf),
    /// Takes the second off the first, element by element: of numbers of which a sum and one summand tell the other.
    pub(crate) subtract: Option<fn(&mut RawBuf, &RawBuf)>,
    /// The sum of absolute differences.
    pub(crate) apart: fn(&RawBuf, &RawBuf) -> f64,
    /// This many zeros.
    pub(crate) zeros: fn(usize) -> RawBuf,
}

impl Nameable for RelaxedOps {
    const KIND: u64 = 4;
}

/// The values of relaxed state between loops.
pub(crate) struct Cell {
    pub(crate) id: u64,
    pub(crate) len: usize,
    values: Mutex<RawBuf>,
}

impl Cell {
    pub(crate) fn new(id: u64, values: RawBuf) -> Self {
        Cell { id, len: values.len(), values: Mutex::new(values) }
    }

    pub(crate) fn values(&self) -> MutexGuard<'_, RawBuf> {
        locked(&self.values)
    }

    /// A copy of the values.
    pub(crate) fn copy(&self) -> RawBuf {
        self.values().copy()
    }

    /// Takes the values that a loop has left.
    pub(crate) fn replace(&self, values: RawBuf) {
        *self.values() = values;
    }
}
