//! A worker's elements go to the workers that are to have them: those that a loop left there in an order of its own to the workers whose
//! ranges they belong to, rows that a synchronous loop is about to write to their keepers.
//!
//! # Why this is sound
//! The driver asks when no loop runs. All workers have handed out before one takes in, so nobody reads what is overwritten.
#![allow(unsafe_code)]

use std::sync::Arc;

use crate::cluster::wire::protocol::{HandOut, Holder, KeptBy, Left, Node, Problem, TakeIn};
use crate::cluster::worker::Worker;
use crate::cluster::worker::bench::Workbench;
use crate::session::timeline::{Category, task_span};

fn broken(what: impl std::fmt::Display) -> Problem {
    Problem::Broken(what.to_string())
}

impl Worker {
    pub(super) async fn hand_out(self: &Arc<Self>, job: HandOut) -> Result<Vec<(u64, usize)>, Problem> {
        let _span = task_span(Category::Prepare, job.pulls.len() as u64);
        // What was offered before has been fetched.
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        self.fill_all(&job.pulls).await?;
        let handed = self.apart(move |worker| worker.bench.handed_out(&job)).await??;
        let offer = |bytes: Vec<u8>| {
            let size = bytes.len();
            (self.blobs.offer(bytes), size)
        };
        Ok(handed.into_iter().map(offer).collect())
    }

    pub(super) async fn take_in(self: &Arc<Self>, job: TakeIn) -> Result<(), Problem> {
        let _span = task_span(Category::Prepare, job.from.len() as u64);
        let parts = self.dealt(&job.from).await?;
        self.apart(move |worker| worker.bench.take_in(job.dds, &job.to, &parts)).await?
    }
}

impl Workbench {
    /// This worker's place among all, and these.
    fn place(&self) -> Result<(usize, Vec<Node>), Problem> {
        let workers = self.workers();
        let me = workers.iter().position(|&node| node == self.me()).ok_or_else(|| broken("a DDS of others"))?;
        Ok((me, workers))
    }

    /// For each worker what it is to have: how many elements, their indices, and they themselves. This worker's own elements
    /// are where they belong.
    fn handed_out(&self, job: &HandOut) -> Result<Vec<Vec<u8>>, Problem> {
        let ((me, workers), reservation) = (self.place()?, self.known(job.dds)?);
        let to = self.keepers(job.dds, &job.to, workers.len())?;
        let mut lists: Vec<Vec<u32>> = workers.iter().map(|_| Vec::new()).collect();
        let mut list = |index: u32, at: &[Holder]| {
            let keeper = to.owner(index);
            if keeper != me && !at.contains(&Holder::memory(workers[keeper])) {
                lists[keeper].push(index);
            }
        };
        let len = reservation.len();
        match &job.left {
            Left::ByPlan(plan, capture) => {
                for index in self.left_by_plan(*plan, *capture)? {
                    // What was fetched has overwritten it: who was given an element to write had its range.
                    if index as usize >= len || job.pulls.iter().any(|pull| pull.range.contains(&(index as usize))) {
                        return Err(broken("an element that isn't here"));
                    }
                    list(index, &[]);
                }
            }
            Left::Kept(number) => {
                let keepers = self.keepers(job.dds, &KeptBy::Known(*number), workers.len())?;
                keepers.runs(me).into_iter().flatten().for_each(|index| list(index, &[]));
            }
            Left::Ranges(ranges) if ranges.iter().any(|held| held.range.end > len) => {
                return Err(broken("a range beyond the end of its DDS"));
            }
            Left::Ranges(ranges) => {
                ranges.iter().for_each(|held| held.range.clone().for_each(|index| list(index as u32, &held.at)));
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

    /// Puts what workers have handed out for this one in its place.
    fn take_in(&self, dds: u64, to: &KeptBy, parts: &[Vec<u8>]) -> Result<(), Problem> {
        let ((me, workers), reservation) = (self.place()?, self.known(dds)?);
        let to = self.keepers(dds, to, workers.len())?;
        for part in parts {
            let (indices, elements) = indices_of(part).ok_or_else(|| broken("elements without their indices"))?;
            if indices.iter().any(|&index| index as usize >= reservation.len() || to.owner(index) != me) {
                return Err(broken("elements that others are to have"));
            }
            // SAFETY: the module's argument.
            unsafe { reservation.decode_list(indices.iter().map(|&index| index as usize), elements) }
                .map_err(broken)?;
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
