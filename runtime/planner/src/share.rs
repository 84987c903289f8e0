//! What one worker process has to know of a plan: its own blocks, and the parts that it sends and awaits. Laid out once,
//! when the plan is made (IterStore section 4.1: messages are known beforehand).

use std::ops::Range;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::layout::Layout;
use crate::options::Strategy;
use crate::plan::{Block, BlockGraph, Cut, Facts, Listed, Parts, Plan, Strata, Touch};
use crate::recording::FieldPlace;
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
    fields: Vec<Option<(usize, usize)>>,
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
}

/// Numbers of resources from here on are blocks, whose additions to relaxed state travel like parts.
pub const ADDED: u32 = 1 << 31;

/// A part that comes from another worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Arrival {
    /// Its number on the wire.
    pub transfer: u32,
    /// Which part, or [`ADDED`] and a block.
    pub resource: u32,
    /// The worker's blocks that need it.
    pub before: Vec<u32>,
    /// The worker's blocks that use what it replaces.
    pub behind: Vec<u32>,
}

/// A part that goes to another worker.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Send {
    /// Its number on the wire.
    pub transfer: u32,
    /// Which part, or [`ADDED`] and a block.
    pub resource: u32,
    /// The number of the worker that needs it.
    pub to: u32,
    /// The worker's block that completes it; none: it stands when the loop begins.
    pub after: Option<u32>,
    /// Whether the worker may write the part again while it is being sent.
    pub copy: bool,
}

impl Plan {
    /// The share of one worker.
    pub fn share(&self, layout: &Layout, worker: u32, by_index: &[bool]) -> Share {
        let (own, graph) = layout.graph_of(self, worker);
        let own: Vec<usize> = own.into_iter().map(|b| b as usize).collect();
        let (blocks, offsets) = self.own_blocks(&own);
        let mut edges = Vec::new();
        for k in 0..own.len() {
            edges.extend(graph.followers(k).iter().map(|&follower| (k as u32, follower)));
        }
        let listed = |listed: &Listed| (Bulk(listed.entries.clone()), Bulk(listed.ends.clone()));
        let (arrivals, sends) = self.transfers(layout, worker, &own);
        Share {
            strategy: self.strategy,
            range: self.range.clone(),
            usage: self.usage.clone(),
            blocks,
            offsets,
            cost: own.iter().map(|&b| self.graph.cost(b)).collect(),
            tail: own.iter().map(|&b| self.graph.tail[b]).collect(),
            edges,
            parts: self
                .parts
                .as_ref()
                .map(|parts| (parts.captures.clone(), parts.cuts.iter().map(|cut| cut.bounds.clone()).collect())),
            touches: own
                .iter()
                .map(|&b| self.touches(b).iter().map(|touch| (touch.resource, touch.write)).collect())
                .collect(),
            listed: if own.is_empty() { Vec::new() } else { self.listed.iter().map(listed).collect() },
            shared: self.shared.clone(),
            fields: self.fields.iter().map(|field| field.map(|field| (field.capture, field.byte))).collect(),
            sparse: self.sparse.clone(),
            saved_elsewhere: layout
                .first_writer
                .iter()
                .map(|first| first.is_some_and(|b| layout.worker_of[b as usize] != worker))
                .collect(),
            arrivals,
            sends,
            by_index: by_index.to_vec(),
            strata: self.strata.to_parts(),
            alone: self.alone.clone(),
            global: own.iter().map(|&b| b as u32).collect(),
            numbers: own.iter().map(|&b| self.number(b) as u32).collect(),
        }
    }
}

impl Plan {
    /// Where the iterations of a worker's blocks stand in its offsets, and these.
    fn own_blocks(&self, own: &[usize]) -> (Vec<(usize, usize)>, Vec<u32>) {
        let blocks = own.iter().map(|&b| self.blocks[b]);
        // Coloured plans list every iteration's elements by its place, and run on one worker.
        if self.offsets.is_empty() || self.strategy == Strategy::Coloured || self.has_alone() {
            let offsets = if own.is_empty() { Vec::new() } else { self.offsets.clone() };
            return (blocks.map(|block| (block.start, block.end)).collect(), offsets);
        }
        let mut offsets = Vec::new();
        let renumber = |block: Block| {
            let start = offsets.len();
            offsets.extend_from_slice(&self.offsets[block.start..block.end]);
            (start, offsets.len())
        };
        (blocks.map(renumber).collect(), offsets)
    }

    /// What a worker awaits and sends.
    fn transfers(&self, layout: &Layout, worker: u32, own: &[usize]) -> (Vec<Arrival>, Vec<Send>) {
        let mut local = vec![u32::MAX; self.blocks.len()];
        own.iter().enumerate().for_each(|(k, &b)| local[b] = k as u32);
        let here = |blocks: &[u32]| blocks.iter().map(|&b| local[b as usize]).collect::<Vec<_>>();
        let (mut arrivals, mut sends) = (Vec::new(), Vec::new());
        for (t, transfer) in layout.transfers.iter().enumerate() {
            let (number, resource) = (t as u32, transfer.resource);
            if transfer.to == worker {
                let (before, behind) = (here(&transfer.before), here(&transfer.behind));
                arrivals.push(Arrival { transfer: number, resource, before, behind });
            }
            if transfer.from == worker {
                let after = transfer.after.map(|b| local[b as usize]);
                sends.push(Send { transfer: number, resource, to: transfer.to, after, copy: transfer.copy });
            }
        }
        let (added_in, added_out) = self.additions(layout, worker, own);
        arrivals.extend(added_in);
        sends.extend(added_out);
        (arrivals, sends)
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
                let after = own.iter().position(|&b| b == block).map(|k| k as u32);
                let last_of = |to: u32| layout.worker_of.iter().rposition(|&at| at == to);
                let others = (0..layout.workers as u32).filter(|&to| to != worker && last_of(to).is_some_and(sees));
                sends.extend(others.map(|to| Send { transfer: transfer(block, to), resource, to, after, copy: true }));
                continue;
            }
            let before: Vec<u32> = (0..own.len() as u32).filter(|&k| sees(own[k as usize])).collect();
            if !before.is_empty() {
                arrivals.push(Arrival { transfer: transfer(block, worker), resource, before, behind: Vec::new() });
            }
        }
        (arrivals, sends)
    }
}

impl Share {
    /// The share as a plan of its own, whose blocks are the worker's. Takes what a plan holds out of the share.
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
            offsets: std::mem::take(&mut self.offsets),
            graph,
            touch_starts,
            touches,
            parts,
            listed: self.listed.drain(..).map(|(entries, ends)| Listed { entries: entries.0, ends: ends.0 }).collect(),
            shared: std::mem::take(&mut self.shared),
            fields: self
                .fields
                .drain(..)
                .map(|field| field.map(|(capture, byte)| FieldPlace { capture, byte }))
                .collect(),
            sparse: std::mem::take(&mut self.sparse),
            strata: Arc::new(strata),
            global: std::mem::take(&mut self.numbers),
            alone: std::mem::take(&mut self.alone),
            ..serial
        }
    }
}

/// Numbers that travel as their memory, since there are many.
#[derive(Debug, Serialize, Deserialize)]
struct Bulk(#[serde(with = "crate::bulk")] Vec<u32>);
