//! What workers fetch while the first blocks of a loop run: elements that don't change meanwhile where they are, with the driver or in a
//! snapshot. Where DDS servers are the home of elements, that is all that blocks need. What other workers have in memory is fetched before
//! the loop: they may be sent a new version of it while it runs.

use std::collections::{BTreeMap, BTreeSet};

use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote_plan::{Needed, RemotePlan, Vector};
use crate::cluster::wire::protocol::{DRIVER, Fetch, Holder, Node, Pull};
use crate::planner::layout::Layout;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::options::Strategy;

/// What each worker fetches, and which transfers it leaves out.
pub(crate) struct Ahead {
    pub(crate) fetches: Vec<Vec<Fetch>>,
    pub(crate) unsent: Vec<Vec<u32>>,
    /// Found when it is needed.
    first: Option<First>,
}

/// What becomes of the parts' versions from before the loop.
pub(crate) struct First {
    /// By part, the transfers of that version.
    pub(crate) transfers: BTreeMap<u32, Vec<u32>>,
    /// Parts of which blocks of their holders use that version.
    pub(crate) used: BTreeSet<u32>,
}

/// Nobody changes what they hold while a loop runs.
pub(crate) fn stays(holder: &Holder) -> bool {
    holder.snapshot > 0 || holder.node == DRIVER
}

/// Whether a worker's blocks can tell which elements of a capture they wait for.
pub(crate) fn has_places(plan: &RemotePlan, layout: &Layout, vector: &Vector, capture: usize, in_parts: bool) -> bool {
    let whole = &plan.plan;
    let once = plan.ddss().filter(|&id| id == vector.id).count() == 1;
    let in_order = matches!(whole.usage[capture], Usage::InStep { .. }) && whole.offsets.is_empty();
    matches!(whole.strategy, Strategy::Grid | Strategy::Aligned)
        && !whole.has_alone()
        && layout.spread.is_none()
        && once
        && (in_parts || in_order)
}

impl Ahead {
    pub(crate) fn new(workers: usize) -> Ahead {
        let none = || (0..workers).map(|_| Vec::new()).collect();
        Ahead { fetches: none(), unsent: (0..workers).map(|_| Vec::new()).collect(), first: None }
    }

    /// Whether what a worker lacks of a range comes while the loop runs.
    pub(crate) fn takes(
        &mut self,
        (plan, layout): (&RemotePlan, &Layout),
        needed: &Needed,
        vector: &Vector,
        (placement, workers): (&Placement, &[Node]),
    ) -> bool {
        if !has_places(plan, layout, vector, needed.capture, needed.part.is_some()) {
            return false;
        }
        let lacks = |worker: u32| {
            let me = workers[worker as usize];
            placement.missing_from(vector.id, &needed.range, me, worker as usize, stays)
        };
        let Some(pulls) = lacks(needed.worker) else { return false };
        let Some(part) = needed.part.filter(|_| needed.written) else {
            self.fetches[needed.worker as usize].push(Fetch { pulls, transfer: None, until: u32::MAX });
            return true;
        };
        // Who has a part last would send it to those that need it first. It may use it itself before that is changed.
        if pulls.iter().map(|pull| pull.range.len()).sum::<usize>() < needed.range.len() {
            return false;
        }
        let first = self.first.get_or_insert_with(|| First::of(&plan.plan, layout));
        let transfers = first.transfers.get(&part).map_or(&[][..], Vec::as_slice);
        let to = |t: u32| layout.transfers[t as usize].to;
        let lacking: Option<Vec<Vec<Pull>>> = transfers.iter().map(|&t| lacks(to(t))).collect();
        let Some(lacking) = lacking else { return false };
        for (&t, pulls) in transfers.iter().zip(lacking) {
            self.fetches[to(t) as usize].push(Fetch { pulls, transfer: Some(t), until: u32::MAX });
        }
        self.unsent[needed.worker as usize].extend_from_slice(transfers);
        if let Some(until) = layout.first_writer[part as usize].filter(|_| first.used.contains(&part)) {
            self.fetches[needed.worker as usize].push(Fetch { pulls, transfer: None, until });
        }
        true
    }

    /// All that is fetched, by worker.
    pub(crate) fn pulls(&self) -> impl Iterator<Item = (usize, &[Pull])> {
        let all = self.fetches.iter().enumerate();
        all.flat_map(|(worker, fetches)| fetches.iter().map(move |fetch| (worker, fetch.pulls.as_slice())))
    }
}

impl First {
    pub(crate) fn of(plan: &Plan, layout: &Layout) -> First {
        let mut first = First { transfers: BTreeMap::new(), used: BTreeSet::new() };
        for (t, transfer) in layout.transfers.iter().enumerate().filter(|(_, transfer)| transfer.after.is_empty()) {
            first.transfers.entry(transfer.resource).or_default().push(t as u32);
        }
        for (block, worker) in layout.worker_of.iter().enumerate() {
            let unchanged = |part: usize| layout.first_writer[part].is_some_and(|writer| block <= writer as usize);
            let own = |part: usize| layout.holders[part] == Some(*worker) && unchanged(part);
            let touched = plan.touches(block).iter().map(|touch| touch.resource);
            first.used.extend(touched.filter(|&part| own(part as usize)));
        }
        first
    }
}
