//! `Ssp`: copies run at their own pace, none further ahead of the slowest than the bound.
//!
//! A copy brings the rows that a minibatch touches at their first touch, with their values at that moment, works on its own state,
//! and adds what it changed to the shared elements at the minibatch's end. It begins its minibatch `t` only when the changes
//! of every copy's first `t - staleness` are in those elements: so no read is older than the bound.
//!
//! # Why this is sound
//! A copy's table is its thread's alone, besides what `table` says of it. The shared elements are reached by atomic
//! accesses (see `ledger`).
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

use super::ledger::{Ledger, THROUGH};
use super::merging::differ;
use super::runner::{Runner, ViewTarget, take_touched};
use super::table::{Runs, Source, Staleness, Table, rows_of};
use crate::body::capture::Kind;
use crate::memory::buffer::RawBuf;
use crate::session::pool::Pool;

/// The changes of one minibatch.
pub(crate) struct Changes {
    /// By capture, in order.
    pub(crate) rows: Vec<Vec<u32>>,
    /// By capture: what is to be added to each of them.
    pub(crate) values: Vec<Option<RawBuf>>,
}

impl Changes {
    /// Applies them to the rows that they are of.
    pub(crate) fn apply(&self, ledger: &Ledger) {
        for (c, rows) in self.rows.iter().enumerate() {
            let Some(values) = &self.values[c] else { continue };
            for (k, &row) in rows.iter().enumerate() {
                // SAFETY: `values` holds a row for each of `rows`.
                unsafe { ledger.apply(c, row, values.as_ptr().add(k * values.ops().size)) };
            }
        }
    }
}

/// A minibatch that has ended.
pub(crate) struct Ended<'e> {
    pub(crate) copy: usize,
    pub(crate) round: usize,
    /// How many of its copy's have run, or [`THROUGH`].
    pub(crate) minibatches: u64,
    /// The rows that it touched, by capture, in that order.
    pub(crate) touched: &'e [Runs],
}

/// The other processes of a loop.
pub(crate) trait StalePeers: Sync {
    /// Applies what a minibatch changed here, and sends it to those that keep the rows.
    fn end(&self, ended: &Ended<'_>, changes: Changes);

    /// The address of a row, as a copy may see it that runs its minibatch of this number. None if the loop ends before it can be had.
    fn row(&self, capture: usize, i: usize, clock: u64) -> Option<*const u8>;

    /// The clock that all copies had reached when a row was as it is here.
    fn clock(&self, capture: usize, i: usize) -> u64;
}

/// The shared rows as a minibatch may see them.
struct AsOf<'l> {
    stale: &'l Stale<'l>,
    clock: u64,
}

impl Source for AsOf<'_> {
    fn row(&self, capture: usize, i: usize) -> Option<*const u8> {
        match self.stale.peers {
            Some(peers) => peers.row(capture, i, self.clock),
            None => self.stale.source.row(capture, i),
        }
    }

    fn clock(&self, capture: usize, i: usize) -> u64 {
        match self.stale.peers {
            Some(peers) => peers.clock(capture, i),
            None => self.stale.ledger.kept(),
        }
    }
}

/// A synchronous loop under `Ssp` in one process.
pub(crate) struct Stale<'l> {
    pub(crate) runner: Runner<'l>,
    pub(crate) staleness: usize,
    /// Those that this process runs, of all.
    pub(crate) copies: Range<usize>,
    pub(crate) tables: &'l [Vec<Option<Table>>],
    pub(crate) source: &'l dyn Source,
    pub(crate) ledger: &'l Ledger,
    pub(crate) peers: Option<&'l dyn StalePeers>,
    pub(crate) stamp: u32,
    /// Whether every read is checked against the bound.
    pub(crate) checks: bool,
    pub(crate) observed: &'l Observed,
}

/// What checked reads saw.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    pub(crate) reads: AtomicU64,
    pub(crate) worst: AtomicU64,
    pub(crate) violations: AtomicU64,
}

impl Stale<'_> {
    pub(crate) fn run(&self, pool: &Pool) {
        pool.everywhere(self.runner.threads, |thread| {
            let mine: Vec<usize> = (0..self.copies.len()).filter(|k| k % self.runner.threads == thread).collect();
            let bound = self.staleness as u64;
            let checks: Vec<Vec<Staleness>> = mine
                .iter()
                .map(|_| self.runner.captured().iter().map(|_| Staleness { bound, ..Staleness::default() }).collect())
                .collect();
            for round in 0..self.runner.schedule.rounds() {
                for (&local, staleness) in mine.iter().zip(&checks) {
                    if !self.step(local, round, staleness) {
                        return;
                    }
                }
            }
            for staleness in checks.iter().flatten() {
                self.observed.reads.fetch_add(staleness.reads.get(), Relaxed);
                self.observed.worst.fetch_max(staleness.worst.get(), Relaxed);
                self.observed.violations.fetch_add(staleness.violations.get(), Relaxed);
            }
        });
    }

    /// One minibatch of one copy. False if the loop is to end.
    fn step(&self, local: usize, round: usize, staleness: &[Staleness]) -> bool {
        let copy = self.copies.start + local;
        let Some(minibatch) = self.runner.schedule.of(round, copy).next() else { return true };
        let clock = round as u64;
        if !self.ledger.wait_for(clock.saturating_sub(self.staleness as u64), self.runner.stopped) {
            return false;
        }
        let since = Instant::now();
        staleness.iter().for_each(|staleness| staleness.clock.set(clock));
        let source = AsOf { stale: self, clock };
        let place = ViewTarget::Copy {
            tables: &self.tables[local],
            source: &source,
            now: self.stamp + 2 * round as u32 + 2,
            checked: self.checks.then_some(staleness),
        };
        let context = self.runner.context(place, (copy, 0));
        if !self.runner.run(&context, minibatch, false) {
            return false;
        }
        self.runner.keep_new_entries(&context, (copy, 0));
        let touched = take_touched(&context);
        let more = !self.runner.schedule.of(round + 1, copy).is_empty();
        let ended = Ended { copy, round, minibatches: if more { clock + 1 } else { THROUGH }, touched: &touched };
        let united = self.runner.uniting(minibatch, || {
            let changes = self.changes(local, &touched);
            match self.peers {
                Some(peers) => peers.end(&ended, changes),
                None => {
                    changes.apply(self.ledger);
                    self.ledger.advance(copy, ended.minibatches);
                }
            }
        });
        self.runner.outcome.computing.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        united.is_some()
    }

    fn changes(&self, local: usize, touched: &[Runs]) -> Changes {
        let mut changes = Changes { rows: Vec::new(), values: Vec::new() };
        for (c, touched) in touched.iter().enumerate() {
            let (Some(table), Some(merge), Kind::Vector { ops, .. }) =
                (&self.tables[local][c], self.runner.merges[c], &self.runner.captured()[c].kind)
            else {
                changes.rows.push(Vec::new());
                changes.values.push(None);
                continue;
            };
            let all: u64 = touched.iter().map(|&(_, n)| u64::from(n)).sum();
            self.runner.outcome.touched.fetch_add(all, Relaxed);
            let mut rows = Vec::with_capacity(all as usize);
            let mut values = RawBuf::new(ops, all as usize);
            let mut touched: Vec<u32> = rows_of(touched).collect();
            touched.sort_unstable();
            for row in touched {
                let (Some(before), now) = (table.row_before(row as usize), table.row(row as usize)) else { continue };
                // SAFETY: rows of this thread's own table; there is room for as many as were touched.
                unsafe {
                    if differ(before, now, ops.size) {
                        merge.change(before, now, values.as_mut_ptr().add(rows.len() * ops.size));
                        rows.push(row);
                        values.set_len(rows.len());
                    }
                }
            }
            changes.rows.push(rows);
            changes.values.push(Some(values));
        }
        changes
    }
}
