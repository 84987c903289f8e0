//! Relaxed state: numbers that all iterations of an asynchronous loop add to and read, without conflicts.
//!
//! What a block reads of it is what the loop began with, what the blocks of earlier strata have added, and what it has
//! added itself: LDA's topic totals are such numbers (STRADS section 4.2, supplement section 1). A stratum is a run of
//! blocks in the plan's serial order that share no part, so both the strata and what each of them sees are functions
//! of the plan: the bits are the same for any number of threads and workers. How many strata a block may lag behind is
//! the loop's option `staleness`; how far off its reads were at most, the report says.

pub(crate) mod board;
mod capture;
mod view;

use std::marker::PhantomData;
use std::sync::Arc;

use crate::body::added::{Cell, RelaxedOps};
use crate::dds::reduction::Number;
use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::ops_of;
use crate::memory::named::Named;
use crate::session::error::{Error, Result};
use crate::session::{Session, SessionInner, next_id};

pub use view::{RelaxedNumberView, RelaxedView};

struct OpsOf<N>(PhantomData<N>);

impl<N: Number + Element> OpsOf<N> {
    const OPS: &'static Named<RelaxedOps> = &Named::new(RelaxedOps {
        element: ops_of::<N>,
        add: |to, by| each(to, by, N::plus),
        subtract: if N::ASSOCIATIVE { Some(|to, by| each(to, by, N::minus)) } else { None },
        apart: |a, b| {
            let pairs = a.as_slice::<N>().iter().zip(b.as_slice::<N>());
            pairs.map(|(a, b)| (a.to_f64() - b.to_f64()).abs()).sum()
        },
        zeros: |len| buffer(std::iter::repeat_n(N::ZERO, len)),
    });
}

fn each<N: Number + Element>(to: &mut RawBuf, by: &RawBuf, made: impl Fn(N, N) -> N) {
    to.as_mut_slice::<N>().iter_mut().zip(by.as_slice::<N>()).for_each(|(to, by)| *to = made(*to, *by));
}

fn buffer<N: Element>(values: impl ExactSizeIterator<Item = N>) -> RawBuf {
    let mut buffer = RawBuf::new(ops_of::<N>(), values.len());
    values.for_each(|value| buffer.push(value));
    buffer
}

macro_rules! kinds {
    ($($t:ident)*) => {$(
        impl<N: Number + Element> $t<N> {
            fn new(session: &Session, values: impl ExactSizeIterator<Item = N>) -> Self {
                let cell = Cell::new(next_id(), buffer(values));
                $t { session: session.inner(), cell: Arc::new(cell), number: PhantomData }
            }

            pub(crate) fn parts(&self) -> (&Arc<SessionInner>, &Arc<Cell>, &'static RelaxedOps) {
                (&self.session, &self.cell, &OpsOf::<N>::OPS.value)
            }
        }
    )*};
}
kinds!(RelaxedVector Relaxed);

/// Numbers that all iterations of an `async_parallel_for!` add to and read, without conflicts; from
/// [`Session::relaxed_vector`]. Captured as `&totals`; in a body `totals[k]` and `totals.add(k, 1)`.
///
/// Reads may be stale: they lag behind by as many strata of blocks as the loop's option `staleness` says (2 by default).
///
/// # Cost
/// Each block has a copy of the vector while it runs, so the vector should be short in comparison with the work of a block:
/// thousands of numbers, not millions.
///
/// # Determinism
/// What an iteration reads is the same for any number of threads and workers. It depends on the plan and on `staleness`.
///
/// # Dependencies
/// Additions and reads make no iterations conflict. A block waits for the strata whose additions it sees.
pub struct RelaxedVector<N: Number> {
    session: Arc<SessionInner>,
    cell: Arc<Cell>,
    number: PhantomData<N>,
}

/// One number that all iterations of an `async_parallel_for!` add to and read, without conflicts; from
/// [`Session::relaxed`]. Captured as `&total`; in a body `total.get()` and `total.add(1)`. Otherwise it is like a
/// [`RelaxedVector`] of one number.
pub struct Relaxed<N: Number> {
    session: Arc<SessionInner>,
    cell: Arc<Cell>,
    number: PhantomData<N>,
}

impl Session {
    /// Relaxed numbers that start from these values.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let totals = session.relaxed_vector(vec![0i64; 3]);
    /// totals.set(&[1, 2, 3])?;
    /// assert_eq!((totals.len(), totals.to_vec()), (3, vec![1, 2, 3]));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn relaxed_vector<N: Number + Element>(&self, values: Vec<N>) -> RelaxedVector<N> {
        RelaxedVector::new(self, values.into_iter())
    }

    /// A relaxed number that starts from this value.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let total = session.relaxed(0.5f64);
    /// total.set(1.5);
    /// assert_eq!(total.get(), 1.5);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn relaxed<N: Number + Element>(&self, value: N) -> Relaxed<N> {
        Relaxed::new(self, std::iter::once(value))
    }
}

impl<N: Number + Element> RelaxedVector<N> {
    /// The number of numbers.
    pub fn len(&self) -> usize {
        self.cell.len
    }

    /// True if there are no numbers.
    pub fn is_empty(&self) -> bool {
        self.cell.len == 0
    }

    /// The numbers: what they started from, plus all that loops that ended well have added.
    pub fn to_vec(&self) -> Vec<N> {
        self.cell.values().as_slice().to_vec()
    }

    /// Starts again from these values.
    ///
    /// # Errors
    /// [`Error::RelaxedLength`] if there are more or fewer than before.
    pub fn set(&self, values: &[N]) -> Result<()> {
        if values.len() != self.cell.len {
            return Err(Error::RelaxedLength { given: values.len(), len: self.cell.len });
        }
        self.cell.replace(buffer(values.iter().copied()));
        Ok(())
    }
}

impl<N: Number + Element> Relaxed<N> {
    /// The number: what it started from, plus all that loops that ended well have added.
    pub fn get(&self) -> N {
        self.cell.values().as_slice().first().copied().unwrap_or(N::ZERO)
    }

    /// Starts again from `value`.
    pub fn set(&self, value: N) {
        self.cell.replace(buffer(std::iter::once(value)));
    }
}

impl<N: Number + Element> std::fmt::Debug for RelaxedVector<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.to_vec().fmt(f)
    }
}

impl<N: Number + Element> std::fmt::Debug for Relaxed<N> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}
