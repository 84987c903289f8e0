//! Snapshots: every part that workers have changed is stored with two processes, and so is every part of which only one
//! copy is left after a loss. What no snapshot needs any more is forgotten.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::Logged;
use crate::cluster::driver::{Cluster, Entry, Fault, State, join_all, unless_lost};
use crate::cluster::wire::protocol::{DRIVER, Duplicate, Holder, Node, Pull, SnapshotJob};
use crate::session::timeline::{Category, span};

/// What every worker is to do for a snapshot.
pub(super) struct Jobs {
    pub(super) snapshot: u64,
    pub(super) of: Vec<SnapshotJob>,
    /// Copies that were dealt so far: each is made by another worker.
    copies: usize,
}

impl Cluster {
    /// The processes that keep snapshots; the driver is one of them where there is no second.
    pub(super) fn keepers(state: &State) -> Vec<Node> {
        let mut keepers = if state.servers.is_empty() { state.workers.clone() } else { state.servers.clone() };
        if keepers.len() == 1 {
            keepers.push(DRIVER);
        }
        keepers
    }

    /// Stores what workers have changed since the last snapshot, and a second copy of what has one; the log begins anew.
    pub(crate) async fn snapshot(&self, state: &mut State) -> Result<(), Fault> {
        self.snapshot_before(state, Vec::new()).await
    }

    /// The same where these are still to be done again.
    pub(crate) async fn snapshot_before(&self, state: &mut State, log: Vec<Arc<dyn Logged>>) -> Result<(), Fault> {
        let needed = |dds: u64| log.iter().any(|logged| logged.uses(dds));
        let ids: Vec<u64> = state.entries.keys().copied().collect();
        let mut jobs = Jobs::new(state);
        let snapshot = jobs.snapshot;
        let _span = span(Category::Snapshot, snapshot);
        let mut bases = Vec::new();
        for &dds in &ids {
            let Some(entry) = state.entries.get(&dds) else { continue };
            if (entry.dropped && !needed(dds)) || entry.version == entry.base_version {
                continue;
            }
            self.bring_to_ranges(state, dds).await?;
            let Some(entry) = state.entries.get(&dds) else { continue };
            bases.push((dds, base_of(state, dds, entry, &mut jobs)));
        }
        for (dds, base) in &bases {
            if let Some(entry) = state.entries.get_mut(dds).filter(|_| tags(base).contains(&snapshot)) {
                // Whether or not all of it arrives.
                entry.stored.insert(snapshot);
            }
        }
        self.take(state, jobs).await?;
        // Only now: until here the old snapshot and the log stood.
        for (dds, base) in bases {
            let Some(entry) = state.entries.get_mut(&dds) else { continue };
            let needed = tags(&base);
            (entry.base, entry.base_version) = (base, entry.version);
            // Elements that a worker has fetched from a snapshot are stored anew, and that may not be needed any more.
            entry.placement.without_snapshots_but(|tag| needed.contains(&tag));
        }
        let dropped = state.entries.iter().filter(|&(&dds, entry)| entry.dropped && !needed(dds));
        let dropped: Vec<u64> = dropped.map(|(&dds, _)| dds).collect();
        dropped.into_iter().for_each(|dds| self.forget(state, dds));
        state.log = log;
        Self::drop_old_homes(state);
        self.forget_old(state).await;
        if let Some((dds, range)) = thin_part(state) {
            tracing::error!(dds, ?range, "a part has one copy after a snapshot");
            debug_assert!(false, "elements {range:?} of DDS {dds} have one copy after a snapshot");
        }
        Ok(())
    }

    /// Has workers do what a snapshot needs.
    pub(super) async fn take(&self, state: &State, jobs: Jobs) -> Result<(), Fault> {
        let generation = state.generation;
        let wanted = |job: &SnapshotJob| !job.parts.is_empty() || !job.duplicates.is_empty();
        let asked = jobs.of.into_iter().enumerate().filter(|(_, job)| wanted(job)).map(|(w, job)| {
            self.ask(
                state.workers[w],
                move |client, context| async move { client.snapshot(context, generation, job).await },
            )
        });
        for stored in join_all(asked).await {
            stored?;
        }
        Ok(())
    }

    /// Has all processes that keep snapshots forget what the last one doesn't need.
    async fn forget_old(&self, state: &mut State) {
        let of = |(&dds, entry): (&u64, &Entry)| {
            let needed = &tags(&entry.base) | &tags(&entry.placement);
            let tags = needless(&entry.stored, &needed);
            tags.into_iter().map(move |tags| (dds, tags))
        };
        let old: Vec<(u64, Range<u64>)> = state.entries.iter().flat_map(of).collect();
        if old.is_empty() || !self.drop_snapshots(state, &old).await {
            // What can't be forgotten costs memory until the next snapshot, no more.
            return;
        }
        for (dds, tags) in old {
            if let Some(entry) = state.entries.get_mut(&dds) {
                entry.stored.retain(|tag| !tags.contains(tag));
            }
        }
    }

    /// Has all processes forget the snapshots of DDSs that are gone.
    pub(crate) async fn forget_snapshots(&self, state: &mut State) {
        let gone = std::mem::take(&mut state.gone_snapshots);
        let old: Vec<(u64, Range<u64>)> = gone.iter().map(|&dds| (dds, 0..u64::MAX)).collect();
        if !old.is_empty() && !self.drop_snapshots(state, &old).await {
            state.gone_snapshots = gone;
        }
    }

    /// Drops snapshots of DDSs wherever they may be kept. False: a process was lost meanwhile.
    pub(crate) async fn drop_snapshots(&self, state: &State, old: &[(u64, Range<u64>)]) -> bool {
        old.iter().for_each(|(dds, tags)| self.hub.drop_snapshots(*dds, tags.clone()));
        let lost = self.hub.lost.clone();
        let before = lost.get();
        let keepers = state.workers.iter().chain(&state.servers);
        let asked = keepers.map(|&keeper| {
            let (links, old) = (Arc::clone(&self.hub.links), old.to_vec());
            async move {
                for (dds, tags) in old {
                    if let Err(error) = links.drop_snapshots(keeper, dds, tags).await {
                        tracing::debug!(keeper, %error, "old snapshots stay");
                        return false;
                    }
                }
                true
            }
        });
        let dropped = unless_lost(lost, before, Box::pin(join_all(asked.collect::<Vec<_>>()))).await;
        dropped.is_some_and(|dropped| dropped.into_iter().all(|dropped| dropped))
    }
}

/// Where a DDS will be after a snapshot for which the workers do these jobs.
fn base_of(state: &State, dds: u64, entry: &Entry, jobs: &mut Jobs) -> Placement {
    let mut base = Placement::home(entry.len);
    let keepers = Cluster::keepers(state);
    for (range, holders) in entry.placement.of(&(0..entry.len)) {
        if range.is_empty() {
            continue;
        }
        let at = |holder: &Holder| state.workers.iter().position(|&node| *holder == Holder::memory(node));
        match holders.iter().find_map(at) {
            Some(worker) if !holders.contains(&Holder::memory(DRIVER)) => {
                for (k, keeper) in (0..2).map(|k| (k, keepers[(worker + k) % keepers.len()])) {
                    let holder = Holder { node: keeper, snapshot: jobs.snapshot };
                    hold(&mut base, &range, holder, k);
                    jobs.of[worker].parts.push((dds, range.clone(), keeper));
                }
            }
            _ => {
                let kept: Vec<Holder> =
                    holders.iter().filter(|holder| holder.snapshot > 0 || holder.node == DRIVER).copied().collect();
                for (k, &holder) in kept.iter().enumerate() {
                    hold(&mut base, &range, holder, k);
                }
                if let [only] = kept[..]
                    && only.node != DRIVER
                {
                    let size = entry.home.ops().plain_size();
                    let copy = jobs.duplicate(state, &keepers, Pull { dds, range: range.clone(), from: only }, size);
                    base.copied(&range, copy);
                }
            }
        }
    }
    base
}

impl Jobs {
    /// Nothing to do yet, for a new snapshot.
    pub(super) fn new(state: &mut State) -> Jobs {
        state.next_snapshot += 1;
        let snapshot = state.next_snapshot;
        let of = state.workers.iter().map(|_| SnapshotJob { snapshot, ..SnapshotJob::default() }).collect();
        Jobs { snapshot, of, copies: 0 }
    }

    /// The worker that makes another copy for a keeper.
    pub(super) fn worker_for(&mut self, state: &State, keeper: Node) -> usize {
        // A worker fetches its own copy; for others they take turns.
        let by = state.workers.iter().position(|&worker| worker == keeper);
        let by = by.unwrap_or(self.copies % state.workers.len());
        self.copies += 1;
        by
    }

    /// Has a worker make a second copy of a part that one process keeps; gives where that will be.
    fn duplicate(&mut self, state: &State, keepers: &[Node], pull: Pull, size: Option<usize>) -> Holder {
        // The next one, as for parts that workers hold.
        let at = keepers.iter().position(|&keeper| keeper == pull.from.node).map_or(self.copies, |at| at + 1);
        let keeper = keepers[at % keepers.len()];
        let by = self.worker_for(state, keeper);
        self.of[by].duplicates.push(Duplicate { pull, size, to: keeper });
        Holder { node: keeper, snapshot: self.snapshot }
    }
}

/// One more process has a range of a base: the first one takes the place of who had it.
fn hold(base: &mut Placement, range: &Range<usize>, holder: Holder, already: usize) {
    if already == 0 {
        base.written(range, holder);
    } else {
        base.copied(range, holder);
    }
}

/// The snapshots that a base is made of.
pub(super) fn tags(base: &Placement) -> BTreeSet<u64> {
    let holders = base.segments().iter().flat_map(|held| &held.at);
    holders.map(|holder| holder.snapshot).filter(|&tag| tag > 0).collect()
}

/// Ranges of snapshots that are stored and not needed, but none that is.
fn needless(stored: &BTreeSet<u64>, needed: &BTreeSet<u64>) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for &tag in stored.difference(needed) {
        match ranges.last_mut() {
            Some(last) if needed.range(last.end..tag).next().is_none() => last.end = tag + 1,
            _ => ranges.push(tag..tag + 1),
        }
    }
    ranges
}

/// A part that the loss of one process would take with it.
fn thin_part(state: &State) -> Option<(u64, Range<usize>)> {
    let alive = |node: Node| state.workers.contains(&node) || state.servers.contains(&node);
    let safe = |holders: &[Holder]| {
        let nodes: BTreeSet<Node> = holders.iter().map(|holder| holder.node).filter(|&node| alive(node)).collect();
        nodes.len() > 1 || holders.iter().any(|holder| holder.node == DRIVER)
    };
    state.entries.iter().find_map(|(&dds, entry)| {
        let mut parts = entry.base.segments().iter().filter(|held| !held.range.is_empty());
        parts.find(|held| !safe(&held.at)).map(|held| (dds, held.range.clone()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_snapshot_needs_is_forgotten_and_nothing_else() {
        let of = |stored: &[u64], needed: &[u64]| -> Vec<Range<u64>> {
            let set = |tags: &[u64]| tags.iter().copied().collect::<BTreeSet<u64>>();
            needless(&set(stored), &set(needed))
        };
        assert_eq!(of(&[7], &[7]), []);
        assert_eq!(of(&[3, 5, 9], &[9]), vec![3..6; 1]);
        assert_eq!(of(&[3, 5, 6, 8, 9, 12], &[5, 12]), [3..4, 6..10]);
        assert_eq!(of(&[3, 4], &[]), vec![3..5; 1]);
    }
}
