//! Making plans: candidates are compared by their estimated time.

use super::aligned::{ALIGNED_BLOCK, aligned};
use super::colour::{self, Listed};
use super::cut::{self, Cut, Weights};
use super::graph::{BlockGraph, Touch};
use super::group::{self, Groups, Parts};
use super::tiles::{Cutting, Tiles};
use super::{Block, Facts, HotDds, Offsets, Plan, beforehand, cyclic, order, preserve, sort, windows};
use crate::options::{Order, PlanOptions, Strategy};
use crate::recording::{CaptureShape, Recording, Usage};
use crate::threads::{Inline, Threads};

/// The number of workers that plans are compared for. A constant, for plans must not depend on the machine.
pub(super) const WORKERS: usize = 8;
/// Cuts of loops with at least this many iterations are compared for these as well.
const MORE: [(usize, usize); 4] = [(8_000_000, 16), (128_000_000, 64), (512_000_000, 256), (2_048_000_000, 1024)];
/// More groups than this are put in an order only where one can promise enough.
const MANY_GROUPS: usize = 1024;
/// The finest cut that is tried unless the loop says `parts = N`, of loops whose iterations touch one element of each DDS,
const FINEST: usize = 256;
/// and of others.
const FINEST_OF_OTHERS: usize = 32;
/// What is tried in any case: iterations may be few and long.
const COARSEST: usize = 8;
/// Iterations that a block should have on average,
const WORTH_A_BLOCK: usize = 2048;
/// and where there are blocks for many workers: finer cuts cost few workers a little, and bring them nothing.
const WORTH_MANY_BLOCKS: usize = 15_000;
/// What starting a block costs, in accesses.
pub(super) const BLOCK_COST: u64 = 256;
/// A plan must promise this much over serial execution.
pub(super) const WORTHWHILE: f64 = 1.2;
/// What a coarser cut must be faster by.
const CLEARLY: f64 = 1.04;
/// What a grid must be slower by than the best colouring that there could be, for one to be sought.
const CLEARLY_LISTED: f64 = 1.25;
/// What a rotation may be slower by than an order that only looks for work: parts move less between processes.
const ROTATION: f64 = 1.05;
/// The other numbers of workers for which that must hold.
const FEWER: [usize; 2] = [2, 4];
/// How much dearer an access is when the plan lists it by itself. (Light bodies on large graphs took 3.3 to 12 times as long, docs/scaling.md.)
const LISTED_COST: f64 = 2.0;
/// The same of wavefronts, which go through a loop that mostly stands in a good order: an edit distance took 11 times as long by them.
const WAVEFRONT_COST: f64 = 5.0;

/// What it takes to look up an iteration and its elements in a list, in accesses: a pass over a tree with three accesses an iteration took
/// 10 to 13 times as long by wavefronts. (Where any order will do, a list's order costs little more than a grid's.)
const WAVEFRONT_EACH: f64 = 24.0;
/// Shorter loops may have few, long iterations, and aren't counted so: their accesses don't tell.
const LONG: usize = 1 << 15;

/// Makes the plan of a recorded loop.
pub fn plan(recording: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions, pool: &dyn Threads) -> Plan {
    if recording.in_all_blocks.is_some() {
        let reason = "each block's `scratch` touches elements that are written".to_string();
        let facts = Facts { reason, peak_bytes: recording.peak_bytes, ..Facts::default() };
        return Plan::serial(recording.range.clone(), shapes.len(), facts);
    }
    if let Some(facts) = beforehand::serial(recording, shapes, options) {
        return Plan::serial(recording.range.clone(), shapes.len(), facts);
    }
    let shared = recording.shared();
    if shared.is_empty() && !matches!(options.strategy, Some(Strategy::Serial)) {
        return aligned(recording, shapes, options, Vec::new());
    }
    let lens: Vec<usize> = shared.iter().map(|&c| shapes[c].len).collect();
    if windows::may_be_aligned(options)
        && let Some(windows) = windows::of(recording, &shared, &lens, options.columns)
    {
        return aligned(recording, shapes, options, windows);
    }
    Planner::new(recording, shapes, options, pool, shared).plan()
}

/// How many times as much as many iterations take by lists that cost `each` accesses otherwise. (No clock is asked: a plan is the same wherever
/// it's made.)
pub(super) fn listed_cost(iterations: usize, each: f64, order: Order) -> f64 {
    match order {
        Order::Any => LISTED_COST,
        Order::Preserve if iterations < LONG => WAVEFRONT_COST,
        Order::Preserve => WAVEFRONT_COST + WAVEFRONT_EACH / each,
    }
}

/// Whether a coarse grid of the iterations of a sample would not pay off even if its blocks had more to do. (A fine one has more groups
/// than a sample has iterations, which are nearly all apart then.)
pub(super) fn promises_little(sample: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> bool {
    let options = PlanOptions { grain: None, ..options.clone() };
    let mut planner = Planner::new(sample, shapes, &options, &Inline, sample.shared());
    let serial_cost = planner.serial_cost();
    let together =
        |grid: &Grid| grid.makespan() as f64 * WORTHWHILE <= (serial_cost + grid.blocks() * BLOCK_COST) as f64;
    !planner.grid().as_ref().is_some_and(together)
}

/// The plan of a loop by the outline of its table, or by samples of its rows. None where tiles promise too little, which the outline tells
/// nothing else of.
pub fn of_table(
    recording: &Recording<'_>,
    shapes: &[CaptureShape],
    options: &PlanOptions,
    pool: &dyn Threads,
) -> Option<Plan> {
    let shared = recording.shared();
    let lens: Vec<usize> = shared.iter().map(|&c| shapes[c].len).collect();
    if windows::may_be_aligned(options)
        && let Some(windows) = windows::of(recording, &shared, &lens, options.columns)
    {
        return Some(aligned(recording, shapes, options, windows));
    }
    let facts = Facts {
        inferred: true,
        accesses: (recording.accesses_each * recording.iterations() as f64) as usize,
        peak_bytes: recording.peak_bytes,
        ..Facts::default()
    };
    let planner = Planner { recording, options, pool, shared, lens, weights: Vec::new(), follows_memory: false, facts };
    let (tiles, graph, _) = planner.worthwhile_tiles()?;
    Some(planner.finish_tiled(tiles, graph))
}

/// Puts iterations in order.
pub(super) type Sorted<'s, 'r> =
    dyn Fn(&Planner<'r>, &Groups, Option<&[u16]>, (&[u32], &[usize])) -> Option<Offsets> + 's;

pub(super) struct Planner<'r> {
    pub(super) recording: &'r Recording<'r>,
    pub(super) options: &'r PlanOptions,
    pool: &'r dyn Threads,
    pub(super) shared: Vec<usize>,
    lens: Vec<usize>,
    pub(super) weights: Vec<Weights>,
    /// Whether iterations read elements in step that own memory: one after the other these are fetched by the hardware, from many
    /// places in turn they are not.
    follows_memory: bool,
    pub(super) facts: Facts,
}

/// A grid of parts that might become the plan.
pub(super) struct GridCandidate {
    shift: u32,
    makespan: u64,
    /// What this cut is compared by: its time by the time of a cut that keeps all workers busy.
    slowness: f64,
    /// Group of each block, in serial order; `None` where blocks are not groups.
    order: Vec<u32>,
    rotation: bool,
    groups: Option<(Groups, Vec<u16>)>,
}

impl<'r> Planner<'r> {
    fn new(
        recording: &'r Recording<'r>,
        shapes: &[CaptureShape],
        options: &'r PlanOptions,
        pool: &'r dyn Threads,
        shared: Vec<usize>,
    ) -> Self {
        let weigh = |&c: &usize| cut::weigh(recording, c, shapes[c].len, pool);
        let weights: Vec<Weights> = shared.iter().map(weigh).collect();
        Planner::weighed(recording, shapes, (options, pool), shared, weights, &|capture, weights| {
            cut::writers(recording, capture, &weights.hottest())
        })
    }

    /// `writers`: how many iterations write each of the elements that are touched most.
    pub(super) fn weighed(
        recording: &'r Recording<'r>,
        shapes: &[CaptureShape],
        (options, pool): (&'r PlanOptions, &'r dyn Threads),
        shared: Vec<usize>,
        weights: Vec<Weights>,
        writers: &dyn Fn(usize, &Weights) -> Vec<u32>,
    ) -> Self {
        let lens: Vec<usize> = shared.iter().map(|&c| shapes[c].len).collect();
        let hot = |(&capture, weights): (&usize, &Weights)| HotDds {
            capture,
            accesses: recording.listed(capture),
            written: writers(capture, weights),
            elements: weights.hottest(),
            estimated: weights.weighed < weights.iterations,
        };
        let hot = shared.iter().zip(&weights).map(hot).collect();
        let facts = Facts {
            hot,
            inferred: recording.is_inferred(),
            accesses: shared.iter().map(|&c| recording.listed(c)).sum(),
            peak_bytes: recording.peak_bytes + weights.iter().map(Weights::bytes).sum::<usize>(),
            ..Facts::default()
        };
        let in_step = |(usage, shape): (&Usage, &CaptureShape)| shape.owning && matches!(usage, Usage::InStep { .. });
        let follows_memory = recording.usage.iter().zip(shapes).any(in_step);
        Planner { recording, options, pool, shared, lens, weights, follows_memory, facts }
    }

    fn plan(mut self) -> Plan {
        let wanted = self.options.strategy;
        let may = |strategy| wanted.is_none_or(|wanted| wanted == strategy);
        let serial_cost = self.serial_cost();
        let enough = |makespan: u64| makespan as f64 * WORTHWHILE <= serial_cost as f64;
        if let Some((tiles, graph, _)) = self.worthwhile_tiles() {
            return self.finish_tiled(tiles, graph);
        }
        let grid = if may(Strategy::Grid) { self.grid() } else { None };
        let grid_makespan = grid.as_ref().map_or(u64::MAX, Grid::makespan);
        let cut = self.options.parts.is_some() && wanted.is_none();
        let forced = wanted.is_some() || cut;
        // Its blocks could run at the same time, if only they had more to do.
        let together =
            |grid: &Grid| grid.makespan() as f64 * WORTHWHILE <= (serial_cost + grid.blocks() * BLOCK_COST) as f64;
        self.facts.short = !forced && self.options.grain.is_none() && grid.as_ref().is_some_and(together);
        // No colouring can be better than a good grid; it costs a pass over all accesses.
        let least = self.listed_cost() * serial_cost as f64 / WORKERS as f64;
        let good = grid_makespan as f64 <= least * CLEARLY_LISTED;
        if let Some(grid) = grid {
            let rival = may(Strategy::Coloured) && !good && !cut;
            let better = |makespan| makespan < grid_makespan && enough(makespan);
            let coloured = if rival { self.coloured(&better) } else { None };
            return match coloured {
                Some((coloured, makespan)) if better(makespan) => self.finish_coloured(coloured),
                _ if forced || enough(grid_makespan) => self.finish_grid(grid),
                _ => self.finish_serial(),
            };
        }
        if may(Strategy::Coloured)
            && !cut
            && let Some((coloured, makespan)) = self.coloured(&|makespan| forced || enough(makespan))
            && (forced || enough(makespan))
        {
            return self.finish_coloured(coloured);
        }
        self.finish_serial()
    }

    fn finish_serial(mut self) -> Plan {
        self.facts.too_many_groups = self.options.strategy.is_none() && self.options.parts.is_some();
        self.facts.reason = match (self.options.strategy, self.options.parts) {
            (Some(Strategy::Serial), _) => "the loop says `strategy = Serial`".to_string(),
            (Some(wanted), _) => format!("the loop says `strategy = {wanted:?}`, but that finds no plan for it"),
            (None, Some(_)) => "cut so, the iterations form more groups than a plan may have".to_string(),
            (None, None) => "no plan promises to be faster than one iteration after the other".to_string(),
        };
        Plan::serial(self.recording.range.clone(), self.recording.usage.len(), self.facts)
    }

    pub(super) fn serial_cost(&self) -> u64 {
        (self.recording.iterations() as f64 * self.cost_each()) as u64
    }

    fn worthwhile_tiles(&self) -> Option<(Tiles, BlockGraph, u64)> {
        let enough = |makespan: u64| makespan as f64 * WORTHWHILE <= self.serial_cost() as f64;
        self.tiles().filter(|&(.., makespan)| self.options.strategy.is_some() || enough(makespan))
    }

    /// Tiles, where the loop keeps its order and its iterations are cells of a table.
    fn tiles(&self) -> Option<(Tiles, BlockGraph, u64)> {
        let options = self.options;
        let may =
            options.strategy.is_none_or(|wanted| wanted == Strategy::Tiled) && options.one_process && !options.scratch;
        if !may || options.order != Order::Preserve || options.parts.is_some() {
            return None;
        }
        let (recording, shared, lens) = (self.recording, &*self.shared, &*self.lens);
        let columns = options.columns;
        Cutting { recording, shared, lens, columns, cost_each: self.cost_each(), block_cost: BLOCK_COST }
            .tiles(WORKERS, self.pool)
    }

    fn finish_tiled(mut self, tiles: Tiles, graph: BlockGraph) -> Plan {
        let (high, wide) = tiles.tile;
        self.facts.reason = format!("tiles of {high} x {wide} iterations on the diagonals of rows of {}", tiles.width);
        self.facts.peak_bytes += size_of_val(&*tiles.runs);
        let mut starts = vec![0];
        for b in 0..graph.len() {
            starts.push(starts[b] + tiles.iterations(b));
        }
        Plan {
            strategy: Strategy::Tiled,
            usage: self.recording.usage.clone(),
            blocks: blocks_between(&starts),
            tiles: Some(tiles),
            graph,
            shared: self.shared,
            ..Plan::serial(self.recording.range.clone(), self.recording.usage.len(), self.facts)
        }
    }

    /// The best cut into parts.
    fn grid(&mut self) -> Option<Grid> {
        let forced = self.options.parts;
        let mut finest = forced.unwrap_or_else(|| self.finest());
        loop {
            let cuts = self.weights.iter().map(|weights| weights.cut(finest)).collect();
            let parts = Parts::new(self.shared.clone(), cuts);
            match group::group(self.recording, &parts, self.pool) {
                Some(groups) if self.options.order == Order::Preserve => {
                    if let Some(grid) = self.preserving(groups, parts) {
                        return Some(grid);
                    }
                }
                Some(groups) => return self.best_of(groups, parts, forced.is_some()),
                None => {}
            }
            if finest <= 2 || forced.is_some() {
                return None;
            }
            finest /= 2;
        }
    }

    /// The finest cut worth trying: blocks of a grid should have some thousands of iterations.
    pub(super) fn finest(&self) -> usize {
        let blocks = |parts: usize| parts.saturating_pow(self.shared.len() as u32);
        let many = || (FINEST_OF_OTHERS.ilog2() + 1..=FINEST.ilog2()).map(|log| 1 << log);
        let finest = match self.options.order {
            Order::Preserve => None,
            _ => group::finest_dense(self.recording, &self.shared, many()),
        };
        let mut parts = finest.unwrap_or(FINEST_OF_OTHERS);
        let enough = |parts: usize| match self.options.grain {
            Some(grain) => grain.max(1),
            None if parts > FINEST_OF_OTHERS => WORTH_MANY_BLOCKS,
            None => WORTH_A_BLOCK,
        };
        while parts > COARSEST && blocks(parts) > self.recording.iterations() / enough(parts) {
            parts /= 2;
        }
        parts
    }

    fn preserving(&self, groups: Groups, parts: Parts) -> Option<Grid> {
        let enough = match (self.options.parts, self.options.grain) {
            (Some(_), _) => 1,
            (None, Some(grain)) => grain.min(preserve::WORTH_A_BLOCK),
            (None, None) => preserve::WORTH_A_BLOCK,
        };
        let runs = preserve::runs(&groups, parts.resources(), group::MAX_GROUPS, enough)?;
        let scale = self.scale();
        let costs = runs.cost.iter().map(|&cost| (cost as f64 * scale) as u64 + BLOCK_COST).collect();
        let touches = runs.group.iter().map(|&g| &*groups.touches[g as usize]);
        let graph = BlockGraph::from_touches(costs, parts.resources(), touches);
        Some(Grid::Runs { makespan: graph.makespan(WORKERS), runs, groups, parts, graph })
    }

    /// None where all cuts make too many groups.
    pub(super) fn best_of(&self, groups: Groups, parts: Parts, only_this: bool) -> Option<Grid> {
        let mut best: Option<GridCandidate> = None;
        let finest = parts.cuts.first().map_or(1, Cut::parts);
        let shifts = if only_this { 0..1 } else { 0..finest.ilog2().max(1) };
        for shift in shifts {
            let coarse_parts = parts.coarser(shift);
            let coarse = (shift > 0).then(|| group::coarsen(&groups, &parts, &coarse_parts, shift));
            let here = coarse.as_ref().map_or(&groups, |(coarse, _)| coarse);
            let costs = self.group_costs(here, &coarse_parts);
            if !only_this && self.is_hopeless(here, &costs, &coarse_parts) {
                continue;
            }
            let (order, graph, rotation) = best_order(here, &costs, &coarse_parts);
            let (makespan, slowness) = (graph.makespan(WORKERS), self.slowness(&graph));
            // A finer cut serves more threads than are compared here: a coarser one must be clearly better.
            if best.as_ref().is_none_or(|best| slowness * CLEARLY < best.slowness) {
                best = Some(GridCandidate { shift, makespan, slowness, order, rotation, groups: coarse });
            }
        }
        let best = best?;
        let parts = if best.shift > 0 { parts.coarser(best.shift) } else { parts };
        Some(Grid::Groups { candidate: best, groups, parts })
    }

    /// The mean over the numbers of workers that have enough to do, in accesses that one worker makes meanwhile.
    fn slowness(&self, graph: &BlockGraph) -> f64 {
        let more = || MORE.iter().filter(|&&(iterations, _)| self.recording.iterations() >= iterations);
        let compared = || std::iter::once(WORKERS).chain(more().map(|&(_, workers)| workers));
        compared().map(|workers| (workers as u64 * graph.makespan(workers)) as f64).sum::<f64>()
            / compared().count() as f64
    }

    /// Whether many groups take too long in any order: finding a good one would take long, too.
    fn is_hopeless(&self, groups: &Groups, costs: &[u64], parts: &Parts) -> bool {
        if costs.len() <= MANY_GROUPS || self.options.strategy.is_some() {
            return false;
        }
        let mut writing = vec![0u64; parts.resources()];
        for (touches, &cost) in groups.touches.iter().zip(costs) {
            touches.iter().filter(|touch| touch.write).for_each(|touch| writing[touch.resource as usize] += cost);
        }
        let busiest = writing.into_iter().max().unwrap_or(0);
        let least = busiest.max(costs.iter().sum::<u64>() / WORKERS as u64);
        least as f64 * WORTHWHILE > self.serial_cost() as f64
    }

    /// How much more the iterations do than touch each shared element once: they may read much else, or repeat.
    fn scale(&self) -> f64 {
        let counted = 1.0 + self.facts.accesses as f64 / self.recording.iterations().max(1) as f64;
        (self.cost_each() / counted).max(1.0)
    }

    /// What an iteration costs, in accesses.
    fn cost_each(&self) -> f64 {
        let counted = 1.0 + self.recording.accesses_each;
        self.options.grain.map_or(counted, |grain| counted.max(ALIGNED_BLOCK as f64 / grain.max(1) as f64))
    }

    /// What each group costs: its iterations and accesses, dearer where they keep waiting for one hot element.
    fn group_costs(&self, groups: &Groups, parts: &Parts) -> Vec<u64> {
        let shares: Vec<Vec<f64>> =
            parts.cuts.iter().zip(&self.weights).map(|(cut, weights)| weights.hottest_shares(cut)).collect();
        let scale = self.scale();
        let dearer = |touches: &[Touch]| {
            let hottest = touches.iter().filter(|touch| touch.write).map(|touch| {
                let (slot, part) = parts.part_of(touch.resource);
                shares[slot][part]
            });
            1.0 + hottest.fold(0.0, f64::max)
        };
        groups
            .touches
            .iter()
            .zip(&groups.cost)
            .map(|(touches, &cost)| (cost as f64 * scale * dearer(touches)) as u64 + BLOCK_COST)
            .collect()
    }

    pub(super) fn listed_cost(&self) -> f64 {
        listed_cost(self.recording.iterations(), self.cost_each(), self.options.order)
    }

    /// A colouring and its makespan, unless it is clear before all of it is made that `may_be_best` says no.
    fn coloured(&self, may_be_best: &dyn Fn(u64) -> bool) -> Option<(colour::Coloured, u64)> {
        // What a sample says may be too much.
        let certain = |hot: &HotDds| if hot.estimated { 0.8 } else { 1.0 };
        let hot = || self.facts.hot.iter();
        let writers = hot().flat_map(|hot| hot.written.iter().map(|&n| (f64::from(n) * certain(hot)) as usize)).max();
        let makespan = |chain: u64, blocks: usize| {
            (chain as f64 * self.scale() * self.listed_cost()) as u64 + blocks as u64 * BLOCK_COST / WORKERS as u64
        };
        let bounds = colour::Bounds {
            writers: writers.unwrap_or(0),
            hubs: self.options.strategy.is_some(),
            hottest: hot().filter_map(|hot| hot.elements.first()).map(|at| at.1).max().unwrap_or(0) as usize,
            may_be_best: &|chain, blocks| may_be_best(makespan(chain, blocks)),
        };
        let how = (self.options.order, self.pool);
        let coloured = colour::colour(self.recording, &self.shared, &self.lens, how, &bounds)?;
        let makespan = makespan(coloured.graph.makespan(WORKERS), coloured.graph.len());
        Some((coloured, makespan))
    }

    fn finish_coloured(mut self, coloured: colour::Coloured) -> Plan {
        self.facts.colours = coloured.colours;
        self.facts.reason = format!("{} colours of single iterations", coloured.colours);
        self.facts.peak_bytes += self.listed_bytes(&coloured.listed) + 4 * coloured.offsets.len();
        let sparse = self.sparse();
        let blocks = blocks_between(&coloured.starts);
        Plan {
            strategy: Strategy::Coloured,
            usage: self.recording.usage.clone(),
            blocks,
            offsets: coloured.offsets.into(),
            graph: coloured.graph,
            listed: coloured.listed,
            shared: self.shared,
            sparse,
            ..Plan::serial(self.recording.range.clone(), self.recording.usage.len(), self.facts)
        }
    }

    fn listed_bytes(&self, listed: &[Listed]) -> usize {
        listed.iter().map(|listed| 4 * (listed.entries.len() + listed.ends.len())).sum()
    }

    fn finish_grid(self, grid: Grid) -> Plan {
        let sorted =
            |planner: &Self, groups: &Groups, renumbered: Option<&[u16]>, (place, starts): (&[u32], &[usize])| {
                let mut offsets = sort::sort_by_block(groups, renumbered, place, planner.pool);
                let may_interleave = planner.may_interleave();
                let (recording, shared) = (planner.recording, &planner.shared);
                if may_interleave && sort::neighbours_collide(recording, shared, (&offsets, starts), planner.pool) {
                    sort::interleave(&mut offsets, starts, planner.pool);
                }
                Some(offsets.into())
            };
        let Some(plan) = self.finish_sorted(grid, &sorted) else { unreachable!("sorting here always ends") };
        plan
    }

    /// Whether places far apart in a block may take turns.
    pub(super) fn may_interleave(&self) -> bool {
        !self.options.scratch && !self.follows_memory
    }

    /// The plan of a grid whose iterations `sorted` puts in order, given their groups, these groups' new numbers, the block of each, and where
    /// blocks begin. None where that gives none.
    pub(super) fn finish_sorted(mut self, grid: Grid, sorted: &Sorted<'_, 'r>) -> Option<Plan> {
        let (parts, graph, starts, offsets, touches): (_, _, _, Offsets, Vec<Box<[Touch]>>) = match grid {
            Grid::Runs { runs, groups, parts, graph, .. } => {
                let touches = runs.group.iter().map(|&g| groups.touches[g as usize].clone()).collect();
                (parts, graph, runs.starts, runs.offsets.into(), touches)
            }
            Grid::Groups { candidate, groups, parts } => {
                let renumbered = candidate.groups.as_ref().map(|(_, to)| to.as_slice());
                self.facts.rotation = candidate.rotation;
                let chosen = candidate.groups.as_ref().map_or(&groups, |(coarse, _)| coarse);
                let order = &candidate.order;
                let mut place = vec![0u32; order.len()];
                let mut starts = vec![0usize];
                for (block, &g) in order.iter().enumerate() {
                    place[g as usize] = block as u32;
                    starts.push(starts[block] + chosen.iterations[g as usize]);
                }
                let offsets = sorted(&self, &groups, renumbered, (&place, &starts))?;
                let costs = self.group_costs(chosen, &parts);
                let ordered = order.iter().map(|&g| costs[g as usize]).collect();
                let touches: Vec<Box<[Touch]>> = order.iter().map(|&g| chosen.touches[g as usize].clone()).collect();
                let graph =
                    BlockGraph::from_touches(ordered, parts.resources(), touches.iter().map(|touches| &**touches));
                (parts, graph, starts, offsets, touches)
            }
        };
        let n = self.recording.iterations();
        self.facts.peak_bytes += 2 * n + 4 * offsets.len();
        self.facts.parts =
            parts.captures.iter().zip(&parts.cuts).map(|(&capture, cut)| (capture, cut.parts())).collect();
        self.facts.reason = format!("iterations grouped by the parts that they touch, {} groups", starts.len() - 1);
        let sparse = self.sparse();
        let mut touch_starts = vec![0u32];
        for block in &touches {
            touch_starts.push(touch_starts[touch_starts.len() - 1] + block.len() as u32);
        }
        Some(Plan {
            strategy: Strategy::Grid,
            usage: self.recording.usage.clone(),
            blocks: blocks_between(&starts),
            offsets,
            graph,
            touch_starts,
            touches: touches.into_iter().flatten().collect(),
            parts: Some(parts),
            fields: (0..self.recording.usage.len()).map(|c| self.recording.index_fields(c)).collect(),
            shared: self.shared,
            sparse,
            ..Plan::serial(self.recording.range.clone(), self.recording.usage.len(), self.facts)
        })
    }

    fn sparse(&self) -> Vec<bool> {
        self.weights.iter().map(Weights::is_sparse).collect()
    }
}

pub(super) enum Grid {
    /// Blocks are whole groups, in any order.
    Groups { candidate: GridCandidate, groups: Groups, parts: Parts },
    /// Blocks keep the loop's order.
    Runs { makespan: u64, runs: preserve::Runs, groups: Groups, parts: Parts, graph: BlockGraph },
}

impl Grid {
    pub(super) fn makespan(&self) -> u64 {
        match self {
            Grid::Groups { candidate, .. } => candidate.makespan,
            Grid::Runs { makespan, .. } => *makespan,
        }
    }

    pub(super) fn blocks(&self) -> u64 {
        match self {
            Grid::Groups { candidate, .. } => candidate.order.len() as u64,
            Grid::Runs { graph, .. } => graph.len() as u64,
        }
    }
}

/// The serial order of groups, its graph, and whether it is a rotation: it is, where there is one that is about as fast as can be.
fn best_order(groups: &Groups, costs: &[u64], parts: &Parts) -> (Vec<u32>, BlockGraph, bool) {
    let graph = |order: &[u32]| {
        let ordered = order.iter().map(|&g| costs[g as usize]).collect();
        BlockGraph::from_touches(ordered, parts.resources(), order.iter().map(|&g| &*groups.touches[g as usize]))
    };
    let free = order::open_shop(&groups.touches, costs, parts.resources());
    let free_graph = graph(&free);
    if let Some(rotation) = cyclic::cyclic(&groups.touches, costs, parts) {
        let rotating = graph(&rotation);
        let near =
            |&workers: &usize| rotating.makespan(workers) as f64 <= free_graph.makespan(workers) as f64 * ROTATION;
        if near(&WORKERS) && FEWER.iter().all(near) {
            return (rotation, rotating, true);
        }
    }
    (free, free_graph, false)
}

fn blocks_between(starts: &[usize]) -> Vec<Block> {
    starts.windows(2).map(|ends| Block { start: ends[0], end: ends[1] }).collect()
}
