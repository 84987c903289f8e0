//! Constants that other processes of the same executable may name: makers of loops, operators and programs, and operations on
//! elements. Each has a mark before it that stands nowhere else, so that a name leads to a constant of its kind or to nothing,
//! whatever bytes came in its place.
//!
//! # Why this is sound
//! - Only [`Named::new`] writes a mark, always with a value of the kind that the mark tells behind it; and one that lies in the
//!   executable's image is a constant, which nobody changes and which stays. 192 bits of mark are not there by chance; the
//!   comparison's own bits are inverted, so that they are no mark either.
//! - What the loader has put into memory may be read, whatever it is there for, as words that nothing is concluded from unless
//!   they are a mark. The compiler knows of no object there, hence volatile reads.
#![allow(unsafe_code)]

/// What can be named.
pub(crate) trait Nameable: Sync + 'static {
    /// Another number than any other type's.
    const KIND: u64;
}

const MARK: [u64; 2] = [0x9d3b_61f7_a24c_58e1, 0x47c8_0e5d_b193_f62a];

/// A value with its mark.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Named<T> {
    /// Read by those who look for it.
    _mark: [u64; 3],
    pub(crate) value: T,
}

impl<T: Nameable> Named<T> {
    /// To be used for constants: what lies elsewhere has no name.
    pub(crate) const fn new(value: T) -> Named<T> {
        Named { _mark: [MARK[0], MARK[1], T::KIND], value }
    }
}

#[cfg(feature = "cluster")]
pub(crate) use self::names::{name, named};

#[cfg(feature = "cluster")]
mod names {
    use std::hint::black_box;

    use super::{MARK, Nameable, Named};
    use crate::memory::image::{address_of, name_of};

    /// The name of a constant that was made by [`Named::new`]; none for one that lies elsewhere than in the executable.
    pub(crate) fn name<T: Nameable>(value: &'static T) -> Option<u64> {
        let address = std::ptr::from_ref(value).expose_provenance() - std::mem::offset_of!(Named<T>, value);
        name_of(address).filter(|&name| named::<T>(name).is_some_and(|found| std::ptr::eq(found, value)))
    }

    /// The constant with this name.
    pub(crate) fn named<T: Nameable>(name: u64) -> Option<&'static T> {
        static INVERTED: [u64; 2] = [!MARK[0], !MARK[1]];
        let address = address_of(name, size_of::<Named<T>>(), false)?;
        if !address.is_multiple_of(align_of::<Named<T>>()) {
            return None;
        }
        let word = |k: usize| {
            let at = std::ptr::with_exposed_provenance::<u64>(address + 8 * k);
            // SAFETY: within the image, which may be read, and aligned, since a `Named` is and has the mark at its beginning.
            unsafe { at.read_volatile() }
        };
        let inverted = black_box(&INVERTED);
        let marked = !word(0) == inverted[0] && !word(1) == inverted[1] && word(2) == T::KIND;
        // SAFETY: a constant of this type lies there (see above).
        marked.then(|| unsafe { &(*std::ptr::with_exposed_provenance::<Named<T>>(address)).value })
    }
}

/// What a maker makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// A `MakeTask`.
    Loop,
    /// A `MakeBatchTask`.
    BatchLoop,
    /// A `MakeStage`.
    Stage,
    /// A `MakeProgram`.
    Program,
}

/// A function that makes what a program has, from bytes. By its address, since its type may name lifetimes, which those of
/// constants can't.
#[derive(Debug)]
pub(crate) struct Maker {
    function: *const (),
    makes: Makes,
}

// SAFETY: the address of a function means the same on all threads.
unsafe impl Sync for Maker {}

impl Nameable for Maker {
    const KIND: u64 = 5;
}

impl Maker {
    /// # Safety
    /// `function` is one that makes that.
    pub(crate) const unsafe fn new(function: *const (), makes: Makes) -> Maker {
        Maker { function, makes }
    }

    /// Where it makes that: one of the functions that do.
    pub(crate) fn function(&self, makes: Makes) -> Option<*const ()> {
        (self.makes == makes).then_some(self.function)
    }
}
