//! Whether something holds for any iteration, or for all.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;

use super::{cell, sealed};
use crate::body::added::{Reduction, ReductionOps};
use crate::body::slot::Slot;
use crate::memory::named::Named;
use crate::session::{Session, SessionInner};

/// Whether something holds for any iteration ([`Session::any`]; in a loop body `found.or(x)`), or for all ([`Session::all`];
/// `fine.and(x)`).
pub struct Flag<J: Joins> {
    session: Arc<SessionInner>,
    cell: Arc<Reduction>,
    joins: PhantomData<J>,
}

/// How a [`Flag`] joins what iterations report.
pub trait Joins: Send + Sync + sealed::Sealed + 'static {
    #[doc(hidden)]
    const ALL: bool;
}

/// True if it holds for at least one iteration.
#[derive(Debug)]
pub struct Any;
/// True if it holds for every iteration.
#[derive(Debug)]
pub struct All;

impl sealed::Sealed for Any {}
impl sealed::Sealed for All {}

impl Joins for Any {
    const ALL: bool = false;
}

impl Joins for All {
    const ALL: bool = true;
}

struct OpsOf<J>(PhantomData<J>);

impl<J: Joins> OpsOf<J> {
    const OPS: &'static Named<ReductionOps> = &Named::new(ReductionOps {
        unite: |a, b| if J::ALL { a & b } else { a | b },
        neutral: |_| u64::from(J::ALL),
        ordered: false,
    });
}

impl<J: Joins> Flag<J> {
    fn new(session: &Session) -> Self {
        Flag { session: session.inner(), cell: cell(u64::from(J::ALL)), joins: PhantomData }
    }

    pub(super) fn parts(&self) -> (&Arc<SessionInner>, &Arc<Reduction>, &'static ReductionOps) {
        (&self.session, &self.cell, &OpsOf::<J>::OPS.value)
    }

    /// The value that all loops that ended well have given.
    pub fn get(&self) -> bool {
        self.cell.word() != 0
    }

    /// Starts again from `value`.
    pub fn set(&self, value: bool) {
        self.cell.set_word(u64::from(value));
    }
}

impl<J: Joins> std::fmt::Debug for Flag<J> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.get().fmt(f)
    }
}

impl Session {
    /// Whether something holds for any iteration. It is `false` until an iteration reports that it holds.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert!(!session.any().get());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn any(&self) -> Flag<Any> {
        Flag::new(self)
    }

    /// Whether something holds for all iterations. It is `true` until an iteration reports that it doesn't hold.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// assert!(session.all().get());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn all(&self) -> Flag<All> {
        Flag::new(self)
    }
}

/// A [`Flag`] inside a loop body.
pub struct FlagView<'v, J, const C: usize> {
    flag: Cell<bool>,
    slot: PhantomData<(&'v (), J)>,
}

impl<'v, J: Joins, const C: usize> FlagView<'v, J, C> {
    #[inline(always)]
    pub(crate) fn new(slot: &'v Slot<'v>) -> Self {
        FlagView { flag: Cell::new(slot.total().get() != 0), slot: PhantomData }
    }

    #[inline(always)]
    pub(crate) fn finish(&self, slot: &Slot<'_>) {
        slot.total().set(u64::from(self.flag.get()));
    }
}

impl<const C: usize> FlagView<'_, Any, C> {
    /// Says whether it holds for this iteration.
    #[inline(always)]
    pub fn or(&self, holds: bool) {
        self.flag.set(self.flag.get() | holds);
    }
}

impl<const C: usize> FlagView<'_, All, C> {
    /// Says whether it holds for this iteration.
    #[inline(always)]
    pub fn and(&self, holds: bool) {
        self.flag.set(self.flag.get() & holds);
    }
}
