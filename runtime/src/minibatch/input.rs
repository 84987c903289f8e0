//! What the minibatches of a synchronous loop are made of, as the macro passes it.

use crate::body::capture::Read;
use crate::dds::dvector::DVector;

/// What a synchronous loop may take as its input: a DVector, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be the input of a loop over minibatches",
    label = "not a DVector",
    note = "minibatches are made of the elements of a DVector, such as `DVector::from_vec(session, elements)?`"
)]
pub trait LoopInput {
    /// What it has elements of.
    type Element: 'static;
    #[doc(hidden)]
    fn dvector(&self) -> &DVector<Self::Element>;
}

impl<T: 'static> LoopInput for DVector<T> {
    type Element = T;
    fn dvector(&self) -> &DVector<T> {
        self
    }
}

impl<I: LoopInput + ?Sized> LoopInput for &I {
    type Element = I::Element;
    fn dvector(&self) -> &DVector<I::Element> {
        (**self).dvector()
    }
}

impl<I: LoopInput + ?Sized> LoopInput for &mut I {
    type Element = I::Element;
    fn dvector(&self) -> &DVector<I::Element> {
        (**self).dvector()
    }
}

/// The input of a loop.
pub fn input<I: LoopInput + ?Sized>(input: &I) -> Read<'_, DVector<I::Element>> {
    Read(input.dvector())
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
