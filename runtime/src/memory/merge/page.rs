//! Uniting elements side by side, of which a copy changed some.
//!
//! # Why this is sound
//! As that of [`super`]: any bytes are a value of a plain type, and the caller vouches for the addresses.
#![allow(unsafe_code)]

use super::{Merge, Scratch, Union, in_blocks, merge};

/// How many elements of a page are united at once.
const BESIDE: usize = 8;

/// # Safety
/// See [`Merging::merge_page`].
pub(super) unsafe fn merge_page<T: Merge>(
    into: *mut u8,
    locals: &[*const u8],
    (how, scratch): (Union, &mut Scratch),
    n: usize,
) {
    if how == Union::Sum {
        // SAFETY: the caller vouches for the addresses, and offsets are within the page.
        return in_blocks::<T, BESIDE>(
            n,
            |at| unsafe { sum_changed_at::<T, BESIDE>(at, into, locals) },
            |at| unsafe { sum_changed_at::<T, 1>(at, into, locals) },
        );
    }
    let mut changed = Vec::with_capacity(locals.len());
    for at in (0..n).map(|k| k * size_of::<T>()) {
        // SAFETY: the caller vouches for the addresses, and the offset is within the page.
        unsafe {
            let into = into.add(at);
            changed.clear();
            changed.extend(locals.iter().map(|local| local.add(at)).filter(|&local| !same_bits::<T>(local, into)));
            if !changed.is_empty() {
                merge::<T, 1>(into, into, &changed, (how, &mut *scratch), 1);
            }
        }
    }
}

/// Applies to `N` elements the changes of those locals that hold something else. What one alone has changed is taken as it is.
unsafe fn sum_changed_at<T: Merge, const N: usize>(at: usize, into: *mut u8, locals: &[*const u8]) {
    // SAFETY: the caller vouches for the addresses.
    let read = |from: *const u8| unsafe { from.add(at).cast::<[T; N]>().read_unaligned() };
    let base = read(into);
    let (mut united, mut last, mut changes) = (base.clone(), base.clone(), [0u32; N]);
    for &local in locals {
        let local = read(local);
        for k in 0..N {
            // SAFETY: two elements.
            if !unsafe { same_bits::<T>((&raw const local[k]).cast(), (&raw const base[k]).cast()) } {
                united[k].apply(&T::change(&base[k], &local[k]));
                last[k] = local[k].clone();
                changes[k] += 1;
            }
        }
    }
    for k in 0..N {
        if changes[k] == 1 {
            united[k] = last[k].clone();
        }
    }
    // SAFETY: the caller vouches for the address.
    unsafe { into.add(at).cast::<[T; N]>().write_unaligned(united) };
}

/// Whether two elements of a plain type hold the same bytes.
///
/// # Safety
/// Both are addresses of such elements that nobody writes meanwhile.
#[inline(always)]
unsafe fn same_bits<T>(a: *const u8, b: *const u8) -> bool {
    macro_rules! same {
        ($int:ty) => {
            // SAFETY: the caller's promise; that many bytes are there.
            unsafe { a.cast::<$int>().read_unaligned() == b.cast::<$int>().read_unaligned() }
        };
    }
    match size_of::<T>() {
        1 => same!(u8),
        2 => same!(u16),
        4 => same!(u32),
        8 => same!(u64),
        // SAFETY: the caller's promise.
        n => unsafe { std::slice::from_raw_parts(a, n) == std::slice::from_raw_parts(b, n) },
    }
}
