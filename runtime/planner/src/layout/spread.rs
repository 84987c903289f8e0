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

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::{Layout, Transfer, estimate};
use crate::options::Strategy;
use crate::plan::{Block, BlockGraph, Listed, Plan, Touched, unite_edges};

/// What several workers must promise over one.
const WORTHWHILE: f64 = 1.1;
/// How much more than its share of the work a worker may have,
const UNEVEN: f64 = 1.03;
/// and of the work of a level,
const UNEVEN_LEVEL: f64 = 1.1;
/// where that is at least so many accesses for each worker.
const WORTH_DEALING: u64 = 1024;
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
    /// The plan as workers run it: each block's iterations are one worker's.
    pub plan: Plan,
    /// What each transfer of the layout takes along.
    pub cargo: Vec<Cargo>,
    /// By shared capture and worker: the written elements that it owns, ascending.
    pub owned: Vec<Vec<Vec<u32>>>,
    /// By shared capture and worker: what it must hold when the loop begins. Perhaps more than that.
    pub needed: Vec<Vec<Vec<Range<usize>>>>,
}

/// Elements that travel together.
#[derive(Debug, PartialEq, Eq)]
pub struct Cargo {
    /// The shared capture, by its place among these.
    pub slot: usize,
    /// For each block that the transfer waits for: the elements that are whole when it ends. One list where it waits for none.
    pub pieces: Vec<Vec<u32>>,
}

impl Cargo {
    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.pieces.iter().map(Vec::len).sum()
    }

    /// Whether there is none.
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

/// Spreads a coloured plan over some of this many workers; none where one of them is about as fast. `element`: the bytes of an element
/// of a capture. `within_blocks`: whether no bits depend on where blocks begin, so that iterations may be dealt one by one.
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

/// The same over all of them, whatever comes of it. None where that can't be.
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
        Dealt::new(plan, &accesses, worker_of, within_blocks).layout(workers)
    };
    some.map(of).collect()
}

impl Spread {
    /// What a transfer moves. `element`: the bytes of an element of a capture.
    pub fn bytes_of(&self, transfer: u32, element: &dyn Fn(usize) -> u64) -> u64 {
        let cargo = &self.cargo[transfer as usize];
        cargo.len() as u64 * self.plan.shared.get(cargo.slot).map_or(0, |&capture| element(capture))
    }
}

/// What the iterations of a plan touch, in serial order. Elements of all shared DDSs are numbered together.
struct Accesses {
    /// Place of the first iteration in the plan.
    first: usize,
    /// `element << 1 | written`, iteration by iteration,
    entries: Vec<u32>,
    /// and where each iteration's begin, and the end.
    starts: Vec<u32>,
    /// Of each iteration.
    level: Vec<u32>,
    levels: usize,
    /// Of each element: the shared capture, and its index.
    elements: Vec<(u32, u32)>,
    /// Of each element: whether some iteration writes it.
    written: Vec<bool>,
}

impl Accesses {
    /// None where its blocks are not one behind the other, or have no iterations.
    fn of(plan: &Plan) -> Option<Accesses> {
        let (first, end) = (plan.blocks.first()?.start, plan.blocks.last()?.end);
        let behind = plan.blocks.windows(2).all(|two| two[0].end == two[1].start);
        if !behind || first == end || plan.listed.iter().any(|listed| listed.ends.len() < end) {
            return None;
        }
        let mut elements = Vec::new();
        let mut touched = Vec::new();
        for (slot, listed) in plan.listed.iter().enumerate() {
            let own = &listed.entries[listed.start(first)..listed.start(end)];
            let of_slot = Touched::of(own);
            touched.push((elements.len() as u32, of_slot));
            elements.extend(touched[slot].1.indices().map(|index| (slot as u32, index)));
        }
        let (mut entries, mut starts) = (Vec::new(), vec![0]);
        let mut written = vec![false; elements.len()];
        for place in first..end {
            for (listed, (base, touched)) in plan.listed.iter().zip(&touched) {
                for &entry in &listed.entries[listed.start(place)..listed.start(place + 1)] {
                    let element = base + touched.rank(entry >> 1) as u32;
                    written[element as usize] |= entry & 1 == 1;
                    entries.push(element << 1 | entry & 1);
                }
            }
            starts.push(u32::try_from(entries.len()).ok().filter(|&all| all < NOBODY / 2)?);
        }
        let of_block = levels(&plan.graph);
        let level = plan.blocks.iter().zip(&of_block);
        let level = level.flat_map(|(block, &level)| std::iter::repeat_n(level, block.end - block.start)).collect();
        let levels = of_block.iter().max().map_or(0, |&last| last as usize + 1);
        Some(Accesses { first, entries, starts, level, levels, elements, written })
    }

    fn iterations(&self) -> usize {
        self.starts.len() - 1
    }

    fn of_iteration(&self, i: usize) -> &[u32] {
        &self.entries[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    fn cost(&self, i: usize) -> u64 {
        1 + u64::from(self.starts[i + 1] - self.starts[i])
    }

    /// The elements of an iteration that are written, by it or by others.
    fn shared(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        self.of_iteration(i).iter().map(|&entry| (entry >> 1) as usize).filter(|&element| self.written[element])
    }

    /// All iterations, neighbours behind each other: one component after the other.
    fn breadth_first(&self) -> Vec<u32> {
        let n = self.iterations();
        let mut begins = vec![0u32; self.elements.len() + 1];
        (0..n).flat_map(|i| self.shared(i)).for_each(|element| begins[element + 1] += 1);
        for element in 0..self.elements.len() {
            begins[element + 1] += begins[element];
        }
        let mut next = begins.clone();
        let mut touching = vec![0u32; begins[self.elements.len()] as usize];
        for i in 0..n {
            for element in self.shared(i) {
                touching[next[element] as usize] = i as u32;
                next[element] += 1;
            }
        }
        let (mut seen, mut passed) = (vec![false; n], vec![false; self.elements.len()]);
        let mut order: Vec<u32> = Vec::with_capacity(n);
        for start in 0..n {
            if std::mem::replace(&mut seen[start], true) {
                continue;
            }
            let mut at = order.len();
            order.push(start as u32);
            while let Some(&i) = order.get(at) {
                at += 1;
                for element in self.shared(i as usize) {
                    if std::mem::replace(&mut passed[element], true) {
                        continue;
                    }
                    for &other in &touching[begins[element] as usize..begins[element + 1] as usize] {
                        if !std::mem::replace(&mut seen[other as usize], true) {
                            order.push(other);
                        }
                    }
                }
            }
        }
        order
    }

    /// A worker for each iteration, dealt in the order of the stream.
    fn deal(&self, stream: &[u32], workers: usize) -> Vec<u32> {
        let mut dealer = Dealer::new(self, workers);
        let mut worker_of = vec![0; self.iterations()];
        for &i in stream {
            let i = i as usize;
            worker_of[i] = dealer.deal(self, i..i + 1);
        }
        worker_of
    }

    /// A worker for each iteration, the same for all of a block. Blocks are dealt by where their iterations stand in the loop.
    fn deal_blocks(&self, plan: &Plan, workers: usize) -> Vec<u32> {
        let mut dealer = Dealer::new(self, workers);
        let mut worker_of = vec![0; self.iterations()];
        let middle = |block: &Block| plan.offset(block.start + (block.end - block.start) / 2);
        let mut stream: Vec<Block> = plan.blocks.iter().copied().filter(|block| block.start < block.end).collect();
        stream.sort_by_key(middle);
        for block in stream {
            let iterations = block.start - self.first..block.end - self.first;
            let worker = dealer.deal(self, iterations.clone());
            worker_of[iterations].fill(worker);
        }
        worker_of
    }
}

/// The level of each block.
fn levels(graph: &BlockGraph) -> Vec<u32> {
    let mut level = vec![0; graph.len()];
    for block in 0..graph.len() {
        for &follower in graph.followers(block) {
            level[follower as usize] = level[follower as usize].max(level[block] + 1);
        }
    }
    level
}

/// Linear deterministic greedy: iterations go where most of what they touch is, less so where there is little room left
/// (Stanton and Kliot, KDD 2012). Each level has a room of its own, since workers have to be busy on each.
struct Dealer {
    /// The room of a worker, and what is taken of it.
    room: f64,
    load: Vec<u64>,
    /// The same on each level.
    level_room: Vec<f64>,
    level_load: Vec<u64>,
    /// Where the iterations are that touch each element.
    home: Vec<u32>,
    /// How many of the elements in question are with each worker.
    near: Vec<u32>,
}

impl Dealer {
    fn new(accesses: &Accesses, workers: usize) -> Dealer {
        let mut of_level = vec![0u64; accesses.levels];
        (0..accesses.iterations()).for_each(|i| of_level[accesses.level[i] as usize] += accesses.cost(i));
        let all: u64 = of_level.iter().sum();
        let level_room = |&cost: &u64| match cost >= workers as u64 * WORTH_DEALING {
            true => cost as f64 * UNEVEN_LEVEL / workers as f64,
            false => f64::INFINITY,
        };
        Dealer {
            room: (all as f64 * UNEVEN / workers as f64).max(1.0),
            load: vec![0; workers],
            level_room: of_level.iter().map(level_room).collect(),
            level_load: vec![0; workers * accesses.levels],
            home: vec![NOBODY; accesses.elements.len()],
            near: vec![0; workers],
        }
    }

    fn deal(&mut self, accesses: &Accesses, iterations: Range<usize>) -> u32 {
        let workers = self.load.len();
        let level = accesses.level[iterations.start] as usize;
        for element in iterations.clone().flat_map(|i| accesses.shared(i)) {
            if let Some(near) = self.near.get_mut(self.home[element] as usize) {
                *near += 1;
            }
        }
        let left = |w: usize| {
            let all = 1.0 - self.load[w] as f64 / self.room;
            all.min(1.0 - self.level_load[level * workers + w] as f64 / self.level_room[level])
        };
        let score = |w: usize| match left(w) {
            left if left > 0.0 => f64::from(self.near[w]) * left,
            left => left - 1.0,
        };
        let better = |best: usize, w: usize| match score(w).total_cmp(&score(best)) {
            std::cmp::Ordering::Equal => (self.load[w], w) < (self.load[best], best),
            order => order.is_gt(),
        };
        let worker = (1..workers).fold(0, |best, w| if better(best, w) { w } else { best });
        let cost: u64 = iterations.clone().map(|i| accesses.cost(i)).sum();
        self.load[worker] += cost;
        self.level_load[level * workers + worker] += cost;
        for i in iterations {
            for &entry in accesses.of_iteration(i) {
                let home = &mut self.home[(entry >> 1) as usize];
                if entry & 1 == 1 || *home == NOBODY {
                    *home = worker as u32;
                }
            }
        }
        self.near.fill(0);
        worker as u32
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
    fn new(whole: &'p Plan, accesses: &'p Accesses, worker_of: Vec<u32>, within_blocks: bool) -> Dealt<'p> {
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
        for i in 0..n {
            for element in accesses.shared(i) {
                crosses[element] |= toucher[element] != NOBODY && toucher[element] != worker_of[i];
                toucher[element] = worker_of[i];
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
            offsets: self.order.iter().map(|&i| whole.offsets[first + i as usize]).collect(),
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

/// Which blocks write each element.
struct Writers<'d> {
    dealt: &'d Dealt<'d>,
    begins: Vec<u32>,
    blocks: Vec<u32>,
}

impl<'d> Writers<'d> {
    fn new(dealt: &'d Dealt<'d>) -> Writers<'d> {
        let elements = dealt.accesses.elements.len();
        let each = |f: &mut dyn FnMut(usize, usize)| {
            for block in 0..dealt.blocks() {
                dealt.entries(block).filter(|entry| entry & 1 == 1).for_each(|entry| f((entry >> 1) as usize, block));
            }
        };
        let mut begins = vec![0u32; elements + 1];
        each(&mut |element, _| begins[element + 1] += 1);
        for element in 0..elements {
            begins[element + 1] += begins[element];
        }
        let mut next = begins.clone();
        let mut blocks = vec![0; begins[elements] as usize];
        each(&mut |element, block| {
            blocks[next[element] as usize] = block as u32;
            next[element] += 1;
        });
        Writers { dealt, begins, blocks }
    }

    /// In serial order.
    fn of(&self, element: usize) -> &[u32] {
        &self.blocks[self.begins[element] as usize..self.begins[element + 1] as usize]
    }

    fn owner(&self, element: usize) -> Option<u32> {
        self.of(element).last().map(|&block| self.dealt.worker_of[block as usize])
    }
}

/// Chains of blocks, each a place in `links` of (block, older place).
#[derive(Default)]
struct Chains {
    links: Vec<(u32, u32)>,
}

impl Chains {
    fn push(&mut self, head: &mut u32, block: u32) {
        if *head == NOBODY || self.links[*head as usize].0 != block {
            self.links.push((block, *head));
            *head = self.links.len() as u32 - 1;
        }
    }

    fn drain(&self, head: &mut u32, mut f: impl FnMut(u32)) {
        while *head != NOBODY {
            let (block, older) = self.links[*head as usize];
            f(block);
            *head = older;
        }
    }
}

/// Which blocks wait for which, by the elements that they touch.
struct Edges {
    edges: Vec<(u32, u32)>,
    /// Of each element: the pass that saw it last, who wrote it last then, and who has read it since.
    seen: Vec<(u32, u32, u32)>,
    pass: u32,
}

impl Edges {
    fn new(elements: usize) -> Edges {
        Edges { edges: Vec::new(), seen: vec![(0, NOBODY, NOBODY); elements], pass: 0 }
    }

    /// The order of these blocks among each other.
    fn add(&mut self, dealt: &Dealt<'_>, blocks: impl Iterator<Item = usize>) {
        self.pass += 1;
        let mut chains = Chains::default();
        for block in blocks {
            let (b, from) = (block as u32, self.edges.len());
            for entry in dealt.entries(block) {
                let element = (entry >> 1) as usize;
                if !dealt.accesses.written[element] {
                    continue;
                }
                let seen = &mut self.seen[element];
                if seen.0 != self.pass {
                    *seen = (self.pass, NOBODY, NOBODY);
                }
                let edges = &mut self.edges;
                if seen.1 != NOBODY && seen.1 != b {
                    edges.push((seen.1, b));
                }
                if entry & 1 == 1 {
                    chains.drain(&mut seen.2, |reader| edges.extend((reader != b).then_some((reader, b))));
                    seen.1 = b;
                } else {
                    chains.push(&mut seen.2, b);
                }
            }
            unite_edges(&mut self.edges, from);
        }
    }
}

/// What a worker has of an element.
#[derive(Clone, Copy)]
struct Have {
    /// Versions are numbered by the writes so far; `NOBODY`: it has none.
    version: u32,
    /// The transfer that brought it.
    brought: u32,
    /// The blocks that use this memory since it was last overwritten.
    used: u32,
}

/// A transfer that is being made.
struct Arriving {
    before: Vec<u32>,
    behind: Vec<u32>,
    /// Of each block that makes some of them, or nobody.
    pieces: BTreeMap<u32, Vec<u32>>,
}

/// One worker's blocks in their order, and what they need of others.
struct Receiver<'d> {
    dealt: &'d Dealt<'d>,
    writers: &'d Writers<'d>,
    worker: u32,
    have: Vec<Option<Have>>,
    /// How many writers of each element were passed.
    passed: Vec<u32>,
    chains: Chains,
    /// By level (0 for what stands when the loop begins, else one more), worker and slot.
    numbers: BTreeMap<(u32, u32, u32), u32>,
    arriving: Vec<Arriving>,
}

impl<'d> Receiver<'d> {
    fn new(dealt: &'d Dealt<'d>, writers: &'d Writers<'d>, worker: u32) -> Self {
        let elements = dealt.accesses.elements.len();
        Receiver {
            dealt,
            writers,
            worker,
            have: vec![None; elements],
            passed: vec![0; elements],
            chains: Chains::default(),
            numbers: BTreeMap::new(),
            arriving: Vec::new(),
        }
    }

    fn run(&mut self, block: usize) {
        let dealt = self.dealt;
        for entry in dealt.entries(block) {
            let element = (entry >> 1) as usize;
            if dealt.accesses.written[element] {
                self.touch(block as u32, element, entry & 1 == 1);
            }
        }
    }

    fn touch(&mut self, block: u32, element: usize, write: bool) {
        let writers = self.writers.of(element);
        let passed = &mut self.passed[element];
        while writers.get(*passed as usize).is_some_and(|&writer| writer < block) {
            *passed += 1;
        }
        let version = *passed;
        let begins = if self.writers.owner(element) == Some(self.worker) { 0 } else { NOBODY };
        let mut have = self.have[element].unwrap_or(Have { version: begins, brought: NOBODY, used: NOBODY });
        if have.version != version {
            let by = version.checked_sub(1).map(|last| writers[last as usize]);
            let arriving = self.bring(element, by);
            let brought = &mut self.arriving[arriving as usize];
            self.chains.drain(&mut have.used, |user| brought.behind.push(user));
            (have.version, have.brought) = (version, arriving);
        }
        if let Some(arriving) = self.arriving.get_mut(have.brought as usize)
            && arriving.before.last() != Some(&block)
        {
            arriving.before.push(block);
        }
        if write {
            // What the worker itself did before has ended before this block starts.
            have = Have { version: version + 1, brought: NOBODY, used: NOBODY };
        }
        self.chains.push(&mut have.used, block);
        self.have[element] = Some(have);
    }

    /// The transfer that brings an element as this block leaves it, or as it stands when the loop begins.
    fn bring(&mut self, element: usize, by: Option<u32>) -> u32 {
        let (slot, index) = self.dealt.accesses.elements[element];
        let from = match by {
            Some(block) => self.dealt.worker_of[block as usize],
            None => self.writers.owner(element).unwrap_or(0),
        };
        let level = by.map_or(0, |block| 1 + self.dealt.level[block as usize]);
        let next = self.arriving.len() as u32;
        let number = *self.numbers.entry((level, from, slot)).or_insert(next);
        if number == next {
            let (before, behind, pieces) = (Vec::new(), Vec::new(), BTreeMap::new());
            self.arriving.push(Arriving { before, behind, pieces });
        }
        self.arriving[number as usize].pieces.entry(by.unwrap_or(NOBODY)).or_default().push(index);
        number
    }

    fn finish(self) -> impl Iterator<Item = (Transfer, Cargo)> {
        let mut arriving: Vec<Option<Arriving>> = self.arriving.into_iter().map(Some).collect();
        let to = self.worker;
        let of = move |((_, from, slot), number): ((u32, u32, u32), u32)| {
            let Arriving { mut before, mut behind, pieces } = arriving[number as usize].take()?;
            for blocks in [&mut before, &mut behind] {
                blocks.sort_unstable();
                blocks.dedup();
            }
            let after = pieces.keys().copied().filter(|&block| block != NOBODY).collect();
            let mut pieces: Vec<Vec<u32>> = pieces.into_values().collect();
            pieces.iter_mut().for_each(|piece| piece.sort_unstable());
            let transfer = Transfer { resource: 0, from, to, after, before, behind, copy: true };
            Some((transfer, Cargo { slot: slot as usize, pieces }))
        };
        self.numbers.into_iter().filter_map(of)
    }
}
