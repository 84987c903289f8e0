//! What blocks leave when they end: reductions, which are united, and copies of elements from before, which undo the loop.
//!
//! # Why this is sound
//! A loop is undone when all its threads have ended, by its own lease: nobody else uses the elements.
#![allow(unsafe_code)]

use crate::body::capture::{Captured, Kind};
use crate::body::context::Context;
use crate::body::lease::Lease;
use crate::body::panics::{self, CaughtPanic};
use crate::body::saved::Saved;
use crate::body::slow_path::Doing;
use crate::loops::undo::Undo;
use crate::planner::plan::Plan;
use crate::session::logging::warning;
use crate::session::options::{Order, Strategy};

/// Single additions with their iterations, by capture.
pub(crate) type Additions = Vec<Vec<(usize, u64)>>;

/// What a block left for the reductions: a total each, and single additions where their order counts.
#[derive(Default)]
pub(crate) struct BlockResult {
    pub(crate) totals: Vec<u64>,
    /// By capture; nothing at all if there are none.
    pub(crate) additions: Additions,
    /// What single elements held before the block changed them, by capture.
    old: Vec<(usize, Saved)>,
}

impl BlockResult {
    /// How many elements it saved by themselves.
    pub(super) fn saved(&self) -> usize {
        self.old.iter().map(|(_, saved)| saved.len()).sum()
    }

    /// Of a block that has saved nothing.
    pub(crate) fn of_totals(totals: Vec<u64>, additions: Additions) -> BlockResult {
        BlockResult { additions, totals, old: Vec::new() }
    }

    pub(super) fn of(context: &Context<'_>) -> BlockResult {
        let mut result = BlockResult { totals: Vec::with_capacity(context.slots.len()), ..BlockResult::default() };
        for (c, slot) in context.slots.iter().enumerate() {
            result.totals.push(slot.total().get());
            if let Some(additions) = slot.additions() {
                result.additions.resize_with(context.slots.len(), Vec::new);
                result.additions[c] = additions.take();
            }
            if let Doing::Logged { saved, .. } = slot.slow_path().doing() {
                result.old.push((c, saved.take()));
            }
        }
        result
    }
}

/// What the reductions come to: the blocks' results in serial order, or all additions in the loop's.
pub(crate) fn unite(
    plan: &Plan,
    captured: &[Captured],
    order: Order,
    before: &[u64],
    results: impl Iterator<Item = BlockResult>,
) -> Vec<u64> {
    let mut words = before.to_vec();
    // By capture, and by block.
    let mut additions: Vec<Additions> = vec![Vec::new(); words.len()];
    let serial = plan.strategy == Strategy::Serial;
    for result in results {
        for (c, capture) in captured.iter().enumerate() {
            if let Kind::Reduction { ops, .. } = capture.kind {
                // (Blocks beside one another leave one result.)
                let Some(&total) = result.totals.get(c) else { continue };
                words[c] = if serial { total } else { (ops.unite)(words[c], total) };
            }
        }
        for (all, block) in additions.iter_mut().zip(result.additions) {
            all.push(block);
        }
    }
    for (c, additions) in additions.into_iter().enumerate() {
        if let Kind::Reduction { ops, .. } = captured[c].kind
            && ops.ordered
            && order == Order::Preserve
            && !serial
        {
            words[c] = in_order(additions).fold(before[c], |sum, (_, word)| (ops.unite)(sum, word));
        }
    }
    words
}

/// All additions in the order of the iterations. (Blocks of neighbours, one after the other, have them in order already.)
fn in_order(mut blocks: Additions) -> impl Iterator<Item = (usize, u64)> {
    blocks.retain(|block| !block.is_empty());
    blocks.sort_by_key(|block| block.first().map(|first| first.0));
    let ascend = blocks.iter().all(|block| block.is_sorted_by_key(|at| at.0));
    let apart = blocks.windows(2).all(|two| two[0].last().map(|last| last.0) <= two[1].first().map(|first| first.0));
    if !ascend || !apart {
        let mut all: Vec<(usize, u64)> = blocks.drain(..).flatten().collect();
        all.sort_by_key(|at| at.0);
        blocks.push(all);
    }
    blocks.into_iter().flatten()
}

/// Puts everything back as it was before the loop, and then drops what the loop had made of it. Says what the first destructor
/// that panicked said. All threads of the loop have ended.
pub(crate) fn restore(
    plan: &Plan,
    lease: &Lease<'_>,
    mut results: Vec<BlockResult>,
    undo: &Undo,
) -> Result<(), CaughtPanic> {
    // Backwards: of several blocks that changed an element the first saw it as it was before the loop. What a block saved before it
    // began is older than what it saved of single elements.
    for b in (0..plan.blocks.len()).rev() {
        for (c, saved) in results.get_mut(b).into_iter().flat_map(|result| &mut result.old) {
            let Some(lent) = lease.vector(*c) else { continue };
            saved.each(|index, copy| {
                assert!(index < lent.len());
                // SAFETY: nobody else runs; both addresses hold an element.
                unsafe { std::ptr::swap_nonoverlapping(copy, lent.at(index), lent.ops().size) };
            });
        }
        undo.restore_of(b, plan, lease);
    }
    undo.restore_upfront(plan, lease);
    undo.commit().and(drop_old(&mut results))
}

/// Of a loop that ended well: drops the engine's own copies of what was there before. What their destructors say is no
/// failure of the loop, which had none of them.
pub(crate) fn settled(mut results: Vec<BlockResult>, undo: &Undo) -> Vec<BlockResult> {
    if let Err(note) = undo.commit().and(drop_old(&mut results)) {
        warning!("a copy of an element, made to undo a loop, panicked when it was dropped: {}", note.message);
    }
    results
}

fn drop_old(results: &mut [BlockResult]) -> Result<(), CaughtPanic> {
    let mut ended = Ok(());
    let old = results.iter_mut().flat_map(|result| std::mem::take(&mut result.old));
    for copies in old.flat_map(|(_, saved)| saved.into_copies()) {
        ended = ended.and(panics::caught(|| drop(copies)));
    }
    ended
}
