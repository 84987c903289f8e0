//! The log of a virtual iteration: which elements each iteration touches.
//!
//! A loop is recorded in slices of [`SLICE`] iterations, by as many threads as there are. For each slice and
//! each capture the log is a flat array of accesses (index and write bit in 32 bits), delimited only where
//! the number of accesses changes from iteration to iteration. A DDS that is read in step with the loop
//! (`x[i + c]` in iteration `i`) is not listed at all: a run of flags says so.
//!
//! (STRADS-AP section 3, "virtual iteration"; IterStore section 3.2.)

use std::borrow::Cow;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::planner::inference::{Derived, FieldPlace};

/// How many iterations one log covers. A constant: plans must not depend on the number of threads.
pub(crate) const SLICE: usize = 1 << 14;

/// Indices share 32 bits with the write bit.
pub(crate) const MAX_LEN: usize = (1 << 31) - 1;

const READ: u8 = 1;
const WRITE: u8 = 2;

/// What one capture's elements saw in one slice.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CaptureLog {
    first: usize,
    at: usize,
    /// `index - iteration`, as long as all accesses share it.
    offset: Option<usize>,
    strayed_from_step: bool,
    /// In-step accesses: from which iteration of the slice on they are of which kind.
    step_runs: Vec<(u32, u8)>,
    step_now: u8,
    /// `index << 1 | written`, iteration by iteration, each sorted and without repetition.
    #[serde(with = "crate::memory::bulk")]
    entries: Vec<u32>,
    /// Where each iteration's entries end, once their number is not always the same.
    #[serde(with = "crate::memory::bulk")]
    ends: Vec<u32>,
    per_iteration: usize,
    iterations: usize,
    mark: usize,
    touched: u32,
    /// All accesses so far, repeated ones too.
    total: u64,
    reads_only: bool,
    wrote: bool,
}

impl CaptureLog {
    /// A log for a slice that begins with iteration `first`. Captures that can't be written need no entries.
    pub(crate) fn new(first: usize, iterations: usize, writable: bool) -> Self {
        CaptureLog {
            first,
            at: first,
            reads_only: !writable,
            entries: Vec::with_capacity(if writable { iterations } else { 0 }),
            ..CaptureLog::default()
        }
    }

    /// A log whose accesses are pushed one by one.
    pub(crate) fn listing(first: usize, iterations: usize) -> Self {
        CaptureLog { strayed_from_step: true, ..CaptureLog::new(first, iterations, true) }
    }

    /// A log with exactly one access an iteration.
    pub(crate) fn of_single(entries: Vec<u32>) -> Self {
        CaptureLog {
            strayed_from_step: true,
            per_iteration: 1,
            iterations: entries.len(),
            entries,
            ..CaptureLog::default()
        }
    }

    /// Notes an access of the running iteration, and returns how many it made so far.
    #[inline]
    pub(crate) fn access(&mut self, index: usize, write: bool) -> u32 {
        self.touched += 1;
        let flags = if write { WRITE } else { READ };
        if !self.strayed_from_step {
            let offset = index.wrapping_sub(self.at);
            if *self.offset.get_or_insert(offset) == offset {
                self.step_now |= flags;
                return self.touched;
            }
            self.leave_step();
        }
        self.push(index, write);
        self.touched
    }

    #[inline]
    pub(crate) fn push(&mut self, index: usize, write: bool) {
        self.wrote |= write;
        if self.reads_only {
            return;
        }
        let entry = (index as u32) << 1 | u32::from(write);
        if self.entries.len() > self.mark {
            let last = self.entries.len() - 1;
            if self.entries[last] >> 1 == entry >> 1 {
                self.entries[last] |= entry;
                return;
            }
        }
        self.entries.push(entry);
    }

    /// Ends the running iteration.
    #[inline]
    pub(crate) fn end_iteration(&mut self) {
        self.total += u64::from(self.touched);
        self.touched = 0;
        let k = self.iterations;
        if self.strayed_from_step {
            self.close_entries(k);
        } else if self.step_runs.last().map_or(0, |run| run.1) != self.step_now {
            self.step_runs.push((k as u32, self.step_now));
        }
        self.step_now = 0;
        self.iterations += 1;
        self.at += 1;
    }

    #[inline]
    fn close_entries(&mut self, k: usize) {
        if self.entries.len() > self.mark + 1 {
            sort_iteration(&mut self.entries, self.mark);
        }
        let count = self.entries.len() - self.mark;
        if self.ends.is_empty() {
            if k == 0 {
                self.per_iteration = count;
            } else if count != self.per_iteration {
                let each = self.per_iteration as u32;
                self.ends.extend((1..=k as u32).map(|n| n * each));
                self.ends.push(self.entries.len() as u32);
            }
        } else {
            self.ends.push(self.entries.len() as u32);
        }
        self.mark = self.entries.len();
    }

    /// Forgets the running iteration's accesses, which will be recorded again.
    pub(crate) fn discard_iteration(&mut self) {
        self.touched = 0;
        self.step_now = 0;
        self.entries.truncate(self.mark);
    }

    /// Writes out the accesses that were in step so far: they no longer all are.
    fn leave_step(&mut self) {
        self.strayed_from_step = true;
        let offset = self.offset.unwrap_or(0);
        let runs = std::mem::take(&mut self.step_runs);
        let (now, first, done) = (self.step_now, self.first, self.iterations);
        self.entries.clear();
        self.mark = 0;
        let bounds = runs.iter().map(|run| run.0 as usize).skip(1).chain([done]);
        let mut from = 0;
        for (run, to) in runs.iter().zip(bounds) {
            self.write_out(from, run.0 as usize, 0, first, offset);
            self.write_out(run.0 as usize, to, run.1, first, offset);
            from = to;
        }
        self.write_out(from, done, 0, first, offset);
        if now != 0 {
            self.push_flags(first.wrapping_add(done).wrapping_add(offset), now);
        }
    }

    fn write_out(&mut self, from: usize, to: usize, flags: u8, first: usize, offset: usize) {
        for k in from..to {
            if flags != 0 {
                self.push_flags(first.wrapping_add(k).wrapping_add(offset), flags);
            }
            self.close_entries(k);
        }
    }

    fn push_flags(&mut self, index: usize, flags: u8) {
        self.push(index, flags & WRITE != 0);
    }

    fn wrote_in_step(&self) -> bool {
        self.step_runs.iter().any(|run| run.1 & WRITE != 0)
    }

    /// How many accesses are listed.
    pub(crate) fn listed(&self) -> usize {
        self.entries.len()
    }

    /// The number of accesses of every iteration, where it is always the same.
    #[inline]
    pub(crate) fn uniform(&self) -> Option<usize> {
        self.ends.is_empty().then_some(self.per_iteration)
    }

    /// All entries, one iteration after the other.
    #[inline]
    pub(crate) fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// The entries of the slice's `k`-th iteration.
    #[inline]
    pub(crate) fn of(&self, k: usize) -> &[u32] {
        if self.ends.is_empty() {
            &self.entries[k * self.per_iteration..(k + 1) * self.per_iteration]
        } else {
            let from = if k == 0 { 0 } else { self.ends[k - 1] as usize };
            &self.entries[from..self.ends[k] as usize]
        }
    }

    fn bytes(&self) -> usize {
        4 * (self.entries.capacity() + self.ends.capacity()) + 8 * self.step_runs.capacity()
    }
}

/// Sorts an iteration's accesses and unites those of the same element.
pub(crate) fn sort_iteration(entries: &mut Vec<u32>, mark: usize) {
    if entries.len() <= mark + 1 {
        return;
    }
    entries[mark..].sort_unstable();
    let mut kept = mark;
    for k in mark + 1..entries.len() {
        if entries[k] >> 1 == entries[kept] >> 1 {
            entries[kept] |= entries[k];
        } else {
            kept += 1;
            entries[kept] = entries[k];
        }
    }
    entries.truncate(kept + 1);
}

/// How the loop uses one DDS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Usage {
    /// No iteration touches it.
    Untouched,
    /// Iteration `i` touches `i + offset` alone, and nobody else does.
    InStep { offset: usize, written: bool },
    /// Nobody writes it.
    ReadOnly,
    /// Shared between iterations, and written.
    Shared,
    /// A reduction.
    Reduction,
}

/// The log of a whole loop.
#[derive(Debug)]
pub(crate) struct Recording {
    pub(crate) range: Range<usize>,
    pub(crate) usage: Vec<Usage>,
    /// `slices[s][c]`: what capture `c` saw in slice `s`. Empty where the accesses are derived.
    pub(crate) slices: Vec<Vec<CaptureLog>>,
    /// The rules that accesses to shared DDSs follow, where they were found.
    derived: Vec<Option<Derived>>,
    /// How many accesses an iteration makes on average, of whatever kind, repeated ones too.
    pub(crate) accesses_each: f64,
    /// Bytes of the log at its largest.
    pub(crate) peak_bytes: usize,
}

/// What the recording has to know of a capture.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CaptureShape {
    pub(crate) len: usize,
    pub(crate) reduction: bool,
}

impl Recording {
    /// Puts the slices' logs together.
    pub(crate) fn new(range: Range<usize>, mut slices: Vec<Vec<CaptureLog>>, shapes: &[CaptureShape]) -> Self {
        let usage: Vec<Usage> =
            shapes.iter().enumerate().map(|(c, shape)| usage_of(&range, &mut slices, c, *shape)).collect();
        let peak_bytes = slices.iter().flatten().map(CaptureLog::bytes).sum();
        let iterations: usize = slices.iter().filter_map(|slice| slice.first()).map(|log| log.iterations).sum();
        let accesses: u64 = slices.iter().flatten().map(|log| log.total).sum();
        let accesses_each = accesses as f64 / iterations.max(1) as f64;
        Recording { range, usage, slices, derived: Vec::new(), accesses_each, peak_bytes }
    }

    /// A recording whose accesses to shared DDSs follow rules.
    pub(crate) fn derived(sampled: &Recording, derived: Vec<Option<Derived>>) -> Self {
        let Recording { range, usage, accesses_each, .. } = sampled;
        let (range, usage, accesses_each) = (range.clone(), usage.clone(), *accesses_each);
        Recording { range, usage, slices: Vec::new(), derived, accesses_each, peak_bytes: 0 }
    }

    fn rule(&self, capture: usize) -> Option<&Derived> {
        self.derived.get(capture).and_then(Option::as_ref)
    }

    /// The field in which each iteration's one index of a capture stands, if that is the rule.
    pub(crate) fn field(&self, capture: usize) -> Option<FieldPlace> {
        self.rule(capture).and_then(Derived::field)
    }

    /// How many slices there are.
    pub(crate) fn slice_count(&self) -> usize {
        self.iterations().div_ceil(SLICE)
    }

    /// How many iterations a slice has.
    pub(crate) fn slice_len(&self, s: usize) -> usize {
        SLICE.min(self.iterations() - s * SLICE)
    }

    /// What a shared capture saw in a slice.
    pub(crate) fn log(&self, s: usize, capture: usize) -> Cow<'_, CaptureLog> {
        match self.rule(capture) {
            Some(rule) => {
                let start = self.range.start + s * SLICE;
                Cow::Owned(rule.log(start..start + self.slice_len(s)))
            }
            None => Cow::Borrowed(&self.slices[s][capture]),
        }
    }

    /// Calls `f` for the one access of each iteration of a slice to a capture that [is single](Self::is_single).
    #[inline]
    pub(crate) fn each_single(&self, s: usize, capture: usize, f: impl FnMut(u32)) {
        match self.rule(capture) {
            Some(rule) => {
                let start = self.range.start + s * SLICE;
                rule.each_single(start..start + self.slice_len(s), f);
            }
            None => self.slices[s][capture].entries().iter().copied().for_each(f),
        }
    }

    /// Calls `f` for each access to a shared capture in one of `every` short runs of a slice's iterations, and says
    /// how many iterations that were.
    pub(crate) fn each_sampled(&self, s: usize, capture: usize, every: usize, mut f: impl FnMut(u32)) -> usize {
        const RUN: usize = 64;
        let n = self.slice_len(s);
        let mut entries = Vec::new();
        let mut seen = 0;
        // Slices begin at different places of the rhythm.
        for from in (0..n).step_by(RUN).skip(s % every).step_by(every) {
            let to = n.min(from + RUN);
            seen += to - from;
            match self.rule(capture) {
                Some(rule) if rule.per_iteration() == 1 => {
                    let start = self.range.start + s * SLICE;
                    rule.each_single(start + from..start + to, &mut f);
                }
                Some(rule) => {
                    entries.clear();
                    (from..to).for_each(|k| rule.entries_of(self.range.start + s * SLICE + k, &mut entries));
                    entries.iter().copied().for_each(&mut f);
                }
                None => (from..to).for_each(|k| self.slices[s][capture].of(k).iter().copied().for_each(&mut f)),
            }
        }
        seen
    }

    /// Appends the accesses of one iteration, given by its offset from the first.
    pub(crate) fn entries_of(&self, offset: usize, capture: usize, out: &mut Vec<u32>) {
        match self.rule(capture) {
            Some(rule) => rule.entries_of(self.range.start + offset, out),
            None => out.extend_from_slice(self.slices[offset / SLICE][capture].of(offset % SLICE)),
        }
    }

    /// Whether every iteration has exactly one access to a shared capture.
    pub(crate) fn is_single(&self, capture: usize) -> bool {
        match self.rule(capture) {
            Some(rule) => rule.per_iteration() == 1,
            None => self.slices.iter().all(|slice| slice[capture].uniform() == Some(1)),
        }
    }

    /// Whether the accesses were computed from the data.
    pub(crate) fn is_inferred(&self) -> bool {
        !self.derived.is_empty()
    }

    pub(crate) fn iterations(&self) -> usize {
        self.range.len()
    }

    /// The captures that are shared and written, which the plan must keep apart.
    pub(crate) fn shared(&self) -> Vec<usize> {
        (0..self.usage.len()).filter(|&c| self.usage[c] == Usage::Shared).collect()
    }

    /// All listed accesses of a capture.
    pub(crate) fn listed(&self, capture: usize) -> usize {
        if let Some(rule) = self.rule(capture) {
            return rule.per_iteration() * self.iterations();
        }
        self.slices.iter().map(|slice| slice[capture].listed()).sum()
    }
}

fn usage_of(range: &Range<usize>, slices: &mut [Vec<CaptureLog>], c: usize, shape: CaptureShape) -> Usage {
    if shape.reduction {
        return Usage::Reduction;
    }
    let logs = || slices.iter().map(|slice| &slice[c]);
    let mut offsets = logs().filter_map(|log| log.offset);
    let Some(offset) = offsets.next() else { return Usage::Untouched };
    let stepping = offsets.all(|other| other == offset) && !logs().any(|log| log.strayed_from_step);
    let ends = (range.start.wrapping_add(offset), range.end.wrapping_add(offset));
    if stepping && ends.0 <= ends.1 && ends.1 <= shape.len {
        return Usage::InStep { offset, written: logs().any(CaptureLog::wrote_in_step) };
    }
    let mut wrote = false;
    for log in slices.iter_mut().map(|slice| &mut slice[c]) {
        if !log.strayed_from_step {
            log.wrote |= log.wrote_in_step();
            log.leave_step();
        }
        wrote |= log.wrote;
    }
    if wrote {
        return Usage::Shared;
    }
    // Nothing of a DDS that is only read can conflict.
    for slice in slices {
        slice[c].entries = Vec::new();
        slice[c].ends = Vec::new();
    }
    Usage::ReadOnly
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_of(iterations: &[&[(usize, bool)]]) -> CaptureLog {
        let mut log = CaptureLog::new(0, iterations.len(), true);
        for accesses in iterations {
            for &(i, w) in *accesses {
                log.access(i, w);
            }
            log.end_iteration();
        }
        log
    }

    const SHAPE: CaptureShape = CaptureShape { len: 100, reduction: false };

    fn usage(iterations: &[&[(usize, bool)]]) -> (Usage, CaptureLog) {
        let n = iterations.len();
        let mut recording = Recording::new(0..n, vec![vec![log_of(iterations)]], &[SHAPE]);
        (recording.usage[0], recording.slices.remove(0).remove(0))
    }

    #[test]
    fn in_step_with_an_offset_lists_nothing() {
        let (usage, log) = usage(&[&[(5, false)], &[(6, true), (6, false)], &[], &[(8, true)]]);
        assert_eq!(usage, Usage::InStep { offset: 5, written: true });
        assert_eq!(log.listed(), 0);
    }

    #[test]
    fn leaving_step_writes_out_what_went_before() {
        let (usage, log) = usage(&[&[], &[(1, false)], &[(2, true)], &[], &[(4, true), (9, false)], &[(0, false)]]);
        assert_eq!(usage, Usage::Shared);
        let want: [&[u32]; 6] = [&[], &[2], &[5], &[], &[9, 18], &[0]];
        for (k, want) in want.iter().enumerate() {
            assert_eq!(log.of(k), *want, "iteration {k}");
        }
    }

    #[test]
    fn repeated_accesses_unite() {
        let (_, log) = usage(&[&[(7, false), (3, false), (7, true), (3, false)], &[(3, false), (7, false)]]);
        assert_eq!(log.of(0), [6, 15]);
        assert_eq!(log.of(1), [6, 14]);
        assert_eq!(log.uniform(), Some(2));
    }

    #[test]
    fn only_read_out_of_step_is_read_only() {
        let (usage, log) = usage(&[&[(7, false)], &[(7, false)]]);
        assert_eq!((usage, log.listed()), (Usage::ReadOnly, 0));
    }

    #[test]
    fn out_of_range_steps_are_not_in_step() {
        let mut log = CaptureLog::new(98, 4, true);
        for i in 98..100 {
            log.access(i, true);
            log.end_iteration();
        }
        log.end_iteration();
        let recording = Recording::new(98..101, vec![vec![log]], &[SHAPE]);
        assert_eq!(recording.usage[0], Usage::Shared);
    }
}
