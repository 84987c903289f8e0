//! Reductions whose additions are made in the loop's own order, while blocks run that stand in this order: a block that begins when
//! all before it have ended adds to what they came to. Others list what they add, and that is added when it's their turn.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::Run;
use crate::body::capture::{Captured, Kind};
use crate::loops::results::{Additions, BlockResult};
use crate::session::locked;
use crate::session::options::{Order, Strategy};

pub(crate) struct InOrder<'r> {
    captured: &'r [Captured],
    turns: Mutex<Turns>,
}

struct Turns {
    /// The block whose additions come next,
    next: usize,
    /// whether it runs and adds to the words itself,
    runs: bool,
    /// what the reductions hold after all blocks before it, by capture,
    words: Vec<u64>,
    /// and the additions of blocks behind it that have ended.
    waiting: BTreeMap<usize, Additions>,
}

impl<'r> InOrder<'r> {
    /// None where blocks are not runs of iterations, or nothing is added up whose order shows.
    pub(super) fn of(run: &'r Run<'_>) -> Option<InOrder<'r>> {
        let plan = run.plan;
        let runs = plan.strategy == Strategy::Aligned && plan.offsets.is_empty() && !plan.has_alone();
        if run.order != Order::Preserve || !runs || !run.captured().iter().any(is_ordered) {
            return None;
        }
        let turns = Turns { next: 0, runs: false, words: run.before.clone(), waiting: BTreeMap::new() };
        Some(InOrder { captured: run.captured(), turns: Mutex::new(turns) })
    }

    /// What the reductions hold before a block that begins, if all before it have ended.
    pub(super) fn begin(&self, b: usize) -> Option<Vec<u64>> {
        let mut turns = locked(&self.turns);
        turns.runs |= turns.next == b;
        (turns.next == b).then(|| turns.words.clone())
    }

    /// A block has ended well.
    pub(super) fn end(&self, b: usize, result: &mut BlockResult) {
        let mut turns = locked(&self.turns);
        let turns = &mut *turns;
        if turns.next == b && turns.runs {
            for (c, &total) in result.totals.iter().enumerate().filter(|&(c, _)| is_ordered(&self.captured[c])) {
                turns.words[c] = total;
            }
            (turns.next, turns.runs) = (b + 1, false);
        } else {
            turns.waiting.insert(b, std::mem::take(&mut result.additions));
        }
        while let Some(additions) = turns.waiting.remove(&turns.next) {
            for (c, additions) in additions.iter().enumerate() {
                if let Kind::Reduction { ops, .. } = self.captured[c].kind {
                    let word = turns.words[c];
                    turns.words[c] = additions.iter().fold(word, |sum, &(_, word)| (ops.unite)(sum, word));
                }
            }
            turns.next += 1;
        }
    }

    /// Gives what these reductions come to, when all blocks have ended well.
    pub(super) fn give(self, after: &mut [u64]) {
        let Turns { words, .. } = self.turns.into_inner().unwrap_or_else(PoisonError::into_inner);
        for (c, word) in words.into_iter().enumerate().filter(|&(c, _)| is_ordered(&self.captured[c])) {
            after[c] = word;
        }
    }
}

/// Whether a capture is a reduction whose bits depend on the order of additions.
fn is_ordered(capture: &Captured) -> bool {
    matches!(capture.kind, Kind::Reduction { ops, .. } if ops.ordered)
}
