//! Gradient descent on the products of one row with several others, in one call: what is learnt from stays in registers.
//!
//! # Why this is sound
//! Rule 1 of the parent module holds for each row, whose length is compared before it is taken as an array.
#![allow(unsafe_code)]

use super::Shared;
use crate::kernels::Float;

/// Numbers in whole cache lines, so that no vector of them lies across two.
#[repr(align(64))]
struct Aligned<T>(T);

/// Rows of widths that are usual are arrays to the compiler, which has registers for those of up to 128 numbers. One comparison a
/// call chooses, with the same outcome throughout a loop.
macro_rules! by_width {
    ($n:expr, |$k:ident| $array:expr, $any:expr) => {
        by_width!(@ $n, $k, $array, $any; 32 64 100 128 300)
    };
    (@ $n:expr, $k:ident, $array:expr, $any:expr; $($width:literal)*) => {
        match $n {
            $($width => {
                const $k: usize = $width;
                $array
            })*
            _ => $any,
        }
    };
}

impl<N: Float> Shared<[N]> {
    /// Gradient descent on the products of this row `x` with other rows, which must be as wide. For each other row, `rate` gets the
    /// product `f = other.dot(x)` and the label that stands beside the row, and returns a number `g`, or `None` to change nothing.
    /// The other row changes at once: `other += g * x`. Meanwhile this row keeps its first value; at the end it changes by the sum of
    /// the products `g * other`.
    ///
    /// The bits are those of [`dot`](Shared::dot) and [`step`](Shared::step) for one row after the other, followed by `add` of the
    /// sum of changes. This is faster, since rows of 32, 64, 100 or 128 numbers are kept in registers meanwhile.
    ///
    /// # Panics
    /// If a row is not as long as this one.
    #[inline(always)]
    pub fn descend<'r, L>(
        &self,
        others: impl IntoIterator<Item = (&'r Shared<[N]>, L)>,
        mut rate: impl FnMut(N, L) -> Option<N>,
    ) where
        N: 'r,
    {
        by_width!(self.len(), |K| of_row::<N, L, K>(self, others.into_iter(), rate), {
            let others = others.into_iter();
            with_room(self.len(), |x, change| {
                self.load(x);
                others.for_each(|(row, label)| one_by_one(row, label, x, change, &mut rate));
                self.add(change);
            });
        });
    }

    /// Like [`descend`](Shared::descend), for numbers `x` that are no row. `x` stays as it is, and its change is added to `change`.
    ///
    /// # Panics
    /// If `change` or a row is not as long as `x`.
    #[inline(always)]
    pub fn descend_from<'r, L>(
        x: &[N],
        change: &mut [N],
        others: impl IntoIterator<Item = (&'r Shared<[N]>, L)>,
        mut rate: impl FnMut(N, L) -> Option<N>,
    ) where
        N: 'r,
    {
        let (n, also) = (x.len(), change.len());
        assert!(n == also, "a row of {n} numbers and one of {also}");
        by_width!(n, |K| of_slices::<N, L, K>(x, change, others.into_iter(), rate), {
            others.into_iter().for_each(|(row, label)| one_by_one(row, label, x, change, &mut rate));
        });
    }
}

#[inline(always)]
fn one_by_one<N: Float, L>(
    row: &Shared<[N]>,
    label: L,
    x: &[N],
    change: &mut [N],
    rate: &mut impl FnMut(N, L) -> Option<N>,
) {
    if let Some(g) = rate(row.dot(x), label) {
        row.step(g, x, change);
    }
}

/// Calls with room for two rows of `n` numbers, which are zeros.
#[inline(never)]
fn with_room<N: Float>(n: usize, f: impl FnOnce(&mut [N], &mut [N])) {
    const FEW: usize = 256;
    const MANY: usize = 1024;
    let zero = N::default();
    if n <= FEW {
        f(&mut Aligned([zero; FEW]).0[..n], &mut Aligned([zero; FEW]).0[..n]);
    } else if n <= MANY {
        f(&mut Aligned([zero; MANY]).0[..n], &mut Aligned([zero; MANY]).0[..n]);
    } else {
        f(&mut vec![zero; n], &mut vec![zero; n]);
    }
}

/// The row as an array.
#[inline(always)]
fn array<N: Float, const K: usize>(row: &Shared<[N]>) -> &Shared<[N; K]> {
    let n = row.len();
    assert!(n == K, "a row of {K} numbers and one of {n}");
    // SAFETY: the row has K numbers, which follow each other; `Shared` has the layout of what it holds.
    unsafe { &*(&raw const *row).cast::<Shared<[N; K]>>() }
}

#[inline(always)]
fn all<'r, N: Float + 'r, L, const K: usize>(
    x: &Aligned<[N; K]>,
    change: &mut Aligned<[N; K]>,
    others: impl Iterator<Item = (&'r Shared<[N]>, L)>,
    mut rate: impl FnMut(N, L) -> Option<N>,
) {
    others.for_each(|(row, label)| {
        let row = array::<N, K>(row);
        if let Some(g) = rate(row.dot(&x.0), label) {
            row.step(g, &x.0, &mut change.0);
        }
    });
}

// (Functions of their own: within a body that has much else to keep, registers would be taken from the rows.)
#[inline(never)]
fn of_row<'r, N: Float + 'r, L, const K: usize>(
    row: &Shared<[N]>,
    others: impl Iterator<Item = (&'r Shared<[N]>, L)>,
    rate: impl FnMut(N, L) -> Option<N>,
) {
    let row = array::<N, K>(row);
    let (x, mut change) = (Aligned(row.get()), Aligned([N::default(); K]));
    all(&x, &mut change, others, rate);
    row.add(&change.0);
}

#[inline(never)]
fn of_slices<'r, N: Float + 'r, L, const K: usize>(
    x: &[N],
    change: &mut [N],
    others: impl Iterator<Item = (&'r Shared<[N]>, L)>,
    rate: impl FnMut(N, L) -> Option<N>,
) {
    let (Some(x), Some(sum)) = (x.first_chunk::<K>(), change.first_chunk_mut::<K>()) else { return };
    let mut change = Aligned(*sum);
    all(&Aligned(*x), &mut change, others, rate);
    *sum = change.0;
}
