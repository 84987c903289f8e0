//! A worker's elements that a loop left there in an order of its own: they go to the workers whose ranges they belong to.
//!
//! # Why this is sound
//! The driver asks when no loop runs. All workers have handed out before one takes in, so nobody reads what is overwritten.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use crate::cluster::wire::protocol::{HandOut, Left, Problem, TakeIn};
use crate::cluster::worker::Worker;
use crate::cluster::worker::bench::Workbench;
use crate::session::timeline::{Category, task_span};

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

impl Worker {
    pub(super) async fn hand_out(self: &Arc<Self>, job: HandOut) -> Result<Vec<u64>, Problem> {
        let _span = task_span(Category::Prepare, job.pulls.len() as u64);
        // What was offered before has been fetched.
        self.blobs.clear();
        let (pulls, dds) = (job.pulls.clone(), job.dds);
        let handed = self.apart(move |worker| worker.bench.handed_out(&job)).await??;
        for pull in pulls {
            let reservation = self.bench.known(dds)?;
            self.links.fill(&reservation, dds, pull.range, pull.from).await?;
        }
        Ok(handed.into_iter().map(|bytes| self.blobs.offer(bytes)).collect())
    }

    pub(super) async fn take_in(self: &Arc<Self>, job: TakeIn) -> Result<(), Problem> {
        let _span = task_span(Category::Prepare, job.from.len() as u64);
        let parts = self.dealt(&job.from).await?;
        self.apart(move |worker| worker.bench.take_in(job.dds, &job.range, &parts)).await?
    }
}

impl Workbench {
    /// For each worker what belongs to its range: how many elements, their indices, and they themselves. This worker's own elements
    /// are where they belong.
    fn handed_out(&self, job: &HandOut) -> Result<Vec<Vec<u8>>, Problem> {
        self.commit();
        let (workers, reservation) = (self.workers(), self.known(job.dds)?);
        let me = workers.iter().position(|&node| node == self.me()).ok_or_else(|| broken("a DDS of others"))?;
        let (cuts, len) = (&job.cuts, reservation.len());
        if cuts.len() != workers.len() + 1 || !cuts.is_sorted() || (cuts[0], cuts[workers.len()]) != (0, len) {
            return Err(broken("ranges that don't cover a DDS"));
        }
        let left = match job.left {
            Left::ByPlan(plan, capture) => self.left_by_plan(plan, capture)?,
            Left::Kept(number) => self.left_kept(job.dds, number, (me, workers.len()))?,
        };
        let mut lists: Vec<Vec<u32>> = workers.iter().map(|_| Vec::new()).collect();
        for index in left {
            let at = index as usize;
            let to = cuts.partition_point(|&cut| cut <= at);
            // What is fetched would overwrite it: who was given an element to write had its range.
            if at >= len || job.pulls.iter().any(|pull| pull.range.contains(&at)) {
                return Err(broken("an element that isn't here"));
            }
            if to != me + 1 {
                lists[to - 1].push(index);
            }
        }
        let encode = |list: Vec<u32>| {
            let mut bytes = (list.len() as u64).to_le_bytes().to_vec();
            list.iter().for_each(|index| bytes.extend_from_slice(&index.to_le_bytes()));
            for at in list.into_iter().map(|index| index as usize) {
                // SAFETY: the module's argument.
                let there = unsafe { reservation.encode_there(at..at + 1, &mut bytes) };
                there.ok_or_else(|| broken("elements are missing"))?;
            }
            Ok(bytes)
        };
        lists.into_iter().map(encode).collect()
    }

    /// Puts what workers have handed out for a range in its place.
    fn take_in(&self, dds: u64, range: &Range<usize>, parts: &[Vec<u8>]) -> Result<(), Problem> {
        let reservation = self.known(dds)?;
        if range.end > reservation.len() {
            return Err(broken("a range beyond the end of its DDS"));
        }
        for part in parts {
            let (indices, elements) = indices_of(part).ok_or_else(|| broken("elements without their indices"))?;
            if indices.iter().any(|&index| !range.contains(&(index as usize))) {
                return Err(broken("elements of another range"));
            }
            // SAFETY: the module's argument.
            unsafe { reservation.decode_list(&indices, elements) }.map_err(broken)?;
        }
        Ok(())
    }
}

/// The indices of elements, and these as bytes.
fn indices_of(part: &[u8]) -> Option<(Vec<u32>, &[u8])> {
    let (count, rest) = part.split_first_chunk::<8>()?;
    let bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(4)?;
    let (indices, elements) = rest.split_at_checked(bytes)?;
    Some((indices.as_chunks::<4>().0.iter().map(|&index| u32::from_le_bytes(index)).collect(), elements))
}
