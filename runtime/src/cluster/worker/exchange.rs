//! A worker's part of a synchronous loop's communication: changes go to the worker that keeps the rows, is merged there in the order
//! of the copies, and the new values go to those who want them: reduce-scatter and all-gather, without a central node
//! (MA-SGD, section 3 of the model averaging paper), of the rows that changed.
//!
//! Which rows are wanted: at first all that change, and what each round's minibatches touch is recorded. From the second
//! call on the rows that the next round will touch (IterStore, section 4.7): the first tenth of them before the round
//! begins, the rest while its bodies run. Rows that were not foreseen are fetched when they are touched; a round with many
//! of those is followed by wanting all again.
//!
//! # Why this is sound
//! 1. While bodies run, rows in reservations are read only, but for rows of other processes that are not here yet: the
//!    network's thread alone writes them, and marks them as here after it has. Bodies read a row after they have seen that
//!    mark.
//! 2. Rows that this worker keeps change between two meetings of its threads, when every other worker's changes of the
//!    round have come: none of them can be fetching a row of that round any more.
//! 3. Indices and sizes in messages are checked against the DDSs' (see `wire`).
#![allow(unsafe_code)]

mod clocks;
mod ends;
mod rows;

pub(crate) use clocks::{Clocks, Shape as ClocksShape};

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{
    AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use stradsap_dds_server::frame::Header;
use tokio::time::Instant;

use crate::body::panics::CaughtPanic;
use crate::cluster::wire::keepers::{Keepers, Places};
use crate::cluster::wire::links::{Links, Outgoing, Payload};
use crate::cluster::wire::minibatch::{self, CURRENT, Section, Shape, Tag, WANTED, Writer};
use crate::cluster::wire::protocol::{Fetching, Node};
use crate::cluster::worker::site::LoopMemory;
use crate::memory::reservation::Reservation;
use crate::minibatch::Source;
use crate::session::condition::Condition;
use crate::session::locked;

/// States of a row of another process.
const HERE: u8 = 0;
const AWAY: u8 = 1;
const ASKED: u8 = 2;
const COMING: u8 = 3;

/// One row in this many may be unforeseen, from this many on, before all are wanted again.
const MISSES_IN: u64 = 50;
const MISSES: u64 = 16;

/// A row that was to come and hasn't after so long is asked for.
const LATE: Duration = Duration::from_millis(300);

/// A DDS that the loop writes.
pub(crate) struct Written {
    pub(crate) reservation: Arc<Reservation>,
    pub(crate) keepers: Arc<Keepers>,
    /// Where the rows that are kept here stand among these.
    pub(crate) places: Places,
    /// Of each row, whether it is here; empty where all are, always.
    pub(crate) missing: Vec<AtomicU8>,
}

impl Written {
    fn size(&self) -> usize {
        self.reservation.ops().size
    }

    fn shape(&self) -> Shape {
        Shape { len: self.reservation.len(), size: self.size() }
    }

    fn owner(&self, row: u32) -> usize {
        self.keepers.owner(row)
    }

    /// Where a row stands among those that are kept here; none if it is kept elsewhere.
    fn place(&self, row: u32) -> Option<usize> {
        self.places.place(row)
    }

    fn at(&self, row: u32) -> *mut u8 {
        self.reservation.base().wrapping_add(row as usize * self.size())
    }

    /// # Safety
    /// Nobody writes the row meanwhile.
    unsafe fn bytes(&self, row: u32) -> &[u8] {
        // SAFETY: a row of the reservation; the caller's promise.
        unsafe { std::slice::from_raw_parts(self.at(row), self.size()) }
    }

    /// # Safety
    /// Nobody else uses the row meanwhile.
    unsafe fn overwrite(&self, row: u32, value: &[u8]) {
        assert!(value.len() == self.size(), "a row has {} bytes", self.size());
        // SAFETY: a row of the reservation; the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), self.at(row), value.len()) };
    }
}

/// Messages that nobody has taken yet, by round and sender.
#[derive(Default)]
struct Inbox {
    ready: BTreeMap<usize, Vec<u8>>,
    changes: BTreeMap<(usize, usize), Vec<u8>>,
    rows: BTreeMap<(usize, usize), Vec<u8>>,
    /// Questions of others who are a round ahead.
    early: Vec<(usize, usize, Vec<Section>)>,
}

/// How far the rows of one worker have been taken in, and those that came before their time.
#[derive(Default)]
struct Taken {
    round: usize,
    early: Vec<(usize, Vec<u8>)>,
}

/// Rows that a thread merged: which, and the worker whose copy alone changed them.
type Merged = Vec<Vec<(u32, Option<usize>)>>;

/// Who runs a synchronous loop.
pub(crate) struct Team {
    pub(crate) call: u64,
    pub(crate) generation: u32,
    pub(crate) me: usize,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Arc<Links>,
}

impl Team {
    fn peers(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.nodes.len()).filter(|&p| p != self.me)
    }

    fn push(&self, to: usize, tag: Tag, lo: usize, hi: usize, message: Writer) {
        let header = minibatch::header(self.generation, self.call, tag, lo as u64, hi as u64);
        self.links.push(self.nodes[to], Outgoing { header, payload: Payload::Bytes(message.finish()) });
    }
}

/// What is fixed for a call.
pub(crate) struct Setup {
    /// By capture.
    pub(crate) written: Vec<Option<Written>>,
    /// Which copies each worker runs.
    pub(crate) copies: Vec<Range<usize>>,
    pub(crate) fetching: Fetching,
    /// How much of what is wanted comes before a round begins, in hundredths.
    pub(crate) early: usize,
    /// Under `Ssp`.
    pub(crate) clocks: Option<Clocks>,
    pub(crate) site: Arc<LoopMemory>,
}

/// What is kept from round to round.
struct RoundState {
    /// The round whose values the rows have.
    current: AtomicUsize,
    parsed: Vec<RwLock<(Vec<u8>, Vec<Section>)>>,
    merged: Vec<RwLock<Merged>>,
    taken: Vec<Mutex<Taken>>,
    /// For each worker, by capture, which of the rows kept here it lacks.
    behind: Vec<Mutex<Vec<Vec<bool>>>>,
    /// Workers that want all rows that change.
    wants_all: Vec<AtomicBool>,
}

impl RoundState {
    fn new(team: &Team, setup: &Setup, threads: usize) -> RoundState {
        let tracks = setup.fetching != Fetching::All && setup.clocks.is_none();
        let behind = |_| {
            let lacks = |written: &Option<Written>| match written {
                Some(written) if tracks => vec![true; written.places.rows()],
                _ => Vec::new(),
            };
            Mutex::new(setup.written.iter().map(lacks).collect())
        };
        RoundState {
            current: AtomicUsize::new(0),
            parsed: team.nodes.iter().map(|_| RwLock::default()).collect(),
            merged: (0..threads).map(|_| RwLock::default()).collect(),
            taken: team.nodes.iter().map(|_| Mutex::default()).collect(),
            behind: team.nodes.iter().map(behind).collect(),
            wants_all: team.nodes.iter().map(|_| AtomicBool::new(setup.fetching == Fetching::All)).collect(),
        }
    }
}

/// How many rows came ahead of their use, and how many were asked for.
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) ahead: AtomicU64,
    pub(crate) on_demand: AtomicU64,
    /// Those of the running round.
    misses: AtomicU64,
}

/// A synchronous loop on one worker, as the network knows it.
pub(crate) struct Syncing {
    pub(crate) team: Team,
    pub(crate) setup: Setup,
    shapes: Vec<Option<Shape>>,
    pub(crate) stopped: AtomicBool,
    inbox: Mutex<Inbox>,
    arrived: Condition,
    rounds: RoundState,
    pub(crate) counted: Counters,
    /// Why the loop was broken off, if a message made no sense.
    pub(crate) broken: Mutex<Option<String>>,
    /// What a union of pushed changes said when it panicked: whose, and how many minibatches that copy had run.
    pub(crate) panicked: Mutex<Option<(usize, u64, CaughtPanic)>>,
}

impl Syncing {
    /// A loop that is about to begin, on this many threads.
    pub(crate) fn new(team: Team, setup: Setup, threads: usize) -> Syncing {
        Syncing {
            shapes: setup.written.iter().map(|written| written.as_ref().map(Written::shape)).collect(),
            rounds: RoundState::new(&team, &setup, threads),
            team,
            setup,
            stopped: AtomicBool::new(false),
            inbox: Mutex::default(),
            arrived: Condition::new(),
            counted: Counters::default(),
            broken: Mutex::default(),
            panicked: Mutex::default(),
        }
    }

    /// Ends the loop as soon as its bodies do.
    pub(crate) fn stop(&self) {
        self.stopped.store(true, Relaxed);
        let _held = locked(&self.inbox);
        self.arrived.notify_all();
    }

    fn break_off(&self, why: String) {
        locked(&self.broken).get_or_insert(why);
        self.stop();
    }

    /// A message has come.
    pub(crate) fn take(&self, header: &Header, payload: Vec<u8>) {
        let (lo, hi) = (header.lo as usize, header.hi as usize);
        // A loop that ends early is undone: what still comes of it must change nothing.
        if self.stopped.load(Relaxed) {
            return;
        }
        let Some(tag) = Tag::of(header.tag) else { return self.break_off(format!("a message of kind {}", header.tag)) };
        if tag != Tag::Push && hi >= self.team.nodes.len() {
            return self.break_off(format!("a message of worker {hi} of {}", self.team.nodes.len()));
        }
        match tag {
            Tag::Ready | Tag::Changes | Tag::Rows => {
                let mut inbox = locked(&self.inbox);
                match tag {
                    Tag::Ready => inbox.ready.insert(hi, payload),
                    Tag::Changes => inbox.changes.insert((lo, hi), payload),
                    _ => inbox.rows.insert((lo, hi), payload),
                };
                self.arrived.notify_all();
            }
            Tag::MoreRows => {
                let mut taken = locked(&self.rounds.taken[hi]);
                if taken.round <= lo {
                    taken.early.push((lo, payload));
                } else {
                    drop(taken);
                    self.take_in_late(&payload, true);
                }
            }
            Tag::Mark | Tag::Fetched => match &self.setup.clocks {
                Some(clocks) => self.take_current(clocks, (hi, header.lo), &payload, tag == Tag::Mark),
                None if tag == Tag::Fetched => self.take_in_late(&payload, false),
                None => self.break_off("a clock in a loop of rounds".to_string()),
            },
            Tag::Fetch => match (minibatch::read(&payload, &self.shapes), &self.setup.clocks) {
                (Ok(sections), None) => self.asked_for(hi, lo, sections),
                (Ok(sections), Some(clocks)) => self.answer_as_of(clocks, hi, &sections),
                (Err(why), _) => self.break_off(why),
            },
            Tag::Push => match (minibatch::read(&payload, &self.shapes), &self.setup.clocks) {
                (Ok(sections), Some(clocks)) => self.take_push(clocks, (hi, header.lo), &sections, &payload),
                (Err(why), _) => self.break_off(why),
                (_, None) => self.break_off("a push in a loop of rounds".to_string()),
            },
        }
    }

    /// Another worker needs rows of a round: it has them at once, or when that round begins here.
    fn asked_for(&self, by: usize, round: usize, sections: Vec<Section>) {
        let mut inbox = locked(&self.inbox);
        if self.rounds.current.load(Acquire) < round {
            inbox.early.push((round, by, sections));
        } else {
            drop(inbox);
            self.answer(by, round, &sections);
        }
    }

    /// Rows that arrive while bodies run: they are not here yet.
    fn take_in_late(&self, payload: &[u8], ahead: bool) {
        match minibatch::read(payload, &self.shapes) {
            Ok(sections) => {
                let mut n = 0;
                for section in sections.iter().filter(|section| section.of == CURRENT && section.size > 0) {
                    let Some(written) = &self.setup.written[section.capture] else { continue };
                    for (k, &row) in section.rows.iter().enumerate() {
                        let Some(state) = written.missing.get(row as usize) else { continue };
                        if state.load(Acquire) != HERE {
                            // SAFETY: rule 1: it is away, and this thread alone brings such rows.
                            unsafe { written.overwrite(row, section.value(payload, k)) };
                            state.store(HERE, Release);
                            n += 1;
                        }
                    }
                }
                self.counted.ahead.fetch_add(if ahead { n } else { 0 }, Relaxed);
                let _held = locked(&self.inbox);
                self.arrived.notify_all();
            }
            Err(why) => self.break_off(why),
        }
    }

    /// Sends rows that a body of another worker waits for.
    fn answer(&self, to: usize, round: usize, asked: &[Section]) {
        let mut message = Writer::default();
        let mut behind = locked(&self.rounds.behind[to]);
        for section in asked {
            let Some(written) = &self.setup.written[section.capture] else { continue };
            let own = |&row: &u32| Some((row, written.place(row)?));
            let (rows, places): (Vec<u32>, Vec<usize>) = section.rows.iter().filter_map(own).unzip();
            message.section(section.capture, CURRENT, &rows, written.size());
            for (&row, place) in rows.iter().zip(places) {
                // SAFETY: rule 2.
                message.value(unsafe { written.bytes(row) });
                if let Some(lacks) = behind[section.capture].get_mut(place) {
                    *lacks = false;
                }
            }
        }
        drop(behind);
        self.team.push(to, Tag::Fetched, round, self.team.me, message);
    }

    /// Waits for a message. None if the loop is to end.
    fn wait_for(&self, mut take: impl FnMut(&mut Inbox) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
        let mut inbox = locked(&self.inbox);
        loop {
            if self.stopped.load(Relaxed) {
                return None;
            }
            if let Some(message) = take(&mut inbox) {
                return Some(message);
            }
            inbox = self.arrived.wait(&self.inbox, inbox, Some(Duration::from_millis(100)));
        }
    }

    /// Tells the others that this worker has what it needs to begin, waits until they do, and gets the rows for the first
    /// round. False if the loop is to end.
    pub(crate) fn begin(&self) -> bool {
        if let Some(clocks) = &self.setup.clocks {
            return self.begin_clocks(clocks);
        }
        if !self.greet(|message, p| self.write_wants(message, p, 0)) {
            return false;
        }
        let none: Merged = self.setup.written.iter().map(|_| Vec::new()).collect();
        self.team.peers().for_each(|p| self.send_rows(p, 0, &[&none]));
        self.team.peers().all(|p| self.take_rows(p, 0, &mut |_, _| None))
    }

    /// Tells the others that this worker has what it needs to begin, and what it wants, and waits until they do.
    fn greet(&self, wants: impl Fn(&mut Writer, usize)) -> bool {
        for p in self.team.peers() {
            let mut message = Writer::default();
            wants(&mut message, p);
            self.team.push(p, Tag::Ready, 0, self.team.me, message);
        }
        for p in self.team.peers() {
            let Some(payload) = self.wait_for(|inbox| inbox.ready.remove(&p)) else { return false };
            match minibatch::read(&payload, &self.shapes) {
                Ok(sections) => self.record_wants(p, 0, &sections),
                Err(why) => {
                    self.break_off(why);
                    return false;
                }
            }
        }
        true
    }

    /// Whether every row is here and current.
    pub(crate) fn holds_all(&self) -> bool {
        let here = |written: &Written| written.missing.iter().all(|state| state.load(Relaxed) == HERE);
        self.setup.clocks.is_none() && self.setup.written.iter().flatten().all(here)
    }

    /// Asks for a row, if that is the state that it is in.
    fn ask_if(&self, state: &AtomicU8, seen: u8, capture: usize, i: usize) {
        let Some(Some(written)) = self.setup.written.get(capture) else { return };
        if state.compare_exchange(seen, ASKED, Relaxed, Relaxed).is_ok() {
            self.counted.on_demand.fetch_add(1, Relaxed);
            self.counted.misses.fetch_add(1, Relaxed);
            let mut message = Writer::default();
            message.section(capture, WANTED, &[i as u32], 0);
            self.team.push(
                written.owner(i as u32),
                Tag::Fetch,
                self.rounds.current.load(Relaxed),
                self.team.me,
                message,
            );
        }
    }
}

impl Source for Syncing {
    fn row(&self, capture: usize, i: usize) -> Option<*const u8> {
        let written = self.setup.written.get(capture)?.as_ref()?;
        let address = written.at(i as u32).cast_const();
        let Some(state) = written.missing.get(i) else { return Some(address) };
        if state.load(Acquire) == HERE {
            return Some(address);
        }
        self.ask_if(state, AWAY, capture, i);
        let since = Instant::now();
        let here = self.wait_for(|_| {
            if since.elapsed() > LATE {
                // The worker that keeps it may not know that it is wanted.
                self.ask_if(state, COMING, capture, i);
            }
            (state.load(Acquire) == HERE).then(Vec::new)
        });
        here.map(|_| address)
    }
}
