//! What a block that is a tile owns of a capture: elements at some distances from the iterations of the run that was entered.

use std::cell::Cell;
use std::ops::Range;

use crate::planner::plan::{Numbering, Reach, Run, Window};

/// The added width of views of loops that may run by tiles: beyond what the macro sees of a distance.
pub(crate) const IN_TILES: usize = 1 << 16;

/// A run by tiles, for one capture.
pub(crate) struct Tiling<'t> {
    capture: usize,
    /// The loop's first iteration, and how many elements the capture has.
    first: usize,
    len: usize,
    numbering: Numbering,
    runs: &'t [Run],
    kinds: &'t [Vec<Reach>],
    /// The run that was entered last, and its iterations that were.
    at: Cell<usize>,
    now: Cell<Option<Entered>>,
}

/// What iterations own that were entered.
#[derive(Clone, Copy, Default)]
pub(crate) struct Entry {
    /// At which distances from an iteration's number.
    pub(crate) reach: Reach,
    /// What is added to the iteration for its number, and for that of each row below once more.
    pub(crate) shift: usize,
    pub(crate) gap: usize,
}

/// Iterations that were entered, some of each of a run's rows, or one row's: the number of the first, and how far apart those of rows are.
#[derive(Clone, Copy)]
struct Entered {
    first: usize,
    n: usize,
    rows: usize,
    stride: usize,
    reach: Reach,
}

impl Entered {
    /// The elements at some distances from the iterations in a row: the first, and how many.
    fn elements(&self, window: &Window, row: usize) -> (usize, usize) {
        let first = self.first.wrapping_add(row * self.stride).wrapping_add_signed(window.from);
        (first, if window.len == 0 { 0 } else { self.n - 1 + window.len })
    }

    /// Whether all that it reaches is below a length.
    fn is_below(&self, len: usize) -> bool {
        let below = |window: &Window| {
            let ((first, n), (last, _)) = (self.elements(window, 0), self.elements(window, self.rows - 1));
            n == 0 || first <= last && n <= len && last <= len - n
        };
        self.n > 0 && self.rows > 0 && self.reach.reads.iter().chain([&self.reach.write]).all(below)
    }

    /// Whether it reaches each element of a range, by one window of one row.
    fn reaches(&self, range: &Range<usize>, write: bool) -> bool {
        let within = |window: &Window| {
            (0..self.rows).any(|row| {
                let (from, len) = self.elements(window, row);
                let at = range.start.wrapping_sub(from);
                at < len && range.len() <= len - at
            })
        };
        within(&self.reach.write) || !write && self.reach.reads.iter().any(within)
    }
}

impl<'t> Tiling<'t> {
    pub(crate) fn new(
        (capture, len, numbering): (usize, usize, Numbering),
        first: usize,
        runs: &'t [Run],
        kinds: &'t [Vec<Reach>],
    ) -> Tiling<'t> {
        Tiling { capture, first, len, numbering, runs, kinds, at: Cell::new(0), now: Cell::new(None) }
    }

    /// Turns to a run that begins with the iteration `first` and has `n` in each of its rows; or to `n` others that follow one another in
    /// a row. Gives what each of these iterations reaches: all of it is elements that the capture has, and that the block owns.
    /// Of iterations that are none of the block's: nothing.
    pub(crate) fn enter(&self, first: usize, n: usize) -> Entry {
        self.now.set(self.find(first, n).filter(|entered| entered.is_below(self.len)));
        let entry = |entered: Entered| {
            let Entered { reach, first: number, .. } = entered;
            Entry { reach, shift: number.wrapping_sub(first), gap: self.numbering.gap }
        };
        self.now.get().map_or(Entry::default(), entry)
    }

    /// The numbers of a run's iterations: that of the first, and how far apart those of rows are. None where they don't follow one
    /// another within each row.
    fn numbers(&self, first: usize, n: usize, (rows, stride): (usize, usize)) -> Option<(usize, usize)> {
        let Numbering { gap, .. } = self.numbering;
        let (number, apart) = (self.numbering.of(first), stride + gap);
        let follow = |row: usize| {
            let (at, begin) = (first + row * stride, number + row * apart);
            self.numbering.of(at) == begin && self.numbering.of(at + n - 1) == begin + n - 1
        };
        (gap == 0 || n > 0 && (0..rows).all(follow)).then_some((number, apart))
    }

    fn find(&self, first: usize, n: usize) -> Option<Entered> {
        let offset = first.wrapping_sub(self.first);
        let begins = |run: &Run| run.offset as usize == offset && run.len as usize == n;
        let holds = |run: &Run| {
            let (stride, len) = (run.stride as usize, run.len as usize);
            (0..run.rows as usize).any(|row| {
                let within = offset.wrapping_sub(run.offset as usize + row * stride);
                within < len && n <= len - within
            })
        };
        let at = self.at.get();
        let next = [at, at + 1].into_iter().find(|&k| self.runs.get(k).is_some_and(begins));
        let k = next.or_else(|| self.runs.iter().position(|run| begins(run) || holds(run)))?;
        self.at.set(k);
        let run = self.runs[k];
        let reach = *self.kinds.get(run.kind as usize)?.get(self.capture)?;
        let rows = if begins(&run) { run.rows as usize } else { 1 };
        let (first, stride) = self.numbers(first, n, (rows, run.stride as usize))?;
        Some(Entered { first, n, rows, stride, reach })
    }

    /// Whether the block owns an element.
    pub(crate) fn owns(&self, i: usize, write: bool) -> bool {
        self.owns_all(i..i + 1, write)
    }

    /// Whether the block owns each element of a range, by one window of one row.
    pub(crate) fn owns_all(&self, range: Range<usize>, write: bool) -> bool {
        self.now.get().is_some_and(|entered| entered.reaches(&range, write))
    }

    /// An element that the block owns.
    pub(crate) fn own(&self) -> Option<usize> {
        let entered = self.now.get()?;
        let window = entered.reach.reads.iter().find(|window| window.len > 0)?;
        Some(entered.elements(window, 0).0)
    }
}
