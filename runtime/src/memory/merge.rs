//! How changes that copies of an element went through are united.
//!
//! # Why this is sound
//! The erased operations are made for one plain type each, and read and write elements of that type alone, at addresses
//! that the caller vouches for. Any bytes are a value of a plain type, so the callers may keep elements where they like, at
//! any alignment.
#![allow(unsafe_code)]

mod numbers;
mod page;

use std::any::Any;

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
    /// The change that leads from `base` to `local`.
    fn change(base: &Self, local: &Self) -> Self;

    /// Applies the change of another copy as well.
    fn apply(&mut self, change: &Self);

    /// Reduces a change to the share of one of `copies` copies, to average models. The shares of `copies` equal changes add up to
    /// one such change.
    fn share(&mut self, copies: usize);

    /// Whether the shares of several changes have to be known together.
    #[doc(hidden)]
    const SHARES_TOGETHER: bool = false;

    /// Reduces the changes of some copies, of which the others have none.
    #[doc(hidden)]
    fn share_all(changes: &mut [Self], copies: usize) {
        changes.iter_mut().for_each(|change| change.share(copies));
    }

    /// Whether [`combine`](Merge::combine) says how changes are combined under `merge = Combine`. Changes of other types are
    /// applied one after the other.
    const COMBINES: bool = false;

    /// Combines the changes of two copies under `merge = Combine`: `change` becomes the result. Both are changes of one row of such
    /// elements, and equally long. For an element that stands alone the length is 1.
    ///
    /// For floats the result is `a (1 - a.b / 2|a|^2) + b (1 - a.b / 2|b|^2)` of the whole row: the sum of changes at right angles,
    /// and one of two equal changes. A type made of floats calls this function for its floats.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DecodeError, Element, Merge};
    ///
    /// /// A direction, and how often it was looked at.
    /// #[derive(Clone, Copy, Debug, PartialEq)]
    /// #[repr(C)]
    /// struct Heading {
    ///     to: [f32; 2],
    ///     seen: u32,
    /// }
    /// # // SAFETY: three numbers of 4 bytes.
    /// # unsafe impl Element for Heading {
    /// #     const PLAIN: bool = true;
    /// #     fn encode(&self, out: &mut Vec<u8>) { self.to.encode(out); self.seen.encode(out) }
    /// #     fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
    /// #         Ok(Heading { to: Element::decode(bytes)?, seen: Element::decode(bytes)? })
    /// #     }
    /// # }
    ///
    /// impl Merge for Heading {
    ///     fn change(base: &Self, local: &Self) -> Self {
    ///         Heading { to: Merge::change(&base.to, &local.to), seen: local.seen - base.seen }
    ///     }
    ///     fn apply(&mut self, change: &Self) {
    ///         self.to.apply(&change.to);
    ///         self.seen += change.seen;
    ///     }
    ///     fn share(&mut self, copies: usize) {
    ///         self.to.share(copies);
    ///     }
    ///
    ///     const COMBINES: bool = true;
    ///     fn combine(change: &mut [Self], other: &[Self]) {
    ///         for (change, other) in change.iter_mut().zip(other) {
    ///             f32::combine(&mut change.to, &other.to);
    ///             change.seen += other.seen;
    ///         }
    ///     }
    /// }
    ///
    /// let (mut change, other) = ([Heading { to: [1.0, 2.0], seen: 3 }], [Heading { to: [1.0, 2.0], seen: 4 }]);
    /// Heading::combine(&mut change, &other);
    /// assert_eq!(change, [Heading { to: [1.0, 2.0], seen: 7 }]);
    /// ```
    fn combine(change: &mut [Self], other: &[Self]) {
        for (change, other) in change.iter_mut().zip(other) {
            change.apply(other);
        }
    }
}

/// How the changes of several copies become one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Union {
    /// Each is applied in turn.
    Sum,
    /// The share of each, of this many copies, is applied in turn.
    Mean(usize),
    /// Neighbours are combined into one, and those again, until one is left.
    Combine,
}

/// Where changes of one row are kept while they are combined, for as many rows as there are.
#[derive(Default)]
pub(crate) struct Scratch(Option<Box<dyn Any>>);

impl Scratch {
    fn of<T: 'static>(&mut self) -> &mut Vec<T> {
        if !self.0.as_ref().is_some_and(|there| there.is::<Vec<T>>()) {
            self.0 = None;
        }
        let there = self.0.get_or_insert_with(|| Box::new(Vec::<T>::new()));
        there.downcast_mut().unwrap_or_else(|| unreachable!("it was made for this type"))
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
    /// Whether the type says how its changes are combined.
    combines: bool,
    merge: unsafe fn(*mut u8, *const u8, &[*const u8], (Union, &mut Scratch), usize),
    merge_page: unsafe fn(*mut u8, &[*const u8], (Union, &mut Scratch), usize),
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

    /// Whether the type says how its changes are combined.
    pub(crate) fn combines(&self) -> bool {
        self.ops.combines
    }

    /// Unites copies: `into` becomes `base` with the locals' changes. A single local that isn't averaged is taken as it is.
    ///
    /// # Safety
    /// All are addresses of elements that nobody else writes meanwhile; `into` may be uninitialised, or be one of the
    /// others.
    pub(crate) unsafe fn merge(
        &self,
        into: *mut u8,
        base: *const u8,
        locals: &[*const u8],
        how: (Union, &mut Scratch),
    ) {
        // SAFETY: the caller's promise; an element is as many numbers.
        unsafe { (self.ops.merge)(into, base, locals, how, self.width) };
    }

    /// Whether copies may hold several elements side by side, in pages.
    pub(crate) fn has_pages(&self) -> bool {
        !self.ops.of_rows
    }

    /// Unites `n` elements side by side, each as [`merge`](Merging::merge) does with those locals that hold something else than `into`,
    /// if any do.
    ///
    /// # Safety
    /// All are addresses of `n` elements that nobody else writes meanwhile, and no two of these overlap.
    pub(crate) unsafe fn merge_page(&self, into: *mut u8, locals: &[*const u8], n: usize, how: (Union, &mut Scratch)) {
        assert!(self.has_pages());
        // SAFETY: the caller's promise.
        unsafe { (self.ops.merge_page)(into, locals, how, n) };
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
            combines: T::COMBINES,
            merge: merge::<T, 1>,
            merge_page: page::merge_page::<T>,
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
            combines: T::COMBINES,
            merge: merge::<T, BLOCK>,
            merge_page: page::merge_page::<T>,
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
    (how, scratch): (Union, &mut Scratch),
    n: usize,
) {
    if T::COMBINES && how == Union::Combine && locals.len() > 1 {
        // SAFETY: the caller vouches for the addresses.
        return unsafe { combine_row::<T>(into, base, locals, scratch.of(), n) };
    }
    let average_over = if let Union::Mean(copies) = how { Some(copies) } else { None };
    // SAFETY: the caller vouches for the addresses, and offsets are within the row.
    in_blocks::<T, N>(
        n,
        |at| unsafe { merge_at::<[T; N]>(at, into, base, locals, average_over) },
        |at| unsafe { merge_at::<T>(at, into, base, locals, average_over) },
    );
}

/// A row of `n` numbers becomes `base` with the changes of all locals combined: of the first and the second, the third and
/// the fourth, and so on; then of what these came to. One without a neighbour stays as it is.
unsafe fn combine_row<T: Merge>(into: *mut u8, base: *const u8, locals: &[*const u8], changes: &mut Vec<T>, n: usize) {
    // SAFETY: the caller vouches for the addresses; `k` is below `n`.
    let read = |from: *const u8, k: usize| unsafe { from.cast::<T>().add(k).read_unaligned() };
    changes.clear();
    for &local in locals {
        changes.extend((0..n).map(|k| T::change(&read(base, k), &read(local, k))));
    }
    combine_neighbours(changes, n);
    for (k, change) in changes.iter().take(n).enumerate() {
        let mut number = read(base, k);
        number.apply(change);
        // SAFETY: the caller vouches for the address; `k` is below `n`.
        unsafe { into.cast::<T>().add(k).write_unaligned(number) };
    }
}

/// Combines changes of `n` numbers each, neighbour with neighbour, until the first is all of them.
fn combine_neighbours<T: Merge>(changes: &mut [T], n: usize) {
    let mut apart = n;
    while apart < changes.len() {
        for pair in changes.chunks_mut(2 * apart) {
            if let Some((change, others)) = pair.split_at_mut_checked(apart)
                && let Some(other) = others.get(..n)
            {
                T::combine(&mut change[..n], other);
            }
        }
        apart *= 2;
    }
}

/// Unites what copies made of one element that each of them began itself: what they began with, and what it is now. The element
/// begins with `first`. A single copy's that isn't averaged is taken as it is.
pub(crate) fn unite_values<T: Merge>(first: &T, copies: &[(T, T)], how: Union) -> T {
    if let ([(_, now)], Union::Sum | Union::Combine) = (copies, how) {
        return now.clone();
    }
    let mut changes: Vec<T> = copies.iter().map(|(first, now)| T::change(first, now)).collect();
    match how {
        Union::Mean(copies) => T::share_all(&mut changes, copies),
        Union::Combine if T::COMBINES => {
            combine_neighbours(&mut changes, 1);
            changes.truncate(1);
        }
        Union::Sum | Union::Combine => {}
    }
    let mut united = first.clone();
    changes.iter().for_each(|change| united.apply(change));
    united
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
        (_, Some(copies)) if T::SHARES_TOGETHER => {
            let mut united = read(base);
            let mut changes: Vec<T> = locals.iter().map(|&local| T::change(&united, &read(local))).collect();
            T::share_all(&mut changes, copies);
            changes.iter().for_each(|change| united.apply(change));
            united
        }
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
#[path = "merge_tests.rs"]
mod tests;
