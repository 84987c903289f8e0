//! Moves between shared memory and vector registers, as inline assembly.
//!
//! # Why this is sound
//! 1. To the language each block of assembly is a run of relaxed atomic accesses, one a lane: the machine moves aligned
//!    numbers of up to 8 bytes whole, as lanes of a vector too, and nothing depends on the order among them. So blocks race
//!    with no other atomic access. The compiler doesn't look inside, and assumes what the block's options say: loads
//!    write no memory, stores may write any, and none of them uses the stack or changes the flags.
//! 2. A block accesses the bytes that its function names and no other.
//!
//! The soundness of programs doesn't need lanes to be whole: any bytes are values of the elements that are shared.
#![allow(unsafe_code)]

use std::arch::asm;
use std::arch::x86_64::{__m128, _mm_movehl_ps, _mm_movelh_ps};

use super::registers::{Reg, ZERO, with_class};
use super::shape::{Run, Shape};

/// This many vectors can be moved by one block.
pub(super) const MOST: usize = 8;
/// A quad of zeros.
// SAFETY: any bytes are a register's.
pub(super) const NOTHING: __m128 = unsafe { std::mem::zeroed() };

/// Instructions for parts of vectors.
#[cfg(target_feature = "avx")]
macro_rules! part {
    ($($text:expr),+) => { concat!("v", $($text),+) };
}
#[cfg(not(target_feature = "avx"))]
macro_rules! part {
    ($($text:expr),+) => { concat!($($text),+) };
}

/// Defines the moves of runs of whole registers.
macro_rules! runs {
    (
        $load:ident, $store:ident: [$reg:ty; $max:expr], zero $zero:expr, $class:ident, $move:expr, $width:literal;
        $($n:literal: $($r:ident $k:literal)+;)+
    ) => {
        /// The vectors of a run; the others are zero.
        ///
        /// # Safety
        /// The run is there, and nobody accesses it meanwhile but by relaxed atomics.
        #[inline(always)]
        pub(super) unsafe fn $load<R: Run>(from: *const u8) -> [$reg; $max] {
            let mut regs = [$zero; $max];
            match R::LEN {
                $($n => {
                    $(let $r: $reg;)+
                    // SAFETY: rules 1 and 2.
                    unsafe {
                        asm!(
                            $(concat!($move, " {", stringify!($r), "}, [{from} + {at} + ", $k, " * ", $width, "]"),)+
                            from = in(reg) from,
                            at = const R::AT,
                            $($r = out($class) $r,)+
                            options(nostack, preserves_flags, readonly),
                        );
                    }
                    $(regs[$k] = $r;)+
                })+
                _ => {}
            }
            regs
        }

        /// Stores the vectors of a run.
        ///
        /// # Safety
        /// As for the loads.
        #[inline(always)]
        pub(super) unsafe fn $store<R: Run>(to: *mut u8, regs: &[$reg; $max]) {
            match R::LEN {
                $($n => {
                    // SAFETY: rules 1 and 2.
                    unsafe {
                        asm!(
                            $(concat!($move, " [{to} + {at} + ", $k, " * ", $width, "], {", stringify!($r), "}"),)+
                            to = in(reg) to,
                            at = const R::AT,
                            $($r = in($class) regs[$k],)+
                            options(nostack, preserves_flags),
                        );
                    }
                })+
                _ => {}
            }
        }
    };
}

macro_rules! panels {
    ($class:ident, $width:literal) => {
        runs! { load_panel, store_panel: [Reg; MOST], zero ZERO, $class, part!("movups"), $width;
            1: a 0;
            2: a 0 b 1;
            3: a 0 b 1 c 2;
            4: a 0 b 1 c 2 d 3;
            5: a 0 b 1 c 2 d 3 e 4;
            6: a 0 b 1 c 2 d 3 e 4 f 5;
            7: a 0 b 1 c 2 d 3 e 4 f 5 g 6;
            8: a 0 b 1 c 2 d 3 e 4 f 5 g 6 h 7;
        }
    };
}
with_class!(panels);

runs! { load_quads, store_quads: [__m128; 4], zero NOTHING, xmm_reg, part!("movups"), 16;
    1: a 0;
    2: a 0 b 1;
    3: a 0 b 1 c 2;
}

/// The words of a tail, at least one, then zeros.
///
/// # Safety
/// As for the quads.
#[inline(always)]
pub(super) unsafe fn load_words<T>(from: *const u8) -> __m128 {
    let low: __m128;
    // SAFETY: rules 1 and 2.
    unsafe {
        match Shape::<T>::WORDS {
            1 => asm!(
                part!("movss {low}, dword ptr [{from} + {at}]"),
                from = in(reg) from, at = const Shape::<T>::WORDS_AT, low = out(xmm_reg) low,
                options(nostack, preserves_flags, readonly),
            ),
            2 => asm!(
                part!("movsd {low}, qword ptr [{from} + {at}]"),
                from = in(reg) from, at = const Shape::<T>::WORDS_AT, low = out(xmm_reg) low,
                options(nostack, preserves_flags, readonly),
            ),
            _ => {
                let (first, third): (__m128, __m128);
                asm!(
                    part!("movsd {first}, qword ptr [{from} + {at}]"),
                    part!("movss {third}, dword ptr [{from} + {at} + 8]"),
                    from = in(reg) from, at = const Shape::<T>::WORDS_AT, first = out(xmm_reg) first, third = out(xmm_reg) third,
                    options(nostack, preserves_flags, readonly),
                );
                low = _mm_movelh_ps(first, third);
            }
        }
    }
    low
}

/// Stores the words of a tail, at least one.
///
/// # Safety
/// As for the quads.
#[inline(always)]
pub(super) unsafe fn store_words<T>(to: *mut u8, words: __m128) {
    // SAFETY: rules 1 and 2.
    unsafe {
        match Shape::<T>::WORDS {
            1 => asm!(
                part!("movss dword ptr [{to} + {at}], {low}"),
                to = in(reg) to, at = const Shape::<T>::WORDS_AT, low = in(xmm_reg) words,
                options(nostack, preserves_flags),
            ),
            2 => asm!(
                part!("movsd qword ptr [{to} + {at}], {low}"),
                to = in(reg) to, at = const Shape::<T>::WORDS_AT, low = in(xmm_reg) words,
                options(nostack, preserves_flags),
            ),
            _ => asm!(
                part!("movsd qword ptr [{to} + {at}], {first}"),
                part!("movss dword ptr [{to} + {at} + 8], {third}"),
                to = in(reg) to, at = const Shape::<T>::WORDS_AT, first = in(xmm_reg) words,
                third = in(xmm_reg) _mm_movehl_ps(words, words),
                options(nostack, preserves_flags),
            ),
        }
    }
}
