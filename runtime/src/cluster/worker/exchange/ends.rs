//! The end of a round among workers: a reduce-scatter of what changed and an all-gather of the new values.
//!
//! # Why this is sound
//! Copies' tables are read while no body runs (`Rounds` says when); rows are merged as the parent module says.
#![allow(unsafe_code)]

use std::sync::PoisonError;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::cluster::wire::minibatch::{self, CURRENT, Section, Tag, Writer};
use crate::cluster::wire::protocol::Fetching;
use crate::cluster::worker::exchange::{MISSES, MISSES_IN, Merged, Syncing};
use crate::minibatch::{At, List, Peers, Rounds, Turn};
use crate::session::locked;

impl Syncing {
    /// What the others made of the rows that are kept here, with the copies.
    fn lists_of_peers<'g>(
        parsed: &'g [std::sync::RwLockReadGuard<'_, (Vec<u8>, Vec<Section>)>],
        capture: usize,
    ) -> impl Iterator<Item = (usize, List<'g>)> {
        parsed.iter().flat_map(move |parsed| {
            let (payload, sections) = &**parsed;
            let changes = sections.iter().filter(move |section| section.capture == capture && section.of < CURRENT);
            changes.filter(|section| section.size > 0).map(move |section| {
                let at = payload.as_ptr().wrapping_add(section.values);
                (section.of as usize, List { rows: &section.rows, at: At::Packed(at) })
            })
        })
    }

    pub(super) fn worker_of(&self, copy: usize) -> Option<usize> {
        self.setup.copies.iter().position(|copies| copies.contains(&copy))
    }

    /// The workers that one of the threads talks to.
    fn peers_of(&self, thread: usize, threads: usize) -> impl Iterator<Item = usize> + '_ {
        self.team.peers().filter(move |p| p % threads == thread)
    }

    /// Records what a round touched, and whether too much of it was not foreseen.
    fn look_back(&self, rounds: &Rounds<'_>, round: usize) {
        self.record(rounds, round);
        let misses = self.counted.misses.swap(0, Relaxed);
        let touched = rounds.runner.outcome.touched.load(Relaxed) / (round as u64 + 1);
        if self.setup.fetching == Fetching::Foreseen && misses > MISSES.max(touched / MISSES_IN) {
            self.setup.site.wild.store(true, Relaxed);
        }
    }

    /// Sends the workers of a thread what this one's copies changed of the rows that they keep.
    fn send_changes(&self, rounds: &Rounds<'_>, thread: usize, round: usize) {
        let last = round + 1 == rounds.runner.schedule.rounds();
        let published = rounds.published();
        for p in self.peers_of(thread, rounds.runner.threads) {
            let mut message = Writer::default();
            for (c, written) in self.setup.written.iter().enumerate() {
                let Some(written) = written else { continue };
                for (copy, list) in rounds.lists(&published, c) {
                    let of = list.rows.iter().copied().enumerate().filter(|&(_, row)| written.owner(row) == p);
                    let (places, rows): (Vec<usize>, Vec<u32>) = of.unzip();
                    if !rows.is_empty() {
                        message.section(c, copy as u32, &rows, written.size());
                        for k in places {
                            // SAFETY: a row of a copy's table, while no body runs.
                            message.value(unsafe {
                                std::slice::from_raw_parts(list.value(k, written.size()), written.size())
                            });
                        }
                    }
                }
            }
            if !last {
                self.write_wants(&mut message, p, round + 1);
            }
            self.team.push(p, Tag::Changes, round, self.team.me, message);
        }
    }

    /// Takes in what the workers of a thread changed of the rows kept here.
    fn take_changes(&self, rounds: &Rounds<'_>, thread: usize, round: usize) {
        for p in self.peers_of(thread, rounds.runner.threads) {
            let Some(payload) = self.wait_for(|inbox| inbox.changes.remove(&(round, p))) else { break };
            match minibatch::read(&payload, &self.shapes) {
                Ok(sections) if sections.iter().all(|section| section.rows.is_sorted() || section.of >= CURRENT) => {
                    self.record_wants(p, round + 1, &sections);
                    *self.rounds.parsed[p].write().unwrap_or_else(PoisonError::into_inner) = (payload, sections);
                }
                Ok(_) => self.break_off("changed rows out of order".to_string()),
                Err(why) => self.break_off(why),
            }
        }
    }

    /// Merges a thread's range of the rows kept here.
    fn merge_range(&self, rounds: &Rounds<'_>, thread: usize, round: usize) -> Merged {
        let mut merged: Merged = self.setup.written.iter().map(|_| Vec::new()).collect();
        if !self.stopped.load(Relaxed) {
            let published = rounds.published();
            let parsed: Vec<_> = self
                .team
                .peers()
                .map(|p| self.rounds.parsed[p].read().unwrap_or_else(PoisonError::into_inner))
                .collect();
            for (c, written) in self.setup.written.iter().enumerate() {
                let Some(written) = written else { continue };
                let mut lists = rounds.lists(&published, c);
                lists.extend(Self::lists_of_peers(&parsed, c));
                lists.sort_by_key(|&(copy, _)| copy);
                let (copies, lists): (Vec<usize>, Vec<List<'_>>) = lists.into_iter().unzip();
                // An average is nobody's own value.
                let averaged = rounds.averages();
                let kept = |row| written.place(row).is_some();
                rounds.merge(Turn { thread, round }, (c, 0..written.shape().len as u32, &kept), &lists, |row, who| {
                    let alone =
                        if let (&[list], false) = (who, averaged) { self.worker_of(copies[list]) } else { None };
                    merged[c].push((row, alone));
                });
            }
        }
        merged
    }

    /// Sends the workers of a thread the new values of rows kept here, and takes in those of theirs.
    fn exchange_rows(&self, rounds: &Rounds<'_>, thread: usize, round: usize) {
        let mine = || self.peers_of(thread, rounds.runner.threads);
        let merged: Vec<_> =
            self.rounds.merged.iter().map(|merged| merged.read().unwrap_or_else(PoisonError::into_inner)).collect();
        let merged: Vec<&Merged> = merged.iter().map(|merged| &**merged).collect();
        mine().for_each(|p| self.send_rows(p, round + 1, &merged));
        let published = rounds.published();
        let lists: Vec<_> = (0..self.setup.written.len()).map(|c| rounds.lists(&published, c)).collect();
        let mut own = |c: usize, row: u32| {
            lists[c].iter().find_map(|(_, list)| {
                let k = list.rows.binary_search(&row).ok()?;
                Some(list.value(k, self.setup.written[c].as_ref()?.size()))
            })
        };
        for p in mine() {
            if !self.take_rows(p, round + 1, &mut own) {
                break;
            }
        }
    }

    /// Answers those who are a round ahead.
    fn begin_next(&self, round: usize) {
        let mut inbox = locked(&self.inbox);
        self.rounds.current.store(round + 1, Release);
        let early = std::mem::take(&mut inbox.early);
        drop(inbox);
        early.iter().for_each(|(of, from, sections)| self.answer(*from, *of, sections));
    }
}

impl Peers for Syncing {
    fn finish(&self, rounds: &Rounds<'_>, thread: usize, round: usize) {
        if thread == 0 {
            self.look_back(rounds, round);
        }
        rounds.wait();
        self.send_changes(rounds, thread, round);
        self.take_changes(rounds, thread, round);
        rounds.wait();
        let merged = self.merge_range(rounds, thread, round);
        *self.rounds.merged[thread].write().unwrap_or_else(PoisonError::into_inner) = merged;
        rounds.wait();
        if !self.stopped.load(Relaxed) {
            self.exchange_rows(rounds, thread, round);
        }
        rounds.wait();
        if thread == 0 {
            self.begin_next(round);
        }
    }
}
