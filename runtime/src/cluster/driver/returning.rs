//! Where DDS servers are the home of elements, workers have none of them between calls: what a call has changed is in a snapshot, and
//! the workers free their memory of it. Parts of a grid, and elements in step, they store and free while the loop runs.

use std::ops::Range;

use crate::cluster::driver::ahead::{has_places, stays};
use crate::cluster::driver::remote_plan::{Needed, RemotePlan, Vector};
use crate::cluster::driver::snapshots::tags;
use crate::cluster::driver::{Cluster, Entry, Fault, Scattered, State};
use crate::cluster::wire::protocol::{ControlClient, Holder, Node, Returned};
use crate::planner::layout::Layout;
use crate::planner::recording::Usage;
use crate::session::error::Result;
use crate::session::timeline::{Category, span};

/// What workers store and free while a loop runs: elements that are nowhere but in a snapshot, or with the driver, when it begins.
pub(crate) struct Meanwhile {
    snapshot: u64,
    captures: Vec<usize>,
    written: Vec<u32>,
}

impl Entry {
    /// Whether this snapshot has stored elements that are with workers as well. Copies of what was stored before stay there, since they
    /// are still current. So do elements in a plan's own order: the plan's next call begins with them.
    fn can_be_returned(&self, snapshot: u64) -> bool {
        let stored = self.version == self.base_version && tags(&self.base).contains(&snapshot);
        let by_plan = matches!(self.scattered, Some(Scattered::ByPlan(..)));
        stored && !by_plan && !self.is_apart()
    }
}

impl Meanwhile {
    /// None where there is nothing such.
    pub(crate) fn new(state: &mut State, plan: &RemotePlan, layout: &Layout) -> Option<Meanwhile> {
        let is_returned = |c: &usize| {
            let vector = plan.vectors[*c].filter(|vector| vector.writable && vector.ops.plain && vector.ops.size > 0);
            let entry = vector.and_then(|vector| state.entries.get(&vector.id));
            vector.zip(entry).is_some_and(|(vector, entry)| plan.returns(layout, *c, &vector) && entry.is_kept())
        };
        let captures: Vec<usize> = (0..plan.vectors.len()).filter(is_returned).collect();
        if captures.is_empty() {
            return None;
        }
        state.next_snapshot += 1;
        let snapshot = state.next_snapshot;
        for vector in captures.iter().filter_map(|&c| plan.vectors[c]) {
            if let Some(entry) = state.entries.get_mut(&vector.id) {
                // Whether or not any of it arrives.
                entry.stored.insert(snapshot);
            }
        }
        let mut meanwhile = Meanwhile { snapshot, captures, written: Vec::new() };
        let mut written = Vec::new();
        meanwhile.each(plan, layout, |needed, _| written.extend(needed.part));
        meanwhile.written = written;
        Some(meanwhile)
    }

    /// Calls `f` for every range that goes while the loop runs, with its DDS.
    fn each(&self, plan: &RemotePlan, layout: &Layout, mut f: impl FnMut(&Needed, u64)) {
        plan.each_needed(layout, |needed| {
            if needed.written
                && self.captures.contains(&needed.capture)
                && let Some(vector) = plan.vectors[needed.capture]
            {
                f(&needed, vector.id);
            }
        });
    }

    /// What a worker has to know of it.
    pub(crate) fn of(&self, state: &State, layout: &Layout, worker: usize) -> Returned {
        let owns = |part: &&u32| layout.holders[**part as usize] == Some(worker as u32);
        Returned {
            snapshot: self.snapshot,
            to: keepers_of(state, worker),
            captures: self.captures.clone(),
            written: self.written.clone(),
            own: self.written.iter().filter(owns).copied().collect(),
        }
    }

    /// The loop has ended well: notes where it all is.
    pub(crate) fn done(&self, state: &mut State, plan: &RemotePlan, layout: &Layout) {
        let mut to = Vec::new();
        self.each(plan, layout, |needed, dds| to.push((dds, needed.range.clone(), needed.worker as usize)));
        for (dds, range, worker) in to {
            let keepers = keepers_of(state, worker).map(|node| Holder { node, snapshot: self.snapshot });
            hold(state, dds, &range, &keepers);
        }
    }

    /// It has failed: all of it is where it was.
    pub(crate) fn undone(&self, state: &mut State, plan: &RemotePlan, layout: &Layout) {
        let mut back = Vec::new();
        self.each(plan, layout, |needed, dds| {
            let base = state.entries.get(&dds).into_iter().flat_map(|entry| entry.base.of(&needed.range));
            back.extend(base.map(|(range, at)| (dds, range, at.to_vec())));
        });
        back.into_iter().for_each(|(dds, range, at)| hold(state, dds, &range, &at));
    }
}

/// The processes that keep what a worker stores.
fn keepers_of(state: &State, worker: usize) -> [Node; 2] {
    let keepers = Cluster::keepers(state);
    [0, 1].map(|k| keepers[(worker + k) % keepers.len()])
}

/// A range is with these and nobody else.
fn hold(state: &mut State, dds: u64, range: &Range<usize>, at: &[Holder]) {
    let Some((entry, (first, others))) = state.entries.get_mut(&dds).zip(at.split_first()) else { return };
    entry.placement.written(range, *first);
    others.iter().for_each(|&other| entry.placement.copied(range, other));
}

impl Entry {
    /// Whether the last snapshot has all of it, as it is now.
    fn is_kept(&self) -> bool {
        let current = self.version == self.base_version && self.scattered.is_none();
        current && self.base.segments().iter().all(|held| held.at.iter().all(stays))
    }
}

impl RemotePlan {
    /// Whether workers can tell when their blocks are done with elements of a capture that the loop writes.
    fn returns(&self, layout: &Layout, capture: usize, vector: &Vector) -> bool {
        let whole = &self.plan;
        let told = match whole.usage[capture] {
            // Of sparse parts blocks put single elements back.
            Usage::Shared => whole.parts.is_some() && !whole.is_sparse(capture),
            Usage::InStep { written, .. } => written && whole.offsets.is_empty() && whole.tiles.is_none(),
            Usage::ReadOnly | Usage::Untouched | Usage::Reduction => false,
        };
        told && has_places(self, layout, vector, capture, true)
    }
}

impl Cluster {
    /// Has workers free the elements that are at home on the servers.
    pub(crate) fn return_elements(&self, state: &mut State) -> Result<()> {
        self.retry(state, async |cluster, state| cluster.return_all(state).await)
    }

    async fn return_all(&self, state: &mut State) -> std::result::Result<(), Fault> {
        let (mut ddss, last) = (Vec::new(), state.next_snapshot);
        for (&dds, entry) in state.entries.iter_mut().filter(|(_, entry)| entry.can_be_returned(last)) {
            (entry.placement, entry.scattered) = (entry.base.clone(), None);
            ddss.push(dds);
        }
        if ddss.is_empty() {
            return Ok(());
        }
        let _span = span(Category::Snapshot, ddss.len() as u64);
        let generation = state.generation;
        let free = |_, client: ControlClient, context| {
            let ddss = ddss.clone();
            async move { client.free(context, generation, ddss).await }
        };
        self.ask_all(&state.workers, free).await?;
        Ok(())
    }
}
