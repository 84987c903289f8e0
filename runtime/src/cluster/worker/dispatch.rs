//! Handing out one worker's blocks: a block starts when the blocks before it on its parts are done, here or elsewhere.
//! Of blocks elsewhere the worker learns by the parts that arrive from them.
//!
//! One mutex and one condition variable, as in `handoff`, and model-checked like it. What arrives before its place in memory is free is kept aside
//! until the last block that uses the place is done.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, PoisonError};
#[cfg(not(stradsap_loom))]
use std::sync::{Mutex, MutexGuard};

#[cfg(stradsap_loom)]
use loom::sync::{Condvar as Condition, Mutex, MutexGuard};

use crate::loops::handoff::{Dispatch, take_best};
use crate::planner::plan::BlockGraph;
use crate::planner::share::{Arrival, Send};
#[cfg(not(stradsap_loom))]
use crate::session::condition::Condition;

/// The way out of a worker, and into its memory.
pub(crate) trait Ports: Sync {
    /// Sends what `Share::sends[k]` says. The part is complete.
    fn send(&self, k: usize);
    /// Puts the bytes of arrival `k` in their place, where nothing runs that uses it. False: they can't be what they
    /// claim to be.
    fn place(&self, k: usize, bytes: &[u8]) -> bool;
    /// The bytes of arrival `k` are about to be put in their place.
    fn arrives(&self, _k: usize) {}
    /// A block has ended, and what it sends is on its way.
    fn ended(&self, _block: usize) {}
    /// The first block of this worker has failed.
    fn failed(&self, block: usize);
}

/// Where an arriving part goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// Straight to its place.
    InPlace,
    /// Aside: its place is in use.
    Aside,
    /// Nowhere: it has arrived before, or the run is over.
    Nowhere,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arriving {
    Awaited,
    OnItsWay,
    There,
}

pub(crate) struct Blocks<P> {
    ports: P,
    state: Mutex<State>,
    wake: Condition,
    /// Whether the run is ended, for blocks that run.
    stop: Arc<AtomicBool>,
    /// Followers, before and behind: what each block's end means.
    graph: Followers,
    /// For each block: the arrivals that wait for its end.
    behind: Vec<Vec<u32>>,
    /// For each arrival: the blocks that wait for it.
    before: Vec<Vec<u32>>,
    /// For each block: what it sends at its end.
    sends: Vec<Vec<u32>>,
    /// What is sent at the beginning.
    first_sends: Vec<u32>,
}

/// A copy of the graph's edges, so that a run outlives no borrow of its plan.
struct Followers {
    of: Vec<Vec<u32>>,
    tail: Vec<u64>,
}

struct State {
    ready: Vec<u32>,
    waits_for: Vec<u32>,
    started: Vec<bool>,
    ended: Vec<bool>,
    /// How many blocks each arrival still waits for; and for the beginning: before it the worker saves what it may have to put back,
    /// and sends what stands there.
    in_use: Vec<u32>,
    arriving: Vec<Arriving>,
    aside: Vec<Option<Vec<u8>>>,
    /// Blocks from here on in the worker's order are not started.
    cut: u32,
    /// Nothing more is started, sent or put in place.
    over: bool,
    sleeping: usize,
    /// What arrived could not be put in place.
    broken: bool,
}

impl<P: Ports> Blocks<P> {
    pub(crate) fn new(arrivals: &[Arrival], sends_out: &[Send], graph: &BlockGraph, ports: P) -> Self {
        let n = graph.len();
        let mut waits_for = graph.waits_for.clone();
        let mut behind = vec![Vec::new(); n];
        let mut sends = vec![Vec::new(); n];
        let mut first_sends = Vec::new();
        for (k, arrival) in arrivals.iter().enumerate() {
            arrival.before.iter().for_each(|&b| waits_for[b as usize] += 1);
            arrival.behind.iter().for_each(|&b| behind[b as usize].push(k as u32));
        }
        for (k, send) in sends_out.iter().enumerate() {
            match send.after {
                Some(block) => sends[block as usize].push(k as u32),
                None => first_sends.push(k as u32),
            }
        }
        let ready = (0..n as u32).filter(|&block| waits_for[block as usize] == 0).collect();
        Blocks {
            ports,
            state: Mutex::new(State {
                ready,
                waits_for,
                started: vec![false; n],
                ended: vec![false; n],
                in_use: arrivals.iter().map(|arrival| arrival.behind.len() as u32 + 1).collect(),
                arriving: vec![Arriving::Awaited; arrivals.len()],
                aside: arrivals.iter().map(|_| None).collect(),
                cut: u32::MAX,
                over: false,
                sleeping: 0,
                broken: false,
            }),
            wake: Condition::new(),
            stop: Arc::default(),
            graph: Followers { of: (0..n).map(|b| graph.followers(b).to_vec()).collect(), tail: graph.tail.clone() },
            behind,
            before: arrivals.iter().map(|arrival| arrival.before.clone()).collect(),
            sends,
            first_sends,
        }
    }

    /// The same, but some of the parts that stand when the loop begins aren't sent, since they are elsewhere.
    pub(crate) fn without_first(mut self, left_out: impl Fn(usize) -> bool) -> Self {
        self.first_sends.retain(|&k| !left_out(k as usize));
        self
    }

    pub(crate) fn ports(&self) -> &P {
        &self.ports
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the parts that stand when the loop begins. To be called once, before the first block.
    pub(crate) fn begin(&self) {
        self.first_sends.iter().for_each(|&k| self.ports.send(k as usize));
        let mut state = self.lock();
        (0..self.before.len()).for_each(|k| self.leave(&mut state, k));
        self.wake_idle(&state);
    }

    /// One of those that arrival `k` waits for has ended.
    fn leave(&self, state: &mut State, k: usize) {
        state.in_use[k] -= 1;
        if state.in_use[k] == 0 && !state.over {
            self.move_in(state, k);
        }
    }

    /// Where the bytes of arrival `k` are to go, which are about to be read.
    pub(crate) fn room_for(&self, k: usize) -> Room {
        let mut state = self.lock();
        if state.over || state.arriving[k] != Arriving::Awaited {
            return Room::Nowhere;
        }
        state.arriving[k] = Arriving::OnItsWay;
        if state.in_use[k] > 0 {
            return Room::Aside;
        }
        self.ports.arrives(k);
        Room::InPlace
    }

    /// Arrival `k` is in its place.
    pub(crate) fn arrived(&self, k: usize) {
        let mut state = self.lock();
        self.record_arrived(&mut state, k);
        self.wake_idle(&state);
    }

    /// Arrival `k` was read aside.
    pub(crate) fn arrived_aside(&self, k: usize, bytes: Vec<u8>) {
        let mut state = self.lock();
        if state.over {
            state.arriving[k] = Arriving::There;
            return;
        }
        state.aside[k] = Some(bytes);
        if state.in_use[k] == 0 {
            self.move_in(&mut state, k);
            self.wake_idle(&state);
        }
    }

    /// Arrival `k` broke off; it may come again.
    pub(crate) fn broke_off(&self, k: usize) {
        let mut state = self.lock();
        if state.arriving[k] == Arriving::OnItsWay {
            state.arriving[k] = Arriving::Awaited;
        }
    }

    /// Whether arrival `k`, which this worker fetches itself, is still awaited. If so it is on its way from now on, to a place that
    /// nobody has used in this run.
    pub(crate) fn fetches(&self, k: usize) -> bool {
        let mut state = self.lock();
        let awaited = !state.over && state.arriving[k] == Arriving::Awaited;
        if awaited {
            state.arriving[k] = Arriving::OnItsWay;
            self.ports.arrives(k);
        }
        awaited
    }

    /// What was fetched can't be put in place: the run ends.
    pub(crate) fn give_up(&self) {
        self.lock().broken = true;
        self.stop();
    }

    fn move_in(&self, state: &mut State, k: usize) {
        if let Some(bytes) = state.aside[k].take() {
            self.ports.arrives(k);
            if self.ports.place(k, &bytes) {
                self.record_arrived(state, k);
            } else {
                state.arriving[k] = Arriving::There;
                state.broken = true;
                state.over = true;
            }
        }
    }

    fn record_arrived(&self, state: &mut State, k: usize) {
        state.arriving[k] = Arriving::There;
        for &block in &self.before[k] {
            release(state, block);
        }
    }

    /// Blocks from `block` on are not started any more: one at this place has failed, here or elsewhere.
    pub(crate) fn cut_at(&self, block: usize) {
        let mut state = self.lock();
        state.cut = state.cut.min(u32::try_from(block).unwrap_or(u32::MAX));
        self.wake_all(&state);
    }

    /// Ends the run: the blocks that run are the last ones, and end as soon as they can.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Relaxed);
        let mut state = self.lock();
        state.over = true;
        self.wake_all(&state);
    }

    /// The first block that has not ended.
    pub(crate) fn first_left(&self) -> usize {
        let state = self.lock();
        state.ended.iter().position(|&ended| !ended).unwrap_or(state.ended.len())
    }

    /// Whether nothing more is started.
    pub(crate) fn is_over(&self) -> bool {
        self.lock().over
    }

    /// What becomes true when the run is ended.
    pub(crate) fn stopping(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Whether something is being read, perhaps to its place. What was read aside is not: it stays there when the run is over.
    pub(crate) fn is_receiving(&self) -> bool {
        let state = self.lock();
        state
            .arriving
            .iter()
            .zip(&state.aside)
            .any(|(arriving, aside)| *arriving == Arriving::OnItsWay && aside.is_none())
    }

    /// Whether the run ended because something arrived broken.
    pub(crate) fn is_broken(&self) -> bool {
        self.lock().broken
    }

    /// Whether all blocks ended well.
    pub(crate) fn all_done(&self) -> bool {
        self.lock().ended.iter().all(|&ended| ended)
    }

    /// The blocks that were started.
    pub(crate) fn started(&self) -> Vec<usize> {
        let state = self.lock();
        (0..state.started.len()).filter(|&b| state.started[b]).collect()
    }

    fn take(&self, state: &mut State, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        let cut = state.cut;
        state.ready.retain(|&block| block < cut);
        let block = take_best(&mut state.ready, &self.graph.tail, near)?;
        state.started[block] = true;
        if self.nothing_left(state) {
            self.wake_all(state);
        }
        Some(block)
    }

    fn wake_idle(&self, state: &State) {
        if state.sleeping > 0 && (!state.ready.is_empty() || state.over || self.nothing_left(state)) {
            self.wake.notify_all();
        }
    }

    fn wake_all(&self, _state: &State) {
        self.wake.notify_all();
    }

    fn nothing_left(&self, state: &State) -> bool {
        let end = state.started.len().min(state.cut as usize);
        state.started[..end].iter().all(|&started| started)
    }
}

fn release(state: &mut State, block: u32) {
    let waits = &mut state.waits_for[block as usize];
    *waits -= 1;
    if *waits == 0 {
        state.ready.push(block);
    }
}

impl<P: Ports> Dispatch for Blocks<P> {
    fn next(&self, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        let mut state = self.lock();
        loop {
            if state.over {
                return None;
            }
            if let Some(block) = self.take(&mut state, near) {
                return Some(block);
            }
            if self.nothing_left(&state) {
                return None;
            }
            state.sleeping += 1;
            #[cfg(stradsap_loom)]
            {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            #[cfg(not(stradsap_loom))]
            {
                state = self.wake.wait(&self.state, state, None);
            }
            state.sleeping -= 1;
        }
    }

    fn done(&self, block: usize) {
        // Before anybody hears of it: what is sent stays as it is until the receiver has it.
        let over = {
            let mut state = self.lock();
            state.ended[block] = true;
            state.over
        };
        if !over {
            self.sends[block].iter().for_each(|&k| self.ports.send(k as usize));
            self.ports.ended(block);
        }
        let mut state = self.lock();
        for &follower in &self.graph.of[block] {
            release(&mut state, follower);
        }
        self.behind[block].iter().for_each(|&k| self.leave(&mut state, k as usize));
        self.wake_idle(&state);
    }

    fn fail(&self, block: usize) {
        let mut state = self.lock();
        state.cut = state.cut.min(block as u32);
        self.wake_all(&state);
        drop(state);
        self.ports.failed(block);
    }

    fn at_hand(&self) -> Option<usize> {
        let mut state = self.lock();
        if state.over { None } else { self.take(&mut state, &|_| false) }
    }

    fn cut(&self) -> Option<usize> {
        let state = self.lock();
        (state.over || state.cut != u32::MAX).then_some(if state.over { 0 } else { state.cut as usize })
    }
}

#[cfg(test)]
#[cfg(not(stradsap_loom))]
#[path = "dispatch_tests.rs"]
mod tests;

#[cfg(test)]
#[cfg(stradsap_loom)]
mod loom_tests {
    use loom::sync::Arc;
    use loom::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Counts what is sent, and watches over the one part.
    struct Post {
        sent: AtomicUsize,
        in_use: AtomicUsize,
        version: AtomicUsize,
        /// The version that was sent last.
        last: AtomicUsize,
    }

    impl Post {
        fn new() -> Post {
            let [sent, in_use, version, last] = std::array::from_fn(|_| AtomicUsize::new(0));
            Post { sent, in_use, version, last }
        }
    }

    impl Ports for Post {
        fn send(&self, _k: usize) {
            self.sent.fetch_add(1, Ordering::Relaxed);
            self.last.store(self.version.load(Ordering::Relaxed), Ordering::Relaxed);
        }

        fn place(&self, _k: usize, bytes: &[u8]) -> bool {
            assert_eq!(self.in_use.load(Ordering::Relaxed), 0, "a part in use is overwritten");
            self.version.store(usize::from(bytes[0]), Ordering::Relaxed);
            true
        }

        fn failed(&self, _block: usize) {}
    }

    /// Block 0 uses a part, which then comes again for block 1; block 2 has nothing to do with it.
    fn check(failing: Option<usize>) {
        loom::model(move || {
            let arrivals = [Arrival { transfer: 0, resource: 0, before: vec![1], behind: vec![0] }];
            let sends = [Send { transfer: 1, resource: 0, to: 1, after: Some(1), copy: false }];
            let graph = BlockGraph::from_edges(vec![1; 3], vec![(0, 1)]);
            let blocks = Arc::new(Blocks::new(&arrivals, &sends, &graph, Post::new()));
            let inbox = {
                let blocks = Arc::clone(&blocks);
                loom::thread::spawn(move || match blocks.room_for(0) {
                    Room::InPlace => {
                        assert!(blocks.ports().place(0, &[1]));
                        blocks.arrived(0);
                    }
                    Room::Aside => blocks.arrived_aside(0, vec![1]),
                    Room::Nowhere => {}
                })
            };
            blocks.begin();
            while let Some(block) = blocks.next(&|_| false) {
                let post = blocks.ports();
                if block < 2 {
                    assert_eq!(post.in_use.fetch_add(1, Ordering::Relaxed), 0);
                    assert_eq!(post.version.load(Ordering::Relaxed), block, "another version");
                    post.in_use.fetch_sub(1, Ordering::Relaxed);
                }
                if Some(block) == failing { blocks.fail(block) } else { blocks.done(block) }
            }
            inbox.join().unwrap();
            let started = blocks.started();
            match failing {
                None => assert_eq!((started.len(), blocks.ports().sent.load(Ordering::Relaxed)), (3, 1)),
                Some(failing) => assert!((0..=failing).all(|block| started.contains(&block))),
            }
        });
    }

    #[test]
    fn loom_a_part_comes_while_its_place_is_in_use() {
        check(None);
    }

    /// Block 0 writes a part that is sent then; block 1 writes it again, perhaps on another thread.
    #[test]
    fn loom_a_part_is_sent_as_a_block_left_it() {
        loom::model(|| {
            let sends = [Send { transfer: 0, resource: 0, to: 1, after: Some(0), copy: false }];
            let graph = BlockGraph::from_edges(vec![1; 2], vec![(0, 1)]);
            let blocks = Arc::new(Blocks::new(&[], &sends, &graph, Post::new()));
            let run = |blocks: &Blocks<Post>| {
                while let Some(block) = blocks.next(&|_| false) {
                    blocks.ports().version.store(block + 1, Ordering::Relaxed);
                    blocks.done(block);
                }
            };
            blocks.begin();
            let other = {
                let blocks = Arc::clone(&blocks);
                loom::thread::spawn(move || run(&blocks))
            };
            run(&blocks);
            other.join().unwrap();
            let post = blocks.ports();
            assert_eq!([&post.sent, &post.last, &post.version].map(|n| n.load(Ordering::Relaxed)), [1, 1, 2]);
        });
    }

    #[test]
    fn loom_a_failure_ends_the_waiting() {
        check(Some(0));
        check(Some(1));
    }
}
