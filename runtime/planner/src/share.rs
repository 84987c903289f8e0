//! What one worker process has to know about a plan: its own blocks, and the parts that it sends and awaits. Laid out once, when
//! the plan is made (IterStore section 4.1: messages are known beforehand).

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::layout::{Cargo, Layout};
use crate::options::Strategy;
use crate::plan::{Block, BlockGraph, Cut, Facts, Listed, Parts, Plan, Strata, Touch};
use crate::recording::IndexFields;
use crate::recording::Usage;

/// One worker's share of a plan, as it travels.
#[derive(Debug, Serialize, Deserialize)]
pub struct Share {
    strategy: Strategy,
    range: Range<usize>,
    usage: Vec<Usage>,
    blocks: Vec<(usize, usize)>,
    /// The blocks' places in the plan that is shared out,
    pub global: Vec<u32>,
    /// and in the serial order of the whole, of which that may be a part.
    numbers: Vec<u32>,
    #[serde(with = "crate::bulk")]
    offsets: Vec<u32>,
    cost: Vec<u64>,
    tail: Vec<u64>,
    edges: Vec<(u32, u32)>,
    parts: Option<(Vec<usize>, Vec<Vec<usize>>)>,
    touches: Vec<Vec<(u32, bool)>>,
    listed: Vec<(Bulk, Bulk)>,
    shared: Vec<usize>,
    fields: Vec<Option<(usize, Vec<usize>)>>,
    sparse: Vec<bool>,
    /// For each part: whether another worker is the first to write it, and saves it.
    pub saved_elsewhere: Vec<bool>,
    /// What the worker awaits.
    pub arrivals: Vec<Arrival>,
    /// What the worker sends.
    pub sends: Vec<Send>,
    /// For each capture: whether elements in step are reached by other means than `x[i]`.
    pub by_index: Vec<bool>,
    strata: (Vec<u32>, usize),
    /// Of a plan that runs on one worker: the blocks that may touch anything.
    alone: Vec<u32>,
    /// For a spread plan, which has no parts: its resources, each with a capture and elements.
    pub cargo: Vec<(usize, Bulk)>,
    /// For a spread plan: the written elements of each shared capture that the worker holds before the loop, and saves.
    pub owned: Option<Vec<Bulk>>,
}

/// Resources with numbers from here on are blocks: their additions to relaxed state travel like parts.
pub const ADDED: u32 = 1 << 31;

/// A part, or elements of a spread plan, that come from another worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrival {
    /// Its number on the wire.
    pub transfer: u32,
    /// Which part, or of a spread plan which of [`Share::cargo`], or [`ADDED`] and a block.
    pub resource: u32,
    /// The worker's blocks that need it.
    pub before: Vec<u32>,
    /// The worker's blocks that use the version that it replaces.
    pub behind: Vec<u32>,
}

/// A part that goes to another worker. Of a spread plan: elements; those of one transfer travel together, in the order in which they
/// stand here.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Send {
    /// Its number on the wire.
    pub transfer: u32,
    /// Which part, or of a spread plan which of [`Share::cargo`], or [`ADDED`] and a block.
    pub resource: u32,
    /// The number of the worker that needs it.
    pub to: u32,
    /// The worker's block that completes it; none if it is complete when the loop begins.
    pub after: Option<u32>,
    /// Whether the worker may write the part again while it is being sent.
    pub copy: bool,
}

impl Plan {
    /// The share of one worker.
    pub fn share(&self, layout: &Layout, worker: u32, by_index: &[bool]) -> Share {
        let plan = layout.plan(self);
        let (own, graph) = layout.graph_of(self, worker);
        let own: Vec<usize> = own.into_iter().map(|b| b as usize).collect();
        let (blocks, offsets) = plan.own_blocks(&own, layout);
        let mut edges = Vec::new();
        for k in 0..own.len() {
            edges.extend(graph.followers(k).iter().map(|&follower| (k as u32, follower)));
        }
        let listed = |listed: &Listed| {
            let Listed { entries, ends } =
                if layout.spread.is_some() { plan.own_listed(listed, &own) } else { listed.clone() };
            (Bulk(entries), Bulk(ends))
        };
        let Exchange { arrivals, sends, cargo } = plan.transfers(layout, worker, &own);
        let of_worker = |owned: &Vec<Vec<u32>>| Bulk(owned[worker as usize].clone());
        Share {
            strategy: plan.strategy,
            range: plan.range.clone(),
            usage: plan.usage.clone(),
            blocks,
            offsets,
            cost: own.iter().map(|&b| plan.graph.cost(b)).collect(),
            tail: own.iter().map(|&b| plan.graph.tail[b]).collect(),
            edges,
            parts: plan
                .parts
                .as_ref()
                .map(|parts| (parts.captures.clone(), parts.cuts.iter().map(|cut| cut.bounds.clone()).collect())),
            touches: own
                .iter()
                .map(|&b| plan.touches(b).iter().map(|touch| (touch.resource, touch.write)).collect())
                .collect(),
            listed: if own.is_empty() { Vec::new() } else { plan.listed.iter().map(listed).collect() },
            shared: plan.shared.clone(),
            fields: plan.fields.iter().map(|of| of.as_ref().map(|of| (of.capture, of.bytes.clone()))).collect(),
            sparse: plan.sparse.clone(),
            saved_elsewhere: layout
                .first_writer
                .iter()
                .map(|first| first.is_some_and(|b| layout.worker_of[b as usize] != worker))
                .collect(),
            arrivals,
            sends,
            by_index: by_index.to_vec(),
            strata: plan.strata.to_parts(),
            alone: plan.alone.clone(),
            global: own.iter().map(|&b| b as u32).collect(),
            numbers: own.iter().map(|&b| plan.number(b) as u32).collect(),
            cargo,
            owned: layout.spread.as_ref().map(|spread| spread.owned.iter().map(of_worker).collect()),
        }
    }
}

/// What a worker awaits and sends, and of a spread plan what that is.
struct Exchange {
    arrivals: Vec<Arrival>,
    sends: Vec<Send>,
    cargo: Vec<(usize, Bulk)>,
}

impl Plan {
    /// Where the iterations of a worker's blocks stand in its offsets, and these.
    fn own_blocks(&self, own: &[usize], layout: &Layout) -> (Vec<(usize, usize)>, Vec<u32>) {
        let blocks = own.iter().map(|&b| self.blocks[b]);
        // Coloured plans list every iteration's elements by its place: on one worker all stays where it is.
        let stays = self.strategy == Strategy::Coloured && layout.spread.is_none();
        if self.offsets.is_empty() || stays || self.has_alone() {
            let offsets = if own.is_empty() { Vec::new() } else { self.offsets.to_vec() };
            return (blocks.map(|block| (block.start, block.end)).collect(), offsets);
        }
        let (mut offsets, mut end) = (Vec::new(), 0);
        let here = self.offsets.sorting().is_none();
        let renumber = |block: Block| {
            let start = end;
            end += block.end - block.start;
            if here {
                offsets.extend_from_slice(&self.offsets[block.start..block.end]);
            }
            (start, end)
        };
        (blocks.map(renumber).collect(), offsets)
    }

    /// What is listed for the iterations of a worker's blocks.
    fn own_listed(&self, whole: &Listed, own: &[usize]) -> Listed {
        let mut listed = Listed::default();
        for block in own.iter().map(|&b| self.blocks[b]) {
            let (from, to) = (whole.start(block.start), listed.entries.len());
            listed.entries.extend_from_slice(&whole.entries[from..whole.start(block.end)]);
            listed.ends.extend(whole.ends[block.start..block.end].iter().map(|&end| end - from as u32 + to as u32));
        }
        listed
    }

    /// What a worker awaits and sends.
    fn transfers(&self, layout: &Layout, worker: u32, own: &[usize]) -> Exchange {
        let mut local = vec![u32::MAX; self.blocks.len()];
        own.iter().enumerate().for_each(|(k, &b)| local[b] = k as u32);
        let here = |blocks: &[u32]| blocks.iter().map(|&b| local[b as usize]).collect::<Vec<_>>();
        let (mut arrivals, mut sends, mut cargo) = (Vec::new(), Vec::new(), Vec::new());
        for (t, transfer) in layout.transfers.iter().enumerate() {
            let (number, to) = (t as u32, transfer.to);
            let carried = layout.spread.as_ref().map(|spread| &spread.cargo[transfer.resource as usize]);
            // Its number is a part's, or that of elements that are listed for this worker.
            let mut resource = |elements: &dyn Fn(&Cargo) -> Vec<u32>| {
                let Some(carried) = carried else { return transfer.resource };
                cargo.push((self.shared[carried.slot], Bulk(elements(carried))));
                cargo.len() as u32 - 1
            };
            if to == worker {
                let (before, behind) = (here(&transfer.before), here(&transfer.behind));
                let resource = resource(&|carried| carried.pieces.concat());
                arrivals.push(Arrival { transfer: number, resource, before, behind });
            }
            if transfer.from == worker {
                let after = transfer.after.iter().map(|&b| Some(local[b as usize]));
                for (k, after) in after.chain(transfer.after.is_empty().then_some(None)).enumerate() {
                    let resource = resource(&|carried| carried.pieces[k].clone());
                    sends.push(Send { transfer: number, resource, to, after, copy: transfer.copy });
                }
            }
        }
        let (added_in, added_out) = self.additions(layout, worker, own);
        arrivals.extend(added_in);
        sends.extend(added_out);
        Exchange { arrivals, sends, cargo }
    }

    /// What a worker's blocks see of relaxed state that blocks elsewhere have added to, and the other way round. Each
    /// block's additions go to every other worker that has blocks of later strata.
    fn additions(&self, layout: &Layout, worker: u32, own: &[usize]) -> (Vec<Arrival>, Vec<Send>) {
        let (mut arrivals, mut sends) = (Vec::new(), Vec::new());
        let transfer =
            |block: usize, to: u32| layout.transfers.len() as u32 + block as u32 * layout.workers as u32 + to;
        for block in 0..self.strata.blocks() {
            let (stratum, resource) = (self.strata.of(block), ADDED + block as u32);
            let sees = |b: usize| stratum < self.strata.seen_by(b);
            if layout.worker_of[block] == worker {
                let after = own.binary_search(&block).ok().map(|k| k as u32);
                let last_of = |to: u32| layout.worker_of.iter().rposition(|&at| at == to);
                let others = (0..layout.workers as u32).filter(|&to| to != worker && last_of(to).is_some_and(sees));
                sends.extend(others.map(|to| Send { transfer: transfer(block, to), resource, to, after, copy: true }));
                continue;
            }
            let first = own.partition_point(|&b| !sees(b));
            if let Some(&b) = own.get(first) {
                // Blocks that see the additions of the worker's first ones wait for these.
                let end = own.partition_point(|&other| self.strata.seen_by(other) <= self.strata.of(b));
                let before = (first as u32..end as u32).collect();
                arrivals.push(Arrival { transfer: transfer(block, worker), resource, before, behind: Vec::new() });
            }
        }
        (arrivals, sends)
    }
}

impl Share {
    /// The blocks' iterations, where they were sorted by the workers; or whether their number is right.
    pub fn set_offsets(&mut self, offsets: Vec<u32>) -> bool {
        let right = self.blocks.last().map_or(0, |block| block.1) == offsets.len();
        self.offsets = offsets;
        right
    }

    /// How many iterations each block has.
    pub fn sizes(&self) -> Vec<usize> {
        self.blocks.iter().map(|(start, end)| end - start).collect()
    }

    /// Moves the plan out of the share: a plan of its own, whose blocks are the worker's.
    pub fn take_plan(&mut self) -> Plan {
        let mut graph = BlockGraph::from_edges(std::mem::take(&mut self.cost), std::mem::take(&mut self.edges));
        graph.tail = std::mem::take(&mut self.tail);
        let mut touch_starts = vec![0u32];
        let mut touches = Vec::new();
        for block in std::mem::take(&mut self.touches) {
            touches.extend(block.into_iter().map(|(resource, write)| Touch { resource, write }));
            touch_starts.push(touches.len() as u32);
        }
        let parts = self
            .parts
            .take()
            .map(|(captures, bounds)| Parts::new(captures, bounds.into_iter().map(|bounds| Cut { bounds }).collect()));
        let (starts, staleness) = std::mem::take(&mut self.strata);
        let strata = Strata::of_parts(starts, staleness).unwrap_or_default();
        let serial = Plan::serial(self.range.clone(), self.usage.len(), Facts::default());
        Plan {
            strategy: self.strategy,
            usage: std::mem::take(&mut self.usage),
            blocks: self.blocks.drain(..).map(|(start, end)| Block { start, end }).collect(),
            offsets: std::mem::take(&mut self.offsets).into(),
            graph,
            touch_starts,
            touches,
            parts,
            listed: self.listed.drain(..).map(|(entries, ends)| Listed { entries: entries.0, ends: ends.0 }).collect(),
            shared: std::mem::take(&mut self.shared),
            fields: self.fields.drain(..).map(|of| of.map(|(capture, bytes)| IndexFields { capture, bytes })).collect(),
            sparse: std::mem::take(&mut self.sparse),
            strata: Arc::new(strata),
            global: std::mem::take(&mut self.numbers),
            alone: std::mem::take(&mut self.alone),
            ..serial
        }
    }
}

/// Many numbers, which are sent as their bytes in memory.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Bulk(
    /// The numbers.
    #[serde(with = "crate::bulk")]
    pub Vec<u32>,
);
