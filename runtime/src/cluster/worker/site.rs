//! What a worker keeps of a synchronous loop from one call to the next: tables, the input, and which rows its minibatches
//! touched, in the order of their first touches (IterStore, section 4.2: sets, not traces).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::cluster::wire::keepers::{Touches, group_shift};
use crate::minibatch::{Chosen, Table, next_stamps};
use crate::session::locked;

/// Rows of several captures.
pub(crate) type Rows = BTreeMap<usize, Vec<u32>>;

/// More rows than this are not worth remembering.
const MOST_ROWS: usize = 1 << 28;

/// What a site's minibatches touch of other processes' rows.
#[derive(Default)]
pub(crate) struct Foreseen {
    /// By round.
    pub(crate) rounds: BTreeMap<usize, Rows>,
    rows: usize,
    /// All rounds of a call have been recorded.
    pub(crate) complete: bool,
}

impl Foreseen {
    /// Records what a round touched. False if that is too much to remember.
    pub(crate) fn record(&mut self, round: usize, rows: Rows) -> bool {
        self.rows += rows.values().map(Vec::len).sum::<usize>();
        if self.rows > MOST_ROWS {
            *self = Foreseen::default();
            return false;
        }
        self.rounds.insert(round, rows);
        true
    }

    /// Records what one more copy touched in a round. False if that is too much to remember.
    pub(crate) fn add(&mut self, round: usize, mut rows: Rows) -> bool {
        if let Some(known) = self.rounds.remove(&round) {
            self.rows -= known.values().map(Vec::len).sum::<usize>();
            for (c, known) in known {
                let more = std::mem::replace(rows.entry(c).or_default(), known);
                let mut seen: HashSet<u32> = rows[&c].iter().copied().collect();
                rows.entry(c).or_default().extend(more.into_iter().filter(|&row| seen.insert(row)));
            }
        }
        self.record(round, rows)
    }
}

/// A loop's memory on one worker.
#[derive(Default)]
pub(crate) struct LoopMemory {
    pub(crate) foreseen: Mutex<Foreseen>,
    /// The pattern was another one too often: every row that changes is wanted.
    pub(crate) wild: AtomicBool,
    /// Which wants other workers have received, by worker and round.
    pub(crate) sent_wants: Mutex<BTreeSet<(usize, usize)>>,
    /// What other workers want, by worker and round.
    pub(crate) wanted: Mutex<BTreeMap<(usize, usize), Arc<Rows>>>,
    pub(crate) kept: Mutex<Vec<Vec<Option<Table>>>>,
    pub(crate) stamp: AtomicU32,
    pub(crate) hot: Chosen,
    /// By capture, the numbers of who kept its rows in the last call; 0 where they were cut by number.
    pub(crate) keepers: Mutex<Vec<u64>>,
}

impl LoopMemory {
    /// Begins a call in which rows are kept so. True if that is new: wants were sent to others.
    pub(crate) fn keeps(&self, keepers: Vec<u64>) -> bool {
        let before = std::mem::replace(&mut *locked(&self.keepers), keepers);
        let changed = before != *locked(&self.keepers);
        if changed {
            self.forget_wants();
        }
        changed
    }

    /// How often rows of a capture are touched, by group: the sum over rounds of the rows that are.
    pub(crate) fn touches(&self, capture: usize, len: usize) -> Touches {
        let shift = group_shift(len);
        let mut often = vec![0u32; len.div_ceil(1 << shift)];
        for rows in locked(&self.foreseen).rounds.values().filter_map(|rows| rows.get(&capture)) {
            for row in rows {
                if let Some(often) = often.get_mut((row >> shift) as usize) {
                    *often = often.saturating_add(1);
                }
            }
        }
        (0..).zip(often).filter(|&(_, n)| n > 0).collect()
    }

    /// A call was broken off: a want that was sent may not have arrived. All are sent anew.
    pub(crate) fn forget_wants(&self) {
        locked(&self.sent_wants).clear();
        locked(&self.wanted).clear();
    }

    /// The stamp after which a run of this many rounds counts on; the tables forget what they have seen when stamps run out.
    pub(crate) fn stamps_for(&self, rounds: usize, kept: &[Vec<Option<Table>>]) -> u32 {
        let (from, all) = next_stamps(self.stamp.load(Relaxed), rounds, kept);
        self.stamp.store(all, Relaxed);
        from
    }
}
