//! Who keeps which rows of what a synchronous loop writes, and how they get there.
//!
//! A DDS has one assignment of rows to workers. The first loop that knows how often each worker's copies touch the rows makes it, and all
//! synchronous loops that write them follow it. Between such loops the elements stay where they are; any other use brings them home.

use std::ops::Range;
use std::sync::Arc;

use crate::cluster::driver::minibatch::{SyncDeal, SyncLogged};
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote_plan::Vector;
use crate::cluster::driver::{Cluster, Fault, Scattered, State};
use crate::cluster::wire::keepers::{Keepers, Touches};
use crate::cluster::wire::protocol::{Fetching, Holder, KeptBy, Node, Pull, SyncRan};

/// By capture, which workers keep its rows, and the number of that assignment; 0 where rows are cut by number. None for what isn't written.
pub(super) type KeptRows = Vec<Option<(u64, Arc<Keepers>)>>;

/// Who keeps which rows of a DDS.
pub(super) struct KnownKeepers {
    pub(super) number: u64,
    keepers: Arc<Keepers>,
    /// All workers know it.
    sent: bool,
}

impl SyncLogged {
    /// Which rows of others workers get without asking for each.
    pub(super) fn fetching(&self, state: &State) -> Fetching {
        match (self.prefetch, state.sites.known.iter().any(|known| known.number == self.site && known.foreseen)) {
            (false, _) => Fetching::OnDemand,
            (true, true) => Fetching::Foreseen,
            (true, false) => Fetching::All,
        }
    }

    /// By capture, who keeps which rows.
    pub(super) fn keepers(&self, state: &State, copies: &[Range<usize>]) -> KeptRows {
        let all_run = copies.iter().all(|copies| !copies.is_empty());
        let keepers = |vector: &Option<Vector>| {
            let vector = vector.filter(|vector| vector.writable)?;
            let known = state.sites.keepers.get(&vector.id).filter(|_| all_run);
            let known = known.filter(|known| known.keepers.covers(vector.len, copies.len()));
            let by_number = || (0, Arc::new(Keepers::ByNumber(cuts(vector.len, copies))));
            Some(known.map_or_else(by_number, |known| (known.number, Arc::clone(&known.keepers))))
        };
        self.vectors.iter().map(keepers).collect()
    }

    /// The same in the form that workers get.
    pub(super) fn kept_by(&self, state: &State, keepers: &KeptRows) -> Vec<Option<KeptBy>> {
        let kept_by = |(keepers, vector): (&Option<(u64, Arc<Keepers>)>, &Option<Vector>)| {
            let ((number, keepers), vector) = (keepers.as_ref()?, (*vector)?);
            let sent = state.sites.keepers.get(&vector.id).is_some_and(|known| known.number == *number && known.sent);
            Some(match number {
                0 => KeptBy::Once(Keepers::clone(keepers)),
                _ if sent => KeptBy::Known(*number),
                _ => KeptBy::New(*number, Keepers::clone(keepers)),
            })
        };
        keepers.iter().zip(&self.vectors).map(kept_by).collect()
    }

    /// By capture, whether the workers count how often they touch its rows.
    pub(super) fn asked(&self, state: &State, fetching: Fetching) -> Vec<bool> {
        let asks = fetching == Fetching::All && state.workers.len() > 1;
        let unknown = |vector: Vector| vector.len > 0 && !state.sites.keepers.contains_key(&vector.id);
        let asked = |vector: &Option<Vector>| asks && vector.is_some_and(|vector| vector.writable && unknown(vector));
        self.vectors.iter().map(asked).collect()
    }

    /// Deals the rows out to the workers that touch them, from the next call on.
    pub(super) fn deal_keepers(&self, state: &mut State, deal: &SyncDeal, ended: &[SyncRan]) {
        for known in deal.keepers.iter().flatten().filter(|(number, _)| *number > 0) {
            let sent = state.sites.keepers.values_mut().find(|keepers| keepers.number == known.0);
            sent.into_iter().for_each(|keepers| keepers.sent = true);
        }
        if !ended.iter().all(|ran| ran.foresees) {
            return;
        }
        for (c, vector) in self.written().filter(|&(c, _)| deal.asked[c]) {
            let touches: Option<Vec<Touches>> = ended.iter().map(|ran| ran.touches.get(c).cloned()).collect();
            let (Some(touches), copies) = (touches, &deal.copies) else { continue };
            let keepers = Arc::new(Keepers::by_touches(&cuts(vector.len, copies), &touches));
            state.next_plan += 1;
            let known = KnownKeepers { number: state.next_plan, keepers, sent: false };
            state.sites.keepers.insert(vector.id, known);
        }
    }
}

impl Cluster {
    /// Has workers send each other rows, where these were dealt out and their keepers lack them. Gives the bytes that they send.
    pub(super) async fn deal_rows(
        &self,
        state: &mut State,
        logged: &SyncLogged,
        (keepers, fetching): (&KeptRows, Fetching),
    ) -> std::result::Result<usize, Fault> {
        let (mut bytes, kept_by) = (0, logged.kept_by(state, keepers));
        for (c, vector) in logged.written().filter(|_| fetching != Fetching::All) {
            let (Some((1.., _)), Some(to)) = (&keepers[c], &kept_by[c]) else { continue };
            bytes += self.bring_to_keepers(state, vector.id, to).await?;
        }
        Ok(bytes)
    }
}

/// What each worker must fetch before it begins, apart from rows that were dealt out.
pub(super) fn pulls(state: &State, logged: &SyncLogged, keepers: &KeptRows, fetching: Fetching) -> Vec<Vec<Pull>> {
    let pulls = |(w, &node): (usize, &Node)| {
        let mut pulls = Vec::new();
        for (c, vector) in logged.vectors.iter().enumerate() {
            let Some((vector, entry)) = vector.and_then(|v| Some((v, state.entries.get(&v.id)?))) else { continue };
            let ranges = match &keepers[c] {
                Some((0, by_number)) if fetching != Fetching::All => by_number.runs(w),
                Some(_) if fetching != Fetching::All => continue,
                _ => std::iter::once(0..vector.len as u32).collect(),
            };
            let missing = |range: Range<u32>| {
                entry.placement.missing(vector.id, &(range.start as usize..range.end as usize), node, w)
            };
            pulls.extend(ranges.into_iter().flat_map(missing));
        }
        pulls
    };
    state.workers.iter().enumerate().map(pulls).collect()
}

/// Each worker keeps its rows; of those of others it has the current values if it holds all.
pub(super) fn record_kept(state: &mut State, logged: &SyncLogged, keepers: &KeptRows, holds_all: &[bool]) {
    for (c, vector) in logged.written() {
        let (Some(entry), Some((number, keepers))) = (state.entries.get_mut(&vector.id), &keepers[c]) else { continue };
        state.nearby.retain(|near| near.dds() != vector.id);
        let mut placement = Placement::home(vector.len);
        let all_hold_all = !holds_all.is_empty() && holds_all.iter().all(|&all| all);
        if *number > 0 && !all_hold_all {
            // The driver's own memory is old, but nothing is taken from there.
            (entry.scattered, entry.placement) = (Some(Scattered::Kept(*number)), placement);
            continue;
        }
        entry.scattered = None;
        match holds_all.iter().position(|&all| all).filter(|_| all_hold_all) {
            Some(w) => placement.written(&(0..vector.len), Holder::memory(state.workers[w])),
            None => {
                for (w, &node) in state.workers.iter().enumerate() {
                    for run in keepers.runs(w) {
                        placement.written(&(run.start as usize..run.end as usize), Holder::memory(node));
                    }
                }
            }
        }
        for (w, _) in holds_all.iter().enumerate().filter(|&(_, &all)| all) {
            placement.copied(&(0..vector.len), Holder::memory(state.workers[w]));
        }
        entry.placement = placement;
    }
}

/// Where each worker's rows begin, and the end: about as many each, none where a worker runs no copy.
fn cuts(len: usize, copies: &[Range<usize>]) -> Vec<u32> {
    let keepers = copies.iter().filter(|copies| !copies.is_empty()).count().max(1);
    let mut cuts = vec![0u32];
    let mut kept = 0;
    for copies in copies {
        kept += usize::from(!copies.is_empty());
        cuts.push((len * kept.min(keepers) / keepers) as u32);
    }
    if let Some(last) = cuts.last_mut() {
        *last = len as u32;
    }
    cuts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_kept_by_those_who_run_copies() {
        assert_eq!(cuts(10, &[0..1, 1..2, 2..4]), [0, 3, 6, 10]);
        assert_eq!(cuts(10, &[0..0, 0..1]), [0, 0, 10]);
        assert_eq!(cuts(0, &[0..1, 1..2]), [0, 0, 0]);
    }
}
