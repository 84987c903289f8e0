//! Iterations that write windows of their own: `a[i * n..(i + 1) * n]`, say, in iteration `i`, and read besides only what none
//! of them writes.
//!
//! Such a loop has no conflicts, and its blocks are runs of its own order. What they own follows from the windows and from the
//! iterations that run: so the plan serves parts of its range, and what was written by iterations that don't run may be read by all.

use super::cut::Cut;
use super::graph::Touch;
use super::group::Parts;
use super::{Block, Plan};
use crate::recording::Recording;

/// Of one DDS the windows of iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Which capture, and how many elements it has.
    pub(crate) capture: usize,
    len: usize,
    /// Where the first iteration's begins, and how far those of neighbours are apart.
    first: usize,
    by: usize,
    /// Whether iterations read what stands before all windows, and behind them.
    before: bool,
    behind: bool,
}

impl Windows {
    /// Where the window of an iteration begins, by its offset.
    fn at(&self, offset: usize) -> usize {
        self.first.saturating_add(self.by.saturating_mul(offset)).min(self.len)
    }

    /// The same windows without those of the first iterations.
    fn behind(self, iterations: usize) -> Windows {
        Windows { first: self.at(iterations), before: self.before, ..self }
    }
}

/// The windows of all captures that are shared and written, if each has them.
pub(super) fn of(recording: &Recording<'_>, shared: &[usize], lens: &[usize]) -> Option<Vec<Windows>> {
    let whole = recording.recorded() == recording.iterations() && recording.outline().is_empty();
    if !whole || recording.is_inferred() {
        return None;
    }
    shared.iter().zip(lens).map(|(&capture, &len)| of_capture(recording, capture, len)).collect()
}

fn of_capture(recording: &Recording<'_>, capture: usize, len: usize) -> Option<Windows> {
    let (first, by) = place_of(recording, capture)?;
    let mut windows = Windows { capture, len, first, by, before: false, behind: false };
    let (start, end) = (windows.at(0), windows.at(recording.iterations()));
    let mut apart = true;
    each_iteration(recording, capture, |k, entries| {
        let own = windows.at(k)..windows.at(k + 1);
        for index in entries.iter().map(|entry| (entry >> 1) as usize).filter(|index| !own.contains(index)) {
            windows.before |= index < start;
            windows.behind |= index >= end;
            apart &= index < start || index >= end;
        }
        apart
    });
    apart.then_some(windows)
}

/// Where windows could begin, and how far they could be apart, such that each iteration writes in its own.
fn place_of(recording: &Recording<'_>, capture: usize) -> Option<(usize, usize)> {
    let mut written: Vec<(i64, i64, i64)> = Vec::new();
    each_iteration(recording, capture, |k, entries| {
        let mut writes = entries.iter().filter(|entry| *entry & 1 == 1).map(|entry| i64::from(entry >> 1));
        if let Some(least) = writes.next() {
            written.push((k as i64, least, writes.next_back().unwrap_or(least)));
        }
        true
    });
    let (&(k, least, _), &(last, greatest, _)) = (written.first()?, written.last()?);
    if last == k || (greatest - least) % (last - k) != 0 {
        return None;
    }
    let by = (greatest - least) / (last - k);
    let at_most = written.iter().map(|&(k, least, _)| least - k * by).min()?;
    let at_least = written.iter().map(|&(k, _, most)| most + 1 - (k + 1) * by).max()?;
    // Rather rows of a table, which begin at multiples of their width, than those in which this call writes.
    let rows = recording.range.start as i64 * by;
    let first = if (at_least..=at_most).contains(&rows) { rows } else { at_most };
    let fits = by > 0 && at_least <= at_most && first >= 0;
    fits.then_some((first as usize, by as usize))
}

/// Calls `f` for the sorted accesses of each iteration, until it says no.
fn each_iteration(recording: &Recording<'_>, capture: usize, mut f: impl FnMut(usize, &[u32]) -> bool) {
    for s in 0..recording.slice_count() {
        let (log, start) = (recording.log(s, capture), recording.slice_start(s));
        if !(0..recording.slice_len(s)).all(|k| f(start + k, log.of(k))) {
            return;
        }
    }
}

impl Plan {
    /// The plan with the parts that its blocks own by these windows.
    pub(super) fn with_windows(self, windows: Vec<Windows>) -> Plan {
        if windows.is_empty() {
            return self;
        }
        let n = self.range.len();
        let cut = |windows: &Windows| {
            let blocks = self.blocks.iter().map(|block| windows.at(block.start));
            Cut { bounds: [0].into_iter().chain(blocks).chain([windows.at(n), windows.len]).collect() }
        };
        let captures = windows.iter().map(|windows| windows.capture).collect();
        let parts = Parts::new(captures, windows.iter().map(cut).collect());
        let (mut touch_starts, mut touches) = (vec![0u32], Vec::new());
        for b in 0..self.blocks.len() {
            let mut resource = 0;
            for (cut, windows) in parts.cuts.iter().zip(&windows) {
                let last = cut.parts() - 1;
                let touched = [(windows.before, 0, false), (true, 1 + b, true), (windows.behind, last, false)];
                let some = touched.into_iter().filter(|&(is, part, _)| is && cut.bounds[part] < cut.bounds[part + 1]);
                touches.extend(some.map(|(_, part, write)| Touch { resource: resource + part as u32, write }));
                resource += cut.parts() as u32;
            }
            touch_starts.push(touches.len() as u32);
        }
        let shared: Vec<usize> = windows.iter().map(|windows| windows.capture).collect();
        let sparse = vec![false; shared.len()];
        Plan { parts: Some(parts), touch_starts, touches, shared, sparse, windows, ..self }
    }

    /// The windows of a part of the range that begins behind this many iterations.
    pub(super) fn windows_behind(&self, iterations: usize) -> Vec<Windows> {
        self.windows.iter().map(|windows| windows.behind(iterations)).collect()
    }

    /// Of a capture, what iterations write by their windows, if they have any.
    pub fn window(&self, capture: usize) -> Option<std::ops::Range<usize>> {
        let windows = self.windows.iter().find(|windows| windows.capture == capture)?;
        Some(windows.at(0)..windows.at(self.range.len()))
    }
}

/// Whether blocks are runs of the loop's order without an order among them.
pub(super) fn are_runs(plan: &Plan) -> bool {
    let listed = !plan.offsets.is_empty() || !plan.listed.is_empty() || plan.tiles.is_some();
    !listed && (plan.touches.is_empty() || !plan.windows.is_empty()) && plan.graph.edges() == 0
}

/// Blocks of a plan, as they are where only iterations of a part run.
pub(super) fn clamped(blocks: &[Block], first: usize, end: usize) -> Vec<Block> {
    let place = |at: usize| at.clamp(first, end) - first;
    blocks.iter().map(|block| Block { start: place(block.start), end: place(block.end) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::{PlanOptions, Strategy};
    use crate::plan::plan;
    use crate::recording::{CaptureLog, CaptureShape, slices};
    use std::ops::Range;

    const LEN: usize = 1000;

    /// The plan of a loop in which iteration `i` makes these accesses to one DDS: index, and whether it is written.
    fn planned(range: Range<usize>, accesses: impl Fn(usize) -> Vec<(usize, bool)>) -> Plan {
        let shape = CaptureShape { len: LEN, reduction: false, by_block: false, owning: false };
        let log = |slice: Range<usize>| {
            let mut log = CaptureLog::new(slice.start, slice.len(), true);
            for i in slice {
                accesses(i).into_iter().for_each(|(index, write)| _ = log.access(index, write));
                log.end_iteration();
            }
            vec![log]
        };
        let logs = slices(&range).into_iter().map(log).collect();
        let recording = Recording::new(range, logs, &[shape]);
        plan(&recording, &[shape], &PlanOptions { grain: Some(10), ..PlanOptions::default() }, &crate::Inline)
    }

    fn written(plan: &Plan, b: usize) -> Range<usize> {
        let parts = plan.parts.as_ref().unwrap();
        let touch = plan.touches(b).iter().find(|touch| touch.write).unwrap();
        let (slot, part) = parts.part_of(touch.resource);
        parts.cuts[slot].bounds[part]..parts.cuts[slot].bounds[part + 1]
    }

    #[test]
    fn rows_of_a_table_are_windows_and_serve_parts() {
        // Row 2 is read by all, and each iteration writes some of its own row.
        let plan = planned(3..40, |i| vec![(2 * 25 + i % 5, false), (25 * i + 3, true), (25 * i + 20, true)]);
        assert_eq!((plan.strategy, plan.blocks.len(), plan.graph.edges()), (Strategy::Aligned, 4, 0));
        assert_eq!(written(&plan, 0).start, 3 * 25);
        assert_eq!(plan.window(0), Some(3 * 25..40 * 25));
        let part = plan.within(&(8..30)).unwrap();
        assert_eq!((part.window(0), written(&part, 0).start), (Some(8 * 25..30 * 25), 8 * 25));
        let all: Vec<Touch> = part.touches(1).to_vec();
        assert!(all.iter().any(|touch| touch.resource == 0 && !touch.write), "{all:?}");
        let bounds = &part.parts.as_ref().unwrap().cuts[0].bounds;
        assert!(bounds.is_sorted() && bounds[bounds.len() - 1] == LEN);
    }

    #[test]
    fn what_another_iteration_writes_is_no_window() {
        let own = |i: usize| vec![(25 * i, true)];
        assert_eq!(planned(3..40, own).strategy, Strategy::Aligned);
        let reads_next = |i: usize| [own(i), vec![(25 * (i + 1) % LEN, false)]].concat();
        let two_write = |i: usize| [own(i), vec![(25 * i + 30, true)]].concat();
        let backwards = |i: usize| vec![(25 * (39 - i), true), (25 * i, false)];
        assert!(planned(3..39, reads_next).windows.is_empty());
        assert!(planned(3..38, two_write).windows.is_empty());
        assert!(planned(3..36, backwards).windows.is_empty());
    }
}
