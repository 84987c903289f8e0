//! Reductions: one number that all iterations add to, without conflicts.
//!
//! Each block of a loop starts from nothing; what the blocks come to is united in the loop's serial order, so
//! that the bits don't depend on who ran what when. With `order = Preserve` the additions of floats are made
//! one by one in the loop's own order, as the plain loop would.

mod capture;
mod flag;

use std::cell::Cell;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use crate::body::added::{Reduction, ReductionOps};
use crate::body::slot::Slot;
use crate::memory::named::Named;
use crate::session::{Session, SessionInner, next_id};

pub use flag::{All, Any, Flag, FlagView, Joins};

/// The numbers that can be reduced: all integers up to 64 bits, `f32` and `f64`.
///
/// ```
/// # let session = stradsap_runtime::Session::builder().threads(1).build()?;
/// let (loss, hits) = (session.sum(0.0f32), session.sum(0u8));
/// assert_eq!((loss.get(), hits.get()), (0.0, 0));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
pub trait Number: Copy + Send + Sync + PartialOrd + std::fmt::Debug + sealed::Sealed + 'static {
    #[doc(hidden)]
    const ZERO: Self;
    /// What changes no number that it is added to, nor the sign of a zero.
    #[doc(hidden)]
    const NEUTRAL: Self;
    #[doc(hidden)]
    const ASSOCIATIVE: bool;
    #[doc(hidden)]
    fn plus(self, other: Self) -> Self;
    /// Undoes `plus`, where that is [`ASSOCIATIVE`](Number::ASSOCIATIVE).
    #[doc(hidden)]
    fn minus(self, other: Self) -> Self;
    #[doc(hidden)]
    fn before(self, other: Self) -> bool;
    #[doc(hidden)]
    fn is_no_number(self) -> bool;
    #[doc(hidden)]
    fn to_word(self) -> u64;
    #[doc(hidden)]
    fn from_word(word: u64) -> Self;
    #[doc(hidden)]
    fn to_f64(self) -> f64;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl sealed::Sealed for $t {}
        impl Number for $t {
            const ZERO: Self = 0;
            const NEUTRAL: Self = 0;
            const ASSOCIATIVE: bool = true;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self.wrapping_add(other) }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self.wrapping_sub(other) }
            #[inline(always)]
            fn before(self, other: Self) -> bool { self < other }
            #[inline(always)]
            fn is_no_number(self) -> bool { false }
            #[inline(always)]
            fn to_word(self) -> u64 { self as u64 }
            #[inline(always)]
            fn from_word(word: u64) -> Self { word as $t }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
        }
    )*};
}
integers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl sealed::Sealed for $t {}
        impl Number for $t {
            const ZERO: Self = 0.0;
            const NEUTRAL: Self = -0.0;
            const ASSOCIATIVE: bool = false;
            #[inline(always)]
            fn plus(self, other: Self) -> Self { self + other }
            #[inline(always)]
            fn minus(self, other: Self) -> Self { self - other }
            // NaN is never before anything, and -0 is before 0: then the order of comparisons can't matter.
            #[inline(always)]
            fn before(self, other: Self) -> bool {
                self < other || (self == other && self.is_sign_negative() && other.is_sign_positive())
            }
            #[inline(always)]
            fn is_no_number(self) -> bool {
                self.is_nan()
            }
            #[inline(always)]
            fn to_word(self) -> u64 { u64::from(self.to_bits()) }
            #[inline(always)]
            fn from_word(word: u64) -> Self { <$t>::from_bits(word as _) }
            #[inline(always)]
            fn to_f64(self) -> f64 { f64::from(self) }
        }
    )*};
}
floats!(f32 f64);

struct SumOps<N>(PhantomData<N>);

impl<N: Number> SumOps<N> {
    const OPS: &'static Named<ReductionOps> = &Named::new(ReductionOps {
        unite: |a, b| N::from_word(a).plus(N::from_word(b)).to_word(),
        neutral: |_| N::NEUTRAL.to_word(),
        ordered: !N::ASSOCIATIVE,
    });
}

struct ExtremeOps<N, W>(PhantomData<(N, W)>);

impl<N: Number, W: Which> ExtremeOps<N, W> {
    const OPS: &'static Named<ReductionOps> = &Named::new(ReductionOps {
        unite: |a, b| W::choose(N::from_word(a), N::from_word(b)).to_word(),
        neutral: |before| before,
        ordered: false,
    });
}

/// Implemented by nothing: a reduction's value is known after the loop.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a reduction can't be read in a loop's body",
    label = "its value is known after the loop",
    note = "other iterations add to it at the same time: call `get` after the loop",
    note = "state that iterations read while others add to it is relaxed: `session.relaxed(0.0)`"
)]
pub trait ReadInBody {}

/// `get` of a view, which is there for what rustc says of it.
macro_rules! unread {
    ($([$($generic:tt)*] $view:ty, $n:ty;)*) => {$(
        impl<$($generic)*> $view {
            #[doc(hidden)]
            pub fn get(&self) -> $n
            where
                Self: ReadInBody,
            {
                unreachable!("nothing implements `ReadInBody`")
            }
        }
    )*};
}
unread! {
    [N: Number, const C: usize] SumView<'_, N, C>, N;
    [N: Number, W: Which, const C: usize] ExtremeView<'_, N, W, C>, N;
    [J: Joins, const C: usize] FlagView<'_, J, C>, bool;
    [const C: usize] CountView<'_, C>, u64;
}

macro_rules! driver_side {
    ($([$($generic:tt)*] $t:ty, $n:ty, $ops:expr;)*) => {$(
        impl<$($generic)*> $t {
            pub(crate) fn parts(&self) -> (&Arc<SessionInner>, &Arc<Reduction>, &'static ReductionOps) {
                (&self.session, &self.cell, $ops)
            }

            /// The value: what it started from, united with the contributions of all loops that ended well.
            pub fn get(&self) -> $n {
                <$n>::from_word(self.cell.word())
            }

            /// Starts again from `value`.
            pub fn set(&self, value: $n) {
                self.cell.set_word(value.to_word());
            }
        }

        impl<$($generic)*> std::fmt::Debug for $t {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.get().fmt(f)
            }
        }
    )*};
}
driver_side! {
    [N: Number] Sum<N>, N, &SumOps::<N>::OPS.value;
    [N: Number, W: Which] Extreme<N, W>, N, &ExtremeOps::<N, W>::OPS.value;
    [] Count, u64, &SumOps::<u64>::OPS.value;
}

fn cell(word: u64) -> Arc<Reduction> {
    Arc::new(Reduction::new(next_id(), word))
}

/// A sum over all iterations, from [`Session::sum`]. In a loop body: `loss.add(x)`.
///
/// Integers wrap around.
///
/// # Dependencies
/// A reduction makes no iterations conflict.
///
/// # Determinism
/// In an asynchronous loop floats are added in an order that depends on the data and the options alone, so the bits are the same on any
/// number of threads and workers. Under `order = Preserve` they are the plain loop's.
pub struct Sum<N: Number> {
    session: Arc<SessionInner>,
    cell: Arc<Reduction>,
    number: PhantomData<N>,
}

/// The smallest or largest of what all iterations saw, from [`Session::min`] and [`Session::max`]. In a loop body: `lo.min(x)`,
/// `hi.max(x)`. NaN is ignored, and -0 is smaller than 0.
pub struct Extreme<N: Number, W: Which> {
    session: Arc<SessionInner>,
    cell: Arc<Reduction>,
    number: PhantomData<(N, W)>,
}

/// The smallest of what all iterations saw.
pub type Min<N> = Extreme<N, Smallest>;
/// The largest of what all iterations saw.
pub type Max<N> = Extreme<N, Largest>;

/// A count over all iterations, from [`Session::count`]. In a loop body: `n.add(1)`.
pub struct Count {
    session: Arc<SessionInner>,
    cell: Arc<Reduction>,
}

/// Which of two numbers an [`Extreme`] keeps.
pub trait Which: Send + Sync + sealed::Sealed + 'static {
    #[doc(hidden)]
    fn choose<N: Number>(a: N, b: N) -> N;
}

/// Keeps the smaller number.
#[derive(Debug)]
pub struct Smallest;
/// Keeps the larger number.
#[derive(Debug)]
pub struct Largest;

impl sealed::Sealed for Smallest {}
impl sealed::Sealed for Largest {}

impl Which for Smallest {
    #[inline(always)]
    fn choose<N: Number>(a: N, b: N) -> N {
        if b.before(a) || a.is_no_number() { b } else { a }
    }
}

impl Which for Largest {
    #[inline(always)]
    fn choose<N: Number>(a: N, b: N) -> N {
        if a.before(b) || a.is_no_number() { b } else { a }
    }
}

impl Session {
    /// A sum that starts from `from`.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let loss = session.sum(0.0f64);
    /// assert_eq!(loss.get(), 0.0);
    /// loss.set(1.5);
    /// assert_eq!(loss.get(), 1.5);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn sum<N: Number>(&self, from: N) -> Sum<N> {
        Sum { session: self.inner(), cell: cell(from.to_word()), number: PhantomData }
    }

    /// A minimum that starts from `from`.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert_eq!(session.min(f32::INFINITY).get(), f32::INFINITY);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn min<N: Number>(&self, from: N) -> Min<N> {
        Extreme { session: self.inner(), cell: cell(from.to_word()), number: PhantomData }
    }

    /// A maximum that starts from `from`.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert_eq!(session.max(0u32).get(), 0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn max<N: Number>(&self, from: N) -> Max<N> {
        Extreme { session: self.inner(), cell: cell(from.to_word()), number: PhantomData }
    }

    /// A count that starts from 0.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert_eq!(session.count().get(), 0);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn count(&self) -> Count {
        Count { session: self.inner(), cell: cell(0) }
    }
}

/// A [`Sum`] inside a loop body.
pub struct SumView<'v, N, const C: usize> {
    total: Cell<N>,
    slot: &'v Slot<'v>,
    one_by_one: bool,
    /// They need not be, in all iterations of the run.
    near: bool,
    iteration: usize,
}

impl<'v, N: Number, const C: usize> SumView<'v, N, C> {
    #[inline(always)]
    pub(crate) fn new(slot: &'v Slot<'v>) -> Self {
        let one_by_one = slot.additions().is_some() && !N::ASSOCIATIVE;
        SumView { total: Cell::new(N::from_word(slot.total().get())), slot, one_by_one, near: false, iteration: 0 }
    }

    /// Adds `value`.
    #[inline(always)]
    pub fn add(&self, value: N) {
        if !N::ASSOCIATIVE && !self.near && self.one_by_one {
            record(self.slot, self.iteration, value.to_word());
        } else {
            self.total.set(self.total.get().plus(value));
        }
    }

    /// The iterations whose additions need not be kept one by one: all of them or none.
    #[inline(always)]
    pub(crate) fn near(&self) -> Range<usize> {
        0..if self.one_by_one { 0 } else { usize::MAX }
    }

    #[inline(always)]
    pub(crate) fn set_near(&mut self, near: bool) {
        self.near = near;
    }

    #[inline(always)]
    pub(crate) fn step(&mut self, i: usize) {
        self.iteration = i;
    }

    #[inline(always)]
    pub(crate) fn finish(&self, slot: &Slot<'_>) {
        slot.total().set(self.total.get().to_word());
    }
}

/// Takes no view: one whose address is taken stays in memory, and all others with it.
#[cold]
fn record(slot: &Slot<'_>, iteration: usize, addition: u64) {
    if let Some(additions) = slot.additions() {
        additions.borrow_mut().push((iteration, addition));
    }
}

/// A [`Min`] or [`Max`] inside a loop body.
pub struct ExtremeView<'v, N, W, const C: usize> {
    best: Cell<N>,
    slot: PhantomData<(&'v (), W)>,
}

impl<'v, N: Number, W: Which, const C: usize> ExtremeView<'v, N, W, C> {
    #[inline(always)]
    pub(crate) fn new(slot: &'v Slot<'v>) -> Self {
        ExtremeView { best: Cell::new(N::from_word(slot.total().get())), slot: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn finish(&self, slot: &Slot<'_>) {
        slot.total().set(self.best.get().to_word());
    }
}

impl<N: Number, const C: usize> ExtremeView<'_, N, Smallest, C> {
    /// Keeps `value` if it is the smallest so far.
    #[inline(always)]
    pub fn min(&self, value: N) {
        self.best.set(Smallest::choose(self.best.get(), value));
    }
}

impl<N: Number, const C: usize> ExtremeView<'_, N, Largest, C> {
    /// Keeps `value` if it is the largest so far.
    #[inline(always)]
    pub fn max(&self, value: N) {
        self.best.set(Largest::choose(self.best.get(), value));
    }
}

/// A [`Count`] inside a loop body.
pub struct CountView<'v, const C: usize> {
    total: Cell<u64>,
    slot: PhantomData<&'v ()>,
}

impl<'v, const C: usize> CountView<'v, C> {
    #[inline(always)]
    pub(crate) fn new(slot: &'v Slot<'v>) -> Self {
        CountView { total: Cell::new(slot.total().get()), slot: PhantomData }
    }

    /// Adds `n`.
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.total.set(self.total.get().wrapping_add(n));
    }

    #[inline(always)]
    pub(crate) fn finish(&self, slot: &Slot<'_>) {
        slot.total().set(self.total.get());
    }
}
