//! Arithmetic on registers, by the type of the lanes.
//!
//! # Why this is sound
//! What isn't safe are instructions that every x86-64 has.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::registers::*;

/// This many registers have 64 bytes.
pub const SUMS: usize = 64 / WIDTH;

/// Numbers as lanes of a register.
pub trait Vector: Copy {
    #[doc(hidden)]
    fn plus_lanes(a: Reg, b: Reg) -> Reg;
}

/// Floats as lanes of a register.
pub trait FloatVector: Vector {
    #[doc(hidden)]
    fn splat(self) -> Reg;
    #[doc(hidden)]
    fn times_lanes(a: Reg, b: Reg) -> Reg;
    /// The sum of the lanes of 64 bytes, pairwise from the halves.
    #[doc(hidden)]
    fn total(lanes: [Reg; SUMS]) -> Self;
}

macro_rules! vectors {
    ($($plus:path: $($t:ty)+;)+) => {$($(
        impl Vector for $t {
            #[inline(always)]
            fn plus_lanes(a: Reg, b: Reg) -> Reg {
                $plus(a, b)
            }
        }
    )+)+};
}
vectors! {
    plus_f32: f32;
    plus_f64: f64;
    plus_8: u8 i8;
    plus_16: u16 i16;
    plus_32: u32 i32;
    plus_64: u64 i64 usize isize;
    plus_128: u128 i128;
}

impl FloatVector for f32 {
    #[inline(always)]
    fn splat(self) -> Reg {
        splat_f32(self)
    }
    #[inline(always)]
    fn times_lanes(a: Reg, b: Reg) -> Reg {
        times_f32(a, b)
    }
    #[inline(always)]
    fn total(lanes: [Reg; SUMS]) -> Self {
        let four = fold(lanes, plus_f32);
        // SAFETY: every x86-64 has these instructions.
        unsafe {
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps::<1>(two, two)))
        }
    }
}

impl FloatVector for f64 {
    #[inline(always)]
    fn splat(self) -> Reg {
        splat_f64(self)
    }
    #[inline(always)]
    fn times_lanes(a: Reg, b: Reg) -> Reg {
        times_f64(a, b)
    }
    #[inline(always)]
    fn total(lanes: [Reg; SUMS]) -> Self {
        let four = fold(lanes, plus_f64);
        // SAFETY: every x86-64 has these instructions.
        unsafe {
            let two = _mm_castps_pd(four);
            _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)))
        }
    }
}

/// Rare enough to do without vectors.
fn plus_128(a: Reg, b: Reg) -> Reg {
    let (mut sum, b) = (to_numbers(a), to_numbers(b));
    for (sum, b) in sum.iter_mut().zip(b) {
        *sum = sum.wrapping_add(b);
    }
    from_numbers(sum)
}
