//! What a loop came to on workers.

use std::collections::BTreeMap;

use crate::cluster::wire::protocol::{Node, WorkerSeconds};
use crate::loops::results::{Additions, BlockResult};

/// What a loop came to.
#[derive(Default)]
pub(crate) struct LoopResult {
    pub(crate) totals: Totals,
    /// What blocks have added to relaxed state, as bytes, one after the other.
    pub(crate) relaxed: Vec<(Vec<usize>, Vec<u8>)>,
    /// The workers' tallies, as bytes.
    pub(crate) tallied: Vec<Vec<u8>>,
    pub(crate) workers: Vec<(Node, WorkerSeconds)>,
    pub(crate) bytes_sent: u64,
    /// The type of a captured value that bodies changed.
    pub(crate) changed: Option<String>,
}

/// What blocks left for reductions, in the plan's serial order: together, since there are many blocks.
#[derive(Default)]
pub(crate) struct Totals {
    /// A word for each capture, block by block.
    words: Vec<u64>,
    captures: usize,
    /// Single additions by block, where there are any.
    additions: BTreeMap<usize, Additions>,
}

impl Totals {
    /// Of this many blocks, which have left nothing so far.
    pub(super) fn new(blocks: usize, captures: usize) -> Totals {
        Totals { words: vec![0; blocks * captures], captures, additions: BTreeMap::new() }
    }

    /// What these blocks have left, as a worker says. None if it doesn't fit.
    pub(super) fn put(&mut self, blocks: &[usize], words: &[u64], additions: Vec<(u32, Additions)>) -> Option<()> {
        if words.len() != blocks.len() * self.captures {
            return None;
        }
        for (&block, words) in blocks.iter().zip(words.chunks(self.captures.max(1))) {
            self.words[block * self.captures..][..self.captures].copy_from_slice(words);
        }
        for (own, additions) in additions {
            self.additions.insert(*blocks.get(own as usize)?, additions);
        }
        Some(())
    }

    /// The words of the last block.
    pub(super) fn last(&self) -> Option<&[u64]> {
        self.words.rchunks(self.captures.max(1)).next()
    }

    fn append(&mut self, mut part: Totals) {
        let before = self.words.len().checked_div(self.captures).unwrap_or(0);
        self.captures = part.captures;
        self.words.append(&mut part.words);
        self.additions.extend(part.additions.into_iter().map(|(block, additions)| (before + block, additions)));
    }

    /// What each block has left.
    pub(super) fn results(mut self) -> impl Iterator<Item = BlockResult> {
        let (words, captures) = (self.words, self.captures.max(1));
        (0..words.len() / captures).map(move |block| {
            let totals = words[block * captures..][..captures].to_vec();
            BlockResult::of_totals(totals, self.additions.remove(&block).unwrap_or_default())
        })
    }
}

impl LoopResult {
    /// What a loop came to whose second part came to this.
    pub(super) fn append(&mut self, part: LoopResult) {
        self.totals.append(part.totals);
        self.relaxed.extend(part.relaxed);
        self.tallied.extend(part.tallied);
        self.bytes_sent += part.bytes_sent;
        self.changed = self.changed.take().or(part.changed);
        for (node, time) in part.workers {
            match self.workers.iter_mut().find(|(other, _)| *other == node) {
                Some((_, all)) => {
                    all.computing += time.computing;
                    all.waiting += time.waiting;
                    all.transferring += time.transferring;
                }
                None => self.workers.push((node, time)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stand_in_the_serial_order_of_all_parts() {
        let mut all = LoopResult::default();
        for part in 0..2u64 {
            let mut totals = Totals::new(3, 2);
            let word = |block: u64| 10 * part + block;
            totals.put(&[0, 2], &[word(0), 100, word(2), 100], vec![(1, vec![vec![(7, part)], Vec::new()])]).unwrap();
            totals.put(&[1], &[word(1), 100], Vec::new()).unwrap();
            assert_eq!(totals.last(), Some(&[word(2), 100][..]));
            all.append(LoopResult { totals, ..LoopResult::default() });
        }
        let results: Vec<BlockResult> = all.totals.results().collect();
        let words: Vec<u64> = results.iter().map(|result| result.totals[0]).collect();
        assert_eq!(words, [0, 1, 2, 10, 11, 12]);
        let added: Vec<usize> = (0..6).filter(|&block| !results[block].additions.is_empty()).collect();
        assert_eq!((added, results[5].additions[0][0]), (vec![2, 5], (7, 1)));
    }

    #[test]
    fn answers_that_dont_fit_are_refused() {
        let mut totals = Totals::new(3, 2);
        assert!(totals.put(&[0, 2], &[1, 2, 3], Vec::new()).is_none());
        assert!(totals.put(&[0], &[1, 2], vec![(1, Vec::new())]).is_none());
        assert!(Totals::default().last().is_none() && Totals::default().results().next().is_none());
    }
}
