//! Reading elements back from their bytes: what can be wrong with them, and how lengths and nesting are bounded.
//!
//! # Why this is sound
//! [`decode_plain`] and [`decode_vec`] make elements out of bytes only where `T::PLAIN` holds, which promises that any
//! bytes are a value (see [`Element`]), and only as many as the bytes before them were counted to give.
#![allow(unsafe_code)]

use std::any::type_name;
use std::cell::Cell;
use std::marker::PhantomData;

use crate::memory::element::Element;

/// Elements may encode to nothing, so that no bytes bound their number. This many of them are believed.
pub(crate) const MAX_EMPTY: usize = 1 << 20;
/// So deep may any type nest.
const FREE_LEVELS: u32 = 16;
/// The stack that deeper nesting may take: a quarter of what a thread has by default.
const NESTING_STACK: usize = 512 << 10;

/// Why bytes could not be read back as a value.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DecodeError, Element};
///
/// let mut bytes = &[2u8][..];
/// let error = bool::decode(&mut bytes).unwrap_err();
/// assert!(matches!(error, DecodeError::Invalid { found: 2, .. }));
/// assert_eq!(error.to_string(), "2 is no bool: 0 or 1 was expected");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before the value does.
    #[error("{of}: {needed} bytes were expected, and {left} are left")]
    Truncated {
        /// The type that was read.
        of: &'static str,
        /// How many bytes it takes.
        needed: usize,
        /// How many there are.
        left: usize,
    },
    /// More elements are claimed than the bytes can hold.
    #[error("{of}: {len} of them are claimed, and the {left} bytes that are left can't hold this many")]
    Length {
        /// The elements' type.
        of: &'static str,
        /// How many are claimed.
        len: usize,
        /// How many bytes there are.
        left: usize,
    },
    /// A number that stands for no value of the type.
    #[error("{found} is no {of}: {expected} was expected")]
    Invalid {
        /// The type that was read.
        of: &'static str,
        /// What was found.
        found: u64,
        /// What would have been right.
        expected: &'static str,
    },
    /// A number that is no variant of an enum.
    #[error("{found} is no variant of {of}, which has {variants}")]
    Variant {
        /// The enum.
        of: &'static str,
        /// What was found.
        found: u32,
        /// How many variants there are, numbered from 0.
        variants: u32,
    },
    /// A map or a set has a key twice.
    #[error("{of}: key {at} came before")]
    Repeated {
        /// The map or set.
        of: &'static str,
        /// How many keys came before, all different.
        at: usize,
    },
    /// Text that is not UTF-8.
    #[error("UTF-8 was expected, but only the first {valid} bytes are")]
    Utf8 {
        /// How many bytes are right.
        valid: usize,
    },
    /// Values are nested more deeply than the stack allows.
    #[error("values are nested more than {levels} deep, which takes too much of the stack")]
    Nesting {
        /// How deep it went.
        levels: u32,
    },
    /// There are more elements than memory allows.
    #[error("{len} elements are claimed, and there is room for {room}")]
    Room {
        /// How many are claimed.
        len: usize,
        /// How many fit.
        room: usize,
    },
    /// Bytes are left after the value.
    #[error("the bytes were expected to end here, and {left} are left")]
    Trailing {
        /// How many are left.
        left: usize,
    },
    /// The type's own `Deserialize` returned an error.
    #[error("{message}")]
    Serde {
        /// What it said.
        message: String,
    },
}

/// Takes `n` bytes off the front.
pub(crate) fn take<'a>(bytes: &mut &'a [u8], n: usize, of: &'static str) -> Result<&'a [u8], DecodeError> {
    let Some((front, rest)) = bytes.split_at_checked(n) else {
        return Err(DecodeError::Truncated { of, needed: n, left: bytes.len() });
    };
    *bytes = rest;
    Ok(front)
}

/// Takes an array of bytes off the front.
#[inline]
pub(crate) fn take_array<const N: usize>(bytes: &mut &[u8], of: &'static str) -> Result<[u8; N], DecodeError> {
    let Some((front, rest)) = bytes.split_first_chunk::<N>() else {
        return Err(DecodeError::Truncated { of, needed: N, left: bytes.len() });
    };
    *bytes = rest;
    Ok(*front)
}

/// Refuses a claimed number of elements that the bytes can't hold, as long as an element takes at least one.
pub(crate) fn check_claim(len: usize, bytes: &[u8], of: &'static str) -> Result<(), DecodeError> {
    if len > bytes.len().max(MAX_EMPTY) {
        return Err(DecodeError::Length { of, len, left: bytes.len() });
    }
    Ok(())
}

/// The bytes of `n` plain elements.
pub(crate) fn take_plain<'a, T: Element>(bytes: &mut &'a [u8], n: usize) -> Result<&'a [u8], DecodeError> {
    let too_long = DecodeError::Length { of: type_name::<T>(), len: n, left: bytes.len() };
    match n.checked_mul(size_of::<T>()) {
        Some(needed) if needed <= bytes.len() => take(bytes, needed, type_name::<T>()),
        _ => Err(too_long),
    }
}

/// Reads a plain element: for the derive macro.
///
/// # Panics
/// If the type is not plain.
#[inline]
pub fn decode_plain<T: Element>(bytes: &mut &[u8]) -> Result<T, DecodeError> {
    assert!(T::PLAIN, "{} is not plain", type_name::<T>());
    let taken = take(bytes, size_of::<T>(), type_name::<T>())?;
    // SAFETY: as many bytes as the element has, and any bytes are a value of it.
    Ok(unsafe { taken.as_ptr().cast::<T>().read_unaligned() })
}

/// Reads `n` elements, a number that came with the bytes.
pub fn decode_vec<T: Element>(n: usize, bytes: &mut &[u8]) -> Result<Vec<T>, DecodeError> {
    check_claim(n, bytes, type_name::<T>())?;
    if T::PLAIN {
        let taken = take_plain::<T>(bytes, n)?;
        let mut all = Vec::<T>::with_capacity(n);
        // SAFETY: there is room for n, and as many bytes as they have were taken; any bytes are values.
        unsafe {
            std::ptr::copy_nonoverlapping(taken.as_ptr(), all.as_mut_ptr().cast::<u8>(), taken.len());
            all.set_len(n);
        }
        return Ok(all);
    }
    let _level = deeper()?;
    // An element may take far fewer bytes here than there: no more room in advance than there are bytes.
    let mut all = Vec::with_capacity(n.min(bytes.len() / size_of::<T>().max(1)));
    for _ in 0..n {
        all.push(T::decode(bytes)?);
    }
    Ok(all)
}

/// Reads as many elements as the type says.
pub(crate) fn decode_array<T: Element, const N: usize>(bytes: &mut &[u8]) -> Result<[T; N], DecodeError> {
    if T::PLAIN {
        return decode_plain(bytes);
    }
    let left = bytes.len();
    let mut all = Vec::with_capacity(N);
    for _ in 0..N {
        all.push(T::decode(bytes)?);
    }
    all.try_into().map_err(|_| DecodeError::Length { of: type_name::<T>(), len: N, left })
}

/// What an enum says of a number that is none of its variants: for the derive macro.
pub fn no_variant<T>(found: u32, variants: u32) -> DecodeError {
    DecodeError::Variant { of: type_name::<T>(), found, variants }
}

thread_local! {
    /// How many levels are open on this thread, and where on the stack the first was.
    static NESTING: Cell<(u32, usize)> = const { Cell::new((0, 0)) };
}

/// An open level of nesting. Stays on its thread.
pub(crate) struct Level(PhantomData<*const ()>);

/// Opens a level. Only types that contain themselves go deep, at the will of the bytes; what matters then is the stack.
pub(crate) fn deeper() -> Result<Level, DecodeError> {
    let marker = 0u8;
    let here = std::ptr::from_ref(&marker).addr();
    let (levels, first) = NESTING.get();
    let first = if levels == 0 { here } else { first };
    if levels >= FREE_LEVELS && here.abs_diff(first) > NESTING_STACK {
        return Err(DecodeError::Nesting { levels });
    }
    NESTING.set((levels + 1, first));
    Ok(Level(PhantomData))
}

impl Drop for Level {
    fn drop(&mut self) {
        let (levels, first) = NESTING.get();
        NESTING.set((levels - 1, first));
    }
}
