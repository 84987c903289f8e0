//! What a loop may capture by reference, and tuples of such captures.
//!
//! A description names the memory of a capture and keeps it alive; it has no address of it (see `lease`).
//!
//! # Why this is sound
//! Rule 1: views are made by the engine only, of slots that it filled from these descriptions: the type of a capture decides
//! both the description and the view. The handles, and with them the program's borrows, last until the last block has ended.
#![allow(unsafe_code)]

mod handles;

use std::ops::Range;
use std::sync::Arc;

pub use self::handles::Handles;
use crate::body::added::{Cell, Reduction, ReductionOps, RelaxedOps};
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::slot::Slot;
use crate::memory::additive::TallyOps;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::home::{Home, Poison};
use crate::memory::merge::MergeOps;
use crate::memory::reservation::Reservation;
use crate::session::SessionInner;
use crate::session::error::{Error, Result};

/// A shared borrow of a DDS or a reduction, from `&x` in a capture list.
///
/// `W` is how far from the loop's index the body indexes it, as far as the macro sees: 0 nowhere near, 1 as `x[i]`, and one more
/// for each step of `x[i + 1]`, `x[i - 2]`.
pub struct Read<'h, D, const W: usize = 0>(pub(crate) &'h D);

/// A shared borrow of a DDS whose elements are dealt out to the workers ([`Captured::dealt`]).
pub(crate) struct Dealt<'h, D>(pub(crate) &'h D);

/// A borrow of a DDS alone, from `&mut x` in a capture list; `W` as in [`Read`].
pub struct Write<'h, D, const W: usize = 0>(pub(crate) &'h mut D);

/// A borrow of a DDS alone whose elements a synchronous loop shares, from `&mut x` in its capture list.
pub struct WriteShared<'h, D>(pub(crate) &'h mut D);

/// What the engine knows of a capture, without its type.
pub(crate) struct Captured {
    pub(crate) id: u64,
    pub(crate) session: Arc<SessionInner>,
    /// What the program calls it, where an operator captures it. (A loop's site has the names.)
    pub(crate) name: Option<&'static str>,
    /// The DDS whose elements it holds as they were before the loop, in its own copies of them.
    pub(crate) copy_of: Option<u64>,
    /// Of a DDS that is only read: whether its elements are only with the workers that run iterations with them, and blocks come to
    /// them. Others are whole on each worker.
    pub(crate) dealt: bool,
    pub(crate) kind: Kind,
}

/// What an operator's closure captures by reference, and what the program calls each.
pub(crate) type Named<H> = (H, &'static [&'static str]);

/// Refuses elements that may be anything.
///
/// # Errors
/// [`Error::Poisoned`].
pub(crate) fn usable(home: &Home) -> Result<()> {
    home.poisoned().map_or(Ok(()), |Poison { dds, site }| Err(Error::Poisoned { dds, site: site.clone() }))
}

pub(crate) enum Kind {
    Vector {
        len: usize,
        ops: &'static ElementOps,
        writable: bool,
        /// Whether they are the rows of a DMatrix: what messages call elements.
        rows: bool,
        memory: Memory,
        adding: Option<Adding>,
    },
    /// A worker has no cell: each run brings the value from before it.
    Reduction { ops: &'static ReductionOps, cell: Option<Arc<Reduction>> },
    /// On a worker there is no cell of these, either.
    Relaxed { ops: &'static RelaxedOps, cell: Option<Arc<Cell>>, len: usize },
}

/// Of a DDS that the loop's body only adds to: how copies of it are added up.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Adding {
    pub(crate) ops: &'static TallyOps,
    /// Whether the loop says `sum x`. Otherwise the macro has seen that its body does nothing else with `x`.
    pub(crate) declared: bool,
}

/// What keeps a DVector's elements.
pub(crate) enum Memory {
    /// In the program's own process, unless they are with workers.
    Home(Home),
    /// On a worker.
    Reservation(Arc<Reservation>),
}

impl Captured {
    /// What the program has of it can't be used any more.
    pub(crate) fn poison(&self, by: Poison, version: u64) {
        if let Kind::Vector { writable: true, memory: Memory::Home(home), .. } = &self.kind {
            home.poison(by);
            home.set_version(version);
        }
    }

    /// # Errors
    /// [`Error::Poisoned`].
    pub(crate) fn usable(&self) -> Result<()> {
        match &self.kind {
            Kind::Vector { memory: Memory::Home(home), .. } => usable(home),
            _ => Ok(()),
        }
    }

    /// The loop ended well: a reduction takes its new value, and what may have been written a new version.
    pub(crate) fn commit(&self, word: u64, version: u64) {
        match &self.kind {
            Kind::Reduction { cell: Some(cell), .. } => cell.set_word(word),
            Kind::Vector { writable: true, memory: Memory::Home(home), .. } => home.set_version(version),
            Kind::Vector { .. } | Kind::Reduction { .. } | Kind::Relaxed { .. } => {}
        }
    }

    /// The value of a reduction, where this process has it.
    pub(crate) fn word(&self) -> u64 {
        match &self.kind {
            Kind::Reduction { cell: Some(cell), .. } => cell.word(),
            Kind::Vector { .. } | Kind::Reduction { .. } | Kind::Relaxed { .. } => 0,
        }
    }

    /// A copy of relaxed state, where this process has it.
    pub(crate) fn relaxed(&self) -> Option<RawBuf> {
        match &self.kind {
            Kind::Relaxed { cell: Some(cell), .. } => Some(cell.copy()),
            _ => None,
        }
    }

    /// The loop ended well: relaxed state takes its new values.
    pub(crate) fn commit_relaxed(&self, values: RawBuf) {
        if let Kind::Relaxed { cell: Some(cell), .. } = &self.kind {
            cell.replace(values);
        }
    }

    /// Whether it is state that blocks only add to, and which has no place in a plan.
    pub(crate) fn is_added_to(&self) -> bool {
        matches!(self.kind, Kind::Reduction { .. } | Kind::Relaxed { .. })
    }

    /// How many elements it has, and whether messages call them rows.
    pub(crate) fn counted(&self) -> (usize, bool) {
        match self.kind {
            Kind::Vector { len, rows, .. } => (len, rows),
            Kind::Relaxed { len, .. } => (len, false),
            Kind::Reduction { .. } => (0, false),
        }
    }

    /// Where a DVector's elements are in the program's own process.
    pub(crate) fn home(&self) -> Option<&Home> {
        match &self.kind {
            Kind::Vector { memory: Memory::Home(home), .. } => Some(home),
            _ => None,
        }
    }
}

/// One capture by reference.
#[doc(hidden)]
pub trait Capture {
    /// What the loop body gets.
    type View<'v, const C: usize>;
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured;
    /// Whether the loop may run by tiles.
    #[doc(hidden)]
    const IN_TILES: bool = false;
    /// Whether iterations that own what is indexed near them are worth a loop of their own.
    #[doc(hidden)]
    const HAS_NEAR: bool = false;
    /// Whether reads of all elements of a DDS are.
    #[doc(hidden)]
    const HAS_WHOLE: bool = false;
    /// How many DDSs the engine is given for it besides its own: a map's index.
    #[doc(hidden)]
    const KEY_INDEXES: usize = 0;
    /// Those, which come after all captures, so that the captures' numbers are what the program's are.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn key_indexes(&mut self) -> Vec<Captured> {
        Vec::new()
    }
    /// # Safety
    /// The slots were filled from the descriptions of this capture and of its key indexes, and meet the view's rules.
    #[doc(hidden)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, key_indexes: &'v [Slot<'v>]) -> Self::View<'v, C>;
    /// The view of a capture without key indexes.
    ///
    /// # Safety
    /// The slot was filled from this capture's description, and meets the view's rules.
    #[doc(hidden)]
    #[inline(always)]
    unsafe fn view<'v, const C: usize>(slot: &'v Slot<'v>) -> Self::View<'v, C> {
        const { assert!(Self::KEY_INDEXES == 0, "this capture has key indexes") };
        // SAFETY: rule 1.
        unsafe { Self::view_beside::<C>(slot, &[]) }
    }
    /// The block's first iteration is about to begin: what depends on the running iteration may be used from here on.
    #[doc(hidden)]
    #[inline(always)]
    fn begin<const C: usize>(_view: &mut Self::View<'_, C>, _slot: &Slot<'_>) {}
    /// A run begins: the `n` iterations of the loop from `first` on, from the block's `place`-th on. Gives those of which each
    /// owns all elements that are indexed near it.
    #[doc(hidden)]
    #[inline(always)]
    fn enter<const C: usize>(_view: &mut Self::View<'_, C>, _place: usize, _first: usize, _n: usize) -> Range<usize> {
        0..usize::MAX
    }
    /// The same for a run of one iteration, where no slot is tracked.
    #[doc(hidden)]
    #[inline(always)]
    fn turn_to<const C: usize>(_view: &mut Self::View<'_, C>, _place: usize, _i: usize) {}
    /// Whether nothing of the view changes from one iteration to the next but which element is the iteration's own.
    #[doc(hidden)]
    #[inline(always)]
    fn is_fixed<const C: usize>(_view: &Self::View<'_, C>) -> bool {
        true
    }
    /// `turn_to`, where the view is fixed.
    #[doc(hidden)]
    #[inline(always)]
    fn turn_own<const C: usize>(view: &mut Self::View<'_, C>, place: usize, i: usize) {
        Self::turn_to::<C>(view, place, i);
    }
    /// Whether an iteration's own element lies somewhere else than the one before.
    #[doc(hidden)]
    #[inline(always)]
    fn is_scattered<const C: usize>(_view: &Self::View<'_, C>) -> bool {
        false
    }
    /// Fetches that of iteration `i`, which is to come.
    #[doc(hidden)]
    #[inline(always)]
    fn fetch_own<const C: usize>(_view: &Self::View<'_, C>, _i: usize) {}
    /// Whether all iterations that are next are among those.
    #[doc(hidden)]
    #[inline(always)]
    fn set_near<const C: usize>(_view: &mut Self::View<'_, C>, _near: bool) {}
    /// Whether the view may read all elements, in all iterations of the block.
    #[doc(hidden)]
    #[inline(always)]
    fn may_be_whole<const C: usize>(_view: &Self::View<'_, C>) -> bool {
        true
    }
    /// Whether that is known of all views of the loop.
    #[doc(hidden)]
    #[inline(always)]
    fn set_whole<const C: usize>(_view: &mut Self::View<'_, C>, _whole: bool) {}
    /// Iteration `i` begins, which is one of the run's.
    #[doc(hidden)]
    #[inline(always)]
    fn step<const C: usize>(_view: &mut Self::View<'_, C>, _i: usize) {}
    /// In a tile: iteration `i` is in the `k`-th of the rows that run together, of a loop over pairs.
    #[doc(hidden)]
    #[inline(always)]
    fn turn_to_row<const C: usize>(_view: &mut Self::View<'_, C>, _k: usize) {}
    #[doc(hidden)]
    fn finish<const C: usize>(_view: &Self::View<'_, C>, _slot: &Slot<'_>) {}
    /// In a synchronous loop: how changes of copies are united.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn merge() -> Option<&'static MergeOps> {
        None
    }
    /// In a synchronous loop: how entries that bodies add are united.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn new_entry_ops() -> Option<&'static NewEntryOps> {
        None
    }
    /// The loop ended well: the map takes them.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn take_new_entries(&mut self, _: NewEntries) -> Result<()> {
        Ok(())
    }
}

/// What `&x` in a capture list may name: a DDS or a reduction, through any number of references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured by reference",
    label = "only DDSs, reductions and relaxed state can be captured by reference",
    note = "capture a value by its name without `&`; a `Session` can't be captured: make reductions, relaxed state and generators of random numbers before the loop, and capture those"
)]
pub trait ReadCapture {
    /// The DDS behind the references.
    type Dds;
    #[doc(hidden)]
    fn dds(&self) -> &Self::Dds;
}

/// What `&mut x` in a capture list may name: a DDS, through any number of mutable references.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured by mutable reference",
    label = "only DDSs can be captured as `&mut`",
    note = "what iterations write is a DDS: put the elements of a `Vec` into a DVector before the loop, `DVector::from_vec(session, x)?`; capture a value that is only read by its name without `&mut`, and reductions and relaxed state as `&x`"
)]
pub trait WriteCapture {
    /// What the loop gets. (Named by the trait, since rustc would otherwise take whatever is no DDS for one, and
    /// report mistakes that follow from it.)
    type Handle<'h>: Capture
    where
        Self: 'h;
    #[doc(hidden)]
    fn handle(&mut self) -> Self::Handle<'_>;
}

/// What `&mut x` in the capture list of a synchronous loop may name, through any number of mutable references.
///
/// `By` is always [`ByMerge`]. Were there one implementation alone, rustc would take a DVector of any elements for it, and
/// report mistakes that follow from it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be written by a synchronous loop",
    label = "neither a DVector whose elements can be merged nor a DMap whose values can",
    note = "its elements must be numbers or arrays of them, or implement `Merge`; capture what is only read as `&x`"
)]
pub trait SharedCapture<By> {
    /// What the loop gets.
    type Handle<'h>: Capture
    where
        Self: 'h;
    #[doc(hidden)]
    fn shared_handle(&mut self) -> Self::Handle<'_>;
}

/// How a DVector whose elements are [`Merge`] is captured.
#[doc(hidden)]
pub enum ByMerge {}

/// How no DVector is captured.
#[doc(hidden)]
pub enum ByNothing {}

/// Implemented by nothing.
#[doc(hidden)]
pub trait Nothing {}

impl<By, C: SharedCapture<By> + ?Sized> SharedCapture<By> for &mut C {
    type Handle<'h>
        = C::Handle<'h>
    where
        Self: 'h;
    fn shared_handle(&mut self) -> C::Handle<'_> {
        (**self).shared_handle()
    }
}

/// `&mut x` of a synchronous loop's capture list.
pub fn write_shared<By, C: SharedCapture<By> + ?Sized>(capture: &mut C) -> C::Handle<'_> {
    capture.shared_handle()
}

impl<C: ReadCapture + ?Sized> ReadCapture for &C {
    type Dds = C::Dds;
    fn dds(&self) -> &C::Dds {
        (**self).dds()
    }
}

impl<C: ReadCapture + ?Sized> ReadCapture for &mut C {
    type Dds = C::Dds;
    fn dds(&self) -> &C::Dds {
        (**self).dds()
    }
}

impl<C: WriteCapture + ?Sized> WriteCapture for &mut C {
    type Handle<'h>
        = C::Handle<'h>
    where
        Self: 'h;
    fn handle(&mut self) -> C::Handle<'_> {
        (**self).handle()
    }
}

/// `&x` of a capture list.
pub fn read<C: ReadCapture + ?Sized>(capture: &C) -> Read<'_, C::Dds> {
    Read(capture.dds())
}

/// `&mut x` of a capture list.
pub fn write<C: WriteCapture + ?Sized>(capture: &mut C) -> C::Handle<'_> {
    capture.handle()
}

/// A handle of a DDS that the body indexes near the loop's index.
#[doc(hidden)]
pub trait IndexedNear {
    /// The same handle, once it is known how near.
    type Of<const W: usize>;
    #[doc(hidden)]
    fn near<const W: usize>(self) -> Self::Of<W>;
}

impl<'h, D> IndexedNear for Read<'h, D> {
    type Of<const W: usize> = Read<'h, D, W>;
    fn near<const W: usize>(self) -> Read<'h, D, W> {
        Read(self.0)
    }
}

impl<'h, D> IndexedNear for Write<'h, D> {
    type Of<const W: usize> = Write<'h, D, W>;
    fn near<const W: usize>(self) -> Write<'h, D, W> {
        Write(self.0)
    }
}

/// What the macro has seen of a body: how near to the loop's index it indexes a capture.
pub fn indexed_near<const W: usize, H: IndexedNear>(handle: H) -> H::Of<W> {
    handle.near()
}

/// A borrow of a place alone, by method call: so that `&mut p` in a capture list reborrows where `p` is a
/// reference itself, as a closure's own capturing would, and `p` need not be declared `mut`.
pub trait Reborrow {
    #[doc(hidden)]
    #[inline(always)]
    fn __stradsap_reborrow(&mut self) -> &mut Self {
        self
    }
}

impl<C: ?Sized> Reborrow for C {}
