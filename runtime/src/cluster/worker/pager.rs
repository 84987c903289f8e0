//! Recording on a worker: elements that a body reads are fetched when it first reads near them.
//!
//! The virtual iteration needs few of them: the elements read in step, and what the body reads but doesn't write. So a
//! worker never loads a DDS that it only records writes to.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex};

use stradsap_dds_server::tasks;

use crate::body::slow_path::Pager;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{Node, Problem, Segment};
use crate::memory::reservation::Reservation;
use crate::session::locked;

/// Bytes that are fetched at a time.
const CHUNK: usize = 256 << 10;

/// The elements of one capture: where they are, and where they go.
pub(crate) struct Elements {
    pub(crate) dds: u64,
    pub(crate) reservation: Arc<Reservation>,
    pub(crate) held: Vec<Segment>,
}

/// The elements of one capture, and which of them are here.
struct Paged {
    dds: u64,
    reservation: Arc<Reservation>,
    held: Vec<Segment>,
    /// Elements in a chunk.
    each: usize,
    here: Vec<AtomicU8>,
    loading: Mutex<()>,
}

pub(crate) struct Pages {
    me: Node,
    captures: Vec<Option<Paged>>,
    links: Arc<Links>,
    runtime: tokio::runtime::Handle,
    failed: Mutex<Option<Problem>>,
    stopped: Arc<AtomicBool>,
}

impl Pages {
    pub(crate) fn new(
        me: Node,
        captures: Vec<Option<Elements>>,
        links: Arc<Links>,
        runtime: tokio::runtime::Handle,
        stopped: Arc<AtomicBool>,
    ) -> Pages {
        let paged = |Elements { dds, reservation, held }: Elements| {
            let each = (CHUNK / reservation.ops().size.max(1)).max(1);
            let here = (0..reservation.len().div_ceil(each)).map(|_| AtomicU8::new(0)).collect();
            Paged { dds, reservation, held, each, here, loading: Mutex::default() }
        };
        let captures = captures.into_iter().map(|capture| capture.map(paged)).collect();
        Pages { me, captures, links, runtime, failed: Mutex::default(), stopped }
    }

    /// Why the recording is void, if it is.
    pub(crate) fn failed(&self) -> Option<Problem> {
        if self.stopped.load(Ordering::Relaxed) { Some(Problem::Stopped) } else { locked(&self.failed).clone() }
    }

    /// Forgets what was fetched: the recording is over.
    pub(crate) fn forget(&self) {
        for paged in self.captures.iter().flatten() {
            for (chunk, here) in paged.here.iter().enumerate() {
                if here.load(Ordering::Relaxed) == 1 {
                    paged.each_missing(chunk, self.me, |range, _| {
                        // SAFETY: the recording is over, and these elements are another process's.
                        #[allow(unsafe_code)]
                        unsafe {
                            paged.reservation.forget(range);
                        }
                    });
                }
            }
        }
    }
}

impl Paged {
    /// The ranges of a chunk that are elsewhere, and where.
    fn each_missing(&self, chunk: usize, me: Node, mut f: impl FnMut(std::ops::Range<usize>, &Segment)) {
        let (start, end) = (chunk * self.each, self.reservation.len().min((chunk + 1) * self.each));
        for held in &self.held {
            let range = held.range.start.max(start)..held.range.end.min(end);
            if !range.is_empty() && !held.at.iter().any(|holder| holder.node == me && holder.snapshot == 0) {
                f(range, held);
            }
        }
    }
}

impl Pager for Pages {
    fn bring(&self, capture: usize, index: usize) -> bool {
        let Some(Some(paged)) = self.captures.get(capture) else { return true };
        let chunk = index / paged.each;
        if paged.here[chunk].load(Ordering::Acquire) == 1 {
            return true;
        }
        if self.failed().is_some() {
            return false;
        }
        let _one_at_a_time = locked(&paged.loading);
        if paged.here[chunk].load(Ordering::Acquire) == 1 {
            return true;
        }
        let mut missing = Vec::new();
        paged.each_missing(chunk, self.me, |range, held| missing.push((range, held.at.first().copied())));
        for (range, from) in missing {
            let Some(from) = from else { return false };
            // Nobody reads these elements before `here` says so.
            let filling = self.links.fill(&paged.reservation, paged.dds, range, from);
            let filled = tasks::block_on(&self.runtime, filling).unwrap_or(Err(Problem::Stopped));
            if let Err(problem) = filled {
                locked(&self.failed).get_or_insert(problem);
                return false;
            }
        }
        paged.here[chunk].store(1, Ordering::Release);
        true
    }
}
