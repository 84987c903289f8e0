//! Tallies: copies of a DDS that a loop only adds to. A block adds to one of its own, which begins as zeros; when all blocks
//! have ended well, the tallies are added up, and then to the DDS. So what the loop adds makes no iterations conflict.
//!
//! Where all orders of additions give the same bits (integers), a tally goes from block to block, and there are as many as
//! blocks ran at a time. Otherwise each block has its own, and they are united in a fixed tree over the plan's serial order.
//!
//! # Why this is sound
//! 1. Tallies are united when no block runs: nobody else uses them or the DDS, which the loop has borrowed alone.
//! 2. Each range of elements is united by one thread, and ranges don't overlap.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::{ThreadId, current};

use crate::body::capture::{Adding, Captured, Kind};
use crate::body::lease::{Lease, Lent};
use crate::body::panics::{self, CaughtPanic};
use crate::memory::additive::TallyOps;
use crate::memory::buffer::RawBuf;
use crate::planner::Threads;
use crate::planner::plan::Plan;
use crate::planner::recording::{Recording, Usage};
use crate::session::locked;
use crate::session::options::{LoopOptions, Order, Strategy};

/// How many tallies an exact sum is expected to have. A constant, for plans must not depend on the machine.
const THREADS: usize = 8;
/// How many blocks a plan has, and with them tallies of a sum that is not exact: where nothing conflicts,
const BLOCKS: usize = 32;
/// and else, or where the loop says so.
const MOST_BLOCKS: usize = 1024;
/// Tallies of one DDS take no more bytes than this.
const MOST_BYTES: usize = 256 << 20;
/// Elements that a thread unites at a time.
const RUN: usize = 1 << 12;

/// The tallies of one plan, kept from call to call: between two calls they hold zeros.
pub(crate) struct Tallies {
    /// By capture.
    sheets: Vec<Option<Sheet>>,
}

struct Sheet {
    ops: &'static TallyOps,
    /// How many elements the DDS has.
    len: usize,
    /// How many of a new tally stand for each of them.
    spread: AtomicUsize,
    copies: Mutex<Copies>,
}

enum Copies {
    /// For whatever block comes next: those that hold something, with the thread that added it last, and zeros.
    Any(Vec<(ThreadId, RawBuf)>, Vec<RawBuf>),
    /// By the block's place in the serial order.
    ByBlock(BTreeMap<usize, RawBuf>),
}

/// How a capture may be added up in tallies, and how many elements it has.
fn adds(capture: &Captured, options: &LoopOptions) -> Option<(&'static TallyOps, usize)> {
    let Kind::Vector { len: len @ 1.., adding: Some(adding), .. } = capture.kind else { return None };
    // What asks for a plan of parts gets one.
    let said = options.strategy.is_some() || options.parts.is_some();
    let may = if adding.ops.exact { adding.declared || !said } else { adding.declared && options.order == Order::Any };
    (may && options.strategy != Some(Strategy::Serial)).then_some((adding.ops, len))
}

/// Whether a loop of this many iterations would probably have a capture added up in tallies, if it said `sum x`.
pub(crate) fn could(capture: &Captured, usage: Usage, options: &LoopOptions, iterations: usize) -> bool {
    let Kind::Vector { len, adding: Some(adding), .. } = capture.kind else { return false };
    let free = options.order == Order::Any && options.strategy.is_none() && options.parts.is_none();
    !adding.declared && usage == Usage::Shared && free && len.saturating_mul(BLOCKS / 2) <= iterations
}

/// Whether tallies cost less than an order of the additions.
fn is_worthwhile(recording: &Recording<'_>, c: usize, (ops, len): (&TallyOps, usize), options: &LoopOptions) -> bool {
    let alone = recording.shared().into_iter().all(|shared| shared == c);
    let (copies, each) = match (ops.exact, alone && options.parts.is_none() && options.grain.is_none()) {
        (true, _) => (THREADS, 1),
        (false, true) => (BLOCKS, BLOCKS / 2),
        (false, false) => (MOST_BLOCKS, MOST_BLOCKS / 2),
    };
    let bytes = (ops.element)().size.saturating_mul(len).saturating_mul(copies);
    bytes <= MOST_BYTES && len as f64 * each as f64 <= recording.accesses(c)
}

/// The maps that are added up in tallies whatever the recording says: none is in step, and an access to one takes long to record.
pub(crate) fn beforehand(captured: &[Captured], options: &LoopOptions, iterations: usize) -> Vec<bool> {
    let tallied = |capture: &Captured| {
        adds(capture, options).is_some_and(|(ops, len)| {
            ops.exact && (ops.element)().by_key && len <= iterations && THREADS * len <= MOST_BYTES / 64
        })
    };
    captured.iter().map(tallied).collect()
}

/// Takes those captures out of a recording that are to be added up in tallies, besides those that were known to be before.
pub(crate) fn leave_out(
    recording: &mut Recording<'_>,
    tallied: &mut [bool],
    captured: &[Captured],
    options: &LoopOptions,
) {
    for (c, capture) in captured.iter().enumerate() {
        tallied[c] |= recording.usage[c] == Usage::Shared
            && recording.in_all_blocks.is_none()
            && adds(capture, options).is_some_and(|adding| is_worthwhile(recording, c, adding, options));
    }
    (0..tallied.len()).filter(|&c| tallied[c]).for_each(|c| recording.leave_out(c));
}

/// How the plan has a capture added up in tallies, if it does.
pub(crate) fn ops_of(plan: &Plan, captured: &[Captured], c: usize) -> Option<&'static TallyOps> {
    match captured[c].kind {
        Kind::Vector { adding: Some(adding), .. }
            if plan.strategy != Strategy::Serial && plan.usage[c] == Usage::Reduction =>
        {
            Some(adding.ops)
        }
        _ => None,
    }
}

impl Tallies {
    pub(crate) fn new(plan: &Plan, captured: &[Captured]) -> Tallies {
        let sheet = |(c, capture): (usize, &Captured)| match capture.kind {
            Kind::Vector { len, .. } => ops_of(plan, captured, c).map(|ops| Sheet::new(ops, len, (ops.spread)(len))),
            Kind::Reduction { .. } | Kind::Relaxed { .. } => None,
        };
        Tallies { sheets: captured.iter().enumerate().map(sheet).collect() }
    }

    /// Tallies to record a loop with: they take what is added, which means nothing, from slice to slice.
    pub(crate) fn to_record(captured: &[Captured], tallied: &[bool]) -> Tallies {
        let sheet = |(capture, &tallied): (&Captured, &bool)| match capture.kind {
            Kind::Vector { len, adding: Some(Adding { ops, .. }), .. } if tallied => {
                let copies = Mutex::new(Copies::Any(Vec::new(), Vec::new()));
                Some(Sheet { ops, len, spread: AtomicUsize::new((ops.spread)(len)), copies })
            }
            _ => None,
        };
        Tallies { sheets: captured.iter().zip(tallied).map(sheet).collect() }
    }

    /// The same with nothing in them, of sums whose bits depend on the blocks: what a replay needs.
    pub(crate) fn to_replay(&self) -> Tallies {
        let again = |sheet: &Sheet| Sheet::new(sheet.ops, sheet.len, sheet.spread.load(Relaxed));
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
    pub(crate) fn take(&self, c: usize, block: usize) -> Option<RawBuf> {
        let sheet = self.sheet(c)?;
        let there = match &mut *locked(&sheet.copies) {
            Copies::Any(copies, zeros) => {
                let own = copies.iter().position(|(thread, _)| *thread == current().id());
                own.map(|at| copies.swap_remove(at).1).or_else(|| zeros.pop()).or_else(|| Some(copies.pop()?.1))
            }
            Copies::ByBlock(copies) => copies.remove(&block),
        };
        Some(there.unwrap_or_else(|| (sheet.ops.zeros)(sheet.len * sheet.spread.load(Relaxed))))
    }

    /// A block has ended well.
    pub(crate) fn put(&self, c: usize, block: usize, mut tally: RawBuf) {
        let Some(sheet) = self.sheet(c) else { return };
        while (sheet.ops.crowded)(&tally) {
            (sheet.ops.grow)(&mut tally);
            sheet.spread.fetch_max(tally.len() / sheet.len, Relaxed);
        }
        match &mut *locked(&sheet.copies) {
            Copies::Any(copies, _) => copies.push((current().id(), tally)),
            Copies::ByBlock(copies) => drop(copies.insert(block, tally)),
        }
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
            assert!(lent.is_writable() && lent.len() == sheet.len && lent.ops().is((sheet.ops.element)()));
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
                number(tally.len() / sheet.len, &mut bytes);
                tally.encode_range(0, tally.len(), &mut bytes);
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
                // No length is believed before there are bytes to bear it out.
                let len =
                    sheet.len.checked_mul(spread).filter(|&len| spread.is_power_of_two() && len <= bytes.len())?;
                let mut tally = RawBuf::new((sheet.ops.element)(), len);
                tally.push_decoded(len, &mut bytes).ok()?;
                match &mut *locked(&sheet.copies) {
                    Copies::Any(copies, _) => copies.push((current().id(), tally)),
                    Copies::ByBlock(copies) => drop(copies.insert(block, tally)),
                }
            }
            Some(())
        };
        let all = self.sheets.iter().flatten().all(|sheet| one(sheet).is_some());
        all && bytes.is_empty()
    }
}

impl Sheet {
    fn new(ops: &'static TallyOps, len: usize, spread: usize) -> Sheet {
        Sheet { ops, len, spread: AtomicUsize::new(spread), copies: Mutex::new(Copies::none(ops)) }
    }

    /// Gives all tallies the same length.
    fn level(&self, copies: &mut [(usize, RawBuf)]) {
        let len = copies.iter().map(|(_, tally)| tally.len()).max().unwrap_or(0);
        for (_, tally) in copies {
            while tally.len() < len {
                (self.ops.grow)(tally);
            }
        }
    }

    /// One tally of several.
    fn fold(&self, copies: &mut Vec<(usize, RawBuf)>) {
        self.level(copies);
        let mut rest = copies.split_off(copies.len().min(1));
        if let Some((_, first)) = copies.first_mut() {
            for (_, other) in &mut rest {
                // SAFETY: both are of this type and as long; they are borrowed alone.
                unsafe { self.ops.unite(first.as_mut_ptr(), other.as_mut_ptr(), first.len(), 1) };
            }
        }
    }

    /// Adds all tallies to the DDS. The tree is over their places, and the same for every element.
    fn unite(&self, lent: &Lent, threads: &dyn Threads) {
        let mut copies = locked(&self.copies).take_all();
        self.level(&mut copies);
        let bases = Bases(copies.iter().map(|(_, tally)| tally.base()).collect());
        let Some(spread) = copies.first().map(|(_, tally)| tally.len() / self.len) else { return };
        let size = lent.ops().size;
        threads.run(self.len.div_ceil(RUN), &|run| {
            let (lo, n) = (run * RUN, RUN.min(self.len - run * RUN));
            let bases = &bases;
            let at = |k: usize| bases.0[k].wrapping_add(lo * spread * size);
            let mut apart = 1;
            while apart < bases.0.len() {
                for k in (0..bases.0.len() - apart).step_by(2 * apart) {
                    // SAFETY: all tallies have `len * spread` elements; rules 1 and 2.
                    unsafe { self.ops.unite(at(k), at(k + apart), n * spread, 1) };
                }
                apart *= 2;
            }
            // SAFETY: the DDS has `len` elements; rules 1 and 2.
            unsafe { self.ops.unite(lent.at(lo), at(0), n, spread) };
        });
        locked(&self.copies).put_zeros(copies);
    }
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
    fn take_all(&mut self) -> Vec<(usize, RawBuf)> {
        match self {
            Copies::Any(copies, _) => std::mem::take(copies).into_iter().map(|(_, tally)| (0, tally)).collect(),
            Copies::ByBlock(copies) => std::mem::take(copies).into_iter().collect(),
        }
    }

    /// Puts them back as zeros.
    fn put_zeros(&mut self, list: Vec<(usize, RawBuf)>) {
        match self {
            Copies::Any(_, zeros) => zeros.extend(list.into_iter().map(|(_, tally)| tally)),
            Copies::ByBlock(copies) => copies.extend(list),
        }
    }
}
