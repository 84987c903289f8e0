//! Where the blocks of a plan run, and which parts move when.
//!
//! A layout is a function of the plan, the number of workers and the sizes of the parts. It never changes a result:
//! each block sees the versions of its parts that the plan's serial order gives, wherever it runs.
//!
//! Every worker has memory of its own for the parts that it uses, so a part may be read in an older version on one
//! worker while another already writes the next. What has to be waited for is therefore: a worker's own blocks in
//! their order on each part ([`Layout::graph_of`]), the transfers that bring what a block needs
//! ([`Transfer::before`]), and, before a transfer may overwrite a part, the blocks that still use what stood there
//! ([`Transfer::behind`]). All three follow the serial order, so nothing waits in a circle, provided that a part which
//! arrives before it may be put in place is taken aside: what its blocks wait for may come behind it.

mod assign;
mod estimate;
pub(crate) mod events;
mod lists;
mod spread;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::options::Strategy;
use crate::plan::{BlockGraph, Parts, Plan};

pub use lists::ShortList;
pub use spread::{Cargo, Spread, spread, spread_over_all};

/// Where the blocks of a plan run, and how its parts travel, for one number of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How many workers there are.
    pub workers: usize,
    /// Of each block.
    pub worker_of: Vec<u32>,
    /// The transfers, in the serial order of the first blocks that need them. The index is the transfer's number on the wire.
    pub transfers: Vec<Transfer>,
    /// For each resource that some block writes: the worker that holds it between runs, which is the worker of its last writer.
    pub holders: Vec<Option<u32>>,
    /// For each resource that no block writes: the workers that read it, in ascending order. They get it once.
    pub readers: Vec<Vec<u32>>,
    /// For each resource: the first block in the serial order that writes it.
    pub first_writer: Vec<Option<u32>>,
    /// For each worker: the cost of its blocks, in accesses.
    pub loads: Vec<u64>,
    /// For a coloured plan on several workers: what replaces its parts. Blocks and transfers are those of the plan in it.
    pub spread: Option<Arc<Spread>>,
}

/// One version of a part on its way from one worker to another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Which part.
    pub resource: u32,
    /// The worker that sends it.
    pub from: u32,
    /// The worker that needs it.
    pub to: u32,
    /// The blocks on `from` that complete this version when they end (a single one if it is a part). Empty for the version from
    /// before the loop.
    pub after: ShortList,
    /// Blocks on `to` that need it, ascending.
    pub before: ShortList,
    /// Blocks on `to` that used an older version of the memory and must have ended before it is overwritten.
    pub behind: ShortList,
    /// Whether `from` may overwrite its memory while the transfer is under way, by a block of its own or by a newer version. If so,
    /// it must send a copy. The copy is made when each of `after` ends, before any block that waits for that starts.
    pub copy: bool,
}

/// Lays a plan out on this many workers. `bytes` is the size of a resource.
pub fn layout(plan: &Plan, workers: usize, bytes: &dyn Fn(u32) -> u64) -> Layout {
    let workers = workers.max(1);
    let blocks = plan.blocks.len();
    match (&plan.parts, plan.strategy) {
        _ if workers == 1 || plan.has_alone() => Layout::new(plan, workers, vec![0; blocks]),
        (Some(parts), Strategy::Grid) => best(plan, parts, workers, bytes),
        (_, Strategy::Aligned) => Layout::new(plan, workers, assign::runs(&costs(plan), workers)),
        _ => Layout::new(plan, workers, vec![0; blocks]),
    }
}

/// The cost of each block.
fn costs(plan: &Plan) -> Vec<u64> {
    (0..plan.graph.len()).map(|block| plan.graph.cost(block)).collect()
}

/// Of the assignments whose cost is nearly the least, the one that moves the least.
fn best(plan: &Plan, parts: &Parts, workers: usize, bytes: &dyn Fn(u32) -> u64) -> Layout {
    // One layout at a time: they take more than the plan.
    let mut tried: Vec<(u64, u64, Vec<u32>)> = Vec::new();
    for worker_of in assign::candidates(plan, parts, workers, bytes) {
        if tried.iter().all(|(.., other)| *other != worker_of) {
            let layout = Layout::new(plan, workers, worker_of);
            tried.push((estimate::cost(plan, &layout, bytes), layout.bytes_moved(bytes), layout.worker_of));
        }
    }
    let least = tried.iter().map(|(cost, ..)| *cost).min().unwrap_or(0);
    let near = tried.into_iter().filter(|(cost, ..)| cost.saturating_mul(100) <= least.saturating_mul(103));
    let best = near.min_by_key(|(_, moved, _)| *moved);
    Layout::new(plan, workers, best.map_or_else(|| vec![0; plan.blocks.len()], |(.., worker_of)| worker_of))
}

impl Layout {
    /// The layout that follows from an assignment of blocks to workers.
    pub fn new(plan: &Plan, workers: usize, worker_of: Vec<u32>) -> Layout {
        let resources = plan.parts.as_ref().map_or(0, Parts::resources);
        let mut first_writer = vec![None; resources];
        let mut holders = vec![None; resources];
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); resources];
        let mut loads = vec![0u64; workers];
        for (block, &worker) in worker_of.iter().enumerate() {
            loads[worker as usize] += plan.graph.cost(block);
            for touch in plan.touches(block) {
                let at = touch.resource as usize;
                if touch.write {
                    first_writer[at].get_or_insert(block as u32);
                    holders[at] = Some(worker);
                } else {
                    readers[at].push(worker);
                }
            }
        }
        for (readers, holder) in readers.iter_mut().zip(&holders) {
            if holder.is_some() {
                readers.clear();
            }
            readers.sort_unstable();
            readers.dedup();
        }
        let transfers = transfers(plan, &worker_of, &holders);
        Layout { workers, worker_of, transfers, holders, readers, first_writer, loads, spread: None }
    }

    /// The plan as workers run it.
    pub fn plan<'l>(&'l self, whole: &'l Plan) -> &'l Plan {
        self.spread.as_ref().map_or(whole, |spread| &spread.plan)
    }

    /// The blocks of one worker in serial order, and which of them wait for which. Block `k` of the graph is the plan's
    /// block `blocks[k]`; tails are those of the whole plan, since what others wait for is urgent too.
    ///
    /// The plan's own edges are not enough, unless it is a spread one: it may say that a block waits for another only through one
    /// elsewhere.
    pub fn graph_of(&self, plan: &Plan, worker: u32) -> (Vec<u32>, BlockGraph) {
        let plan = self.plan(plan);
        let blocks: Vec<u32> =
            (0..self.worker_of.len() as u32).filter(|&b| self.worker_of[b as usize] == worker).collect();
        let cost = blocks.iter().map(|&b| plan.graph.cost(b as usize)).collect();
        let mut graph = match &plan.parts {
            Some(parts) if !plan.has_alone() => {
                BlockGraph::from_touches(cost, parts.resources(), blocks.iter().map(|&b| plan.touches(b as usize)))
            }
            _ => {
                let mut edges = Vec::new();
                for (k, &b) in blocks.iter().enumerate() {
                    let mine = plan.graph.followers(b as usize).iter().filter_map(|f| blocks.binary_search(f).ok());
                    edges.extend(mine.map(|f| (k as u32, f as u32)));
                }
                BlockGraph::from_edges(cost, edges)
            }
        };
        // Blocks elsewhere are waited for by what they send.
        if plan.strata.blocks() > 0 {
            let mut edges = Vec::new();
            let strata: Vec<usize> = blocks.iter().map(|&block| plan.strata.of(block as usize)).collect();
            for (k, &after) in blocks.iter().enumerate() {
                let seen = plan.strata.seen_by(after as usize);
                let end = strata.partition_point(|&stratum| stratum < seen);
                // Those in the last of these strata wait for the ones before.
                let first = end.checked_sub(1).map_or(0, |last| plan.strata.seen_by(blocks[last] as usize));
                let first = strata.partition_point(|&stratum| stratum < first);
                edges.extend((first as u32..end as u32).map(|before| (before, k as u32)));
            }
            graph.add_edges(edges);
        }
        graph.tail = blocks.iter().map(|&b| plan.graph.tail[b as usize]).collect();
        (blocks, graph)
    }

    /// The bytes that all transfers of one run move.
    pub fn bytes_moved(&self, bytes: &dyn Fn(u32) -> u64) -> u64 {
        self.transfers.iter().fold(0, |sum, transfer| sum.saturating_add(bytes(transfer.resource)))
    }

    /// The load of the busiest worker over the average load: 1 if the load is even, [`Layout::workers`] if one worker has
    /// everything.
    pub fn imbalance(&self) -> f64 {
        let all: u64 = self.loads.iter().sum();
        let busiest = self.loads.iter().copied().max().unwrap_or(0);
        if all == 0 { 1.0 } else { busiest as f64 * self.workers as f64 / all as f64 }
    }
}

/// What one worker has of a resource.
#[derive(Default)]
struct Have {
    /// Versions are numbered by the writes so far.
    version: usize,
    /// The transfer that brought it.
    brought: Option<usize>,
    /// Blocks that use this memory since it was last overwritten.
    used: ShortList,
}

/// A resource as the serial order passes over it.
struct Passed {
    version: usize,
    last_writer: Option<u32>,
    owner: u32,
    /// By worker.
    have: BTreeMap<u32, Have>,
    /// The worker of each write.
    writers: Vec<u32>,
}

fn transfers(plan: &Plan, worker_of: &[u32], holders: &[Option<u32>]) -> Vec<Transfer> {
    let begin = |holder: &Option<u32>| {
        holder.map(|owner| Passed {
            version: 0,
            last_writer: None,
            owner,
            have: BTreeMap::from([(owner, Have::default())]),
            writers: Vec::new(),
        })
    };
    // None where nobody writes: that is no matter of versions.
    let mut passed: Vec<Option<Passed>> = holders.iter().map(begin).collect();
    let mut transfers: Vec<Transfer> = Vec::new();
    let mut versions: Vec<usize> = Vec::new();
    for (block, &worker) in worker_of.iter().enumerate() {
        let block = block as u32;
        for touch in plan.touches(block as usize) {
            let Some(part) = &mut passed[touch.resource as usize] else { continue };
            let version = part.version;
            let lacking = part.have.get(&worker).is_none_or(|have| have.version != version);
            let have = part.have.entry(worker).or_default();
            if lacking {
                have.version = version;
                have.brought = Some(transfers.len());
                versions.push(version);
                transfers.push(Transfer {
                    resource: touch.resource,
                    from: part.owner,
                    to: worker,
                    after: part.last_writer.into_iter().collect(),
                    before: ShortList::default(),
                    behind: std::mem::take(&mut have.used),
                    copy: false,
                });
            }
            if let Some(brought) = have.brought {
                transfers[brought].before.push(block);
            }
            have.used.push(block);
            if touch.write {
                part.version += 1;
                part.last_writer = Some(block);
                part.owner = worker;
                part.writers.push(worker);
                // What the worker itself did before has ended before this block starts.
                *have = Have { version: part.version, brought: None, used: ShortList::from_iter([block]) };
            }
        }
    }
    transfers.shrink_to_fit();
    for (transfer, &version) in transfers.iter_mut().zip(&versions) {
        let Some(part) = &passed[transfer.resource as usize] else { continue };
        transfer.copy = match part.writers.get(version) {
            None => false,
            // The next version is made where this one arrives, or everything after could be overtaken by it.
            Some(&next) if next == transfer.to => false,
            Some(_) => part.have[&transfer.from].version > version,
        };
    }
    transfers
}
