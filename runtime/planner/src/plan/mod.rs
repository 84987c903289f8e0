//! Plans: which iterations form a block, in which serial order the blocks stand, and which must wait for which.
//!
//! A plan is a function of the recording and of the loop's options, never of the number of threads: that is
//! what makes the bits the same however many there are.

mod aligned;
mod alone;
pub mod beforehand;
mod colour;
pub(crate) mod cut;
mod cyclic;
mod dot;
mod graph;
mod group;
mod lattice;
mod make;
mod offsets;
mod order;
pub mod outline;
mod part;
mod preserve;
mod sort;
mod strata;
mod surveyed;
mod tiles;
mod windows;

use std::ops::Range;
use std::sync::Arc;

pub use colour::Listed;
pub(crate) use colour::Touched;
pub use cut::{Cut, MAX_PARTS};
pub(crate) use graph::unite_edges;
pub use graph::{BlockGraph, Touch};
pub use group::Parts;
pub(crate) use group::dense;
pub use lattice::Numbering;
pub use make::{of_table, plan};
pub use offsets::{Bring, Offsets, are_neighbours};
pub(crate) use sort::interleaved;
pub use strata::Strata;
pub use surveyed::{Away, surveyed};
pub use tiles::{Band, READS, Reach, Run, TOGETHER, Tiles, Window};
pub use windows::{Windows, are_in_rows};

use crate::options::Strategy;
use crate::recording::IndexFields;
use crate::recording::Usage;

/// The iterations of one block: places in `Plan::offsets`, or offsets themselves where that is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// The first place.
    pub start: usize,
    /// The place behind the last.
    pub end: usize,
}

/// The plan of a loop.
#[derive(Debug)]
pub struct Plan {
    /// How the plan finds parallelism.
    pub strategy: Strategy,
    /// The loop's indices.
    pub range: Range<usize>,
    /// For each capture: how the loop uses it.
    pub usage: Vec<Usage>,
    /// In serial order.
    pub blocks: Vec<Block>,
    /// Where a clock had a say in the blocks: how many there are by the data alone. Each of those is some whole blocks.
    pub(crate) by_data: Option<usize>,
    /// Offsets of iterations from the first, in serial order; empty where that is the loop's own, and of tiles.
    pub offsets: Offsets,
    /// The iterations of blocks that are tiles.
    pub tiles: Option<Tiles>,
    /// Which blocks wait for which.
    pub graph: BlockGraph,
    /// By parts: the cut, and what each block touches.
    pub parts: Option<Parts>,
    pub(crate) touch_starts: Vec<u32>,
    pub(crate) touches: Vec<Touch>,
    /// In a plan of single iterations: the accesses to each shared capture, in the order of `Recording::shared`.
    pub listed: Vec<Listed>,
    /// The captures that are shared and written.
    pub shared: Vec<usize>,
    /// What iterations without conflicts write of these.
    pub(crate) windows: Vec<Windows>,
    /// For each capture: the fields in which an iteration's indices of it stand.
    pub fields: Vec<Option<IndexFields>>,
    /// For each shared capture: whether so few of its elements are touched that saving whole parts would be waste.
    pub(crate) sparse: Vec<bool>,
    /// Empty unless the loop has relaxed state.
    pub strata: Arc<Strata>,
    /// Of a share of a plan: the blocks' places in the whole plan's serial order.
    pub global: Vec<u32>,
    /// The blocks that may touch anything, ascending: see [`Plan::with_alone`].
    pub(crate) alone: Vec<u32>,
    /// What reports say about the plan.
    pub facts: Facts,
}

/// What reports say about a plan.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// How many colours a coloured plan has.
    pub colours: usize,
    /// The captures that are cut, and into how many parts each.
    pub parts: Vec<(usize, usize)>,
    /// The DDSs that make iterations conflict.
    pub hot: Vec<HotDds>,
    /// Why the plan is as it is.
    pub reason: String,
    /// How many iterations ended early while the loop was recorded.
    pub cut_short: usize,
    /// The capture of which iterations touch other elements each time that they are recorded.
    pub changing: Option<usize>,
    /// Whether the parts that the loop asks for leave more groups of iterations than a plan may have.
    pub too_many_groups: bool,
    /// Whether the iterations make so few accesses that they seem too short to be shared out.
    pub short: bool,
    /// The most bytes that recording and plan took together.
    pub peak_bytes: usize,
    /// How many accesses iterations make to shared DDSs.
    pub accesses: usize,
    /// The capture of which iterations reach the same elements again and again, and how often each.
    pub repeated: Option<(usize, f64)>,
    /// Whether the accesses were computed from the data.
    pub inferred: bool,
    /// Whether the blocks' order is a rotation (see `cyclic`).
    pub rotation: bool,
    /// The captures that the loop only adds to, in an order, and that could be added up in tallies.
    pub addable: Vec<usize>,
    /// The captures whose additions are enough for their tallies to have all elements.
    pub summed_up_whole: Vec<usize>,
}

/// A DDS that makes iterations conflict, and the elements that most iterations touch.
#[derive(Debug, Clone)]
pub struct HotDds {
    /// Which capture.
    pub capture: usize,
    /// How many accesses iterations make to the DDS.
    pub accesses: usize,
    /// Index, and how many iterations touch it.
    pub elements: Vec<(usize, u32)>,
    /// How many iterations write each of them.
    pub written: Vec<u32>,
    /// Whether these numbers are estimated from a sample.
    pub estimated: bool,
}

impl Plan {
    /// The parts that a block touches.
    pub fn touches(&self, block: usize) -> &[Touch] {
        match self.touch_starts.get(block..block + 2) {
            Some(ends) => &self.touches[ends[0] as usize..ends[1] as usize],
            None => &[],
        }
    }

    /// The capture of which a resource is a part, and its elements.
    pub fn part(&self, resource: u32) -> Option<(usize, Range<usize>)> {
        let parts = self.parts.as_ref()?;
        let (slot, part) = parts.part_of(resource);
        let bounds = &parts.cuts[slot].bounds;
        Some((parts.captures[slot], bounds[part]..bounds[part + 1]))
    }

    /// The bytes of the plan's lists, which grow with the loop.
    pub fn bytes(&self) -> usize {
        let listed = self.listed.iter().map(|listed| listed.entries.len() + listed.ends.len()).sum::<usize>();
        let touches = self.touch_starts.len() + 2 * self.touches.len();
        let runs = self.tiles.as_ref().map_or(0, |tiles| size_of::<Run>() * tiles.runs.len());
        4 * (self.offsets.len() + listed + touches + self.graph.edges()) + runs
    }

    /// Whether the elements of a capture are saved one by one as they are changed.
    pub fn is_sparse(&self, capture: usize) -> bool {
        self.shared.iter().zip(&self.sparse).any(|(&c, &sparse)| c == capture && sparse)
    }

    /// A block's place in the whole plan's serial order.
    pub fn number(&self, block: usize) -> usize {
        self.global.get(block).map_or(block, |&global| global as usize)
    }

    /// Cuts the serial order into strata, for a loop with relaxed state, and makes blocks wait for the additions that they see.
    pub fn stratify(&mut self, staleness: Option<usize>) {
        let parts = self.parts.iter().flat_map(|parts| &parts.cuts).map(Cut::parts).max();
        let strata = Strata::new(&self.graph, parts.unwrap_or(0), staleness);
        self.graph.add_edges(strata.edges(&self.graph));
        self.strata = Arc::new(strata);
    }

    /// Whether the serial order is the loop's own.
    pub fn keeps_order(&self) -> bool {
        self.offsets.is_empty() && self.tiles.is_none()
    }

    /// The offset from the first iteration of the iteration at a place in the serial order.
    pub fn offset(&self, place: usize) -> usize {
        let Some(tiles) = &self.tiles else {
            return self.offsets.get(place).map_or(place, |&offset| offset as usize);
        };
        let block = self.blocks.partition_point(|block| block.end <= place);
        let mut within = place - self.blocks[block].start;
        for run in tiles.of(block) {
            let rows = run.rows as usize;
            if within < run.iterations() {
                return run.offset as usize + within / rows + within % rows * run.stride as usize;
            }
            within -= run.iterations();
        }
        unreachable!("a block has as many iterations as its runs")
    }

    /// The same blocks with those of their iterations alone that are in `range`; some may have none. None where that is no
    /// part of the plan's, or the blocks are no runs of the loop's order without an order among them.
    pub fn within(&self, range: &Range<usize>) -> Option<Plan> {
        let is_part = self.range.start <= range.start && range.start <= range.end && range.end <= self.range.end;
        let (first, end) = (range.start.wrapping_sub(self.range.start), range.end.wrapping_sub(self.range.start));
        if !is_part || !windows::are_runs(self) || first % windows::each(&self.windows) != 0 {
            return None;
        }
        let blocks = windows::clamped(&self.blocks, first, end);
        let left = |b: usize| {
            let (block, all) = (blocks[b], self.blocks[b].end - self.blocks[b].start);
            self.graph.cost(b) * (block.end - block.start) as u64 / all.max(1) as u64
        };
        let part = Plan {
            strategy: self.strategy,
            usage: self.usage.clone(),
            graph: BlockGraph::from_edges((0..blocks.len()).map(left).collect(), Vec::new()),
            blocks,
            fields: self.fields.clone(),
            strata: Arc::clone(&self.strata),
            global: self.global.clone(),
            ..Plan::serial(range.clone(), self.usage.len(), self.facts.clone())
        };
        Some(part.with_windows(self.windows_behind(first)))
    }

    /// A plan that runs the loop's own order in one block. Views may own everything, recorded or not.
    pub fn serial(range: Range<usize>, captures: usize, facts: Facts) -> Plan {
        let n = range.len();
        Plan {
            strategy: Strategy::Serial,
            usage: vec![Usage::Shared; captures],
            blocks: vec![Block { start: 0, end: n }],
            by_data: None,
            offsets: Offsets::default(),
            tiles: None,
            graph: BlockGraph::from_edges(vec![(n + facts.accesses) as u64], Vec::new()),
            parts: None,
            touch_starts: Vec::new(),
            touches: Vec::new(),
            listed: Vec::new(),
            shared: Vec::new(),
            windows: Vec::new(),
            fields: vec![None; captures],
            sparse: Vec::new(),
            strata: Arc::default(),
            global: Vec::new(),
            alone: Vec::new(),
            facts,
            range,
        }
    }
}

impl Plan {
    /// A grid of blocks of one iteration each that touch these parts, over DDSs of this many parts of 8 elements: what
    /// layouts and dispatchers are tried with.
    pub fn of_touches(parts: &[usize], cost: Vec<u64>, touches: &[Vec<Touch>]) -> Plan {
        let cuts = parts.iter().map(|&parts| Cut { bounds: (0..=parts).map(|k| 8 * k).collect() }).collect();
        let parts = Parts::new((0..parts.len()).collect(), cuts);
        let mut touch_starts = vec![0u32];
        for block in touches {
            touch_starts.push(touch_starts[touch_starts.len() - 1] + block.len() as u32);
        }
        Plan {
            strategy: Strategy::Grid,
            blocks: (0..touches.len()).map(|b| Block { start: b, end: b + 1 }).collect(),
            graph: BlockGraph::from_touches(cost, parts.resources(), touches.iter().map(Vec::as_slice)),
            touch_starts,
            touches: touches.concat(),
            shared: parts.captures.clone(),
            parts: Some(parts),
            ..Plan::serial(0..touches.len(), 0, Facts::default())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_range_keeps_the_blocks_numbers() {
        let blocks = (0..4).map(|b| Block { start: 10 * b, end: 10 * (b + 1) }).collect();
        let graph = BlockGraph::from_edges(vec![50; 4], Vec::new());
        let whole = Plan { blocks, graph, ..Plan::serial(100..140, 0, Facts::default()) };
        let part = whole.within(&(115..130)).unwrap();
        let ends: Vec<_> = part.blocks.iter().map(|block| (block.start, block.end)).collect();
        assert_eq!((part.range, ends), (115..130, vec![(0, 0), (0, 5), (5, 15), (15, 15)]));
        assert_eq!((part.graph.work(), part.graph.cost(1)), (75, 25));
        for outside in [90..120, 130..141, 200..201] {
            assert!(whole.within(&outside).is_none(), "{outside:?}");
        }
    }

    #[test]
    fn blocks_in_an_order_are_not_cut() {
        let touches = vec![vec![Touch { resource: 0, write: true }]; 2];
        assert!(Plan::of_touches(&[1], vec![1, 1], &touches).within(&(0..1)).is_none());
    }
}
