//! What a view gives references to: elements, and rows of a width that is known at run time.
//!
//! # Why this is sound
//! An element lies at its own number of elements behind the first one, a row at as many times its width. Who asks for a
//! reference vouches for what lies there.
#![allow(unsafe_code)]

use crate::memory::shared::Shared;

/// An element `T`, or a row `[T]`.
#[doc(hidden)]
pub trait Stored {
    /// What an address counts.
    type Number;
    /// How many numbers there are to each.
    type Width: Copy;
    /// By the operations on elements.
    fn width(width: usize) -> Self::Width;
    /// How many numbers lie before the `k`-th.
    fn numbers(k: usize, width: Self::Width) -> usize;
    /// How many bytes each has.
    fn bytes(width: Self::Width) -> usize;
    /// # Safety
    /// There is one at this address, which nobody writes as long as the reference lives.
    unsafe fn get<'a>(at: *const Self::Number, width: Self::Width) -> &'a Self;
    /// # Safety
    /// There is one at this address, which nobody else uses as long as the reference lives.
    unsafe fn get_mut<'a>(at: *mut Self::Number, width: Self::Width) -> &'a mut Self;
    /// Exchanges two that are equally wide.
    fn swap(&mut self, other: &mut Self);
}

/// The same, that threads share.
#[doc(hidden)]
pub trait SharedRow: Stored {
    /// # Safety
    /// There is one at this address, which everybody reaches through `Shared` only as long as the reference lives.
    unsafe fn shared<'a>(at: *const Self::Number, width: Self::Width) -> &'a Shared<Self>;
}

impl<T> SharedRow for T {
    #[inline(always)]
    unsafe fn shared<'a>(at: *const T, (): ()) -> &'a Shared<T> {
        // SAFETY: the caller's promise.
        unsafe { &*at.cast() }
    }
}

impl<T> SharedRow for [T] {
    #[inline(always)]
    unsafe fn shared<'a>(at: *const T, width: usize) -> &'a Shared<[T]> {
        // SAFETY: the caller's promise; `Shared` has the layout of what it shares.
        unsafe { &*(std::ptr::slice_from_raw_parts(at, width) as *const Shared<[T]>) }
    }
}

impl<T> Stored for T {
    type Number = T;
    type Width = ();
    #[inline(always)]
    fn width(_width: usize) {}
    #[inline(always)]
    fn numbers(k: usize, (): ()) -> usize {
        k
    }
    #[inline(always)]
    fn bytes((): ()) -> usize {
        size_of::<T>()
    }
    #[inline(always)]
    unsafe fn get<'a>(at: *const T, (): ()) -> &'a T {
        // SAFETY: the caller's promise.
        unsafe { &*at }
    }
    #[inline(always)]
    unsafe fn get_mut<'a>(at: *mut T, (): ()) -> &'a mut T {
        // SAFETY: the caller's promise.
        unsafe { &mut *at }
    }
    #[inline(always)]
    fn swap(&mut self, other: &mut T) {
        std::mem::swap(self, other);
    }
}

impl<T> Stored for [T] {
    type Number = T;
    type Width = usize;
    #[inline(always)]
    fn width(width: usize) -> usize {
        width
    }
    #[inline(always)]
    fn numbers(k: usize, width: usize) -> usize {
        k.wrapping_mul(width)
    }
    #[inline(always)]
    fn bytes(width: usize) -> usize {
        width * size_of::<T>()
    }
    #[inline(always)]
    unsafe fn get<'a>(at: *const T, width: usize) -> &'a [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts(at, width) }
    }
    #[inline(always)]
    unsafe fn get_mut<'a>(at: *mut T, width: usize) -> &'a mut [T] {
        // SAFETY: the caller's promise.
        unsafe { std::slice::from_raw_parts_mut(at, width) }
    }
    #[inline(always)]
    fn swap(&mut self, other: &mut [T]) {
        self.swap_with_slice(other);
    }
}
