//! Elements that a body reads on a worker are fetched when it first reads near them.
//!
//! The virtual iteration needs few of them: the elements read in step, and what the body reads but doesn't write. So a
//! worker never loads a DDS that it only records writes to. And an operator with few items looks at few elements of a large
//! capture, such as a map that it is joined with.

use std::future::Future;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use stradsap_dds_server::tasks;

use crate::body::slow_path::Pager;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{Holder, Node, Problem, Segment};
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
/// What came by lists is forgotten from this many bytes on, as soon as nobody reads it.
pub(crate) const ROOM: usize = 16 << 20;
/// What an element that came by itself takes besides its bytes, about.
const EACH: usize = 64;

/// The elements of one capture: where they are, and where they go.
pub(crate) struct Elements {
    pub(crate) dds: u64,
    pub(crate) reservation: Arc<Reservation>,
    pub(crate) held: Vec<Segment>,
    /// Whether they come one by one, many at a time.
    pub(crate) by_list: bool,
}

/// The elements of one capture, and which of them are here.
struct Paged {
    elements: Elements,
    /// How many of them come and go together: a chunk.
    each: usize,
    /// How many chunks are fetched for one that is looked at,
    around: usize,
    /// and as many times that at most, where what stands before it is here.
    ahead: usize,
    /// A bit for each chunk.
    here: Vec<AtomicU64>,
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
    /// About how many bytes have come by lists, and how many of them were forgotten.
    came: AtomicUsize,
    forgotten: AtomicUsize,
}

impl Pages {
    pub(crate) fn new(
        me: Node,
        captures: Vec<Option<Elements>>,
        links: Arc<Links>,
        runtime: tokio::runtime::Handle,
        stopped: Arc<AtomicBool>,
        grain: Grain,
    ) -> Pages {
        let mut paged: Vec<Paged> = Vec::new();
        let mut enter = |elements: Elements| {
            let known = paged.iter().position(|paged| paged.elements.dds == elements.dds);
            known.unwrap_or_else(|| {
                paged.push(Paged::new(elements, grain));
                paged.len() - 1
            })
        };
        let captures = captures.into_iter().map(|capture| capture.map(&mut enter)).collect();
        let (failed, came, forgotten) = (Mutex::default(), AtomicUsize::new(0), AtomicUsize::new(0));
        Pages { me, paged, captures, links, runtime, failed, stopped, came, forgotten }
    }

    fn of(&self, capture: usize) -> Option<&Paged> {
        self.paged.get((*self.captures.get(capture)?)?)
    }

    /// Why what was done is void, if it is.
    pub(crate) fn failed(&self) -> Option<Problem> {
        if self.stopped.load(Ordering::Relaxed) { Some(Problem::Stopped) } else { locked(&self.failed).clone() }
    }

    /// Forgets what was fetched, for good: nobody reads it any more.
    pub(crate) fn forget(&self) {
        self.forget_for_now();
        self.paged.iter().for_each(|paged| paged.elements.reservation.in_small_pages(false));
    }

    fn forget_for_now(&self) {
        for paged in &self.paged {
            let reservation = &paged.elements.reservation;
            // With a chunk the pages that it shares with others go: those are nobody's either.
            let page = PAGE.div_ceil(reservation.ops().size.max(1));
            for chunks in paged.forgotten(page.div_ceil(paged.each)) {
                paged.each_missing(chunks, self.me, |range, held| {
                    let start = range.start.saturating_sub(page).max(held.range.start);
                    let end = (range.end + page).min(held.range.end);
                    // SAFETY: nobody reads them any more, and these elements are another process's.
                    #[allow(unsafe_code)]
                    unsafe {
                        reservation.forget(start..end);
                    }
                });
            }
        }
    }

    /// Forgets what came by lists, if that is much: nobody reads it now. Gives how many bytes have come in all.
    pub(crate) fn make_room(&self) -> usize {
        let came = self.came.load(Ordering::Relaxed);
        if came - self.forgotten.load(Ordering::Relaxed) > ROOM {
            self.forget_for_now();
            self.forgotten.store(came, Ordering::Relaxed);
        }
        came
    }

    /// Waits for elements to come. Nobody reads them before they are marked as here.
    fn wait<T>(&self, coming: impl Future<Output = Result<T, Problem>>) -> Option<T> {
        let come = tasks::block_on(&self.runtime, coming).unwrap_or(Err(Problem::Stopped));
        come.inspect_err(|problem| _ = locked(&self.failed).get_or_insert_with(|| problem.clone())).ok()
    }

    /// The elements of these chunks come, but for those that are here. The caller lets nobody else fetch any.
    fn load(&self, paged: &Paged, chunks: Range<usize>) -> Option<()> {
        let Elements { dds, reservation, .. } = &paged.elements;
        for chunks in paged.absent(chunks) {
            let mut missing = Vec::new();
            paged.each_missing(chunks.clone(), self.me, |range, held| missing.push((range, held.at.first().copied())));
            for (range, from) in missing {
                self.wait(self.links.fill(reservation, *dds, range, from?))?;
            }
            paged.mark(chunks);
        }
        Some(())
    }
}

impl Paged {
    fn new(elements: Elements, Grain { bytes, ahead }: Grain) -> Paged {
        let Elements { reservation, by_list, .. } = &elements;
        reservation.in_small_pages(bytes <= PAGE);
        let each = (bytes / reservation.ops().size.max(1)).max(1);
        let (each, around, ahead) = if *by_list { (1, each, 1) } else { (each, 1, ahead) };
        let words = reservation.len().div_ceil(each).div_ceil(64);
        let here = (0..words).map(|_| AtomicU64::new(0)).collect();
        let (brought, loading) = (AtomicUsize::new(0), Mutex::default());
        Paged { elements, each, around, ahead, here, brought, loading }
    }

    /// How many chunks there are.
    fn len(&self) -> usize {
        self.elements.reservation.len().div_ceil(self.each)
    }

    fn is_here(&self, chunk: usize) -> bool {
        self.here[chunk / 64].load(Ordering::Acquire) >> (chunk % 64) & 1 == 1
    }

    fn mark(&self, chunks: Range<usize>) {
        for chunk in chunks {
            let before = self.here[chunk / 64].fetch_or(1 << (chunk % 64), Ordering::Release);
            self.brought.fetch_add(usize::from(before >> (chunk % 64) & 1 == 0), Ordering::Release);
        }
    }

    /// The chunks to fetch for one that is wanted: those around it, or as many more behind it as were fetched before it.
    fn wanted(&self, chunk: usize) -> Range<usize> {
        let is_here = |chunk: &usize| self.is_here(*chunk);
        let before = (0..chunk).rev().take(self.ahead - 1).take_while(is_here).count();
        let behind = (chunk + 1..self.len()).take(before).take_while(|chunk| !is_here(chunk)).count();
        let start = chunk / self.around * self.around;
        start..(start + self.around + behind).min(self.len())
    }

    /// Those of these chunks that aren't here, as far as they stand side by side.
    fn absent(&self, chunks: Range<usize>) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for chunk in chunks.filter(|&chunk| !self.is_here(chunk)) {
            match runs.last_mut() {
                Some(run) if run.end == chunk => run.end += 1,
                _ => runs.push(chunk..chunk + 1),
            }
        }
        runs
    }

    /// Takes the marks off all chunks, and gives ranges that have those that were here and few others: `near` of them between two.
    fn forgotten(&self, near: usize) -> Vec<Range<usize>> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        for (k, word) in self.here.iter().enumerate() {
            let mut word = word.swap(0, Ordering::Relaxed);
            while word != 0 {
                let chunk = 64 * k + word.trailing_zeros() as usize;
                word &= word - 1;
                match runs.last_mut() {
                    Some(run) if chunk <= run.end + near => run.end = chunk + 1,
                    _ => runs.push(chunk..chunk + 1),
                }
            }
        }
        self.brought.store(0, Ordering::Relaxed);
        runs
    }

    fn elements(&self, chunks: Range<usize>) -> Range<usize> {
        chunks.start * self.each..self.elements.reservation.len().min(chunks.end * self.each)
    }

    /// The ranges of chunks that are elsewhere, and where.
    fn each_missing(&self, chunks: Range<usize>, me: Node, mut f: impl FnMut(Range<usize>, &Segment)) {
        let Range { start, end } = self.elements(chunks);
        let held = &self.elements.held;
        let first = held.partition_point(|held| held.range.end <= start);
        for held in held[first..].iter().take_while(|held| held.range.start < end) {
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
        if paged.is_here(chunk) {
            return here;
        }
        if self.failed().is_some() {
            return None;
        }
        let _one_at_a_time = locked(&paged.loading);
        self.load(paged, paged.wanted(chunk))?;
        here
    }

    fn has_all(&self, capture: usize) -> bool {
        self.of(capture).is_none_or(|paged| paged.brought.load(Ordering::Acquire) == paged.len())
    }

    fn by_list(&self) -> usize {
        let by_list = |capture: &&usize| self.paged[**capture].elements.by_list;
        self.captures.iter().flatten().filter(by_list).count()
    }

    fn is_awaited(&self, capture: usize, index: usize) -> bool {
        self.of(capture).is_some_and(|paged| paged.elements.by_list && !paged.is_here(index))
    }

    fn bring_list(&self, capture: usize, mut elements: Vec<usize>) {
        let Some(paged) = self.of(capture).filter(|paged| paged.elements.by_list) else { return };
        let Elements { dds, reservation, held, .. } = &paged.elements;
        elements.sort_unstable();
        elements.dedup();
        let _one_at_a_time = locked(&paged.loading);
        elements.retain(|&element| !paged.is_here(element));
        let mut rest = &elements[..];
        for held in held {
            let (here, behind) = rest.split_at(rest.partition_point(|&element| element < held.range.end));
            rest = behind;
            let own = held.at.iter().any(|holder| *holder == Holder::memory(self.me));
            let from = held.at.iter().find(|holder| holder.snapshot == 0);
            match from {
                _ if own || here.is_empty() => {}
                Some(from) => {
                    let coming = self.links.fill_list(reservation, *dds, here, from.node);
                    let Some(bytes) = self.wait(coming) else { return };
                    self.came.fetch_add(bytes + here.len() * EACH, Ordering::Relaxed);
                }
                // A snapshot gives ranges; they come around what is looked at.
                None => continue,
            }
            here.iter().for_each(|&element| paged.mark(element..element + 1));
        }
    }
}
