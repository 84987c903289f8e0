//! The outline of a table: the iterations that tell what all of them touch, where those of a sample touch elements at few
//! distances, some of them far.
//!
//! Two rows in the middle show how wide rows are and where they begin. Then the iterations beside the border of each row are
//! recorded, and some whole rows at both ends. What is between them is taken to touch what the middle of a row does; an
//! iteration that touches less does no harm, and one that touches more strays: then the loop is recorded in full.

use std::ops::Range;

use super::lattice::{Alike, BESIDE, Distances, Lattice, NARROWEST};
use crate::recording::Recording;

/// How many iterations on each side of a border are recorded.
const BORDER: i64 = 4;
/// How many whole rows at each end.
const WHOLE_ROWS: i64 = 3;
/// At most this share of the loop is recorded: otherwise all of it may be as well.
const SHARE: usize = 8;
/// How many iterations are recorded at a time.
const PIECE: usize = 512;

/// Two rows in the middle of a loop, in pieces, if it may be one over a table by samples of it.
pub fn middle(sampled: &Recording<'_>, samples: &[Range<usize>], columns: Option<usize>) -> Option<Vec<Range<usize>>> {
    let shared = sampled.shared();
    if shared.is_empty() || sampled.cut_short > 0 || sampled.in_all_blocks.is_some() {
        return None;
    }
    let far = Distances::of_parts(sampled, samples, &shared, columns)?.farthest();
    let (range, len) = (&sampled.range, 2 * (far + BESIDE + BORDER) as usize);
    if far < NARROWEST || len > range.len() / SHARE {
        return None;
    }
    let start = range.start + (range.len() - len) / 2;
    Some(pieces(start..start + len).collect())
}

/// The iterations beside all rows' borders and the rows at both ends, given what some rows in the middle touch.
pub fn edges(rows: &Recording<'_>, parts: &[Range<usize>], columns: Option<usize>) -> Option<Vec<Range<usize>>> {
    let distances = Distances::of_parts(rows, parts, &rows.shared(), columns)?;
    let (range, lattice) = (&rows.range, distances.plainest()?);
    let (first, end) = (range.start as i64, range.end as i64);
    let (top, bottom) = (lattice.cell(first).0, lattice.cell(end - 1).0);
    let begin = |row: i64| lattice.iteration((row, 0));
    let mut edges: Vec<Range<usize>> = Vec::new();
    let mut push = |from: i64, to: i64| {
        let (from, to) = (from.clamp(first, end) as usize, to.clamp(first, end) as usize);
        match edges.last_mut() {
            Some(last) if last.end >= from => last.end = last.end.max(to),
            _ if from < to => edges.push(from..to),
            _ => {}
        }
    };
    push(first, begin(top + WHOLE_ROWS));
    (top + WHOLE_ROWS..=bottom - WHOLE_ROWS).for_each(|row| push(begin(row) - BORDER, begin(row) + BORDER));
    push(begin(bottom - WHOLE_ROWS), end);
    let recorded: usize = edges.iter().map(Range::len).sum();
    (recorded <= range.len() / SHARE).then(|| edges.into_iter().flat_map(pieces).collect())
}

/// What all iterations touch, by the outline's.
pub(super) fn distances(recording: &Recording<'_>, shared: &[usize], columns: Option<usize>) -> Option<Distances> {
    if recording.cut_short > 0 || recording.in_all_blocks.is_some() {
        return None;
    }
    let mut distances = Distances::of_parts(recording, recording.outline(), shared, columns)?;
    let lattice = distances.plainest()?;
    distances.fill(|run| is_inside(&lattice, run), &recording.range);
    Some(distances)
}

/// Whether iterations stand away from their row's borders, at least some of them.
fn is_inside(lattice: &Lattice, run: &Alike) -> bool {
    let (first, last) = (lattice.cell(run.start), lattice.cell(run.end - 1));
    first.0 != last.0 || first.1 < lattice.width - BORDER && last.1 >= BORDER
}

fn pieces(of: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    of.clone().step_by(PIECE).map(move |from| from..of.end.min(from + PIECE))
}
