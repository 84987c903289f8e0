//! Tallies: copies of a DDS that a loop only adds to. A block adds to one of its own, which begins as zeros; when all blocks
//! have ended well, the tallies are added up, and then to the DDS. So what the loop adds makes no iterations conflict.
//!
//! Where all orders of additions give the same bits (integers), a tally goes from block to block, and there are as many as
//! blocks ran at a time. Otherwise each block has its own, and they are united in a fixed tree over the plan's serial order.
//!
//! Where few of many elements are added to, a tally has only the pages that were touched (`memory::pages`). A zero changes nothing that
//! it is added to, and is changed by what is added to it into just that: so a page that is missing in some of the tallies leaves
//! the same bits as one of zeros, and which form a tally has may depend on clocks and threads.
//!
//! # Why this is sound
//! 1. Tallies are united when no block runs: nobody else uses them or the DDS, which the loop has borrowed alone.
//! 2. Each range of elements is united by one thread, and ranges don't overlap.
//! 3. A row of a DMatrix is as many numbers as it is wide, of the type that the operations are for: a sheet has compared them. Tallies
//!    by pages have no rows of more than one.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::thread::{ThreadId, current};

use crate::body::capture::{Adding, Captured, Kind};
use crate::body::lease::{Lease, Lent};
use crate::body::panics::{self, CaughtPanic};
use crate::loops::tallied::{Elements, MOST_BYTES, THREADS, is_by_pages, ops_of};
use crate::memory::additive::TallyOps;
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::memory::pages::{Pages, Tally};
use crate::planner::Threads;
use crate::planner::plan::Plan;
use crate::session::locked;

/// Elements that a thread unites at a time.
const RUN: usize = 1 << 12;
/// Touched pages that a thread unites at a time.
const RUN_OF_PAGES: usize = 1 << 11;
/// A tally of fewer bytes is whole.
const LEAST_BYTES: usize = 1 << 16;

/// The tallies of one plan, kept from call to call: between two calls they hold zeros.
pub(crate) struct Tallies {
    /// By capture.
    sheets: Vec<Option<Sheet>>,
}

struct Sheet {
    ops: &'static TallyOps,
    /// Of the DDS: elements, or rows of them.
    element: &'static ElementOps,
    /// How many there are.
    len: usize,
    /// How many of a new tally stand for each of them.
    spread: AtomicUsize,
    /// Whether new tallies have all elements; and whether there is memory for such ones.
    whole: AtomicBool,
    may_be_whole: bool,
    copies: Mutex<Copies>,
}

enum Copies {
    /// For whatever block comes next: those that hold something, with the thread that added it last, and zeros.
    Any(Vec<(ThreadId, Tally)>, Vec<Tally>),
    /// By the block's place in the serial order.
    ByBlock(BTreeMap<usize, Tally>),
}

impl Tallies {
    pub(crate) fn new(plan: &Plan, captured: &[Captured]) -> Tallies {
        let sheet = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Vector { len, ops: element, .. } => {
                let many = plan.facts.summed_up_whole.contains(&c);
                ops_of(plan, captured, c)
                    .map(|ops| Sheet::new(ops, (element, len), (ops.spread)(len), (plan.blocks.len(), many)))
            }
            Kind::Reduction { .. } | Kind::Relaxed { .. } => None,
        };
        Tallies { sheets: captured.iter().enumerate().map(sheet).collect() }
    }

    /// Tallies to record a loop with: they take what is added, which means nothing, from slice to slice.
    pub(crate) fn to_record(captured: &[Captured], tallied: &[bool]) -> Tallies {
        let sheet = |(capture, &tallied): (&Captured, &bool)| match capture.kind {
            Kind::Vector { len, ops: element, adding: Some(Adding { ops, .. }), .. } if tallied => {
                let copies = Mutex::new(Copies::Any(Vec::new(), Vec::new()));
                Some(Sheet { copies, ..Sheet::new(ops, (element, len), (ops.spread)(len), (THREADS, false)) })
            }
            _ => None,
        };
        Tallies { sheets: captured.iter().zip(tallied).map(sheet).collect() }
    }

    /// The same with nothing in them, of sums whose bits depend on the blocks: what a replay needs.
    pub(crate) fn to_replay(&self) -> Tallies {
        let again = |sheet: &Sheet| Sheet {
            may_be_whole: sheet.may_be_whole,
            ..Sheet::new(
                sheet.ops,
                (sheet.element, sheet.len),
                sheet.spread.load(Relaxed),
                (1, sheet.whole.load(Relaxed)),
            )
        };
        let by_block = |sheet: &Option<Sheet>| sheet.as_ref().filter(|sheet| !sheet.ops.exact).map(again);
        Tallies { sheets: self.sheets.iter().map(by_block).collect() }
    }

    fn sheet(&self, c: usize) -> Option<&Sheet> {
        self.sheets.get(c)?.as_ref()
    }

    /// Whether nothing is tallied.
    pub(crate) fn is_empty(&self) -> bool {
        self.sheets.iter().all(Option::is_none)
    }

    /// Whether a capture is tallied.
    pub(crate) fn has(&self, c: usize) -> bool {
        self.sheet(c).is_some()
    }

    /// What a block adds to; none of a capture that isn't tallied.
    pub(crate) fn take(&self, c: usize, block: usize) -> Option<Tally> {
        let sheet = self.sheet(c)?;
        let there = match &mut *locked(&sheet.copies) {
            Copies::Any(copies, zeros) => {
                let own = copies.iter().position(|(thread, _)| *thread == current().id());
                own.map(|at| copies.swap_remove(at).1).or_else(|| zeros.pop()).or_else(|| Some(copies.pop()?.1))
            }
            Copies::ByBlock(copies) => copies.remove(&block),
        };
        Some(there.unwrap_or_else(|| sheet.zeros()))
    }

    /// A block has ended well.
    pub(crate) fn put(&self, c: usize, block: usize, tally: Tally) {
        let Some(sheet) = self.sheet(c) else { return };
        let tally = match tally {
            Tally::Pages(pages) if sheet.may_be_whole && pages.is_full() => {
                sheet.whole.store(true, Relaxed);
                // (Uniting could panic where it isn't steady.)
                if (sheet.ops.steady)() { Tally::Whole(pages.into_whole()) } else { Tally::Pages(pages) }
            }
            Tally::Pages(pages) => Tally::Pages(pages),
            Tally::Whole(mut tally) => {
                while (sheet.ops.crowded)(&tally) {
                    (sheet.ops.grow)(&mut tally);
                    sheet.spread.fetch_max(tally.len() / sheet.len, Relaxed);
                }
                Tally::Whole(tally)
            }
        };
        sheet.store(block, tally);
    }

    /// Forgets what blocks have added: the loop has failed.
    pub(crate) fn clear(&self) {
        for sheet in self.sheets.iter().flatten() {
            let copies = std::mem::replace(&mut *locked(&sheet.copies), Copies::none(sheet.ops));
            // What destructors say is no failure of the loop, which has one.
            let _dropped = panics::caught(|| drop(copies));
        }
    }

    /// Adds all tallies to their DDSs, and leaves zeros of them. If that panics, all elements are as before.
    pub(crate) fn unite(&self, lease: &Lease<'_>, threads: &dyn Threads) -> Result<(), CaughtPanic> {
        let mut saved = Vec::new();
        let united = self.sheets.iter().enumerate().try_for_each(|(c, sheet)| {
            let (Some(sheet), Some(lent)) = (sheet, lease.vector(c)) else { return Ok(()) };
            assert!(lent.is_writable() && lent.len() == sheet.len && lent.ops().is(sheet.element));
            panics::caught(|| {
                if !(sheet.ops.steady)() {
                    let mut copy = RawBuf::new(lent.ops(), lent.len());
                    // SAFETY: this many elements are lent, and nobody writes them (rule 1).
                    unsafe { copy.push_clones(lent.base(), lent.len()) };
                    saved.push((c, copy));
                }
                sheet.unite(lent, threads);
            })
        });
        if united.is_err() {
            for (c, copy) in &mut saved {
                if let Some(lent) = lease.vector(*c) {
                    let bytes = copy.len() * lent.ops().size;
                    // SAFETY: both hold as many elements, apart from each other, and nobody else uses them (rule 1).
                    unsafe { std::ptr::swap_nonoverlapping(copy.as_mut_ptr(), lent.base(), bytes) };
                }
            }
            self.clear();
        }
        let dropped = panics::caught(|| drop(saved));
        united.and(dropped.or(Ok(())))
    }

    /// What this process's blocks have added, as bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let number = |number: usize, bytes: &mut Vec<u8>| bytes.extend_from_slice(&(number as u64).to_ne_bytes());
        for sheet in self.sheets.iter().flatten() {
            let mut copies = locked(&sheet.copies).take_all();
            if sheet.ops.exact {
                sheet.fold(&mut copies);
            }
            number(copies.len(), &mut bytes);
            for (block, tally) in copies {
                number(block, &mut bytes);
                match tally {
                    Tally::Whole(tally) => {
                        number(tally.len() / sheet.len, &mut bytes);
                        tally.encode_range(0, tally.len(), &mut bytes);
                    }
                    Tally::Pages(pages) => {
                        number(0, &mut bytes);
                        number(pages.touched().len(), &mut bytes);
                        for &page in pages.touched() {
                            number(page as usize, &mut bytes);
                            pages.encode_page(page as usize, &mut bytes);
                        }
                    }
                }
            }
        }
        bytes
    }

    /// Takes what another process's blocks have added. False: that is no such thing.
    pub(crate) fn decode(&self, mut bytes: &[u8]) -> bool {
        fn number(bytes: &mut &[u8]) -> Option<usize> {
            let (first, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            usize::try_from(u64::from_ne_bytes(*first)).ok()
        }
        let mut one = |sheet: &Sheet| -> Option<()> {
            for _ in 0..number(&mut bytes)? {
                let (block, spread) = (number(&mut bytes)?, number(&mut bytes)?);
                if spread == 0 {
                    // (By rule 3.)
                    (sheet.element.width() == 1).then_some(())?;
                    let mut pages = Pages::new(sheet.ops, sheet.len);
                    for _ in 0..number(&mut bytes)? {
                        let page = number(&mut bytes).filter(|&page| page < pages.pages())?;
                        pages.decode_page(page, &mut bytes).ok()?;
                    }
                    sheet.store(block, Tally::Pages(Box::new(pages)));
                    continue;
                }
                // No length is believed before there are bytes to bear it out.
                let len =
                    sheet.len.checked_mul(spread).filter(|&len| spread.is_power_of_two() && len <= bytes.len())?;
                let mut tally = RawBuf::new(sheet.element, len);
                tally.push_decoded(len, &mut bytes).ok()?;
                sheet.store(block, Tally::Whole(tally));
            }
            Some(())
        };
        let all = self.sheets.iter().flatten().all(|sheet| one(sheet).is_some());
        all && bytes.is_empty()
    }
}

impl Sheet {
    /// Of a DDS of this many elements. How many tallies there may be, and whether all have all elements from the first on.
    fn new(ops: &'static TallyOps, (element, len): Elements, spread: usize, (blocks, whole): (usize, bool)) -> Sheet {
        assert!(element.of_one().is((ops.element)()), "tallies of another type");
        let copies = if ops.exact { THREADS } else { blocks };
        let bytes = element.size.saturating_mul(len);
        let may_be_whole = !is_by_pages(element) || bytes.saturating_mul(copies) <= MOST_BYTES;
        let whole = may_be_whole && (whole || !is_by_pages(element) || bytes < LEAST_BYTES);
        let copies = Mutex::new(Copies::none(ops));
        let (spread, whole) = (AtomicUsize::new(spread), AtomicBool::new(whole));
        Sheet { ops, element, len, spread, whole, may_be_whole, copies }
    }

    fn zeros(&self) -> Tally {
        if self.whole.load(Relaxed) {
            Tally::Whole((self.ops.zeros)(self.element, self.len * self.spread.load(Relaxed)))
        } else {
            Tally::Pages(Box::new(Pages::new(self.ops, self.len)))
        }
    }

    fn store(&self, block: usize, tally: Tally) {
        match &mut *locked(&self.copies) {
            Copies::Any(copies, _) => copies.push((current().id(), tally)),
            Copies::ByBlock(copies) => drop(copies.insert(block, tally)),
        }
    }

    /// All tallies with all elements, and equally long.
    fn level(&self, copies: Vec<(usize, Tally)>) -> Vec<(usize, RawBuf)> {
        let mut copies: Vec<_> = copies.into_iter().map(|(block, tally)| (block, tally.into_whole())).collect();
        let len = copies.iter().map(|(_, tally)| tally.len()).max().unwrap_or(0);
        for (_, tally) in &mut copies {
            while tally.len() < len {
                (self.ops.grow)(tally);
            }
        }
        copies
    }

    /// One tally of several.
    fn fold(&self, copies: &mut Vec<(usize, Tally)>) {
        let copies_now = match by_pages(std::mem::take(copies)) {
            Ok(mut by_pages) => {
                let mut rest = by_pages.split_off(by_pages.len().min(1));
                if let Some((_, first)) = by_pages.first_mut() {
                    rest.iter_mut().for_each(|(_, other)| self.ops.add_pages(first, other));
                }
                by_pages.into_iter().map(|(block, pages)| (block, Tally::Pages(pages))).collect()
            }
            Err(mixed) => {
                let mut copies = self.level(mixed);
                let mut rest = copies.split_off(copies.len().min(1));
                if let Some((_, first)) = copies.first_mut() {
                    for (_, other) in &mut rest {
                        let numbers = first.len() * self.element.width();
                        // SAFETY: both are of this type and as long (rule 3); they are borrowed alone.
                        unsafe { self.ops.unite(first.as_mut_ptr(), other.as_mut_ptr(), numbers, 1) };
                    }
                }
                copies.into_iter().map(|(block, tally)| (block, Tally::Whole(tally))).collect()
            }
        };
        *copies = copies_now;
    }

    /// Adds all tallies to the DDS. The tree is over their places, and the same for every element.
    fn unite(&self, lent: &Lent, threads: &dyn Threads) {
        let copies = locked(&self.copies).take_all();
        let zeros = match by_pages(copies) {
            Ok(mut copies) => {
                self.unite_pages(&mut copies, lent, threads);
                copies.into_iter().map(|(block, pages)| (block, Tally::Pages(pages))).collect()
            }
            Err(mixed) => {
                let copies = self.level(mixed);
                self.unite_whole(&copies, lent, threads);
                copies.into_iter().map(|(block, tally)| (block, Tally::Whole(tally))).collect()
            }
        };
        locked(&self.copies).put_zeros(zeros);
    }

    fn unite_whole(&self, copies: &[(usize, RawBuf)], lent: &Lent, threads: &dyn Threads) {
        let bases = Bases(copies.iter().map(|(_, tally)| tally.base()).collect());
        let Some(spread) = copies.first().map(|(_, tally)| tally.len() / self.len) else { return };
        let (size, width) = (self.element.size, self.element.width());
        let most = (RUN / width).max(1);
        threads.run(self.len.div_ceil(most), &|run| {
            let lo = run * most;
            let n = most.min(self.len - lo) * width;
            let bases = &bases;
            let at = |k: usize| bases.0[k].wrapping_add(lo * spread * size);
            let mut apart = 1;
            while apart < bases.0.len() {
                for k in (0..bases.0.len() - apart).step_by(2 * apart) {
                    // SAFETY: all tallies have `len * spread` elements; rules 1 to 3.
                    unsafe { self.ops.unite(at(k), at(k + apart), n * spread, 1) };
                }
                apart *= 2;
            }
            // SAFETY: the DDS has `len` elements; rules 1 and 2.
            unsafe { self.ops.unite(lent.at(lo), at(0), n, spread) };
        });
    }

    fn unite_pages(&self, copies: &mut [(usize, Box<Pages>)], lent: &Lent, threads: &dyn Threads) {
        let pages = copies.first().map_or(0, |(_, copy)| copy.pages());
        let touched: usize = copies.iter().map(|(_, copy)| copy.touched().len()).sum();
        let runs = touched.div_ceil(RUN_OF_PAGES).min(pages);
        copies.iter_mut().for_each(|(_, copy)| copy.sort());
        let shared: &[(usize, Box<Pages>)] = copies;
        threads.run(runs, &|run| {
            // Which of the tallies have which of these pages: by page, and then by the tally's place.
            let (from, to) = (run * pages / runs, (run + 1) * pages / runs);
            let mut there: Vec<(u32, u32)> = Vec::new();
            for (place, (_, copy)) in shared.iter().enumerate() {
                let touched = copy.touched();
                let at = |page: usize| touched.partition_point(|&other| (other as usize) < page);
                there.extend(touched[at(from)..at(to)].iter().map(|&page| (page, place as u32)));
            }
            there.sort_by_key(|&(page, _)| page);
            for same in there.chunk_by(|a, b| a.0 == b.0) {
                let page = same[0].0 as usize;
                let (first, n) = shared[0].1.of_page(page);
                let at = |place: u32| shared[place as usize].1.at_page(page);
                // SAFETY: each has `n` elements there; rules 1 and 2, for all of a page is one thread's.
                let unite = |to: u32, from: u32| unsafe { self.ops.unite(at(to), at(from), n, 1) };
                let all = in_tree(same.iter().map(|&(_, place)| place), unite);
                // SAFETY: the DDS has these elements; rules 1 and 2.
                unsafe { self.ops.unite(lent.at(first), at(all), n, 1) };
            }
        });
        copies.iter_mut().for_each(|(_, copy)| copy.clear());
    }
}

/// All tallies by pages, if none has all elements.
#[allow(clippy::type_complexity, reason = "the one or the other")]
fn by_pages(copies: Vec<(usize, Tally)>) -> Result<Vec<(usize, Box<Pages>)>, Vec<(usize, Tally)>> {
    if copies.is_empty() || copies.iter().any(|(_, tally)| matches!(tally, Tally::Whole(_))) {
        return Err(copies);
    }
    let pages = |(block, tally)| match tally {
        Tally::Pages(pages) => Some((block, pages)),
        Tally::Whole(_) => None,
    };
    Ok(copies.into_iter().filter_map(pages).collect())
}

/// Unites what stands at some places, ascending, as the tree over all places does where there is nothing at the others. Gives where
/// it is in the end.
fn in_tree(places: impl Iterator<Item = u32>, unite: impl Fn(u32, u32)) -> u32 {
    // Two places meet in a subtree that is the larger the higher the first bit is in which they differ.
    let meet = |a: u32, b: u32| (a ^ b).leading_zeros();
    let mut open: Vec<u32> = Vec::new();
    for place in places {
        while let [.., before, last] = open[..]
            && meet(before, last) > meet(last, place)
        {
            unite(before, last);
            open.pop();
        }
        open.push(place);
    }
    while let [.., before, last] = open[..] {
        unite(before, last);
        open.pop();
    }
    open.first().copied().unwrap_or(0)
}

/// Where tallies lie.
struct Bases(Vec<*mut u8>);
// SAFETY: rule 2.
unsafe impl Sync for Bases {}

impl Copies {
    fn none(ops: &TallyOps) -> Copies {
        if ops.exact { Copies::Any(Vec::new(), Vec::new()) } else { Copies::ByBlock(BTreeMap::new()) }
    }

    /// Takes those that hold something, in their order.
    fn take_all(&mut self) -> Vec<(usize, Tally)> {
        match self {
            Copies::Any(copies, _) => std::mem::take(copies).into_iter().map(|(_, tally)| (0, tally)).collect(),
            Copies::ByBlock(copies) => std::mem::take(copies).into_iter().collect(),
        }
    }

    /// Puts them back as zeros.
    fn put_zeros(&mut self, list: Vec<(usize, Tally)>) {
        match self {
            Copies::Any(_, zeros) => zeros.extend(list.into_iter().map(|(_, tally)| tally)),
            Copies::ByBlock(copies) => copies.extend(list),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::memory::additive::tally_ops_of;

    #[test]
    fn a_tree_over_some_places_groups_as_the_tree_over_all() {
        for n in [1usize, 2, 3, 5, 8, 13, 32, 37] {
            for pattern in 1..300u64 {
                let there: Vec<usize> =
                    (0..n).filter(|k| pattern.wrapping_mul((k * k + 3 + n) as u64) % 7 < 3).collect();
                let text = |k: usize| if there.contains(&k) { format!("{k}") } else { String::new() };
                let united = |a: &str, b: &str| match (a, b) {
                    ("", one) | (one, "") => one.to_string(),
                    _ => format!("({a} {b})"),
                };
                let mut all: Vec<String> = (0..n).map(text).collect();
                let mut apart = 1;
                while apart < n {
                    for k in (0..n - apart).step_by(2 * apart) {
                        all[k] = united(&all[k], &all[k + apart]);
                    }
                    apart *= 2;
                }
                let some = RefCell::new((0..n).map(text).collect::<Vec<_>>());
                let last = in_tree(there.iter().map(|&k| k as u32), |to, from| {
                    let mut some = some.borrow_mut();
                    some[to as usize] = united(&some[to as usize], &some[from as usize]);
                });
                if !there.is_empty() {
                    assert_eq!(some.borrow()[last as usize], all[0], "{there:?} of {n}");
                }
            }
        }
    }

    #[test]
    fn tallies_by_pages_and_whole_ones_travel_and_add_up() {
        let ops = tally_ops_of::<f64>();
        let len = 20_001;
        let sheets = || Tallies { sheets: vec![Some(Sheet::new(ops, ((ops.element)(), len), 1, (4, false)))] };
        let (tallies, other) = (sheets(), sheets());
        for block in 0..3 {
            let Some(Tally::Pages(mut pages)) = tallies.take(0, block) else { panic!("few of many") };
            for i in [5, 20_000, 16 * block] {
                // SAFETY: an element of this type lies there, of a tally that nobody else has.
                unsafe { *pages.reach(i).cast::<f64>() += 1.5 };
            }
            tallies.put(0, block, Tally::Pages(pages));
        }
        assert!(other.decode(&tallies.encode()));
        assert!(!other.decode(&[1, 0, 0]));
        let sheet = other.sheet(0).unwrap();
        let copies = sheet.level(locked(&sheet.copies).take_all());
        let sum = |i: usize| copies.iter().map(|(_, tally)| tally.as_slice::<f64>()[i]).sum::<f64>();
        assert_eq!(copies.len(), 3);
        assert_eq!([5, 20_000, 0, 16, 32, 7].map(sum), [4.5, 4.5, 1.5, 1.5, 1.5, 0.0]);
    }
}
