//! Elements that workers send each other, since somebody wants them in another order.
//!
//! What a loop left with the workers in an order of its own goes into ranges, one for each worker. They know from their plans, or from
//! who keeps which rows, what that is; the driver learns the ranges alone. What they have stays where it is, so a loop that left it there
//! goes on from it: until then the elements are in two places. The other way, rows that a synchronous loop is about to write go from
//! the ranges to their keepers.

use std::ops::Range;

use crate::cluster::driver::placement::{Placement, Segment};
use crate::cluster::driver::remote::broken;
use crate::cluster::driver::remote_plan::RemotePlan;
use crate::cluster::driver::{Cluster, Fault, Scattered, State};
use crate::cluster::wire::keepers::Keepers;
use crate::cluster::wire::protocol::{HandOut, Holder, KeptBy, Left, Node, Pull, TakeIn};
use crate::session::timeline::{Category, span};

impl RemotePlan {
    /// Whether its loop has left a DDS as it finds it again.
    pub(super) fn has_left(&self, state: &State, dds: u64) -> bool {
        let scattered = state.entries.get(&dds).and_then(|entry| entry.scattered.as_ref());
        matches!(scattered, Some(Scattered::ByPlan(by, _)) if by.id == self.id)
    }
}

impl State {
    /// Elements that are in ranges, too, are there alone from here on.
    pub(super) fn leave_in_ranges(&mut self, dds: u64) {
        if let Some(entry) = self.entries.get_mut(&dds) {
            entry.scattered = None;
        }
    }
}

impl Cluster {
    /// Makes DDSs ready for a call that takes elements from where placements say.
    pub(super) async fn settle(&self, state: &mut State, ddss: impl Iterator<Item = u64>) -> Result<(), Fault> {
        for dds in ddss {
            self.bring_to_ranges(state, dds).await?;
        }
        Ok(())
    }

    /// Has workers send each other the elements of a DDS, so that its placement says where they are.
    pub(super) async fn bring_to_ranges(&self, state: &mut State, dds: u64) -> Result<(), Fault> {
        let Some(entry) = state.entries.get(&dds).filter(|entry| entry.is_apart()) else { return Ok(()) };
        let Some(scattered) = &entry.scattered else { return Ok(()) };
        let (len, workers) = (entry.len, &state.workers);
        let cut = |w: usize| (len as u128 * w as u128 / workers.len() as u128) as usize;
        let cuts: Vec<usize> = (0..=workers.len()).map(cut).collect();
        let range = |w: usize| cuts[w]..cuts[w + 1];
        let left = match scattered {
            Scattered::ByPlan(plan, capture) => Left::ByPlan(plan.id, *capture),
            Scattered::Kept(number) => Left::Kept(*number),
        };
        // A placement says where those elements of a DDS are that a plan's loop doesn't write. Somebody keeps each row.
        let pulls = |w: usize| match left {
            Left::ByPlan(..) => entry.placement.missing(dds, &range(w), workers[w], w),
            Left::Kept(_) | Left::Ranges(_) => Vec::new(),
        };
        let to = KeptBy::Once(Keepers::ByNumber(cuts.iter().map(|&cut| cut as u32).collect()));
        let jobs = |w| HandOut { dds, left: left.clone(), to: to.clone(), pulls: pulls(w) };
        self.exchange(state, &(0..workers.len()).map(jobs).collect::<Vec<_>>()).await?;
        let ranges: Vec<(Range<usize>, Node)> = workers.iter().enumerate().map(|(w, &node)| (range(w), node)).collect();
        if let Some(entry) = state.entries.get_mut(&dds) {
            entry.placement = Placement::of_ranges(ranges.into_iter());
            entry.in_ranges = true;
        }
        tracing::debug!(dds, len, "elements were brought to ranges");
        Ok(())
    }

    /// Has workers send each other the rows of a DDS, so that each has those that it keeps. Gives the bytes that they send.
    pub(super) async fn bring_to_keepers(&self, state: &State, dds: u64, to: &KeptBy) -> Result<usize, Fault> {
        let Some(entry) = state.entries.get(&dds).filter(|entry| entry.scattered.is_none()) else { return Ok(0) };
        let mut jobs: Vec<(Vec<Segment>, Vec<Pull>)> = state.workers.iter().map(|_| Default::default()).collect();
        for Segment { range, at } in entry.placement.segments() {
            let has = |w: &usize| at.contains(&Holder::memory(state.workers[*w]));
            let mut givers: Vec<usize> = (0..jobs.len()).filter(has).collect();
            if givers.len() == jobs.len() {
                continue;
            }
            if givers.is_empty() {
                givers = (0..jobs.len()).collect();
            }
            let cut = |k: usize| range.start + range.len() * k / givers.len();
            for (k, &w) in givers.iter().enumerate() {
                let (ranges, pulls) = &mut jobs[w];
                pulls.extend(entry.placement.missing(dds, &(cut(k)..cut(k + 1)), state.workers[w], w));
                ranges.push(Segment { range: cut(k)..cut(k + 1), at: at.clone() });
            }
        }
        if jobs.iter().all(|(ranges, _)| ranges.is_empty()) {
            return Ok(0);
        }
        let job = |(ranges, pulls)| HandOut { dds, left: Left::Ranges(ranges), to: to.clone(), pulls };
        self.exchange(state, &jobs.into_iter().map(job).collect::<Vec<_>>()).await
    }

    /// Has each worker hand out what its job says, and take in what is for it. Gives the bytes that they send.
    async fn exchange(&self, state: &State, jobs: &[HandOut]) -> Result<usize, Fault> {
        let (generation, workers) = (state.generation, &state.workers);
        let _span = span(Category::Prepare, workers.len() as u64);
        let handed = self
            .ask_all(workers, |w, client, context| {
                let job = jobs[w].clone();
                async move { client.hand_out(context, generation, job).await }
            })
            .await?;
        if handed.iter().any(|handed| handed.len() != workers.len()) {
            return Err(broken("a worker hands out to another number of workers"));
        }
        self.ask_all(workers, |w, client, context| {
            let to = match &jobs[w].to {
                KeptBy::New(number, _) => KeptBy::Known(*number),
                to => to.clone(),
            };
            let from = workers.iter().zip(&handed).map(|(&node, handed)| (node, handed[w].0)).collect();
            let job = TakeIn { dds: jobs[w].dds, to, from };
            async move { client.take_in(context, generation, job).await }
        })
        .await?;
        Ok(handed.iter().flatten().map(|&(_, bytes)| bytes).sum())
    }
}
