//! `Ssp` among workers: a minibatch's changes go to the workers that keep the rows, and when every copy has come to a clock, each of
//! those sends the others the rows that they read next and lack changes of (IterStore, sections 4.2 and 4.7). So the bytes
//! grow with the readers of a row and not with the square of the workers.
//!
//! A *mark* is a keeper's message about a clock `n`: the first `n` minibatches of every copy are in the rows that it keeps. A worker
//! wants for mark 0 what its copies read until the first one has to wait, and for mark `m` what they read in round `m + staleness`,
//! which begins when that mark is here.
//!
//! A keeper's value may lack what the reader's own copies have done since, which they are to see at once. So a worker logs its own
//! changes until each keeper has said that it has them, and applies them to what comes.
//!
//! # Why this is sound
//! 1. Rows are changed (`Ledger::apply`) while the gate is held for reading, and sent or replaced while it is held for writing, always
//!    by atomic accesses: what a message says of a row's changes is true of its value, and bodies, which only read these rows, do
//!    so by atomic accesses too.
//! 2. Once the gate is closed no row changes any more: what the driver does next with the elements meets nobody.
#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::body::panics;
use crate::cluster::wire::minibatch::{self, CURRENT, Section, Tag, WANTED, WANTS_ALL, Writer};
use crate::cluster::wire::protocol::Fetching;
use crate::cluster::worker::exchange::{MISSES, MISSES_IN, Syncing, Written};
use crate::cluster::worker::site::Rows;
use crate::memory::buffer::RawBuf;
use crate::minibatch::{Changes, Ended, Ledger, Runs, StalePeers, THROUGH, rows_of};
use crate::session::locked;

/// What own copies changed, as long as a keeper may lack it.
struct Logged {
    /// Its place among the copies of this process.
    local: usize,
    /// How many minibatches the copy had run then.
    minibatches: u64,
    changes: Arc<Changes>,
}

#[derive(Default)]
struct Log {
    entries: VecDeque<Logged>,
    /// By keeper, of each own copy: how many minibatches' changes it has.
    heard: Vec<Vec<u64>>,
    /// By capture: room for a row.
    room: Vec<Option<RawBuf>>,
}

impl Log {
    /// What a keeper's value of a row lacks.
    fn lacking(&self, keeper: usize, capture: usize, row: u32) -> impl Iterator<Item = *const u8> + '_ {
        let heard = &self.heard[keeper];
        let after = self.entries.iter().filter(|entry| entry.minibatches > heard[entry.local]);
        after.filter_map(move |entry| {
            let values = entry.changes.values[capture].as_ref()?;
            let k = entry.changes.rows[capture].binary_search(&row).ok()?;
            Some(values.as_ptr().wrapping_add(k * values.ops().size))
        })
    }

    /// Forgets what all keepers have.
    fn prune(&mut self, me: usize) {
        let Log { entries, heard, .. } = self;
        let others = || heard.iter().enumerate().filter(|&(keeper, _)| keeper != me);
        entries.retain(|entry| others().any(|(_, heard)| entry.minibatches > heard[entry.local]));
    }
}

/// What a worker knows of a loop under `Ssp`.
pub(crate) struct Clocks {
    pub(crate) ledger: Ledger,
    staleness: usize,
    rounds: usize,
    /// The copies that run here.
    own: Range<usize>,
    /// Minibatches that have yet to be recorded.
    unrecorded: AtomicU64,
    /// Whether the loop has ended here (rule 2).
    gate: RwLock<bool>,
    log: Mutex<Log>,
    /// By capture, of each row one more than the clock as of which it is here; empty where nothing is foreseen.
    fresh: Vec<Vec<AtomicU64>>,
    /// The same of all the rows that a worker keeps.
    all_fresh: Vec<AtomicU64>,
    /// By capture, of each row kept here the workers that lack a change of it, as bits: the same number of words for each row.
    lacking: Vec<Vec<AtomicU64>>,
    words: usize,
    /// The mark that was sent last; none before the first.
    sent: Mutex<Option<u64>>,
    /// Somebody wants every row that changes, and which did since the last mark.
    anybody_wants_all: AtomicBool,
    /// By worker: it has all but what changed since the last mark.
    has_all: Vec<AtomicBool>,
    changed: Mutex<Vec<Vec<u32>>>,
}

/// How a loop under `Ssp` is cut.
pub(crate) struct Shape {
    pub(crate) workers: usize,
    pub(crate) own: Range<usize>,
    pub(crate) staleness: usize,
    pub(crate) rounds: usize,
    /// How many minibatches the own copies run.
    pub(crate) minibatches: usize,
}

impl Clocks {
    pub(crate) fn new(ledger: Ledger, shape: Shape, fetching: Fetching, written: &[Option<Written>]) -> Clocks {
        let Shape { workers, own, staleness, rounds, minibatches } = shape;
        let words = workers.div_ceil(64);
        let all = fetching == Fetching::All;
        let rows = |n: usize, of: u64| (0..n).map(|_| AtomicU64::new(of)).collect::<Vec<_>>();
        let fresh = |written: &Option<Written>| match written {
            Some(written) if !all => rows(written.shape().len, 0),
            _ => Vec::new(),
        };
        // At first the others lack all that they have not fetched.
        let lacked = if all { 0 } else { u64::MAX };
        let lacking = |written: &Option<Written>| {
            written.as_ref().map_or_else(Vec::new, |written| rows(written.places.rows() * words, lacked))
        };
        let room = |written: &Option<Written>| Some(RawBuf::new(written.as_ref()?.reservation.ops(), 1));
        let log = Log {
            entries: VecDeque::new(),
            heard: vec![vec![0; own.len()]; workers],
            room: written.iter().map(room).collect(),
        };
        Clocks {
            ledger,
            staleness,
            rounds,
            own,
            unrecorded: AtomicU64::new(minibatches as u64),
            gate: RwLock::new(false),
            log: Mutex::new(log),
            fresh: written.iter().map(fresh).collect(),
            all_fresh: rows(workers, u64::from(all)),
            lacking: written.iter().map(lacking).collect(),
            words,
            sent: Mutex::new(None),
            anybody_wants_all: AtomicBool::new(all),
            has_all: (0..workers).map(|_| AtomicBool::new(all)).collect(),
            changed: Mutex::new(written.iter().map(|_| Vec::new()).collect()),
        }
    }

    fn changing(&self) -> RwLockReadGuard<'_, bool> {
        self.gate.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn alone(&self) -> RwLockWriteGuard<'_, bool> {
        self.gate.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The rounds whose rows a worker wants for a mark.
    fn rounds_of(&self, mark: u64) -> Range<usize> {
        let last = usize::try_from(mark).unwrap_or(usize::MAX).saturating_add(self.staleness);
        let first = if mark == 0 { 0 } else { last };
        first.min(self.rounds)..last.saturating_add(1).min(self.rounds)
    }

    /// The earliest clock as of which a copy may see rows, plus one.
    fn needed(&self, clock: u64) -> u64 {
        clock.saturating_sub(self.staleness as u64) + 1
    }

    fn fresh(&self, capture: usize, row: usize, keeper: usize) -> u64 {
        let row = self.fresh[capture].get(row).map_or(0, |fresh| fresh.load(Acquire));
        row.max(self.all_fresh[keeper].load(Acquire))
    }

    fn word(&self, k: usize, p: usize) -> (usize, u64) {
        (k * self.words + p / 64, 1 << (p % 64))
    }

    /// Notes that a row kept here, the `k`-th, has changed, which is new to all but one worker.
    fn mark_changed(&self, capture: usize, (k, row): (usize, u32), by: usize) {
        for w in 0..self.words {
            let known = if by / 64 == w { 1 << (by % 64) } else { 0 };
            self.lacking[capture][k * self.words + w].fetch_or(!known, AcqRel);
        }
        if self.anybody_wants_all.load(Relaxed) {
            locked(&self.changed)[capture].push(row);
        }
    }

    /// Whether a worker lacks a change of the `k`-th row kept here, which it is about to get.
    fn take_lacking(&self, capture: usize, k: usize, p: usize) -> bool {
        let (word, bit) = self.word(k, p);
        self.lacking[capture].get(word).is_some_and(|word| word.fetch_and(!bit, AcqRel) & bit != 0)
    }

    /// The loop has ended here: nothing that still comes changes a row.
    pub(crate) fn close(&self) {
        *self.alone() = true;
    }
}

/// A mark that is to be sent to one worker.
struct Mark<'m> {
    to: usize,
    clock: u64,
    /// The marks before it, of which nothing was sent.
    since: Range<u64>,
    /// By capture, where every row is wanted: those that changed.
    changed: Option<&'m [Vec<u32>]>,
}

impl Syncing {
    /// Asks for the rows of a mark, unless they were asked for before.
    fn write_wants_of(&self, clocks: &Clocks, message: &mut Writer, p: usize, mark: u64) {
        if self.setup.fetching == Fetching::OnDemand {
            return;
        }
        let written = || self.setup.written.iter().enumerate().filter_map(|(c, written)| Some((c, written.as_ref()?)));
        if self.setup.site.wild.load(Relaxed) {
            written().take(1).for_each(|(c, _)| message.section(c, WANTS_ALL, &[], 0));
            return;
        }
        let known = self.setup.fetching == Fetching::Foreseen;
        if !known || !locked(&self.setup.site.sent_wants).insert((p, mark as usize)) {
            return;
        }
        for (c, written) in written() {
            message.section(c, WANTED, &self.wanted_of(clocks, (c, written), p, mark..mark + 1), 0);
        }
    }

    /// The rows of a DDS that this worker wants of another for some marks.
    fn wanted_of(&self, clocks: &Clocks, (c, written): (usize, &Written), p: usize, marks: Range<u64>) -> Vec<u32> {
        let foreseen = locked(&self.setup.site.foreseen);
        let rounds = marks.flat_map(|mark| clocks.rounds_of(mark));
        let rows = rounds.filter_map(|round| foreseen.rounds.get(&round)?.get(&c)).flatten();
        let mut rows: Vec<u32> = rows.copied().filter(|&row| written.owner(row) == p).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Tells the others that this worker has what it needs to begin, and waits for their first marks. False if the loop is to end.
    pub(crate) fn begin_clocks(&self, clocks: &Clocks) -> bool {
        {
            let mut foreseen = locked(&self.setup.site.foreseen);
            if !foreseen.complete {
                *foreseen = Default::default();
                foreseen.complete = clocks.unrecorded.load(Relaxed) == 0;
            }
        }
        if !self.greet(|message, p| self.write_wants_of(clocks, message, p, 0)) {
            return false;
        }
        if self.rounds.wants_all.iter().any(|wants| wants.load(Relaxed)) {
            clocks.anybody_wants_all.store(true, Relaxed);
        }
        {
            let mut sent = locked(&clocks.sent);
            for p in self.team.peers() {
                self.send_mark(clocks, &Mark { to: p, clock: 0, since: 0..1, changed: None });
            }
            *sent = Some(0);
        }
        clocks.ledger.wait_until(Ledger::has_begun, &self.stopped)
    }

    /// Tells the other workers of a clock that all copies have reached.
    fn send_marks(&self, clocks: &Clocks) {
        let mut sent = locked(&clocks.sent);
        let (Some(last), kept) = (*sent, clocks.ledger.kept()) else { return };
        if kept <= last || kept == THROUGH {
            return;
        }
        let none = locked(&clocks.changed).iter().map(|_| Vec::new()).collect();
        let changed = std::mem::replace(&mut *locked(&clocks.changed), none);
        for p in self.team.peers() {
            let all = self.rounds.wants_all[p].load(Relaxed);
            let changed = all.then_some(changed.as_slice());
            self.send_mark(clocks, &Mark { to: p, clock: kept, since: last + 1..kept + 1, changed });
        }
        *sent = Some(kept);
    }

    /// Sends a worker what it wants of the rows kept here, as they are.
    fn send_mark(&self, clocks: &Clocks, mark: &Mark<'_>) {
        let known: Option<Vec<Arc<Rows>>> = {
            let wanted = locked(&self.setup.site.wanted);
            mark.since.clone().map(|mark_of| wanted.get(&(mark.to, mark_of as usize)).cloned()).collect()
        };
        let _alone = clocks.alone();
        let mut message = self.heard_by(clocks, mark.to);
        let written = || self.setup.written.iter().enumerate().filter_map(|(c, written)| Some((c, written.as_ref()?)));
        let what = match (mark.changed, &known) {
            (Some(_), _) => Some(WANTS_ALL),
            (None, Some(_)) => Some(WANTED),
            (None, None) => None,
        };
        if let (Some(what), Some((c, _))) = (what, written().next()) {
            message.section(c, what, &[], 0);
        }
        let has_all = mark.changed.is_none() || clocks.has_all[mark.to].swap(true, Relaxed);
        for (c, written) in written() {
            let lacked = |&row: &u32| written.place(row).is_some_and(|place| clocks.take_lacking(c, place, mark.to));
            let rows: Vec<u32> = match (mark.changed, &known) {
                (Some(changed), _) if has_all => changed[c].iter().copied().filter(lacked).collect(),
                (Some(_), _) => written.keepers.runs(self.team.me).into_iter().flatten().filter(lacked).collect(),
                (None, Some(known)) => {
                    known.iter().filter_map(|rows| rows.get(&c)).flatten().copied().filter(lacked).collect()
                }
                (None, None) => Vec::new(),
            };
            if !rows.is_empty() {
                self.write_rows(&mut message, (c, written), &rows);
            }
        }
        self.team.push(mark.to, Tag::Mark, mark.clock as usize, self.team.me, message);
    }

    /// Begins a message about rows kept here: how many minibatches of each of the receiver's copies are in them.
    fn heard_by(&self, clocks: &Clocks, p: usize) -> Writer {
        let mut message = Writer::default();
        let copies = self.setup.copies[p].clone();
        copies.for_each(|copy| message.value(&clocks.ledger.applied(copy).to_le_bytes()));
        message
    }

    /// The caller holds the gate alone.
    fn write_rows(&self, message: &mut Writer, (c, written): (usize, &Written), rows: &[u32]) {
        message.section(c, CURRENT, rows, written.size());
        // SAFETY: rule 1.
        rows.iter().for_each(|&row| message.value(unsafe { written.bytes(row) }));
    }

    /// Sends rows that a body of another worker waits for.
    pub(super) fn answer_as_of(&self, clocks: &Clocks, to: usize, asked: &[Section]) {
        let _alone = clocks.alone();
        let mut message = self.heard_by(clocks, to);
        for section in asked {
            let Some(written) = &self.setup.written[section.capture] else { continue };
            let own = |&row: &u32| Some((row, written.place(row)?));
            let (rows, places): (Vec<u32>, Vec<usize>) = section.rows.iter().filter_map(own).unzip();
            for place in places {
                clocks.take_lacking(section.capture, place, to);
            }
            self.write_rows(&mut message, (section.capture, written), &rows);
        }
        self.team.push(to, Tag::Fetched, clocks.ledger.kept() as usize, self.team.me, message);
    }

    /// Takes in rows as a keeper has them: those of a mark, or those that were asked for.
    pub(super) fn take_current(&self, clocks: &Clocks, (from, clock): (usize, u64), payload: &[u8], is_mark: bool) {
        let (words, rest) = payload.as_chunks::<8>();
        let own = clocks.own.len();
        let (Some(heard), Some(rows)) = (words.get(..own), payload.get(own * 8..)) else {
            return self.break_off(format!("{} bytes of a mark", rest.len() + words.len() * 8));
        };
        let heard: Vec<u64> = heard.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let sections = match minibatch::read(rows, &self.shapes) {
            Ok(sections) => sections,
            Err(why) => return self.break_off(why),
        };
        let taken = panics::caught(|| self.replace(clocks, (from, clock), &heard, (&sections, rows), is_mark));
        match taken {
            Ok(_) if is_mark => {
                let all = sections.iter().any(|section| section.of == WANTS_ALL);
                if all {
                    clocks.all_fresh[from].fetch_max(clock.saturating_add(1), Release);
                } else if sections.iter().any(|section| section.of == WANTED) {
                    self.freshen(clocks, from, clock);
                }
                clocks.ledger.heard(from, clock);
            }
            Ok(_) => {}
            Err(note) => {
                let copy = clocks.own.start;
                locked(&self.panicked).get_or_insert((copy, clocks.ledger.applied(copy), note));
                self.stop();
            }
        }
        let _held = locked(&self.inbox);
        self.arrived.notify_all();
    }

    /// Puts a keeper's values in the place of rows, with what they lack of this worker's own changes.
    fn replace(
        &self,
        clocks: &Clocks,
        (from, clock): (usize, u64),
        heard: &[u64],
        (sections, payload): (&[Section], &[u8]),
        is_mark: bool,
    ) {
        let closed = clocks.alone();
        if *closed {
            return;
        }
        let mut log = locked(&clocks.log);
        for (known, &now) in log.heard[from].iter_mut().zip(heard) {
            *known = now.max(*known);
        }
        let mut rooms = std::mem::take(&mut log.room);
        let mut n = 0;
        for section in sections.iter().filter(|section| section.of == CURRENT && section.size > 0) {
            let (Some(written), Some(room)) = (&self.setup.written[section.capture], &mut rooms[section.capture])
            else {
                continue;
            };
            for (k, &row) in section.rows.iter().enumerate().filter(|&(_, &row)| written.owner(row) == from) {
                let (capture, value) = (section.capture, section.value(payload, k).as_ptr());
                // SAFETY: rule 1; `value` is as many bytes as a row has, and so are those of the log.
                unsafe {
                    let lacking = log.lacking(from, capture, row);
                    clocks.ledger.replace((capture, row), value, lacking, room.as_mut_ptr());
                }
                if let Some(fresh) = clocks.fresh[capture].get(row as usize) {
                    fresh.fetch_max(clock.saturating_add(1), Release);
                }
                n += 1;
            }
        }
        log.room = rooms;
        log.prune(self.team.me);
        self.counted.ahead.fetch_add(if is_mark { n } else { 0 }, Relaxed);
    }

    /// What a mark was wanted for is here as of its clock: that which wasn't sent hasn't changed.
    fn freshen(&self, clocks: &Clocks, from: usize, clock: u64) {
        let marks = clocks.ledger.heard_of(from)..clock + 1;
        for (c, written) in self.setup.written.iter().enumerate() {
            let Some(written) = written else { continue };
            for row in self.wanted_of(clocks, (c, written), from, marks.clone()) {
                if let Some(fresh) = clocks.fresh[c].get(row as usize) {
                    fresh.fetch_max(clock + 1, Release);
                }
            }
        }
    }

    /// Applies what a copy of another worker has changed of the rows kept here, after this many of its minibatches.
    pub(super) fn take_push(
        &self,
        clocks: &Clocks,
        (copy, minibatches): (usize, u64),
        sections: &[Section],
        payload: &[u8],
    ) {
        let Some(by) = self.worker_of(copy) else {
            return self.break_off(format!("a push of copy {copy}"));
        };
        if minibatches != THROUGH {
            self.record_wants(by, minibatches as usize, sections);
        }
        if self.rounds.wants_all[by].load(Relaxed) {
            clocks.anybody_wants_all.store(true, Relaxed);
        }
        let applied = panics::caught(|| {
            let closed = clocks.changing();
            if *closed {
                return;
            }
            for section in sections.iter().filter(|section| section.of < CURRENT && section.size > 0) {
                let Some(written) = &self.setup.written[section.capture] else { continue };
                for (k, &row) in section.rows.iter().enumerate() {
                    let Some(place) = written.place(row) else { continue };
                    // SAFETY: as many bytes as a row has (rule 1).
                    unsafe { clocks.ledger.apply(section.capture, row, section.value(payload, k).as_ptr()) };
                    clocks.mark_changed(section.capture, (place, row), by);
                }
            }
            clocks.ledger.advance(copy, minibatches);
        });
        match applied {
            Ok(()) => self.send_marks(clocks),
            Err(note) => {
                locked(&self.panicked).get_or_insert((copy, minibatches, note));
                self.stop();
            }
        }
    }

    /// Applies what an own copy has changed.
    fn apply_own(&self, clocks: &Clocks, ended: &Ended<'_>, changes: &Arc<Changes>) {
        let _changing = clocks.changing();
        changes.apply(&clocks.ledger);
        let mut elsewhere = false;
        for (c, written) in self.setup.written.iter().enumerate() {
            let Some(written) = written else { continue };
            for &row in &changes.rows[c] {
                match written.place(row) {
                    Some(place) => clocks.mark_changed(c, (place, row), self.team.me),
                    None => elsewhere = true,
                }
            }
        }
        if elsewhere {
            let (local, minibatches) = (ended.copy - clocks.own.start, ended.round as u64 + 1);
            let entry = Logged { local, minibatches, changes: Arc::clone(changes) };
            locked(&clocks.log).entries.push_back(entry);
        }
        clocks.ledger.advance(ended.copy, ended.minibatches);
    }

    /// Records which rows a minibatch touched, of own ones as well: who keeps which may change. Also whether too many of them were not foreseen.
    fn record_touched(&self, clocks: &Clocks, ended: &Ended<'_>) {
        let site = &self.setup.site;
        let misses = self.counted.misses.swap(0, Relaxed);
        let touched: u64 = ended.touched.iter().flatten().map(|&(_, n)| u64::from(n)).sum();
        if self.setup.fetching == Fetching::Foreseen && misses > MISSES.max(touched / MISSES_IN) {
            site.wild.store(true, Relaxed);
        }
        let mut foreseen = locked(&site.foreseen);
        if foreseen.complete || self.setup.fetching == Fetching::OnDemand || site.wild.load(Relaxed) {
            return;
        }
        let of_capture =
            |(c, touched): (usize, &Runs)| self.setup.written[c].as_ref().map(|_| (c, rows_of(touched).collect()));
        let rows = ended.touched.iter().enumerate().filter_map(of_capture).collect();
        if !foreseen.add(ended.round, rows) {
            site.wild.store(true, Relaxed);
        }
        let last = clocks.unrecorded.fetch_sub(1, AcqRel) == 1;
        foreseen.complete = last && !site.wild.load(Relaxed);
    }
}

impl StalePeers for Syncing {
    fn end(&self, ended: &Ended<'_>, changes: Changes) {
        let Some(clocks) = &self.setup.clocks else { return };
        self.record_touched(clocks, ended);
        let changes = Arc::new(changes);
        self.apply_own(clocks, ended, &changes);
        for p in self.team.peers() {
            let mut message = Writer::default();
            for (c, written) in self.setup.written.iter().enumerate() {
                let (Some(written), Some(values)) = (written, &changes.values[c]) else { continue };
                let size = written.size();
                let of = changes.rows[c].iter().copied().enumerate().filter(|&(_, row)| written.owner(row) == p);
                let (places, rows): (Vec<usize>, Vec<u32>) = of.unzip();
                if !rows.is_empty() {
                    message.section(c, ended.copy as u32, &rows, size);
                    places.iter().for_each(|&k| message.value(&values.bytes()[k * size..(k + 1) * size]));
                }
            }
            if ended.minibatches != THROUGH {
                self.write_wants_of(clocks, &mut message, p, ended.minibatches);
            }
            self.team.push(p, Tag::Push, ended.minibatches as usize, ended.copy, message);
        }
        self.send_marks(clocks);
    }

    fn row(&self, capture: usize, i: usize, clock: u64) -> Option<*const u8> {
        let (written, clocks) = (self.setup.written.get(capture)?.as_ref()?, self.setup.clocks.as_ref()?);
        let (keeper, address) = (written.owner(i as u32), written.at(i as u32).cast_const());
        let needed = clocks.needed(clock);
        if keeper == self.team.me || clocks.fresh(capture, i, keeper) >= needed {
            return Some(address);
        }
        self.counted.on_demand.fetch_add(1, Relaxed);
        self.counted.misses.fetch_add(1, Relaxed);
        let mut message = Writer::default();
        message.section(capture, WANTED, &[i as u32], 0);
        self.team.push(keeper, Tag::Fetch, 0, self.team.me, message);
        let here = self.wait_for(|_| (clocks.fresh(capture, i, keeper) >= needed).then(Vec::new));
        here.map(|_| address)
    }

    fn clock(&self, capture: usize, i: usize) -> u64 {
        let (Some(Some(written)), Some(clocks)) = (self.setup.written.get(capture), &self.setup.clocks) else {
            return 0;
        };
        let keeper = written.owner(i as u32);
        if keeper == self.team.me {
            return clocks.ledger.kept();
        }
        clocks.fresh(capture, i, keeper).saturating_sub(1)
    }
}
