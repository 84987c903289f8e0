//! Rows: a loop over a vector that holds a table row by row touches elements at a few constant distances from its
//! iteration's number, some of them about a row's width away.
//!
//! Iteration `k` is then the cell at row `(k - origin) / width` and column `(k - origin) % width`, and a distance is a step of some
//! rows and columns. The width and the origin are right if no iteration takes a step over the border of its row. In such loops a
//! condition in the body prevents these steps.
//!
//! Where a loop over pairs has rows that are shorter than the table's, as `(1..n, 1..m)` has over a table of `m` columns, rows of iterations
//! are known; and distances are constant between elements and *numbers*, of which some are left out behind each row.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::recording::Recording;
use crate::threads::{Inline, Threads};

/// More distances than this are no table's.
const MOST_DISTANCES: usize = 24;
/// Rows are at least this wide.
pub(super) const NARROWEST: i64 = 8;
/// A distance is a row's width and at most this much.
pub(super) const BESIDE: i64 = 2;
/// Rows shift by at most this many columns each.
const MOST_SKEW: i64 = 4;
/// How many runs of iterations show that a width is wrong.
const FIRST: usize = 4096;

/// Elements that iterations touch at a distance from their own number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Distance {
    /// Which of the shared captures, by its place among them.
    pub(super) slot: usize,
    /// What is added to the iteration's number.
    pub(super) by: i64,
    /// Whether some iteration writes there.
    pub(super) write: bool,
}

/// Consecutive iterations that touch elements at the same distances.
#[derive(Debug, Clone, Copy)]
pub(super) struct Alike {
    pub(super) start: i64,
    pub(super) end: i64,
    /// A bit for each distance.
    at: u32,
}

/// The numbers of iterations from which the elements of a capture are counted: the iteration's own number plus `gap` for each row
/// before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Numbering {
    /// How many iterations a row has; 0 where they have no rows.
    columns: usize,
    /// How many more elements a row of the table has than a row of the loop.
    pub gap: usize,
}

impl Numbering {
    /// The number of an iteration in this numbering.
    pub fn of(&self, iteration: usize) -> usize {
        iteration + self.gap * iteration.checked_div(self.columns).unwrap_or(0)
    }

    /// By which a capture is written at about the same distance in all rows of this many iterations, by the first and the last
    /// iteration that writes.
    fn new(columns: usize, first: (usize, u32), last: (usize, u32)) -> Option<Numbering> {
        let rows = last.0 / columns - first.0 / columns;
        let apart = (last.1 as usize).checked_sub(first.1 as usize + (last.0 % columns))? + first.0 % columns;
        let width = apart.checked_div(rows).filter(|width| width * rows == apart)?;
        width.checked_sub(columns).map(|gap| Numbering { columns, gap })
    }
}

/// All accesses of a loop as distances.
pub(super) struct Distances {
    pub(super) all: Vec<Distance>,
    alike: Vec<Alike>,
    /// For each of the shared captures.
    pub(super) numbering: Vec<Numbering>,
}

impl Distances {
    /// The distances at which a loop touches its shared captures, if they are few. A loop over pairs has rows of `columns` iterations.
    pub(super) fn new(
        recording: &Recording<'_>,
        shared: &[usize],
        columns: Option<usize>,
        pool: &dyn Threads,
    ) -> Option<Distances> {
        let first = |s| recording.range.start + recording.slice_start(s);
        let slice = |s| (s, first(s)..first(s) + recording.slice_len(s));
        let slices: Vec<_> = (0..recording.slice_count()).map(slice).collect();
        Distances::of_slices(recording, &slices, shared, columns, pool)
    }

    /// The same of a recording whose slices are these iterations.
    pub(super) fn of_parts(
        recording: &Recording<'_>,
        parts: &[Range<usize>],
        shared: &[usize],
        columns: Option<usize>,
    ) -> Option<Distances> {
        let mut slices: Vec<_> = parts.iter().cloned().enumerate().collect();
        slices.sort_by_key(|(_, iterations)| iterations.start);
        Distances::of_slices(recording, &slices, shared, columns, &Inline)
    }

    fn of_slices(
        recording: &Recording<'_>,
        slices: &[(usize, Range<usize>)],
        shared: &[usize],
        columns: Option<usize>,
        pool: &dyn Threads,
    ) -> Option<Distances> {
        let numbering: Vec<Numbering> =
            shared.iter().map(|&capture| numbering(recording, slices, capture, columns).unwrap_or_default()).collect();
        let of_slice = |k: usize| Distances::of_slice(recording, shared, &slices[k], &numbering);
        let sliced = pool.map(slices.len(), of_slice).into_iter().collect::<Option<_>>()?;
        Distances::united(sliced, numbering)
    }

    /// Puts slices together, given by ascending first iterations. Where they overlap they say the same.
    fn united(sliced: Vec<Distances>, numbering: Vec<Numbering>) -> Option<Distances> {
        let places: BTreeSet<(usize, i64)> =
            sliced.iter().flat_map(|slice| &slice.all).map(|distance| (distance.slot, distance.by)).collect();
        if places.len() > MOST_DISTANCES {
            return None;
        }
        let mut all: Vec<Distance> = places.into_iter().map(|(slot, by)| Distance { slot, by, write: false }).collect();
        let mut alike: Vec<Alike> = Vec::new();
        for slice in sliced {
            let place = |one: &Distance| all.partition_point(|other| (other.slot, other.by) < (one.slot, one.by));
            let places: Vec<usize> = slice.all.iter().map(place).collect();
            slice.all.iter().zip(&places).for_each(|(one, &place)| all[place].write |= one.write);
            for mut run in slice.alike {
                run.start = run.start.max(alike.last().map_or(run.start, |last| last.end));
                if run.start >= run.end {
                    continue;
                }
                let bits = places.iter().enumerate().filter(|(k, _)| run.at >> k & 1 == 1);
                let at = bits.fold(0, |at, (_, place)| at | 1 << place);
                match alike.last_mut() {
                    Some(last) if last.at == at && last.end == run.start => last.end = run.end,
                    _ => alike.push(Alike { at, ..run }),
                }
            }
        }
        Some(Distances { all, alike, numbering })
    }

    fn of_slice(
        recording: &Recording<'_>,
        shared: &[usize],
        (s, iterations): &(usize, Range<usize>),
        numbering: &[Numbering],
    ) -> Option<Distances> {
        let logs: Vec<_> = shared.iter().map(|&capture| recording.log(*s, capture)).collect();
        let mut of = Distances { all: Vec::new(), alike: Vec::new(), numbering: Vec::new() };
        for (k, i) in iterations.clone().enumerate() {
            let mut at = 0;
            for (slot, log) in logs.iter().enumerate() {
                let number = if numbering[slot].gap == 0 { i } else { numbering[slot].of(i) };
                for entry in log.of(k) {
                    at |= 1 << of.place(slot, i64::from(entry >> 1) - number as i64, entry & 1 == 1)?;
                }
            }
            let i = i as i64;
            match of.alike.last_mut() {
                Some(last) if last.at == at => last.end = i + 1,
                _ => of.alike.push(Alike { start: i, end: i + 1, at }),
            }
        }
        Some(of)
    }

    fn place(&mut self, slot: usize, by: i64, write: bool) -> Option<usize> {
        let place = self.all.iter().position(|one| one.by == by && one.slot == slot);
        let place = place.unwrap_or_else(|| {
            self.all.push(Distance { slot, by, write });
            self.all.len() - 1
        });
        self.all[place].write |= write;
        (place < MOST_DISTANCES).then_some(place)
    }

    /// What is taken for no step at all, for each shared capture: a distance at which it is written.
    fn bases(&self) -> Vec<i64> {
        let slots = self.all.iter().map(|one| one.slot + 1).max().unwrap_or(0);
        let base = |slot| self.all.iter().find(|one| one.slot == slot && one.write).map_or(0, |one| one.by);
        (0..slots).map(base).collect()
    }

    /// How far the farthest element is from one that is no step at all.
    pub(super) fn farthest(&self) -> i64 {
        self.steps(&self.bases()).max().unwrap_or(0)
    }

    fn steps<'d>(&'d self, bases: &'d [i64]) -> impl Iterator<Item = i64> + 'd {
        self.all.iter().map(|one| (one.by - bases[one.slot]).abs())
    }

    /// The table that iterations take the fewest steps to the left and right in, if they may be cells of one.
    pub(super) fn plainest(&self) -> Option<Lattice> {
        let bases = self.bases();
        let aside = |lattice: &Lattice| {
            let aside = |step: i64| (step + lattice.width / 2).rem_euclid(lattice.width) - lattice.width / 2;
            self.steps(&bases).map(|step| aside(step).abs()).sum::<i64>()
        };
        // (Where there are numbers left out, there is one.)
        self.lattices().into_iter().min_by_key(aside)
    }

    /// Has the iterations in between touch what those do that stand inside.
    pub(super) fn fill(&mut self, is_inside: impl Fn(&Alike) -> bool, range: &Range<usize>) {
        let at = self.alike.iter().filter(|run| is_inside(run)).fold(0, |at, run| at | run.at);
        let mut filled: Vec<Alike> = Vec::with_capacity(2 * self.alike.len());
        let mut end = range.start as i64;
        for &run in &self.alike {
            if end < run.start {
                filled.push(Alike { start: end, end: run.start, at });
            }
            end = run.end;
            filled.push(run);
        }
        if end < range.end as i64 {
            filled.push(Alike { start: end, end: range.end as i64, at });
        }
        self.alike = filled;
    }

    /// The tables that the loop's iterations may be cells of.
    pub(super) fn lattices(&self) -> Vec<Lattice> {
        let bases = self.bases();
        if let Some(numbering) = self.numbering.iter().find(|numbering| numbering.gap > 0) {
            return self.with_rows_of(numbering.columns as i64, &bases).into_iter().collect();
        }
        let steps = self.steps(&bases);
        let widths: BTreeSet<i64> = steps
            .filter(|&step| step >= NARROWEST)
            .flat_map(|step| step - BESIDE..=step + BESIDE)
            .filter(|&width| width >= NARROWEST)
            .collect();
        widths.into_iter().filter_map(|width| self.lattice(width, &bases)).collect()
    }

    fn lattice(&self, width: i64, bases: &[i64]) -> Option<Lattice> {
        let steps = self.cells_away(width, bases);
        let skew = self.skew(&steps)?;
        // Most widths fail on the first rows.
        self.origin(&self.alike[..self.alike.len().min(FIRST)], width, &steps)?;
        let origin = self.origin(&self.alike, width, &steps)?;
        let lattice = self.boxed(Lattice { width, origin, skew, boxes: vec![Cells::default(); steps.len()] });
        let within = |(cells, step): (&Cells, &(i64, i64))| {
            cells.0.is_none_or(|[_, columns]| columns.0 + step.1 >= 0 && columns.1 + step.1 < width)
        };
        lattice.boxes.iter().zip(&steps).all(within).then_some(lattice)
    }

    /// The table whose rows are those of the iterations, whatever is beside them in the captures' own.
    fn with_rows_of(&self, columns: i64, bases: &[i64]) -> Option<Lattice> {
        let steps = self.cells_away(columns, bases);
        let skew = self.skew(&steps)?;
        let lattice = Lattice { width: columns, origin: 0, skew, boxes: vec![Cells::default(); steps.len()] };
        let lattice = self.boxed(lattice);
        // No element is a cell of two rows.
        let apart = |(slot, numbering): (usize, &Numbering)| {
            let of_slot = self.all.iter().zip(&lattice.boxes).zip(&steps).filter(|((one, _), _)| one.slot == slot);
            let columns = of_slot.filter_map(|((_, cells), step)| cells.0.map(|[_, (l, r)]| (l + step.1, r + step.1)));
            let ends = columns.reduce(|(left, right), (l, r)| (left.min(l), right.max(r)));
            ends.is_none_or(|(left, right)| right - left < lattice.width + numbering.gap as i64)
        };
        self.numbering.iter().enumerate().all(apart).then_some(lattice)
    }

    /// Each distance as rows and columns.
    fn cells_away(&self, columns: i64, bases: &[i64]) -> Vec<(i64, i64)> {
        let step = |one: &Distance| {
            let (by, width) = (one.by - bases[one.slot], columns + self.numbering[one.slot].gap as i64);
            let rows = (by + width / 2).div_euclid(width);
            (rows, by - rows * width)
        };
        self.all.iter().map(step).collect()
    }

    /// The table with the cells that use each distance.
    fn boxed(&self, mut lattice: Lattice) -> Lattice {
        for run in &self.alike {
            let (first, last) = (lattice.cell(run.start), lattice.cell(run.end - 1));
            let columns = if first.0 == last.0 { (first.1, last.1) } else { (0, lattice.width - 1) };
            let boxes = lattice.boxes.iter_mut().enumerate().filter(|(k, _)| run.at >> k & 1 == 1);
            boxes.for_each(|(_, cells)| cells.add((first.0, last.0), columns));
        }
        lattice
    }

    /// By how many columns each row must be shifted so that no iteration needs one to its right in a row before.
    fn skew(&self, steps: &[(i64, i64)]) -> Option<i64> {
        let mut skew = 0;
        for (one, a) in self.all.iter().zip(steps).filter(|(one, _)| one.write) {
            for (_, b) in self.all.iter().zip(steps).filter(|(other, _)| other.slot == one.slot) {
                let (rows, columns) = if a.0 < b.0 { (b.0 - a.0, b.1 - a.1) } else { (a.0 - b.0, a.1 - b.1) };
                if rows > 0 {
                    skew = skew.max((rows - 1 - columns) / rows);
                }
            }
        }
        (skew <= MOST_SKEW).then_some(skew)
    }

    /// Where rows begin, so that no iteration steps over the border of its row: the first such number.
    fn origin(&self, alike: &[Alike], width: i64, steps: &[(i64, i64)]) -> Option<i64> {
        // Of each origin: how many of the others' borders it has more than the one before.
        let mut more = vec![0i64; width as usize + 1];
        let mut refuse = |from: i64, to: i64| {
            let (from, to) = (from.rem_euclid(width) as usize, to.rem_euclid(width) as usize);
            more[from] += 1;
            more[to + 1] -= 1;
            if from > to {
                more[0] += 1;
                more[width as usize] -= 1;
            }
        };
        for run in alike.iter().filter(|run| run.at != 0) {
            let columns = steps.iter().enumerate().filter(|(k, _)| run.at >> k & 1 == 1).map(|(_, step)| step.1);
            let (left, right) = columns.fold((0, 0), |(left, right), step| (step.min(left), step.max(right)));
            if right - left == 0 {
                continue;
            }
            // No row begins from this far behind the first on, and up to this far before the last.
            let (from, to) = (run.start + left + 1, run.end - 1 + right);
            if to >= from {
                if to - from + 1 >= width {
                    return None;
                }
                refuse(from, to);
            }
        }
        let mut refused = 0;
        (0..width).find(|&origin| {
            refused += more[origin as usize];
            refused == 0
        })
    }
}

/// How the iterations of slices are numbered for a capture, where they have rows.
fn numbering(
    recording: &Recording<'_>,
    slices: &[(usize, Range<usize>)],
    capture: usize,
    columns: Option<usize>,
) -> Option<Numbering> {
    let columns = columns?;
    let written = |(s, iterations): &(usize, Range<usize>), last: bool| {
        let log = recording.log(*s, capture);
        let writes = |k: usize| {
            let entry = log.of(k).iter().find(|entry| *entry & 1 == 1)?;
            Some((iterations.start + k, entry >> 1))
        };
        let mut all = 0..iterations.len();
        if last { all.rev().find_map(writes) } else { all.find_map(writes) }
    };
    let first = slices.iter().find_map(|slice| written(slice, false))?;
    let last = slices.iter().rev().find_map(|slice| written(slice, true))?;
    Numbering::new(columns, first, last)
}

/// A rectangle of cells: first and last row, first and last column.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cells(Option<[(i64, i64); 2]>);

impl Cells {
    fn add(&mut self, rows: (i64, i64), columns: (i64, i64)) {
        let unite = |a: (i64, i64), b: (i64, i64)| (a.0.min(b.0), a.1.max(b.1));
        self.0 = Some(self.0.map_or([rows, columns], |[r, c]| [unite(r, rows), unite(c, columns)]));
    }

    /// The first and the last column of a row.
    pub(super) fn columns(&self, row: i64) -> Option<(i64, i64)> {
        self.0.filter(|[rows, _]| rows.0 <= row && row <= rows.1).map(|[_, columns]| columns)
    }
}

/// Iterations as cells of a table.
#[derive(Debug)]
pub(super) struct Lattice {
    pub(super) width: i64,
    origin: i64,
    /// How many columns each row is shifted by.
    pub(super) skew: i64,
    /// For each distance: all iterations that touch an element there, and perhaps others.
    pub(super) boxes: Vec<Cells>,
}

impl Lattice {
    /// Row and column of an iteration.
    pub(super) fn cell(&self, iteration: i64) -> (i64, i64) {
        let at = iteration - self.origin;
        (at.div_euclid(self.width), at.rem_euclid(self.width))
    }

    /// The iteration in a cell.
    pub(super) fn iteration(&self, (row, column): (i64, i64)) -> i64 {
        self.origin + row * self.width + column
    }
}
