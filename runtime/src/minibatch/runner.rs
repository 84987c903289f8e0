//! The threads of a synchronous loop in one process: what they run, and the contexts that they run it in.
//!
//! # Why this is sound
//! 1. Elements that are only read, and the input, are written by nobody while the loop runs: the loop borrows them.
//! 2. Elements that are written are plain, and reached through `Shared` by the threads that run bodies (see `view`, `table`).
//! 3. The rows of a table are as many as the DDS has elements: tables were made of the same captures.
#![allow(unsafe_code)]

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::hot::{Chosen, HotRows, SLOTS, Uses};
use super::new_entries::{NewByPart, Part};
use super::table::{CopyPath, Reach, Runs, Source, Staleness, Table};
use super::task::{BatchTask, RawBatch};
use crate::body::capture::{Captured, Kind};
use crate::body::context::{BlockState, Context};
use crate::body::lease::{Lease, Lent};
use crate::body::outcome::Failure;
use crate::body::panics;
use crate::body::slot::{HotCopies, Owned, Rows, Slot};
use crate::memory::element_ops::ElementOps;
use crate::memory::merge::Merging;
use crate::minibatch::schedule::Schedule;
use crate::session::condition;
use crate::session::locked;
use crate::session::slow_bodies::{self, Unit};
use crate::session::timeline::{self, Category};

/// The input of a loop, as far as it is in this process.
pub(crate) struct Input {
    pub(crate) base: *const u8,
    pub(crate) size: usize,
    /// How many numbers a row of a DMatrix has; 1 of others.
    pub(crate) width: usize,
    /// On a worker: its minibatches in order, whose elements lie one after the other.
    pub(crate) packed: Option<Vec<usize>>,
}

impl Input {
    /// Of elements with these operations, or without any; where they are the caller says.
    pub(crate) fn of(ops: Option<&ElementOps>) -> Input {
        let (size, width) = ops.map_or((0, 1), |ops| (ops.size, ops.width()));
        Input { base: std::ptr::null(), size, width, packed: None }
    }
}

// SAFETY: an address of elements that nobody writes while the loop runs.
unsafe impl Send for Input {}
// SAFETY: an address of elements that nobody writes while the loop runs.
unsafe impl Sync for Input {}

/// Everything that the threads of one process share.
pub(crate) struct Runner<'l> {
    pub(crate) task: &'l dyn BatchTask,
    pub(crate) lease: &'l Lease<'l>,
    pub(crate) merges: &'l [Option<Merging>],
    pub(crate) input: &'l Input,
    pub(crate) schedule: Schedule,
    /// What reductions held before the loop.
    pub(crate) before: &'l [u64],
    /// One thread runs all minibatches in order: reductions go on from one to the next.
    pub(crate) serial: bool,
    pub(crate) threads: usize,
    /// The loop has to end.
    pub(crate) stopped: &'l AtomicBool,
    pub(crate) outcome: &'l Outcomes,
    /// Under `Hybrid`, in place: which hot rows threads cache, and how many of a DDS at most.
    pub(crate) caches: Option<(&'l Chosen, usize)>,
}

/// What minibatches came to.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// The failure of the first minibatch, of those that failed.
    failure: Mutex<Option<(usize, Failure)>>,
    /// What each left for the reductions.
    totals: Mutex<Vec<(usize, Vec<u64>)>>,
    /// What they have added to maps.
    pub(crate) new: NewByPart,
    /// Nanoseconds in bodies, and rows brought.
    pub(crate) computing: AtomicU64,
    pub(crate) touched: AtomicU64,
    /// Nanoseconds of finding what has changed and of uniting it.
    pub(crate) merging: AtomicU64,
    /// Rows that a thread cached, of the one with the most.
    pub(crate) cached: AtomicU64,
}

impl Outcomes {
    pub(crate) fn fail(&self, minibatch: usize, failure: Failure) {
        let mut first = locked(&self.failure);
        if first.as_ref().is_none_or(|&(other, _)| minibatch < other) {
            *first = Some((minibatch, failure));
        }
    }

    pub(crate) fn take_failure(&self) -> Option<(usize, Failure)> {
        locked(&self.failure).take()
    }

    /// By minibatch, in order.
    pub(crate) fn take_totals(&self) -> Vec<(usize, Vec<u64>)> {
        let mut totals = std::mem::take(&mut *self.totals.lock().unwrap_or_else(PoisonError::into_inner));
        totals.sort_by_key(|&(minibatch, _)| minibatch);
        totals
    }
}

/// What the reductions hold after a loop, from what its minibatches left.
pub(crate) fn unite(captured: &[Captured], before: &[u64], serial: bool, totals: &[(usize, Vec<u64>)]) -> Vec<u64> {
    let mut words = before.to_vec();
    for (_, total) in totals {
        for (c, capture) in captured.iter().enumerate() {
            if let (Kind::Reduction { ops, .. }, Some(&total)) = (&capture.kind, total.get(c)) {
                words[c] = if serial { total } else { (ops.unite)(words[c], total) };
            }
        }
    }
    words
}

/// Where the views of written DDSs lead.
#[derive(Clone, Copy)]
pub(crate) enum ViewTarget<'t> {
    /// The elements themselves.
    Direct,
    /// In place, every access counted, by capture.
    Counted(&'t [Uses]),
    /// In place, but for the thread's own copies of the hottest rows, by capture.
    Hot(&'t [Option<HotRows<'t>>]),
    Copy {
        tables: &'t [Option<Table>],
        source: &'t dyn Source,
        now: u32,
        checked: Option<&'t [Staleness]>,
    },
}

/// Every access takes the long way: no row has that stamp.
static ASIDE: AtomicU32 = AtomicU32::new(0);
const NEVER: u32 = u32::MAX;

impl<'l> Runner<'l> {
    pub(crate) fn captured(&self) -> &'l [Captured] {
        self.lease.captured()
    }

    /// A context for minibatches of one copy, which one part runs.
    pub(crate) fn context<'t>(&self, place: ViewTarget<'t>, part: Part) -> Context<'t>
    where
        'l: 't,
    {
        let lease: &'t Lease<'_> = self.lease;
        let context = Context::new(|state| {
            let slot = |(c, capture): (usize, &Captured)| match (&capture.kind, lease.vector(c)) {
                (Kind::Reduction { .. }, _) => Slot::of_reduction(c, 0, false, state),
                (_, None) => Slot::absent(c, state),
                // SAFETY: rule 2.
                (_, Some(lent)) if lent.is_writable() => unsafe {
                    Slot::of_rows(c, self.rows(c, lent, place, state), state)
                },
                // SAFETY: rule 1.
                (_, Some(lent)) => unsafe { Slot::of_elements(c, lent, Owned::all(lent), state) },
            };
            lease.captured().iter().enumerate().map(slot).collect()
        });
        for (slot, entries) in context.slots.iter().zip(self.outcome.new.take(part)) {
            slot.new_entries().set(entries);
        }
        context
    }

    /// The part's minibatches in a context have ended: what they added to maps waits for the next ones.
    pub(crate) fn keep_new_entries(&self, context: &Context<'_>, part: Part) {
        self.outcome.new.put_back(part, context.slots.iter().map(|slot| slot.new_entries().take()).collect());
    }

    /// How the rows of a written DDS are reached.
    fn rows<'t>(&self, c: usize, lent: &'t Lent, place: ViewTarget<'t>, state: &Rc<BlockState>) -> Rows<'t>
    where
        'l: 't,
    {
        let in_place = Reach::InPlace { base: lent.base() };
        let reach = match place {
            ViewTarget::Direct => in_place,
            ViewTarget::Hot(hot) => hot[c].as_ref().map_or(in_place, Reach::Hot),
            ViewTarget::Counted(uses) => Reach::Counted { base: lent.base(), uses: &uses[c] },
            ViewTarget::Copy { tables, source, now, checked } => match &tables[c] {
                Some(table) => {
                    let checked = checked.map(|staleness| &staleness[c]);
                    Reach::Copy { table, source, now, stopped: self.stopped, checked }
                }
                None => in_place,
            },
        };
        let (base, stamps, shift, mask, now) = match &reach {
            Reach::InPlace { .. } => (lent.base(), Default::default(), 0, 0, 0),
            Reach::Counted { .. } => (lent.base(), std::slice::from_ref(&ASIDE), 0, 0, NEVER),
            Reach::Hot(rows) => (lent.base(), rows.slots(), 0, SLOTS - 1, 0),
            Reach::Copy { table, now, checked, .. } => {
                let now = if checked.is_some() { NEVER } else { *now };
                (table.base(), table.stamps(), table.shift(), usize::MAX, now)
            }
        };
        let (len, size, touched) = (lent.len(), lent.ops().size, RefCell::default());
        let copies = if let Reach::Hot(rows) = &reach { rows.copies() } else { HotCopies::NONE };
        let path = Box::new(CopyPath { capture: c, size, reach, touched, state: Rc::clone(state) });
        Rows { base, len, width: lent.ops().width(), stamps, shift, mask, now, copies, path }
    }

    /// Runs one minibatch. False if the loop is to end.
    pub(crate) fn run(&self, context: &Context<'_>, minibatch: usize, first: bool) -> bool {
        if self.stopped.load(Relaxed) {
            return false;
        }
        condition::compute();
        let mut reduces = false;
        for (c, capture) in self.captured().iter().enumerate() {
            if let Kind::Reduction { ops, .. } = capture.kind {
                reduces = true;
                if !self.serial {
                    context.slots[c].total().set((ops.neutral)(self.before[c]));
                } else if first {
                    context.slots[c].total().set(self.before[c]);
                }
            }
        }
        let elements = self.schedule.elements(minibatch);
        let place = match &self.input.packed {
            None => elements.start,
            Some(own) => match own.binary_search(&minibatch) {
                Ok(k) => k * self.schedule.size,
                Err(_) => return false,
            },
        };
        let at = self.input.base.wrapping_add(place * self.input.size);
        let (len, start, width) = (elements.len(), elements.start, self.input.width);
        let batch = RawBatch { at, len, width, start, number: minibatch };
        let _span = timeline::is_on().then(|| timeline::span(Category::Block, minibatch as u64));
        let _now = slow_bodies::running(Unit::Minibatch(minibatch as u64));
        // SAFETY: the context was made from these captures, and the batch is one of the input's.
        let ran = unsafe { self.task.run(context, batch) };
        match ran {
            Ok(()) => {
                if reduces && !self.serial {
                    let totals = context.slots.iter().map(|slot| slot.total().get()).collect();
                    locked(&self.outcome.totals).push((minibatch, totals));
                }
                true
            }
            Err(failure) => {
                // A thread that waited for a row while the loop was ended has nothing to say about it.
                if !matches!(failure, Failure::Stopped) {
                    self.outcome.fail(minibatch, failure);
                }
                self.stopped.store(true, Relaxed);
                false
            }
        }
    }

    /// Runs what unites copies, in which code of the element type's may panic: then the loop ends, as if `minibatch` had.
    /// None then.
    pub(crate) fn uniting<R>(&self, minibatch: usize, unite: impl FnOnce() -> R) -> Option<R> {
        match panics::caught(unite) {
            Ok(united) => Some(united),
            Err(note) => {
                self.outcome.fail(minibatch, Failure::Panic(note));
                self.stopped.store(true, Relaxed);
                None
            }
        }
    }

    /// The single thread is through: what the reductions came to.
    pub(crate) fn finish_serial(&self, context: &Context<'_>) {
        let totals = context.slots.iter().map(|slot| slot.total().get()).collect();
        locked(&self.outcome.totals).push((0, totals));
    }
}

/// The rows that a context's minibatches were the first of their copy to touch, or their pages, by capture.
pub(crate) fn take_touched(context: &Context<'_>) -> Vec<Runs> {
    context.slots.iter().map(|slot| slot.rows().map_or_else(Vec::new, |rows| rows.path.take_touched())).collect()
}
