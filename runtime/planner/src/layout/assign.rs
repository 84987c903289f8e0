//! Assignments of blocks to workers that are worth comparing.
//!
//! The parts of one DDS, the anchor, stay on their workers and each block runs where its anchor part lives, so only
//! parts of the others travel (STRADS section 3.3.1, the rotation). Which DDS that should be, and which of its parts
//! share a worker, is tried out; a list scheduler that knows no anchor is a further candidate, for plans without one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use petgraph::unionfind::UnionFind;

use crate::plan::{Parts, Plan};

/// The most places at which the first run of a rotation is tried.
const STARTS: usize = 64;

/// What the list scheduler takes a transfer of some bytes to cost, in accesses: less than it does. It looks one block ahead, and
/// by the true costs would rather wait nowhere than keep blocks together.
fn looks_like(bytes: u64) -> u64 {
    256 + bytes / 64
}

/// A worker for each block, in several ways.
pub(super) fn candidates(plan: &Plan, parts: &Parts, workers: usize, bytes: &dyn Fn(u32) -> u64) -> Vec<Vec<u32>> {
    let mut candidates = Vec::new();
    let written = written(plan, parts);
    let dealt: Vec<usize> = (0..parts.cuts.len()).filter(|&slot| is_dealt(parts, slot, &written)).collect();
    let slots = if dealt.is_empty() { (0..parts.cuts.len()).collect() } else { dealt.clone() };
    for slot in slots {
        let Some(anchored) = Anchored::new(plan, parts, (slot, &written), bytes) else { continue };
        let natural: Vec<usize> = (0..anchored.cost.len()).collect();
        for order in [anchored.rotation(plan, bytes), natural] {
            candidates.push(anchored.assign(plan, workers, &anchored.in_runs(&order, workers), bytes));
        }
        candidates.push(anchored.assign(plan, workers, &evenly(&anchored.cost, workers), bytes));
    }
    if dealt.is_empty() {
        candidates.push(list_schedule(plan, parts, workers, bytes));
    }
    candidates
}

/// The parts that some block writes.
fn written(plan: &Plan, parts: &Parts) -> Vec<bool> {
    let mut written = vec![false; parts.resources()];
    let touches = (0..plan.blocks.len()).flat_map(|b| plan.touches(b));
    touches.for_each(|touch| written[touch.resource as usize] |= touch.write);
    written
}

/// Whether a DDS has parts though no block writes it: these are not to be on several workers, so blocks come to them.
fn is_dealt(parts: &Parts, slot: usize, written: &[bool]) -> bool {
    (0..written.len()).all(|resource| parts.part_of(resource as u32).0 != slot || !written[resource])
}

/// Contiguous runs of about equal cost: a worker for each place.
pub(super) fn runs(cost: &[u64], workers: usize) -> Vec<u32> {
    let most = bottleneck(cost, workers);
    let mut rest: u64 = cost.iter().sum();
    let mut worker_of = Vec::with_capacity(cost.len());
    let (mut worker, mut load) = (0usize, 0u64);
    let mut fair = rest / workers as u64;
    for (k, &cost_here) in cost.iter().enumerate() {
        let others = workers - 1 - worker;
        let full = load + cost_here > most || load + cost_here / 2 > fair || cost.len() - k <= others;
        // A worker ends its run near its fair share, unless the others could not bear what that leaves them.
        if load > 0 && others > 0 && full && runs_needed(&cost[k..], most) <= others {
            worker += 1;
            fair = rest / (workers - worker) as u64;
            load = 0;
        }
        load += cost_here;
        rest -= cost_here;
        worker_of.push(worker as u32);
    }
    worker_of
}

/// The least load that the busiest of this many contiguous runs can have.
fn bottleneck(cost: &[u64], workers: usize) -> u64 {
    let all: u64 = cost.iter().sum();
    let mut least = cost.iter().copied().max().unwrap_or(0).max(all / workers as u64);
    let mut enough = all;
    while least < enough {
        let middle = least + (enough - least) / 2;
        if runs_needed(cost, middle) <= workers {
            enough = middle;
        } else {
            least = middle + 1;
        }
    }
    enough
}

/// How many contiguous runs of at most so much there are; no single cost is more.
fn runs_needed(cost: &[u64], most: u64) -> usize {
    let (mut runs, mut load) = (1, 0u64);
    for &cost in cost {
        if load + cost > most {
            runs += 1;
            load = 0;
        }
        load += cost;
    }
    runs
}

/// The costliest first, each to the worker with the least: a worker for each place.
fn evenly(cost: &[u64], workers: usize) -> Vec<u32> {
    let mut by_cost: Vec<usize> = (0..cost.len()).collect();
    by_cost.sort_by_key(|&k| (Reverse(cost[k]), k));
    let mut loads: BinaryHeap<Reverse<(u64, u32)>> = (0..workers as u32).map(|worker| Reverse((0, worker))).collect();
    let mut worker_of = vec![0; cost.len()];
    for k in by_cost {
        let Some(Reverse((load, worker))) = loads.pop() else { break };
        worker_of[k] = worker;
        loads.push(Reverse((load + cost[k], worker)));
    }
    worker_of
}

/// The blocks of a plan by the part of one DDS that they must come to.
struct Anchored {
    /// Of each block, if it touches a part that is written at all, or of a DDS that is dealt out.
    anchor: Vec<Option<u32>>,
    /// Of each part: what its blocks cost.
    cost: Vec<u64>,
}

impl Anchored {
    fn new(
        plan: &Plan,
        parts: &Parts,
        (slot, written): (usize, &[bool]),
        bytes: &dyn Fn(u32) -> u64,
    ) -> Option<Anchored> {
        let (blocks, dealt) = (plan.blocks.len(), is_dealt(parts, slot, written));
        let mut cost = vec![0; parts.cuts[slot].parts()];
        let anchor: Vec<Option<u32>> = (0..blocks)
            .map(|b| {
                let mine = plan
                    .touches(b)
                    .iter()
                    .filter(|touch| dealt || written[touch.resource as usize])
                    .filter(|touch| parts.part_of(touch.resource).0 == slot);
                let costliest =
                    mine.max_by_key(|touch| (touch.write, bytes(touch.resource), Reverse(touch.resource)))?;
                let part = parts.part_of(costliest.resource).1;
                cost[part] += plan.graph.cost(b);
                Some(part as u32)
            })
            .collect();
        anchor.iter().any(Option::is_some).then_some(Anchored { anchor, cost })
    }

    /// The anchor parts in an order in which neighbours are those between which most bytes would travel: where parts
    /// rotate this is the rotation.
    fn rotation(&self, plan: &Plan, bytes: &dyn Fn(u32) -> u64) -> Vec<usize> {
        let mut visited: BTreeMap<u32, u32> = BTreeMap::new();
        let mut between: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        for (b, anchor) in self.anchor.iter().enumerate() {
            let Some(anchor) = *anchor else { continue };
            for touch in plan.touches(b) {
                if let Some(before) = visited.insert(touch.resource, anchor)
                    && before != anchor
                {
                    // One more than the bytes, so that parts of no size count too.
                    *between.entry((before.min(anchor), before.max(anchor))).or_default() += bytes(touch.resource) + 1;
                }
            }
        }
        let mut pairs: Vec<((u32, u32), u64)> = between.into_iter().collect();
        pairs.sort_by_key(|&(pair, bytes)| (Reverse(bytes), pair));
        chains(self.cost.len(), pairs.into_iter().map(|(pair, _)| pair))
    }

    /// Gives each worker a run of the parts in their order, beginning where the runs come out most even.
    fn in_runs(&self, order: &[usize], workers: usize) -> Vec<u32> {
        let costs = |start: usize| -> Vec<u64> {
            (0..order.len()).map(|k| self.cost[order[(start + k) % order.len()]]).collect()
        };
        let (mut start, mut most) = (0, bottleneck(&costs(0), workers));
        for other in (0..order.len()).step_by(order.len().div_ceil(STARTS).max(1)) {
            let here = bottleneck(&costs(other), workers);
            // Where the order is no circle its ends don't belong together, so it must be worth it.
            if here + here / 50 < most {
                (start, most) = (other, here);
            }
        }
        let mut worker_of = vec![0; order.len()];
        for (k, worker) in runs(&costs(start), workers).into_iter().enumerate() {
            worker_of[order[(start + k) % order.len()]] = worker;
        }
        worker_of
    }

    /// Sends each block to its anchor part; those without one where most of what they touch was touched last.
    fn assign(&self, plan: &Plan, workers: usize, home: &[u32], bytes: &dyn Fn(u32) -> u64) -> Vec<u32> {
        let mut loads = vec![0u64; workers];
        for (part, &worker) in home.iter().enumerate() {
            loads[worker as usize] += self.cost[part];
        }
        let mut last: BTreeMap<u32, u32> = BTreeMap::new();
        let mut worker_of = Vec::with_capacity(self.anchor.len());
        for (b, anchor) in self.anchor.iter().enumerate() {
            let worker = match anchor {
                Some(part) => home[*part as usize],
                None => {
                    let mut near = vec![0u64; workers];
                    for touch in plan.touches(b) {
                        if let Some(&worker) = last.get(&touch.resource) {
                            near[worker as usize] += bytes(touch.resource);
                        }
                    }
                    let best = (0..workers).max_by_key(|&w| (near[w], Reverse(loads[w]), Reverse(w))).unwrap_or(0);
                    loads[best] += plan.graph.cost(b);
                    best as u32
                }
            };
            plan.touches(b).iter().for_each(|touch| {
                last.insert(touch.resource, worker);
            });
            worker_of.push(worker);
        }
        worker_of
    }
}

/// Joins pairs, the first given first, into chains through all of `0..n`, one chain behind the other.
fn chains(n: usize, pairs: impl Iterator<Item = (u32, u32)>) -> Vec<usize> {
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
    let mut chains: UnionFind<usize> = UnionFind::new(n);
    for (a, b) in pairs {
        let (a, b) = (a as usize, b as usize);
        if next[a].len() < 2 && next[b].len() < 2 && chains.union(a, b) {
            next[a].push(b);
            next[b].push(a);
        }
    }
    let mut order = Vec::with_capacity(n);
    let mut taken = vec![false; n];
    for start in 0..n {
        let mut at = (next[start].len() < 2 && !taken[start]).then_some(start);
        while let Some(here) = at {
            taken[here] = true;
            order.push(here);
            at = next[here].iter().copied().find(|&other| !taken[other]);
        }
    }
    order
}

/// Where the newest version of a resource is.
struct Newest {
    /// By worker that has it: since when.
    at: BTreeMap<u32, u64>,
    /// When its writer ended.
    since: u64,
}

/// Takes blocks by the length of the chain behind them, each to the worker that would end it first.
fn list_schedule(plan: &Plan, parts: &Parts, workers: usize, bytes: &dyn Fn(u32) -> u64) -> Vec<u32> {
    let graph = &plan.graph;
    let mut waits_for = graph.waits_for.clone();
    let mut ready: BinaryHeap<(u64, Reverse<usize>)> =
        (0..graph.len()).filter(|&b| waits_for[b] == 0).map(|b| (graph.tail[b], Reverse(b))).collect();
    let mut newest: Vec<Option<Newest>> = (0..parts.resources()).map(|_| None).collect();
    let mut free = vec![0u64; workers];
    let mut worker_of = vec![0u32; graph.len()];
    while let Some((_, Reverse(block))) = ready.pop() {
        let start_on = |worker: u32| {
            let mut moved = 0;
            let start = plan.touches(block).iter().fold(free[worker as usize], |start, touch| {
                let arrival = newest[touch.resource as usize].as_ref().map_or(0, |newest| {
                    newest.at.get(&worker).copied().unwrap_or_else(|| {
                        moved += bytes(touch.resource);
                        newest.since + looks_like(bytes(touch.resource))
                    })
                });
                start.max(arrival)
            });
            (start, moved, worker)
        };
        let Some((start, _, worker)) = (0..workers as u32).map(start_on).min() else { break };
        let end = start + graph.cost(block);
        for touch in plan.touches(block) {
            let newest = newest[touch.resource as usize]
                .get_or_insert_with(|| Newest { at: BTreeMap::from([(worker, 0)]), since: 0 });
            if touch.write {
                *newest = Newest { at: BTreeMap::from([(worker, end)]), since: end };
            } else {
                newest.at.entry(worker).or_insert(start);
            }
        }
        free[worker as usize] = end;
        worker_of[block] = worker;
        for &follower in graph.followers(block) {
            let follower = follower as usize;
            waits_for[follower] -= 1;
            if waits_for[follower] == 0 {
                ready.push((graph.tail[follower], Reverse(follower)));
            }
        }
    }
    worker_of
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(96) })]

        #[test]
        fn runs_are_as_even_as_can_be(cost in prop::collection::vec(1..1000u64, 1..40), workers in 1..9usize) {
            let worker_of = runs(&cost, workers);
            prop_assert_eq!(worker_of.len(), cost.len());
            prop_assert!(worker_of.is_sorted() && worker_of.iter().all(|&w| (w as usize) < workers));
            let mut loads = vec![0; workers];
            worker_of.iter().zip(&cost).for_each(|(&w, cost)| loads[w as usize] += cost);
            let most = loads.into_iter().max().unwrap();
            // No contiguous runs have a smaller maximum.
            let (mut needed, mut load) = (1, 0);
            for &cost in &cost {
                if cost > most - 1 {
                    return Ok(());
                }
                if load + cost > most - 1 {
                    (needed, load) = (needed + 1, 0);
                }
                load += cost;
            }
            prop_assert!(needed > workers);
        }
    }
}
