//! Going through all elements of a view.
//!
//! # Why this is sound
//! By rule 2 of [`super`]: the elements that `fold` reads without asking are of the view's range.
#![allow(unsafe_code)]

use std::ops::Range;

use super::ReadView;
use crate::body::stored::Stored;

macro_rules! have_elements {
    ($view:ident) => {
        impl<'a, 'v, T: Stored + ?Sized, const C: usize, const W: usize> IntoIterator for &'a $view<'v, T, C, W> {
            type Item = &'a T;
            type IntoIter = Elements<'a, $view<'v, T, C, W>>;
            #[inline]
            fn into_iter(self) -> Self::IntoIter {
                self.iter()
            }
        }

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
            // Those that follow each other in the view's range at once, without asking for each.
            #[inline]
            fn fold<B, F: FnMut(B, &'a T) -> B>(self, first: B, mut f: F) -> B {
                let (view, Range { start: mut i, end }) = (self.view, self.left);
                let mut result = first;
                while i < end {
                    let k = i.wrapping_sub(view.lo);
                    let n = view.len.saturating_sub(k).min(end - i);
                    for j in 0..n {
                        // SAFETY: k + j < len.
                        let element = unsafe { T::get(view.ptr.add(T::numbers(k + j, view.width)), view.width) };
                        result = f(result, element);
                    }
                    if n == 0 {
                        result = f(result, view.at(i));
                    }
                    i += n.max(1);
                }
                result
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
