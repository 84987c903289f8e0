//! What workers' network threads do: they send and receive one thing after the other, and go before blocks.

use std::cmp::Reverse;
use std::collections::VecDeque;

use super::{Event, Play};

/// One of the ends of a transfer.
#[derive(Clone, Copy)]
pub(super) struct Job {
    pub(super) transfer: u32,
    pub(super) takes: u64,
    pub(super) receives: bool,
}

/// A worker's network thread.
#[derive(Clone, Default)]
pub(super) struct Network {
    pub(super) waiting: VecDeque<Job>,
    /// What it does, and the block whose processor it has.
    at_work: Option<(Job, Option<u32>)>,
}

impl Play<'_> {
    /// A transfer is so near that its receiver has to begin.
    pub(super) fn receive(&mut self, now: u64, t: u32) {
        let to = self.layout.transfers[t as usize].to;
        let takes = self.moving(t).1.receiving;
        self.networks[to as usize].waiting.push_back(Job { transfer: t, takes, receives: true });
        self.start_networks(now, self.pool(to));
    }

    /// Begins what network threads have to do: on a free processor, or else on one whose block waits until it is done.
    pub(super) fn start_networks(&mut self, now: u64, pool: usize) {
        for worker in self.workers_of(pool) {
            let network = &self.networks[worker];
            if network.at_work.is_some() || network.waiting.is_empty() {
                continue;
            }
            let interrupted = match self.busy[pool] < self.machines.cores {
                true => {
                    self.busy[pool] += 1;
                    None
                }
                false => match self.interrupt(now, pool, worker as u32) {
                    None => return,
                    block => block,
                },
            };
            let network = &mut self.networks[worker];
            let Some(job) = network.waiting.pop_front() else { return };
            network.at_work = Some((job, interrupted));
            if let Some(block) = interrupted {
                self.owed[block as usize] += job.takes;
            }
            self.events.push(Reverse((now + job.takes, Event::Worked(worker as u32))));
            if !job.receives {
                self.leave(now, job.transfer, job.takes);
            }
        }
    }

    /// Takes the processor from a block: one of this worker if it has one.
    fn interrupt(&mut self, now: u64, pool: usize, worker: u32) -> Option<u32> {
        let worker_of = &self.layout.worker_of;
        let own = self.at_work[pool].iter().position(|&block| worker_of[block as usize] == worker);
        let place = own.or((!self.at_work[pool].is_empty()).then_some(0))?;
        let block = self.at_work[pool].remove(place);
        let whose = self.layout.worker_of[block as usize] as usize;
        self.settle(now, whose);
        self.workers[whose].interrupted += 1;
        Some(block)
    }

    pub(super) fn worked(&mut self, now: u64, worker: u32) {
        let pool = self.pool(worker);
        let Some((job, interrupted)) = self.networks[worker as usize].at_work.take() else { return };
        match interrupted {
            None => self.busy[pool] -= 1,
            Some(block) => {
                let whose = self.layout.worker_of[block as usize] as usize;
                self.settle(now, whose);
                self.workers[whose].interrupted -= 1;
                self.at_work[pool].push(block);
            }
        }
        match job.receives {
            true => self.arrive(now, job.transfer),
            false => self.start(now, pool, Event::Worked(worker)),
        }
    }
}
