//! The block table of a plan, as a file has it: what each block costs and touches, and how large what it touches is. No data.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::layout::{Layout, layout, spread};
use crate::options::Strategy;
use crate::plan::{Block, BlockGraph, Cut, Facts, Listed, Parts, Plan, Strata, Touch};

/// The version of tables that this program writes.
const VERSION: u32 = 1;
/// Larger lists are left out of a table: the simulator then runs the plan on one worker.
const MOST_LISTED: usize = 1 << 26;

/// A plan's blocks, without its data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlanTable {
    /// The version of this format: 1.
    pub version: u32,
    /// File and line of the loop.
    pub site: String,
    /// How the plan finds parallelism.
    pub strategy: Strategy,
    /// How many iterations the loop has.
    pub iterations: usize,
    /// The DDSs that are cut into parts. Their parts are numbered one after the other.
    pub cut: Vec<CutDds>,
    /// What each block costs, in accesses, in serial order.
    pub costs: Vec<u64>,
    /// For each block the parts that it touches, and whether it writes them; none where nothing is cut.
    pub touches: Vec<Vec<(u32, bool)>>,
    /// Where nothing is cut: pairs of blocks, of which the second waits for the first.
    pub edges: Vec<(u32, u32)>,
    /// Whether all blocks run on one worker.
    pub together: bool,
    /// The first block of each stratum and the number of blocks, and by how many strata relaxed state may lag behind.
    pub strata: (Vec<u32>, usize),
    /// Bytes of relaxed state.
    pub relaxed: u64,
    /// Of a coloured plan: what its iterations touch, by which they are shared out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listed: Option<Listing>,
    /// A call of the loop.
    pub measured: Measured,
}

/// What each iteration of a coloured plan touches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listing {
    /// Where the iterations of each block begin and end in the plan's order.
    pub blocks: Vec<(usize, usize)>,
    /// Where each of them stands in the loop; none: in the loop's order.
    pub offsets: Vec<u32>,
    /// Whether blocks may be cut elsewhere, since no bits depend on it.
    pub within_blocks: bool,
    /// The DDSs that iterations share.
    pub shared: Vec<ListedDds>,
}

/// What iterations touch of a DDS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ListedDds {
    /// Its name in the capture list.
    pub name: String,
    /// Bytes of an element.
    pub element: u64,
    /// Twice an element's index, and one more where it is written; iteration by iteration,
    pub entries: Vec<u32>,
    /// and where each iteration's end.
    pub ends: Vec<u32>,
}

/// How a DDS is cut.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CutDds {
    /// Its name in the capture list.
    pub name: String,
    /// Part `k` is `bounds[k]..bounds[k + 1]`.
    pub bounds: Vec<usize>,
    /// Bytes of an element.
    pub element: u64,
}

/// How long a loop took.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Seconds of the call.
    pub seconds: f64,
    /// Worker processes; 0: one process.
    pub workers: usize,
    /// Threads in each.
    pub threads: usize,
}

/// What is wrong with a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TableError {
    /// Another program wrote it.
    Version(u32),
    /// Two of its lists don't fit each other.
    Inconsistent(String),
    /// The loop was not measured in one process.
    NotMeasured,
    /// Its blocks are not those of the plan beside which it stands.
    OfAnother,
    /// It was measured on no more threads than the plan beside which it stands.
    NotCrowded,
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "a table of version {version}; this program reads version {VERSION}"),
            Self::Inconsistent(what) => write!(f, "not the table of a plan: {what}"),
            Self::OfAnother => write!(f, "the plan of another loop, or of other data: its blocks are others"),
            Self::NotCrowded => write!(f, "measured on no more threads than the plan itself: write it with more"),
            Self::NotMeasured => {
                write!(
                    f,
                    "the loop was not measured in one process: write the plan without worker processes, or say what an access takes"
                )
            }
        }
    }
}

impl std::error::Error for TableError {}

impl PlanTable {
    /// The table of a plan. `names` and `elements`: of each capture, its name and the bytes of an element. `within_blocks`: whether
    /// no bits depend on where blocks begin.
    pub fn of(
        plan: &Plan,
        site: String,
        names: &dyn Fn(usize) -> String,
        elements: &dyn Fn(usize) -> u64,
        within_blocks: bool,
        (relaxed, measured): (u64, Measured),
    ) -> PlanTable {
        let blocks = 0..plan.graph.len();
        let cut = plan.parts.iter().flat_map(|parts| parts.captures.iter().zip(&parts.cuts));
        let touched = |b: usize| plan.touches(b).iter().map(|touch| (touch.resource, touch.write)).collect();
        let after = |b: usize| plan.graph.followers(b).iter().map(move |&follower| (b as u32, follower));
        let by_parts = plan.parts.is_some() && !plan.has_alone();
        PlanTable {
            version: VERSION,
            site,
            strategy: plan.strategy,
            iterations: plan.range.len(),
            cut: cut
                .map(|(&c, cut)| CutDds { name: names(c), bounds: cut.bounds.clone(), element: elements(c) })
                .collect(),
            costs: blocks.clone().map(|b| plan.graph.cost(b)).collect(),
            touches: if by_parts { blocks.clone().map(touched).collect() } else { Vec::new() },
            edges: if by_parts { Vec::new() } else { blocks.flat_map(after).collect() },
            together: plan.has_alone(),
            strata: plan.strata.to_parts(),
            relaxed,
            listed: Listing::of(plan, names, elements, within_blocks),
            measured,
        }
    }

    /// The plan behind it, as far as simulations need it.
    ///
    /// # Errors
    /// [`TableError`] where the lists don't fit each other.
    pub fn plan(&self) -> Result<Plan, TableError> {
        self.check()?;
        let cuts = self.cut.iter().map(|dds| Cut { bounds: dds.bounds.clone() }).collect();
        let parts = (!self.touches.is_empty()).then(|| Parts::new((0..self.cut.len()).collect(), cuts));
        let mut touch_starts = vec![0u32];
        let mut touches = Vec::new();
        for block in &self.touches {
            touches.extend(block.iter().map(|&(resource, write)| Touch { resource, write }));
            touch_starts.push(touches.len() as u32);
        }
        let graph = match &parts {
            Some(parts) => {
                let each = touch_starts.windows(2).map(|ends| &touches[ends[0] as usize..ends[1] as usize]);
                BlockGraph::from_touches(self.costs.clone(), parts.resources(), each)
            }
            None => BlockGraph::from_edges(self.costs.clone(), self.edges.clone()),
        };
        let mut plan = Plan {
            strategy: self.strategy,
            blocks: (0..self.costs.len()).map(|b| Block { start: b, end: b + 1 }).collect(),
            graph,
            parts,
            touch_starts,
            touches,
            alone: if self.together { vec![0] } else { Vec::new() },
            ..Plan::serial(0..self.costs.len(), 0, Facts::default())
        };
        if let Some(strata) = Strata::of_parts(self.strata.0.clone(), self.strata.1) {
            plan.graph.add_edges(strata.edges(&plan.graph));
            plan.strata = Arc::new(strata);
        }
        if let Some(listing) = &self.listed {
            plan.blocks = listing.blocks.iter().map(|&(start, end)| Block { start, end }).collect();
            plan.offsets = listing.offsets.clone().into();
            plan.shared = (0..listing.shared.len()).collect();
            plan.listed = listing.shared.iter().map(ListedDds::lists).collect();
        }
        Ok(plan)
    }

    /// The plan on some workers, as the runtime would lay it out.
    pub(super) fn layout(&self, plan: &Plan, workers: usize) -> Layout {
        let spread = self.listed.as_ref().and_then(|listing| {
            let element = |slot: usize| listing.shared.get(slot).map_or(0, |dds| dds.element);
            spread(plan, workers, &element, listing.within_blocks)
        });
        spread.unwrap_or_else(|| layout(plan, workers, &|part| self.bytes_of(part)))
    }

    /// What a transfer of a layout takes along, in bytes.
    pub(super) fn bytes_in(&self, layout: &Layout, resource: u32) -> u64 {
        match (&layout.spread, &self.listed) {
            (Some(spread), Some(listing)) => {
                spread.bytes_of(resource, &|slot| listing.shared.get(slot).map_or(0, |dds| dds.element))
            }
            _ => self.bytes_of(resource),
        }
    }

    fn check(&self) -> Result<(), TableError> {
        let wrong = |what: String| Err(TableError::Inconsistent(what));
        if self.version != VERSION {
            return Err(TableError::Version(self.version));
        }
        let blocks = self.costs.len();
        if blocks == 0 || blocks > u32::MAX as usize {
            return wrong(format!("{blocks} blocks"));
        }
        if let Some(cut) = self.cut.iter().find(|cut| cut.bounds.len() < 2 || !cut.bounds.is_sorted()) {
            return wrong(format!("the bounds of `{}` don't ascend", cut.name));
        }
        if !self.touches.is_empty() && self.touches.len() != blocks {
            return wrong(format!("{blocks} costs, and touches of {} blocks", self.touches.len()));
        }
        let resources: usize = self.cut.iter().map(|cut| cut.bounds.len() - 1).sum();
        if let Some((touched, _)) = self.touches.iter().flatten().find(|touch| touch.0 as usize >= resources) {
            return wrong(format!("a block touches part {touched} of {resources}"));
        }
        if let Some((before, after)) = self.edges.iter().find(|edge| edge.0 >= edge.1 || edge.1 as usize >= blocks) {
            return wrong(format!("block {after} of {blocks} waits for block {before}"));
        }
        if self.strata.0.last().is_some_and(|&end| end as usize != blocks) {
            return wrong(format!("strata of other blocks than {blocks}"));
        }
        if self.strata.0.iter().any(|&start| start as usize > blocks) {
            return wrong("strata begin behind the last block".to_string());
        }
        self.listed.as_ref().map_or(Ok(()), |listing| listing.check(self.strategy, blocks).or_else(wrong))
    }

    /// The bytes of a part.
    pub fn bytes_of(&self, resource: u32) -> u64 {
        let mut at = resource as usize;
        for cut in &self.cut {
            let parts = cut.bounds.len() - 1;
            if at < parts {
                return (cut.bounds[at + 1] - cut.bounds[at]) as u64 * cut.element;
            }
            at -= parts;
        }
        0
    }

    /// How many threads ran the call that `crowded` has, and nanoseconds for each of its accesses. It has to be a call by the same
    /// plan, on more threads than the one measured here.
    ///
    /// # Errors
    /// [`TableError`] where it is another plan, or has no more threads, or was not measured in one process.
    pub fn crowded(&self, plan: &Plan, crowded: &PlanTable) -> Result<(usize, f64), TableError> {
        crowded.check()?;
        if crowded.costs != self.costs || crowded.cut != self.cut {
            return Err(TableError::OfAnother);
        }
        let nanos = crowded.nanos_an_access(plan)?;
        let threads = crowded.measured.threads;
        let is_more = threads > self.measured.threads.max(1);
        is_more.then_some((threads, nanos)).ok_or(TableError::NotCrowded)
    }

    /// Nanoseconds for each access by which blocks are costed, from the call that was measured.
    ///
    /// # Errors
    /// [`TableError::NotMeasured`].
    pub fn nanos_an_access(&self, plan: &Plan) -> Result<f64, TableError> {
        let Measured { seconds, workers, threads } = self.measured;
        if workers > 0 || !(seconds > 0.0 && seconds.is_finite()) {
            return Err(TableError::NotMeasured);
        }
        Ok(seconds * 1e9 / plan.graph.makespan(threads.max(1)).max(1) as f64)
    }
}

impl Listing {
    fn of(
        plan: &Plan,
        names: &dyn Fn(usize) -> String,
        elements: &dyn Fn(usize) -> u64,
        within_blocks: bool,
    ) -> Option<Listing> {
        let entries: usize = plan.listed.iter().map(|listed| listed.entries.len()).sum();
        if plan.strategy != Strategy::Coloured || plan.has_alone() || entries > MOST_LISTED {
            return None;
        }
        let of_dds = |(&c, listed): (&usize, &Listed)| ListedDds {
            name: names(c),
            element: elements(c),
            entries: listed.entries.clone(),
            ends: listed.ends.clone(),
        };
        Some(Listing {
            blocks: plan.blocks.iter().map(|block| (block.start, block.end)).collect(),
            offsets: plan.offsets.to_vec(),
            within_blocks,
            shared: plan.shared.iter().zip(&plan.listed).map(of_dds).collect(),
        })
    }

    /// What is wrong with it, if something is.
    fn check(&self, strategy: Strategy, blocks: usize) -> Result<(), String> {
        let ends = || self.blocks.iter().flat_map(|&(start, end)| [start, end]);
        if strategy != Strategy::Coloured || self.blocks.len() != blocks || !ends().is_sorted() {
            return Err("what is listed is of other blocks".to_string());
        }
        let iterations = ends().last().unwrap_or(0);
        if !self.offsets.is_empty() && self.offsets.len() < iterations {
            return Err(format!("{iterations} iterations, and places of {}", self.offsets.len()));
        }
        let whole = |dds: &&ListedDds| {
            let last = dds.ends.last().map_or(0, |&last| last as usize);
            dds.ends.len() >= iterations && dds.ends.is_sorted() && last == dds.entries.len()
        };
        match self.shared.iter().find(|dds| !whole(dds)) {
            Some(dds) => Err(format!("what is listed of `{}` doesn't fit {iterations} iterations", dds.name)),
            None => Ok(()),
        }
    }
}

impl ListedDds {
    fn lists(&self) -> Listed {
        Listed { entries: self.entries.clone(), ends: self.ends.clone() }
    }
}
