//! Walking over the vectors of an element, whole ones and the tail.
//!
//! # Why this is sound
//! 1. Shared memory is accessed by the moves of `moves.rs` alone, each within the element: a [`Shape`] never counts more
//!    bytes than there are.
//! 2. A [`Position<T>`] is made here only, and is within every `T`.
#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::marker::PhantomData;

use super::moves::{MOST, NOTHING, load_panel, load_quads, load_words, store_panel, store_quads, store_words};
use super::registers::{PANEL, Reg, WIDTH, ZERO, from_quads, load_plain, store_plain, to_quads};
use super::shape::{Panel, Quads, Run, Shape, Singles};

/// What is done with the vectors of an element of type `T`.
pub(super) trait Visit<T> {
    /// Whether the vectors are read; they are zero otherwise.
    const READS: bool;
    /// Whether they are written: replaced by what the visit gives.
    const WRITES: bool;

    /// Each vector in turn, the `k`th of its panel.
    fn visit<const WHOLE: bool>(&mut self, k: usize, place: Position<T, WHOLE>, reg: Reg) -> Reg;
}

/// Where a vector is within elements of type `T`: a whole one, or the tail.
pub(super) struct Position<T, const WHOLE: bool> {
    /// In bytes.
    at: usize,
    of: PhantomData<T>,
}

impl<T, const WHOLE: bool> Position<T, WHOLE> {
    #[inline(always)]
    fn new(at: usize) -> Self {
        Position { at, of: PhantomData }
    }

    /// The vector here in another element, with zeros behind a tail.
    ///
    /// # Safety
    /// `from` is a plain element that nobody writes meanwhile.
    #[inline(always)]
    pub(super) unsafe fn load(&self, from: *const T) -> Reg {
        // SAFETY: it is within the element (rule 2), which has no padding.
        unsafe {
            let from = from.cast::<u8>().add(self.at);
            if WHOLE {
                return load_plain(from);
            }
            let mut quads = [NOTHING; 4];
            if const { Shape::<T>::QUADS > 0 } {
                quads[0] = _mm_loadu_ps(from.cast());
            }
            if const { Shape::<T>::QUADS > 1 } {
                quads[1] = _mm_loadu_ps(from.add(16).cast());
            }
            if const { Shape::<T>::QUADS > 2 } {
                quads[2] = _mm_loadu_ps(from.add(32).cast());
            }
            let words = from.add(16 * Shape::<T>::QUADS);
            match Shape::<T>::WORDS {
                0 => {}
                1 => quads[Shape::<T>::QUADS] = _mm_load_ss(words.cast()),
                2 => quads[Shape::<T>::QUADS] = _mm_castpd_ps(_mm_load_sd(words.cast())),
                _ => {
                    let pair = _mm_castpd_ps(_mm_load_sd(words.cast()));
                    quads[Shape::<T>::QUADS] = _mm_movelh_ps(pair, _mm_load_ss(words.add(8).cast()));
                }
            }
            from_quads(quads, Shape::<T>::TAIL.div_ceil(16))
        }
    }

    /// Replaces the vector here in another element.
    ///
    /// # Safety
    /// `to` is room for a plain element that nobody else accesses meanwhile.
    #[inline(always)]
    pub(super) unsafe fn store(&self, to: *mut T, reg: Reg) {
        // SAFETY: it is within the element (rule 2), whose bytes may be any.
        unsafe {
            let to = to.cast::<u8>().add(self.at);
            if WHOLE {
                return store_plain(to, reg);
            }
            let quads = to_quads(reg);
            if const { Shape::<T>::QUADS > 0 } {
                _mm_storeu_ps(to.cast(), quads[0]);
            }
            if const { Shape::<T>::QUADS > 1 } {
                _mm_storeu_ps(to.add(16).cast(), quads[1]);
            }
            if const { Shape::<T>::QUADS > 2 } {
                _mm_storeu_ps(to.add(32).cast(), quads[2]);
            }
            let (words, last) = (to.add(16 * Shape::<T>::QUADS), quads[Shape::<T>::QUADS]);
            match Shape::<T>::WORDS {
                0 => {}
                1 => _mm_store_ss(words.cast(), last),
                2 => _mm_store_sd(words.cast(), _mm_castps_pd(last)),
                _ => {
                    _mm_store_sd(words.cast(), _mm_castps_pd(last));
                    _mm_store_ss(words.add(8).cast(), _mm_movehl_ps(last, last));
                }
            }
        }
    }
}

/// Walks over the vectors of an element. The bytes behind the tail, from [`Shape::REST_AT`] on, are left out.
///
/// # Safety
/// `element` is a plain one that nobody accesses meanwhile but by relaxed atomics.
#[inline(always)]
pub(super) unsafe fn walk<T, V: Visit<T>>(element: *mut T, mut visit: V) -> V {
    // SAFETY: each panel, and the tail, is within the element (rule 1).
    unsafe {
        let element = element.cast::<u8>();
        if const { Shape::<T>::PANELS > 0 } {
            for k in 0..Shape::<T>::PANELS {
                let at = k * PANEL * WIDTH;
                run::<Panel, T, V>(element.add(at), at, &mut visit);
            }
        }
        let at = Shape::<T>::PANELS * PANEL * WIDTH;
        if const { Shape::<T>::SINGLES > 0 } {
            run::<Singles<T>, T, V>(element.add(at), at, &mut visit);
        }
        if const { Shape::<T>::TAIL > 0 } {
            tail(element.add(at), at, &mut visit);
        }
    }
    visit
}

/// Straight-line code for each vector of a run. Loops over arrays of registers would be unrolled too late for the arrays
/// to go.
macro_rules! each {
    ($run:ident, $k:ident => $body:expr) => {
        each! { @ $run, $k => $body; 0 1 2 3 4 5 6 7 }
    };
    (@ $run:ident, $k:ident => $body:expr; $($number:literal)*) => {$(
        if const { $number < $run::LEN } {
            let $k = $number;
            $body
        }
    )*};
}

/// # Safety
/// The run is at `from`, which is `at` in the element.
#[inline(always)]
unsafe fn run<R: Run, T, V: Visit<T>>(from: *mut u8, at: usize, visit: &mut V) {
    // SAFETY: the caller's.
    let mut regs = if V::READS { unsafe { load_panel::<R>(from) } } else { [ZERO; MOST] };
    each!(R, k => regs[k] = visit.visit(k, Position::<T, true>::new(at + k * WIDTH), regs[k]));
    if V::WRITES {
        // SAFETY: the caller's.
        unsafe { store_panel::<R>(from, &regs) };
    }
}

/// # Safety
/// `from` is the end of the last whole panel, `at` in the element.
#[inline(always)]
unsafe fn tail<T, V: Visit<T>>(from: *mut u8, at: usize, visit: &mut V) {
    let mut quads = [NOTHING; 4];
    if V::READS {
        // SAFETY: the caller's.
        unsafe {
            quads = load_quads::<Quads<T>>(from);
            if const { Shape::<T>::WORDS > 0 } {
                quads[Shape::<T>::QUADS] = load_words::<T>(from);
            }
        }
    }
    let reg = from_quads(quads, Shape::<T>::TAIL.div_ceil(16));
    let reg = visit.visit(Shape::<T>::SINGLES, Position::<T, false>::new(at + Shape::<T>::TAIL_AT), reg);
    if V::WRITES {
        let quads = to_quads(reg);
        // SAFETY: the caller's.
        unsafe {
            store_quads::<Quads<T>>(from, &quads);
            if const { Shape::<T>::WORDS > 0 } {
                store_words::<T>(from, quads[Shape::<T>::QUADS]);
            }
        }
    }
}
