//! A coloured plan on several workers, which share it out element by element.
//!
//! A streaming partitioner deals the iterations to workers. It decides who runs what and nothing else: iterations that
//! conflict keep their order, so each sees the values that it sees in one process.
//!
//! Blocks stand on *levels*: a block's level is the length of the longest chain of blocks that it waits for. Blocks of one
//! level don't conflict, so what a worker makes on a level goes to another worker in one message. Whatever waits for the message
//! stands on a later level, and what must have ended before it may be put in place on an earlier one: so nothing waits in a circle.
//!
//! Each element that is written has an owner, the worker that writes it last. There it is when the loop begins and when it ends.

mod deal;
mod receive;

use std::ops::Range;
use std::sync::Arc;

use self::deal::{Accesses, levels};
use self::receive::{Edges, Receiver, Writers};
use super::{Layout, Transfer, estimate};
use crate::options::Strategy;
use crate::plan::{Block, BlockGraph, Listed, Plan};

/// What several workers must promise over one.
const WORTHWHILE: f64 = 1.1;
/// Iterations of a block, where these may be dealt one by one, and how many blocks a worker has of each kind on a level at most.
const WORTH_A_BLOCK: usize = 512;
const MOST_BLOCKS: usize = 16;
/// Elements between two that are needed are fetched along with them where they are no more than this,
const BRIDGED: usize = 64;
/// and all where there would be more ranges than this.
const MOST_RANGES: usize = 1024;

const NOBODY: u32 = u32::MAX;

/// How a coloured plan is spread over workers.
#[derive(Debug)]
pub struct Spread {
    /// The plan as workers run it: all iterations of a block are on one worker.
    pub plan: Plan,
    /// The elements of each transfer of the layout.
    pub cargo: Vec<Cargo>,
    /// For each shared capture and worker: the written elements that the worker owns, in ascending order.
    pub owned: Vec<Vec<Vec<u32>>>,
    /// For each shared capture and worker: ranges with all that the worker must hold when the loop begins.
    pub needed: Vec<Vec<Vec<Range<usize>>>>,
}

/// Elements that travel together.
#[derive(Debug, PartialEq, Eq)]
pub struct Cargo {
    /// The shared capture, by its place among these.
    pub slot: usize,
    /// For each block that the transfer waits for: the elements that are complete when the block ends. A single list if it waits
    /// for none.
    pub pieces: Vec<Vec<u32>>,
}

impl Cargo {
    /// The number of elements.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Spread {
    fn eq(&self, other: &Spread) -> bool {
        self.plan.blocks == other.plan.blocks
            && self.plan.offsets == other.plan.offsets
            && (&self.cargo, &self.owned, &self.needed) == (&other.cargo, &other.owned, &other.needed)
    }
}

impl Eq for Spread {}

/// Spreads a coloured plan over some of this many workers, or returns `None` if one worker is about as fast. `element`: the bytes
/// of an element of a capture. `within_blocks`: whether no bits depend on where blocks begin, so that iterations may be dealt one
/// by one.
pub fn spread(plan: &Plan, workers: usize, element: &dyn Fn(usize) -> u64, within_blocks: bool) -> Option<Layout> {
    let mut best: Option<(u64, Layout)> = None;
    // Fewer of them may be faster: they send less.
    let fewer = std::iter::successors(Some(workers), |some| Some(some / 2)).take_while(|&some| some > 1);
    for layout in all(plan, workers, fewer, within_blocks) {
        let Some(spread) = &layout.spread else { continue };
        let cost = estimate::cost(plan, &layout, &|transfer| spread.bytes_of(transfer, element));
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, layout));
        }
    }
    let enough = |cost: u64| cost as f64 * WORTHWHILE <= plan.graph.work() as f64;
    best.filter(|(cost, _)| enough(*cost)).map(|(_, layout)| layout)
}

/// The same over all workers, even if that isn't faster. `None` if it isn't possible.
pub fn spread_over_all(plan: &Plan, workers: usize, within_blocks: bool) -> Option<Layout> {
    all(plan, workers, std::iter::once(workers), within_blocks).pop()
}

/// The layouts of this many workers that use some of them only.
fn all(plan: &Plan, workers: usize, some: impl Iterator<Item = usize>, within_blocks: bool) -> Vec<Layout> {
    if plan.strategy != Strategy::Coloured || workers < 2 || plan.has_alone() || plan.strata.blocks() > 0 {
        return Vec::new();
    }
    let Some(accesses) = Accesses::of(plan) else { return Vec::new() };
    let stream = if within_blocks { accesses.breadth_first() } else { Vec::new() };
    let of = |some: usize| {
        let worker_of = if within_blocks { accesses.deal(&stream, some) } else { accesses.deal_blocks(plan, some) };
        Dealt::new(plan, &accesses, &worker_of, within_blocks).layout(workers)
    };
    some.map(of).collect()
}

impl Spread {
    /// The bytes that a transfer moves. `element`: the bytes of an element of a capture.
    pub fn bytes_of(&self, transfer: u32, element: &dyn Fn(usize) -> u64) -> u64 {
        let cargo = &self.cargo[transfer as usize];
        cargo.len() as u64 * self.plan.shared.get(cargo.slot).map_or(0, |&capture| element(capture))
    }
}

/// A plan whose iterations are dealt.
struct Dealt<'p> {
    whole: &'p Plan,
    accesses: &'p Accesses,
    /// Iterations in their new serial order, and where blocks begin in it, and the end.
    order: Vec<u32>,
    starts: Vec<usize>,
    /// Of each block.
    worker_of: Vec<u32>,
    level: Vec<u32>,
}

impl<'p> Dealt<'p> {
    fn new(whole: &'p Plan, accesses: &'p Accesses, worker_of: &[u32], within_blocks: bool) -> Dealt<'p> {
        let n = accesses.iterations();
        if !within_blocks {
            let first = accesses.first;
            let of_block = |block: &Block| worker_of.get(block.start - first).copied().unwrap_or(0);
            let starts = whole.blocks.iter().map(|block| block.start - first).chain([n]).collect();
            let level = levels(&whole.graph);
            let worker_of = whole.blocks.iter().map(of_block).collect();
            return Dealt { whole, accesses, order: (0..n as u32).collect(), starts, worker_of, level };
        }
        // What crosses borders comes first, so that it is sent while the rest runs.
        let mut toucher = vec![NOBODY; accesses.elements.len()];
        let mut crosses = vec![false; accesses.elements.len()];
        for (i, &worker) in worker_of.iter().enumerate() {
            for element in accesses.shared(i) {
                crosses[element] |= toucher[element] != NOBODY && toucher[element] != worker;
                toucher[element] = worker;
            }
        }
        let key = |i: u32| {
            let inside = !accesses.shared(i as usize).any(|element| crosses[element]);
            (accesses.level[i as usize], worker_of[i as usize], inside)
        };
        let keys: Vec<(u32, u32, bool)> = (0..n as u32).map(key).collect();
        let mut order: Vec<u32> = (0..n as u32).collect();
        order.sort_by_key(|&i| keys[i as usize]);
        let (mut starts, mut workers, mut level) = (Vec::new(), Vec::new(), Vec::new());
        let mut from = 0;
        for run in order.chunk_by(|&a, &b| keys[a as usize] == keys[b as usize]) {
            let blocks = (run.len() / WORTH_A_BLOCK).clamp(1, MOST_BLOCKS);
            let (at, worker, _) = keys[run[0] as usize];
            for b in 0..blocks {
                starts.push(from + run.len() * b / blocks);
                workers.push(worker);
                level.push(at);
            }
            from += run.len();
        }
        starts.push(n);
        Dealt { whole, accesses, order, starts, worker_of: workers, level }
    }

    fn blocks(&self) -> usize {
        self.worker_of.len()
    }

    /// What a block touches.
    fn entries(&self, block: usize) -> impl Iterator<Item = u32> + '_ {
        let iterations = &self.order[self.starts[block]..self.starts[block + 1]];
        iterations.iter().flat_map(|&i| self.accesses.of_iteration(i as usize).iter().copied())
    }

    fn layout(self, workers: usize) -> Layout {
        let writers = Writers::new(&self);
        let mut graph = Edges::new(self.accesses.elements.len());
        graph.add(&self, 0..self.blocks());
        let mut owned = self.by_slot_and_worker(workers);
        let mut needed = self.by_slot_and_worker(workers);
        let mut transfers = Vec::new();
        let mut cargo = Vec::new();
        let mut loads = vec![0u64; workers];
        for worker in 0..workers as u32 {
            let own = || (0..self.blocks()).filter(|&b| self.worker_of[b] == worker);
            graph.add(&self, own());
            let mut receiver = Receiver::new(&self, &writers, worker);
            own().for_each(|block| receiver.run(block));
            for (transfer, carried) in receiver.finish() {
                // The number of what it carries is its own.
                transfers.push(Transfer { resource: transfers.len() as u32, ..transfer });
                cargo.push(carried);
            }
            for element in (0..self.accesses.elements.len()).filter(|&element| writers.owner(element) == Some(worker)) {
                let (slot, index) = self.accesses.elements[element];
                owned[slot as usize][worker as usize].push(index);
            }
            let mut held: Vec<u32> = own().flat_map(|b| self.entries(b).map(|entry| entry >> 1)).collect();
            held.retain(|&element| writers.owner(element as usize).is_none_or(|owner| owner == worker));
            held.sort_unstable();
            for &element in &held {
                let (slot, index) = self.accesses.elements[element as usize];
                bridge(&mut needed[slot as usize][worker as usize], index as usize);
            }
            loads[worker as usize] = own().map(|b| self.cost(b)).sum();
        }
        needed.iter_mut().flatten().for_each(unite_many);
        let plan = self.plan(graph.edges);
        let worker_of = self.worker_of;
        let spread = Some(Arc::new(Spread { plan, cargo, owned, needed }));
        let (holders, readers, first_writer) = (Vec::new(), Vec::new(), Vec::new());
        Layout { workers, worker_of, transfers, holders, readers, first_writer, loads, spread }
    }

    fn by_slot_and_worker<T: Clone>(&self, workers: usize) -> Vec<Vec<Vec<T>>> {
        vec![vec![Vec::new(); workers]; self.whole.listed.len()]
    }

    fn cost(&self, block: usize) -> u64 {
        self.order[self.starts[block]..self.starts[block + 1]].iter().map(|&i| self.accesses.cost(i as usize)).sum()
    }

    /// The plan with its iterations in their new order. Chains that lead from worker to worker are longer by what transfers cost.
    fn plan(&self, edges: Vec<(u32, u32)>) -> Plan {
        let (whole, first) = (self.whole, self.accesses.first);
        let listed = |old: &Listed| {
            let mut listed = Listed::default();
            for &i in &self.order {
                let place = first + i as usize;
                listed.entries.extend_from_slice(&old.entries[old.start(place)..old.start(place + 1)]);
                listed.ends.push(listed.entries.len() as u32);
            }
            listed
        };
        let mut graph = BlockGraph::from_edges((0..self.blocks()).map(|b| self.cost(b)).collect(), edges);
        for b in (0..graph.len()).rev() {
            let behind = |&follower: &u32| {
                let here = self.worker_of[b] == self.worker_of[follower as usize];
                graph.tail[follower as usize] + if here { 0 } else { estimate::TRANSFER_COST }
            };
            graph.tail[b] = graph.cost(b) + graph.followers(b).iter().map(behind).max().unwrap_or(0);
        }
        Plan {
            strategy: whole.strategy,
            usage: whole.usage.clone(),
            blocks: self.starts.windows(2).map(|ends| Block { start: ends[0], end: ends[1] }).collect(),
            offsets: self.order.iter().map(|&i| whole.offsets[first + i as usize]).collect::<Vec<u32>>().into(),
            graph,
            listed: whole.listed.iter().map(listed).collect(),
            shared: whole.shared.clone(),
            fields: whole.fields.clone(),
            sparse: whole.sparse.clone(),
            global: if self.blocks() == whole.blocks.len() { whole.global.clone() } else { Vec::new() },
            ..Plan::serial(whole.range.clone(), whole.usage.len(), whole.facts.clone())
        }
    }
}

/// Adds an element to ranges that ascend.
fn bridge(ranges: &mut Vec<Range<usize>>, index: usize) {
    match ranges.last_mut() {
        Some(last) if index < last.end => {}
        Some(last) if index - last.end <= BRIDGED => last.end = index + 1,
        _ => ranges.push(index..index + 1),
    }
}

fn unite_many(ranges: &mut Vec<Range<usize>>) {
    if let (Some(first), Some(last)) = (ranges.first(), ranges.last())
        && ranges.len() > MOST_RANGES
    {
        let all = first.start..last.end;
        ranges.clear();
        ranges.push(all);
    }
}
