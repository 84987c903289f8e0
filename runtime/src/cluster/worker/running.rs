//! One loop as it runs on one worker: its blocks, the parts that it sends and awaits, and how it ended.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use stradsap_dds_server::frame::{Header, Kind};
use tokio::sync::Notify;

use crate::cluster::wire::links::{EMPTY, Links, Outgoing, Payload};
use crate::cluster::wire::protocol::{Node, RemoteFailure};
use crate::cluster::worker::dispatch::{Blocks, Ports};
use crate::cluster::worker::returning::Returning;
use crate::dds::relaxed::board::Board;
use crate::loops::handoff::Dispatch;
use crate::memory::reservation::Reservation;
use crate::session::{condition, locked};

/// What travels, and where it lies.
#[derive(Clone)]
pub(crate) enum Parcel {
    /// A part of a DDS.
    Part { dds: u64, reservation: Arc<Reservation>, range: Range<usize> },
    /// Single elements of a DDS: a message, or a piece of one.
    Listed { dds: u64, reservation: Arc<Reservation>, elements: Arc<[u32]>, message: Arc<Message> },
    /// What a block has added to relaxed state.
    Added { board: Arc<Board>, block: usize },
}

impl Parcel {
    /// What a header says of it: DDS and range; relaxed state is no DDS.
    pub(crate) fn label(&self) -> (u64, u64, u64) {
        match self {
            Parcel::Part { dds, range, .. } => (*dds, range.start as u64, range.end as u64),
            Parcel::Listed { dds, message, .. } => (*dds, 0, message.elements as u64),
            Parcel::Added { block, .. } => (0, *block as u64, *block as u64 + 1),
        }
    }
}

/// Elements that travel together, of which some blocks complete a piece each.
pub(crate) struct Message {
    /// How many elements there are.
    elements: usize,
    pieces: Mutex<BTreeMap<usize, Vec<u8>>>,
    count: usize,
}

impl Message {
    pub(crate) fn new(elements: usize, count: usize) -> Arc<Message> {
        Arc::new(Message { elements, pieces: Mutex::default(), count })
    }

    /// Adds a piece, by its place in the share's sends. Gives all of them, when this is the last.
    fn add(&self, place: usize, bytes: Vec<u8>) -> Option<Vec<u8>> {
        let mut pieces = locked(&self.pieces);
        pieces.insert(place, bytes);
        if pieces.len() < self.count {
            return None;
        }
        let mut all = std::mem::take(&mut *pieces).into_values();
        let first = all.next()?;
        Some(all.fold(first, |mut message, piece| {
            message.extend_from_slice(&piece);
            message
        }))
    }
}

/// A part that goes out.
pub(crate) struct Out {
    pub(crate) transfer: u32,
    pub(crate) to: Node,
    pub(crate) place: Parcel,
    pub(crate) copy: bool,
}

/// The network and the memory of a running loop.
pub(crate) struct WorkerPorts {
    pub(crate) links: Arc<Links>,
    pub(crate) generation: u32,
    pub(crate) call: u64,
    pub(crate) out: Vec<Out>,
    /// In the order of the share's arrivals.
    pub(crate) places: Vec<Parcel>,
    pub(crate) board: Arc<Board>,
    /// What doesn't stay here.
    pub(crate) returning: Option<Arc<Returning>>,
    pub(crate) first_failed: AtomicU32,
    pub(crate) news: Notify,
}

impl Ports for WorkerPorts {
    fn send(&self, k: usize) {
        let Out { transfer, to, place, copy } = &self.out[k];
        let payload = match place {
            Parcel::Added { board, block } => Payload::Bytes(board.encode(*block)),
            Parcel::Part { reservation, range, .. } if *copy || !reservation.is_plain() => {
                let mut bytes = Vec::new();
                // SAFETY: the block that completed the part has ended, and those that use it next have not begun.
                #[allow(unsafe_code)]
                unsafe {
                    reservation.encode(range.clone(), &mut bytes);
                }
                Payload::Bytes(bytes)
            }
            Parcel::Part { reservation, range, .. } => {
                let reading = self.returning.as_ref().and_then(|returning| returning.reads(k));
                let sent = reading.map(|reading| Box::new(reading) as _);
                Payload::Memory(Arc::clone(reservation), range.clone(), sent)
            }
            Parcel::Listed { reservation, elements, message, .. } => {
                let mut bytes = Vec::new();
                // SAFETY: the block that completed the elements has ended, and those that use them next have not begun.
                #[allow(unsafe_code)]
                unsafe {
                    reservation.encode_list(elements, &mut bytes);
                }
                match message.add(k, bytes) {
                    Some(all) => Payload::Bytes(all),
                    None => return,
                }
            }
        };
        let (dds, lo, hi) = place.label();
        let header = Header {
            kind: Kind::Part,
            generation: self.generation,
            call: self.call,
            dds,
            lo,
            hi,
            tag: u64::from(*transfer),
            ..EMPTY
        };
        self.links.push(*to, Outgoing { header, payload });
    }

    fn place(&self, k: usize, bytes: &[u8]) -> bool {
        match &self.places[k] {
            Parcel::Added { board, block } => {
                let mut rest = bytes;
                board.decode(*block, &mut rest) && rest.is_empty()
            }
            Parcel::Part { reservation, range, .. } => {
                // SAFETY: the blocks that used what lies there have ended, and those that wait for this have not begun.
                #[allow(unsafe_code)]
                let placed = unsafe { reservation.decode(range.clone(), bytes) };
                placed.is_ok()
            }
            Parcel::Listed { reservation, elements, .. } => {
                // SAFETY: the blocks that used what lies there have ended, and those that wait for this have not begun.
                #[allow(unsafe_code)]
                let placed = unsafe { reservation.decode_list(elements.iter().map(|&at| at as usize), bytes) };
                placed.is_ok()
            }
        }
    }

    fn arrives(&self, k: usize) {
        self.returning.iter().for_each(|returning| returning.arrives(k));
    }

    fn ended(&self, block: usize) {
        self.returning.iter().for_each(|returning| returning.ended(block));
    }

    fn failed(&self, block: usize) {
        self.first_failed.fetch_min(block as u32, Relaxed);
        self.news.notify_one();
    }
}

/// A loop that runs.
pub(crate) struct Running {
    pub(crate) call: u64,
    pub(crate) blocks: Blocks<WorkerPorts>,
    /// Which arrival a transfer's number stands for.
    pub(crate) arrivals: BTreeMap<u32, usize>,
    /// The worker's blocks' places in the whole plan.
    pub(crate) global: Vec<u32>,
    pub(crate) waited: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) ended: Mutex<Option<Ending>>,
    pub(crate) end: Notify,
}

/// How the blocks ended.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) failure: Option<RemoteFailure>,
}

impl Running {
    /// What the worker's blocks have added to relaxed state, block by block.
    pub(crate) fn added(&self) -> Option<Vec<u8>> {
        let board = &self.blocks.ports().board;
        (!board.is_empty()).then(|| self.global.iter().flat_map(|&block| board.encode(block as usize)).collect())
    }

    /// The first of the worker's blocks that stands at or behind a place in the whole plan.
    pub(crate) fn local_cut(&self, global: u32) -> usize {
        self.global.partition_point(|&b| b < global)
    }
}

/// Keeps account of the time that threads wait for blocks.
pub(crate) struct Timed<'r>(pub(crate) &'r Running);

impl Dispatch for Timed<'_> {
    fn next(&self, near: &dyn Fn(usize) -> bool) -> Option<usize> {
        let since = Instant::now();
        let next = self.0.blocks.next(near);
        condition::compute();
        self.0.waited.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        next
    }

    fn number(&self, block: usize) -> usize {
        self.0.global.get(block).map_or(block, |&global| global as usize)
    }

    fn done(&self, block: usize) {
        self.0.blocks.done(block);
    }

    fn fail(&self, block: usize) {
        self.0.blocks.fail(block);
    }

    fn at_hand(&self) -> Option<usize> {
        self.0.blocks.at_hand()
    }

    fn cut(&self) -> Option<usize> {
        self.0.blocks.cut()
    }

    fn stopping(&self) -> Option<Arc<AtomicBool>> {
        Some(self.0.blocks.stopping())
    }
}
