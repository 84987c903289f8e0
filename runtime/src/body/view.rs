//! What a loop body sees of a DDS: a view of the elements that its block owns.
//!
//! # Why this is sound
//! A view is made by the engine for one block of iterations on one thread, and says which elements may be
//! reached without asking: those from `lo` on, `len` of them to be read, `wlen` of them to be written.
//!
//! 1. While the block runs, no other thread writes an element of the view's readable range, and no other
//!    thread touches one of its writable range. The executor guarantees it: two blocks that share a part
//!    which one of them writes are ordered, and run one after the other.
//!    Of a DMatrix an element is a row: it lies `width` numbers behind the one before, and the slot says how wide they are.
//! 2. One comparison (`index - lo < len`, wrapping) is both the bounds check and this ownership check. The same is
//!    asked of a few more ranges, whose elements are found from the DDS's first. `enter` gets them anew where elements are listed.
//!    What fails it goes to the view's slow path ([`SlowPath`]), which gives the address of an element that the block owns
//!    by other means, of a scratch copy (while recording), or unwinds. It lives in the slot, which the view borrows.
//! 3. Within the block the borrow checker does the rest: a view is neither `Clone` nor `Copy`, reads borrow
//!    it shared, writes borrow it alone, and the loop body must accept any lifetime, so that no reference
//!    outlives its iteration. Several elements at once are given by `pair_mut` and `many_mut`, which refuse
//!    equal indices.
//! 4. [`ReadView`]s are of DDSs captured by shared reference: the driver's borrow lasts as long as the loop
//!    and no view of it writes.
//! 5. In blocks whose iterations each own the element of their own number, the slot says so (`here`), and `step` says
//!    before each iteration which one runs. An index that is that number, compared here, needs no other comparison; where the
//!    body writes the loop's own index, the compiler knows the outcome. Before `begin`, while a block's scratch is set up,
//!    no iteration runs, and a view makes no use of it.
//!    Iterations come in runs of consecutive ones. `enter` gets the bounds of a run, and reports the iterations of it that own all
//!    elements less than `W` away; `set_near` says whether the next ones are among them. Where the body writes `x[i + 1]`,
//!    the compiler knows the distance; so no comparison is left in the loop.
//!    In blocks that aren't ranges the slot may say that each iteration owns the element at a distance from its number
//!    (`in_step`); it has compared the whole loop's with the DDS's length. `enter` and `turn_to` take that one for the range, or those of a run.
//! 6. What an index that stands ahead leads to is only fetched, never read: it may be anything.
//! 7. In a block that is a tile a run's iterations each own all elements at some distances from the number that they have there:
//!    their own and `shift`, and as many more as `gap` says for each of the rows that run together besides the first (`turn_to_row`).
//!    `enter` asks for these, and what gives them has compared them with the DDS's length. The distance of an index is compared with them;
//!    where the compiler knows that it is the same in all iterations, before the loop over the run's.
//! 8. `set_whole` is called with true only if `may_be_whole`: the range is all of the DDS, from element 0 on, and no run changes it.
//!    Then an index below the length is within the range.
//! 9. What a view holds (`held`) is among the ranges that rule 2 speaks of, and is forgotten when they change. It lies where the DDS's
//!    first element says: it isn't packed.
#![allow(unsafe_code)]

#[macro_use]
mod elements;
mod held;
mod several;
mod slices;

use std::marker::PhantomData;
use std::ops::{Index, IndexMut, Range};

pub use self::elements::Elements;
use self::held::Holds;
pub use self::held::{Counts, CountsNothing, HoldsNothing, NoRounds, Rounds};
use crate::body::index::ElementIndex;
use crate::body::slot::{Ahead, OwnElement, Slot};
use crate::body::slow_path::{More, SlowPath};
use crate::body::stored::Stored;
use crate::body::tiling::{Entry, IN_TILES};
use crate::kernels::fetch_bytes;
use crate::planner::plan::Window;

macro_rules! common_to_views {
    ($view:ident, $($ahead:ident)?, $($whole:ident)?) => {
        impl<'v, T: Stored + ?Sized, const C: usize, const W: usize> $view<'v, T, C, W> {
            /// One more than the largest distance that the macro has seen.
            pub(crate) const NEAR: usize = W % IN_TILES;

            /// # Safety
            /// The slot describes elements of type T that meet the rules above while the view lives.
            #[inline(always)]
            pub(crate) unsafe fn new(slot: &'v Slot<'v>) -> Self {
                let range = slot.range();
                $view {
                    ptr: slot.ptr().cast(),
                    width: T::width(slot.width()),
                    lo: range.lo,
                    len: range.len,
                    wlen: range.wlen,
                    more: slot.slow_path().more(),
                    slow_path: slot.slow_path(),
                    base: slot.base().cast(),
                    packed: slot.here().is_packed(),
                    in_step: slot.in_step().is_some(),
                    distance: slot.in_step().map_or(0, |beside| beside.distance),
                    written: slot.in_step().is_some_and(|beside| beside.written),
                    tracked: slot.is_tracked(),
                    here: std::ptr::null_mut(),
                    owns_own: false,
                    own: false,
                    near: false,
                    $($whole: false,)?
                    $($ahead: slot.ahead(), tiled: slot.slow_path().is_tiled(), tile: Entry::default(), number: usize::MAX,)?
                    iteration: usize::MAX,
                    held: Holds::nothing(),
                    lifetime: PhantomData,
                }
            }

            /// The first iteration is about to begin (rule 5). The slot is the one that the view was made of.
            #[inline(always)]
            pub(crate) fn begin(&mut self, slot: &Slot<'_>) {
                self.owns_own = Self::owns_own(slot.here());
                self.own = self.owns_own;
            }

            /// Moves on to a run: the `n` iterations of the loop from `first` on, from the block's `place`-th on.
            #[inline(always)]
            pub(crate) fn enter(&mut self, place: usize, first: usize, n: usize) {
                if self.enters_tile(first, n) {
                    // What is owned is known by distances.
                } else if self.tracked {
                    let owned = self.slow_path.enter(place, first, n);
                    (self.lo, self.len, self.wlen) = (owned.lo, owned.len, owned.wlen);
                    self.ptr = self.base.wrapping_add(T::numbers(self.lo, self.width));
                    self.held.forget();
                }
                self.turn_to_run(place, first, n);
            }

            /// The same for a run of one iteration, where nothing is tracked.
            #[inline(always)]
            pub(crate) fn turn_to(&mut self, place: usize, first: usize) {
                self.turn_to_run(place, first, 1);
            }

            #[inline(always)]
            fn turn_to_run(&mut self, place: usize, first: usize, n: usize) {
                if self.in_step {
                    // So that this stays a branch. Were each number chosen instead, an iteration would wait for what the one before has chosen.
                    std::hint::black_box(());
                    self.lo = first.wrapping_add(self.distance);
                    (self.len, self.wlen) = (n, if self.written { n } else { 0 });
                    self.ptr = self.behind(self.base, self.lo);
                    self.held.forget();
                }
                self.turn_own(place, first);
            }

            /// The same for a run of one iteration, where nothing else changes from one to the next.
            #[inline(always)]
            pub(crate) fn turn_own(&mut self, place: usize, first: usize) {
                if Self::NEAR > 0 {
                    let own = if self.packed { place } else { first };
                    self.here = self.behind(self.base, own.wrapping_sub(first));
                }
            }

            /// Whether bodies index their own element, which doesn't lie in the order of execution.
            #[inline(always)]
            pub(crate) fn is_scattered(&self) -> bool {
                Self::NEAR > 0 && !self.packed
            }

            /// Fetches such an element.
            #[inline(always)]
            pub(crate) fn fetch_own(&self, i: usize) {
                if self.is_scattered() {
                    fetch_bytes(self.behind(self.base, i), T::bytes(self.width));
                }
            }

            /// Whether the view's range is the same for all of the block's iterations.
            #[inline(always)]
            pub(crate) fn is_fixed(&self) -> bool {
                !self.in_step
            }

            /// The iterations that own all elements less than `W` from their own number, where a range is owned, and perhaps
            /// each iteration's own element besides.
            #[inline(always)]
            fn surrounded(&self, range: Range<usize>) -> Range<usize> {
                match Self::NEAR {
                    0 => 0..usize::MAX,
                    1 if self.owns_own => 0..usize::MAX,
                    _ if self.packed => 0..0,
                    near => range.start.saturating_add(near - 1)..range.end.saturating_sub(near - 1),
                }
            }

            /// Whether each of the iterations that are next is one of those.
            #[inline(always)]
            pub(crate) fn set_near(&mut self, near: bool) {
                // (Of other views `near` says nothing.)
                if Self::NEAR > 0 {
                    (self.own, self.near) = (near, near);
                }
            }

            /// Moves on to iteration `i` of the loop, which is one of the run's.
            #[inline(always)]
            pub(crate) fn step(&mut self, i: usize) {
                self.iteration = i;
                self.count(i);
            }

            /// For bodies of the library's own, which know what they touch: in the virtual iteration, logs that this one touches element `i`,
            /// and gives true. There is nothing else to do in it then.
            pub(crate) fn note(&self, i: usize, write: bool) -> bool {
                self.slow_path.note(i, write)
            }

            /// How many elements the whole DVector has.
            #[inline]
            pub fn len(&self) -> usize {
                self.slow_path.dds_len()
            }

            /// Whether the DVector has no elements.
            #[inline]
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Element `i`, or `None` if `i` is out of range.
            #[inline]
            pub fn get(&self, i: impl ElementIndex) -> Option<&T> {
                let i = i.to_usize();
                (i < self.len()).then(|| self.at(i))
            }

            /// The first element, or `None` if there is none.
            #[inline]
            pub fn first(&self) -> Option<&T> {
                self.get(0usize)
            }

            /// The last element, or `None` if there is none.
            #[inline]
            pub fn last(&self) -> Option<&T> {
                self.get(self.len().wrapping_sub(1))
            }

            /// All elements, one after the other. An element counts as read when the iterator reaches it. `for element in &x` does
            /// the same.
            #[inline]
            pub fn iter(&self) -> Elements<'_, Self> {
                Elements { view: self, left: 0..self.len() }
            }

            #[inline(always)]
            fn at(&self, i: usize) -> &T {
                let k = i.wrapping_sub(self.lo);
                let ptr = if self.is_whole() {
                    // No way leads back into the loop from here, so that the compiler may take what is read out of it.
                    if i >= self.len {
                        self.slow_path.out_of_range(i);
                    }
                    // SAFETY: rule 8: the element is one of the range, which begins with the first.
                    unsafe { self.ptr.add(T::numbers(i, self.width)) }
                } else if self.reads_in_tile(i) {
                    self.behind(self.base, i)
                } else if k < self.len {
                    // SAFETY: k < len, so the element is in the owned range.
                    unsafe { self.ptr.add(T::numbers(k, self.width)) }
                } else if self.more.iter().any(|range| i.wrapping_sub(range.lo) < range.len) {
                    self.behind(self.base, i)
                } else {
                    self.slow_path.reach_read(i).cast()
                };
                // SAFETY: rules 1 and 3 (and 7): nobody writes this element while the view is borrowed.
                unsafe { T::get(ptr, self.width) }
            }

            /// The address of the `k`-th element behind one.
            #[inline(always)]
            fn behind(&self, first: *mut T::Number, k: usize) -> *mut T::Number {
                first.wrapping_add(T::numbers(k, self.width))
            }

            /// Whether the index says enough to know that the running iteration owns an element: which is at `here` then.
            #[inline(always)]
            fn is_surely_owned<I: ElementIndex>(&self, i: usize) -> bool {
                if I::OWN {
                    Self::NEAR > 0 && self.own && i == self.iteration
                } else {
                    let distance = i.wrapping_sub(self.iteration);
                    let near = Self::NEAR.wrapping_sub(1);
                    I::NEAR && Self::NEAR > 0 && self.near && distance.wrapping_add(near) <= 2 * near
                }
            }
        }

        have_elements!($view);

        impl<T: Stored + ?Sized, I: ElementIndex, const C: usize, const W: usize> Index<I> for $view<'_, T, C, W> {
            type Output = T;
            #[inline(always)]
            fn index(&self, index: I) -> &T {
                let i = index.to_usize();
                if self.is_surely_owned::<I>(i) {
                    // SAFETY: rule 5.
                    unsafe { T::get(self.behind(self.here, i), self.width) }
                } else if self.held.have(index, false) {
                    // SAFETY: rule 9.
                    unsafe { T::get(self.behind(self.base, i), self.width) }
                } else {
                    self.at(i)
                }
            }
        }
    };
}

/// A DVector captured as `&x`: its elements are read by index.
///
/// `C` is its place among the captures. Views of different captures have different types, so that a body can't swap them. `W` is
/// how far from the loop's index the body indexes the view, as far as the macro sees.
///
/// # Dependencies
/// An access by index reads the element, and a slice reads each of its elements. `iter` and `for` read all elements that they reach.
#[allow(dead_code)]
pub struct ReadView<'v, T: Stored + ?Sized, const C: usize, const W: usize = 0> {
    ptr: *mut T::Number,
    /// Of a row.
    width: T::Width,
    lo: usize,
    len: usize,
    wlen: usize,
    /// Ranges of the same kind that are looked at next. (By reference: they are seldom needed, and registers are few.)
    more: &'v More,
    slow_path: &'v SlowPath<'v>,
    base: *mut T::Number,
    packed: bool,
    /// Whether each iteration owns the element at a distance from its number, and whether it may be written.
    in_step: bool,
    distance: usize,
    written: bool,
    tracked: bool,
    /// The running iteration's own element, once its number is added.
    here: *mut T::Number,
    /// Whether each iteration of the block owns its own element, and whether that is known of the running one.
    owns_own: bool,
    own: bool,
    /// All elements less than `W` from the number of the running iteration are owned, to be written by a view that writes. It is
    /// the same in all views of a loop.
    near: bool,
    /// Whether it is known that the range is all of the DDS (rule 8).
    whole: bool,
    iteration: usize,
    held: Holds,
    lifetime: PhantomData<&'v T>,
}

common_to_views!(ReadView, , whole);

/// What is added to `W` of a view whose DVector is indexed both near the loop's index and elsewhere.
const FAR: usize = 1 << 17;

/// Whether a distance, which may be a negative number, is one of a range.
#[inline(always)]
fn is_within(window: &Window, by: usize) -> bool {
    by.wrapping_sub(window.from as usize) < window.len
}

impl<T: Stored + ?Sized, const C: usize, const W: usize> ReadView<'_, T, C, W> {
    fn owns_own(here: OwnElement) -> bool {
        here.read
    }

    // Of DDSs that are only read a tile owns all.
    #[inline(always)]
    fn enters_tile(&mut self, _first: usize, _n: usize) -> bool {
        false
    }

    #[inline(always)]
    fn reads_in_tile(&self, _i: usize) -> bool {
        false
    }

    /// Whether bodies index elements that are not near their own, and all may be read for the whole block.
    pub(crate) const HAS_WHOLE: bool = Self::NEAR == 0 || W >= FAR;

    #[inline(always)]
    pub(crate) fn may_be_whole(&self) -> bool {
        let fixed = !self.in_step && !self.tracked;
        !Self::HAS_WHOLE || fixed && self.lo == 0 && self.len == self.slow_path.dds_len()
    }

    /// Says whether the views of the next iterations may be, all of them.
    #[inline(always)]
    pub(crate) fn set_whole(&mut self, whole: bool) {
        if Self::HAS_WHOLE {
            self.whole = whole;
        }
    }

    #[inline(always)]
    fn is_whole(&self) -> bool {
        Self::HAS_WHOLE && self.whole
    }

    #[inline(always)]
    fn count(&mut self, _i: usize) {}

    /// Of the run that was entered, the iterations that own all elements that are indexed near them.
    #[inline(always)]
    pub(crate) fn near(&self) -> Range<usize> {
        self.surrounded(self.lo..self.lo + self.len)
    }
}

/// A DVector captured as `&mut x`: its elements are read and written by index.
///
/// `C` and `W` are as in [`ReadView`].
///
/// # Dependencies
/// `x[i]` and `&x[a..b]` read their elements, and so do `get` and `iter`. Assignments, `&mut x[i]`, `&mut x[a..b]`, `swap`, `pair_mut` and
/// `many_mut` write theirs.
pub struct WriteView<'v, T: Stored + ?Sized, const C: usize, const W: usize = 0> {
    ptr: *mut T::Number,
    /// Of a row.
    width: T::Width,
    lo: usize,
    len: usize,
    wlen: usize,
    /// Ranges of the same kind that are looked at next. (By reference: they are seldom needed, and registers are few.)
    more: &'v More,
    slow_path: &'v SlowPath<'v>,
    base: *mut T::Number,
    packed: bool,
    /// Whether each iteration owns the element at a distance from its number, and whether it may be written.
    in_step: bool,
    distance: usize,
    written: bool,
    tracked: bool,
    /// The running iteration's own element, once its number is added.
    here: *mut T::Number,
    /// Whether each iteration of the block owns its own element, and whether that is known of the running one.
    owns_own: bool,
    own: bool,
    /// All elements less than `W` from the number of the running iteration are owned, to be written by a view that writes. It is
    /// the same in all views of a loop.
    near: bool,
    ahead: Ahead<'v>,
    /// Whether the block is a tile, and at which distances from each of the run's iterations it owns elements (rule 7), by the
    /// numbers that iterations have in the tile.
    tiled: bool,
    tile: Entry,
    number: usize,
    iteration: usize,
    held: Holds,
    lifetime: PhantomData<&'v mut T>,
}

common_to_views!(WriteView, ahead,);

impl<T: Stored + ?Sized, const C: usize, const W: usize> WriteView<'_, T, C, W> {
    fn owns_own(here: OwnElement) -> bool {
        here.read && here.write
    }

    #[inline(always)]
    fn is_whole(&self) -> bool {
        false
    }

    /// Whether the loop may run by tiles: the view then looks for elements by their distance, too.
    pub(crate) const IN_TILES: bool = W >= IN_TILES;

    #[inline(always)]
    fn enters_tile(&mut self, first: usize, n: usize) -> bool {
        if Self::IN_TILES && self.tiled {
            self.tile = self.slow_path.enter_tile(first, n);
        }
        Self::IN_TILES && self.tiled
    }

    #[inline(always)]
    fn reads_in_tile(&self, i: usize) -> bool {
        let by = i.wrapping_sub(self.number);
        // All are looked at, without branches: where the distance is a constant of the loop, so is the outcome.
        let within = |all: bool, window: &Window| all | is_within(window, by);
        Self::IN_TILES && self.tiled && self.tile.reach.reads.iter().fold(false, within)
    }

    #[inline(always)]
    fn writes_in_tile(&self, i: usize) -> bool {
        Self::IN_TILES && self.tiled && is_within(&self.tile.reach.write, i.wrapping_sub(self.number))
    }

    #[inline(always)]
    fn count(&mut self, i: usize) {
        if Self::IN_TILES {
            self.number = i.wrapping_add(self.tile.shift);
        }
    }

    /// The running iteration is in the `k`-th of the rows that run together.
    #[inline(always)]
    pub(crate) fn turn_to_row(&mut self, k: usize) {
        if Self::IN_TILES {
            self.number = self.number.wrapping_add(k * self.tile.gap);
        }
    }

    /// Of the run that was entered, the iterations that own all elements that are indexed near them, to write them.
    #[inline(always)]
    pub(crate) fn near(&self) -> Range<usize> {
        self.surrounded(self.lo..self.lo + self.wlen)
    }

    /// Whether nothing is fetched ahead.
    #[inline(always)]
    pub(crate) fn looks_nowhere(&self) -> bool {
        self.ahead.is_nothing()
    }

    /// Fetches the elements of an iteration to come, where their indices are known.
    #[inline(always)]
    pub(crate) fn look_ahead(&self, j: usize) {
        // Not the view itself: one whose address is taken stays in memory, and all others with it.
        let (base, width) = (self.base, self.width);
        let at = move |i: u32| base.wrapping_add(T::numbers(i as usize, width));
        self.ahead.each_index(j, move |i| fetch_bytes(at(i), T::bytes(width)));
    }

    #[inline(always)]
    fn address_mut(&mut self, i: usize) -> *mut T::Number {
        let k = i.wrapping_sub(self.lo);
        if self.writes_in_tile(i) {
            self.behind(self.base, i)
        } else if k < self.wlen {
            // SAFETY: k < wlen, so the element is in the owned range.
            unsafe { self.ptr.add(T::numbers(k, self.width)) }
        } else if self.is_written_besides(i) {
            self.behind(self.base, i)
        } else {
            self.slow_path.reach_write(i).cast()
        }
    }

    /// Whether an element may be written that is not in the view's first range.
    #[inline(always)]
    fn is_written_besides(&self, i: usize) -> bool {
        self.more.iter().any(|range| i.wrapping_sub(range.lo) < range.wlen)
    }
}

impl<T: Stored + ?Sized, I: ElementIndex, const C: usize, const W: usize> IndexMut<I> for WriteView<'_, T, C, W> {
    #[inline(always)]
    fn index_mut(&mut self, index: I) -> &mut T {
        let i = index.to_usize();
        let owned = self.is_surely_owned::<I>(i);
        let address = if owned {
            self.behind(self.here, i)
        } else if self.held.have(index, true) {
            self.behind(self.base, i)
        } else {
            self.address_mut(i)
        };
        // SAFETY: rules 1 and 3 (and 5, 7 and 9): the element is this block's alone, and the view is borrowed alone.
        unsafe { T::get_mut(address, self.width) }
    }
}
