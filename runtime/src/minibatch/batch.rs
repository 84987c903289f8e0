//! What the body of a synchronous loop gets: consecutive elements of the input.

use std::ops::Deref;

/// A minibatch: a slice of the loop's input, and which one it is.
///
/// ```
/// use stradsap_runtime::Batch;
///
/// fn tokens(batch: Batch<'_, Vec<u32>>) -> usize {
///     batch.into_iter().map(Vec::len).sum()
/// }
/// ```
pub struct Batch<'v, T> {
    elements: &'v [T],
    start: usize,
    number: usize,
}

impl<T> Clone for Batch<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Batch<'_, T> {}

impl<'v, T> Batch<'v, T> {
    pub(crate) fn new(elements: &'v [T], start: usize, number: usize) -> Self {
        Batch { elements, start, number }
    }

    /// The index of its first element in the input.
    #[inline]
    pub fn start(&self) -> usize {
        self.start
    }

    /// Which minibatch of the loop it is, from 0.
    #[inline]
    pub fn number(&self) -> usize {
        self.number
    }

    /// Its elements.
    #[inline]
    pub fn as_slice(&self) -> &'v [T] {
        self.elements
    }
}

impl<T> Deref for Batch<'_, T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        self.elements
    }
}

impl<'v, T> IntoIterator for Batch<'v, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter()
    }
}

impl<'v, T> IntoIterator for &Batch<'v, T> {
    type Item = &'v T;
    type IntoIter = std::slice::Iter<'v, T>;

    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.elements.iter()
    }
}

impl<T: std::fmt::Debug> std::fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "minibatch {} from {}: ", self.number, self.start)?;
        self.elements.fmt(f)
    }
}
