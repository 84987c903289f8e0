//! `Ssp`'s shared state in one process: the elements with every change that has come so far, and how far each copy is.
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
    reached: AtomicU64,
    lock: Mutex<()>,
    moved: Condition,
}

// SAFETY: addresses, used as rule 1 says.
unsafe impl Send for Ledger {}
// SAFETY: addresses, used as rule 1 says.
unsafe impl Sync for Ledger {}

impl Ledger {
    /// `minibatches`: how many each copy runs.
    pub(crate) fn new(bases: Vec<Base>, minibatches: &[usize]) -> Ledger {
        let start = |&n: &usize| AtomicU64::new(if n == 0 { THROUGH } else { 0 });
        let ledger = Ledger {
            bases,
            locks: (0..LOCKS).map(|_| Mutex::new(())).collect(),
            applied: minibatches.iter().map(start).collect(),
            reached: AtomicU64::new(0),
            lock: Mutex::new(()),
            moved: Condition::new(),
        };
        ledger.reached.store(ledger.least(), Release);
        ledger
    }

    fn least(&self) -> u64 {
        self.applied.iter().map(|applied| applied.load(Acquire)).min().unwrap_or(THROUGH)
    }

    /// How many minibatches' changes of every copy are here.
    pub(crate) fn reached(&self) -> &AtomicU64 {
        &self.reached
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

    /// All changes of a copy's first minibatches are here.
    pub(crate) fn advance(&self, copy: usize, minibatches: u64) {
        let Some(applied) = self.applied.get(copy) else { return };
        applied.store(minibatches, Release);
        let _held = locked(&self.lock);
        self.reached.store(self.least(), Release);
        self.moved.notify_all();
    }

    /// Waits until the changes of this many minibatches of every copy are here. False if the loop is to end.
    pub(crate) fn wait_for(&self, minibatches: u64, stopped: &AtomicBool) -> bool {
        let mut held = None;
        loop {
            if stopped.load(Relaxed) {
                return false;
            }
            if self.reached.load(Acquire) >= minibatches {
                return true;
            }
            let lock = held.take().unwrap_or_else(|| locked(&self.lock));
            if self.reached.load(Acquire) >= minibatches {
                return !stopped.load(Relaxed);
            }
            // The thread that stops a loop may not know of this ledger.
            held = Some(self.moved.wait(&self.lock, lock, Some(Duration::from_millis(20))));
        }
    }
}
