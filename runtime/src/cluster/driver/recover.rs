//! Elements back to the driver, snapshots, and going on after a loss.
//!
//! A snapshot stores every part that workers have changed with two processes. After a loss the driver begins a new generation
//! with the processes that are left and those that replace the lost, places all DDSs where the last snapshot has them, and runs the
//! loops since then again; each gives the same bits as before, since no plan depends on who runs it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use stradsap_dds_server::hello::Role;

use crate::cluster::driver::hub::Loss;
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::broken;
use crate::cluster::driver::{Cluster, Entry, Fault, State, join_all};
use crate::cluster::wire::links::CHUNK;
use crate::cluster::wire::protocol::{DRIVER, Holder, Node, SnapshotJob};
use crate::memory::buffer::RawBuf;
use crate::planner::recording::Usage;
use crate::session::error::{ClusterError, Error};
use crate::session::logging::warning;
use crate::session::timeline::{Category, span};
use crate::session::{locked, next_id};

/// How long a replacement may take to come.
const REPLACEMENT: Duration = Duration::from_secs(10);
/// How often in a row processes may be lost without anything being done in between: what a loop does may be what ends
/// them.
const IN_VAIN: usize = 8;
const GRACE: Duration = Duration::from_millis(100);
/// How many elements that are not plain travel together.
const ENCODED_EACH: usize = 1 << 16;

impl Cluster {
    /// Copies of elements, from wherever they are.
    #[allow(unsafe_code)]
    pub(crate) async fn fetch(&self, state: &mut State, dds: u64, range: Range<usize>) -> Result<RawBuf, Fault> {
        let entry = state.entries.get(&dds).ok_or_else(|| broken("an unknown DDS"))?;
        if let Some((plan, capture)) = entry.scattered.clone() {
            let all = self.collect(state, dds, &plan, capture).await?;
            let mut part = RawBuf::new(all.ops(), range.len());
            // SAFETY: both are whole, and nobody else has them.
            unsafe { part.push_clones(all.as_ptr().add(range.start * all.ops().size), range.len()) };
            return Ok(part);
        }
        self.fetch_placed(state, dds, range).await
    }

    #[allow(unsafe_code)]
    async fn fetch_placed(&self, state: &State, dds: u64, range: Range<usize>) -> Result<RawBuf, Fault> {
        let entry = state.entries.get(&dds).ok_or_else(|| broken("an unknown DDS"))?;
        let ops = entry.home.ops();
        let mut fresh = RawBuf::new(ops, range.len());
        for (segment, holders) in entry.placement.of(&range) {
            if holders.contains(&Holder::memory(DRIVER)) {
                let home = entry.home.lend();
                // The home has all elements.
                if segment.end > home.len() {
                    return Err(broken("a home without the elements that it should have"));
                }
                // SAFETY: this many elements are there, lent; nobody writes a home while loops run on workers.
                unsafe { fresh.push_clones(home.as_ptr().add(segment.start * ops.size), segment.len()) };
                continue;
            }
            let Some(&from) = holders.first() else { return Err(Fault::Lost) };
            let each = if ops.plain { (CHUNK / ops.size.max(1)).max(1) } else { ENCODED_EACH };
            for start in segment.clone().step_by(each) {
                let part = start..segment.end.min(start + each);
                let got = self.hub.links.encoded(dds, part.clone(), from, ops.size).await;
                let bytes = got.map_err(|error| {
                    self.hub.lose(from.node, &error.to_string());
                    Fault::Lost
                })?;
                let mut rest = bytes.as_slice();
                fresh.push_decoded(part.len(), &mut rest).map_err(broken)?;
            }
        }
        Ok(fresh)
    }

    /// All elements of a DDS whose elements are with the workers that ran their iterations.
    #[allow(unsafe_code)]
    async fn collect(
        &self,
        state: &State,
        dds: u64,
        plan: &Arc<crate::cluster::driver::remote_plan::RemotePlan>,
        capture: usize,
    ) -> Result<RawBuf, Fault> {
        let Some(layout) = locked(&plan.state).layout.clone() else { return Err(Fault::Lost) };
        let Usage::InStep { offset, .. } = plan.plan.usage[capture] else { return Err(broken("not in step")) };
        let len = state.entries.get(&dds).map_or(0, |entry| entry.len);
        let mut all = self.fetch_placed(state, dds, 0..len).await?;
        let (id, generation) = (plan.id, state.generation);
        let blobs = self
            .ask_all(&state.workers, |_, client, context| async move {
                client.collect(context, generation, id, capture).await
            })
            .await?;
        let first = plan.plan.range.start.wrapping_add(offset);
        for (w, blob) in blobs.into_iter().enumerate() {
            let node = state.workers[w];
            let got = self.blob(node, blob).await?;
            let mut bytes = got.as_slice();
            let offsets: Vec<u32> = plan.offsets_of(&layout, w as u32).flatten().copied().collect();
            let mut fresh = RawBuf::new(all.ops(), offsets.len());
            fresh.push_decoded(offsets.len(), &mut bytes).map_err(broken)?;
            let size = all.ops().size;
            for (k, offset) in offsets.into_iter().enumerate() {
                // SAFETY: both are elements, of two buffers; what was there before is dropped with `fresh`.
                unsafe {
                    let to = all.as_mut_ptr().add(first.wrapping_add(offset as usize) * size);
                    std::ptr::swap_nonoverlapping(fresh.as_mut_ptr().add(k * size), to, size);
                }
            }
        }
        Ok(all)
    }

    /// Makes the driver's own memory of a DDS the current one.
    pub(crate) async fn bring_home(&self, state: &mut State, dds: u64) -> Result<(), Fault> {
        let Some(entry) = state.entries.get(&dds) else { return Ok(()) };
        if entry.scattered.is_none() && entry.placement.is_home() {
            return Ok(());
        }
        // The driver's memory may be what the log starts from.
        if !state.log.is_empty() {
            self.snapshot(state).await?;
        }
        let len = state.entries.get(&dds).map_or(0, |entry| entry.len);
        let current = self.fetch(state, dds, 0..len).await?;
        if let Some(entry) = state.entries.get_mut(&dds) {
            entry.home.replace(current);
            entry.scattered = None;
            entry.placement = Placement::home(len);
            entry.base = Placement::home(len);
            entry.base_version = entry.version;
        }
        Ok(())
    }

    /// The processes that keep snapshots: for each part of a worker two of them.
    fn keepers(&self, state: &State, worker: usize) -> [Node; 2] {
        let homes = if state.servers.is_empty() { &state.workers } else { &state.servers };
        let first = homes[worker % homes.len()];
        let second = if homes.len() == 1 { DRIVER } else { homes[(worker + 1) % homes.len()] };
        [first, second]
    }

    /// Stores what workers have changed since the last snapshot; the log begins anew.
    pub(crate) async fn snapshot(&self, state: &mut State) -> Result<(), Fault> {
        let ids: Vec<u64> = state.entries.keys().copied().collect();
        state.next_snapshot += 1;
        let snapshot = state.next_snapshot;
        let _span = span(Category::Snapshot, snapshot);
        let mut jobs: Vec<SnapshotJob> =
            state.workers.iter().map(|_| SnapshotJob { snapshot, parts: Vec::new() }).collect();
        let mut bases = Vec::new();
        let mut homes = Vec::new();
        for &dds in &ids {
            let Some(entry) = state.entries.get(&dds) else { continue };
            if entry.dropped || entry.version == entry.base_version {
                continue;
            }
            let plain = entry.home.ops().plain;
            if entry.scattered.is_some() || (!plain && !entry.placement.is_home()) {
                // What has no size can't be had again in other segments: it goes to the driver.
                homes.push((dds, self.fetch(state, dds, 0..entry.len).await?));
            } else {
                bases.push((dds, self.base_of(state, dds, entry, &mut jobs)));
            }
        }
        let generation = state.generation;
        let asked = jobs.into_iter().enumerate().filter(|(_, job)| !job.parts.is_empty()).map(|(w, job)| {
            self.ask(
                state.workers[w],
                move |client, context| async move { client.snapshot(context, generation, job).await },
            )
        });
        for stored in join_all(asked).await {
            stored?;
        }
        // Only now: until here the old snapshot and the log stood.
        for (dds, base) in bases {
            self.adopt_base(state, dds, base, snapshot).await;
        }
        for (dds, all) in homes {
            let Some(entry) = state.entries.get_mut(&dds) else { continue };
            entry.home.replace(all);
            entry.base = Placement::home(entry.len);
            entry.base_version = entry.version;
        }
        state.log.clear();
        let dropped: Vec<u64> = state.entries.iter().filter(|(_, entry)| entry.dropped).map(|(&dds, _)| dds).collect();
        dropped.into_iter().for_each(|dds| self.forget(state, dds));
        Ok(())
    }

    /// Where a DDS will be after a snapshot for which the workers do these jobs.
    fn base_of(&self, state: &State, dds: u64, entry: &Entry, jobs: &mut [SnapshotJob]) -> Placement {
        let mut base = Placement::home(entry.len);
        for (range, holders) in entry.placement.of(&(0..entry.len)) {
            let at = |holder: &Holder| state.workers.iter().position(|&node| *holder == Holder::memory(node));
            match holders.iter().find_map(at) {
                Some(worker) if !holders.contains(&Holder::memory(DRIVER)) => {
                    let (keepers, snapshot) = (self.keepers(state, worker), jobs[worker].snapshot);
                    base.written(&range, Holder { node: keepers[0], snapshot });
                    base.copied(&range, Holder { node: keepers[1], snapshot });
                    for keeper in keepers {
                        jobs[worker].parts.push((dds, range.clone(), keeper));
                    }
                }
                _ => {
                    let kept = holders.iter().filter(|holder| holder.snapshot > 0 || holder.node == DRIVER);
                    for (k, &holder) in kept.enumerate() {
                        if k == 0 { base.written(&range, holder) } else { base.copied(&range, holder) }
                    }
                }
            }
        }
        base
    }

    /// A DDS is in a snapshot: what was kept of it in those before its oldest part is needed no more.
    async fn adopt_base(&self, state: &mut State, dds: u64, base: Placement, snapshot: u64) {
        let Some(entry) = state.entries.get_mut(&dds) else { return };
        (entry.base, entry.base_version) = (base, entry.version);
        let oldest = entry.base.segments().iter().flat_map(|held| &held.at).map(|holder| holder.snapshot);
        let oldest = oldest.filter(|&snapshot| snapshot > 0).min().unwrap_or(snapshot);
        for &keeper in state.workers.iter().chain(&state.servers) {
            // What can't be forgotten costs memory, no more.
            if let Err(error) = self.hub.links.drop_snapshots(keeper, dds, oldest).await {
                tracing::debug!(keeper, %error, "old snapshots stay");
            }
        }
    }

    /// Goes on after a loss: a new generation, the last snapshot, and the loops since then once more.
    pub(crate) async fn recover(&self, state: &mut State) -> Result<(), Error> {
        loop {
            match self.try_to_recover(state).await {
                Ok(()) => return Ok(()),
                Err(Fault::Lost) => {}
                Err(Fault::Error(error)) => return Err(error),
            }
        }
    }

    async fn try_to_recover(&self, state: &mut State) -> Result<(), Fault> {
        let _span = span(Category::Recover, u64::from(state.generation) + 1);
        // Who dies together is noticed one after the other.
        tokio::time::sleep(GRACE).await;
        self.hub.explained().await;
        let losses = self.hub.losses();
        self.replace_lost(state, &losses)?;
        state.nearby = None;
        self.begin_generation(state).await?;
        go_back(state, &losses)?;
        let loops = state.log.len();
        self.replay(state).await?;
        // Parts that had two copies have one now.
        for entry in state.entries.values_mut() {
            entry.base_version = 0;
        }
        self.snapshot(state).await?;
        tracing::info!(generation = state.generation, loops, "recovered");
        Ok(())
    }

    /// Starts processes in place of those that were lost since the last time, and waits for them.
    fn replace_lost(&self, state: &mut State, losses: &[Loss]) -> Result<(), Error> {
        let fresh = losses.get(state.recovered..).unwrap_or_default();
        for loss in fresh {
            warning!("lost {loss}");
        }
        state.in_vain += 1;
        if state.in_vain > IN_VAIN
            && let Some(last) = losses.last()
        {
            let (restarts, last) = (losses.len(), last.to_string());
            return Err(Error::Cluster(ClusterError::TooManyLosses { restarts, last }));
        }
        if self.hub.complete(Role::Worker).is_empty() {
            return Err(self.all_lost());
        }
        for loss in fresh {
            let role = if loss.worker { Role::Worker } else { Role::Server };
            if !loss.worker || self.starts_workers() {
                self.start_child(role, loss.node as usize, state.generation + 1)?;
            }
        }
        state.recovered = losses.len();
        let workers = if self.starts_workers() { self.options.workers() } else { 0 };
        for (role, expected) in [(Role::Worker, workers), (Role::Server, self.options.servers())] {
            // This is one of the program's threads: the network has its own.
            if let Err(error) = self.wait_for(role, expected, REPLACEMENT) {
                warning!("going on without a replacement: {error}");
            }
        }
        Ok(())
    }

    /// Runs once more what has changed DDSs since the last snapshot.
    async fn replay(&self, state: &mut State) -> Result<(), Fault> {
        let log = std::mem::take(&mut state.log);
        let mut replayed = Ok(());
        for logged in &log {
            replayed = Arc::clone(logged).replay(self, state).await;
            if replayed.is_err() {
                break;
            }
        }
        state.log = log;
        replayed
    }
}

/// Takes every DDS to be where the last snapshot has it.
fn go_back(state: &mut State, losses: &[Loss]) -> Result<(), Error> {
    for (&dds, entry) in &mut state.entries {
        entry.placement = entry.base.clone();
        entry.scattered = None;
        entry.version = next_id();
        let alive = |node: Node| node == DRIVER || state.workers.contains(&node) || state.servers.contains(&node);
        if !entry.placement.without(alive) {
            tracing::error!(dds, "a part is lost");
            let lost = entry.placement.segments().iter().find(|held| held.at.is_empty());
            let range = lost.map_or(0..0, |held| held.range.clone());
            let who: Vec<String> = losses.iter().map(ToString::to_string).collect();
            let (start, end, len) = (range.start, range.end, entry.len);
            return Err(ClusterError::PartLost { start, end, len, lost: who.join("; ") }.into());
        }
    }
    Ok(())
}
