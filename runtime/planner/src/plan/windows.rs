//! Iterations that write windows of their own: `a[i * n..(i + 1) * n]`, say, in iteration `i`, and read besides only what none
//! of them writes.
//!
//! The same of rows of a loop over pairs: `a[r * n + c]`, say, in iteration `(r, c)`, though the loop leaves the table's borders out.
//! Iterations of a row run in one block, in the loop's order.
//!
//! Such a loop has no conflicts, and its blocks are runs of its own order. What they own follows from the windows and from the
//! iterations that run: so the plan serves parts of its range, and what was written by iterations that don't run may be read by all.

use std::ops::Range;

use super::cut::Cut;
use super::graph::Touch;
use super::group::Parts;
use super::{Block, Plan};
use crate::options::{PlanOptions, Strategy};
use crate::recording::{CaptureShape, Recording};

/// Rows of fewer iterations than this have windows of their own: blocks are whole rows.
const FEWEST_ROWS: usize = 64;

/// One in this many elements of a window is few: saving it by itself takes as much longer.
const FEW: usize = 16;
/// Windows that are shorter than this in all are saved as a whole.
const SHORT: usize = 4096;

/// Of one DDS the windows of iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Windows {
    /// Which capture, and how many elements it has.
    pub(crate) capture: usize,
    len: usize,
    /// Where the first iteration's begins, and how far those of neighbours are apart.
    first: usize,
    by: usize,
    /// How many consecutive iterations share one: those of a row.
    each: usize,
    /// Whether iterations read what stands before all windows, and behind them.
    before: bool,
    behind: bool,
    /// Whether iterations write few elements of their windows: these are saved one by one.
    few: bool,
}

impl Windows {
    /// Where the window of a row begins, by the offset of its first iteration.
    fn at(&self, offset: usize) -> usize {
        self.first.saturating_add(self.by.saturating_mul(offset.div_ceil(self.each))).min(self.len)
    }

    /// Workers save windows as a whole.
    pub(super) fn save_all(&mut self) {
        self.few = false;
    }

    /// The same windows without those of the first iterations.
    fn behind(self, iterations: usize) -> Windows {
        Windows { first: self.at(iterations), before: self.before, ..self }
    }
}

/// The windows of all captures that are shared and written, if each iteration has them, or each row of a loop over pairs. Where samples
/// of the loop were recorded, rows alone are looked for.
pub(super) fn of(
    recording: &Recording<'_>,
    shared: &[usize],
    lens: &[usize],
    columns: Option<usize>,
) -> Option<Vec<Windows>> {
    let (n, whole) = (recording.iterations(), recording.outline().is_empty());
    let known = if whole { recording.recorded() == n } else { recording.cut_short == 0 };
    if recording.is_inferred() || !known {
        return None;
    }
    let rows = columns.filter(|columns| *columns > 1 && n / columns >= FEWEST_ROWS);
    let single = whole.then_some(1);
    single.into_iter().chain(rows).find_map(|each| {
        shared.iter().zip(lens).map(|(&capture, &len)| of_capture(recording, (capture, len), each)).collect()
    })
}

/// Whether a sample of a loop says that its rows write elements of their own.
pub fn are_in_rows(
    sampled: &Recording<'_>,
    samples: &[Range<usize>],
    shapes: &[CaptureShape],
    options: &PlanOptions,
) -> bool {
    let shared = sampled.shared();
    let lens: Vec<usize> = shared.iter().map(|&c| shapes[c].len).collect();
    let may = may_be_aligned(options) && !shared.is_empty() && sampled.in_all_blocks.is_none();
    may && of(&sampled.as_outline(samples), &shared, &lens, options.columns).is_some()
}

/// Whether a loop may run by windows, by what it asks for.
pub(super) fn may_be_aligned(options: &PlanOptions) -> bool {
    options.strategy.is_none_or(|wanted| wanted == Strategy::Aligned) && options.parts.is_none()
}

/// The windows of `each` consecutive iterations.
fn of_capture(recording: &Recording<'_>, (capture, len): (usize, usize), each: usize) -> Option<Windows> {
    let (first, by) = place_of(recording, capture, each)?;
    let mut windows = Windows { capture, len, first, by, each, before: false, behind: false, few: false };
    let (start, end) = (windows.at(0), windows.at(recording.iterations()));
    let (mut apart, mut writes, mut seen) = (true, 0, 0);
    each_iteration(recording, capture, |k, entries| {
        let own = windows.at(k / each * each)..windows.at((k / each + 1) * each);
        seen += 1;
        writes += entries.iter().filter(|entry| *entry & 1 == 1).count();
        for index in entries.iter().map(|entry| (entry >> 1) as usize).filter(|index| !own.contains(index)) {
            windows.before |= index < start;
            windows.behind |= index >= end;
            apart &= index < start || index >= end;
        }
        apart
    });
    windows.few = end - start > SHORT && writes * FEW <= seen * by / each;
    apart.then_some(windows)
}

/// Where windows could begin, and how far they could be apart, such that each iteration writes in that of its row.
fn place_of(recording: &Recording<'_>, capture: usize, each: usize) -> Option<(usize, usize)> {
    // The first and the last iteration that writes, and where.
    let (mut first, mut last) = (None, None);
    each_iteration(recording, capture, |k, entries| {
        if let Some((least, _)) = written(entries) {
            first = first.or(Some((k, least)));
            last = Some((k, least));
        }
        true
    });
    let ((k, least), (last, greatest)) = (first?, last?);
    let rows = (last / each) as i64 - (k / each) as i64;
    // Either in its own column, or in the same place as all of the row.
    let columns = [(last % each) as i64 - (k % each) as i64, 0];
    let candidates = columns.into_iter().filter_map(|columns| {
        let apart = greatest - least - columns;
        (rows > 0 && apart > 0 && apart % rows == 0).then(|| apart / rows)
    });
    candidates.into_iter().find_map(|by| begins_at(recording, capture, each, by).map(|first| (first, by as usize)))
}

/// Where the first window begins, of those that are `by` apart.
fn begins_at(recording: &Recording<'_>, capture: usize, each: usize, by: i64) -> Option<usize> {
    let (mut at_most, mut at_least) = (i64::MAX, i64::MIN);
    each_iteration(recording, capture, |k, entries| {
        if let Some((least, most)) = written(entries) {
            let row = (k / each) as i64;
            (at_most, at_least) = (at_most.min(least - row * by), at_least.max(most + 1 - (row + 1) * by));
        }
        at_least <= at_most
    });
    // Rather rows of a table, which begin at multiples of their width, than those in which this call writes.
    let rows = match each {
        1 => recording.range.start as i64 * by,
        _ => at_most.div_euclid(by) * by,
    };
    let first = if (at_least..=at_most).contains(&rows) { rows } else { at_most };
    usize::try_from(first).ok().filter(|_| at_least <= at_most)
}

/// The first and the last element that an iteration writes.
fn written(entries: &[u32]) -> Option<(i64, i64)> {
    let mut writes = entries.iter().filter(|entry| *entry & 1 == 1).map(|entry| i64::from(entry >> 1));
    let least = writes.next()?;
    Some((least, writes.next_back().unwrap_or(least)))
}

/// Calls `f` for the sorted accesses of each iteration that was recorded, given by its offset from the first, until it says no.
fn each_iteration(recording: &Recording<'_>, capture: usize, mut f: impl FnMut(usize, &[u32]) -> bool) {
    let slices = match recording.outline() {
        [] => (0..recording.slice_count()).map(|s| (recording.slice_start(s), recording.slice_len(s))).collect(),
        parts => parts.iter().map(|part| (part.start - recording.range.start, part.len())).collect::<Vec<_>>(),
    };
    let mut order: Vec<usize> = (0..slices.len()).collect();
    order.sort_by_key(|&s| slices[s].0);
    for s in order {
        let (log, (start, len)) = (recording.log(s, capture), slices[s]);
        if !(0..len).all(|k| f(start + k, log.of(k))) {
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
        let sparse = windows.iter().map(|windows| windows.few).collect();
        Plan { parts: Some(parts), touch_starts, touches, shared, sparse, windows, ..self }
    }

    /// The windows of a part of the range that begins behind this many iterations.
    pub(super) fn windows_behind(&self, iterations: usize) -> Vec<Windows> {
        self.windows.iter().map(|windows| windows.behind(iterations)).collect()
    }

    /// Whether a call that saved this many elements of windows one by one would have saved all of them sooner.
    pub fn is_crowded(&self, saved: usize) -> bool {
        let few = self.windows.iter().filter(|windows| windows.few);
        let all: usize = few.map(|windows| windows.at(self.range.len()) - windows.at(0)).sum();
        all > 0 && saved > SHORT / FEW && saved * FEW > all
    }

    /// The same plan, of whose windows all elements are saved. None where they are.
    pub fn saved_in_ranges(&self) -> Option<Plan> {
        if self.has_alone() || !self.windows.iter().any(|windows| windows.few) {
            return None;
        }
        let mut plan = self.in_equal_blocks(self.blocks.len(), self.by_data);
        plan.sparse.fill(false);
        plan.windows.iter_mut().for_each(Windows::save_all);
        Some(plan)
    }

    /// Of a capture, what iterations write by their windows, if they have any.
    pub fn window(&self, capture: usize) -> Option<Range<usize>> {
        let windows = self.windows.iter().find(|windows| windows.capture == capture)?;
        Some(windows.at(0)..windows.at(self.range.len()))
    }
}

/// How many consecutive iterations share windows: they are in one block, whatever blocks there are.
pub(super) fn each(windows: &[Windows]) -> usize {
    windows.first().map_or(1, |windows| windows.each)
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
    use crate::plan::plan;
    use crate::recording::{CaptureLog, slices};

    const LEN: usize = 1000;

    /// The plan of a loop in which iteration `i` makes these accesses to one DDS: index, and whether it is written.
    fn planned(range: Range<usize>, accesses: impl Fn(usize) -> Vec<(usize, bool)>) -> Plan {
        in_rows(range, None, accesses)
    }

    /// The same of a loop over pairs.
    fn in_rows(range: Range<usize>, columns: Option<usize>, accesses: impl Fn(usize) -> Vec<(usize, bool)>) -> Plan {
        let shape = CaptureShape { len: LEN, reduction: false, by_block: false, owning: false, dealt: false };
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
        let options = PlanOptions { grain: Some(10), columns, ..PlanOptions::default() };
        plan(&recording, &[shape], &options, &crate::Inline)
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
    fn few_writes_in_long_windows_are_saved_one_by_one() {
        // (A DDS of 1,000 elements is short.)
        let shape = CaptureShape { len: 20_000, reduction: false, by_block: false, owning: false, dealt: false };
        let planned = |written: usize, options: PlanOptions| {
            let log = |slice: Range<usize>| {
                let mut log = CaptureLog::new(slice.start, slice.len(), true);
                for i in slice {
                    (0..written).for_each(|k| _ = log.access(200 * i + 7 * k, true));
                    (0..10).for_each(|k| _ = log.access(200 * i + k, false));
                    log.end_iteration();
                }
                vec![log]
            };
            let recording = Recording::new(1..100, slices(&(1..100)).into_iter().map(log).collect(), &[shape]);
            plan(&recording, &[shape], &options, &crate::Inline)
        };
        let few = planned(2, PlanOptions::default());
        assert!(few.is_sparse(0) && few.within(&(10..100)).unwrap().is_sparse(0));
        assert!(!few.is_crowded(2 * 99) && few.is_crowded(20 * 99) && !few.within(&(90..91)).unwrap().is_crowded(20));
        let whole = few.saved_in_ranges().unwrap();
        assert!(!whole.is_sparse(0) && !whole.is_crowded(20 * 99) && whole.saved_in_ranges().is_none());
        assert_eq!((whole.window(0), whole.blocks), (few.window(0), few.blocks));
        assert!(!planned(20, PlanOptions::default()).is_sparse(0));
        assert!(!planned(2, PlanOptions { one_process: false, ..PlanOptions::default() }).is_sparse(0));
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

    /// 80 rows of 9 iterations over a table of rows of 12.
    #[test]
    fn rows_of_pairs_have_windows() {
        let cell = |k: usize| (k / 9 + 1) * 12 + k % 9 + 1;
        let plan = in_rows(0..720, Some(9), |k| vec![(cell(k), true), (cell(k) - 1, false), (3, false)]);
        assert_eq!((plan.strategy, plan.blocks.len(), plan.graph.edges()), (Strategy::Aligned, 72, 0));
        assert!(plan.blocks.iter().all(|block| block.start % 9 == 0 && block.end > block.start));
        assert_eq!((written(&plan, 0).start, plan.window(0)), (12, Some(12..81 * 12)));
        let finer = plan.dealt_by_time(1e9).unwrap();
        assert!(finer.blocks.len() == 80 && finer.blocks.iter().all(|block| block.start % 9 == 0));
        assert!(plan.within(&(13..720)).is_none());
        let part = plan.within(&(0..700)).unwrap();
        assert_eq!(part.blocks.iter().map(|block| block.end - block.start).sum::<usize>(), 700);
        // All of a row add to one element.
        let plan = in_rows(0..720, Some(9), |k| vec![(40 + k / 9, true)]);
        assert_eq!((plan.strategy, plan.window(0)), (Strategy::Aligned, Some(40..120)));
    }

    #[test]
    fn rows_that_touch_each_other_have_none() {
        let cell = |k: usize| (k / 9 + 1) * 12 + k % 9 + 1;
        let above = in_rows(0..720, Some(9), |k| vec![(cell(k), true), (cell(k) - 12, false)]);
        let beyond = in_rows(0..720, Some(9), |k| vec![(cell(k), true), (cell(k) + 11, true)]);
        let few = in_rows(0..540, Some(9), |k| vec![(cell(k), true)]);
        assert!([above, beyond, few].iter().all(|plan| plan.windows.is_empty()));
    }
}
