//! `Ssp`'s shared state in one process: the elements with the changes that have come so far, and how far each copy is.
//!
//! # Why this is sound
//! 1. `bases` are the addresses of plain elements that live as long as the ledger is used, and that everybody reaches by
//!    atomic accesses while the loop runs (`read_shared`, `apply_shared`).
//! 2. Two changes of one row are not applied at the same time: its lock keeps them apart, so that none is lost.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use std::time::Duration;

use crate::memory::merge::Merging;
use crate::session::condition::Condition;
use crate::session::locked;

/// Rows share this many locks.
const LOCKS: usize = 1024;
/// A copy has run all its minibatches.
pub(crate) const THROUGH: u64 = u64::MAX;

/// Elements by address.
#[derive(Clone, Copy)]
pub(crate) struct Base {
    pub(crate) at: *mut u8,
    pub(crate) size: usize,
    pub(crate) len: usize,
    pub(crate) merge: Option<Merging>,
}

pub(crate) struct Ledger {
    /// By capture.
    bases: Vec<Base>,
    locks: Vec<Mutex<()>>,
    /// For each copy how many of its minibatches' changes are in the elements here.
    applied: Vec<AtomicU64>,
    /// The least of them.
    kept: AtomicU64,
    /// For each process of a loop one more than the clock as of which the rows that it keeps are here; the most there is for this
    /// process itself. Empty where it is alone.
    keepers: Vec<AtomicU64>,
    lock: Mutex<()>,
    moved: Condition,
}

// SAFETY: addresses, used as rule 1 says.
unsafe impl Send for Ledger {}
// SAFETY: addresses, used as rule 1 says.
unsafe impl Sync for Ledger {}

impl Ledger {
    /// `minibatches`: how many each copy runs. `keepers`: how many processes keep rows, and which of them this one is.
    pub(crate) fn new(bases: Vec<Base>, minibatches: &[usize], keepers: Option<(usize, usize)>) -> Ledger {
        let start = |&n: &usize| AtomicU64::new(if n == 0 { THROUGH } else { 0 });
        let mut ledger = Ledger {
            bases,
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            applied: minibatches.iter().map(start).collect(),
            kept: AtomicU64::new(0),
            keepers: Vec::new(),
            lock: Mutex::new(()),
            moved: Condition::new(),
        };
        ledger.kept.store(ledger.least(), Release);
        if let Some((all, me)) = keepers {
            ledger.keepers = (0..all).map(|k| AtomicU64::new(if k == me { u64::MAX } else { 0 })).collect();
        }
        ledger
    }

    fn least(&self) -> u64 {
        self.applied.iter().map(|applied| applied.load(Acquire)).min().unwrap_or(THROUGH)
    }

    /// How many minibatches' changes of every copy are in the rows that this process keeps.
    pub(crate) fn kept(&self) -> u64 {
        self.kept.load(Acquire)
    }

    /// How many of a copy's.
    pub(crate) fn applied(&self, copy: usize) -> u64 {
        self.applied.get(copy).map_or(0, |applied| applied.load(Acquire))
    }

    /// Whether as many of every copy are in all that this process reads.
    fn is_here(&self, minibatches: u64) -> bool {
        self.kept() >= minibatches && self.keepers.iter().all(|clock| clock.load(Acquire) > minibatches)
    }

    /// Whether every process has said something about the rows that it keeps.
    pub(crate) fn has_begun(&self) -> bool {
        self.is_here(0)
    }

    /// The clock that a process spoke of last, plus one.
    pub(crate) fn heard_of(&self, keeper: usize) -> u64 {
        self.keepers.get(keeper).map_or(0, |clock| clock.load(Acquire))
    }

    /// The rows that a process keeps are here as of a clock, as far as this process wants them.
    pub(crate) fn heard(&self, keeper: usize, clock: u64) {
        let Some(kept) = self.keepers.get(keeper) else { return };
        kept.fetch_max(clock.saturating_add(1), Release);
        let _held = locked(&self.lock);
        self.moved.notify_all();
    }

    /// Adds a change to a row. False where there is no such row.
    ///
    /// # Safety
    /// `change` is the address of a row of this capture's type.
    pub(crate) unsafe fn apply(&self, capture: usize, row: u32, change: *const u8) -> bool {
        let Some(Base { at, size, len, merge: Some(merge) }) = self.bases.get(capture).copied() else { return false };
        let row = row as usize;
        if row >= len {
            return false;
        }
        let _held = locked(&self.locks[(row * 31 + capture) % LOCKS]);
        // SAFETY: a row of these elements; the caller vouches for the change, the lock for rule 2.
        unsafe { merge.apply_shared(at.add(row * size), change) };
        true
    }

    /// Puts a value in the place of a row, together with changes that it lacks. `room` is for one row.
    ///
    /// # Safety
    /// `value` and `changes` are addresses of rows of this capture's type, `room` that of an aligned one that is the caller's, and nobody
    /// applies changes to the row meanwhile.
    pub(crate) unsafe fn replace(
        &self,
        (capture, row): (usize, u32),
        value: *const u8,
        changes: impl Iterator<Item = *const u8>,
        room: *mut u8,
    ) {
        let Some(Base { at, size, len, merge: Some(merge) }) = self.bases.get(capture).copied() else { return };
        if row as usize >= len {
            return;
        }
        // SAFETY: a row of these elements (rule 1); the caller vouches for the rest. Who reads it meanwhile sees numbers of
        // either value.
        unsafe {
            std::ptr::copy_nonoverlapping(value, room, size);
            changes.for_each(|change| merge.apply_shared(room, change));
            merge.write_shared(at.add(row as usize * size), room);
        }
    }

    /// All changes of a copy's first minibatches are here.
    pub(crate) fn advance(&self, copy: usize, minibatches: u64) {
        let Some(applied) = self.applied.get(copy) else { return };
        applied.store(minibatches, Release);
        let _held = locked(&self.lock);
        self.kept.store(self.least(), Release);
        self.moved.notify_all();
    }

    /// Waits until the changes of this many minibatches of every copy are in all that this process reads. False if the loop is to
    /// end.
    pub(crate) fn wait_for(&self, minibatches: u64, stopped: &AtomicBool) -> bool {
        self.wait_until(|ledger| ledger.is_here(minibatches), stopped)
    }

    /// Waits until all changes are in the rows that this process keeps. False if the loop is to end.
    pub(crate) fn wait_for_all(&self, stopped: &AtomicBool) -> bool {
        self.wait_until(|ledger| ledger.kept() == THROUGH, stopped)
    }

    /// Waits until something is so that the ledger learns of. False if the loop is to end.
    pub(crate) fn wait_until(&self, is_so: impl Fn(&Ledger) -> bool, stopped: &AtomicBool) -> bool {
        let mut held = None;
        loop {
            if stopped.load(Relaxed) {
                return false;
            }
            if is_so(self) {
                return true;
            }
            let lock = held.take().unwrap_or_else(|| locked(&self.lock));
            if is_so(self) {
                return !stopped.load(Relaxed);
            }
            // The thread that stops a loop may not know of this ledger.
            held = Some(self.moved.wait(&self.lock, lock, Some(Duration::from_millis(20))));
        }
    }
}
