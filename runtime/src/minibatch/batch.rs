//! What the body of a synchronous loop gets: consecutive elements of the input, or rows of it.

use std::ops::{Deref, Index};
use std::slice::ChunksExact;

use crate::body::stored::Stored;

/// A minibatch: a slice of the loop's input, with its number and position.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Batch;
///
/// fn tokens(batch: Batch<'_, Vec<u32>>) -> usize {
///     batch.into_iter().map(Vec::len).sum()
/// }
/// ```
///
/// The input may be a DMatrix of `T`. Then it is a `Batch<[T]>`, which has rows: `for row in batch`, `batch[k]`, `batch.len()`.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Batch;
///
/// fn longest(batch: Batch<'_, [f32]>) -> Option<f32> {
///     batch.into_iter().map(|row| row.iter().map(|x| x * x).sum::<f32>()).max_by(f32::total_cmp)
/// }
/// ```
pub struct Batch<'v, T: ?Sized + Stored> {
    numbers: &'v [T::Number],
    width: T::Width,
    start: usize,
    number: usize,
}

impl<T: ?Sized + Stored> Clone for Batch<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized + Stored> Copy for Batch<'_, T> {}

impl<'v, T: ?Sized + Stored> Batch<'v, T> {
    /// Whole elements, or whole rows of this width.
    pub(crate) fn new(numbers: &'v [T::Number], width: T::Width, start: usize, number: usize) -> Self {
        Batch { numbers, width, start, number }
    }

    /// The index of the minibatch's first element in the input.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }

    /// The number of this minibatch in the loop, from 0.
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }
}

impl<'v, T> Batch<'v, T> {
    /// Its elements.
    #[inline]
    pub fn as_slice(&self) -> &'v [T] {
        self.numbers
    }
}

impl<'v, T> Batch<'v, [T]> {
    /// The number of rows.
    #[inline]
    pub fn len(&self) -> usize {
        self.numbers.len() / self.width
    }

    /// True if it has no rows.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// The number of numbers in a row.
    #[inline]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Its rows.
    #[inline]
    pub fn iter(&self) -> ChunksExact<'v, T> {
        self.numbers.chunks_exact(self.width)
    }

    /// All its numbers, row after row.
    #[inline]
    pub fn as_slice(&self) -> &'v [T] {
        self.numbers
    }
}

impl<T> Deref for Batch<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.numbers
    }
}

impl<T> Index<usize> for Batch<'_, [T]> {
    type Output = [T];

    /// The `k`-th of its rows.
    ///
    /// # Panics
    /// If it has fewer.
    #[inline]
    fn index(&self, k: usize) -> &[T] {
        assert!(k < self.len(), "row {k} of a minibatch of {} rows", self.len());
        &self.numbers[k * self.width..][..self.width]
    }
}

macro_rules! into_iter {
    ($($batch:ty, $item:ty, $iter:ty, |$own:ident| $make:expr;)*) => {$(
        impl<'v, T> IntoIterator for $batch {
            type Item = &'v $item;
            type IntoIter = $iter;

            #[inline]
            fn into_iter(self) -> Self::IntoIter {
                let $own = self;
                $make
            }
        }
    )*};
}
into_iter! {
    Batch<'v, T>, T, std::slice::Iter<'v, T>, |batch| batch.numbers.iter();
    &Batch<'v, T>, T, std::slice::Iter<'v, T>, |batch| batch.numbers.iter();
    Batch<'v, [T]>, [T], ChunksExact<'v, T>, |batch| batch.iter();
    &Batch<'v, [T]>, [T], ChunksExact<'v, T>, |batch| batch.iter();
}

impl<T: std::fmt::Debug> std::fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "minibatch {} from {}: ", self.number, self.start)?;
        self.numbers.fmt(f)
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Batch<'_, [T]> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "minibatch {} from {}: ", self.number, self.start)?;
        f.debug_list().entries(self.iter()).finish()
    }
}
