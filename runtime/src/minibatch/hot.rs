//! Static caches of the hottest rows (IterStore, section 4.6): under `Hybrid` threads that share a row without locks wait
//! for each other's cache lines. A thread has copies of its own of the rows that it would contend for most often; what it
//! did to them is added to the shared rows every so often, and at the end of each minibatch.
//!
//! Which rows: in a loop's first call every thread's first minibatch is counted, access by access. Of `n` threads one that
//! uses a row in more than `CPB / (n - 1)` of its accesses would find it in use with a probability of about `CPB`: so it
//! caches that row.
//!
//! # Why this is sound
//! 1. A body may hold `&Shared` of a thread's own copy, and have scoped threads that use it, while the copy is flushed: it
//!    happens at an access. So copies are reached by atomic accesses alone, as the shared rows are (`read_shared`,
//!    `apply_shared`, `write_shared`). What was `seen` is reached by `flush` alone, which one thread calls.
//! 2. Elements are plain: any bytes are a value, and the zeroed memory of a copy is one.
//! 3. Rows are below the length of what is lent (compared in `of`); there is room for `stride` bytes for each.
//!
//! Whole changes of shared rows are made under a lock, so that none is lost to another thread's.
#![allow(unsafe_code)]

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use super::merging::differ;
use crate::body::lease::{Lease, Lent};
use crate::body::slot::{HotCopies, HotCopy};
use crate::memory::merge::Merging;
use crate::memory::reservation::Reservation;
use crate::session::locked;

/// The probability of finding a row in use that is put up with. To wait for another thread's row costs far more than to use a copy, which
/// the view finds by three comparisons; but copies have to be brought up to date. (Between 0.2 and 0.5 % no difference was measured.)
const CONTENTION: f64 = 0.005;
/// A row that two threads use less often in a minibatch isn't worth a copy, which costs about four uses at each minibatch's end.
const WORTH_COPYING: f64 = 8.0;
/// The rows of one DDS that a thread caches at most.
const MOST: usize = 512;
/// Rows are looked up by their last bits.
pub(crate) const SLOTS: usize = 4096;
/// How often the other threads together may use a row until a thread brings its copy up to date, within a minibatch too. The steps of
/// threads that don't see each other's add up to too long a one.
const UNSEEN: usize = 512;
const LOCKS: usize = 256;
/// Bytes of a cache line.
const LINE: usize = 64;

/// How often one thread's accesses are of which row.
#[derive(Default)]
pub(crate) struct Uses {
    counts: RefCell<Vec<u32>>,
}

impl Uses {
    pub(crate) fn record(&self, i: usize) {
        let mut counts = self.counts.borrow_mut();
        if counts.len() <= i {
            counts.resize(i + 1, 0);
        }
        counts[i] = counts[i].saturating_add(1);
    }
}

/// The rows that one of this many threads caches, by capture.
pub(crate) fn choose(uses: &[Uses], threads: usize) -> Vec<Vec<u32>> {
    let all: u64 = uses.iter().flat_map(|uses| uses.counts.borrow().clone()).map(u64::from).sum();
    let bound = ((all as f64 * CONTENTION).max(WORTH_COPYING) / threads.saturating_sub(1).max(1) as f64).max(1.0);
    let chosen = |uses: &Uses| {
        let counts = uses.counts.borrow();
        let hot = counts.iter().enumerate().filter(|&(_, &count)| f64::from(count) > bound);
        let mut hot: Vec<(u32, u32)> = hot.map(|(i, &count)| (count, i as u32)).collect();
        hot.sort_unstable_by(|a, b| b.cmp(a));
        let mut taken = [false; SLOTS];
        let free = |&(_, i): &(u32, u32)| !std::mem::replace(&mut taken[i as usize % SLOTS], true);
        hot.into_iter().filter(free).take(MOST).map(|(_, i)| i).collect()
    };
    uses.iter().map(chosen).collect()
}

/// What is remembered of a loop's hottest rows from call to call.
#[derive(Default)]
pub(crate) struct Chosen {
    rows: Mutex<Option<Vec<Vec<u32>>>>,
}

impl Chosen {
    pub(crate) fn get(&self) -> Option<Vec<Vec<u32>>> {
        locked(&self.rows).clone()
    }

    pub(crate) fn set(&self, rows: Vec<Vec<u32>>) {
        locked(&self.rows).get_or_insert(rows);
    }
}

/// The locks under which changes of cached rows are added up.
pub(crate) struct HotLocks(Vec<Mutex<()>>);

impl HotLocks {
    pub(crate) fn new() -> HotLocks {
        HotLocks((0..LOCKS).map(|_| Mutex::new(())).collect())
    }
}

/// One thread's copies of some rows of a DDS.
pub(crate) struct HotRows<'l> {
    shared: &'l Lent,
    size: usize,
    /// Bytes from one copy to the next: whole cache lines, so that numbers are read and written by vectors in one line each.
    stride: usize,
    merge: Merging,
    copies: Box<[HotCopy]>,
    own: Reservation,
    /// What the shared rows were when they were last looked at.
    seen: Reservation,
    /// By the last bits of a row's number: 0, or 1 more than its place among `copies`.
    slots: Box<[AtomicU32]>,
    /// How often a copy may be used until it is brought up to date.
    most_uses: u32,
    /// Room for two rows.
    room: RefCell<Vec<u8>>,
    locks: &'l HotLocks,
}

impl<'l> HotRows<'l> {
    /// The copies of one of this many threads of these rows, the hottest first and `most` of a DDS, by capture. None where there are
    /// none, or no memory for them.
    pub(crate) fn of(
        chosen: &[Vec<u32>],
        (threads, most): (usize, usize),
        lease: &'l Lease<'_>,
        merges: &[Option<Merging>],
        locks: &'l HotLocks,
    ) -> Vec<Option<HotRows<'l>>> {
        let make = |((c, rows), &merge): ((usize, &Vec<u32>), &Option<Merging>)| {
            let shared = lease.vector(c).filter(|lent| lent.is_writable())?;
            let ops = shared.ops();
            let rows: Vec<u32> = rows.iter().copied().filter(|&row| (row as usize) < shared.len()).take(most).collect();
            if rows.is_empty() {
                return None;
            }
            let slots: Box<[AtomicU32]> = (0..SLOTS).map(|_| AtomicU32::new(0)).collect();
            for (k, &row) in rows.iter().enumerate() {
                slots[row as usize % SLOTS].store(k as u32 + 1, Relaxed);
            }
            let (size, stride) = (ops.size, ops.size.next_multiple_of(LINE.max(ops.align())));
            let elements = (rows.len() * stride).div_ceil(size.max(1));
            let (own, seen) = (Reservation::new(ops, elements)?, Reservation::new(ops, elements)?);
            let copies = rows.into_iter().map(|row| HotCopy { row, left: Cell::new(0) }).collect();
            let most_uses = (UNSEEN / threads.saturating_sub(1).max(1)).max(1) as u32;
            let (merge, room) = (merge?, RefCell::new(vec![0; 2 * size]));
            let hot = HotRows { shared, size, stride, merge, copies, own, seen, slots, most_uses, room, locks };
            hot.flush();
            Some(hot)
        };
        chosen.iter().enumerate().zip(merges).map(make).collect()
    }

    pub(crate) fn slots(&self) -> &[AtomicU32] {
        &self.slots
    }

    pub(crate) fn copies(&self) -> HotCopies<'_> {
        HotCopies { base: self.own.base(), stride: self.stride, copies: &self.copies }
    }

    pub(crate) fn len(&self) -> usize {
        self.copies.len()
    }

    /// Where this thread reaches row `i`, which is below the DDS's length.
    pub(crate) fn reach(&self, i: usize) -> *mut u8 {
        let place = self.slots[i % SLOTS].load(Relaxed) as usize;
        match place.checked_sub(1).filter(|&k| self.copies[k].row as usize == i) {
            Some(k) => {
                if !self.copies[k].take(i) {
                    self.flush_row(k);
                    self.copies[k].take(i);
                }
                self.own.base().wrapping_add(k * self.stride)
            }
            None => self.shared.at(i),
        }
    }

    /// Adds what this thread did to the shared rows, and takes over what others did.
    pub(crate) fn flush(&self) {
        (0..self.copies.len()).for_each(|k| self.flush_row(k));
    }

    fn flush_row(&self, k: usize) {
        self.copies[k].left.set(self.most_uses);
        let mut room = self.room.borrow_mut();
        let (now, change) = room.split_at_mut(self.size);
        let (now, change) = (now.as_mut_ptr(), change.as_mut_ptr());
        let row = self.copies[k].row as usize;
        let (own, seen) =
            (self.own.base().wrapping_add(k * self.stride), self.seen.base().wrapping_add(k * self.stride));
        let shared = self.shared.at(row);
        let lock = &self.locks.0[row % LOCKS];
        // SAFETY: rules 1 to 3: `own` and `shared` are reached by atomic accesses here, too; the other three are this
        // call's alone.
        unsafe {
            self.merge.read_shared(own, now);
            if differ(seen, now, self.size) {
                self.merge.change(seen, now, change);
                let _held = lock.lock().unwrap_or_else(PoisonError::into_inner);
                self.merge.apply_shared(shared, change);
            }
            // From here on `seen` is what the shared row was, and `now` what this thread's copy was.
            self.merge.read_shared(shared, seen);
            self.take_over(own, now, seen, change);
        }
    }

    /// Brings a copy that was `now` to what the shared row was when it was `seen`. What a second thread of the body has done
    /// to it since then stays, and is added to the shared row the next time.
    ///
    /// # Safety
    /// Four rows: `own` is reached by atomic accesses alone, the others are the caller's.
    unsafe fn take_over(&self, own: *mut u8, now: *mut u8, seen: *mut u8, change: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            self.merge.read_shared(own, change);
            if !differ(now, change, self.size) {
                self.merge.write_shared(own, seen);
            } else {
                self.merge.change(now, seen, change);
                self.merge.apply_shared(own, change);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_would_be_contended_for_are_cached() {
        let uses = [Uses::default(), Uses::default()];
        for n in 0..100_000usize {
            uses[0].record(n % 80);
            uses[1].record(if n % 3 == 0 { 7 } else { 10 + n % 30_000 });
        }
        let chosen = choose(&uses, 2);
        assert_eq!(chosen[0].len(), 80);
        assert_eq!(chosen[1], [7]);
        // With more threads a row is in use more often.
        assert!(choose(&uses, 1000)[1].len() > 1);
    }

    /// Sixteen threads in turns step towards the same value, each from its own copy. If they didn't hear of each other's steps for long,
    /// each would go all the way, and their sum much too far.
    #[test]
    fn copies_that_do_the_same_work_do_not_overshoot() {
        let session = crate::Session::builder().threads(1).build().unwrap();
        let rows = crate::DVector::from_fn(&session, 3, |_| 0.0f32).unwrap();
        let captured = [rows.describe(true)];
        {
            let (lease, locks) = (Lease::of(&captured), HotLocks::new());
            let ops = lease.vector(0).unwrap().ops();
            let merges = [Merging::new(crate::memory::merge::merge_ops_of::<f32>(), ops)];
            let copies: Vec<HotRows<'_>> = (0..16)
                .flat_map(|_| HotRows::of(&[vec![1]], (16, 512), &lease, &merges, &locks))
                .map(Option::unwrap)
                .collect();
            for _ in 0..50 {
                for copy in &copies {
                    for _ in 0..25 {
                        let at = copy.reach(1).cast::<f32>();
                        // SAFETY: a number that this thread alone uses.
                        unsafe { *at += 0.001 * (1.0 - *at) };
                    }
                }
                let shared = lease.vector(0).unwrap().at(1).cast::<f32>();
                // SAFETY: a number that this thread alone uses.
                assert!(unsafe { *shared } < 1.5);
            }
            copies.iter().for_each(HotRows::flush);
        }
        let end = rows.to_vec().unwrap();
        assert!((end[1] - 1.0).abs() < 0.1, "{end:?}");
        assert_eq!((end[0], end[2]), (0.0, 0.0));
    }

    /// Copies of rows of 12 bytes: each on a line of its own, and what is added to it arrives in its row.
    #[test]
    fn copies_lie_on_lines_of_their_own() {
        let session = crate::Session::builder().threads(1).build().unwrap();
        let rows = crate::DVector::from_fn(&session, 200, |_| [0.5f32; 3]).unwrap();
        let captured = [rows.describe(true)];
        {
            let (lease, locks) = (Lease::of(&captured), HotLocks::new());
            let ops = lease.vector(0).unwrap().ops();
            let merges = [Merging::new(crate::memory::merge::merge_ops_of::<[f32; 3]>(), ops)];
            let chosen: Vec<u32> = (0..400).step_by(5).collect();
            let copies = HotRows::of(&[chosen], (2, 512), &lease, &merges, &locks).remove(0).unwrap();
            assert_eq!(copies.len(), 40);
            for turn in 0..3 * UNSEEN {
                for i in (0..200).step_by(5) {
                    let at = copies.reach(i);
                    assert!(at.addr().is_multiple_of(LINE) && at != lease.vector(0).unwrap().at(i), "{turn}");
                    // SAFETY: numbers that this thread alone uses.
                    unsafe { *at.cast::<f32>().add(2) += i as f32 };
                }
            }
            assert_eq!(copies.reach(6), lease.vector(0).unwrap().at(6));
            copies.flush();
        }
        let added = |i: usize| if i.is_multiple_of(5) { (3 * UNSEEN * i) as f32 } else { 0.0 };
        let expected: Vec<[f32; 3]> = (0..200).map(|i| [0.5, 0.5, 0.5 + added(i)]).collect();
        assert_eq!(rows.to_vec().unwrap(), expected);
    }
}
