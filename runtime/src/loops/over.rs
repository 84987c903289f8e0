//! What a loop over elements runs over: `&order`.

use crate::dds::dvector::DVector;

/// A DVector whose elements a loop runs over.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a loop can't run over the elements of `{Self}`",
    label = "not a DVector of `Copy` elements",
    note = "let it run over numbers, `0..x.len()`, and capture what the body reads: `x[i]`; the entries of a map have no numbers: put them into a DVector first, `DVector::from_vec(session, map.to_vec()?)?`"
)]
pub trait LoopOrder {
    fn iterations(&self) -> usize;
}

// (Of other elements rustc would say only that they are not `Copy`.)
#[diagnostic::do_not_recommend]
impl<T: Copy + 'static> LoopOrder for DVector<T> {
    fn iterations(&self) -> usize {
        self.len()
    }
}

impl<O: LoopOrder + ?Sized> LoopOrder for &O {
    fn iterations(&self) -> usize {
        (**self).iterations()
    }
}

impl<O: LoopOrder + ?Sized> LoopOrder for &mut O {
    fn iterations(&self) -> usize {
        (**self).iterations()
    }
}

/// How many iterations a loop over elements has.
#[doc(hidden)]
pub fn order<O: LoopOrder + ?Sized>(order: &O) -> usize {
    order.iterations()
}
