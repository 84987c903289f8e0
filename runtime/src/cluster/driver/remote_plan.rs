//! A plan as workers run it: who has which share, and what each must hold before the loop and holds after it.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use crate::cluster::driver::placement::Placement;
use crate::cluster::wire::protocol::{Holder, Node, RemoteCapture};
use crate::loops::pack::LARGEST;
use crate::memory::element_ops::ElementOps;
use crate::planner::layout::{self, Layout};
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::locked;
use crate::session::options::Strategy;
use crate::session::report::WorkerShares;

/// What the driver knows of a captured DDS.
#[derive(Clone, Copy)]
pub(crate) struct Vector {
    pub(crate) id: u64,
    pub(crate) len: usize,
    pub(crate) ops: &'static ElementOps,
    pub(crate) writable: bool,
}

/// A plan that workers know by a number.
pub(crate) struct RemotePlan {
    pub(crate) id: u64,
    pub(crate) plan: Arc<Plan>,
    pub(crate) captures: Vec<RemoteCapture>,
    pub(crate) vectors: Vec<Option<Vector>>,
    pub(crate) state: Mutex<InstallState>,
    pub(crate) spreading: Spreading,
    /// Where its number goes when nobody needs it any more.
    forget: Arc<Mutex<Vec<u64>>>,
}

/// A range that a worker must hold when the loop begins.
pub(crate) struct Needed {
    pub(crate) worker: u32,
    pub(crate) capture: usize,
    pub(crate) range: Range<usize>,
    /// Whether the worker has changed it when the loop has ended well.
    pub(crate) written: bool,
    /// The part that it is, if it is one.
    pub(crate) part: Option<u32>,
}

/// Whether a coloured plan may run on several workers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spreading {
    /// It runs on one.
    Never,
    /// Its blocks stay as they are, since bits depend on them.
    ByBlocks,
    /// Its iterations are dealt one by one.
    ByIterations,
}

/// How far a plan is installed.
#[derive(Clone, Default)]
pub(crate) struct InstallState {
    /// The generation in which it was; 0 for none.
    pub(crate) generation: u32,
    pub(crate) layout: Option<Arc<Layout>>,
    /// The layout as reports show it.
    pub(crate) shares: Option<Arc<WorkerShares>>,
    /// By capture: the version of the elements that were laid out.
    pub(crate) laid_out: Vec<u64>,
    /// By capture: whether elements in step are reached by other means than `x[i]`.
    pub(crate) by_index: Vec<bool>,
}

impl Drop for RemotePlan {
    fn drop(&mut self) {
        locked(&self.forget).push(self.id);
    }
}

impl RemotePlan {
    pub(crate) fn new(
        id: u64,
        plan: Arc<Plan>,
        captures: Vec<RemoteCapture>,
        vectors: Vec<Option<Vector>>,
        (spreading, forget): (Spreading, Arc<Mutex<Vec<u64>>>),
    ) -> Self {
        let by_index = vec![false; captures.len()];
        let state = Mutex::new(InstallState { by_index, ..InstallState::default() });
        RemotePlan { id, plan, captures, vectors, state, spreading, forget }
    }

    /// Who runs what, on this many workers.
    pub(crate) fn layout(&self, workers: usize) -> Layout {
        let element = |capture: usize| self.element(capture);
        let spread = match self.spreading {
            Spreading::Never => None,
            by => layout::spread(&self.plan, workers, &element, by == Spreading::ByIterations),
        };
        spread.unwrap_or_else(|| layout::layout(&self.plan, workers, &|resource| self.part_bytes(resource)))
    }

    /// The bytes of an element of a capture.
    fn element(&self, capture: usize) -> u64 {
        self.vectors[capture].map_or(0, |vector| vector.ops.size as u64)
    }

    /// The bytes of what a transfer takes along.
    pub(crate) fn bytes_of(&self, layout: &Layout, resource: u32) -> u64 {
        match &layout.spread {
            Some(spread) => spread.bytes_of(resource, &|capture| self.element(capture)),
            None => self.part_bytes(resource),
        }
    }

    fn part_bytes(&self, resource: u32) -> u64 {
        let Some((capture, range)) = self.plan.part(resource) else { return 0 };
        range.len() as u64 * self.element(capture)
    }

    /// Whether workers get a capture's elements in the order in which they run their blocks.
    pub(crate) fn is_laid_out(&self, capture: usize) -> bool {
        let in_step = matches!(self.plan.usage[capture], Usage::InStep { written: false, .. });
        let small = |vector: Vector| vector.ops.plain && vector.ops.size > 0 && vector.ops.size <= LARGEST;
        in_step && !self.plan.offsets.is_empty() && !self.plan.has_alone() && self.vectors[capture].is_some_and(small)
    }

    /// The DDSs that its loop touches.
    pub(crate) fn ddss(&self) -> impl Iterator<Item = u64> {
        self.vectors.iter().flatten().map(|vector| vector.id)
    }

    /// Whether a capture's elements end up with the worker that ran their iteration, or that owns them, in no order.
    pub(crate) fn is_scattered(&self, layout: &Layout, capture: usize) -> bool {
        let in_step = matches!(self.plan.usage[capture], Usage::InStep { written: true, .. })
            && !self.plan.offsets.is_empty()
            && !self.plan.has_alone();
        in_step || (layout.spread.is_some() && self.plan.shared.contains(&capture))
    }

    /// The indices that a worker's iterations touch of a DDS in step, for a worker with these blocks.
    fn in_step(&self, offset: usize, blocks: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
        let first = self.plan.range.start.wrapping_add(offset);
        let mut ranges: Vec<Range<usize>> = Vec::new();
        if !self.plan.offsets.is_empty() {
            ranges.push(first..first.wrapping_add(self.plan.range.len()));
            return ranges;
        }
        for block in blocks.map(|b| self.plan.blocks[b]) {
            let (start, end) = (first.wrapping_add(block.start), first.wrapping_add(block.end));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Calls `f` for every range that some worker must hold when the loop begins.
    pub(crate) fn each_needed(&self, layout: &Layout, mut each: impl FnMut(Needed)) {
        let mut f = |worker: u32, capture: usize, range: Range<usize>, written: bool| {
            each(Needed { worker, capture, range, written, part: None });
        };
        let blocks_of = |worker: u32| (0..layout.worker_of.len()).filter(move |&b| layout.worker_of[b] == worker);
        for worker in (0..layout.workers as u32).filter(|&worker| blocks_of(worker).next().is_some()) {
            for (c, vector) in self.vectors.iter().enumerate() {
                let Some(vector) = vector else { continue };
                let whole = 0..vector.len;
                match (self.plan.strategy, self.plan.usage[c]) {
                    _ if self.plan.has_alone() => f(worker, c, whole, vector.writable),
                    (Strategy::Serial, _) => f(worker, c, whole, vector.writable),
                    (_, Usage::ReadOnly) => f(worker, c, whole, false),
                    (_, Usage::InStep { .. }) if self.is_laid_out(c) => {}
                    (_, Usage::InStep { offset, written }) => {
                        let changes = written && !self.is_scattered(layout, c);
                        self.in_step(offset, blocks_of(worker)).into_iter().for_each(|range| {
                            f(worker, c, range, changes);
                        });
                    }
                    (Strategy::Coloured, Usage::Shared) => match &layout.spread {
                        Some(spread) => {
                            let slot = self.plan.shared.iter().position(|&shared| shared == c);
                            let needed = slot.map(|slot| &spread.needed[slot][worker as usize]);
                            needed.into_iter().flatten().for_each(|range| f(worker, c, range.clone(), false));
                        }
                        None => f(worker, c, whole, true),
                    },
                    (_, Usage::Shared | Usage::Untouched | Usage::Reduction) => {}
                }
            }
        }
        for resource in 0..layout.holders.len() as u32 {
            let Some((capture, range)) = self.plan.part(resource).filter(|_| !self.plan.has_alone()) else { continue };
            let mut needs = |worker: u32, written: bool| {
                each(Needed { worker, capture, range: range.clone(), written, part: Some(resource) });
            };
            match layout.holders[resource as usize] {
                Some(holder) => needs(holder, true),
                None => layout.readers[resource as usize].iter().for_each(|&reader| needs(reader, false)),
            }
        }
    }

    /// Where parts are after a run that was undone: with their first writers, as far as these had begun.
    pub(crate) fn each_undone(&self, layout: &Layout, started: &[u32], mut f: impl FnMut(u32, usize, Range<usize>)) {
        let mut begun = vec![false; self.plan.blocks.len()];
        for &block in started {
            if let Some(begun) = begun.get_mut(block as usize) {
                *begun = true;
            }
        }
        for (resource, first) in layout.first_writer.iter().enumerate() {
            let Some(first) = first.filter(|&first| begun[first as usize]) else { continue };
            if let Some((capture, range)) = self.plan.part(resource as u32) {
                f(layout.worker_of[first as usize], capture, range);
            }
        }
    }

    /// The iterations' offsets of one worker, in the order in which it lays out elements.
    pub(crate) fn offsets_of<'p>(&'p self, layout: &'p Layout, worker: u32) -> impl Iterator<Item = &'p [u32]> {
        let plan = layout.plan(&self.plan);
        let own = (0..plan.blocks.len()).filter(move |&b| layout.worker_of[b] == worker);
        own.map(|b| &plan.offsets[plan.blocks[b].start..plan.blocks[b].end])
    }
}

/// Notes what a range's new holder means.
pub(crate) fn place(placement: &mut Placement, range: &Range<usize>, node: Node, written: bool) {
    if written {
        placement.written(range, Holder::memory(node));
    } else {
        placement.copied(range, Holder::memory(node));
    }
}
