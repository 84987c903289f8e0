//! Elements that a view holds: of which it knows, before a loop in the body begins, that the loop's indices lead to them.
//!
//! In `for k in 0..n { x[u][k] += v }` each access asks whether the block owns `x[u]`, and the way to an element that it doesn't own is a
//! call, which keeps the compiler from doing several rounds at once. So the macro (`parallel_for/held.rs`) asks before such a loop whether the block
//! owns `x[u]`, or in `for k in a..b { x[c + k] += v }` the elements from `c + a` on, and writes the loop twice. Where all are owned, the
//! index is compared with what is held; the compiler sees the outcome, and the other way is gone.
//!
//! The view's range, and so what it holds, stays while it runs iterations that own the same; `forget` is called when it changes.

use std::cell::Cell;
use std::iter::Enumerate;
use std::ops::{Range, RangeFrom, RangeFull, RangeInclusive, RangeTo, RangeToInclusive};

use super::{ReadView, WriteView};
use crate::body::index::{Counted, ElementIndex, Held};
use crate::body::slow_path::ViewRange;
use crate::body::stored::Stored;

/// How many stretches of elements a view holds.
const PLACES: usize = 4;

/// What a view holds: elements that follow each other, in each place.
pub(super) struct Holds([Cell<ViewRange>; PLACES]);

impl Holds {
    #[inline(always)]
    pub(super) fn nothing() -> Self {
        Holds([const { Cell::new(ViewRange::EMPTY) }; PLACES])
    }

    #[inline(always)]
    pub(super) fn forget(&self) {
        self.0.iter().for_each(|place| place.set(ViewRange::EMPTY));
    }

    /// Whether an index leads to what is held where it says: to be written, if that is asked. (Asked so that the compiler knows
    /// the outcome.)
    #[inline(always)]
    pub(super) fn have<I: ElementIndex>(&self, index: I, write: bool) -> bool {
        let nth = index.nth_held();
        let is_here = |range: ViewRange| {
            nth < if write { range.wlen } else { range.len } && index.to_usize() == range.lo.wrapping_add(nth)
        };
        self.0.get(I::HELD).is_some_and(|place| is_here(place.get()))
    }
}

/// What the macro calls on each capture, whatever it is: what can't hold elements says so, and leaves the index as it is.
pub trait HoldsNothing {
    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_hold<I: ?Sized>(&self, _place: usize, _first: &I, _n: usize, _write: bool) -> bool {
        false
    }

    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_mark<const S: usize>(&self) -> NoMark {
        NoMark
    }
}

impl<V: ?Sized> HoldsNothing for V {}

/// Marks indices that lead to what is held in place `S`.
#[derive(Clone, Copy)]
pub struct Mark<const S: usize>;

impl<const S: usize> Mark<S> {
    #[doc(hidden)]
    #[inline(always)]
    pub fn on<I: Holdable>(self, nth: usize, index: I) -> I::Held<S> {
        index.held(nth)
    }
}

/// What stands in the brackets. A range leads to a slice, which nothing is held of.
pub trait Holdable {
    /// With the mark.
    type Held<const S: usize>;
    #[doc(hidden)]
    fn held<const S: usize>(self, nth: usize) -> Self::Held<S>;
    #[doc(hidden)]
    fn first(&self) -> Option<usize>;
}

impl<I: ElementIndex> Holdable for I {
    type Held<const S: usize> = Held<S, I>;

    #[inline(always)]
    fn held<const S: usize>(self, nth: usize) -> Held<S, I> {
        Held { index: self, nth }
    }

    #[inline(always)]
    fn first(&self) -> Option<usize> {
        Some(self.to_usize())
    }
}

macro_rules! not_held {
    ($($range:ty $(, $I:ident)?;)*) => {$(
        impl$(<$I>)? Holdable for $range {
            type Held<const S: usize> = Self;

            #[inline(always)]
            fn held<const S: usize>(self, _nth: usize) -> Self {
                self
            }

            #[inline(always)]
            fn first(&self) -> Option<usize> {
                None
            }
        }
    )*};
}
not_held! {
    RangeFull;
    Range<I>, I;
    RangeFrom<I>, I;
    RangeInclusive<I>, I;
    RangeTo<I>, I;
    RangeToInclusive<I>, I;
}

/// Leaves indices as they are.
#[derive(Clone, Copy)]
pub struct NoMark;

impl NoMark {
    #[doc(hidden)]
    #[inline(always)]
    pub fn on<I>(self, _nth: usize, index: I) -> I {
        index
    }
}

/// The rounds of a loop, where it is known before the first how many they are.
pub trait Rounds {
    /// Whether there is one.
    #[doc(hidden)]
    fn __stradsap_any(&self) -> bool;
    /// How many, if so.
    #[doc(hidden)]
    fn __stradsap_rounds(&self) -> usize;
}

// (Of both ranges: a negative number is larger than any other.)

impl<I: Counted> Rounds for Range<I> {
    #[inline(always)]
    fn __stradsap_any(&self) -> bool {
        self.start.to_usize() < self.end.to_usize()
    }

    #[inline(always)]
    fn __stradsap_rounds(&self) -> usize {
        self.end.to_usize().wrapping_sub(self.start.to_usize())
    }
}

impl<I: Counted> Rounds for RangeInclusive<I> {
    #[inline(always)]
    fn __stradsap_any(&self) -> bool {
        self.start().to_usize() <= self.end().to_usize() && self.end().to_usize() < usize::MAX
    }

    #[inline(always)]
    fn __stradsap_rounds(&self) -> usize {
        self.end().to_usize().wrapping_sub(self.start().to_usize()).wrapping_add(1)
    }
}

impl<I: ExactSizeIterator> Rounds for Enumerate<I> {
    #[inline(always)]
    fn __stradsap_any(&self) -> bool {
        self.len() > 0
    }

    #[inline(always)]
    fn __stradsap_rounds(&self) -> usize {
        self.len()
    }
}

/// Loops of which it isn't known before the first round how many they have.
pub trait NoRounds {
    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_any(&self) -> bool {
        false
    }

    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_rounds(&self) -> usize {
        0
    }
}

impl<O> NoRounds for &O {}

/// What the `n`-th round of a loop over a range counts.
pub trait Counts {
    /// Its type.
    type Index;
    #[doc(hidden)]
    fn __stradsap_count(&self, n: usize) -> Self::Index;
}

/// Ranges of what is no index: no marked round runs over them.
pub trait CountsNothing {
    /// Its type.
    type Index;
    #[doc(hidden)]
    fn __stradsap_count(&self, n: usize) -> Self::Index;
}

macro_rules! count {
    ($($range:ident, |$from:ident| $start:expr;)*) => {$(
        impl<I: Counted> Counts for $range<I> {
            type Index = I;
            #[inline(always)]
            fn __stradsap_count(&self, n: usize) -> I {
                let $from = self;
                $start.behind(n)
            }
        }

        impl<T: Copy> CountsNothing for &$range<T> {
            type Index = T;
            #[inline(always)]
            fn __stradsap_count(&self, _n: usize) -> T {
                let $from = self;
                $start
            }
        }
    )*};
}
count! {
    Range, |range| range.start;
    RangeInclusive, |range| *range.start();
}

macro_rules! hold_elements {
    ($($view:ident)*) => {$(
        impl<T: Stored + ?Sized, const C: usize, const W: usize> $view<'_, T, C, W> {
            /// Holds the `n` elements from `first` on, if they follow each other in what the block owns, to be written if that is asked.
            #[doc(hidden)]
            #[inline(always)]
            pub fn __stradsap_hold<I: Holdable>(&self, place: usize, first: &I, n: usize, write: bool) -> bool {
                let Some(first) = first.first() else { return true };
                let left = |range: ViewRange| {
                    let most = if write { range.wlen } else { range.len };
                    most.saturating_sub(first.wrapping_sub(range.lo))
                };
                let own = ViewRange { lo: self.lo, len: self.len, wlen: self.wlen };
                // (Elements that are packed lie elsewhere.)
                let owned = !self.packed && (n <= left(own) || self.more.iter().any(|range| n <= left(range)));
                match self.held.0.get(place) {
                    Some(place) if owned => place.set(ViewRange { lo: first, len: n, wlen: if write { n } else { 0 } }),
                    _ => return false,
                }
                true
            }

            /// What marks the indices.
            #[doc(hidden)]
            #[inline(always)]
            pub fn __stradsap_mark<const S: usize>(&self) -> Mark<S> {
                Mark
            }
        }
    )*};
}
hold_elements!(ReadView WriteView);
