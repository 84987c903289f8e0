//! Numbers that several threads read and write: one relaxed atomic access each.
//!
//! # Why this is sound
//! A number is loaded and stored as an atomic integer of its size and alignment (128 bits: as two of 64, so halves may
//! be of different writers, which is still a number). The caller vouches for the address.
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering::Relaxed};

use super::imp;
use crate::memory::element::Element;

/// A number that [`Shared`](super::Shared) elements can [`add`](super::Shared::add): any integer, `f32` or `f64`. Integers
/// wrap around.
pub trait Lane: Element + Copy + sealed::Sealed + imp::Vector {}

mod sealed {
    pub trait Sealed: Copy {
        fn plus(self, other: Self) -> Self;
        /// # Safety
        /// The address holds a number, and is accessed by nothing but relaxed atomics meanwhile.
        unsafe fn load(from: *const Self) -> Self;
        /// # Safety
        /// As for `load`.
        unsafe fn store(self, to: *mut Self);
    }
}
pub(crate) use sealed::Sealed;

macro_rules! lanes {
    ($($t:ty, $atomic:ident, |$a:ident, $b:ident| $plus:expr, $from:expr, $to:expr;)*) => {$(
        impl Lane for $t {}
        impl Sealed for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                let ($a, $b) = (self, other);
                $plus
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self {
                // SAFETY: the caller vouches for the address; the integer has the number's size and alignment.
                $from(unsafe { $atomic::from_ptr(from.cast_mut().cast()) }.load(Relaxed))
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut Self) {
                // SAFETY: the caller vouches for the address; the integer has the number's size and alignment.
                unsafe { $atomic::from_ptr(to.cast()) }.store($to(self), Relaxed);
            }
        }
    )*};
}

macro_rules! integers {
    ($($t:ty, $atomic:ident, $bits:ty;)*) => {
        lanes! { $($t, $atomic, |a, b| a.wrapping_add(b), |bits: $bits| bits as $t, |number: $t| number as $bits;)* }
    };
}
integers! {
    u8, AtomicU8, u8; i8, AtomicU8, u8;
    u16, AtomicU16, u16; i16, AtomicU16, u16;
    u32, AtomicU32, u32; i32, AtomicU32, u32;
    u64, AtomicU64, u64; i64, AtomicU64, u64;
}
#[cfg(target_pointer_width = "64")]
integers! { usize, AtomicU64, u64; isize, AtomicU64, u64; }
#[cfg(target_pointer_width = "32")]
integers! { usize, AtomicU32, u32; isize, AtomicU32, u32; }
lanes! {
    f32, AtomicU32, |a, b| a + b, f32::from_bits, f32::to_bits;
    f64, AtomicU64, |a, b| a + b, f64::from_bits, f64::to_bits;
}

macro_rules! halves {
    ($($t:ty)*) => {$(
        impl Lane for $t {}
        impl Sealed for $t {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            unsafe fn load(from: *const Self) -> Self {
                // SAFETY: the caller vouches for 16 bytes, aligned to 8 at least.
                let halves = unsafe { [u64::load(from.cast()), u64::load(from.cast::<u64>().add(1))] };
                // SAFETY: both have 16 bytes, of which any are a value.
                unsafe { std::mem::transmute::<[u64; 2], $t>(halves) }
            }
            #[inline(always)]
            unsafe fn store(self, to: *mut Self) {
                // SAFETY: both have 16 bytes, of which any are a value.
                let [low, high] = unsafe { std::mem::transmute::<$t, [u64; 2]>(self) };
                // SAFETY: the caller vouches for 16 bytes, aligned to 8 at least.
                unsafe {
                    low.store(to.cast());
                    high.store(to.cast::<u64>().add(1));
                }
            }
        }
    )*};
}
halves! { u128 i128 }
