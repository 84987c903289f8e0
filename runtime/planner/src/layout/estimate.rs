//! How long a layout takes, by playing it with costs instead of work.
//!
//! Links work beside the processors, but each transfer also takes processor time at both ends (copies into and out of
//! the kernel, checksums), which is not there for blocks. Both ends together are charged what the link is: that is
//! what keeps an assignment from shuffling large parts about to even out the last few per cent.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::layout::Layout;
use crate::plan::Plan;

/// How many bytes move in the time of one access.
///
/// An access with its share of the arithmetic takes about 20 ns for rows of some hundred bytes, which is what most
/// parts that are worth moving hold; streams between processes of one machine, and networks of 25 Gbit/s, carry some
/// 3 bytes in a nanosecond. Slower networks make all candidates slower alike: it is their order that counts.
const BYTES_AN_ACCESS: u64 = 64;
/// What a transfer costs however short it is, in accesses: as much as starting a block.
const TRANSFER_COST: u64 = 256;

/// What moving this many bytes costs, in accesses.
pub(super) fn transfer_cost(bytes: u64) -> u64 {
    TRANSFER_COST + bytes / BYTES_AN_ACCESS
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrived(u32),
    Ended(u32),
}

/// The workers as they stand at a moment.
struct Play<'p> {
    plan: &'p Plan,
    layout: &'p Layout,
    /// What each block waits for: blocks of its own worker and transfers.
    waits_for: Vec<u32>,
    ready: Vec<BinaryHeap<(u64, Reverse<u32>)>>,
    busy: Vec<bool>,
    /// When each worker's link is free to send, and to receive.
    sends: Vec<u64>,
    receives: Vec<u64>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
}

/// What a layout costs: the makespan, and every worker's share of the processor time that transfers take.
pub(super) fn cost(plan: &Plan, layout: &Layout, bytes: &dyn Fn(u32) -> u64) -> u64 {
    let moving: u64 = layout.transfers.iter().map(|transfer| transfer_cost(bytes(transfer.resource))).sum();
    makespan(plan, layout, bytes) + moving / layout.workers as u64
}

/// The time, in accesses, until all blocks have run, one at a time on each worker.
fn makespan(plan: &Plan, layout: &Layout, bytes: &dyn Fn(u32) -> u64) -> u64 {
    let blocks = layout.worker_of.len();
    let mut waits_for = vec![0u32; blocks];
    let mut followers: Vec<Vec<u32>> = vec![Vec::new(); blocks];
    for worker in 0..layout.workers as u32 {
        let (mine, graph) = layout.graph_of(plan, worker);
        for (k, &b) in mine.iter().enumerate() {
            waits_for[b as usize] += graph.waits_for[k];
            followers[b as usize].extend(graph.followers(k).iter().map(|&f| mine[f as usize]));
        }
    }
    let mut sent_after: Vec<Vec<u32>> = vec![Vec::new(); blocks];
    let mut at_once = Vec::new();
    for (t, transfer) in layout.transfers.iter().enumerate() {
        match transfer.after {
            Some(block) => sent_after[block as usize].push(t as u32),
            None => at_once.push(t as u32),
        }
        transfer.before.iter().for_each(|&b| waits_for[b as usize] += 1);
    }
    let mut play = Play {
        plan,
        layout,
        waits_for,
        ready: vec![BinaryHeap::new(); layout.workers],
        busy: vec![false; layout.workers],
        sends: vec![0; layout.workers],
        receives: vec![0; layout.workers],
        events: BinaryHeap::new(),
    };
    for block in 0..blocks as u32 {
        if play.waits_for[block as usize] == 0 {
            play.make_ready(block);
        }
    }
    at_once.iter().for_each(|&t| play.send(0, t, bytes));
    (0..layout.workers).for_each(|worker| play.start(0, worker));
    let mut now = 0;
    while let Some(Reverse((then, event))) = play.events.pop() {
        now = then;
        match event {
            Event::Arrived(t) => {
                let transfer = &layout.transfers[t as usize];
                transfer.before.iter().for_each(|&b| play.one_less(b));
                play.start(now, transfer.to as usize);
            }
            Event::Ended(b) => {
                let worker = layout.worker_of[b as usize] as usize;
                play.busy[worker] = false;
                sent_after[b as usize].iter().for_each(|&t| play.send(now, t, bytes));
                followers[b as usize].iter().for_each(|&f| play.one_less(f));
                play.start(now, worker);
            }
        }
    }
    now
}

impl Play<'_> {
    fn make_ready(&mut self, block: u32) {
        let urgency = self.plan.graph.tail[block as usize];
        self.ready[self.layout.worker_of[block as usize] as usize].push((urgency, Reverse(block)));
    }

    fn one_less(&mut self, block: u32) {
        self.waits_for[block as usize] -= 1;
        if self.waits_for[block as usize] == 0 {
            self.make_ready(block);
        }
    }

    fn start(&mut self, now: u64, worker: usize) {
        if !self.busy[worker]
            && let Some((_, Reverse(block))) = self.ready[worker].pop()
        {
            self.busy[worker] = true;
            self.events.push(Reverse((now + self.plan.graph.cost(block as usize), Event::Ended(block))));
        }
    }

    fn send(&mut self, now: u64, t: u32, bytes: &dyn Fn(u32) -> u64) {
        let transfer = &self.layout.transfers[t as usize];
        let (from, to) = (transfer.from as usize, transfer.to as usize);
        let end = now.max(self.sends[from]).max(self.receives[to]) + transfer_cost(bytes(transfer.resource));
        self.sends[from] = end;
        self.receives[to] = end;
        self.events.push(Reverse((end, Event::Arrived(t))));
    }
}
