//! Handing blocks to threads: a block starts when those before it on its own parts are done.
//!
//! One mutex and one condition variable; blocks are long against them. A thread that ends a block takes the next one under the
//! same lock. One that finds nothing to do looks from outside whether a block is ready, and asks for the lock only then; after some
//! hundred microseconds it sleeps. As many are woken as there are blocks for them. Model-checked under loom (`cargo test -p
//! stradsap-interleavings`).

#[cfg(stradsap_loom)]
use loom::sync::{Condvar, Mutex, MutexGuard, atomic::AtomicUsize, atomic::Ordering::Relaxed};
use std::cmp::Reverse;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, PoisonError};
#[cfg(not(stradsap_loom))]
use std::sync::{Condvar, Mutex, MutexGuard, atomic::AtomicUsize, atomic::Ordering::Relaxed};

use crate::planner::plan::BlockGraph;

/// How often an idle thread looks before it sleeps.
#[cfg(not(stradsap_loom))]
const LOOKS: usize = 200;
#[cfg(stradsap_loom)]
const LOOKS: usize = 0;

/// Who decides which block a thread runs next.
pub(crate) trait Dispatch: Sync {
    /// The next block for this thread, or none when no more will start. Waits while one may still become ready.
    fn next(&self, near: &dyn Fn(usize) -> bool) -> Option<usize>;
    /// A block's place in the whole plan.
    fn number(&self, block: usize) -> usize {
        block
    }
    /// Says that a block ended well.
    fn done(&self, block: usize);
    /// The same, and [`next`](Dispatch::next).
    fn done_and_next(&self, block: usize, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        self.done(block);
        self.next(near)
    }
    /// Says that a block ended well, and takes the next one if that may start at once. False: nothing was said.
    fn go_on(&self, _block: usize) -> bool {
        false
    }
    /// Says that a block failed: only blocks before it in the serial order are still started.
    fn fail(&self, block: usize);
    /// A block that may start at once, if there is one.
    fn at_hand(&self) -> Option<usize>;
    /// From which block on none is started any more, since one failed.
    fn cut(&self) -> Option<usize>;
    /// What becomes true when blocks are to end though they have iterations left; none where that never happens.
    fn stopping(&self) -> Option<Arc<AtomicBool>> {
        None
    }
}

impl Dispatch for Handoff<'_> {
    fn next(&self, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        Handoff::next(self, near)
    }

    fn done(&self, block: usize) {
        Handoff::done(self, block);
    }

    fn done_and_next(&self, block: usize, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        Handoff::done_and_next(self, block, near)
    }

    fn go_on(&self, block: usize) -> bool {
        Handoff::go_on(self, block)
    }

    fn fail(&self, block: usize) {
        Handoff::fail(self, block);
    }

    fn at_hand(&self) -> Option<usize> {
        self.take(&mut self.lock(), |_| false)
    }

    fn cut(&self) -> Option<usize> {
        let cut = self.lock().cut;
        (cut != u32::MAX).then_some(cut as usize)
    }
}

/// Takes the ready block with the longest chain behind it, but first among those that are `near` what the thread did
/// last, whose parts are still in its cache.
pub(crate) fn take_best(ready: &mut Vec<u32>, tail: &[u64], near: impl Fn(usize) -> bool) -> Option<usize> {
    let best = (0..ready.len()).max_by_key(|&k| {
        let block = ready[k] as usize;
        (near(block), tail[block], Reverse(block))
    });
    best.map(|k| ready.swap_remove(k) as usize)
}

pub(crate) struct Handoff<'g> {
    graph: &'g BlockGraph,
    state: Mutex<State>,
    wake: Condvar,
    /// How many blocks are ready, for idle threads; `OVER` if none runs, and none will.
    open: AtomicUsize,
    /// Nanoseconds for which threads had nothing to do.
    idle: AtomicU64,
}

const OVER: usize = usize::MAX;

struct State {
    ready: Vec<u32>,
    waits_for: Vec<u32>,
    running: usize,
    /// Blocks from here on in the serial order are not started: one before them has failed.
    cut: u32,
    sleeping: usize,
}

impl<'g> Handoff<'g> {
    pub(crate) fn new(graph: &'g BlockGraph) -> Self {
        let waits_for = graph.waits_for.clone();
        let mut ready: Vec<u32> = (0..graph.len() as u32).filter(|&block| waits_for[block as usize] == 0).collect();
        if graph.edges() == 0 {
            // The best last. Nothing is added, and there is nothing to look for: thousands of blocks may be free to run. Blocks that are
            // about as long go in their order, in which what they add to floats needs no list (`execute/in_order.rs`).
            let longest = graph.tail.iter().max().copied().unwrap_or_default();
            let mean = graph.tail.iter().sum::<u64>() / graph.len().max(1) as u64;
            let alike = longest <= mean + mean / 8;
            let length = |block: u32| if alike { 0 } else { graph.tail[block as usize] };
            ready.sort_unstable_by_key(|&block| (length(block), Reverse(block)));
        }
        Handoff {
            graph,
            open: AtomicUsize::new(ready.len()),
            state: Mutex::new(State { ready, waits_for, running: 0, cut: u32::MAX, sleeping: 0 }),
            wake: Condvar::new(),
            idle: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way: the state is whole whatever happened to another thread.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// For how long threads had nothing to do, in nanoseconds.
    pub(crate) fn idle(&self) -> u64 {
        self.idle.load(Relaxed)
    }

    /// The next block for this thread, or none when no more will start. Waits while others may still make one ready.
    pub(crate) fn next(&self, near: impl Fn(usize) -> bool) -> Option<usize> {
        self.next_of(self.lock(), near)
    }

    fn next_of<'s>(&'s self, mut state: MutexGuard<'s, State>, near: impl Fn(usize) -> bool) -> Option<usize> {
        if let Some(block) = self.take(&mut state, &near) {
            return Some(block);
        }
        #[cfg(not(stradsap_loom))]
        let since = std::time::Instant::now();
        let next = loop {
            if state.running == 0 {
                break None;
            }
            state = self.wait(state);
            if let Some(block) = self.take(&mut state, &near) {
                break Some(block);
            }
        };
        drop(state);
        #[cfg(not(stradsap_loom))]
        self.idle.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        next
    }

    fn take(&self, state: &mut State, near: impl Fn(usize) -> bool) -> Option<usize> {
        let cut = state.cut;
        if cut != u32::MAX {
            state.ready.retain(|&block| block < cut);
        }
        let block = match self.graph.edges() {
            0 => state.ready.pop()? as usize,
            _ => take_best(&mut state.ready, &self.graph.tail, near)?,
        };
        state.running += 1;
        self.open.store(state.ready.len(), Relaxed);
        Some(block)
    }

    /// Until a block is ready or nothing runs, or for no reason.
    fn wait<'s>(&'s self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        let mut state = if LOOKS == 0 {
            state
        } else {
            drop(state);
            for _ in 0..LOOKS {
                // (Who asked for a lock that another has would be put to sleep.)
                if self.open.load(Relaxed) > 0
                    && let Ok(state) = self.state.try_lock()
                {
                    return state;
                }
                for _ in 0..32 {
                    std::hint::spin_loop();
                }
            }
            let state = self.lock();
            if !state.ready.is_empty() || state.running == 0 {
                return state;
            }
            state
        };
        state.sleeping += 1;
        let mut state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
        state.sleeping -= 1;
        state
    }

    /// Says that a block is done: those that waited for it alone become ready.
    pub(crate) fn done(&self, block: usize) {
        let mut state = self.lock();
        self.release(&mut state, block);
        self.tell(state);
    }

    /// The same, and takes the next block.
    pub(crate) fn done_and_next(&self, block: usize, near: impl Fn(usize) -> bool) -> Option<usize> {
        let mut state = self.lock();
        self.release(&mut state, block);
        let next = self.take(&mut state, &near);
        if next.is_none() && state.running > 0 {
            return self.next_of(state, near);
        }
        self.tell(state);
        next
    }

    /// The same, and takes the next block if it waited for this one alone. False: it didn't, and nothing was said.
    pub(crate) fn go_on(&self, block: usize) -> bool {
        let mut state = self.lock();
        let next = block as u32 + 1;
        let waits_for_this = self.graph.followers(block).contains(&next) && state.waits_for[next as usize] == 1;
        if !waits_for_this || next >= state.cut {
            return false;
        }
        self.release(&mut state, block);
        state.ready.retain(|&ready| ready != next);
        state.running += 1;
        self.tell(state);
        true
    }

    /// A block has ended. Those that waited for it alone become ready.
    fn release(&self, state: &mut State, block: usize) {
        state.running -= 1;
        for &follower in self.graph.followers(block) {
            let waits = &mut state.waits_for[follower as usize];
            *waits -= 1;
            if *waits == 0 {
                state.ready.push(follower);
            }
        }
    }

    /// Says that a block failed: only blocks before it in the serial order are still started.
    pub(crate) fn fail(&self, block: usize) {
        let mut state = self.lock();
        state.cut = state.cut.min(block as u32);
        state.running -= 1;
        self.tell(state);
    }

    /// Lets idle threads know what is ready. If nothing runs any more, they leave.
    fn tell(&self, mut state: MutexGuard<'_, State>) {
        let cut = state.cut;
        if cut != u32::MAX {
            state.ready.retain(|&block| block < cut);
        }
        let (ready, over) = (state.ready.len(), state.ready.is_empty() && state.running == 0);
        self.open.store(if over { OVER } else { ready }, Relaxed);
        let sleeping = state.sleeping;
        drop(state);
        if over && sleeping > 0 {
            self.wake.notify_all();
        } else {
            (0..sleeping.min(ready)).for_each(|_| self.wake.notify_one());
        }
    }
}

#[cfg(all(test, stradsap_loom))]
mod loom_tests {
    use super::*;
    use crate::planner::plan::Touch;
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicBool, Ordering};

    /// Two threads run blocks that write parts; loom tries every interleaving.
    fn check(blocks: &'static [&'static [u32]], parts: usize, failing: Option<usize>) {
        loom::model(move || {
            let touches: Vec<Vec<Touch>> = blocks
                .iter()
                .map(|parts| parts.iter().map(|&resource| Touch { resource, write: true }).collect())
                .collect();
            let graph: &'static BlockGraph = Box::leak(Box::new(BlockGraph::from_touches(
                vec![1; blocks.len()],
                parts,
                touches.iter().map(Vec::as_slice),
            )));
            let handoff = Arc::new(Handoff::new(graph));
            let busy: Arc<Vec<AtomicBool>> = Arc::new((0..parts).map(|_| AtomicBool::new(false)).collect());
            let ran: Arc<Vec<AtomicBool>> = Arc::new(blocks.iter().map(|_| AtomicBool::new(false)).collect());
            let work = {
                let (handoff, busy, ran) = (Arc::clone(&handoff), Arc::clone(&busy), Arc::clone(&ran));
                move || {
                    let mut ended = None;
                    loop {
                        let next = match ended.take() {
                            Some(block) => handoff.done_and_next(block, |_| false),
                            None => handoff.next(|_| false),
                        };
                        let Some(block) = next else { break };
                        for &part in blocks[block] {
                            assert!(!busy[part as usize].swap(true, Ordering::Relaxed), "a part has two owners");
                        }
                        assert!(!ran[block].swap(true, Ordering::Relaxed), "a block runs twice");
                        for &part in blocks[block] {
                            busy[part as usize].store(false, Ordering::Relaxed);
                        }
                        if Some(block) == failing {
                            handoff.fail(block);
                        } else {
                            ended = Some(block);
                        }
                    }
                }
            };
            let other = loom::thread::spawn(work.clone());
            work();
            other.join().unwrap();
            for block in 0..blocks.len() {
                let must = failing.is_none_or(|failed| block <= failed);
                assert!(!must || ran[block].load(Ordering::Relaxed), "block {block} never ran");
            }
        });
    }

    #[test]
    fn loom_chain() {
        check(&[&[0], &[0], &[0]], 1, None);
    }

    #[test]
    fn loom_grid() {
        check(&[&[0, 2], &[1, 3], &[0, 3], &[1, 2]], 4, None);
    }

    #[test]
    fn loom_failure_runs_all_before_it() {
        check(&[&[0], &[1], &[0], &[1]], 2, Some(2));
    }

    #[test]
    fn loom_failure_of_the_first() {
        check(&[&[0], &[0], &[1]], 2, Some(0));
    }
}

#[cfg(all(test, not(stradsap_loom)))]
mod tests {
    use super::*;

    #[test]
    fn one_thread_takes_everything_in_a_serial_order() {
        let graph = BlockGraph::from_edges(vec![1; 4], vec![(0, 2), (1, 2), (2, 3)]);
        let handoff = Handoff::new(&graph);
        let mut order = Vec::new();
        while let Some(block) = handoff.next(|_| false) {
            order.push(block);
            handoff.done(block);
        }
        assert_eq!(order, [0, 1, 2, 3]);
    }

    #[test]
    fn who_goes_on_takes_the_next_block_and_leaves_the_others() {
        let graph = BlockGraph::from_edges(vec![1; 4], vec![(0, 1), (0, 2), (1, 3), (2, 3)]);
        let handoff = Handoff::new(&graph);
        assert_eq!(handoff.next(|_| false), Some(0));
        assert!(handoff.go_on(0));
        assert_eq!(handoff.next(|_| false), Some(2));
        assert!(!handoff.go_on(1), "block 2 doesn't wait for it");
        handoff.done(1);
        assert!(handoff.go_on(2));
        handoff.done(3);
        assert_eq!(handoff.next(|_| false), None);
        let handoff = Handoff::new(&graph);
        assert_eq!(handoff.next(|_| false), Some(0));
        handoff.fail(1);
        assert!(!handoff.go_on(0), "no later one is started");
    }

    #[test]
    fn blocks_without_an_order_start_by_their_length() {
        let graph = BlockGraph::from_edges(vec![1, 9, 1, 9, 3], Vec::new());
        let handoff = Handoff::new(&graph);
        let first: Vec<_> = (0..3).filter_map(|_| handoff.next(|_| true)).collect();
        assert_eq!(first, [1, 3, 4]);
        let alike = BlockGraph::from_edges(vec![8, 9, 8, 9, 2], Vec::new());
        let alike = Handoff::new(&alike);
        assert_eq!(
            (0..5).filter_map(|_| alike.next(|_| true)).collect::<Vec<_>>(),
            [1, 3, 0, 2, 4],
            "9 is much more than the mean"
        );
        let alike = BlockGraph::from_edges(vec![8, 9, 8, 9, 8], Vec::new());
        let alike = Handoff::new(&alike);
        assert_eq!((0..5).filter_map(|_| alike.next(|_| true)).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        handoff.fail(1);
        assert_eq!(handoff.next(|_| false), Some(0));
        [0, 3, 4].into_iter().for_each(|block| handoff.done(block));
        assert_eq!(handoff.next(|_| false), None);
    }

    #[test]
    fn after_a_failure_only_earlier_blocks_start() {
        let graph = BlockGraph::from_edges(vec![1, 9, 1, 1], vec![(0, 2)]);
        let handoff = Handoff::new(&graph);
        assert_eq!(handoff.next(|_| false), Some(1));
        handoff.fail(1);
        assert_eq!(handoff.next(|_| false), Some(0));
        handoff.done(0);
        assert_eq!(handoff.next(|_| false), None);
    }
}
