//! Elements back to the driver, and going on after a loss.
//!
//! After a loss the driver begins a new generation
//! with the processes that are left and those that replace the lost, places all DDSs where the last snapshot has them, and runs the
//! loops since then again; each gives the same bits as before, since no plan depends on who runs it.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use stradsap_dds_server::hello::Role;
use tokio::time::Instant;

use crate::cluster::driver::hub::Loss;
use crate::cluster::driver::in_parts::LONG;
use crate::cluster::driver::placement::{Placement, Segment};
use crate::cluster::driver::remote::{Logged, broken};
use crate::cluster::driver::{Cluster, Fault, State};
use crate::cluster::wire::links::{LinkError, Pieces};
use crate::cluster::wire::protocol::{DRIVER, Holder, Node};
use crate::memory::buffer::RawBuf;
use crate::session::error::{ClusterError, Error};
use crate::session::logging::warning;
use crate::session::next_id;
use crate::session::timeline::{Category, span};

/// How long a replacement may take to come.
const REPLACEMENT: Duration = Duration::from_secs(10);
/// How often in a row processes may end by themselves without anything being done in between: what a loop does may be what
/// ends them.
const IN_VAIN: usize = 8;
const GRACE: Duration = Duration::from_millis(100);

impl Cluster {
    /// Copies of elements, from wherever they are.
    pub(crate) async fn fetch(&self, state: &mut State, dds: u64, range: Range<usize>) -> Result<RawBuf, Fault> {
        self.bring_to_ranges(state, dds).await?;
        self.fetch_placed(state, dds, range).await
    }

    #[allow(unsafe_code)]
    pub(crate) async fn fetch_placed(&self, state: &State, dds: u64, range: Range<usize>) -> Result<RawBuf, Fault> {
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
            let own = holders.iter().find(|holder| holder.node == DRIVER);
            let Some(&from) = own.or(holders.first()) else { return Err(Fault::Lost) };
            let mut pieces = Pieces::new(segment, ops.plain_size());
            let lost = |error: LinkError| {
                self.hub.lose(from.node, &error.to_string());
                Fault::Lost
            };
            while let Some(part) = pieces.next() {
                let bytes = match ops.plain_size() {
                    size if from.node == DRIVER => self.hub.stored(dds, from.snapshot, &part, size).map_err(broken)?,
                    Some(_) => {
                        // SAFETY: where they don't come whole, nobody gets `fresh`.
                        let into = unsafe { fresh.push_unfilled(part.len()) };
                        self.hub.links.plain(dds, part, from, into).await.map_err(lost)?;
                        continue;
                    }
                    None => self.hub.links.encoded(dds, part.clone(), from, None).await.map_err(lost)?,
                };
                pieces.took(part.len(), bytes.len());
                let mut rest = bytes.as_slice();
                fresh.push_decoded(part.len(), &mut rest).map_err(broken)?;
            }
        }
        Ok(fresh)
    }

    /// Makes the driver's own memory of a DDS the current one.
    pub(crate) async fn bring_home(&self, state: &mut State, dds: u64) -> Result<(), Fault> {
        let Some(entry) = state.entries.get(&dds) else { return Ok(()) };
        if !entry.is_apart() && entry.placement.is_home() {
            return Ok(());
        }
        // The driver's memory may be what the log starts from.
        if !state.log.is_empty() {
            self.snapshot(state).await?;
        }
        let Some(entry) = state.entries.get(&dds) else { return Ok(()) };
        let len = entry.len;
        // The snapshot may have brought it.
        let is_here = entry.version == entry.base_version && entry.base.is_home();
        let current = if is_here { None } else { Some(self.fetch(state, dds, 0..len).await?) };
        if let Some(entry) = state.entries.get_mut(&dds) {
            if let Some(current) = current {
                entry.home.replace(current);
            }
            entry.scattered = None;
            entry.placement = Placement::home(len);
            entry.base = Placement::home(len);
            entry.base_version = entry.version;
        }
        Ok(())
    }

    /// Goes on after a loss: a new generation, the last snapshot, and the loops since then once more.
    pub(crate) async fn recover(&self, state: &mut State) -> Result<(), Error> {
        loop {
            match self.try_to_recover(state).await {
                // Who was lost meanwhile had the only copy of some part, perhaps.
                Ok(()) if self.hub.lost.get() != state.seen_losses => {}
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
        self.report_losses(state, true)?;
        let there: Vec<Node> =
            [Role::Worker, Role::Server].into_iter().flat_map(|role| self.hub.complete(role)).collect();
        self.nothing_lost(state, |node| there.contains(&node))?;
        self.staff(state, REPLACEMENT, false).await?;
        self.hub.explained().await;
        self.report_losses(state, false)?;
        state.nearby.clear();
        self.begin_generation(state).await?;
        self.go_back(state)?;
        let loops = state.log.len();
        if loops > 0 {
            // Of what was lost there may be one copy left, and running loops again may take long.
            let log = state.log.clone();
            self.keep(state, log).await?;
            self.replay(state).await?;
        }
        self.keep(state, Vec::new()).await?;
        tracing::info!(generation = state.generation, loops, "recovered");
        Ok(())
    }

    /// Reports what was lost since the last time; an error if that happens again and again.
    fn report_losses(&self, state: &mut State, first: bool) -> Result<(), Error> {
        let losses = self.hub.losses();
        let fresh = losses.get(state.recovered..).unwrap_or_default();
        for loss in fresh {
            warning!("lost {loss}");
        }
        state.recovered = losses.len();
        if first {
            // Who is killed from outside is not killed by what a loop does.
            let from_outside = !fresh.is_empty() && fresh.iter().all(Loss::is_from_outside);
            state.in_vain[usize::from(from_outside)] += 1;
        }
        if (state.in_vain[0] > IN_VAIN || state.in_vain[1] > self.options.attempts)
            && let Some(last) = losses.last()
        {
            let (restarts, last) = (losses.len(), last.to_string());
            return Err(Error::Cluster(ClusterError::TooManyLosses { restarts, last }));
        }
        Ok(())
    }

    /// Whether each part of the last snapshot is with one of these processes, or with the driver.
    fn nothing_lost(&self, state: &State, there: impl Fn(Node) -> bool) -> Result<(), Error> {
        for entry in state.entries.values() {
            let gone = |held: &&Segment| {
                !held.range.is_empty() && !held.at.iter().any(|holder| holder.node == DRIVER || there(holder.node))
            };
            if let Some(Segment { range, .. }) = entry.base.segments().iter().find(gone) {
                if self.hub.complete(Role::Worker).is_empty() {
                    return Err(self.all_lost());
                }
                let (start, end, len) = (range.start, range.end, entry.len);
                return Err(ClusterError::PartLost { start, end, len, lost: self.last_losses(|_| true) }.into());
            }
        }
        Ok(())
    }

    /// Takes every DDS to be where the last snapshot has it.
    fn go_back(&self, state: &mut State) -> Result<(), Error> {
        let State { workers, servers, .. } = &*state;
        let alive: BTreeSet<Node> = workers.iter().chain(servers).copied().chain([DRIVER]).collect();
        self.nothing_lost(state, |node| alive.contains(&node))?;
        for entry in state.entries.values_mut() {
            entry.placement = entry.base.clone();
            entry.scattered = None;
            entry.version = next_id();
            entry.placement.without(|node| alive.contains(&node));
        }
        Ok(())
    }

    /// A snapshot after a loss: parts that had two copies may have one now.
    async fn keep(&self, state: &mut State, log: Vec<Arc<dyn Logged>>) -> Result<(), Fault> {
        for entry in state.entries.values_mut() {
            entry.base_version = 0;
        }
        self.snapshot_before(state, log).await
    }

    /// Runs once more what has changed DDSs since the last snapshot. What has taken long is kept, or cut where it was lost: the
    /// next time it is not done again as a whole.
    async fn replay(&self, state: &mut State) -> Result<(), Fault> {
        let mut log = std::mem::take(&mut state.log);
        let (mut kept, mut since) = (0, Instant::now());
        let mut replayed = Ok(());
        for k in 0..log.len() {
            let begun = Instant::now();
            replayed = Arc::clone(&log[k]).replay(self, state).await;
            if matches!(replayed, Err(Fault::Lost))
                && begun.elapsed() >= LONG
                && let Some(halves) = Arc::clone(&log[k]).halves(self, state)
            {
                log.splice(k..=k, halves);
            } else if replayed.is_ok() && k + 1 < log.len() && since.elapsed() >= LONG {
                replayed = self.keep(state, log[k + 1..].to_vec()).await;
                if replayed.is_ok() {
                    (kept, since, state.in_vain) = (k + 1, Instant::now(), [0; 2]);
                }
            }
            if replayed.is_err() {
                break;
            }
        }
        state.log = log.split_off(kept);
        replayed
    }
}
