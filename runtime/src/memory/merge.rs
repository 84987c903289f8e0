//! How changes that copies of an element went through are united.
//!
//! # Why this is sound
//! The erased operations are made for one plain type each, and read and write elements of that type alone, at addresses
//! that the caller vouches for. Any bytes are a value of a plain type, so the callers may keep elements where they like, at
//! any alignment.
#![allow(unsafe_code)]

use crate::memory::element::Element;
use crate::memory::element_ops::ElementOps;
use crate::memory::shared::Shared;

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
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DecodeError, Element, Merge};
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

    /// Makes of a change the part of one of this many copies, when models are averaged: the parts of `copies` equal changes
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
/// that are shared. Of rows whose width is known at run time these are the operations on their numbers: all take how many.
#[derive(Debug)]
pub(crate) struct MergeOps {
    /// How many bytes an element has, of a row each number.
    size: usize,
    /// Whether an element is a row of as many numbers as are given, not 1.
    of_rows: bool,
    merge: unsafe fn(*mut u8, *const u8, &[*const u8], Option<usize>, usize),
    change: unsafe fn(*const u8, *const u8, *mut u8, usize),
    apply_shared: unsafe fn(*mut u8, *const u8, usize),
    read_shared: unsafe fn(*const u8, *mut u8, usize),
    write_shared: unsafe fn(*mut u8, *const u8, usize),
}

/// What unites copies of the elements of one DDS.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merging {
    ops: &'static MergeOps,
    /// How many numbers a row has; of other elements 1.
    width: usize,
}

impl Merging {
    /// None if the elements are of another size.
    pub(crate) fn new(ops: &'static MergeOps, elements: &ElementOps) -> Option<Merging> {
        let width = elements.width();
        let fits = elements.plain && ops.size.checked_mul(width) == Some(elements.size) && (ops.of_rows || width == 1);
        fits.then_some(Merging { ops, width })
    }

    /// Unites copies: `into` becomes `base`, then goes through each local's change in turn, of which it takes the share of one
    /// of `average_over` copies, if that is given. A single local that isn't averaged is taken as it is.
    ///
    /// # Safety
    /// All are addresses of elements that nobody else writes meanwhile; `into` may be uninitialised, or be one of the
    /// others.
    pub(crate) unsafe fn merge(
        &self,
        into: *mut u8,
        base: *const u8,
        locals: &[*const u8],
        average_over: Option<usize>,
    ) {
        // SAFETY: the caller's promise; an element is as many numbers.
        unsafe { (self.ops.merge)(into, base, locals, average_over, self.width) };
    }

    /// The change from `base` to `local`.
    ///
    /// # Safety
    /// All are addresses of elements that nobody else writes meanwhile; what it only writes may be uninitialised.
    pub(crate) unsafe fn change(&self, base: *const u8, local: *const u8, out: *mut u8) {
        // SAFETY: as above.
        unsafe { (self.ops.change)(base, local, out, self.width) };
    }

    /// Applies a change to an element that other threads use meanwhile through [`Shared`].
    ///
    /// # Safety
    /// `change` is the address of an element that nobody else writes meanwhile, `into` that of an aligned one that others
    /// access by relaxed atomics only.
    pub(crate) unsafe fn apply_shared(&self, into: *mut u8, change: *const u8) {
        // SAFETY: as above.
        unsafe { (self.ops.apply_shared)(into, change, self.width) };
    }

    /// Reads an element that other threads use meanwhile.
    ///
    /// # Safety
    /// `from` as `into` above (an address that may be written to); `out` is nobody else's.
    pub(crate) unsafe fn read_shared(&self, from: *const u8, out: *mut u8) {
        // SAFETY: as above.
        unsafe { (self.ops.read_shared)(from, out, self.width) };
    }

    /// Replaces an element that other threads use meanwhile.
    ///
    /// # Safety
    /// As for `apply_shared`.
    pub(crate) unsafe fn write_shared(&self, into: *mut u8, value: *const u8) {
        // SAFETY: as above.
        unsafe { (self.ops.write_shared)(into, value, self.width) };
    }
}

struct OpsOf<T>(std::marker::PhantomData<T>);

impl<T: Merge> OpsOf<T> {
    const OF_ELEMENTS: MergeOps = {
        assert!(T::PLAIN, "only plain elements can be shared: numbers, arrays and structs of numbers without padding");
        MergeOps {
            size: size_of::<T>(),
            of_rows: false,
            merge: merge::<T, 1>,
            change: change::<T, 1>,
            apply_shared: apply_shared::<T, 1>,
            read_shared: read_shared::<T, 1>,
            write_shared: write_shared::<T, 1>,
        }
    };

    const OF_ROWS: MergeOps = {
        assert!(T::PLAIN, "only plain elements can be shared: numbers, arrays and structs of numbers without padding");
        MergeOps {
            size: size_of::<T>(),
            of_rows: true,
            merge: merge::<T, BLOCK>,
            change: change::<T, BLOCK>,
            apply_shared: apply_shared::<T, BLOCK>,
            read_shared: read_shared::<T, BLOCK>,
            write_shared: write_shared::<T, BLOCK>,
        }
    };
}

/// The operations of a plain type; another doesn't compile.
pub(crate) fn merge_ops_of<T: Merge>() -> &'static MergeOps {
    const { &OpsOf::<T>::OF_ELEMENTS }
}

/// The same for rows of such numbers.
pub(crate) fn row_merge_ops_of<T: Merge>() -> &'static MergeOps {
    const { &OpsOf::<T>::OF_ROWS }
}

/// This many numbers of a row are united at once, by vectors.
const BLOCK: usize = 16;

/// Goes through the numbers of a row in blocks, and then one by one: with the offset of each in bytes. An element is one block.
#[inline(always)]
fn in_blocks<T, const N: usize>(n: usize, mut block: impl FnMut(usize), mut one: impl FnMut(usize)) {
    if const { N == 1 } {
        // (Of elements there is always one: their ops say so.)
        return one(0);
    }
    for k in 0..n / N {
        block(k * N * size_of::<T>());
    }
    for k in n / N * N..n {
        one(k * size_of::<T>());
    }
}

/// # Safety
/// See [`Merging::merge`], of elements of `n` numbers each. Likewise for all below.
unsafe fn merge<T: Merge, const N: usize>(
    into: *mut u8,
    base: *const u8,
    locals: &[*const u8],
    average_over: Option<usize>,
    n: usize,
) {
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(
        n,
        |at| unsafe { merge_at::<[T; N]>(at, into, base, locals, average_over) },
        |at| unsafe { merge_at::<T>(at, into, base, locals, average_over) },
    );
}

unsafe fn merge_at<T: Merge>(
    at: usize,
    into: *mut u8,
    base: *const u8,
    locals: &[*const u8],
    average_over: Option<usize>,
) {
    // SAFETY: the caller vouches for the addresses.
    let read = |from: *const u8| unsafe { from.add(at).cast::<T>().read_unaligned() };
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
    // SAFETY: the caller vouches for the addresses.
    unsafe { into.add(at).cast::<T>().write_unaligned(united) };
}

unsafe fn change<T: Merge, const N: usize>(base: *const u8, local: *const u8, out: *mut u8, n: usize) {
    unsafe fn change_at<T: Merge>(at: usize, base: *const u8, local: *const u8, out: *mut u8) {
        // SAFETY: the caller vouches for the addresses.
        unsafe {
            let (base, local) = (base.add(at).cast::<T>().read_unaligned(), local.add(at).cast::<T>().read_unaligned());
            out.add(at).cast::<T>().write_unaligned(T::change(&base, &local));
        }
    }
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(
        n,
        |at| unsafe { change_at::<[T; N]>(at, base, local, out) },
        |at| unsafe { change_at::<T>(at, base, local, out) },
    );
}

unsafe fn apply_shared<T: Merge, const N: usize>(into: *mut u8, change: *const u8, n: usize) {
    unsafe fn apply_at<T: Merge>(at: usize, into: *mut u8, change: *const u8) {
        // SAFETY: the caller vouches for the addresses; all access to `into` is by relaxed atomics.
        let (into, change) =
            unsafe { (&*into.add(at).cast::<Shared<T>>(), change.add(at).cast::<T>().read_unaligned()) };
        let mut element = into.get();
        element.apply(&change);
        into.set(element);
    }
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(
        n,
        |at| unsafe { apply_at::<[T; N]>(at, into, change) },
        |at| unsafe { apply_at::<T>(at, into, change) },
    );
}

unsafe fn read_shared<T: Merge, const N: usize>(from: *const u8, out: *mut u8, n: usize) {
    unsafe fn read_at<T: Merge>(at: usize, from: *const u8, out: *mut u8) {
        // SAFETY: the caller vouches for the addresses.
        unsafe { out.add(at).cast::<T>().write_unaligned((*from.add(at).cast::<Shared<T>>()).get()) };
    }
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(n, |at| unsafe { read_at::<[T; N]>(at, from, out) }, |at| unsafe { read_at::<T>(at, from, out) });
}

unsafe fn write_shared<T: Merge, const N: usize>(into: *mut u8, value: *const u8, n: usize) {
    unsafe fn write_at<T: Merge>(at: usize, into: *mut u8, value: *const u8) {
        // SAFETY: the caller vouches for the addresses.
        unsafe { (*into.add(at).cast::<Shared<T>>()).set(value.add(at).cast::<T>().read_unaligned()) };
    }
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(
        n,
        |at| unsafe { write_at::<[T; N]>(at, into, value) },
        |at| unsafe { write_at::<T>(at, into, value) },
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::{ops_of, row_ops};

    fn address<T>(element: &T) -> *const u8 {
        (&raw const *element).cast()
    }

    fn merged<T: Merge + Copy>(base: T, locals: &[T], average_over: Option<usize>) -> T {
        let mut united = base;
        let locals: Vec<_> = locals.iter().map(address).collect();
        // SAFETY: elements of this function's own.
        unsafe { of_elements::<T>().merge((&raw mut united).cast(), address(&base), &locals, average_over) };
        united
    }

    fn of_elements<T: Merge>() -> Merging {
        Merging::new(merge_ops_of::<T>(), ops_of::<T>()).unwrap()
    }

    /// Rows of some width, beside arrays as long.
    fn rows_are_as_arrays<T: Merge + Copy + PartialEq + std::fmt::Debug, const N: usize>(number: impl Fn(usize) -> T) {
        let array = |seed: usize| -> [T; N] { std::array::from_fn(|k| number(seed * 31 + k * k)) };
        let (rows, arrays) = (
            Merging::new(row_merge_ops_of::<T>(), row_ops(ops_of::<T>(), N).unwrap()).unwrap(),
            of_elements::<[T; N]>(),
        );
        for (average_over, copies) in [(None, 1), (None, 3), (Some(3), 3), (Some(1), 1), (None, 0)] {
            let (base, locals) = (array(1), [array(2), array(3), array(4)]);
            let locals: Vec<_> = locals[..copies].iter().map(address).collect();
            let [mut by_row, mut by_array] = [base; 2];
            // SAFETY: elements of this function's own.
            unsafe {
                rows.merge((&raw mut by_row).cast(), address(&base), &locals, average_over);
                arrays.merge((&raw mut by_array).cast(), address(&base), &locals, average_over);
                assert_eq!(by_row, by_array);
                for merging in [rows, arrays] {
                    let [mut shared, mut change, mut read] = [by_row, array(9), array(10)];
                    merging.change(address(&array(5)), address(&array(6)), (&raw mut change).cast());
                    merging.apply_shared((&raw mut shared).cast(), address(&change));
                    merging.read_shared((&raw mut shared).cast(), (&raw mut read).cast());
                    let expected: [T; N] = std::array::from_fn(|k| {
                        let mut x = by_array[k];
                        x.apply(&T::change(&array(5)[k], &array(6)[k]));
                        x
                    });
                    assert_eq!((shared, read), (expected, expected));
                    merging.write_shared((&raw mut shared).cast(), address(&base));
                    assert_eq!(shared, base);
                }
            }
        }
    }

    #[test]
    fn rows_are_united_as_arrays_are() {
        rows_are_as_arrays::<_, 1>(|k| k as f32 * 0.37);
        rows_are_as_arrays::<_, 7>(|k| k as f64 / 3.0);
        rows_are_as_arrays::<_, 16>(|k| k as i64 - 500);
        rows_are_as_arrays::<_, 37>(|k| k as u8);
        rows_are_as_arrays::<_, 100>(|k| [k as f32 * 0.1, -0.0]);
    }

    #[test]
    fn ops_of_other_elements_are_refused() {
        let row = row_ops(ops_of::<f32>(), 4).unwrap();
        for ops in [merge_ops_of::<f32>(), merge_ops_of::<[f32; 4]>(), row_merge_ops_of::<f64>()] {
            assert!(Merging::new(ops, row).is_none());
        }
        assert!(Merging::new(row_merge_ops_of::<f32>(), row).is_some());
    }

    #[test]
    fn changes_add_up_in_order() {
        let base = [1.0f32, -2.0, 0.1];
        let locals = [[1.5, -2.0, 0.4], [0.5, 7.0, 1e9], [1.0, -2.5, -3.0]];
        let mut expected = base;
        for local in &locals {
            for k in 0..3 {
                expected[k] += local[k] - base[k];
            }
        }
        assert_eq!(merged(base, &locals, None).map(f32::to_bits), expected.map(f32::to_bits));
        assert_eq!(merged([[10u8, 250], [0, 1]], &[[[9, 255], [0, 2]], [[8, 251], [0, 0]]], None), [[7, 0], [0, 1]]);
        assert_eq!(merged([1u32, 2], &[], None), [1, 2]);
    }

    /// Where `base + (local - base)` would be rounded, or no number at all.
    #[test]
    fn a_single_copy_is_taken_as_it_is() {
        for (base, local) in [(1e30f32, 0.1), (0.0, -0.0), (f32::INFINITY, 1.0), (f32::INFINITY, f32::INFINITY)] {
            assert_eq!(merged([base], &[[local]], None)[0].to_bits(), local.to_bits());
        }
    }

    #[test]
    fn equal_changes_average_to_one_of_them() {
        for copies in [2, 4, 8] {
            assert_eq!(merged([1.0f64, 8.0], &vec![[1.75, -8.0]; copies], Some(copies)), [1.75, -8.0]);
        }
        // A third of three is exact, while three times a rounded 1/3 would not be.
        assert_eq!(merged([0.0f32; 4], &[[3.0, 0.75, -9.0, 1e-3]; 3], Some(3))[..3], [3.0, 0.75, -9.0]);
        assert_eq!(merged(100i32, &[108, 96], Some(2)), 102);
        assert_eq!(merged(7u64, &[3, 3, 3, 3], Some(4)), 3);
    }

    /// One copy of several, as when a worker sends its part of the average.
    #[test]
    fn integers_are_shared_towards_zero() {
        macro_rules! shared {
            ($($change:literal $t:ty, $copies:expr => $part:expr;)*) => {$(
                let mut change = $change as $t;
                change.share($copies);
                assert_eq!(change, $part as $t, "{} of {}", $change, $copies);
            )*};
        }
        shared! {
            7 i32, 2 => 3;
            -7i32 i32, 2 => -3i32;
            -7i32 u32, 2 => -3i32;
            -128i8 i8, 1000 => 0;
            100 u8, 3 => 33;
            -100i128 i128, 7 => -14i128;
            5 usize, 0 => 5;
        }
    }

    #[test]
    fn changes_travel_by_themselves() {
        let (base, local) = ([3u16, 4], [5u16, 1]);
        let merging = of_elements::<[u16; 2]>();
        // Addresses of buffers need not be aligned; that of a shared element is.
        let mut change = [0u8; 5];
        let mut element = [100u16, 200];
        // SAFETY: elements of this function's own, and room for one.
        unsafe {
            let out = change.as_mut_ptr().add(1);
            merging.change(address(&base), address(&local), out);
            merging.apply_shared((&raw mut element).cast(), out);
            assert_eq!(element, [102, 197]);
            merging.read_shared((&raw mut element).cast(), out);
            merging.write_shared((&raw mut element).cast(), address(&base));
        }
        assert_eq!((&change[1..], element), (&[102, 197].map(u16::to_ne_bytes).concat()[..], base));
    }

    /// Copies may be united in place of one of them.
    #[test]
    fn the_result_may_replace_base_or_local() {
        let merging = of_elements::<[f64; 2]>();
        let (mut base, mut local, other) = ([1.0, 2.0], [2.0, 2.0], [1.0, 5.0]);
        // SAFETY: elements of this function's own.
        unsafe {
            let at = (&raw mut local).cast::<u8>();
            merging.merge(at, address(&base), &[at.cast_const(), address(&other)], None);
            assert_eq!(local, [2.0, 5.0]);
            let at = (&raw mut base).cast::<u8>();
            merging.merge(at, at, &[address(&other), address(&other)], Some(2));
        }
        assert_eq!(base, [1.0, 5.0]);
    }
}
