//! Vectors of 32 bytes (AVX2).
//!
//! # Why this is sound
//! 1. The module is there only where the program is compiled for these instructions.
//! 2. Any bytes are a register's.
//! 3. Registers are computed with; memory is read and written by [`load_plain`] and [`store_plain`] alone, whose callers
//!    vouch for it.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

pub type Reg = __m256;
pub(super) const WIDTH: usize = 32;
/// This many vectors are moved at once; with more, too few of the registers are left to compute with.
pub(super) const PANEL: usize = 4;
// SAFETY: rule 2.
pub(super) const ZERO: Reg = unsafe { std::mem::zeroed() };

/// The class and the bytes of the registers, for macros with assembly.
macro_rules! with_class {
    ($macro:ident) => {
        $macro! { ymm_reg, 32 }
    };
}
pub(super) use with_class;

/// # Safety
/// There are WIDTH bytes.
#[inline(always)]
pub(super) unsafe fn load_plain(from: *const u8) -> Reg {
    // SAFETY: rules 1 and 3.
    unsafe { _mm256_loadu_ps(from.cast()) }
}

/// # Safety
/// There are WIDTH bytes.
#[inline(always)]
pub(super) unsafe fn store_plain(to: *mut u8, reg: Reg) {
    // SAFETY: rules 1 and 3.
    unsafe { _mm256_storeu_ps(to.cast(), reg) };
}

/// Of the first `n` quads; the others are zero.
#[inline(always)]
pub(super) fn from_quads(quads: [__m128; 4], n: usize) -> Reg {
    // SAFETY: rule 1.
    unsafe {
        let reg = _mm256_zextps128_ps256(quads[0]);
        if n > 1 { _mm256_insertf128_ps::<1>(reg, quads[1]) } else { reg }
    }
}

#[inline(always)]
pub(super) fn to_quads(reg: Reg) -> [__m128; 4] {
    // SAFETY: rule 1.
    unsafe {
        let nothing = _mm_setzero_ps();
        [_mm256_castps256_ps128(reg), _mm256_extractf128_ps::<1>(reg), nothing, nothing]
    }
}

macro_rules! floats {
    ($($splat:ident $plus:ident $times:ident: $t:ty, $set:ident $add:ident $mul:ident, $from:expr, $to:expr;)*) => {$(
        #[inline(always)]
        pub(super) fn $splat(a: $t) -> Reg {
            // SAFETY: rule 1.
            unsafe { $to($set(a)) }
        }
        #[inline(always)]
        pub(super) fn $plus(a: Reg, b: Reg) -> Reg {
            // SAFETY: rule 1.
            unsafe { $to($add($from(a), $from(b))) }
        }
        #[inline(always)]
        pub(super) fn $times(a: Reg, b: Reg) -> Reg {
            // SAFETY: rule 1.
            unsafe { $to($mul($from(a), $from(b))) }
        }
    )*};
}
floats! {
    splat_f32 plus_f32 times_f32: f32, _mm256_set1_ps _mm256_add_ps _mm256_mul_ps, |a| a, |a| a;
    splat_f64 plus_f64 times_f64: f64, _mm256_set1_pd _mm256_add_pd _mm256_mul_pd, |a| _mm256_castps_pd(a),
        |a| _mm256_castpd_ps(a);
}

macro_rules! integers {
    ($($plus:ident $add:ident;)*) => {$(
        #[inline(always)]
        pub(super) fn $plus(a: Reg, b: Reg) -> Reg {
            // SAFETY: rule 1.
            unsafe { _mm256_castsi256_ps($add(_mm256_castps_si256(a), _mm256_castps_si256(b))) }
        }
    )*};
}
integers! {
    plus_8 _mm256_add_epi8;
    plus_16 _mm256_add_epi16;
    plus_32 _mm256_add_epi32;
    plus_64 _mm256_add_epi64;
}

#[inline(always)]
pub(super) fn to_numbers(reg: Reg) -> [u128; WIDTH / 16] {
    // SAFETY: the same bytes (rule 2).
    unsafe { std::mem::transmute(reg) }
}

#[inline(always)]
pub(super) fn from_numbers(numbers: [u128; WIDTH / 16]) -> Reg {
    // SAFETY: the same bytes (rule 2).
    unsafe { std::mem::transmute(numbers) }
}

/// Pairwise from the halves, down to 16 bytes.
#[inline(always)]
pub(super) fn fold(regs: [Reg; 2], plus: impl Fn(Reg, Reg) -> Reg) -> __m128 {
    // SAFETY: rule 1.
    unsafe {
        let half = plus(regs[0], regs[1]);
        _mm256_castps256_ps128(plus(half, _mm256_permute2f128_ps::<1>(half, half)))
    }
}
