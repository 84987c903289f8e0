//! `Bsp`, `ModelAverage`, and `Hybrid` on several processes: in each round every copy runs its minibatches on its own state,
//! then what the copies changed is united, row by row in the order of the copies.
//!
//! # Why this is sound
//! 1. While bodies run, the memory that copies start from is only read (rows of other processes may arrive in places
//!    that nobody reads before). The threads meet before anything is merged into it, and after.
//! 2. A thread merges rows of its own range only: no two threads write the same row.
//! 3. A copy's table is read by others between meetings only, while no body runs.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock, RwLockReadGuard};
use std::time::Instant;

use super::meeting::Meeting;
use super::merging::{At, List, copy, cut, differ, each_row};
use super::policy::{MergeRule, SyncPolicy};
use super::runner::{Runner, ViewTarget, take_touched};
use super::table::{Runs, Source, Table};
use crate::body::capture::Kind;
use crate::memory::merge::{Scratch, Union};
use crate::session::pool::Pool;
use crate::session::timeline::{self, Category};

/// What one thread's minibatches of one copy changed in a round.
pub(crate) struct Changed {
    /// Its place among the copies of this process.
    pub(crate) local: usize,
    /// By capture, sorted: rows, or pages of them where the table has such.
    pub(crate) rows: Vec<Vec<u32>>,
    /// By capture, in the order in which they were touched.
    pub(crate) touched: Vec<Runs>,
}

/// The other processes of a loop.
pub(crate) trait Peers: Sync {
    /// Ends a round, on each thread: sends changes, merges those of the rows that this process keeps, takes in those of
    /// the others. Ends early when the loop is stopped.
    fn finish(&self, rounds: &Rounds<'_>, thread: usize, round: usize);
}

/// The copies that this process runs, and what they rest on.
pub(crate) struct OwnCopies<'l> {
    /// Which they are, of all.
    pub(crate) copies: Range<usize>,
    /// Each copy's state, by capture.
    pub(crate) tables: &'l [Vec<Option<Table>>],
    pub(crate) source: &'l dyn Source,
    pub(crate) peers: Option<&'l dyn Peers>,
    /// The last stamp that the tables have seen.
    pub(crate) stamp: u32,
}

/// Whose turn it is: a thread's, at the end of a round.
#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) thread: usize,
    pub(crate) round: usize,
}

/// A synchronous loop in one process.
pub(crate) struct Rounds<'l> {
    pub(crate) runner: Runner<'l>,
    pub(crate) policy: SyncPolicy,
    pub(crate) rule: MergeRule,
    /// Those that this process runs, of all.
    pub(crate) copies: Range<usize>,
    /// Each copy's state, by capture.
    pub(crate) tables: &'l [Vec<Option<Table>>],
    pub(crate) source: &'l dyn Source,
    pub(crate) peers: Option<&'l dyn Peers>,
    /// The last stamp that the tables have seen.
    pub(crate) stamp: u32,
    pub(crate) meeting: Meeting,
    /// How many minibatches of a copy's round have been taken, where its threads share it.
    claims: Vec<AtomicUsize>,
    published: Vec<RwLock<Vec<Changed>>>,
    go: AtomicBool,
}

impl<'l> Rounds<'l> {
    pub(crate) fn new(runner: Runner<'l>, policy: SyncPolicy, rule: MergeRule, own: OwnCopies<'l>) -> Self {
        let OwnCopies { copies, tables, source, peers, stamp } = own;
        let threads = runner.threads;
        Rounds {
            policy,
            rule,
            claims: copies.clone().map(|_| AtomicUsize::new(0)).collect(),
            copies,
            tables,
            source,
            peers,
            stamp,
            meeting: Meeting::new(threads),
            published: (0..threads).map(|_| RwLock::default()).collect(),
            go: AtomicBool::new(true),
            runner,
        }
    }

    /// Runs all rounds. Whether the loop ended well, `stopped` and the outcomes say.
    pub(crate) fn run(&self, pool: &Pool) {
        pool.everywhere(self.runner.threads, |thread| {
            for round in 0..self.runner.schedule.rounds() {
                let touched = self.compute(thread, round);
                self.wait();
                if thread == 0 {
                    self.go.store(!self.runner.stopped.load(Relaxed), Relaxed);
                    self.claims.iter().for_each(|claimed| claimed.store(0, Relaxed));
                }
                let since = Instant::now();
                let changed =
                    touched.into_iter().map(|(local, touched)| self.changed((local, round), touched)).collect();
                *self.published[thread].write().unwrap_or_else(PoisonError::into_inner) = changed;
                self.runner.outcome.merging.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
                self.wait();
                if !self.go.load(Relaxed) {
                    break;
                }
                match self.peers {
                    None => self.merge_all(thread, round),
                    Some(peers) => peers.finish(self, thread, round),
                }
                self.wait();
            }
        });
    }

    /// Waits for the other threads.
    pub(crate) fn wait(&self) {
        let _span = timeline::is_on().then(|| timeline::span(Category::Wait, 0));
        self.meeting.wait();
    }

    /// Whether all threads work on one copy after the other, rather than each on its own.
    fn shares_copies(&self) -> bool {
        self.policy == SyncPolicy::Hybrid
    }

    /// The stamp of what copies bring in a round.
    fn now(&self, round: usize) -> u32 {
        self.stamp + 2 * round as u32 + 2
    }

    fn compute(&self, thread: usize, round: usize) -> Vec<(usize, Vec<Runs>)> {
        let since = Instant::now();
        let now = self.now(round);
        let mut touched = Vec::new();
        for (local, copy) in self.copies.clone().enumerate() {
            if !self.shares_copies() && local % self.runner.threads != thread {
                continue;
            }
            let place = ViewTarget::Copy { tables: &self.tables[local], source: self.source, now, checked: None };
            let part = (copy, if self.shares_copies() { thread } else { 0 });
            let context = self.runner.context(place, part);
            let of = self.runner.schedule.of(round, copy);
            if self.shares_copies() {
                while let Some(b) = of.clone().nth(self.claims[local].fetch_add(1, Relaxed)) {
                    if !self.runner.run(&context, b, false) {
                        break;
                    }
                }
            } else {
                for b in of {
                    if !self.runner.run(&context, b, false) {
                        break;
                    }
                }
            }
            self.runner.keep_new_entries(&context, part);
            touched.push((local, take_touched(&context)));
        }
        self.runner.outcome.computing.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        touched
    }

    /// Which of the rows that were touched hold something else now.
    fn changed(&self, (local, round): (usize, usize), touched: Vec<Runs>) -> Changed {
        let mut all = 0;
        let rows = touched.iter().enumerate().map(|(c, touched)| {
            let (Some(table), Some(lent)) = (&self.tables[local][c], self.runner.lease.vector(c)) else {
                return Vec::new();
            };
            let mut pages = table.sorted(touched, self.now(round));
            all += pages.len() as u64;
            pages.retain(|&page| {
                let rows = table.rows_of_page(page as usize);
                // SAFETY: nobody writes either now (rules 1 and 3).
                unsafe { differ(table.row(rows.start), lent.at(rows.start), rows.len() * lent.ops().size) }
            });
            pages
        });
        let rows = rows.collect();
        self.runner.outcome.touched.fetch_add(all, Relaxed);
        Changed { local, rows, touched }
    }

    /// Whether copies are averaged, rather than their changes added up.
    pub(crate) fn averages(&self) -> bool {
        matches!(self.policy, SyncPolicy::ModelAverage { .. })
    }

    /// How the copies' changes of a round become one.
    fn union(&self, round: usize) -> Union {
        match (self.averages(), self.rule) {
            (true, _) => Union::Mean(self.runner.schedule.active(round)),
            (false, MergeRule::Sum) => Union::Sum,
            (false, MergeRule::Combine) => Union::Combine,
        }
    }

    /// What all threads of this process published in this round.
    pub(crate) fn published(&self) -> Vec<RwLockReadGuard<'_, Vec<Changed>>> {
        self.published.iter().map(|thread| thread.read().unwrap_or_else(PoisonError::into_inner)).collect()
    }

    /// The lists of changed rows of a capture, with their copies, in the order of the copies.
    pub(crate) fn lists<'g>(
        &'g self,
        published: &'g [RwLockReadGuard<'_, Vec<Changed>>],
        capture: usize,
    ) -> Vec<(usize, List<'g>)> {
        let lists = published.iter().flat_map(|thread| thread.iter());
        let list = |changed: &'g Changed| {
            let at = self.tables[changed.local][capture]
                .as_ref()
                .map_or(std::ptr::null(), |table| table.base().cast_const());
            (self.copies.start + changed.local, List { rows: &changed.rows[capture], at: At::Table(at) })
        };
        let mut lists: Vec<_> = lists.map(list).collect();
        lists.sort_by_key(|&(copy, _)| copy);
        lists
    }

    /// Merges a thread's share of those rows of a range into the elements that `kept` accepts. `changed` hears of each row, and of the
    /// lists that named it. (Of pages, where the lists name such.)
    pub(crate) fn merge(
        &self,
        Turn { thread, round }: Turn,
        (capture, rows, kept): (usize, Range<u32>, &dyn Fn(u32) -> bool),
        lists: &[List<'_>],
        mut changed: impl FnMut(u32, &[usize]),
    ) {
        let (Some(lent), Some(merge)) = (self.runner.lease.vector(capture), self.runner.merges[capture]) else {
            return;
        };
        let (size, since) = (lent.ops().size, Instant::now());
        let (how, mut scratch) = (self.union(round), Scratch::default());
        // All copies' tables are alike.
        let shift = self.tables.first().and_then(|tables| tables[capture].as_ref()).map_or(0, Table::shift);
        let rows = cut(lists, rows.start >> shift..rows.end.div_ceil(1 << shift), self.runner.threads, thread);
        let one_page = |page: u32, values: &[*const u8], who: &[usize]| {
            if !kept(page) {
                return;
            }
            let row = (page as usize) << shift;
            let (into, n) = (lent.at(row), (1 << shift).min(lent.len() - row));
            // SAFETY: rules 1 to 3.
            unsafe {
                match (how, values) {
                    (Union::Sum | Union::Combine, &[value]) => copy(value, into, n * size),
                    _ if shift > 0 => merge.merge_page(into, values, n, (how, &mut scratch)),
                    _ => merge.merge(into, into, values, (how, &mut scratch)),
                }
            }
            changed(page, who);
        };
        let first = self.runner.schedule.of(round, 0).start;
        let _failed = self.runner.uniting(first, || each_row(lists, rows, size << shift, one_page));
        self.runner.outcome.merging.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
    }

    /// One process has all copies: their changes go to the elements themselves.
    fn merge_all(&self, thread: usize, round: usize) {
        let published = self.published();
        for (c, capture) in self.runner.captured().iter().enumerate() {
            let Kind::Vector { len, writable: true, .. } = capture.kind else { continue };
            let lists: Vec<List<'_>> = self.lists(&published, c).into_iter().map(|(_, list)| list).collect();
            self.merge(Turn { thread, round }, (c, 0..len as u32, &|_| true), &lists, |_, _| {});
        }
    }
}
