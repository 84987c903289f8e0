//! Elements that a worker fetches: before a call, or while the first blocks of a loop run. Then what is needed first comes first
//! (IterStore, section 4.2), and each block waits for its own.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use futures_util::stream::{self, StreamExt};

use crate::cluster::wire::protocol::{Fetch, PIECE, Problem, Pull};
use crate::cluster::worker::bench::Workbench;
use crate::cluster::worker::{Running, Worker};
use crate::memory::reservation::Reservation;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::planner::share::Arrival;
use crate::session::timeline::{Category, task_span};

/// How many fetches are under way at once.
const AT_ONCE: usize = 4;

/// How many bytes may be here before the blocks that need them are next, where elements don't stay.
const AHEAD: usize = 16 << 20;
/// How many bytes may wait there to be stored before more are fetched.
const BEHIND: usize = 16 << 20;
/// How often it is asked meanwhile whether the loop is over.
const ASKING: Duration = Duration::from_millis(100);

/// Elements that are fetched together: which arrival they are, and where they go.
pub(crate) struct Coming {
    arrival: usize,
    pieces: Vec<(Arc<Reservation>, Pull)>,
    /// The first block that needs them, and how many bytes come for it and those before it.
    first: usize,
    bytes: usize,
}

/// Elements of one DDS, and the worker's blocks that need them before any worker has changed them.
pub(super) struct Need {
    dds: u64,
    range: Range<usize>,
    blocks: Vec<u32>,
}

/// What is to be fetched, in the order in which it is. Arrivals that the plan doesn't know of are added to those that transfers bring.
pub(crate) fn coming(
    fetches: &[Fetch],
    (arrivals, by_transfer): (&mut Vec<Arrival>, &BTreeMap<u32, usize>),
    (plan, global, ids): (&Plan, &[u32], &[u64]),
    bench: &Workbench,
) -> Result<Vec<Coming>, Problem> {
    let mut all = Vec::new();
    let needs = needs(plan, ids);
    for fetch in fetches {
        let pieces = |pulls: &[Pull]| {
            let known = |pull: &Pull| Ok::<_, Problem>((bench.known(pull.dds)?, pull.clone()));
            pulls.iter().map(known).collect::<Result<Vec<_>, _>>()
        };
        if let Some(transfer) = fetch.transfer {
            let arrival = by_transfer.get(&transfer).copied();
            let arrival = arrival.ok_or_else(|| Problem::Broken("a transfer that doesn't come here".to_string()))?;
            all.push(Coming { arrival, pieces: pieces(&fetch.pulls)?, first: 0, bytes: 0 });
            continue;
        }
        for pull in &fetch.pulls {
            let size = bench.known(pull.dds)?.ops().size;
            let last = global.partition_point(|&block| block <= fetch.until) as u32;
            for (before, pulls) in of_blocks(pull, &needs, last, size) {
                all.push(Coming { arrival: arrivals.len(), pieces: pieces(&pulls)?, first: 0, bytes: 0 });
                arrivals.push(Arrival { transfer: u32::MAX, resource: u32::MAX, before, behind: Vec::new() });
            }
        }
    }
    for coming in &mut all {
        coming.first = arrivals[coming.arrival].before.first().map_or(0, |&first| first as usize);
    }
    all.sort_by_key(|coming| coming.first);
    let mut bytes = 0;
    for coming in &mut all {
        let size = |(reservation, pull): &(Arc<Reservation>, Pull)| pull.range.len() * reservation.ops().size;
        bytes += coming.pieces.iter().map(size).sum::<usize>();
        coming.bytes = bytes;
    }
    Ok(all)
}

/// What the worker's blocks need of captures with these numbers, by DDS and place.
pub(super) fn needs(plan: &Plan, ids: &[u64]) -> Vec<Need> {
    let mut needs = Vec::new();
    if let Some(parts) = &plan.parts {
        let mut blocks = vec![Vec::new(); parts.resources()];
        for b in 0..plan.blocks.len() {
            plan.touches(b).iter().for_each(|touch| blocks[touch.resource as usize].push(b as u32));
        }
        for (resource, blocks) in blocks.into_iter().enumerate().filter(|(_, blocks)| !blocks.is_empty()) {
            let Some((capture, range)) = plan.part(resource as u32) else { continue };
            needs.push(Need { dds: ids[capture], range, blocks });
        }
    }
    for (&dds, usage) in ids.iter().zip(&plan.usage) {
        let Usage::InStep { offset, .. } = *usage else { continue };
        let first = plan.range.start.wrapping_add(offset);
        let range = |b: usize| first.wrapping_add(plan.blocks[b].start)..first.wrapping_add(plan.blocks[b].end);
        needs.extend((0..plan.blocks.len()).map(|b| Need { dds, range: range(b), blocks: vec![b as u32] }));
    }
    needs.sort_by_key(|need| (need.dds, need.range.start));
    needs
}

/// A pull in pieces, each with the blocks before `end` that wait for it. Small ones that follow each other come together.
pub(super) fn of_blocks(pull: &Pull, needs: &[Need], end: u32, size: usize) -> Vec<(Vec<u32>, Vec<Pull>)> {
    let mut pieces: Vec<(Vec<u32>, Vec<Pull>)> = Vec::new();
    let mut together = 0;
    let first = needs.partition_point(|need| (need.dds, need.range.end) <= (pull.dds, pull.range.start));
    for need in needs[first..].iter().take_while(|need| need.dds == pull.dds && need.range.start < pull.range.end) {
        let range = need.range.start.max(pull.range.start)..need.range.end.min(pull.range.end);
        let waiting = need.blocks.iter().copied().filter(|&block| block < end);
        if range.is_empty() {
            continue;
        }
        let bytes = range.len() * size;
        match pieces.last_mut() {
            Some((blocks, pulls)) if together + bytes <= PIECE => {
                together += bytes;
                blocks.extend(waiting);
                match pulls.last_mut() {
                    Some(last) if last.range.end == range.start => last.range.end = range.end,
                    _ => pulls.push(Pull { range, ..pull.clone() }),
                }
            }
            _ => {
                together = bytes;
                pieces.push((waiting.collect(), vec![Pull { range, ..pull.clone() }]));
            }
        }
    }
    for (blocks, _) in &mut pieces {
        blocks.sort_unstable();
        blocks.dedup();
        if blocks.is_empty() {
            // The driver takes it to be here when the loop has ended.
            blocks.push(0);
        }
    }
    pieces
}

impl Worker {
    /// Fetches what a call needs that is about to begin.
    pub(super) async fn fill_all(&self, pulls: &[Pull]) -> Result<(), Problem> {
        for pull in pulls {
            let reservation = self.bench.known(pull.dds)?;
            self.links.fill(&reservation, pull.dds, pull.range.clone(), pull.from).await?;
        }
        Ok(())
    }

    /// Fetches what a running loop's blocks wait for. Ends early with the loop.
    pub(super) async fn fetch_ahead(self: Arc<Self>, running: Arc<Running>, coming: Vec<Coming>) {
        let bytes: Vec<(usize, usize)> = coming.iter().map(|coming| (coming.first, coming.bytes)).collect();
        let (worker, running, bytes) = (&self, &running, &bytes);
        stream::iter(coming)
            .for_each_concurrent(AT_ONCE, |coming| async move {
                if let Some(returning) = &running.blocks.ports().returning {
                    let is_near = || {
                        let next = running.blocks.first_left();
                        let come = bytes.partition_point(|&(first, _)| first <= next);
                        let here = come.checked_sub(1).map_or(0, |last| bytes[last].1);
                        let is_next = coming.bytes <= here + AHEAD || coming.first <= next;
                        (is_next && returning.bytes_in_line() <= BEHIND) || running.blocks.is_over()
                    };
                    returning.wait_until(ASKING, is_near).await;
                }
                if !running.blocks.fetches(coming.arrival) {
                    return;
                }
                let since = Instant::now();
                match worker.fetch(&coming.pieces).await {
                    Ok(()) => running.blocks.arrived(coming.arrival),
                    Err(problem) => {
                        running.blocks.broke_off(coming.arrival);
                        match problem {
                            Problem::Peer { node, why } => worker.trouble.report(node, why),
                            problem => {
                                tracing::warn!(?problem, "elements can't be fetched");
                                running.blocks.give_up();
                            }
                        }
                    }
                }
                running.received.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
            })
            .await;
    }

    async fn fetch(&self, pieces: &[(Arc<Reservation>, Pull)]) -> Result<(), Problem> {
        for (reservation, Pull { dds, range, from }) in pieces {
            let _span = task_span(Category::Receive, (range.len() * reservation.ops().size) as u64);
            self.links.fill(reservation, *dds, range.clone(), *from).await?;
        }
        Ok(())
    }
}
