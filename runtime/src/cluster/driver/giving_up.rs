//! The driver gives up its own memory of what others hold.
//!
//! A home may go where neither the elements as they are now nor those that the log begins from are read from it. Of written DDSs that
//! follows from a snapshot. Of others the driver is the only process that can't be lost, so two keepers of snapshots store
//! the elements first, each a range of them; these take the driver's place, as if a snapshot had found the elements with workers.

use std::cmp::Reverse;

use stradsap_dds_server::records;

use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::broken;
use crate::cluster::driver::snapshots::Jobs;
use crate::cluster::driver::{Cluster, Entry, Fault, State};
use crate::cluster::wire::protocol::{DRIVER, Duplicate, Holder, PIECE, Pull, TOO_LARGE};
use crate::session::error::Result;
use crate::session::timeline::{Category, span};

impl Entry {
    /// The bytes of the elements in the driver's memory, without what they refer to.
    fn bytes_at_home(&self) -> usize {
        self.home.lend().len().saturating_mul(self.home.ops().size)
    }

    /// No process takes elements from the driver's memory.
    fn is_away(&self) -> bool {
        let names_home = |placement: &Placement| {
            placement.segments().iter().any(|held| !held.range.is_empty() && held.at.contains(&Holder::memory(DRIVER)))
        };
        !names_home(&self.placement) && !names_home(&self.base)
    }

    /// Whether the driver's memory is all of the last snapshot, and may be stored by others instead. What is lent is still needed:
    /// tallies are added to it.
    fn can_be_given_up(&self) -> bool {
        let whole = self.base.is_home() && self.bytes_at_home() / self.home.ops().size.max(1) == self.len;
        self.home.ops().size > 0 && whole && self.len > 0 && !self.dropped && !self.home.is_lent()
    }
}

impl Cluster {
    /// Frees the driver's memory of DDSs that is out of date and that no process reads.
    pub(crate) fn drop_old_homes(state: &State) {
        let old = state.entries.values().filter(|entry| entry.len > 0 && entry.bytes_at_home() > 0 && entry.is_away());
        old.for_each(|entry| entry.home.give_up());
    }

    /// Has other processes store what the driver holds beyond its limit.
    pub(crate) fn give_up_homes(&self, state: &mut State) -> Result<()> {
        if self.to_give_up(state).is_empty() {
            return Ok(());
        }
        // After a recovery there may be less.
        self.retry(state, async |cluster, state| {
            let ddss = cluster.to_give_up(state);
            if ddss.is_empty() { Ok(()) } else { cluster.give_up(state, &ddss).await }
        })
    }

    /// The largest homes, as many as have to go.
    fn to_give_up(&self, state: &State) -> Vec<u64> {
        let held = state.entries.values().map(Entry::bytes_at_home).fold(0, usize::saturating_add);
        let limit = self.options.bytes_at_home();
        if held <= limit || Self::keepers(state).contains(&DRIVER) {
            return Vec::new();
        }
        let may_go = state.entries.iter().filter(|(_, entry)| entry.can_be_given_up());
        let mut largest: Vec<(Reverse<usize>, u64)> =
            may_go.map(|(&dds, entry)| (Reverse(entry.bytes_at_home()), dds)).collect();
        largest.sort_unstable();
        let mut left = held;
        largest.retain(|&(Reverse(bytes), _)| {
            let goes = left > limit;
            left -= if goes { bytes } else { 0 };
            goes
        });
        largest.into_iter().map(|(_, dds)| dds).collect()
    }

    async fn give_up(&self, state: &mut State, ddss: &[u64]) -> std::result::Result<(), Fault> {
        let mut jobs = Jobs::new(state);
        let _span = span(Category::Snapshot, jobs.snapshot);
        let (mut bases, snapshot) = (Vec::new(), jobs.snapshot);
        let mut encoded = Vec::new();
        for &dds in ddss {
            let Some(entry) = state.entries.get_mut(&dds) else { continue };
            // Whether or not all of it arrives.
            entry.stored.insert(snapshot);
            let (len, size) = (entry.len, entry.home.ops().plain_size());
            let base = stored_twice(state, len, snapshot);
            match size {
                Some(size) => jobs.store(state, dds, &base, size),
                None => encoded.push((dds, base.clone())),
            }
            bases.push((dds, base));
        }
        self.take(state, jobs).await?;
        for (dds, base) in encoded {
            self.store_encoded(state, dds, &base).await?;
        }
        for (dds, base) in bases {
            let Some(entry) = state.entries.get_mut(&dds) else { continue };
            for held in base.segments() {
                entry.placement.passed_on(&held.range, Holder::memory(DRIVER), &held.at);
            }
            entry.base = base;
            entry.home.give_up();
        }
        tracing::debug!(ddss = ddss.len(), "the driver gave up its memory of DDSs");
        Ok(())
    }
    /// Stores elements that are not plain: who doesn't know their type can't tell where one begins.
    async fn store_encoded(&self, state: &State, dds: u64, base: &Placement) -> std::result::Result<(), Fault> {
        let Some(entry) = state.entries.get(&dds) else { return Ok(()) };
        let elements = entry.home.lend();
        let mut records = Vec::new();
        for held in base.segments() {
            let mut start = held.range.start;
            while start < held.range.end {
                let encode = |at: usize, out: &mut Vec<u8>| elements.encode_range(at, at + 1, out);
                let end = records::fill(&mut records, start..held.range.end, PIECE, encode);
                let end = end.ok_or_else(|| broken(TOO_LARGE))?;
                for &to in &held.at {
                    let put = self.hub.links.put(to.node, dds, &(start..end), to.snapshot, &records).await;
                    put.map_err(|error| {
                        self.hub.lose(to.node, &error.to_string());
                        Fault::Lost
                    })?;
                }
                start = end;
            }
        }
        Ok(())
    }
}

/// Where a DDS will be of which each range is stored with two keepers.
fn stored_twice(state: &State, len: usize, snapshot: u64) -> Placement {
    let keepers = Cluster::keepers(state);
    let mut base = Placement::nowhere();
    let n = keepers.len();
    let part = |k: usize| (len as u128 * k as u128 / n as u128) as usize;
    for k in (0..n).filter(|&k| part(k) < part(k + 1)) {
        let two = [keepers[k], keepers[(k + 1) % n]];
        base.append(part(k)..part(k + 1), two.map(|node| Holder { node, snapshot }).to_vec());
    }
    base
}

impl Jobs {
    /// Has the workers fetch a DDS of plain elements from the driver and store it so.
    fn store(&mut self, state: &State, dds: u64, base: &Placement, size: usize) {
        for held in base.segments() {
            for to in held.at.iter().map(|holder| holder.node) {
                let by = self.worker_for(state, to);
                let pull = Pull { dds, range: held.range.clone(), from: Holder::memory(DRIVER) };
                self.of[by].duplicates.push(Duplicate { pull, size: Some(size), to });
            }
        }
    }
}
