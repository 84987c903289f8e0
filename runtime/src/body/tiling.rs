//! What a block that is a tile owns of a capture: elements at some distances from the iterations of the run that was entered.

use std::cell::Cell;

use crate::planner::plan::{Reach, Run, Window};

/// The added width of views of loops that may run by tiles: beyond what the macro sees of a distance.
pub(crate) const IN_TILES: usize = 1 << 16;

/// A run by tiles, for one capture.
pub(crate) struct Tiling<'t> {
    capture: usize,
    /// The loop's first iteration, and how many elements the capture has.
    first: usize,
    len: usize,
    runs: &'t [Run],
    kinds: &'t [Vec<Reach>],
    /// The run that was entered last,
    at: Cell<usize>,
    /// which iterations of it, and what they reach.
    now: Cell<Option<(usize, usize, Reach)>>,
}

impl<'t> Tiling<'t> {
    pub(crate) fn new(
        (capture, len): (usize, usize),
        first: usize,
        runs: &'t [Run],
        kinds: &'t [Vec<Reach>],
    ) -> Tiling<'t> {
        Tiling { capture, first, len, runs, kinds, at: Cell::new(0), now: Cell::new(None) }
    }

    /// Turns to the `n` iterations from `first` on, which are of one run. Gives what each of them reaches: all of it is elements that
    /// the capture has, and that the block owns. Of iterations that are none of the block's: nothing.
    pub(crate) fn enter(&self, first: usize, n: usize) -> Reach {
        let offset = first.wrapping_sub(self.first);
        let holds = |run: &Run| {
            let within = offset.wrapping_sub(run.offset as usize);
            within < run.len as usize && n <= run.len as usize - within
        };
        let at = self.at.get();
        let next = [at, at + 1].into_iter().find(|&k| self.runs.get(k).is_some_and(holds));
        let found = next.or_else(|| self.runs.iter().position(holds));
        let reach = found.and_then(|k| {
            self.at.set(k);
            self.kinds.get(self.runs[k].kind as usize)?.get(self.capture).copied()
        });
        let reach = reach.unwrap_or_default();
        for window in reach.reads.iter().chain([&reach.write]).filter(|window| window.len > 0) {
            let (from, len) = self.elements(window, first, n);
            assert!(len <= self.len && from <= self.len - len, "a tile beyond the elements");
        }
        self.now.set(found.map(|_| (first, n, reach)));
        reach
    }

    /// The elements at some distances from `n` iterations: the first, and how many.
    fn elements(&self, window: &Window, first: usize, n: usize) -> (usize, usize) {
        (first.wrapping_add_signed(window.from), if window.len == 0 { 0 } else { n - 1 + window.len })
    }

    /// Whether the block owns an element.
    pub(crate) fn owns(&self, i: usize, write: bool) -> bool {
        self.owns_all(i..i + 1, write)
    }

    /// Whether the block owns each element of a range, by one window.
    pub(crate) fn owns_all(&self, range: std::ops::Range<usize>, write: bool) -> bool {
        let Some((first, n, reach)) = self.now.get() else { return false };
        let within = |window: &Window| {
            let (from, len) = self.elements(window, first, n);
            let at = range.start.wrapping_sub(from);
            at < len && range.len() <= len - at
        };
        within(&reach.write) || !write && reach.reads.iter().any(within)
    }

    /// An element that the block owns.
    pub(crate) fn own(&self) -> Option<usize> {
        let (first, n, reach) = self.now.get()?;
        let window = reach.reads.iter().find(|window| window.len > 0)?;
        Some(self.elements(window, first, n).0)
    }
}
