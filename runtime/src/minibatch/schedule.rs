//! Which copy runs which minibatch in which round: a function of the input's length, the minibatch's size, the policy and
//! the number of copies alone, so that the bits don't depend on who runs a copy.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::policy::SyncPolicy;

/// The minibatches of a loop, dealt to its copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Schedule {
    /// Elements of the input.
    pub(crate) len: usize,
    /// Elements a minibatch; the last may have fewer.
    pub(crate) size: usize,
    pub(crate) copies: usize,
    /// Minibatches that a copy runs in each round.
    pub(crate) each: usize,
}

impl Schedule {
    /// The schedule of a loop whose copies have this many threads each. They meet when each thread has run `interval` minibatches,
    /// where the policy says nothing else.
    pub(crate) fn new(
        (len, size): (usize, usize),
        policy: SyncPolicy,
        interval: usize,
        copies: usize,
        threads: usize,
    ) -> Schedule {
        let each = match policy {
            SyncPolicy::Bsp => interval,
            SyncPolicy::Ssp { .. } => 1,
            SyncPolicy::Hybrid => threads.saturating_mul(interval),
            SyncPolicy::ModelAverage { every } => every,
        };
        Schedule { len, size, copies, each }
    }

    pub(crate) fn minibatches(&self) -> usize {
        self.len.div_ceil(self.size)
    }

    pub(crate) fn rounds(&self) -> usize {
        self.minibatches().div_ceil(self.copies.saturating_mul(self.each))
    }

    /// How many minibatches have not run when a round begins.
    fn left(&self, round: usize) -> usize {
        self.minibatches().saturating_sub(round.saturating_mul(self.copies).saturating_mul(self.each))
    }

    /// The minibatches of a copy in a round, which follow each other. In the last round copies share what is left.
    pub(crate) fn of(&self, round: usize, copy: usize) -> Range<usize> {
        let (all, left) = (self.minibatches(), self.left(round));
        let first = |copy: usize| {
            let before = match left / self.copies {
                each if each >= self.each => copy.saturating_mul(self.each),
                each => copy * each + copy.min(left % self.copies),
            };
            all - left + before.min(left)
        };
        first(copy)..first(copy + 1)
    }

    /// The first minibatch of the last round: what fails when all have ended is said to have failed there.
    pub(crate) fn last(&self) -> usize {
        self.of(self.rounds().saturating_sub(1), 0).start
    }

    /// How many copies have something to do in a round.
    pub(crate) fn active(&self, round: usize) -> usize {
        self.left(round).min(self.copies)
    }

    /// The elements of a minibatch.
    pub(crate) fn elements(&self, minibatch: usize) -> Range<usize> {
        let start = minibatch * self.size;
        start..self.len.min(start.saturating_add(self.size))
    }

    /// The copies that the `w`-th of `workers` processes runs.
    pub(crate) fn share(&self, w: usize, workers: usize) -> Range<usize> {
        self.copies * w / workers..self.copies * (w + 1) / workers
    }

    /// All minibatches of some copies, in the order of the rounds and, within one, of the copies.
    pub(crate) fn minibatches_of(&self, copies: Range<usize>) -> impl Iterator<Item = usize> + '_ {
        (0..self.rounds()).flat_map(move |round| copies.clone().flat_map(move |copy| self.of(round, copy)))
    }

    /// The elements of some copies in their own order, by ranges that don't touch each other.
    pub(crate) fn elements_of(&self, copies: Range<usize>) -> Vec<Range<usize>> {
        let mut own: Vec<usize> = self.minibatches_of(copies).collect();
        own.sort_unstable();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for range in own.into_iter().map(|minibatch| self.elements(minibatch)).filter(|range| !range.is_empty()) {
            match ranges.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => ranges.push(range),
            }
        }
        ranges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_minibatch_is_run_once_and_every_element_is_in_one() {
        let policies = [
            SyncPolicy::Bsp,
            SyncPolicy::Hybrid,
            SyncPolicy::ModelAverage { every: 3 },
            SyncPolicy::Ssp { staleness: 1 },
        ];
        for policy in policies {
            for (len, size, copies, threads) in
                [(0, 4, 2, 2), (1, 4, 3, 1), (100, 7, 3, 2), (64, 8, 4, 4), (10, 100, 2, 3), (1000, 1, 7, 2)]
            {
                let schedule = Schedule::new((len, size), policy, 1 + len % 3, copies, threads);
                for workers in 1..4 {
                    let shares = (0..workers).map(|w| schedule.share(w, workers));
                    let mut seen: Vec<usize> = shares.flat_map(|share| schedule.minibatches_of(share)).collect();
                    seen.sort_unstable();
                    assert_eq!(seen, (0..schedule.minibatches()).collect::<Vec<_>>(), "{policy} {schedule:?}");
                }
                let elements: Vec<usize> = (0..schedule.minibatches()).flat_map(|b| schedule.elements(b)).collect();
                assert_eq!(elements, (0..len).collect::<Vec<_>>());
                for round in 0..schedule.rounds() {
                    let active = (0..copies).filter(|&copy| !schedule.of(round, copy).is_empty()).count();
                    assert_eq!(schedule.active(round), active, "{policy} {schedule:?} round {round}");
                    assert!(active > 0);
                }
            }
        }
    }

    #[test]
    fn copies_share_what_is_left_in_the_last_round() {
        let of = |schedule: Schedule, round| (0..schedule.copies).map(|copy| schedule.of(round, copy).len()).collect();
        let lengths: Vec<usize> = of(Schedule::new((146, 1), SyncPolicy::ModelAverage { every: 64 }, 1, 16, 1), 0);
        assert_eq!(lengths, [[10, 10], [9, 9], [9, 9], [9, 9], [9, 9], [9, 9], [9, 9], [9, 9]].concat());
        let schedule = Schedule::new((100, 1), SyncPolicy::Hybrid, 8, 3, 2);
        assert_eq!(schedule.rounds(), 3);
        assert_eq!([0, 1, 2].map(|round| of(schedule, round)), [vec![16, 16, 16], vec![16, 16, 16], vec![2, 1, 1]]);
    }

    #[test]
    fn one_copy_runs_in_order() {
        let schedule = Schedule::new((100, 9), SyncPolicy::ModelAverage { every: 2 }, 1, 1, 1);
        let order: Vec<usize> = schedule.minibatches_of(0..1).collect();
        assert_eq!(order, (0..12).collect::<Vec<_>>());
    }
}
