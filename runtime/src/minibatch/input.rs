//! What the minibatches of a synchronous loop are made of, as the macro passes it.

use std::marker::PhantomData;

use crate::body::capture::Captured;
use crate::body::stored::Stored;
use crate::dds::dmatrix::DMatrix;
use crate::dds::dvector::DVector;

/// The elements or rows that a synchronous loop reads, borrowed as long as it runs.
pub struct InputOf<'i, T: ?Sized> {
    pub(super) data: Captured,
    borrowed: PhantomData<&'i T>,
}

/// What a synchronous loop may take as its input: a DVector or a DMatrix, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the input of a loop over minibatches",
    label = "neither a DVector nor a DMatrix",
    note = "minibatches are made of the elements of a DVector, such as `DVector::from_vec(session, elements)?`, or of a DMatrix's rows"
)]
pub trait LoopInput {
    /// What it has elements of; rows are slices.
    type Element: ?Sized + Stored + 'static;
    #[doc(hidden)]
    fn input(&self) -> InputOf<'_, Self::Element>;
}

impl<T: 'static> LoopInput for DVector<T> {
    type Element = T;
    fn input(&self) -> InputOf<'_, T> {
        InputOf { data: self.describe(false), borrowed: PhantomData }
    }
}

impl<T: 'static> LoopInput for DMatrix<T> {
    type Element = [T];
    fn input(&self) -> InputOf<'_, [T]> {
        InputOf { data: self.describe(false), borrowed: PhantomData }
    }
}

impl<I: LoopInput + ?Sized> LoopInput for &I {
    type Element = I::Element;
    fn input(&self) -> InputOf<'_, I::Element> {
        (**self).input()
    }
}

impl<I: LoopInput + ?Sized> LoopInput for &mut I {
    type Element = I::Element;
    fn input(&self) -> InputOf<'_, I::Element> {
        (**self).input()
    }
}

/// The input of a loop.
pub fn input<I: LoopInput + ?Sized>(input: &I) -> InputOf<'_, I::Element> {
    input.input()
}

/// How many elements a minibatch may have: a `usize`, `u8`, `u16`, `u32`, `u64`, `i32` or `i64`, from 1 on.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the size of a minibatch",
    label = "not a number of elements",
    note = "give an integer from 1 on, such as `1024`"
)]
pub trait MinibatchSize {
    /// The size, or 0 for what is none.
    #[doc(hidden)]
    fn elements(self) -> usize;
}

macro_rules! sizes {
    ($($t:ty)*) => {$(
        impl MinibatchSize for $t {
            fn elements(self) -> usize {
                usize::try_from(self).unwrap_or(0)
            }
        }
    )*};
}
sizes!(usize u8 u16 u32 u64 i32 i64);

/// The elements of a minibatch.
pub fn minibatch(elements: impl MinibatchSize) -> usize {
    elements.elements()
}

#[cfg(test)]
mod tests {
    use super::minibatch;

    #[test]
    fn sizes_of_all_types() {
        assert_eq!([minibatch(7usize), minibatch(7u8), minibatch(7i64)], [7; 3]);
        assert_eq!([minibatch(-1i32), minibatch(0u64), minibatch(-7i64)], [0; 3]);
    }
}
