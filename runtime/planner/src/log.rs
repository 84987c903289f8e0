//! The log of what one DDS saw in a slice of a loop's iterations.
//!
//! It is a flat array of accesses (index and write bit in 32 bits), delimited only where the number of accesses changes
//! from iteration to iteration. A DDS that is read in step with the loop (`x[i + c]` in iteration `i`) is not listed at
//! all: a run of flags says so.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The most elements of a DDS, and the most iterations of a loop.
pub const MAX_LEN: usize = 1 << 48;
/// The most elements of a DDS that iterations share in a plan: listed indices have 32 bits with the write bit.
pub const LISTED: usize = 1 << 31;

/// Among this many of an iteration's newest accesses one of the same element is looked for: bodies that reach rows number by number
/// touch a few in turn.
const NEWEST: usize = 4;

const READ: u8 = 1;
const WRITE: u8 = 2;

/// The accesses to one capture in one slice of the iterations.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureLog {
    /// The slice's first iteration, and the running one.
    first: usize,
    at: usize,
    /// `index - iteration`, as long as all accesses share it.
    pub(crate) offset: Option<usize>,
    pub(crate) left_step: bool,
    /// In-step accesses: from which iteration of the slice on they are of which kind.
    step_runs: Vec<(u32, u8)>,
    step_now: u8,
    /// `index << 1 | written`, iteration by iteration, each sorted and without repetition.
    #[serde(with = "crate::bulk")]
    entries: Vec<u32>,
    /// Where each iteration's entries end, once their number is not always the same.
    #[serde(with = "crate::bulk")]
    ends: Vec<u32>,
    per_iteration: usize,
    pub(crate) iterations: usize,
    mark: usize,
    touched: u32,
    /// Elements of ranges besides the first of each.
    besides: u64,
    /// All accesses so far, repeated ones too.
    pub(crate) total: u64,
    reads_only: bool,
    /// It is known to be read out of step: nothing but the number of reads is of interest.
    counts_only: bool,
    pub(crate) wrote: bool,
    in_scratch: bool,
    /// How what sets up a block's scratch accesses the DDS, in each block.
    by_scratch: u8,
    /// How many iterations ended early, so that what they touch behind that is missing.
    pub(crate) cut_short: usize,
}

impl CaptureLog {
    /// A log for a slice that begins with iteration `first`. Captures that can't be written need no entries.
    pub fn new(first: usize, iterations: usize, writable: bool) -> Self {
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
        CaptureLog { left_step: true, ..CaptureLog::new(first, iterations, true) }
    }

    /// A log with exactly one access an iteration.
    pub(crate) fn of_single(entries: Vec<u32>) -> Self {
        CaptureLog { left_step: true, per_iteration: 1, iterations: entries.len(), entries, ..CaptureLog::default() }
    }

    /// Notes an access of the running iteration, and returns how many it made so far.
    #[inline]
    pub fn access(&mut self, index: usize, write: bool) -> u32 {
        self.touched += 1;
        if self.counts_only && !write && !self.in_scratch {
            return self.touched;
        }
        let flags = if write { WRITE } else { READ };
        if self.in_scratch {
            self.by_scratch |= flags;
            return self.touched;
        }
        if !self.left_step {
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

    /// The same, and reads are listed even if nobody writes the DDS.
    pub fn access_listed(&mut self, index: usize, write: bool) {
        (self.reads_only, self.counts_only) = (false, false);
        self.access(index, write);
    }

    /// The same for a range of elements that is accessed at once. It counts as few accesses, since a body that accesses long ranges
    /// need not be slow.
    pub fn access_range(&mut self, range: Range<usize>, write: bool) -> u32 {
        let Range { start, end } = range;
        if end - start < 2 || self.in_scratch {
            return if start < end { self.access(start, write) } else { self.touched };
        }
        if !self.left_step {
            // (A DDS without any is untouched.)
            self.offset.get_or_insert(start.wrapping_sub(self.at));
            self.leave_step();
        }
        let besides = end - start - 1;
        let mut counted = 0;
        if self.reads_only {
            self.push(start, write);
        } else {
            (start..end).for_each(|index| self.push(index, write));
            counted = besides / 64;
        }
        self.touched = self.touched.saturating_add(1 + counted as u32);
        self.besides += (besides - counted) as u64;
        self.touched
    }

    #[inline]
    pub(crate) fn push(&mut self, index: usize, write: bool) {
        self.wrote |= write;
        if self.reads_only {
            return;
        }
        let entry = (index as u32) << 1 | u32::from(write);
        let newest = self.entries.len().saturating_sub(NEWEST).max(self.mark);
        match self.entries[newest..].iter_mut().rev().find(|other| **other >> 1 == entry >> 1) {
            Some(same) => *same |= entry,
            None => self.entries.push(entry),
        }
    }

    /// The code that makes a block's scratch is about to run.
    pub fn begin_scratch(&mut self) {
        self.in_scratch = true;
    }

    /// The scratch has been made; iterations follow.
    pub fn end_scratch(&mut self) {
        self.in_scratch = false;
    }

    /// Whether setting up scratch touches the DDS, and whether it writes it.
    pub(crate) fn by_scratch(&self) -> (bool, bool) {
        (self.by_scratch != 0, self.by_scratch & WRITE != 0)
    }

    /// The running iteration ends early.
    pub fn cut_short(&mut self) {
        self.cut_short += 1;
    }

    /// Ends the running iteration.
    #[inline]
    pub fn end_iteration(&mut self) {
        self.total += u64::from(self.touched) + self.besides;
        (self.touched, self.besides) = (0, 0);
        let k = self.iterations;
        if self.left_step {
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

    /// Removes the running iteration's accesses, which will be recorded again.
    pub fn discard_iteration(&mut self) {
        self.in_scratch = false;
        (self.touched, self.besides) = (0, 0);
        self.step_now = 0;
        self.entries.truncate(self.mark);
    }

    /// Writes out the accesses that were in step so far: they no longer all are.
    pub(crate) fn leave_step(&mut self) {
        (self.left_step, self.counts_only) = (true, self.reads_only);
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

    pub(crate) fn wrote_in_step(&self) -> bool {
        self.step_runs.iter().any(|run| run.1 & WRITE != 0)
    }

    pub(crate) fn is_writable_and_touched(&self) -> bool {
        !self.reads_only && self.offset.is_some()
    }

    /// How many accesses are listed.
    pub fn listed(&self) -> usize {
        self.entries.len()
    }

    /// The number of accesses of every iteration, if it is always the same.
    #[inline]
    pub fn uniform(&self) -> Option<usize> {
        self.ends.is_empty().then_some(self.per_iteration)
    }

    /// All entries, one iteration after the other.
    #[inline]
    pub fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// The entries of the slice's `k`-th iteration.
    #[inline]
    pub fn of(&self, k: usize) -> &[u32] {
        if self.ends.is_empty() {
            &self.entries[k * self.per_iteration..(k + 1) * self.per_iteration]
        } else {
            let from = if k == 0 { 0 } else { self.ends[k - 1] as usize };
            &self.entries[from..self.ends[k] as usize]
        }
    }

    /// Drops the list of accesses.
    pub(crate) fn forget(&mut self) {
        self.entries = Vec::new();
        self.ends = Vec::new();
    }

    pub(crate) fn bytes(&self) -> usize {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_logged_as_its_elements_are() {
        for writable in [true, false] {
            let (mut ranges, mut singles) = (CaptureLog::new(5, 40, writable), CaptureLog::new(5, 40, writable));
            for i in 5..45usize {
                for k in 0..i % 3 {
                    let (start, end) = (i * 7 % 11, i * 7 % 11 + (i + k) % 130);
                    let write = writable && k == 1;
                    ranges.access_range(start..end, write);
                    (start..end).for_each(|at| _ = singles.access(at, write));
                }
                ranges.access(i, false);
                singles.access(i, false);
                ranges.end_iteration();
                singles.end_iteration();
            }
            assert_eq!(ranges.total, singles.total);
            assert_eq!((ranges.left_step, ranges.offset.is_some()), (singles.left_step, singles.offset.is_some()));
            assert_eq!((ranges.entries, ranges.ends), (singles.entries, singles.ends), "{writable}");
        }
    }
}
