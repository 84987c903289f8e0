//! Elements that a body reads on a worker are fetched when it first reads near them.
//!
//! The virtual iteration needs few of them: the elements read in step, and what the body reads but doesn't write. So a
//! worker never loads a DDS that it only records writes to. And an operator with few items looks at few elements of a large
//! capture, such as a map that it is joined with.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stradsap_dds_server::tasks;

use crate::body::slow_path::Pager;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{Node, Problem, Segment};
use crate::memory::reservation::{PAGE, Reservation};
use crate::session::locked;

/// How much is fetched at a time.
#[derive(Clone, Copy)]
pub(crate) struct Grain {
    /// Bytes, without what elements own elsewhere.
    bytes: usize,
    /// As many times that at most, where what stands before it was fetched, too.
    ahead: usize,
}

/// Recordings read in many places.
pub(crate) const RECORDING: Grain = Grain { bytes: 256 << 10, ahead: 1 };
/// Closures of operators look at single elements, or go through all.
pub(crate) const LOOKING: Grain = Grain { bytes: crate::cluster::wire::protocol::LOOKED_AT, ahead: 512 };

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
    ahead: usize,
    here: Vec<AtomicU8>,
    /// How many of them are.
    brought: AtomicUsize,
    loading: Mutex<()>,
}

pub(crate) struct Pages {
    me: Node,
    paged: Vec<Paged>,
    /// For each capture, which of these; two captures may be of one DDS.
    captures: Vec<Option<usize>>,
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
        Grain { bytes, ahead }: Grain,
    ) -> Pages {
        let mut paged: Vec<Paged> = Vec::new();
        let mut enter = |Elements { dds, reservation, held }: Elements| {
            if let Some(known) = paged.iter().position(|paged| paged.dds == dds) {
                return known;
            }
            reservation.in_small_pages(bytes <= PAGE);
            let each = (bytes / reservation.ops().size.max(1)).max(1);
            let here = (0..reservation.len().div_ceil(each)).map(|_| AtomicU8::new(0)).collect();
            let (brought, loading) = (AtomicUsize::new(0), Mutex::default());
            paged.push(Paged { dds, reservation, held, each, ahead, here, brought, loading });
            paged.len() - 1
        };
        let captures = captures.into_iter().map(|capture| capture.map(&mut enter)).collect();
        Pages { me, paged, captures, links, runtime, failed: Mutex::default(), stopped }
    }

    fn of(&self, capture: usize) -> Option<&Paged> {
        self.paged.get((*self.captures.get(capture)?)?)
    }

    /// Why what was done is void, if it is.
    pub(crate) fn failed(&self) -> Option<Problem> {
        if self.stopped.load(Ordering::Relaxed) { Some(Problem::Stopped) } else { locked(&self.failed).clone() }
    }

    /// Forgets what was fetched: nobody reads it any more.
    pub(crate) fn forget(&self) {
        for paged in &self.paged {
            paged.reservation.in_small_pages(false);
            // With a chunk the pages that it shares with others go: those are nobody's either.
            let page = PAGE.div_ceil(paged.reservation.ops().size.max(1));
            for (chunk, here) in paged.here.iter().enumerate() {
                if here.load(Ordering::Relaxed) == 1 {
                    paged.each_missing(chunk..chunk + 1, self.me, |range, held| {
                        let start = range.start.saturating_sub(page).max(held.range.start);
                        let end = (range.end + page).min(held.range.end);
                        // SAFETY: nobody reads them any more, and these elements are another process's.
                        #[allow(unsafe_code)]
                        unsafe {
                            paged.reservation.forget(start..end);
                        }
                    });
                }
            }
        }
    }
}

impl Paged {
    /// The chunks to fetch for one that is wanted: as many more behind it as were fetched before it.
    fn wanted(&self, chunk: usize) -> Range<usize> {
        let is_here = |chunk: &usize| self.here[*chunk].load(Ordering::Acquire) == 1;
        let before = (0..chunk).rev().take(self.ahead - 1).take_while(is_here).count();
        let behind = (chunk + 1..self.here.len()).take(before).take_while(|chunk| !is_here(chunk)).count();
        chunk..chunk + 1 + behind
    }

    fn elements(&self, chunks: Range<usize>) -> Range<usize> {
        chunks.start * self.each..self.reservation.len().min(chunks.end * self.each)
    }

    /// The ranges of chunks that are elsewhere, and where.
    fn each_missing(&self, chunks: Range<usize>, me: Node, mut f: impl FnMut(Range<usize>, &Segment)) {
        let Range { start, end } = self.elements(chunks);
        let first = self.held.partition_point(|held| held.range.end <= start);
        for held in self.held[first..].iter().take_while(|held| held.range.start < end) {
            let range = held.range.start.max(start)..held.range.end.min(end);
            if !range.is_empty() && !held.at.iter().any(|holder| holder.node == me && holder.snapshot == 0) {
                f(range, held);
            }
        }
    }
}

impl Pager for Pages {
    fn bring(&self, capture: usize, index: usize) -> Option<Range<usize>> {
        let Some(paged) = self.of(capture) else { return Some(index..index + 1) };
        let chunk = index / paged.each;
        let here = Some(paged.elements(chunk..chunk + 1));
        if paged.here[chunk].load(Ordering::Acquire) == 1 {
            return here;
        }
        if self.failed().is_some() {
            return None;
        }
        let _one_at_a_time = locked(&paged.loading);
        if paged.here[chunk].load(Ordering::Acquire) == 1 {
            return here;
        }
        let (chunks, mut missing) = (paged.wanted(chunk), Vec::new());
        paged.each_missing(chunks.clone(), self.me, |range, held| missing.push((range, held.at.first().copied())));
        for (range, from) in missing {
            let from = from?;
            // Nobody reads these elements before `here` says so.
            let filling = self.links.fill(&paged.reservation, paged.dds, range, from);
            let filled = tasks::block_on(&self.runtime, filling).unwrap_or(Err(Problem::Stopped));
            if let Err(problem) = filled {
                locked(&self.failed).get_or_insert(problem);
                return None;
            }
        }
        paged.here[chunks.clone()].iter().for_each(|here| here.store(1, Ordering::Release));
        paged.brought.fetch_add(chunks.len(), Ordering::Release);
        here
    }

    fn has_all(&self, capture: usize) -> bool {
        self.of(capture).is_none_or(|paged| paged.brought.load(Ordering::Acquire) == paged.here.len())
    }
}
