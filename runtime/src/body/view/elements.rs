//! Going through all elements of a view.

use std::ops::Range;

use super::ReadView;
use crate::body::stored::Stored;

macro_rules! have_elements {
    ($view:ident) => {
        // A body has its views by mutable reference.
        impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> IntoIterator for &'a &mut $view<'v, T, C, W> {
            type Item = &'a T;
            type IntoIter = Elements<'a, $view<'v, T, C, W>>;
            #[inline]
            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

        impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> Iterator for Elements<'a, $view<'v, T, C, W>> {
            type Item = &'a T;
            #[inline]
            fn next(&mut self) -> Option<&'a T> {
                self.left.next().map(|i| self.view.at(i))
            }
            #[inline]
            fn size_hint(&self) -> (usize, Option<usize>) {
                self.left.size_hint()
            }
        }

        impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> DoubleEndedIterator
            for Elements<'a, $view<'v, T, C, W>>
        {
            #[inline]
            fn next_back(&mut self) -> Option<&'a T> {
                self.left.next_back().map(|i| self.view.at(i))
            }
        }

        impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> ExactSizeIterator
            for Elements<'a, $view<'v, T, C, W>>
        {
        }
    };
}

/// An iterator over the elements of a view.
pub struct Elements<'a, V> {
    pub(super) view: &'a V,
    pub(super) left: Range<usize>,
}

impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> IntoIterator for &'a mut ReadView<'v, T, C, W> {
    type Item = &'a T;
    type IntoIter = Elements<'a, ReadView<'v, T, C, W>>;
    #[inline]
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}
