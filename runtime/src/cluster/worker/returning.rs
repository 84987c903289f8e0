//! Where DDS servers are the home of elements: what a loop's blocks are done with goes there while other blocks run, and the worker
//! frees its memory.
//!
//! On a worker a part may come, be used, leave for another worker and come again: these are its versions there. A version is over
//! when the blocks that use it have ended, and what others are sent of it is sent. The last one with the worker that has the part in
//! the end is stored before it is freed.
//!
//! # Why this is sound
//! A version is freed under its part's lock and only while no later one comes, which is noted under that lock before any of its bytes
//! are put in place. All elements here are plain: freed memory holds values as well.
#![allow(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use stradsap_dds_server::frame::HEADER_LEN;
use tokio::sync::{Notify, mpsc};

use crate::cluster::wire::protocol::{Holder, Node, PIECE, Problem, Returned};
use crate::cluster::worker::Worker;
use crate::memory::reservation::Reservation;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::planner::share::Share;
use crate::session::locked;
use crate::session::timeline::{Category, task_span};

/// How many parts are stored at once.
const AT_ONCE: usize = 4;

/// Parts that come again are freed meanwhile if they are more than this many bytes: fresh memory takes longer. (Tests have small parts.)
const KEPT: usize = if cfg!(debug_assertions) { 16 << 10 } else { 64 << 20 };
/// How many bytes of elements in step are stored together.
const GROUP: usize = 256 << 10;

/// A version of a range, by their numbers.
pub(super) type Version = (usize, usize);

/// Elements that go and are freed together.
struct Together {
    dds: u64,
    reservation: Arc<Reservation>,
    range: Range<usize>,
    /// By version: how many uses are left.
    uses: Vec<AtomicUsize>,
    /// Whether this worker stores the last version.
    stays: bool,
    /// The version that is here or comes; none from the end of the loop on.
    current: Mutex<Option<usize>>,
}

impl Together {
    fn bytes(&self) -> usize {
        self.range.len() * self.reservation.ops().size
    }
}

/// What goes to its homes while a loop runs on this worker.
pub(crate) struct Returning {
    snapshot: u64,
    to: [Node; 2],
    all: Vec<Together>,
    /// Whether parts are freed before they come again.
    frees_between: bool,
    /// What each block uses.
    by_block: Vec<Vec<Version>>,
    /// What arrives, and what is sent from where it lies, in the share's order.
    by_arrival: Vec<Option<Version>>,
    by_send: Vec<Option<Version>>,
    /// Where what is to be stored is put in line, until the loop ends.
    line: Mutex<Option<mpsc::UnboundedSender<usize>>>,
    /// Uses and stores that are still to come; those that have begun and may read memory.
    left: AtomicUsize,
    reading: AtomicUsize,
    /// Bytes that are to be stored and have not been.
    in_line: AtomicUsize,
    /// Bytes that were stored, with frames' headers.
    stored: AtomicU64,
    news: Notify,
    failed: Mutex<Option<Problem>>,
}

/// Memory is being read, to be sent or stored.
pub(crate) struct Reading {
    of: Arc<Returning>,
    version: Version,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.of.reading.fetch_sub(1, Ordering::Release);
        self.of.used(self.version);
    }
}

/// Closes what it is made of when it is dropped.
pub(super) struct Closed<'r>(&'r Returning);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The parts of a loop, and who uses which version.
struct Parts<'s> {
    share: &'s Share,
    unsent: &'s BTreeSet<u32>,
    /// By part: the first blocks of versions that come from elsewhere.
    begins: BTreeMap<u32, Vec<u32>>,
    numbers: BTreeMap<u32, usize>,
}

impl Parts<'_> {
    fn version(&self, part: u32, block: u32) -> Option<Version> {
        let number = *self.numbers.get(&part)?;
        Some((number, self.begins.get(&part).map_or(0, |begins| begins.partition_point(|&first| first <= block))))
    }

    /// What a transfer sends, unless it is copied first or not sent at all.
    fn sent(&self, k: usize) -> Option<Version> {
        let send = &self.share.sends[k];
        if send.copy || (send.after.is_none() && self.unsent.contains(&send.transfer)) {
            return None;
        }
        match send.after {
            Some(block) => self.version(send.resource, block),
            None => self.numbers.get(&send.resource).map(|&number| (number, 0)),
        }
    }
}

/// What blocks write in step: blocks whose iterations follow each other, about that many together, and their elements.
fn in_step(plan: &Plan, capture: usize, most: usize) -> Vec<(Range<usize>, Range<usize>)> {
    let Some(&Usage::InStep { offset, written: true }) = plan.usage.get(capture) else { return Vec::new() };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (b, block) in plan.blocks.iter().enumerate() {
        match groups.last_mut() {
            Some(group)
                if plan.blocks[group.end - 1].end == block.start
                    && block.end - plan.blocks[group.start].start <= most =>
            {
                group.end = b + 1;
            }
            _ => groups.push(b..b + 1),
        }
    }
    let at = |iteration: usize| plan.range.start.wrapping_add(offset).wrapping_add(iteration);
    let elements = |blocks: &Range<usize>| at(plan.blocks[blocks.start].start)..at(plan.blocks[blocks.end - 1].end);
    let groups = groups.into_iter().map(|blocks| (blocks.clone(), elements(&blocks)));
    groups.filter(|(_, elements)| !elements.is_empty()).collect()
}

/// Notes who uses what. Gives how many uses and stores there are.
fn count_uses<'v>(all: &mut [Together], uses: impl Iterator<Item = &'v Version>) -> Result<usize, Problem> {
    let mut left = 0;
    for &(number, version) in uses {
        *all[number].uses[version].get_mut() += 1;
        left += 1;
    }
    for together in all.iter_mut().filter(|together| together.stays) {
        if together.uses.last_mut().is_none_or(|uses| *uses.get_mut() == 0) {
            return Err(Problem::Broken("a part stays with a worker that doesn't use it".to_string()));
        }
        left += 1;
    }
    Ok(left)
}

impl Returning {
    /// For a loop that is about to run. `of`: captures' DDSs and memory.
    pub(super) fn new(
        job: &Returned,
        (share, plan, unsent): (&Share, &Plan, &BTreeSet<u32>),
        of: impl Fn(usize) -> Result<(u64, Arc<Reservation>), Problem>,
    ) -> Result<(Arc<Returning>, mpsc::UnboundedReceiver<usize>), Problem> {
        let mut all: Vec<Together> = Vec::new();
        let mut add = |capture: usize, range: Range<usize>, versions: usize, stays: bool| {
            let (dds, reservation) = of(capture)?;
            if range.start > range.end || range.end > reservation.len() || !reservation.is_plain() {
                return Err(Problem::Broken("elements that can't go to their homes".to_string()));
            }
            let uses = (0..versions).map(|_| AtomicUsize::new(0)).collect();
            all.push(Together { dds, reservation, range, uses, stays, current: Mutex::new(Some(0)) });
            Ok(all.len() - 1)
        };
        let mut by_block = vec![Vec::new(); plan.blocks.len()];
        let mut parts = Parts { share, unsent, begins: BTreeMap::new(), numbers: BTreeMap::new() };
        let written: BTreeSet<u32> = job.written.iter().copied().collect();
        for arrival in share.arrivals.iter().filter(|arrival| written.contains(&arrival.resource)) {
            parts.begins.entry(arrival.resource).or_default().extend(arrival.before.iter().min());
        }
        parts.begins.values_mut().for_each(|begins| begins.sort_unstable());
        for &part in &written {
            let Some((capture, range)) = plan.part(part) else { continue };
            let versions = parts.begins.get(&part).map_or(0, Vec::len) + 1;
            parts.numbers.insert(part, add(capture, range, versions, job.own.binary_search(&part).is_ok())?);
        }
        for (b, used) in by_block.iter_mut().enumerate() {
            used.extend(plan.touches(b).iter().filter_map(|touch| parts.version(touch.resource, b as u32)));
        }
        for &capture in &job.captures {
            let size = of(capture)?.1.ops().size;
            for (blocks, range) in in_step(plan, capture, GROUP / size.max(1)) {
                let number = add(capture, range, 1, true)?;
                by_block[blocks].iter_mut().for_each(|used| used.push((number, 0)));
            }
        }
        let by_send: Vec<Option<Version>> = (0..share.sends.len()).map(|k| parts.sent(k)).collect();
        let by_arrival =
            share.arrivals.iter().map(|arrival| parts.version(arrival.resource, *arrival.before.iter().min()?));
        let by_arrival = by_arrival.collect();
        let again = |together: &&Together| together.uses.len() > 1;
        let frees_between = all.iter().filter(again).map(Together::bytes).sum::<usize>() > KEPT;
        let left = count_uses(&mut all, by_block.iter().flatten().chain(by_send.iter().flatten()))?;
        let (line, stores) = mpsc::unbounded_channel();
        let returning = Returning {
            snapshot: job.snapshot,
            to: job.to,
            all,
            frees_between,
            by_block,
            by_arrival,
            by_send,
            line: Mutex::new(Some(line)),
            left: AtomicUsize::new(left),
            reading: AtomicUsize::new(0),
            in_line: AtomicUsize::new(0),
            stored: AtomicU64::new(0),
            news: Notify::new(),
            failed: Mutex::default(),
        };
        Ok((Arc::new(returning), stores))
    }

    /// A block has ended, and what it sends is on its way.
    pub(super) fn ended(&self, block: usize) {
        self.by_block[block].iter().for_each(|&version| self.used(version));
        self.news.notify_waiters();
    }

    /// What arrives is about to be put in place.
    pub(super) fn arrives(&self, k: usize) {
        if let Some(&Some((number, version))) = self.by_arrival.get(k)
            && let Some(current) = &mut *locked(&self.all[number].current)
        {
            *current = version;
        }
    }

    /// What a transfer reads, until it has been sent.
    pub(super) fn reads(self: &Arc<Self>, k: usize) -> Option<Reading> {
        let version = (*self.by_send.get(k)?)?;
        self.reading.fetch_add(1, Ordering::Relaxed);
        Some(Reading { of: Arc::clone(self), version })
    }

    fn used(&self, (number, version): Version) {
        let together = &self.all[number];
        if together.uses[version].fetch_sub(1, Ordering::AcqRel) == 1 {
            match &*locked(&self.line) {
                // Where the line has ended, so has the loop.
                Some(line) if together.stays && version + 1 == together.uses.len() => {
                    self.in_line.fetch_add(together.bytes(), Ordering::Relaxed);
                    _ = line.send(number);
                }
                _ => self.free(number, version),
            }
        }
        self.one_less();
    }

    fn one_less(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.news.notify_waiters();
        }
    }

    fn free(&self, number: usize, version: usize) {
        let together = &self.all[number];
        let current = locked(&together.current);
        if *current == Some(version) && (self.frees_between || version + 1 == together.uses.len()) {
            // SAFETY: this version is over, and no other comes as long as the lock is held; these elements are the loop's own.
            unsafe { together.reservation.forget(together.range.clone()) };
        }
    }

    /// Waits until all has gone.
    pub(super) async fn all_gone(&self) -> Result<(), Problem> {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if let Some(problem) = locked(&self.failed).clone() {
                return Err(problem);
            }
            if self.left.load(Ordering::Acquire) == 0 {
                return Ok(());
            }
            news.await;
        }
    }

    /// Waits until something holds, which may do so when a block has ended or a part is stored, and which is asked now and then, too.
    pub(super) async fn wait_until(&self, often: Duration, holds: impl Fn() -> bool) {
        loop {
            let mut news = std::pin::pin!(self.news.notified());
            news.as_mut().enable();
            if holds() {
                return;
            }
            _ = tokio::time::timeout(often, news).await;
        }
    }

    /// Bytes that wait to be stored.
    pub(super) fn bytes_in_line(&self) -> usize {
        self.in_line.load(Ordering::Relaxed)
    }

    /// From when this is dropped on nothing is freed, and nothing more is stored.
    pub(super) fn closed_in_the_end(&self) -> Closed<'_> {
        Closed(self)
    }

    fn close(&self) {
        *locked(&self.line) = None;
        self.all.iter().for_each(|together| *locked(&together.current) = None);
    }

    /// How many bytes were sent to be stored.
    pub(super) fn bytes_stored(&self) -> u64 {
        self.stored.load(Ordering::Relaxed)
    }

    /// Whether memory is being read.
    pub(super) fn is_read(&self) -> bool {
        self.reading.load(Ordering::Acquire) > 0
    }

    /// Frees what is here, since all of it is with its homes as it was before the loop.
    ///
    /// # Safety
    /// No loop runs, and nobody reads these elements.
    pub(super) unsafe fn forget_all(&self) {
        // SAFETY: the caller's promise.
        self.all.iter().for_each(|together| unsafe { together.reservation.forget(together.range.clone()) });
    }
}

impl Worker {
    /// Stores what blocks are done with, until the loop ends.
    pub(super) async fn store_returned(
        self: Arc<Self>,
        returning: Arc<Returning>,
        mut stores: mpsc::UnboundedReceiver<usize>,
    ) {
        let (worker, returning) = (&self, &returning);
        let in_line = stream::poll_fn(move |context| stores.poll_recv(context));
        in_line
            .for_each_concurrent(AT_ONCE, |number| async move {
                returning.reading.fetch_add(1, Ordering::Relaxed);
                let is_open = locked(&returning.line).is_some();
                let stored = if is_open { worker.store_one(returning, number).await } else { Ok(()) };
                returning.reading.fetch_sub(1, Ordering::Release);
                let together = &returning.all[number];
                match stored {
                    Ok(()) => {
                        returning.free(number, together.uses.len() - 1);
                        returning.one_less();
                    }
                    Err(Problem::Peer { node, why }) => worker.trouble.report(node, why),
                    Err(problem) => *locked(&returning.failed) = Some(problem),
                }
                returning.in_line.fetch_sub(together.bytes(), Ordering::Relaxed);
                returning.news.notify_waiters();
            })
            .await;
    }

    async fn store_one(&self, returning: &Returning, number: usize) -> Result<(), Problem> {
        let Together { dds, reservation, range, .. } = &returning.all[number];
        let size = reservation.ops().size;
        let _span = task_span(Category::Snapshot, (range.len() * size) as u64);
        let each = (PIECE / size.max(1)).max(1);
        for to in returning.to {
            for start in range.clone().step_by(each) {
                let piece = start..range.end.min(start + each);
                // SAFETY: the blocks that change these elements have ended, and the memory is not freed before this has.
                let bytes = unsafe { reservation.bytes(piece.clone()) };
                self.store(Holder { node: to, snapshot: returning.snapshot }, *dds, &piece, bytes).await?;
                returning.stored.fetch_add((HEADER_LEN + bytes.len()) as u64, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::ops_of;

    /// Two pages.
    const LEN: usize = 1024;

    /// A part that block 0 uses, which is sent then, and comes again for block 1; it stays here.
    fn two_versions() -> (Arc<Returning>, mpsc::UnboundedReceiver<usize>) {
        let reservation = Arc::new(Reservation::new(ops_of::<u64>(), LEN).unwrap());
        let uses = vec![AtomicUsize::new(0), AtomicUsize::new(0)];
        let part = Together { dds: 1, reservation, range: 0..LEN, uses, stays: true, current: Mutex::new(Some(0)) };
        let (line, stores) = mpsc::unbounded_channel();
        let mut returning = Returning {
            snapshot: 1,
            to: [2, 3],
            all: vec![part],
            frees_between: true,
            by_block: vec![vec![(0, 0)], vec![(0, 1)]],
            by_arrival: vec![Some((0, 1))],
            by_send: vec![Some((0, 0))],
            line: Mutex::new(Some(line)),
            left: AtomicUsize::new(0),
            reading: AtomicUsize::new(0),
            in_line: AtomicUsize::new(0),
            stored: AtomicU64::new(0),
            news: Notify::new(),
            failed: Mutex::default(),
        };
        let Returning { all, by_block, by_send, left, .. } = &mut returning;
        let uses = by_block.iter().flatten().chain(by_send.iter().flatten());
        *left.get_mut() = count_uses(all, uses).unwrap();
        fill(&returning, 1);
        (Arc::new(returning), stores)
    }

    fn fill(returning: &Returning, byte: u8) {
        // SAFETY: nobody else uses the memory.
        unsafe { returning.all[0].reservation.bytes_mut(0..LEN) }.fill(byte);
    }

    fn holds(returning: &Returning, byte: u8) -> bool {
        // SAFETY: nobody else uses the memory.
        unsafe { returning.all[0].reservation.bytes(0..LEN) }.iter().all(|&here| here == byte)
    }

    #[test]
    fn a_version_is_freed_when_it_is_sent() {
        let (returning, mut stores) = two_versions();
        let reading = returning.reads(0).unwrap();
        returning.ended(0);
        assert!(holds(&returning, 1) && returning.is_read());
        drop(reading);
        assert!(holds(&returning, 0) && !returning.is_read());
        assert!(stores.try_recv().is_err());
    }

    #[test]
    fn a_version_that_has_come_is_not_freed_with_the_one_before_it() {
        let (returning, mut stores) = two_versions();
        let reading = returning.reads(0).unwrap();
        returning.ended(0);
        returning.arrives(0);
        fill(&returning, 2);
        drop(reading);
        assert!(holds(&returning, 2));
        returning.ended(1);
        assert_eq!(stores.try_recv(), Ok(0));
        // The store is still to come.
        assert!(holds(&returning, 2) && returning.left.load(Ordering::Relaxed) == 1);
        returning.free(0, 1);
        assert!(holds(&returning, 0));
    }

    #[test]
    fn nothing_is_freed_or_stored_when_the_loop_has_ended() {
        let (returning, mut stores) = two_versions();
        let reading = returning.reads(0).unwrap();
        returning.ended(0);
        returning.close();
        drop(reading);
        returning.ended(1);
        assert!(holds(&returning, 1) && stores.try_recv().is_err());
    }

    #[test]
    fn what_stays_without_being_used_is_refused() {
        let (returning, _) = two_versions();
        let mut returning = Arc::into_inner(returning).unwrap();
        returning.all.iter_mut().for_each(|part| part.uses = vec![AtomicUsize::new(0)]);
        assert!(count_uses(&mut returning.all, std::iter::empty()).is_err());
    }
}
