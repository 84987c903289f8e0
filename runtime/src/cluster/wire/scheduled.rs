//! Scheduled programs on workers: what the driver (`driver::scheduled`, `driver::away`) and a worker (`worker::scheduled`) say to each other.
//!
//! Each worker has consecutive shards. The driver schedules and aggregates; a round is one message to each worker, with what
//! came of an older round and the jobs of a new one, and one back, with what its updates gave. Both are pushed over the data
//! connections, several rounds at a time. The question that starts a worker's part stays open until the call ends, so
//! that a loss is noticed.
//!
//! What was sent is logged: to run a call again after it ended well, its changes are applied once more, and nothing is
//! updated.

use stradsap_dds_server::frame::{Header, Kind};

use crate::cluster::wire::links::EMPTY;

/// What a message is, apart from those of synchronous loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Tag {
    /// A worker has all that it needs to begin.
    Ready = 0x100,
    /// A round: what the driver tells of it, or what a worker's updates gave.
    Round = 0x101,
    /// A worker's updates failed.
    Failed = 0x102,
    /// There are no more rounds.
    Last = 0x103,
}

impl Tag {
    pub(crate) fn of(number: u64) -> Option<Tag> {
        [Tag::Ready, Tag::Round, Tag::Failed, Tag::Last].into_iter().find(|&tag| tag as u64 == number)
    }
}

/// The header of a message: of which worker, or to it, and about which round.
pub(crate) fn header(generation: u32, call: u64, tag: Tag, worker: usize, round: usize) -> Header {
    Header { kind: Kind::Blob, generation, call, dds: worker as u64, lo: round as u64, tag: tag as u64, ..EMPTY }
}
