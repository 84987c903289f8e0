//! A copy's own state of a DDS, and the way to a row that it has not touched yet.
//!
//! # Why this is sound
//! 1. Elements are plain (the captures see to it): any bytes are a value, and the zeroed memory of a [`Table`] is one.
//! 2. While a loop runs, elements of a table and of the memory that copies start from are reached through
//!    [`Shared`](crate::Shared) only, whose accesses are atomic, by all that share them: no access can race in the
//!    language's terms. The functions here that copy rows use the same accesses (`load_row`, `store_row`).
//! 3. Views ask for the addresses of rows below the length alone.
//! 4. A row's stamp says what its place in the table holds: `now` is this round's value, `now - 1` a value that another
//!    thread is bringing, anything else nothing of this round. The thread that turns the stamp to `now - 1` alone fills the
//!    place, and nobody reads it before the stamp is `now`.
//! 5. Small rows come by pages, which have one stamp. That is so only where one thread alone runs a copy, and nobody writes
//!    the memory that copies start from while bodies run (rule 1 of `rounds`): so a page is copied as bytes.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::panic::resume_unwind;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

use super::hot::{HotRows, Uses};
use super::merging::{PAGE, copy};
use crate::body::context::{AccessTrouble, BlockState, EndIteration};
use crate::body::slot::RowPath;
use crate::memory::element_ops::ElementOps;
use crate::memory::merge::Merging;
use crate::memory::reservation::Reservation;

/// A copy's state of one DDS.
pub(crate) struct Table {
    merge: Merging,
    work: Reservation,
    /// Under `Ssp`, what rows held when they were first touched: the memory that copies start from changes meanwhile.
    before: Option<Reservation>,
    /// By page.
    stamps: Vec<AtomicU32>,
    /// A page has 2 to the power of this many rows.
    shift: u32,
}

/// What tables are for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Rounds in one process, of whose copies each is run by one thread.
    OwnRounds,
    /// Rounds of several processes: a row comes by itself.
    Rounds,
    /// `Ssp`.
    Clocks,
}

impl Table {
    /// A table for `len` elements. None if no address space is left.
    pub(crate) fn new(ops: &'static ElementOps, merge: Merging, len: usize, purpose: Purpose) -> Option<Table> {
        let before = if purpose == Purpose::Clocks { Some(Reservation::new(ops, len)?) } else { None };
        let pages = purpose == Purpose::OwnRounds && merge.has_pages();
        let shift = if pages { PAGE.checked_div(ops.size).and_then(usize::checked_ilog2).unwrap_or(0) } else { 0 };
        let mut stamps = Vec::new();
        stamps.resize_with(len.div_ceil(1 << shift), AtomicU32::default);
        Some(Table { merge, work: Reservation::new(ops, len)?, before, stamps, shift })
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.work.base()
    }

    /// What row `i` holds in this copy.
    pub(crate) fn row(&self, i: usize) -> *mut u8 {
        self.work.base().wrapping_add(i * self.work.ops().size)
    }

    /// What row `i` held when it was first touched, where the table keeps that.
    pub(crate) fn row_before(&self, i: usize) -> Option<*mut u8> {
        self.before.as_ref().map(|before| before.base().wrapping_add(i * before.ops().size))
    }

    pub(crate) fn stamps(&self) -> &[AtomicU32] {
        &self.stamps
    }

    pub(crate) fn shift(&self) -> u32 {
        self.shift
    }

    /// The rows of a page.
    pub(crate) fn rows_of_page(&self, page: usize) -> Range<usize> {
        let first = page << self.shift;
        first..(first + (1 << self.shift)).min(self.work.len())
    }

    /// The pages that a copy touched in the round whose stamp is `now`, in order. `touched` are the same as they came.
    pub(crate) fn sorted(&self, touched: &[(u32, u32)], now: u32) -> Vec<u32> {
        let n: usize = touched.iter().map(|&(_, n)| n as usize).sum();
        if self.shift > 0 && n > self.stamps.len() / DENSE {
            let all = self.stamps.iter().zip(0..);
            return all.filter(|(stamp, _)| stamp.load(Relaxed) == now).map(|(_, page)| page).collect();
        }
        let mut pages: Vec<u32> = rows_of(touched).collect();
        if !pages.is_sorted() {
            pages.sort_unstable();
        }
        pages
    }

    /// Forgets what rounds were before.
    pub(crate) fn reset(&self) {
        self.stamps.iter().for_each(|stamp| stamp.store(0, Relaxed));
    }
}

/// Where a copy touched more than one of as many pages, it is quicker to look at all stamps than to sort.
const DENSE: usize = 16;

/// Where rows that a copy has not touched yet come from.
pub(crate) trait Source: Sync {
    /// The address of a row as the copies agreed on it, or none if the loop ends before it can be had.
    fn row(&self, capture: usize, i: usize) -> Option<*const u8>;

    /// Under `Ssp` the clock that all copies had reached when such a row was as it is now.
    fn clock(&self, _capture: usize, _i: usize) -> u64 {
        0
    }
}

/// Consecutive rows: the first, and how many.
pub(crate) type Runs = Vec<(u32, u32)>;

/// Appends a row to runs.
pub(crate) fn push_row(runs: &mut Runs, i: u32) {
    match runs.last_mut() {
        Some((first, n)) if *first + *n == i => *n += 1,
        _ => runs.push((i, 1)),
    }
}

/// The rows of runs, one by one.
pub(crate) fn rows_of(runs: &[(u32, u32)]) -> impl Iterator<Item = u32> + '_ {
    runs.iter().flat_map(|&(first, n)| first..first + n)
}

/// What a thread keeps of the staleness that its reads saw.
#[derive(Default)]
pub(crate) struct Staleness {
    /// The minibatch of its copy that runs.
    pub(crate) clock: Cell<u64>,
    /// How old values may be.
    pub(crate) bound: u64,
    /// For each row the clock that all copies had reached when it was brought.
    pub(crate) brought: RefCell<Vec<u64>>,
    pub(crate) reads: Cell<u64>,
    pub(crate) worst: Cell<u64>,
    pub(crate) violations: Cell<u64>,
}

/// What the path of a view does.
pub(crate) enum Reach<'t> {
    /// The elements themselves.
    InPlace { base: *mut u8 },
    /// The same, counted.
    Counted { base: *mut u8, uses: &'t Uses },
    /// The same, but for the hottest rows: the thread's own copies of those.
    Hot(&'t HotRows<'t>),
    /// A copy's table.
    Copy {
        table: &'t Table,
        source: &'t dyn Source,
        now: u32,
        /// Set when the loop has to end.
        stopped: &'t AtomicBool,
        /// In a check of the bound.
        checked: Option<&'t Staleness>,
    },
}

/// The path of one view on one thread.
pub(crate) struct CopyPath<'t> {
    pub(crate) capture: usize,
    pub(crate) size: usize,
    pub(crate) reach: Reach<'t>,
    /// The rows that this thread brought, or their pages, in that order.
    pub(crate) touched: RefCell<Runs>,
    pub(crate) state: Rc<BlockState>,
}

impl RowPath for CopyPath<'_> {
    #[cold]
    #[inline(never)]
    fn reach(&self, i: usize) -> *mut u8 {
        match &self.reach {
            Reach::InPlace { base } => base.wrapping_add(i * self.size),
            Reach::Counted { base, uses } => {
                uses.record(i);
                base.wrapping_add(i * self.size)
            }
            Reach::Hot(rows) => rows.reach(i),
            Reach::Copy { table, checked, .. } => {
                self.bring(i);
                if let Some(staleness) = checked {
                    staleness.check(i);
                }
                table.row(i)
            }
        }
    }

    fn no_such_row(&self, i: usize) -> ! {
        self.end(AccessTrouble::OutOfRange { capture: self.capture, index: i })
    }

    fn take_touched(&self) -> Runs {
        self.touched.take()
    }
}

impl CopyPath<'_> {
    /// Sees to it that a table holds row `i`.
    fn bring(&self, i: usize) {
        let Reach::Copy { table, source, now, stopped, checked } = &self.reach else { return };
        let now = *now;
        let page = i >> table.shift;
        let (stamp, rows) = (&table.stamps[page], table.rows_of_page(page));
        let mut seen = stamp.load(Acquire);
        loop {
            if seen == now {
                return;
            }
            if seen == now - 1 {
                // Another thread of this copy is at it.
                if stopped.load(Relaxed) {
                    self.end(AccessTrouble::Unreachable);
                }
                std::thread::yield_now();
                seen = stamp.load(Acquire);
                continue;
            }
            match stamp.compare_exchange_weak(seen, now - 1, Relaxed, Acquire) {
                Ok(_) => break,
                Err(other) => seen = other,
            }
        }
        let Some(row) = source.row(self.capture, rows.start) else {
            stamp.store(seen, Release);
            self.end(AccessTrouble::Unreachable);
        };
        if let Some(staleness) = checked {
            // Before the row is read: it holds at least what all had reached by now.
            staleness.record(i, source.clock(self.capture, i));
        }
        // SAFETY: all three are rows of this DDS's size (rule 3), or pages of it (rule 5); the place is this thread's until the
        // stamp says otherwise (rule 4).
        unsafe {
            let to = table.row(rows.start);
            if table.shift > 0 {
                copy(row, to, rows.len() * self.size);
            } else {
                table.merge.read_shared(row, to);
            }
            if let Some(before) = table.row_before(i) {
                std::ptr::copy_nonoverlapping(to, before, self.size);
            }
        }
        stamp.store(now, Release);
        push_row(&mut self.touched.borrow_mut(), page as u32);
    }

    fn end(&self, trouble: AccessTrouble) -> ! {
        self.state.record(trouble);
        resume_unwind(Box::new(EndIteration));
    }
}

impl Staleness {
    /// A row was brought when all copies had reached a clock.
    fn record(&self, i: usize, reached: u64) {
        let mut brought = self.brought.borrow_mut();
        if brought.len() <= i {
            brought.resize(i + 1, 0);
        }
        brought[i] = reached;
    }

    /// A row is used.
    fn check(&self, i: usize) {
        let behind = self.clock.get().saturating_sub(self.brought.borrow().get(i).copied().unwrap_or(0));
        self.reads.set(self.reads.get() + 1);
        self.worst.set(self.worst.get().max(behind));
        if behind > self.bound {
            self.violations.set(self.violations.get() + 1);
        }
    }
}

/// The memory that copies start from, all of it there.
pub(crate) struct AllThere {
    /// By capture: where the elements lie, and how large they are.
    pub(crate) bases: Vec<(*mut u8, usize)>,
}

// SAFETY: addresses; who may read or write what when is rule 2.
unsafe impl Send for AllThere {}
// SAFETY: addresses; who may read or write what when is rule 2.
unsafe impl Sync for AllThere {}

impl Source for AllThere {
    fn row(&self, capture: usize, i: usize) -> Option<*const u8> {
        let &(base, size) = self.bases.get(capture)?;
        Some(base.wrapping_add(i * size).cast_const())
    }
}
