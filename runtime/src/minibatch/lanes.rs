//! A synchronous loop's threads in one process: what they run, and the frames that they run it in.
//!
//! # Why this is sound
//! 1. Elements that are only read, and the input, are written by nobody while the loop runs: the loop borrows them.
//! 2. Elements that are written are plain, and reached through `Shared` by whoever runs a body (see `view`, `table`).
//! 3. Slots point at cold sides that live in the same [`BatchFrame`], which outlives the views.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::hot::{Chosen, HotRows, SLOTS, Uses};
use super::table::{Reach, Runs, Source, Staleness, Table, Touch};
use super::task::{BatchTask, RawBatch};
use super::view::SharedSlot;
use crate::body::capture::{Captured, Kind};
use crate::body::context::Frame;
use crate::body::panics;
use crate::body::slow_path::{Cold, Doing};
use crate::body::task::Failure;
use crate::memory::merge::MergeOps;
use crate::minibatch::schedule::Schedule;
use crate::session::locked;
use crate::session::timeline::{self, Category};

/// The input of a loop, as far as it is in this process.
pub(crate) struct Input {
    pub(crate) base: *const u8,
    pub(crate) size: usize,
    /// On a worker: its minibatches in order, whose elements lie one after the other.
    pub(crate) packed: Option<Vec<usize>>,
}

// SAFETY: an address of elements that nobody writes while the loop runs.
unsafe impl Send for Input {}
// SAFETY: as above.
unsafe impl Sync for Input {}

/// Everything that the threads of one process share.
pub(crate) struct Lanes<'l> {
    pub(crate) task: &'l dyn BatchTask,
    pub(crate) captured: &'l [Captured],
    pub(crate) merges: &'l [Option<&'static MergeOps>],
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
    /// Under `Hybrid`, in place: whether threads cache hot rows, and which.
    pub(crate) caches: Option<&'l Chosen>,
}

/// What minibatches came to.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// The failure of the first minibatch, of those that failed.
    failure: Mutex<Option<(usize, Failure)>>,
    /// What each left for the reductions.
    totals: Mutex<Vec<(usize, Vec<u64>)>>,
    /// Nanoseconds in bodies, and rows brought.
    pub(crate) computing: AtomicU64,
    pub(crate) touched: AtomicU64,
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
pub(crate) enum Place<'t> {
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
        checked: Option<(&'t [Staleness], &'t AtomicU64)>,
    },
}

/// A frame with the cold sides of written DDSs.
pub(crate) struct BatchFrame<'t> {
    pub(crate) frame: Frame,
    touches: Box<[Touch<'t>]>,
}

/// The stamp that stands for all rows of elements that are written in place.
static IN_PLACE: AtomicU32 = AtomicU32::new(0);
/// A stamp that no row has: every access takes the long way.
const NEVER: u32 = u32::MAX;

impl<'l> Lanes<'l> {
    /// A frame for minibatches of one copy.
    pub(crate) fn frame<'t>(&self, place: Place<'t>) -> BatchFrame<'t>
    where
        'l: 't,
    {
        let mut frame = Frame::new(|shared| {
            let cold = |(c, capture): (usize, &Captured)| match capture.kind {
                Kind::Vector { base, len, ops, .. } => Cold::new(c, base, len, Some(ops), Doing::ReadOnly, shared),
                Kind::Reduction { .. } | Kind::Relaxed { .. } => {
                    Cold::new(c, std::ptr::null_mut(), 0, None, Doing::Reduction, shared)
                }
            };
            self.captured.iter().enumerate().map(cold).collect()
        });
        let shared = &raw const *frame.shared;
        let touch = |(c, capture): (usize, &Captured)| {
            let (base, len, size) = match capture.kind {
                Kind::Vector { base, len, ops, .. } => (base, len, ops.size),
                Kind::Reduction { .. } | Kind::Relaxed { .. } => (std::ptr::null_mut(), 0, 0),
            };
            let reach = match place {
                Place::Hot(hot) => match &hot[c] {
                    Some(rows) => Reach::Hot(rows),
                    None => Reach::InPlace { base },
                },
                Place::Counted(uses) => Reach::Counted { base, uses: &uses[c] },
                Place::Copy { tables, source, now, checked } => match &tables[c] {
                    Some(table) => {
                        let checked = checked.map(|(staleness, reached)| (&staleness[c], reached));
                        Reach::Copy { table, source, now, stopped: self.stopped, checked }
                    }
                    None => Reach::InPlace { base },
                },
                Place::Direct => Reach::InPlace { base },
            };
            Touch { capture: c, len, size, reach, touched: RefCell::default(), shared }
        };
        let touches: Box<[Touch<'t>]> = self.captured.iter().enumerate().map(touch).collect();
        for (c, capture) in self.captured.iter().enumerate() {
            let slot = &mut frame.slots[c];
            let Kind::Vector { base, len, writable, .. } = capture.kind else { continue };
            (slot.ptr, slot.base, slot.lo, slot.len, slot.wlen) = (base, base, 0, len, 0);
            if !writable {
                continue;
            }
            let touch = std::ptr::from_ref(&touches[c]).cast::<Touch<'static>>();
            slot.shared = match &touches[c].reach {
                Reach::InPlace { .. } => SharedSlot { stamps: &raw const IN_PLACE, mask: 0, now: 0, touch },
                Reach::Counted { .. } => SharedSlot { stamps: &raw const IN_PLACE, mask: 0, now: NEVER, touch },
                Reach::Hot(rows) => SharedSlot { stamps: rows.slots(), mask: SLOTS - 1, now: 0, touch },
                Reach::Copy { table, now, checked, .. } => {
                    slot.ptr = table.base();
                    let now = if checked.is_some() { NEVER } else { *now };
                    SharedSlot { stamps: table.stamps(), mask: usize::MAX, now, touch }
                }
            };
        }
        BatchFrame { frame, touches }
    }

    /// Runs one minibatch. False if the loop is to end.
    pub(crate) fn run(&self, frame: &mut BatchFrame<'_>, minibatch: usize, first: bool) -> bool {
        if self.stopped.load(Relaxed) {
            return false;
        }
        let mut reduces = false;
        for (c, capture) in self.captured.iter().enumerate() {
            if let Kind::Reduction { ops, .. } = capture.kind {
                reduces = true;
                if !self.serial {
                    frame.frame.slots[c].total = Cell::new((ops.neutral)(self.before[c]));
                } else if first {
                    frame.frame.slots[c].total = Cell::new(self.before[c]);
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
        let batch = RawBatch { at, len: elements.len(), start: elements.start, number: minibatch };
        let _span = timeline::is_on().then(|| timeline::span(Category::Block, minibatch as u64));
        // SAFETY: the frame was made from these captures, and the batch is one of the input's.
        let ran = unsafe { self.task.run(&frame.frame, batch) };
        match ran {
            Ok(()) => {
                if reduces && !self.serial {
                    let totals = frame.frame.slots.iter().map(|slot| slot.total.get()).collect();
                    locked(&self.outcome.totals).push((minibatch, totals));
                }
                true
            }
            Err(failure) => {
                // Whoever waited for a row while the loop was ended has nothing to say about it.
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
    pub(crate) fn finish_serial(&self, frame: &BatchFrame<'_>) {
        let totals = frame.frame.slots.iter().map(|slot| slot.total.get()).collect();
        locked(&self.outcome.totals).push((0, totals));
    }
}

impl BatchFrame<'_> {
    /// The rows that this frame's minibatches were the first of their copy to touch, by capture.
    pub(crate) fn take_touched(&self) -> Vec<Runs> {
        self.touches.iter().map(|touch| std::mem::take(&mut *touch.touched.borrow_mut())).collect()
    }
}
