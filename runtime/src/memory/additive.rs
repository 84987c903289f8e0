//! Elements that blocks may add up in copies of their own.
//!
//! # Why this is sound
//! [`TallyOps`] are made for one type each, and read and write elements of that type alone, at addresses that the caller
//! vouches for. Every element that they leave is whole: one that is taken leaves a zero behind.
#![allow(unsafe_code)]

use std::marker::PhantomData;

use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::{ElementOps, ops_of};
use crate::memory::named::{Nameable, Named};
use crate::memory::pages::Pages;

/// What `sum x` in the capture list of an `async_parallel_for!` may add up: elements with a zero and an addition that may be
/// made in any grouping.
///
/// A block adds to a copy that is all [`zero`](Additive::zero)s, and the copies are united with what was there. Numbers,
/// arrays and tuples of them have it. A type of the program's own says what fits it; its `+=` should do the same as `unite`.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{Additive, DecodeError, Element};
///
/// /// How many there were, and the largest of them.
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// struct Seen(u64, u32);
/// # // SAFETY: not plain.
/// # unsafe impl Element for Seen {
/// #     const PLAIN: bool = false;
/// #     fn encode(&self, out: &mut Vec<u8>) { (self.0, self.1).encode(out) }
/// #     fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> { <(u64, u32)>::decode(bytes).map(|(a, b)| Seen(a, b)) }
/// # }
/// # const _: &str = stringify! {
/// unsafe impl Element for Seen { .. } // or: #[derive(Element)]
/// # };
///
/// impl Additive for Seen {
///     const EXACT: bool = true;
///     fn zero() -> Self {
///         Seen(0, 0)
///     }
///     fn unite(&mut self, other: &Self) {
///         *self = Seen(self.0 + other.0, self.1.max(other.1));
///     }
/// }
///
/// let mut all = Seen::zero();
/// [Seen(1, 7), Seen(1, 3)].iter().for_each(|seen| all.unite(seen));
/// assert_eq!(all, Seen(2, 7));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be added up in copies",
    label = "not `Additive`",
    note = "`sum x` takes elements that are numbers, arrays or tuples of them; implement `Additive` for a type of your own"
)]
pub trait Additive: Element {
    /// Whether all orders and groupings of the same additions give the same bits, as is true of integers. If not, the additions go
    /// to copies whose number depends on the data and the options alone.
    const EXACT: bool = false;

    /// Whether `unite` can't panic.
    #[doc(hidden)]
    const STEADY: bool = false;

    /// The value that changes nothing when it is added.
    fn zero() -> Self;

    /// Adds the value of another copy. If it panics, the loop fails, and the DDS is as before. (A loop on workers has then changed
    /// the other DDSs that it writes.)
    fn unite(&mut self, other: &Self);
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        /// Copies are united with wrap-around.
        impl Additive for $t {
            const EXACT: bool = true;
            const STEADY: bool = true;
            #[inline(always)]
            fn zero() -> Self { 0 }
            #[inline(always)]
            fn unite(&mut self, other: &Self) { *self = self.wrapping_add(*other); }
        }
    )*};
}
integers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

macro_rules! floats {
    ($($t:ty)*) => {$(
        /// The zero is -0, which changes no number when it is added.
        impl Additive for $t {
            const STEADY: bool = true;
            #[inline(always)]
            fn zero() -> Self { -0.0 }
            #[inline(always)]
            fn unite(&mut self, other: &Self) { *self += other; }
        }
    )*};
}
floats!(f32 f64);

impl<T: Additive, const N: usize> Additive for [T; N] {
    const EXACT: bool = T::EXACT;
    const STEADY: bool = T::STEADY;
    #[inline(always)]
    fn zero() -> Self {
        std::array::from_fn(|_| T::zero())
    }
    #[inline(always)]
    fn unite(&mut self, other: &Self) {
        self.iter_mut().zip(other).for_each(|(own, other)| own.unite(other));
    }
}

macro_rules! tuples {
    ($(($($t:ident $n:tt)*))*) => {$(
        impl<$($t: Additive),*> Additive for ($($t,)*) {
            const EXACT: bool = true $(&& $t::EXACT)*;
            const STEADY: bool = true $(&& $t::STEADY)*;
            #[inline(always)]
            fn zero() -> Self { ($($t::zero(),)*) }
            #[inline(always)]
            fn unite(&mut self, other: &Self) { $(self.$n.unite(&other.$n);)* }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 F 5)
}

/// What the engine may do to tallies of elements of one type, by address.
#[derive(Debug)]
pub(crate) struct TallyOps {
    /// Whether all orders of the same additions give the same bits.
    pub(crate) exact: bool,
    /// Whether uniting can't panic.
    pub(crate) steady: fn() -> bool,
    pub(crate) element: fn() -> &'static ElementOps,
    /// This many zeros: elements of the DDS's type, or rows of them.
    pub(crate) zeros: fn(&'static ElementOps, usize) -> RawBuf,
    /// How many elements of a tally stand for one of a DDS of this length at first: a power of two. More than one for maps,
    /// whose buckets a tally has more of.
    pub(crate) spread: fn(usize) -> usize,
    /// Whether a tally has filled up,
    pub(crate) crowded: fn(&RawBuf) -> bool,
    /// and how it gets twice the room.
    pub(crate) grow: fn(&mut RawBuf),
    pub(crate) unite_run: unsafe fn(*mut u8, *mut u8, usize, usize),
}

impl Nameable for TallyOps {
    const KIND: u64 = 2;
}

struct OpsOf<T>(PhantomData<T>);

impl<T: Additive> OpsOf<T> {
    const OPS: &'static Named<TallyOps> = &Named::new(TallyOps {
        exact: T::EXACT,
        steady: || T::STEADY,
        element: ops_of::<T>,
        zeros: |element, len| {
            let mut zeros = RawBuf::for_random_access(element, len);
            if element.width() == 1 {
                (0..len).for_each(|_| zeros.push(T::zero()));
            } else {
                let row: Vec<T> = (0..element.width()).map(|_| T::zero()).collect();
                (0..len).for_each(|_| zeros.push_numbers(&row));
            }
            zeros
        },
        spread: |_| 1,
        crowded: |_| false,
        grow: |_| {},
        unite_run: unite_run::<T>,
    });
}

/// The operations on tallies of a DVector's elements, or of a DMatrix's rows.
pub(crate) fn tally_ops_of<T: Additive>() -> &'static TallyOps {
    &OpsOf::<T>::OPS.value
}

/// # Safety
/// As for [`TallyOps::unite`].
unsafe fn unite_run<T: Additive>(to: *mut u8, from: *mut u8, n: usize, _spread: usize) {
    // SAFETY: the caller's promise.
    let (to, from) = unsafe {
        (std::slice::from_raw_parts_mut(to.cast::<T>(), n), std::slice::from_raw_parts_mut(from.cast::<T>(), n))
    };
    for (to, from) in to.iter_mut().zip(from) {
        to.unite(from);
        *from = T::zero();
    }
}

impl TallyOps {
    /// Adds `n * spread` elements to `n`, and leaves zeros of them.
    ///
    /// # Safety
    /// Both addresses hold as many elements of this type, apart from each other, that nobody else uses.
    pub(crate) unsafe fn unite(&self, to: *mut u8, from: *mut u8, n: usize, spread: usize) {
        // SAFETY: the caller's promise.
        unsafe { (self.unite_run)(to, from, n, spread) };
    }

    /// All elements of a tally by pages, which holds zeros then.
    pub(crate) fn whole_of(&'static self, pages: &mut Pages) -> RawBuf {
        assert!(std::ptr::eq(self, pages.ops()), "a tally of other elements");
        let whole = (self.zeros)((self.element)(), pages.len());
        for &page in pages.touched() {
            let (first, n) = pages.of_page(page as usize);
            let to = whole.base().wrapping_add(first * whole.ops().size);
            // SAFETY: both hold `n` elements of this type, in memory of their own.
            unsafe { self.unite(to, pages.at_page(page as usize), n, 1) };
        }
        pages.clear();
        whole
    }

    /// Adds what another tally of as many elements holds, and leaves zeros of it.
    pub(crate) fn add_pages(&'static self, to: &mut Pages, from: &mut Pages) {
        let own = |pages: &Pages| std::ptr::eq(self, pages.ops());
        assert!(own(to) && own(from) && to.len() == from.len(), "a tally of other elements");
        for &page in from.touched() {
            let (first, n) = from.of_page(page as usize);
            // SAFETY: both hold `n` elements of this type, in memory of their own.
            unsafe { self.unite(to.reach(first), from.at_page(page as usize), n, 1) };
        }
        from.clear();
    }

    /// Adds elements to a page.
    pub(crate) fn add_to_page(&'static self, to: &mut Pages, page: usize, from: &mut RawBuf) {
        assert!(std::ptr::eq(self, to.ops()) && from.ops().is((self.element)()), "a tally of other elements");
        let (first, n) = to.of_page(page);
        assert!(from.len() == n);
        // SAFETY: both hold `n` elements of this type, in memory of their own.
        unsafe { self.unite(to.reach(first), from.as_mut_ptr(), n, 1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zero_changes_no_bits() {
        for number in [0.0f64, -0.0, 1.5, f64::MIN_POSITIVE, f64::INFINITY] {
            let mut sum = number;
            sum.unite(&f64::zero());
            assert_eq!(sum.to_bits(), number.to_bits());
        }
        assert_eq!(<([u8; 2], i64)>::zero(), ([0, 0], 0));
    }

    #[test]
    fn a_tally_is_zeros_again_when_it_is_united() {
        let ops = tally_ops_of::<(u8, i32)>();
        let mut to = (ops.zeros)(ops_of::<(u8, i32)>(), 3);
        let mut from = (ops.zeros)(ops_of::<(u8, i32)>(), 3);
        to.as_mut_slice::<(u8, i32)>()[1] = (250, -1);
        from.as_mut_slice::<(u8, i32)>()[1] = (10, 3);
        // SAFETY: both hold three elements of the type that the operations are for.
        unsafe { ops.unite(to.as_mut_ptr(), from.as_mut_ptr(), 3, 1) };
        assert_eq!(to.as_slice::<(u8, i32)>(), [(0, 0), (4, 2), (0, 0)]);
        assert_eq!(from.as_slice::<(u8, i32)>(), [(0, 0); 3]);
        assert!(ops.exact && !tally_ops_of::<(u8, f32)>().exact);
    }
}
