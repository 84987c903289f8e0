//! How changes that copies of an element went through are united.
//!
//! # Why this is sound
//! The erased operations are made for one plain type each, and read and write elements of that type alone, at addresses
//! that the caller vouches for. Any bytes are a value of a plain type, so the callers may keep elements where they like, at
//! any alignment.
#![allow(unsafe_code)]

use crate::element::Element;
use crate::shared::Shared;

/// An element whose copies can be changed apart, and the changes united: what `&mut` captures of a synchronous loop hold.
///
/// Each worker changes a copy. Where copies meet, `base` is what they started from: the element becomes `base`, with the
/// change of each copy applied in turn. For numbers that is the sum of the changes (integers wrap around), for arrays
/// each element's own union. Other types say what fits them; the order of the copies is fixed, but it depends on the
/// number of workers, so it should not matter much.
///
/// With a single copy the element becomes what the copy is, to the bit, and nothing here is called.
///
/// ```
/// use stradsap_runtime::{DecodeError, Element, Merge};
///
/// /// The largest number seen.
/// #[derive(Clone, Copy, Debug, PartialEq)]
/// #[repr(transparent)]
/// struct Highest(f64);
/// # // SAFETY: it is a float.
/// # unsafe impl Element for Highest {
/// #     const PLAIN: bool = true;
/// #     fn encode(&self, out: &mut Vec<u8>) { self.0.encode(out) }
/// #     fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> { f64::decode(bytes).map(Highest) }
/// # }
/// # const _: &str = stringify! {
/// unsafe impl Element for Highest { .. } // or: #[derive(Element)]
/// # };
///
/// impl Merge for Highest {
///     fn change(_base: &Self, local: &Self) -> Self {
///         *local
///     }
///     fn apply(&mut self, change: &Self) {
///         self.0 = self.0.max(change.0);
///     }
///     /// The largest of all stays the largest when models are averaged.
///     fn share(&mut self, _copies: usize) {}
/// }
///
/// let (base, locals) = (Highest(1.0), [Highest(5.0), Highest(2.0)]);
/// let mut united = base;
/// for local in &locals {
///     united.apply(&Highest::change(&base, local));
/// }
/// assert_eq!(united, Highest(5.0));
/// ```
#[diagnostic::on_unimplemented(
    message = "copies of `{Self}` can't be merged",
    label = "not `Merge`",
    note = "numbers and arrays of them are merged by adding their changes; implement `Merge` for a type of your own"
)]
pub trait Merge: Element {
    /// What took `base` to `local`.
    fn change(base: &Self, local: &Self) -> Self;

    /// Goes through a change of another copy as well.
    fn apply(&mut self, change: &Self);

    /// Makes of a change the part of one of so many copies, when models are averaged: the parts of `copies` equal changes
    /// make up one of them.
    fn share(&mut self, copies: usize);
}

macro_rules! floats {
    ($($t:ty)*) => {$(
        impl Merge for $t {
            #[inline(always)]
            fn change(base: &Self, local: &Self) -> Self {
                local - base
            }
            #[inline(always)]
            fn apply(&mut self, change: &Self) {
                *self += change;
            }
            #[inline(always)]
            fn share(&mut self, copies: usize) {
                *self /= copies as $t;
            }
        }
    )*};
}
floats! { f32 f64 }

macro_rules! integers {
    ($($t:ty, $signed:ty;)*) => {$(
        /// Changes are added with wrap-around. When models are averaged a change is taken as signed, and divided
        /// towards zero.
        impl Merge for $t {
            #[inline(always)]
            fn change(base: &Self, local: &Self) -> Self {
                local.wrapping_sub(*base)
            }
            #[inline(always)]
            fn apply(&mut self, change: &Self) {
                *self = self.wrapping_add(*change);
            }
            #[inline(always)]
            fn share(&mut self, copies: usize) {
                let change = *self as $signed;
                *self = match <$signed>::try_from(copies) {
                    Ok(copies) => change.checked_div(copies).unwrap_or(change) as $t,
                    // More copies than the type can count. Its least value can make up 1 there; never mind.
                    Err(_) => 0,
                };
            }
        }
    )*};
}
integers! {
    u8, i8; i8, i8; u16, i16; i16, i16; u32, i32; i32, i32; u64, i64; i64, i64; u128, i128; i128, i128;
    usize, isize; isize, isize;
}

impl<T: Merge, const N: usize> Merge for [T; N] {
    #[inline(always)]
    fn change(base: &Self, local: &Self) -> Self {
        std::array::from_fn(|k| T::change(&base[k], &local[k]))
    }
    #[inline(always)]
    fn apply(&mut self, change: &Self) {
        for (element, change) in self.iter_mut().zip(change) {
            element.apply(change);
        }
    }
    #[inline(always)]
    fn share(&mut self, copies: usize) {
        for element in self {
            element.share(copies);
        }
    }
}

/// What the engine may do to copies of elements of one plain type, by address. No address needs to be aligned but those
/// that are shared.
#[derive(Debug)]
#[allow(dead_code, reason = "for the synchronous loop")]
pub(crate) struct MergeOps {
    /// How many bytes an element has.
    pub(crate) size: usize,
    /// Unites copies: `(into, base, locals, average_over)`. `into` becomes `base`, then goes through each local's change in
    /// turn, of which it takes the share of one of `average_over` copies, if that is given. A single local that isn't
    /// averaged is taken as it is.
    ///
    /// # Safety
    /// All are addresses of elements that nobody else writes meanwhile; `into` may be uninitialised, or be one of the
    /// others.
    pub(crate) merge: unsafe fn(*mut u8, *const u8, &[*const u8], Option<usize>),
    /// The change from `base` to `local`: `(base, local, out)`.
    ///
    /// # Safety
    /// As above.
    pub(crate) change: unsafe fn(*const u8, *const u8, *mut u8),
    /// Makes of a change the share of one of so many copies.
    ///
    /// # Safety
    /// As above.
    pub(crate) share: unsafe fn(*mut u8, usize),
    /// Goes through a change: `(into, change)`.
    ///
    /// # Safety
    /// As above.
    pub(crate) apply: unsafe fn(*mut u8, *const u8),
    /// Applies a change to an element that other threads use meanwhile through [`Shared`]: `(into, change)`.
    ///
    /// # Safety
    /// As above, but for `into`: an aligned element that others access by relaxed atomics only.
    pub(crate) apply_shared: unsafe fn(*mut u8, *const u8),
    /// Reads an element that other threads use meanwhile: `(from, out)`.
    ///
    /// # Safety
    /// `from` as `into` above; `out` is nobody else's.
    pub(crate) read_shared: unsafe fn(*const u8, *mut u8),
    /// Replaces an element that other threads use meanwhile: `(into, value)`.
    ///
    /// # Safety
    /// As for `apply_shared`.
    pub(crate) write_shared: unsafe fn(*mut u8, *const u8),
}

struct OpsOf<T>(std::marker::PhantomData<T>);

impl<T: Merge> OpsOf<T> {
    const OPS: MergeOps = {
        assert!(T::PLAIN, "only plain elements can be shared: numbers, arrays and structs of numbers without padding");
        MergeOps {
            size: size_of::<T>(),
            merge: merge::<T>,
            change: change::<T>,
            share: share::<T>,
            apply: apply::<T>,
            apply_shared: apply_shared::<T>,
            read_shared: read_shared::<T>,
            write_shared: write_shared::<T>,
        }
    };
}

/// The operations of a plain type; another doesn't compile.
#[allow(dead_code, reason = "for the synchronous loop")]
pub(crate) fn merge_ops_of<T: Merge>() -> &'static MergeOps {
    const { &OpsOf::<T>::OPS }
}

unsafe fn merge<T: Merge>(into: *mut u8, base: *const u8, locals: &[*const u8], average_over: Option<usize>) {
    // SAFETY: the caller vouches for the addresses.
    let read = |from: *const u8| unsafe { from.cast::<T>().read_unaligned() };
    let united = match (locals, average_over) {
        ([local], None) => read(*local),
        _ => {
            let base = read(base);
            let mut united = base.clone();
            for local in locals {
                let mut change = T::change(&base, &read(*local));
                if let Some(copies) = average_over {
                    change.share(copies);
                }
                united.apply(&change);
            }
            united
        }
    };
    // SAFETY: as above.
    unsafe { into.cast::<T>().write_unaligned(united) };
}

unsafe fn change<T: Merge>(base: *const u8, local: *const u8, out: *mut u8) {
    // SAFETY: the caller vouches for the addresses.
    unsafe {
        let change = T::change(&base.cast::<T>().read_unaligned(), &local.cast::<T>().read_unaligned());
        out.cast::<T>().write_unaligned(change);
    }
}

unsafe fn share<T: Merge>(change: *mut u8, copies: usize) {
    let change = change.cast::<T>();
    // SAFETY: the caller vouches for the address.
    unsafe {
        let mut part = change.read_unaligned();
        part.share(copies);
        change.write_unaligned(part);
    }
}

unsafe fn apply<T: Merge>(into: *mut u8, change: *const u8) {
    let into = into.cast::<T>();
    // SAFETY: the caller vouches for the addresses.
    unsafe {
        let mut element = into.read_unaligned();
        element.apply(&change.cast::<T>().read_unaligned());
        into.write_unaligned(element);
    }
}

unsafe fn apply_shared<T: Merge>(into: *mut u8, change: *const u8) {
    // SAFETY: the caller vouches for the addresses; all access to `into` is by relaxed atomics.
    let (into, change) = unsafe { (&*into.cast::<Shared<T>>(), change.cast::<T>().read_unaligned()) };
    let mut element = into.get();
    element.apply(&change);
    into.set(element);
}

unsafe fn read_shared<T: Merge>(from: *const u8, out: *mut u8) {
    // SAFETY: as above.
    unsafe { out.cast::<T>().write_unaligned((*from.cast::<Shared<T>>()).get()) };
}

unsafe fn write_shared<T: Merge>(into: *mut u8, value: *const u8) {
    // SAFETY: as above.
    unsafe { (*into.cast::<Shared<T>>()).set(value.cast::<T>().read_unaligned()) };
}
