//! What the iterations of a coloured plan touch, and which worker each is dealt to.

use std::ops::Range;

use super::NOBODY;
use crate::plan::{Block, BlockGraph, Plan, Touched};

/// How much more than its share of the work a worker may have,
const UNEVEN: f64 = 1.03;
/// and of the work of a level,
const UNEVEN_LEVEL: f64 = 1.1;
/// where that is at least this many accesses for each worker.
const WORTH_DEALING: u64 = 1024;

/// What the iterations of a plan touch, in serial order. Elements of all shared DDSs are numbered together.
pub(super) struct Accesses {
    /// Place of the first iteration in the plan.
    pub(super) first: usize,
    /// `element << 1 | written`, iteration by iteration,
    entries: Vec<u32>,
    /// and where each iteration's begin, and the end.
    starts: Vec<u32>,
    /// Of each iteration.
    pub(super) level: Vec<u32>,
    levels: usize,
    /// Of each element: the shared capture, and its index.
    pub(super) elements: Vec<(u32, u32)>,
    /// Of each element: whether some iteration writes it.
    pub(super) written: Vec<bool>,
}

impl Accesses {
    /// None where its blocks are not one behind the other, or have no iterations.
    pub(super) fn of(plan: &Plan) -> Option<Accesses> {
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

    pub(super) fn iterations(&self) -> usize {
        self.starts.len() - 1
    }

    pub(super) fn of_iteration(&self, i: usize) -> &[u32] {
        &self.entries[self.starts[i] as usize..self.starts[i + 1] as usize]
    }

    pub(super) fn cost(&self, i: usize) -> u64 {
        1 + u64::from(self.starts[i + 1] - self.starts[i])
    }

    /// The elements of an iteration that are written, by it or by others.
    pub(super) fn shared(&self, i: usize) -> impl Iterator<Item = usize> + '_ {
        self.of_iteration(i).iter().map(|&entry| (entry >> 1) as usize).filter(|&element| self.written[element])
    }

    /// All iterations, neighbours behind each other: one component after the other.
    pub(super) fn breadth_first(&self) -> Vec<u32> {
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
    pub(super) fn deal(&self, stream: &[u32], workers: usize) -> Vec<u32> {
        let mut dealer = Dealer::new(self, workers);
        let mut worker_of = vec![0; self.iterations()];
        for &i in stream {
            let i = i as usize;
            worker_of[i] = dealer.deal(self, i..i + 1);
        }
        worker_of
    }

    /// A worker for each iteration, the same for all of a block. Blocks are dealt by where their iterations stand in the loop.
    pub(super) fn deal_blocks(&self, plan: &Plan, workers: usize) -> Vec<u32> {
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
pub(super) fn levels(graph: &BlockGraph) -> Vec<u32> {
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
