//! Plans of loops without conflicts: blocks of consecutive iterations, as many as are worth it.

use std::sync::Arc;

use super::graph::BlockGraph;
use super::windows::{self, Windows};
use super::{Block, Facts, Plan};
use crate::options::{PlanOptions, Strategy};
use crate::recording::{CaptureShape, Recording};

/// Accesses that a block should make where blocks are free to run at any time.
pub(super) const ALIGNED_BLOCK: usize = 4096;
/// The same from the third block on where no bits depend on where they begin: such a block takes some microseconds, and half a
/// microsecond goes into starting it.
const LIGHT_BLOCK: usize = 1 << 17;
/// How many such blocks there are at most where only accesses say what iterations cost,
const ALIGNED_BLOCKS: usize = 256;
/// how many where something else does,
const MOST_BLOCKS: usize = 4096;
/// and how many at least where nothing else may: iterations can be few and long.
const FEWEST_BLOCKS: usize = 32;
/// Where each block has tallies of its own there are as many blocks as leave this many additions to an element of one: uniting tallies
/// should take less time than adding to them,
const ADDITIONS: f64 = 4.0;
/// but no fewer than this.
const FEWEST_TALLIES: usize = 8;
/// Nanoseconds that recording an access takes at most.
const RECORDING_NANOS: f64 = 300.0;
/// Nanoseconds that such a block should take.
const ALIGNED_NANOS: f64 = 200_000.0;

/// How many blocks a loop has by the time that its recording took, beyond what recording itself takes.
fn by_time(recording: &Recording<'_>) -> usize {
    let each = recording.nanos_each - RECORDING_NANOS * (1.0 + recording.accesses_each);
    blocks_for(recording.iterations() as f64 * each)
}

/// How many blocks a loop without conflicts has that takes this many nanoseconds. One of few numbers, so that most loops have as many
/// each time.
fn blocks_for(nanos: f64) -> usize {
    let wanted = nanos / ALIGNED_NANOS;
    [1, FEWEST_BLOCKS, 4 * FEWEST_BLOCKS, 16 * FEWEST_BLOCKS]
        .into_iter()
        .find(|&blocks| wanted < 2.0 * blocks as f64)
        .unwrap_or(64 * FEWEST_BLOCKS)
}

/// At least as many blocks as are wanted, cut where `by_data` blocks are, and elsewhere besides.
fn finer(by_data: usize, wanted: usize, n: usize) -> usize {
    (by_data * wanted.div_ceil(by_data.max(1))).clamp(1, n.max(1))
}

/// How many blocks a loop has at least that has no conflicts, and bits that depend on where blocks begin.
fn fewest_blocks(recording: &Recording<'_>, shapes: &[CaptureShape]) -> usize {
    let tallied = shapes.iter().enumerate().filter(|(_, shape)| shape.by_block && shape.len > 0);
    // (Of what was not recorded no additions were counted.)
    let additions = tallied.map(|(c, shape)| recording.accesses(c) / shape.len as f64).filter(|&each| each > 0.0);
    let blocks = |each: f64| ((each / ADDITIONS) as usize).clamp(FEWEST_TALLIES, FEWEST_BLOCKS);
    additions.map(blocks).min().unwrap_or(FEWEST_BLOCKS)
}

/// How many blocks a loop without conflicts has by the data alone, and how many at least where there may be more.
fn aligned_blocks(recording: &Recording<'_>, shapes: &[CaptureShape], options: &PlanOptions) -> (usize, Option<usize>) {
    let n = recording.iterations();
    let accesses = n as f64 * (1.0 + recording.accesses_each);
    // What is added up in tallies is one for each block, or moves from one to the next.
    let tallied = shapes.iter().any(|shape| shape.reduction && shape.len > 0);
    let fewest = fewest_blocks(recording, shapes);
    let most = if tallied { fewest } else { ALIGNED_BLOCKS };
    let bound = options.scratch || shapes.iter().any(|shape| shape.by_block);
    let many = (accesses as usize / ALIGNED_BLOCK).clamp(1, most);
    let few = (accesses as usize / LIGHT_BLOCK).max(2).min(many);
    let by_accesses = if bound || tallied { many } else { few };
    // Light iterations, too, are for all workers.
    let spread = if options.one_process { 1 } else { many };
    let (blocks, more) = match (options.parts, options.grain) {
        (Some(parts), _) => (parts, None),
        (None, Some(grain)) => (n.div_ceil(grain.max(1)).min(MOST_BLOCKS), None),
        (None, None) if bound => (by_accesses.max(fewest), None),
        (None, None) => (by_accesses, Some(spread)),
    };
    (blocks.min(n.max(1)), more)
}

/// Nothing conflicts: consecutive iterations, in as many blocks as there is work for. By windows, whole rows of these are in one block.
pub(super) fn aligned(
    recording: &Recording<'_>,
    shapes: &[CaptureShape],
    options: &PlanOptions,
    mut windows: Vec<Windows>,
) -> Plan {
    if !options.one_process {
        windows.iter_mut().for_each(Windows::save_all);
    }

    let (n, row) = (recording.iterations(), windows::each(&windows));
    let each = 1.0 + recording.accesses_each;
    let (by_data, more) = aligned_blocks(recording, shapes, options);
    let (by_data, rows) = (by_data.min(n.div_ceil(row)), n.div_ceil(row));
    let finer = more.map_or(by_data, |spread| finer(by_data, by_time(recording).max(spread), rows));
    let (blocks, graph) = equal_blocks((n, row), finer, n as f64 * each);
    let reason = match &windows[..] {
        [] => "no element is both shared and written",
        _ if row == 1 => "each iteration writes elements of its own",
        _ => "each row of iterations writes elements of its own",
    };
    let facts = Facts {
        reason: reason.to_string(),
        short: options.parts.is_none() && options.grain.is_none(),
        peak_bytes: recording.peak_bytes,
        inferred: recording.is_inferred() || !recording.outline().is_empty(),
        ..Facts::default()
    };
    let plan = Plan {
        strategy: Strategy::Aligned,
        usage: recording.usage.clone(),
        graph,
        blocks,
        by_data: (finer > by_data).then_some(by_data),
        ..Plan::serial(recording.range.clone(), recording.usage.len(), facts)
    };
    plan.with_windows(windows)
}

/// Blocks of as many rows of iterations each, without an order among them.
fn equal_blocks((n, row): (usize, usize), blocks: usize, work: f64) -> (Vec<Block>, BlockGraph) {
    let begin = |b: usize| (n.div_ceil(row) * b / blocks * row).min(n);
    let blocks: Vec<Block> = (0..blocks).map(|b| Block { start: begin(b), end: begin(b + 1) }).collect();
    let each = work / n.max(1) as f64;
    let cost = blocks.iter().map(|block| ((block.end - block.start) as f64 * each) as u64).collect();
    (blocks, BlockGraph::from_edges(cost, Vec::new()))
}

impl Plan {
    /// The plan with as many blocks as pay off if the loop, which has no conflicts, takes this many nanoseconds. `None` if it has
    /// that many blocks already.
    pub fn dealt_by_time(&self, nanos: f64) -> Option<Plan> {
        let by_data = self.by_data.unwrap_or(self.blocks.len());
        let blocks = finer(by_data, blocks_for(nanos), self.range.len().div_ceil(windows::each(&self.windows)));
        let is_finer = self.strategy == Strategy::Aligned && !self.has_alone() && blocks > self.blocks.len();
        is_finer.then(|| self.in_equal_blocks(blocks, Some(by_data)))
    }

    /// The same plan with the blocks that the data alone would make. `None` if it has these blocks already.
    ///
    /// An iteration strays if it leaves what its block may touch. So with blocks that the clock has cut, whether it strays may
    /// depend on the clock. An iteration that doesn't stray from these blocks doesn't stray from the data's blocks either, since
    /// each of those consists of whole blocks of the clock's.
    pub fn dealt_by_data(&self) -> Option<Plan> {
        self.by_data.map(|by_data| self.in_equal_blocks(by_data, None))
    }

    pub(super) fn in_equal_blocks(&self, blocks: usize, by_data: Option<usize>) -> Plan {
        let rows = (self.range.len(), windows::each(&self.windows));
        let (blocks, graph) = equal_blocks(rows, blocks, self.graph.work() as f64);
        let plan = Plan {
            strategy: self.strategy,
            usage: self.usage.clone(),
            graph,
            blocks,
            by_data,
            fields: self.fields.clone(),
            strata: Arc::clone(&self.strata),
            ..Plan::serial(self.range.clone(), self.usage.len(), self.facts.clone())
        };
        plan.with_windows(self.windows.clone())
    }
}
