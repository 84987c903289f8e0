//! The integers that index a DDS, and the marks of indices: that are probably the running iteration's own, or near it, or among those
//! that the view holds.

/// The integers that index a DDS: all of up to 64 bits. A negative one is out of range.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::ElementIndex;
/// assert_eq!(7u32.to_usize(), 7usize.to_usize());
/// assert_eq!((-1i32).to_usize(), usize::MAX);
/// ```
#[diagnostic::on_unimplemented(
    message = "a DDS can't be indexed by `{Self}`",
    label = "not an integer of up to 64 bits",
    note = "elements are numbered from 0: index them by an integer; what stands in row `i` and column `j` of a DMatrix is `x[i][j]`"
)]
pub trait ElementIndex: Copy + sealed::Sealed {
    /// Whether this is how the body writes the running iteration's own number.
    #[doc(hidden)]
    const OWN: bool = false;
    /// Whether the body writes it as a distance from the running iteration's own number.
    #[doc(hidden)]
    const NEAR: bool = false;
    /// Among which of the elements that the view holds it probably is (`body/view/held.rs`).
    #[doc(hidden)]
    const HELD: usize = usize::MAX;
    /// Which one of them, from the first on.
    #[doc(hidden)]
    #[inline(always)]
    fn nth_held(self) -> usize {
        0
    }
    /// The index as a `usize`.
    fn to_usize(self) -> usize;
}

/// The index in `x[i]`, where `i` has the name of the loop's index: what `x[i]` becomes is `x[Here(i)]`. It says nothing
/// about the value; a view compares that with the running iteration's number, which costs nothing where they are one variable.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Here<I>(pub I);

impl<I: ElementIndex> ElementIndex for Here<I> {
    const OWN: bool = true;
    #[inline(always)]
    fn to_usize(self) -> usize {
        self.0.to_usize()
    }
}

/// The index in `x[i + c]`, where `i` has the name of the loop's index: what `x[i + c]` becomes is `x[Near(i + c)]`. It says
/// nothing about the value: a view computes the distance from the running iteration's number, which is the same in all
/// iterations where the compiler sees that `c` is.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Near<I>(pub I);

impl<I: ElementIndex> ElementIndex for Near<I> {
    const NEAR: bool = true;
    #[inline(always)]
    fn to_usize(self) -> usize {
        self.0.to_usize()
    }
}

/// The index in `x[e]`, where the view probably holds elements in place `S` of which that is the `nth`. It says nothing about the value
/// either.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct Held<const S: usize, I> {
    pub(crate) index: I,
    pub(crate) nth: usize,
}

impl<const S: usize, I: ElementIndex> ElementIndex for Held<S, I> {
    const HELD: usize = S;
    #[inline(always)]
    fn nth_held(self) -> usize {
        self.nth
    }

    #[inline(always)]
    fn to_usize(self) -> usize {
        self.index.to_usize()
    }
}

/// An integer that a loop in a body counts.
#[doc(hidden)]
pub trait Counted: ElementIndex {
    /// What stands `n` behind it, if anything does.
    fn behind(self, n: usize) -> Self;
}

macro_rules! indices {
    ($($int:ty)*) => {$(
        impl ElementIndex for $int {
            #[inline(always)]
            fn to_usize(self) -> usize {
                // Wider than a `usize`: an index beyond all elements, as a negative one.
                if size_of::<$int>() > size_of::<usize>() {
                    usize::try_from(self).unwrap_or(usize::MAX)
                } else {
                    self as usize
                }
            }
        }
        impl Counted for $int {
            #[inline(always)]
            fn behind(self, n: usize) -> Self {
                self.wrapping_add(n as $int)
            }
        }
        impl sealed::Sealed for $int {}
    )*};
}
indices!(usize u8 u16 u32 u64 isize i8 i16 i32 i64);

mod sealed {
    pub trait Sealed {}
    impl<I> Sealed for super::Here<I> {}
    impl<I> Sealed for super::Near<I> {}
    impl<const S: usize, I> Sealed for super::Held<S, I> {}
}
