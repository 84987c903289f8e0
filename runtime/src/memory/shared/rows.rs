//! Shared rows of a width that is known at run time: in blocks, each of which is an array to the kernels.
//!
//! # Why this is sound
//! A block is part of the row and of the slices beside it, which are as long (compared first). Rule 1 of the parent module
//! holds for each block.
#![allow(unsafe_code)]

use super::{Lane, Shared, imp};
use crate::kernels::Float;
use crate::memory::element::Element;

/// What is done with each block of a row.
trait Visit {
    /// # Safety
    /// Lanes `at..at + K` are in the row.
    unsafe fn block<const K: usize>(&mut self, at: usize);
}

/// All lanes of a row. One of a usual width is one block: which it is, is known before by any processor, since all rows of a
/// loop are equally wide.
///
/// # Safety
/// The row has `n` lanes.
#[inline(always)]
unsafe fn walk(n: usize, mut visit: impl Visit) {
    // SAFETY: the block is the row.
    unsafe {
        match n {
            32 => visit.block::<32>(0),
            64 => visit.block::<64>(0),
            100 => visit.block::<100>(0),
            128 => visit.block::<128>(0),
            300 => visit.block::<300>(0),
            _ => walk_blocks(n, visit),
        }
    }
}

/// Blocks of equal lengths as far as they go. All but the last ones are of 64 bytes, or of a multiple.
///
/// # Safety
/// The row has `n` lanes.
#[inline(never)]
unsafe fn walk_blocks(n: usize, mut visit: impl Visit) {
    let mut at = 0;
    // SAFETY: each block is within the lanes that are left.
    unsafe {
        while n - at >= 64 {
            visit.block::<64>(at);
            at += 64;
        }
        while n - at >= 16 {
            visit.block::<16>(at);
            at += 16;
        }
        while n - at >= 4 {
            visit.block::<4>(at);
            at += 4;
        }
        while n > at {
            visit.block::<1>(at);
            at += 1;
        }
    }
}

/// The dot product of a row of any width and a slice.
///
/// # Safety
/// `row` is one of as many lanes, which is accessed by atomics only.
#[inline(never)]
unsafe fn dot_blocks<N: Float>(row: *const N, x: &[N]) -> N {
    let (n, mut at, mut sums) = (x.len(), 0, imp::no_sums::<N>());
    // SAFETY: each block is within the lanes that are left. Blocks but for the last begin with the first lane of 64 bytes.
    unsafe {
        while n - at >= 64 {
            sums = imp::add_products(sums, block::<N, 64>(row, at), &*block::<N, 64>(x.as_ptr(), at));
            at += 64;
        }
        while n - at >= 16 {
            sums = imp::add_products(sums, block::<N, 16>(row, at), &*block::<N, 16>(x.as_ptr(), at));
            at += 16;
        }
        macro_rules! last {
            ($($k:literal)*) => {
                match n - at {
                    $($k => imp::add_products(sums, block::<N, $k>(row, at), &*block::<N, $k>(x.as_ptr(), at)),)*
                    _ => sums,
                }
            };
        }
        imp::total::<N>(last!(1 2 3 4 5 6 7 8 9 10 11 12 13 14 15))
    }
}

/// # Safety
/// `at` lanes behind `row`, and K more, are one row's.
#[inline(always)]
unsafe fn block<N, const K: usize>(row: *const N, at: usize) -> *mut [N; K] {
    // SAFETY: the caller's promise.
    unsafe { row.add(at).cast::<[N; K]>().cast_mut() }
}

/// Visits, with what each has at hand.
macro_rules! visits {
    ($($visit:ident<$number:ident> { $($field:ident: $of:ty),* } |$row:ident, $at:ident| $body:expr;)*) => {$(
        struct $visit<'a, N> {
            row: *mut N,
            $($field: $of,)*
            of: std::marker::PhantomData<&'a N>,
        }

        impl<N: $number> Visit for $visit<'_, N> {
            #[inline(always)]
            unsafe fn block<const K: usize>(&mut self, $at: usize) {
                let $visit { row, $($field,)* .. } = self;
                // SAFETY: the caller's promise, and that of who made this: all at hand is as long as the row, which is
                // accessed by atomics only.
                unsafe {
                    let $row = block::<N, K>(*row, $at);
                    $body
                }
            }
        }
    )*};
}
visits! {
    Get<Element> { out: *mut N } |row, at| block::<N, K>(*out, at).write(imp::get(row));
    Set<Element> { from: *const N } |row, at| imp::set(row, block::<N, K>(*from, at));
    Add<Lane> { x: &'a [N] } |row, at| imp::add(row, &*block::<N, K>(x.as_ptr(), at));
    Axpy<Float> { a: N, x: &'a [N] } |row, at| imp::axpy(row, *a, &*block::<N, K>(x.as_ptr(), at));
    Scale<Float> { a: N } |row, at| imp::scale(row, *a);
    AddTo<Float> { a: N, y: &'a mut [N] } |row, at| imp::add_to(row, *a, &mut *block::<N, K>(y.as_mut_ptr(), at));
    Step<Float> { g: N, x: &'a [N], change: &'a mut [N] } |row, at| {
        imp::step(row, *g, &*block::<N, K>(x.as_ptr(), at), &mut *block::<N, K>(change.as_mut_ptr(), at));
    };
}

impl<T> Shared<[T]> {
    /// How many numbers the row has.
    #[inline(always)]
    #[allow(clippy::len_without_is_empty, reason = "no row is empty")]
    pub fn len(&self) -> usize {
        self.0.get().len()
    }

    fn first(&self) -> *mut T {
        self.0.get().cast()
    }

    /// # Panics
    /// If a slice isn't as long as the row.
    #[inline(always)]
    fn check(&self, len: usize) {
        assert!(self.len() == len, "a row of {} numbers and one of {len}", self.len());
    }
}

impl<T: Element> Shared<[T]> {
    /// Copies the row to `out`.
    ///
    /// # Panics
    /// If `out` isn't as long as the row.
    #[inline(always)]
    pub fn load(&self, out: &mut [T]) {
        const {
            assert!(
                T::PLAIN,
                "only plain elements can be shared: numbers, arrays and structs of numbers without padding"
            );
        };
        self.check(out.len());
        // SAFETY: see the module's argument, here and below.
        unsafe { walk(out.len(), Get { row: self.first(), out: out.as_mut_ptr(), of: std::marker::PhantomData }) };
    }

    /// Replaces the row by `row`.
    #[inline(always)]
    pub fn store(&self, row: &[T]) {
        const {
            assert!(
                T::PLAIN,
                "only plain elements can be shared: numbers, arrays and structs of numbers without padding"
            );
        };
        self.check(row.len());
        // SAFETY: see the module's argument.
        unsafe { walk(row.len(), Set { row: self.first(), from: row.as_ptr(), of: std::marker::PhantomData }) };
    }

    /// A copy of the row.
    pub fn to_vec(&self) -> Vec<T> {
        (0..self.len()).map(|k| self.number(k).get()).collect()
    }

    /// One of the row's numbers.
    ///
    /// # Panics
    /// If `k` isn't below the row's length.
    #[inline(always)]
    pub fn number(&self, k: usize) -> &Shared<T> {
        assert!(k < self.len(), "number {k} of a row of {}", self.len());
        // SAFETY: it is one of the row's, which everybody accesses by atomics only.
        unsafe { &*self.first().add(k).cast::<Shared<T>>() }
    }
}

impl<N: Lane> Shared<[N]> {
    /// `self += x`; integers wrap around.
    #[inline(always)]
    pub fn add(&self, x: &[N]) {
        self.check(x.len());
        // SAFETY: see the module's argument.
        unsafe { walk(x.len(), Add { row: self.first(), x, of: std::marker::PhantomData }) };
    }
}

impl<N: Float> Shared<[N]> {
    /// The dot product with `x`: the bits of [`kernels::dot`](crate::kernels::dot).
    #[inline(always)]
    pub fn dot(&self, x: &[N]) -> N {
        self.check(x.len());
        macro_rules! by_width {
            ($($k:literal)*) => {
                // SAFETY: see the module's argument: the block is the row.
                unsafe {
                    match x.len() {
                        $($k => imp::dot(block::<N, $k>(self.first(), 0), &*block::<N, $k>(x.as_ptr(), 0)),)*
                        _ => dot_blocks(self.first(), x),
                    }
                }
            };
        }
        by_width!(32 64 100 128 300)
    }

    /// `self += a * x`: the bits of [`kernels::axpy`](crate::kernels::axpy).
    #[inline(always)]
    pub fn axpy(&self, a: N, x: &[N]) {
        self.check(x.len());
        // SAFETY: see the module's argument.
        unsafe { walk(x.len(), Axpy { row: self.first(), a, x, of: std::marker::PhantomData }) };
    }

    /// `self *= a`.
    #[inline(always)]
    pub fn scale(&self, a: N) {
        // SAFETY: see the module's argument.
        unsafe { walk(self.len(), Scale { row: self.first(), a, of: std::marker::PhantomData }) };
    }

    /// `y += a * self`: the bits of [`kernels::axpy`](crate::kernels::axpy).
    #[inline(always)]
    pub fn add_to(&self, a: N, y: &mut [N]) {
        self.check(y.len());
        // SAFETY: see the module's argument.
        unsafe { walk(y.len(), AddTo { row: self.first(), a, y, of: std::marker::PhantomData }) };
    }

    /// `change += g * self`, then `self += g * x`, in one pass, as for an array.
    #[inline(always)]
    pub fn step(&self, g: N, x: &[N], change: &mut [N]) {
        self.check(x.len());
        self.check(change.len());
        // SAFETY: see the module's argument.
        unsafe { walk(x.len(), Step { row: self.first(), g, x, change, of: std::marker::PhantomData }) };
    }
}
