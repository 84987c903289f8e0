//! Elements that a loop left with the workers in an order of its own, when somebody else wants them.
//!
//! Each worker gets a range. The workers know from their plans, or from who keeps which rows, what the loop left with them, and
//! send it to each other; the driver learns the ranges alone. What they have stays where it is, so a loop that left it there goes on
//! from it: until then the elements are in two places.

use std::ops::Range;

use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::broken;
use crate::cluster::driver::remote_plan::RemotePlan;
use crate::cluster::driver::{Cluster, Fault, Scattered, State};
use crate::cluster::wire::protocol::{HandOut, Left, Node, Pull, TakeIn};
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
            Left::Kept(_) => Vec::new(),
        };
        let _span = span(Category::Prepare, workers.len() as u64);
        let pulls: Vec<Vec<Pull>> = (0..workers.len()).map(pulls).collect();
        let handed = self.handed_out(state, (dds, left), &cuts, &pulls).await?;
        let generation = state.generation;
        self.ask_all(workers, |w, client, context| {
            let job = TakeIn { dds, range: range(w), from: handed[w].clone() };
            async move { client.take_in(context, generation, job).await }
        })
        .await?;
        let ranges: Vec<(Range<usize>, Node)> = workers.iter().enumerate().map(|(w, &node)| (range(w), node)).collect();
        if let Some(entry) = state.entries.get_mut(&dds) {
            entry.placement = Placement::of_ranges(ranges.into_iter());
            entry.in_ranges = true;
        }
        tracing::debug!(dds, len, "elements were brought to ranges");
        Ok(())
    }

    /// Has each worker fetch what it lacks of its range, and hand out what it has of others'. Gives for each worker where that is.
    async fn handed_out(
        &self,
        state: &State,
        (dds, left): (u64, Left),
        cuts: &[usize],
        pulls: &[Vec<Pull>],
    ) -> Result<Vec<Vec<(Node, u64)>>, Fault> {
        let (generation, workers) = (state.generation, &state.workers);
        let blobs = self
            .ask_all(workers, |w, client, context| {
                let job = HandOut { dds, left, cuts: cuts.to_vec(), pulls: pulls[w].clone() };
                async move { client.hand_out(context, generation, job).await }
            })
            .await?;
        if blobs.iter().any(|blobs| blobs.len() != workers.len()) {
            return Err(broken("a worker hands out to another number of workers"));
        }
        let for_one = |w: usize| workers.iter().zip(&blobs).map(|(&node, blobs)| (node, blobs[w])).collect();
        Ok((0..workers.len()).map(for_one).collect())
    }
}
