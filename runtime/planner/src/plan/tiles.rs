//! Tiles: under `order = Preserve`, a loop whose iterations are cells of a table runs along its diagonals.
//!
//! The table is cut into bands of rows and strips of columns, the strips shifted from row to row where an iteration needs one
//! to its right in a row before (skewing: a unimodular transform, as Orion uses them). Then no dependence leads up or to
//! the left, so that a tile waits for the one on its left and the one above, and all on an anti-diagonal run at the same time.
//!
//! What a tile's iterations may touch is a function of the distances alone: a run of consecutive iterations has a *kind*, and
//! each kind has ranges of distances for each capture. Any two iterations of which one may write what the other may touch
//! by these stand in ordered tiles, or in one tile in the loop's order.

use std::ops::Range;

use super::graph::BlockGraph;
use super::lattice::{Distances, Lattice, Numbering};
use super::outline;
use crate::recording::{Recording, Usage};
use crate::threads::Threads;

/// How many ranges of distances a tiled loop may read of one capture.
pub const READS: usize = 5;
/// How many bands and strips are cut at most: on a square table that leaves 33 tiles to run at the same time.
const MOST_CUTS: usize = 68;
/// Columns that a strip has at least: each row of a tile is a run of its own.
const NARROWEST: usize = 16;
/// How many rows run together at most.
pub const TOGETHER: usize = 4;
/// Accesses that a tile makes at least.
const WORTH_A_TILE: f64 = 4096.0;
/// More kinds of runs than this are no table's.
const MOST_KINDS: usize = 256;

/// Distances from an iteration's number: `len` of them from `from` on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Window {
    /// The first.
    pub from: isize,
    /// How many.
    pub len: usize,
}

/// At which distances a run's iterations may touch the elements of a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reach {
    /// To read them; where they may write they may read.
    pub reads: [Window; READS],
    /// To write them.
    pub write: Window,
}

/// Iterations of a tile: as many in each of some rows. They run column by column, so that no iteration waits for the result of
/// the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The offset of the first from the loop's first.
    pub offset: u32,
    /// How many follow one another in each row.
    pub len: u32,
    /// How many rows.
    pub rows: u32,
    /// What is added to the offsets of a row for those of the next one.
    pub stride: u32,
    /// What they may touch: a place in [`Tiles::kinds`].
    pub kind: u32,
}

impl Run {
    /// How many iterations it has.
    pub fn iterations(&self) -> usize {
        self.len as usize * self.rows as usize
    }

    /// The offsets of its iterations, in the order of execution.
    #[inline(always)]
    pub fn offsets(&self) -> impl Iterator<Item = usize> + use<> {
        let Run { offset, len, rows, stride, .. } = *self;
        let row = move |k: u32| offset as usize + k as usize * stride as usize;
        (0..len as usize).flat_map(move |t| (0..rows).map(move |k| row(k) + t))
    }
}

/// Tiles of the same rows, each on the right of the one before, for which it waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Band {
    /// Its blocks.
    pub blocks: Range<usize>,
    /// The offsets of their iterations.
    pub offsets: Range<usize>,
}

/// Blocks that are tiles.
#[derive(Debug, Default)]
pub struct Tiles {
    /// The iterations, block by block, in the order of execution.
    pub runs: Vec<Run>,
    /// Where each block's runs begin, and the end.
    pub starts: Vec<u32>,
    /// Of each kind of runs: what they reach of each capture.
    pub kinds: Vec<Vec<Reach>>,
    /// The tiles of some rows.
    pub bands: Vec<Band>,
    /// For each capture: the one distance at which iterations write it, if there is one.
    pub written_at: Vec<Option<isize>>,
    /// For each capture: the numbers of iterations that distances are counted from.
    pub numbering: Vec<Numbering>,
    /// The width of a row.
    pub width: usize,
    /// How many rows and columns a tile has.
    pub tile: (usize, usize),
}

impl Tiles {
    /// The runs of a block.
    pub fn of(&self, block: usize) -> &[Run] {
        &self.runs[self.starts[block] as usize..self.starts[block + 1] as usize]
    }

    /// The band of a block.
    pub fn band_of(&self, block: usize) -> &Band {
        &self.bands[self.bands.partition_point(|band| band.blocks.end <= block)]
    }

    /// The numbers that a band's iterations have for a capture, from the first to the last, counted from the loop's first iteration.
    pub fn numbers(&self, capture: usize, first: usize, band: &Band) -> Range<usize> {
        let number = |offset: usize| self.numbering[capture].of(first + offset) - first;
        number(band.offsets.start)..number(band.offsets.end - 1) + 1
    }

    /// How many iterations a block has.
    pub fn iterations(&self, block: usize) -> usize {
        self.of(block).iter().map(Run::iterations).sum()
    }
}

/// What tiles are cut from: the shared captures and their lengths, and what an iteration costs.
pub(super) struct Cutting<'c> {
    pub(super) recording: &'c Recording<'c>,
    pub(super) shared: &'c [usize],
    pub(super) lens: &'c [usize],
    pub(super) columns: Option<usize>,
    pub(super) cost_each: f64,
    pub(super) block_cost: u64,
}

impl Cutting<'_> {
    /// The tiles that a number of workers would be done with first, if the loop's iterations are cells of a table.
    pub(super) fn tiles(&self, workers: usize, pool: &dyn Threads) -> Option<(Tiles, BlockGraph, u64)> {
        let distances = &match self.recording.outline() {
            [] => Distances::new(self.recording, self.shared, self.columns, pool)?,
            _ => outline::distances(self.recording, self.shared, self.columns)?,
        };
        let cut = |lattice: Lattice| {
            let (tiles, edges) = self.cut(distances, &lattice)?;
            let blocks = tiles.starts.len() - 1;
            let cost = |b: usize| (tiles.iterations(b) as f64 * self.cost_each) as u64 + self.block_cost;
            let graph = BlockGraph::from_edges((0..blocks).map(cost).collect(), edges);
            let makespan = graph.makespan(workers);
            Some((tiles, graph, makespan))
        };
        distances.lattices().into_iter().filter_map(cut).min_by_key(|(.., makespan)| *makespan)
    }

    /// How many rows and columns a tile has.
    fn size(&self, rows: usize, width: usize) -> (i64, i64) {
        let even = |n: usize, each: usize| n.div_ceil(n.div_ceil(each)) as i64;
        let (mut high, mut wide) = (rows.div_ceil(MOST_CUTS), width.div_ceil(MOST_CUTS).max(NARROWEST).min(width));
        let lacking = WORTH_A_TILE / (self.cost_each * (high * wide) as f64);
        if lacking > 1.0 {
            wide = ((wide as f64 * lacking.sqrt()).ceil() as usize).min(width);
            let enough = (WORTH_A_TILE / (self.cost_each * wide as f64)).ceil() as usize;
            high = high.max(enough.min(rows));
        }
        (even(rows, high), even(width, wide))
    }

    /// Cuts the table, and says which tiles wait for which.
    fn cut(&self, distances: &Distances, lattice: &Lattice) -> Option<(Tiles, Vec<(u32, u32)>)> {
        let range = &self.recording.range;
        let (first, last) = (lattice.cell(range.start as i64).0, lattice.cell(range.end as i64 - 1).0);
        let (high, wide) = self.size((last - first + 1) as usize, lattice.width as usize);
        let mut kinds = Kinds { of: self, distances, masks: Vec::new() };
        let mut tiles = Tiles { starts: vec![0], width: lattice.width as usize, ..Tiles::default() };
        tiles.tile = (high as usize, wide as usize);
        let mut edges = Vec::new();
        let mut together = Together { stride: (lattice.width - lattice.skew) as u32, ..Together::default() };
        // The band above: of each strip, from the first that it has on, the block there or on its left.
        let mut above: (i64, Vec<u32>) = (0, Vec::new());
        for band in (first..=last).step_by(high as usize) {
            let rows = band..(band + high).min(last + 1);
            let shift = |row: i64| lattice.skew * (row - first);
            let strips = shift(band) / wide..=(shift(rows.end - 1) + lattice.width - 1) / wide;
            let mut here: (i64, Vec<u32>) = (*strips.start(), Vec::new());
            for strip in strips {
                for row in rows.clone() {
                    let column = strip * wide - shift(row);
                    let columns = column.max(0)..(column + wide).min(lattice.width);
                    kinds.push_row(lattice, row, columns, (&mut tiles.runs, &mut together))?;
                }
                together.end(&mut tiles.runs);
                if tiles.runs.len() == tiles.starts[tiles.starts.len() - 1] as usize {
                    // Behind the loop's last iteration, or before its first.
                    match here.1.last() {
                        Some(&left) => here.1.push(left),
                        None => here.0 += 1,
                    }
                    continue;
                }
                let block = tiles.starts.len() as u32 - 1;
                edges.extend(here.1.last().map(|&left| (left, block)));
                let over = usize::try_from(strip - above.0).ok().map(|k| k.min(above.1.len().saturating_sub(1)));
                edges.extend(over.and_then(|k| above.1.get(k)).map(|&over| (over, block)));
                here.1.push(block);
                tiles.starts.push(tiles.runs.len() as u32);
            }
            let ends = [band, rows.end].map(|row| lattice.iteration((row, 0)));
            let offset = |at: i64| (at.clamp(range.start as i64, range.end as i64) - range.start as i64) as usize;
            let from = tiles.bands.last().map_or(0, |band| band.blocks.end);
            let blocks = from..tiles.starts.len() - 1;
            tiles.bands.push(Band { blocks, offsets: offset(ends[0])..offset(ends[1]) });
            above = here;
        }
        tiles.written_at = self.written_at(distances);
        tiles.numbering = vec![Numbering::default(); self.recording.usage.len()];
        self.shared.iter().zip(&distances.numbering).for_each(|(&c, &numbering)| tiles.numbering[c] = numbering);
        tiles.kinds = kinds.masks.iter().map(|&mask| self.reaches(distances, mask)).collect::<Option<_>>()?;
        Some((tiles, edges))
    }

    /// At which distance each capture is written.
    fn written_at(&self, distances: &Distances) -> Vec<Option<isize>> {
        let mut at: Vec<Option<isize>> = self.in_step().collect();
        for (slot, &capture) in self.shared.iter().enumerate() {
            let mut written = distances.all.iter().filter(|one| one.slot == slot && one.write);
            at[capture] = written.next().map(|one| one.by as isize).filter(|_| written.next().is_none());
        }
        at
    }

    /// Of each capture that is in step and written: the distance.
    fn in_step(&self) -> impl Iterator<Item = Option<isize>> + '_ {
        self.recording.usage.iter().map(|usage| match *usage {
            Usage::InStep { offset, written: true } => Some(offset as isize),
            _ => None,
        })
    }

    /// What runs reach that touch elements at these distances, of each capture.
    fn reaches(&self, distances: &Distances, mask: u32) -> Option<Vec<Reach>> {
        let own = |from: isize| {
            let window = Window { from, len: 1 };
            let mut reach = Reach { write: window, ..Reach::default() };
            reach.reads[0] = window;
            reach
        };
        let mut reaches: Vec<Reach> = self.in_step().map(|by| by.map_or(Reach::default(), own)).collect();
        for (slot, &capture) in self.shared.iter().enumerate() {
            let these = |write: bool| {
                let all = distances.all.iter().enumerate();
                let these = all.filter(move |(k, one)| mask >> k & 1 == 1 && one.slot == slot && (one.write || !write));
                windows(these.map(|(_, one)| one.by))
            };
            let (reads, writes) = (these(false), these(true));
            if reads.len() > READS || writes.len() > 1 {
                return None;
            }
            let reach = &mut reaches[capture];
            reach.reads[..reads.len()].copy_from_slice(&reads);
            reach.write = writes.first().copied().unwrap_or_default();
        }
        Some(reaches)
    }
}

/// Ascending distances as ranges.
fn windows(distances: impl Iterator<Item = i64>) -> Vec<Window> {
    let mut windows: Vec<Window> = Vec::new();
    for by in distances {
        match windows.last_mut() {
            Some(last) if last.from as i64 + last.len as i64 == by => last.len += 1,
            _ => windows.push(Window { from: by as isize, len: 1 }),
        }
    }
    windows
}

/// Rows that run together, since their runs are the same.
#[derive(Default)]
struct Together {
    stride: u32,
    /// What the rows have so far, and what the newest has.
    rows: Vec<Run>,
    row: Vec<Run>,
}

impl Together {
    fn end_row(&mut self, runs: &mut Vec<Run>) {
        let below = |(rows, row): (&Run, &Run)| {
            rows.rows < TOGETHER as u32
                && (rows.offset + rows.rows * self.stride, rows.len, rows.kind) == (row.offset, row.len, row.kind)
        };
        if self.rows.len() == self.row.len() && self.rows.iter().zip(&self.row).all(below) {
            self.rows.iter_mut().for_each(|run| run.rows += 1);
        } else {
            self.end(runs);
            std::mem::swap(&mut self.rows, &mut self.row);
        }
        self.row.clear();
    }

    fn end(&mut self, runs: &mut Vec<Run>) {
        runs.append(&mut self.rows);
    }
}

/// The kinds of runs: at which distances they touch elements, a bit each.
struct Kinds<'c> {
    of: &'c Cutting<'c>,
    distances: &'c Distances,
    masks: Vec<u32>,
}

impl Kinds<'_> {
    /// Adds the iterations in some columns of a row, as runs. None: there are too many kinds.
    fn push_row(
        &mut self,
        lattice: &Lattice,
        row: i64,
        columns: Range<i64>,
        (runs, together): (&mut Vec<Run>, &mut Together),
    ) -> Option<()> {
        let range = &self.of.recording.range;
        let (first, end) = (range.start as i64, range.end as i64);
        let begin = lattice.iteration((row, columns.start)).max(first);
        let stop = lattice.iteration((row, columns.end)).min(end);
        let mut at = begin;
        while at < stop {
            // The iterations from here on that touch elements at the same distances.
            let (mut mask, mut until) = (0, stop);
            for (k, one) in self.distances.all.iter().enumerate() {
                let Some((left, right)) = lattice.boxes[k].columns(row) else { continue };
                let len = self.of.lens[one.slot] as i64;
                let by = one.by + row * self.distances.numbering[one.slot].gap as i64;
                let from = lattice.iteration((row, left)).max(-by);
                let to = (lattice.iteration((row, right)) + 1).min(len - by);
                if from <= at && at < to {
                    mask |= 1 << k;
                    until = until.min(to);
                } else if at < from && from < to {
                    until = until.min(from);
                }
            }
            let kind = self.masks.iter().position(|&other| other == mask).unwrap_or_else(|| {
                self.masks.push(mask);
                self.masks.len() - 1
            });
            if kind >= MOST_KINDS {
                return None;
            }
            let (offset, len) = ((at - first) as u32, (until - at) as u32);
            together.row.push(Run { offset, len, rows: 1, stride: together.stride, kind: kind as u32 });
            at = until;
        }
        together.end_row(runs);
        Some(())
    }
}
