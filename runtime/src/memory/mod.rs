//! Memory of elements: buffers, a worker's reservations, elements and their bytes, rows that threads share.

pub(crate) mod additive;
pub(crate) mod buffer;
pub(crate) mod codec;
mod combine;
pub(crate) mod decode;
pub(crate) mod element;
pub(crate) mod element_ops;
pub(crate) mod home;
#[cfg(feature = "cluster")]
pub(crate) mod image;
pub(crate) mod merge;
pub(crate) mod named;
pub(crate) mod ordered;
pub(crate) mod pages;
pub(crate) mod ranges;
pub(crate) mod reservation;
pub(crate) mod shared;
pub(crate) mod spare;
pub(crate) mod spill;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a panic left is whole: every lock here guards a single assignment or an insertion.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
