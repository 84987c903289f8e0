//! Several workers in one process, each with threads and memory of its own: every block must find the version of each
//! part that the serial order gives it.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::cluster::driver::ahead::First;
use crate::cluster::wire::protocol::{DRIVER, Holder, Pull};
use crate::cluster::worker::fetching::{needs, of_blocks};
use crate::planner::layout::{Layout, layout};
use crate::planner::plan::{Plan, Touch};
use crate::planner::share::Share;

/// Small random numbers (SplitMix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

type Letter = Option<(u32, u64)>;

struct Post {
    memory: Vec<AtomicU64>,
    /// Blocks that use each part now.
    users: Vec<AtomicU32>,
    out: Vec<(u32, usize, u32)>,
    places: Vec<u32>,
    others: Vec<Sender<Letter>>,
}

impl Ports for Post {
    fn send(&self, k: usize) {
        let (transfer, to, resource) = self.out[k];
        self.others[to].send(Some((transfer, self.memory[resource as usize].load(SeqCst)))).unwrap();
    }

    fn place(&self, k: usize, bytes: &[u8]) -> bool {
        let resource = self.places[k] as usize;
        assert_eq!(self.users[resource].load(SeqCst), 0, "a part in use is overwritten");
        self.memory[resource].store(u64::from_le_bytes(bytes.try_into().unwrap()), SeqCst);
        true
    }

    fn failed(&self, _block: usize) {}
}

/// How often each resource was written before each block.
fn versions(plan: &Plan) -> Vec<Vec<u64>> {
    let mut written = vec![0; plan.parts.as_ref().unwrap().resources()];
    (0..plan.blocks.len())
        .map(|b| {
            let seen = plan.touches(b).iter().map(|touch| written[touch.resource as usize]).collect();
            plan.touches(b).iter().filter(|touch| touch.write).for_each(|touch| written[touch.resource as usize] += 1);
            seen
        })
        .collect()
}

fn run_block(plan: &Plan, post: &Post, b: usize, seen: &[u64]) {
    for touch in plan.touches(b) {
        post.users[touch.resource as usize].fetch_add(1, SeqCst);
    }
    std::thread::yield_now();
    for (touch, &version) in plan.touches(b).iter().zip(seen) {
        let at = &post.memory[touch.resource as usize];
        assert_eq!(at.load(SeqCst), version, "block {b} sees another version of part {}", touch.resource);
        if touch.write {
            at.store(version + 1, SeqCst);
        }
    }
    for touch in plan.touches(b) {
        post.users[touch.resource as usize].fetch_sub(1, SeqCst);
    }
}

fn deliver(blocks: &Blocks<Post>, transfers: &[u32], inbox: &Receiver<Letter>, mut chance: Chance) {
    while let Ok(Some((transfer, version))) = inbox.recv() {
        if chance.below(3) == 0 {
            std::thread::yield_now();
        }
        let k = transfers.iter().position(|&t| t == transfer).unwrap();
        match blocks.room_for(k) {
            Room::InPlace => {
                assert!(blocks.ports().place(k, &version.to_le_bytes()));
                blocks.arrived(k);
            }
            Room::Aside => blocks.arrived_aside(k, version.to_le_bytes().to_vec()),
            Room::Nowhere => {}
        }
    }
}

/// The numbers of the DDSs of a random plan.
const IDS: [u64; 2] = [10, 11];

/// What a worker awaits where no worker has parts that the loop writes, and which of these arrivals it fetches, with their parts.
fn fetched(
    plan: &Plan,
    (made, first): (&Layout, &First),
    worker: u32,
    (share, own): (&Share, &Plan),
) -> (Vec<Arrival>, Vec<(usize, u32)>) {
    let (mut arrivals, parts) = (share.arrivals.clone(), plan.parts.as_ref().unwrap());
    let all = first.transfers.values().flatten().collect::<Vec<_>>();
    let fetches = arrivals.iter().enumerate().filter(|(_, arrival)| all.contains(&&arrival.transfer));
    let mut fetches: Vec<_> = fetches.map(|(k, arrival)| (k, arrival.resource)).collect();
    for &part in first.used.iter().filter(|&&part| made.holders[part as usize] == Some(worker)) {
        let (slot, at) = parts.part_of(part);
        let range = parts.cuts[slot].bounds[at]..parts.cuts[slot].bounds[at + 1];
        let pull = Pull { dds: IDS[slot], range, from: Holder::memory(DRIVER) };
        let until = made.first_writer[part as usize].unwrap();
        let end = share.global.partition_point(|&block| block <= until) as u32;
        for (before, pulls) in of_blocks(&pull, &needs(own, &IDS), end, 8) {
            assert_eq!(pulls[..].iter().map(|pull| pull.range.len()).collect::<Vec<_>>(), [8]);
            fetches.push((arrivals.len(), part));
            arrivals.push(Arrival { transfer: u32::MAX, resource: part, before, behind: Vec::new() });
        }
    }
    (arrivals, fetches)
}

/// A worker's blocks, their numbers in the plan, the transfers that arrive, and what is fetched.
type Member = (Blocks<Post>, Vec<u32>, (Vec<u32>, Vec<(usize, u32)>));

/// One of the workers. `away`: none of them has anything of what is written when the plan begins to run.
fn member(plan: &Plan, made: &Layout, worker: u32, away: bool, others: &[Sender<Letter>]) -> Member {
    let first = First::of(plan, made);
    let unsent: Vec<u32> = first.transfers.values().flatten().copied().filter(|_| away).collect();
    let mut share = plan.share(made, worker, &[]);
    let transfers: Vec<u32> = share.arrivals.iter().map(|arrival| arrival.transfer).collect();
    let (global, own) = (share.global.clone(), share.take_plan());
    let (arrivals, fetches) = match away {
        true => fetched(plan, (made, &first), worker, (&share, &own)),
        false => (share.arrivals.clone(), Vec::new()),
    };
    let start = |holder: Option<u32>| match holder {
        Some(holder) if holder != worker || away => u64::MAX,
        _ => 0,
    };
    let post = Post {
        memory: made.holders.iter().map(|&holder| AtomicU64::new(start(holder))).collect(),
        users: made.holders.iter().map(|_| AtomicU32::new(0)).collect(),
        out: share.sends.iter().map(|send| (send.transfer, send.to as usize, send.resource)).collect(),
        places: arrivals.iter().map(|arrival| arrival.resource).collect(),
        others: others.to_vec(),
    };
    let blocks = Blocks::new(&arrivals, &share.sends, &own.graph, post);
    (blocks.without_first(|k| unsent.contains(&share.sends[k].transfer)), global, (transfers, fetches))
}

/// Fetches what comes from no worker: each part as it is before any block.
fn fetch(blocks: &Blocks<Post>, fetches: &[(usize, u32)]) {
    for &(k, part) in fetches.iter().filter(|(k, _)| blocks.fetches(*k)) {
        let post = blocks.ports();
        assert_eq!(post.users[part as usize].load(SeqCst), 0, "a part is fetched while it is used");
        post.memory[part as usize].store(0, SeqCst);
        blocks.arrived(k);
    }
}

/// Ends all runs if a thread panics: the others would wait for its block.
struct OrEnd<'a>(&'a [Member]);

impl Drop for OrEnd<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.iter().for_each(|(blocks, ..)| blocks.stop());
        }
    }
}

/// Runs a plan on this many workers of two threads each; the block `failing` fails. `away` is as for `member`.
fn check(plan: &Plan, workers: usize, failing: Option<usize>, (seed, away): (u64, bool)) {
    let made = layout(plan, workers, &|_| 64);
    let (outboxes, inboxes): (Vec<Sender<Letter>>, Vec<Receiver<Letter>>) = (0..workers).map(|_| channel()).unzip();
    let seen = versions(plan);
    let all: Vec<Member> = (0..workers as u32).map(|w| member(plan, &made, w, away, &outboxes)).collect();
    let all = &all;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for ((blocks, global, (transfers, fetches)), inbox) in all.iter().zip(inboxes) {
            let chance = Chance(seed ^ transfers.len() as u64);
            scope.spawn(move || deliver(blocks, transfers, &inbox, chance));
            scope.spawn(move || fetch(blocks, fetches));
            blocks.begin();
            for _ in 0..2 {
                let seen = &seen;
                threads.push(scope.spawn(move || {
                    let _or_end = OrEnd(all);
                    while let Some(local) = blocks.next(&|_| false) {
                        let b = global[local] as usize;
                        run_block(plan, blocks.ports(), b, &seen[b]);
                        if Some(b) == failing {
                            blocks.fail(local);
                            // What the driver does when it hears of it.
                            for (others, global, _) in all {
                                others.cut_at(global.partition_point(|&other| (other as usize) < b));
                            }
                        } else {
                            blocks.done(local);
                        }
                    }
                }));
            }
        }
        let ended: Vec<_> = threads.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        outboxes.iter().for_each(|outbox| outbox.send(None).unwrap());
        ended.into_iter().for_each(Result::unwrap);
    });
    for (blocks, global, _) in all {
        let started = blocks.started();
        let must = global.iter().filter(|&&b| failing.is_none_or(|failing| (b as usize) <= failing)).count();
        assert!(started.len() >= must && started[..must].iter().enumerate().all(|(k, &b)| k == b), "blocks never ran");
        assert!(failing.is_some() || blocks.all_done());
    }
}

fn random_plan(chance: &mut Chance) -> Plan {
    let (rows, columns) = (1 + chance.below(6), 1 + chance.below(6));
    let mut touches = Vec::new();
    for s in 0..rows.max(columns) {
        for i in (0..rows).filter(|_| s < columns) {
            let write = |resource: usize| Touch { resource: resource as u32, write: true };
            let read = |resource: usize| Touch { resource: resource as u32, write: false };
            let column = rows + (i + s) % columns;
            touches.push(match chance.below(4) {
                0 => vec![read(i), write(column)],
                1 => vec![write(i), read(column)],
                _ => vec![write(i), write(column)],
            });
        }
    }
    Plan::of_touches(&[rows, columns], vec![1000; touches.len()], &touches)
}

#[test]
fn every_block_sees_its_versions() {
    let mut chance = Chance(11);
    for _ in 0..60 {
        let plan = random_plan(&mut chance);
        for workers in 1..5 {
            check(&plan, workers, None, (5, false));
            check(&plan, workers, None, (5, true));
        }
    }
}

#[test]
fn after_a_failure_all_blocks_before_it_run() {
    let mut chance = Chance(12);
    for _ in 0..60 {
        let plan = random_plan(&mut chance);
        let failing = chance.below(plan.blocks.len());
        check(&plan, 1 + chance.below(4), Some(failing), (6, chance.below(2) == 0));
    }
}
