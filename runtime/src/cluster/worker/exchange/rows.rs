//! Which rows a worker wants, sends and takes in between two rounds.
//!
//! # Why this is sound
//! As the parent module says: rows that this worker keeps are read here between meetings of its threads, rows of others
//! written while no body runs.
#![allow(unsafe_code)]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::cluster::wire::minibatch::{self, CURRENT, GONE, KEEP, Section, Tag, WANTED, WANTS_ALL, Writer};
use crate::cluster::wire::protocol::Fetching;
use crate::cluster::worker::exchange::{AWAY, COMING, HERE, Merged, Syncing, Written};
use crate::cluster::worker::site::Rows;
use crate::minibatch::{Rounds, rows_of};
use crate::session::locked;

/// The rows of a DDS of which copies are kept here, by what a worker must learn of them.
#[derive(Default)]
struct Sorted {
    /// Its own copy alone changed them.
    keep: Vec<u32>,
    /// What it has of them is old.
    gone: Vec<u32>,
    /// Sent before the round begins, and while its bodies run.
    current: Vec<u32>,
    late: Vec<u32>,
}

impl Sorted {
    /// The rows that have just changed. Where it is not known what the worker lacks, it lacks nothing but these.
    fn changed<'m>(
        p: usize,
        merged: impl Iterator<Item = &'m (u32, Option<usize>)>,
        written: &Written,
        lacks: &mut [bool],
    ) -> Sorted {
        let mut rows = Sorted::default();
        for &(row, alone) in merged {
            let lacked = written.place(row).and_then(|place| lacks.get_mut(place));
            match (alone == Some(p), lacked) {
                (true, lacked) => {
                    rows.keep.push(row);
                    if let Some(lacked) = lacked {
                        *lacked = false;
                    }
                }
                (false, None) => rows.current.push(row),
                (false, Some(lacked)) => {
                    if !*lacked {
                        rows.gone.push(row);
                    }
                    *lacked = true;
                }
            }
        }
        rows
    }

    /// Of the rows that the worker lacks, those that it wants.
    fn choose(
        &mut self,
        (wanted, early): (&[u32], usize),
        all: bool,
        (written, me): (&Written, usize),
        lacks: &mut [bool],
    ) {
        let lacked = |&row: &u32| written.place(row).is_some_and(|place| std::mem::take(&mut lacks[place]));
        if all {
            self.current = written.keepers.runs(me).into_iter().flatten().filter(lacked).collect();
            self.gone.clear();
            return;
        }
        self.current = wanted.iter().copied().filter(lacked).collect();
        self.late = self.current.split_off((self.current.len() * early.min(100)).div_ceil(100));
        // What comes late is away until then.
        let at_once: BTreeSet<u32> = self.current.iter().copied().collect();
        self.gone.retain(|row| !at_once.contains(row));
    }
}

impl Syncing {
    /// What this worker wants of another for a round, unless it was asked for before.
    pub(super) fn write_wants(&self, message: &mut Writer, p: usize, round: usize) {
        if self.setup.fetching != Fetching::Foreseen {
            return;
        }
        let captures = || self.setup.written.iter().enumerate().filter_map(|(c, written)| Some((c, written.as_ref()?)));
        if self.setup.site.wild.load(Relaxed) {
            captures().take(1).for_each(|(c, _)| message.section(c, WANTS_ALL, &[], 0));
            return;
        }
        if !locked(&self.setup.site.sent_wants).insert((p, round)) {
            return;
        }
        let foreseen = locked(&self.setup.site.foreseen);
        for (c, written) in captures() {
            let rows = foreseen.rounds.get(&round).and_then(|rows| rows.get(&c));
            let rows: Vec<u32> = rows.into_iter().flatten().copied().filter(|&row| written.owner(row) == p).collect();
            message.section(c, WANTED, &rows, 0);
        }
    }

    pub(super) fn record_wants(&self, p: usize, round: usize, sections: &[Section]) {
        let mut rows = Rows::new();
        for section in sections {
            match section.of {
                WANTS_ALL => self.rounds.wants_all[p].store(true, Relaxed),
                WANTED => drop(rows.insert(section.capture, section.rows.clone())),
                _ => {}
            }
        }
        if !rows.is_empty() {
            locked(&self.setup.site.wanted).insert((p, round), Arc::new(rows));
        }
    }

    /// Sends a worker what it is to have of the rows kept here for a round. `merged`: those that have just changed.
    pub(super) fn send_rows(&self, p: usize, round: usize, merged: &[&Merged]) {
        let (mut first, mut more) = (Writer::default(), Writer::default());
        let mut later = false;
        let wanted = locked(&self.setup.site.wanted).get(&(p, round)).cloned();
        let all = self.rounds.wants_all[p].load(Relaxed);
        let mut behind = locked(&self.rounds.behind[p]);
        for (c, written) in self.setup.written.iter().enumerate() {
            let Some(written) = written else { continue };
            let lacks = &mut behind[c];
            let mut rows = Sorted::changed(p, merged.iter().flat_map(|merged| &merged[c]), written, lacks);
            if !lacks.is_empty() {
                let wanted = wanted.as_ref().and_then(|wanted| wanted.get(&c));
                let wanted = wanted.map_or(&[][..], |rows| rows.as_slice());
                rows.choose((wanted, self.setup.early), all, (written, self.team.me), lacks);
            }
            for (of, rows) in [(KEEP, &rows.keep), (GONE, &rows.gone)] {
                if !rows.is_empty() {
                    first.section(c, of, rows, 0);
                }
            }
            for (message, rows) in [(&mut first, &rows.current), (&mut more, &rows.late)] {
                if !rows.is_empty() {
                    message.section(c, CURRENT, rows, written.size());
                    // SAFETY: rule 2: between meetings, or before the first round.
                    rows.iter().for_each(|&row| message.value(unsafe { written.bytes(row) }));
                }
            }
            later |= !rows.late.is_empty();
        }
        drop(behind);
        self.team.push(p, Tag::Rows, round, self.team.me, first);
        if later {
            self.team.push(p, Tag::MoreRows, round, self.team.me, more);
        }
    }

    /// Takes in what a worker sends for a round. `own` gives what this worker's copies made of a row. False if the loop is
    /// to end.
    pub(super) fn take_rows(
        &self,
        p: usize,
        round: usize,
        own: &mut dyn FnMut(usize, u32) -> Option<*const u8>,
    ) -> bool {
        let Some(payload) = self.wait_for(|inbox| inbox.rows.remove(&(round, p))) else { return false };
        let sections = match minibatch::read(&payload, &self.shapes) {
            Ok(sections) => sections,
            Err(why) => {
                self.break_off(why);
                return false;
            }
        };
        let mut n = 0;
        for section in &sections {
            let Some(written) = &self.setup.written[section.capture] else { continue };
            for (k, &row) in section.rows.iter().enumerate() {
                let state = written.missing.get(row as usize);
                match section.of {
                    KEEP => {
                        if let Some(value) = own(section.capture, row) {
                            // SAFETY: rule 2: no body runs; a row of another process is this thread's to write, and
                            // `value` the address of one of a copy's table.
                            unsafe { written.overwrite(row, std::slice::from_raw_parts(value, written.size())) };
                        }
                    }
                    GONE => {
                        if let Some(state) = state {
                            state.store(AWAY, Relaxed);
                        }
                    }
                    CURRENT if section.size > 0 => {
                        // SAFETY: rule 2: no body runs; a row of another process is this thread's to write.
                        unsafe { written.overwrite(row, section.value(&payload, k)) };
                        if let Some(state) = state {
                            state.store(HERE, Release);
                        }
                        n += 1;
                    }
                    _ => {}
                }
            }
        }
        self.counted.ahead.fetch_add(n, Relaxed);
        if self.setup.fetching == Fetching::Foreseen && !self.setup.site.wild.load(Relaxed) {
            let foreseen = locked(&self.setup.site.foreseen);
            for (&c, rows) in foreseen.rounds.get(&round).into_iter().flatten() {
                let Some(written) = &self.setup.written[c] else { continue };
                for &row in rows.iter().filter(|&&row| written.owner(row) == p) {
                    if let Some(state) = written.missing.get(row as usize)
                        && state.load(Relaxed) == AWAY
                    {
                        state.store(COMING, Relaxed);
                    }
                }
            }
        }
        let mut taken = locked(&self.rounds.taken[p]);
        taken.round = round + 1;
        let early = std::mem::take(&mut taken.early);
        drop(taken);
        early.iter().for_each(|(_, payload)| self.take_in_late(payload, true));
        true
    }

    /// Records what a round touched, of own rows as well: who keeps which may change.
    pub(super) fn record(&self, rounds: &Rounds<'_>, round: usize) {
        let mut foreseen = locked(&self.setup.site.foreseen);
        if foreseen.complete || self.setup.fetching == Fetching::OnDemand || self.setup.site.wild.load(Relaxed) {
            return;
        }
        let mut rows = Rows::new();
        let published = rounds.published();
        for (c, written) in self.setup.written.iter().enumerate() {
            if written.is_none() {
                continue;
            }
            let mut seen = std::collections::HashSet::new();
            let touched =
                published.iter().flat_map(|thread| thread.iter()).flat_map(|changed| rows_of(&changed.touched[c]));
            rows.insert(c, touched.filter(|row| seen.insert(*row)).collect());
        }
        if !foreseen.record(round, rows) {
            self.setup.site.wild.store(true, Relaxed);
        }
        foreseen.complete = !self.setup.site.wild.load(Relaxed) && round + 1 == rounds.runner.schedule.rounds();
    }
}
