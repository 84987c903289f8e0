//! The blocks of a laid-out plan on machines, and its parts on their links, event by event in time that is only counted.

mod network;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use self::network::{Job, Network};
use crate::layout::lists::Lists;
use crate::layout::{Layout, Transfer};
use crate::plan::Plan;

/// What things take, in a unit of time of its own.
pub(crate) trait Costs {
    /// Running a block on the worker that has it, with this many processors of the machine at work, its own among them.
    fn block(&self, block: u32, worker: u32, busy: usize) -> u64;
    /// Sending this many bytes between two workers, on one machine or on two.
    fn moving(&self, bytes: u64, same_machine: bool) -> Moving;
    /// From the beginning of the loop until this worker begins.
    fn begins(&self, worker: u32) -> u64;
}

/// What one transfer takes.
pub(crate) struct Moving {
    /// The time for which it has the link to itself,
    pub(crate) link: u64,
    /// the time after it until what was sent is there,
    pub(crate) latency: u64,
    /// what the sender's network thread works for it,
    pub(crate) sending: u64,
    /// and the receiver's.
    pub(crate) receiving: u64,
}

/// The machines on which workers run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machines {
    /// How many threads each worker has.
    pub(crate) threads: usize,
    /// How many processors a machine has,
    pub(crate) cores: usize,
    /// or all of them together.
    pub(crate) shared: bool,
    /// How many workers run on a machine, one after the other in their numbers.
    pub(crate) workers: usize,
}

/// What came of it.
pub(crate) struct Played {
    /// Until the last block has ended.
    pub(crate) makespan: u64,
    /// Where each worker's threads were.
    pub(crate) workers: Vec<Spent>,
    /// Of the chain of events that ends last: the time in blocks, and in transfers.
    pub(crate) path: (u64, u64),
    /// Bytes sent from machine to machine, and within one.
    pub(crate) sent: (u64, u64),
}

/// Time of a worker's threads, added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Spent {
    /// Blocks ran.
    pub(crate) computing: u64,
    /// A part was missing.
    pub(crate) parts: u64,
    /// Blocks had to wait for others of this worker, or the loop had not begun there.
    pub(crate) order: u64,
    /// The machine had no processor free.
    pub(crate) processors: u64,
    /// Nothing was left to do.
    pub(crate) done: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Begun(u32),
    /// A transfer is about to be there: its receiver has to begin.
    Coming(u32),
    Arrived(u32),
    /// The network thread of a worker has done something.
    Worked(u32),
    /// The additions of a stratum's blocks are where they are read.
    Added(u32),
    Ended(u32),
}

/// A link's end, or another thing that serves one at a time.
#[derive(Clone, Copy, Default)]
struct Busy {
    until: u64,
    /// The transfer that has it until then.
    by: Option<u32>,
}

/// What a worker does at a moment.
#[derive(Clone, Default)]
struct Worker {
    begun: bool,
    /// Blocks that run, and those of them whose processor a network thread has.
    running: usize,
    interrupted: usize,
    /// Blocks that have not started, and those of them that lack nothing but parts.
    left: usize,
    lack_parts: usize,
    ready: BinaryHeap<(u64, Reverse<u32>)>,
    since: u64,
    spent: Spent,
}

/// A block or a transfer: when it began, and the event that let it begin.
#[derive(Clone, Copy)]
struct Start {
    at: u64,
    cause: Option<Event>,
}

struct Play<'p> {
    plan: &'p Plan,
    layout: &'p Layout,
    bytes: &'p dyn Fn(u32) -> u64,
    costs: &'p dyn Costs,
    machines: Machines,
    /// What each block waits for: blocks of its own worker, and what comes from others.
    own: Vec<u32>,
    parts: Vec<u32>,
    /// Blocks of the own worker that wait for each.
    followers: Lists,
    /// Transfers that each block's end sets off, and the beginning of each worker.
    sends: Lists,
    first_sends: Vec<Vec<u32>>,
    /// Of each transfer: how many blocks have to end before it goes.
    incomplete: Vec<u32>,
    workers: Vec<Worker>,
    networks: Vec<Network>,
    /// Of each machine: its two directions.
    out: Vec<Busy>,
    incoming: Vec<Busy>,
    /// Where there are processors, a machine or all of them: how many are busy, and the blocks that run, but for interrupted ones.
    busy: Vec<usize>,
    at_work: Vec<Vec<u32>>,
    /// For how long each block was interrupted, as far as its end doesn't know.
    owed: Vec<u64>,
    /// Of each stratum: how many of its blocks have not ended.
    stratum_left: Vec<usize>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    block_starts: Vec<Start>,
    transfer_starts: Vec<Start>,
    sent: (u64, u64),
}

/// Plays a layout. `bytes` is the size of a resource; `added`, that of the relaxed state that blocks add to.
pub(crate) fn play(
    (plan, layout): (&Plan, &Layout),
    bytes: &dyn Fn(u32) -> u64,
    added: u64,
    costs: &dyn Costs,
    machines: Machines,
) -> Played {
    let mut play = Play::new((plan, layout), bytes, costs, machines);
    let (mut end, mut last, mut left) = (0, None, layout.worker_of.len());
    // What still is under way when the last block has ended is for nobody.
    while left > 0
        && let Some(Reverse((now, event))) = play.events.pop()
    {
        match event {
            Event::Begun(worker) => play.begin(now, worker),
            Event::Coming(t) => play.receive(now, t),
            Event::Arrived(t) => play.arrive(now, t),
            Event::Worked(worker) => play.worked(now, worker),
            Event::Added(stratum) => play.see(now, stratum as usize),
            Event::Ended(block) if play.owed[block as usize] > 0 => {
                let owed = std::mem::take(&mut play.owed[block as usize]);
                play.events.push(Reverse((now + owed, event)));
            }
            Event::Ended(block) => {
                (end, last, left) = (now, Some(event), left - 1);
                play.end(now, block, added);
            }
        }
    }
    let path = play.path(last, end);
    (0..layout.workers).for_each(|worker| play.settle(end, worker));
    let workers = play.workers.into_iter().map(|worker| worker.spent).collect();
    Played { makespan: end, workers, path, sent: play.sent }
}

impl<'p> Play<'p> {
    // One table after the other is set up; what would be split off would be handed nearly all of them.
    #[allow(clippy::too_many_lines)]
    fn new(
        (plan, layout): (&'p Plan, &'p Layout),
        bytes: &'p dyn Fn(u32) -> u64,
        costs: &'p dyn Costs,
        machines: Machines,
    ) -> Play<'p> {
        let blocks = layout.worker_of.len();
        let (mut own, mut parts) = (vec![0u32; blocks], vec![0u32; blocks]);
        let mut followers = Vec::new();
        let mut workers = vec![Worker::default(); layout.workers];
        for worker in 0..layout.workers as u32 {
            let (mine, graph) = layout.graph_of(plan, worker);
            workers[worker as usize].left = mine.len();
            for (k, &b) in mine.iter().enumerate() {
                own[b as usize] = graph.waits_for[k];
                followers.extend(graph.followers(k).iter().map(|&f| (b, mine[f as usize])));
            }
        }
        let of = |(t, transfer): (usize, &'p Transfer)| transfer.after.iter().map(move |&block| (block, t as u32));
        let sends = Lists::new(blocks, layout.transfers.iter().enumerate().flat_map(of));
        let mut first_sends: Vec<Vec<u32>> = vec![Vec::new(); layout.workers];
        for (t, transfer) in layout.transfers.iter().enumerate() {
            if transfer.after.is_empty() {
                first_sends[transfer.from as usize].push(t as u32);
            }
            transfer.before.iter().for_each(|&b| parts[b as usize] += 1);
        }
        let strata = &plan.strata;
        let mut stratum_left = vec![];
        if strata.blocks() > 0 && layout.workers > 1 {
            stratum_left = (0..strata.count()).map(|stratum| strata.blocks_of(stratum).len()).collect();
            (0..blocks).for_each(|block| parts[block] += strata.seen_by(block) as u32);
        }
        for block in (0..blocks).filter(|&block| own[block] == 0) {
            let worker = &mut workers[layout.worker_of[block] as usize];
            match parts[block] {
                0 => worker.ready.push((plan.graph.tail[block], Reverse(block as u32))),
                _ => worker.lack_parts += 1,
            }
        }
        let count = layout.workers.div_ceil(machines.workers.max(1));
        let pools = if machines.shared { 1 } else { count };
        let begin = |worker: u32| Reverse((costs.begins(worker), Event::Begun(worker)));
        let unstarted = Start { at: 0, cause: None };
        Play {
            plan,
            layout,
            bytes,
            costs,
            machines,
            own,
            parts,
            followers: Lists::new(blocks, followers.iter().copied()),
            sends,
            first_sends,
            incomplete: layout.transfers.iter().map(|transfer| transfer.after.len() as u32).collect(),
            workers,
            networks: vec![Network::default(); layout.workers],
            out: vec![Busy::default(); count],
            incoming: vec![Busy::default(); count],
            busy: vec![0; pools],
            at_work: vec![Vec::new(); pools],
            owed: vec![0; blocks],
            stratum_left,
            events: (0..layout.workers as u32).map(begin).collect(),
            block_starts: vec![unstarted; blocks],
            transfer_starts: vec![unstarted; layout.transfers.len()],
            sent: (0, 0),
        }
    }

    fn machine(&self, worker: u32) -> usize {
        worker as usize / self.machines.workers.max(1)
    }

    /// Where a worker's processors are.
    fn pool(&self, worker: u32) -> usize {
        if self.machines.shared { 0 } else { self.machine(worker) }
    }

    /// The workers whose processors these are.
    fn workers_of(&self, pool: usize) -> Range<usize> {
        if self.machines.shared {
            return 0..self.workers.len();
        }
        let first = pool * self.machines.workers;
        first..(first + self.machines.workers).min(self.workers.len())
    }

    /// Books the time of a worker's threads since something changed there last.
    fn settle(&mut self, now: u64, worker: usize) {
        let threads = self.machines.threads;
        let state = &mut self.workers[worker];
        let since = std::mem::replace(&mut state.since, now);
        let idle = (now - since) * threads.saturating_sub(state.running) as u64;
        let spent = &mut state.spent;
        spent.computing += (now - since) * (state.running - state.interrupted) as u64;
        spent.processors += (now - since) * state.interrupted as u64;
        let booked = if state.begun && !state.ready.is_empty() {
            &mut spent.processors
        } else if state.begun && state.lack_parts > 0 {
            &mut spent.parts
        } else if state.left > 0 {
            &mut spent.order
        } else {
            &mut spent.done
        };
        *booked += idle;
    }

    fn begin(&mut self, now: u64, worker: u32) {
        self.settle(now, worker as usize);
        self.workers[worker as usize].begun = true;
        for t in std::mem::take(&mut self.first_sends[worker as usize]) {
            self.send(now, t, Event::Begun(worker));
        }
        self.start(now, self.pool(worker), Event::Begun(worker));
    }

    fn arrive(&mut self, now: u64, t: u32) {
        let layout = self.layout;
        let transfer = &layout.transfers[t as usize];
        self.settle(now, transfer.to as usize);
        transfer.before.iter().for_each(|&b| self.has_part(b));
        self.start(now, self.pool(transfer.to), Event::Arrived(t));
    }

    /// All additions of a stratum are known everywhere.
    fn see(&mut self, now: u64, stratum: usize) {
        (0..self.layout.workers).for_each(|worker| self.settle(now, worker));
        for block in 0..self.layout.worker_of.len() {
            if stratum < self.plan.strata.seen_by(block) {
                self.has_part(block as u32);
            }
        }
        (0..self.busy.len()).for_each(|pool| self.start(now, pool, Event::Added(stratum as u32)));
    }

    fn has_part(&mut self, block: u32) {
        self.parts[block as usize] -= 1;
        if self.parts[block as usize] == 0 && self.own[block as usize] == 0 {
            let worker = &mut self.workers[self.layout.worker_of[block as usize] as usize];
            worker.lack_parts -= 1;
            worker.ready.push((self.plan.graph.tail[block as usize], Reverse(block)));
        }
    }

    fn end(&mut self, now: u64, block: u32, added: u64) {
        let worker = self.layout.worker_of[block as usize];
        let pool = self.pool(worker);
        self.settle(now, worker as usize);
        self.workers[worker as usize].running -= 1;
        self.busy[pool] -= 1;
        self.at_work[pool].retain(|&other| other != block);
        for place in self.sends.range(block) {
            let t = self.sends.at(place);
            self.incomplete[t as usize] -= 1;
            if self.incomplete[t as usize] == 0 {
                self.send(now, t, Event::Ended(block));
            }
        }
        for place in self.followers.range(block) {
            let follower = self.followers.at(place);
            self.own[follower as usize] -= 1;
            if self.own[follower as usize] == 0 {
                let worker = &mut self.workers[worker as usize];
                match self.parts[follower as usize] {
                    0 => worker.ready.push((self.plan.graph.tail[follower as usize], Reverse(follower))),
                    _ => worker.lack_parts += 1,
                }
            }
        }
        if !self.stratum_left.is_empty() {
            self.add(now, block, added);
        }
        self.start(now, pool, Event::Ended(block));
    }

    /// What a block has added goes to all other workers, and is seen when its stratum is complete.
    fn add(&mut self, now: u64, block: u32, added: u64) {
        let machine = self.machine(self.layout.worker_of[block as usize]);
        let others = self.layout.workers as u64 - 1;
        let moving = self.costs.moving(added, self.out.len() == 1);
        let until = self.out[machine].until.max(now) + others * moving.link.max(moving.sending);
        self.out[machine].until = until;
        match self.out.len() {
            1 => self.sent.1 += others * added,
            _ => self.sent.0 += others * added,
        }
        let there = until + moving.latency;
        let stratum = self.plan.strata.of(block as usize);
        self.stratum_left[stratum] -= 1;
        if self.stratum_left[stratum] == 0 {
            self.events.push(Reverse((there, Event::Added(stratum as u32))));
        }
    }

    /// Starts what can start on these processors: what network threads have to do, then of the workers' ready blocks those first
    /// that most depends on.
    fn start(&mut self, now: u64, pool: usize, cause: Event) {
        self.start_networks(now, pool);
        let workers = self.workers_of(pool);
        while self.busy[pool] < self.machines.cores {
            let may = |&w: &usize| self.workers[w].begun && self.workers[w].running < self.machines.threads;
            let urgent = |w: &usize| self.workers[*w].ready.peek().map(|&(tail, block)| (tail, block));
            let next = workers.clone().filter(may).filter(|w| urgent(w).is_some()).max_by_key(urgent);
            let Some(worker) = next else { return };
            self.settle(now, worker);
            let state = &mut self.workers[worker];
            let Some((_, Reverse(block))) = state.ready.pop() else { return };
            state.running += 1;
            state.left -= 1;
            self.busy[pool] += 1;
            self.at_work[pool].push(block);
            let lasts = self.costs.block(block, worker as u32, self.busy[pool]);
            self.block_starts[block as usize] = Start { at: now, cause: Some(cause) };
            self.events.push(Reverse((now + lasts, Event::Ended(block))));
        }
    }

    fn moving(&self, t: u32) -> (u64, Moving) {
        let &Transfer { resource, from, to, .. } = &self.layout.transfers[t as usize];
        let bytes = (self.bytes)(resource);
        (bytes, self.costs.moving(bytes, self.machine(from) == self.machine(to)))
    }

    fn send(&mut self, now: u64, t: u32, cause: Event) {
        self.transfer_starts[t as usize] = Start { at: now, cause: Some(cause) };
        let from = self.layout.transfers[t as usize].from;
        match self.moving(t).1.sending {
            0 => self.leave(now, t, 0),
            takes => self.networks[from as usize].waiting.push_back(Job { transfer: t, takes, receives: false }),
        }
    }

    /// A transfer begins to go out, which takes its sender a while.
    fn leave(&mut self, now: u64, t: u32, takes: u64) {
        let &Transfer { from, to, .. } = &self.layout.transfers[t as usize];
        let (here, there) = (self.machine(from), self.machine(to));
        let (bytes, moving) = self.moving(t);
        let mut start = self.transfer_starts[t as usize];
        let mut sent = now + takes.max(moving.link);
        if here == there {
            self.sent.1 += bytes;
        } else {
            self.sent.0 += bytes;
            let mut free = now;
            for busy in [self.out[here], self.incoming[there]] {
                if busy.until > free {
                    free = busy.until;
                    start = Start { at: busy.until, cause: busy.by.map(Event::Arrived) };
                }
            }
            let until = free + moving.link;
            (self.out[here], self.incoming[there]) = (Busy { until, by: Some(t) }, Busy { until, by: Some(t) });
            sent = sent.max(until);
        }
        self.transfer_starts[t as usize] = start;
        let there = sent + moving.latency;
        match moving.receiving {
            0 => self.events.push(Reverse((there, Event::Arrived(t)))),
            // The receiver works while it arrives, and is done at the earliest when it is there.
            takes => {
                let near = there.saturating_sub(takes).max(now + moving.latency);
                self.events.push(Reverse((near, Event::Coming(t))));
            }
        }
    }

    /// Back along the events of which each let the next begin: how much of the time went into blocks, and into transfers.
    fn path(&self, last: Option<Event>, end: u64) -> (u64, u64) {
        let (mut blocks, mut transfers) = (0, 0);
        let (mut at, mut until) = (last, end);
        while let Some(event) = at {
            let (start, time) = match event {
                Event::Ended(block) => (self.block_starts[block as usize], &mut blocks),
                Event::Arrived(t) => (self.transfer_starts[t as usize], &mut transfers),
                Event::Begun(_) | Event::Coming(_) | Event::Worked(_) | Event::Added(_) => break,
            };
            *time += until.saturating_sub(start.at);
            (at, until) = (start.cause, start.at);
        }
        (blocks, transfers)
    }
}
