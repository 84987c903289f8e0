//! Elements that several threads read and write at once, without locks.
//!
//! # Why this is sound
//! 1. All access to the inside of a [`Shared`] is by relaxed atomics, so that no two accesses of threads are a data race.
//!    `Shared` lends no reference to the inside, and `&mut` is the only other way to it.
//! 2. It has the layout of its element (`repr(transparent)`). A caller that makes one from an address vouches that the element
//!    lives and that nobody accesses it otherwise, as long as the `Shared` is borrowed; [`Shared::from_mut`] has it from
//!    the exclusive borrow.
//! 3. Access is for plain elements only (checked when the program is compiled): they have no padding, and any bytes are a
//!    value, so that even parts of different writers make an element.
#![allow(unsafe_code)]

mod descend;
mod lane;
mod rows;
// Where there are kernels of the machine's own, some of these are for tests alone.
#[cfg_attr(all(target_arch = "x86_64", not(miri)), allow(dead_code))]
pub(crate) mod portable;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) mod vector;

use std::cell::UnsafeCell;
use std::fmt;

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
pub(crate) use portable as imp;
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use vector as imp;

pub use lane::Lane;

use crate::kernels::Float;
use crate::memory::element::Element;

/// An element that threads share: all may read and write it at any time, through `&Shared<T>`.
///
/// Reads and writes are *relaxed atomics* of single numbers. A row is not written as a whole: a reader may see some of its numbers
/// before and some after another thread's write. An update (`add`, `axpy`, `scale`, `step`) reads, computes and writes; if another
/// thread writes in between, its write is lost. Stochastic gradient descent tolerates both (Hogwild), and nothing is as fast. A
/// single thread sees what it would see in an ordinary element, to the bit.
///
/// A row of a [`DMatrix`](crate::DMatrix) is a `Shared<[N]>`, with the same methods; they take slices.
///
/// Only plain elements (`T::PLAIN`) can be read and written; others don't compile.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Shared;
///
/// let mut rows = vec![[0.0f32; 100]; 10];
/// let shared = Shared::from_mut_slice(&mut rows);
/// std::thread::scope(|scope| {
///     for thread in 0..2 {
///         scope.spawn(move || {
///             for row in &shared[5 * thread..][..5] {
///                 row.axpy(0.5, &[3.0; 100]);
///             }
///         });
///     }
/// });
/// assert_eq!(rows[9], [1.5; 100]);
/// ```
#[repr(transparent)]
pub struct Shared<T: ?Sized>(UnsafeCell<T>);

// SAFETY: all access is by relaxed atomics (rule 1), and elements are `Send` and `Sync`.
unsafe impl<T: Element> Sync for Shared<T> {}
// SAFETY: likewise.
unsafe impl<T: Element> Sync for Shared<[T]> {}

impl<T> Shared<T> {
    /// An element to be shared.
    pub(crate) fn new(element: T) -> Self {
        Shared(UnsafeCell::new(element))
    }

    /// Shares an element that is borrowed mutably, for the time of the borrow.
    #[inline(always)]
    pub fn from_mut(element: &mut T) -> &Self {
        // SAFETY: the layouts are the same, and the borrow keeps everybody else away (rule 2).
        unsafe { &*(&raw mut *element).cast() }
    }

    /// Shares elements that are borrowed mutably, for the time of the borrow.
    #[inline(always)]
    pub fn from_mut_slice(elements: &mut [T]) -> &[Self] {
        // SAFETY: rule 2: the layouts are the same, and the borrow keeps everybody else away.
        unsafe { &*(&raw mut *elements as *const [Self]) }
    }
}

impl<T: Element> Shared<T> {
    /// The value.
    ///
    /// ```
    /// # use stradsap_runtime::Shared;
    /// let mut row = [1u8, 2, 3];
    /// let shared = Shared::from_mut(&mut row);
    /// shared.set([4, 5, 6]);
    /// assert_eq!(shared.get(), [4, 5, 6]);
    /// ```
    #[inline(always)]
    pub fn get(&self) -> T {
        const {
            assert!(
                T::PLAIN,
                "only plain elements can be shared: numbers, arrays and structs of numbers without padding"
            );
        };
        // SAFETY: the element is plain, and accessed by atomics only (rules 1 to 3).
        unsafe { imp::get(self.0.get()) }
    }

    /// Replaces the value.
    #[inline(always)]
    #[allow(clippy::needless_pass_by_value, reason = "as of `Cell`")]
    pub fn set(&self, value: T) {
        const {
            assert!(
                T::PLAIN,
                "only plain elements can be shared: numbers, arrays and structs of numbers without padding"
            );
        };
        // SAFETY: the element is plain, and accessed by atomics only (rules 1 to 3).
        unsafe { imp::set(self.0.get(), &raw const value) };
    }
}

impl<N: Lane> Shared<N> {
    /// Adds to the number; integers wrap around.
    ///
    /// ```
    /// # use stradsap_runtime::Shared;
    /// let mut number = 1.5f64;
    /// Shared::from_mut(&mut number).add(2.0);
    /// assert_eq!(number, 3.5);
    /// ```
    #[inline(always)]
    pub fn add(&self, x: N) {
        // SAFETY: it is accessed by atomics only (rule 1).
        unsafe { N::load(self.0.get()).plus(x).store(self.0.get()) };
    }
}

impl<N: Lane, const K: usize> Shared<[N; K]> {
    /// `self += x`; integers wrap around.
    ///
    /// ```
    /// # use stradsap_runtime::Shared;
    /// let mut row = [1u16, 2];
    /// Shared::from_mut(&mut row).add(&[3, 4]);
    /// assert_eq!(row, [4, 6]);
    /// ```
    #[inline(always)]
    pub fn add(&self, x: &[N; K]) {
        // SAFETY: it is accessed by atomics only (rule 1), here and below.
        unsafe { imp::add(self.0.get(), x) };
    }
}

impl<N: Float, const K: usize> Shared<[N; K]> {
    /// The dot product with `x`: the bits of [`kernels::dot`](crate::kernels::dot).
    ///
    /// ```
    /// # use stradsap_runtime::Shared;
    /// let mut row = [1.0, 2.0];
    /// assert_eq!(Shared::from_mut(&mut row).dot(&[3.0, 4.0]), 11.0);
    /// ```
    #[inline(always)]
    pub fn dot(&self, x: &[N; K]) -> N {
        // SAFETY: rule 1.
        unsafe { imp::dot(self.0.get(), x) }
    }

    /// `self += a * x`: the bits of [`kernels::axpy`](crate::kernels::axpy).
    #[inline(always)]
    pub fn axpy(&self, a: N, x: &[N; K]) {
        // SAFETY: rule 1.
        unsafe { imp::axpy(self.0.get(), a, x) };
    }

    /// `self *= a`.
    #[inline(always)]
    pub fn scale(&self, a: N) {
        // SAFETY: rule 1.
        unsafe { imp::scale(self.0.get(), a) };
    }

    /// `y += a * self`: the bits of [`kernels::axpy`](crate::kernels::axpy).
    #[inline(always)]
    pub fn add_to(&self, a: N, y: &mut [N; K]) {
        // SAFETY: rule 1.
        unsafe { imp::add_to(self.0.get(), a, y) };
    }

    /// `change += g * self`, then `self += g * x`, in one pass: a step of gradient descent on the product of two rows, which
    /// changes this row at once and collects the change of the other row, `x`, in `change`. The bits are those of
    /// [`kernels::step`](crate::kernels::step), and of `add_to` followed by `axpy`.
    ///
    /// ```
    /// # use stradsap_runtime::Shared;
    /// let (mut row, mut change) = ([1.0, 2.0], [0.0, 10.0]);
    /// Shared::from_mut(&mut row).step(0.5, &[4.0, 8.0], &mut change);
    /// assert_eq!((row, change), ([3.0, 6.0], [0.5, 11.0]));
    /// ```
    #[inline(always)]
    pub fn step(&self, g: N, x: &[N; K], change: &mut [N; K]) {
        // SAFETY: rule 1.
        unsafe { imp::step(self.0.get(), g, x, change) };
    }

    /// Copies the row to `out`.
    #[inline(always)]
    pub fn load(&self, out: &mut [N; K]) {
        *out = self.get();
    }

    /// Replaces the row by `row`.
    #[inline(always)]
    pub fn store(&self, row: &[N; K]) {
        // SAFETY: rule 1, and rows of numbers are plain.
        unsafe { imp::set(self.0.get(), row) };
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests;
