//! The rotation: a serial order for grids of two DDSs in which every part passes the parts of the other DDS in the
//! same cyclic order.
//!
//! Block (i, j) of part i of one DDS and part j of the other stands in stratum (j - i) mod n (STRADS section 3.3.1).
//! A worker that owns neighbouring parts of one DDS then has each part of the other pass by once, in one go; in an order
//! that only looks for work to do, parts wander. Which part is the i-th is free: parts are numbered so that the
//! longest chain of blocks is short, which it is where blocks of like cost stand in the same stratum.

use std::cmp::Reverse;

use super::graph::Touch;
use super::group::Parts;

/// Larger grids keep their numbers: they have work enough in every stratum.
const RENUMBERED: usize = 32;
/// How often all exchanges of two parts are tried.
const ROUNDS: usize = 6;

/// The groups in their serial order, if each of them touches one part of each of two DDSs.
pub(crate) fn cyclic(touches: &[Box<[Touch]>], cost: &[u64], parts: &Parts) -> Option<Vec<u32>> {
    let [rows, columns] = parts.cuts.as_slice() else { return None };
    let (rows, columns) = (rows.parts(), columns.parts());
    let n = rows.max(columns);
    let cell = |touches: &[Touch]| match *touches {
        [row, column] => {
            let ((slot, row), (other, column)) = (parts.part_of(row.resource), parts.part_of(column.resource));
            (slot == 0 && other == 1).then_some((row, column))
        }
        _ => None,
    };
    let cells: Vec<(usize, usize)> = touches.iter().map(|touches| cell(touches)).collect::<Option<_>>()?;
    let mut strata = Strata {
        rows: (0..n).collect(),
        columns: (0..n).collect(),
        row_ends: vec![0; n],
        column_ends: vec![0; n],
        grid: Vec::new(),
    };
    if n <= RENUMBERED {
        strata.grid = vec![0; n * n];
        for (&(row, column), cost) in cells.iter().zip(cost) {
            strata.grid[row * n + column] += cost;
        }
        strata.renumber(rows, columns);
    }
    let (row_places, column_places) = (places(&strata.rows), places(&strata.columns));
    let mut order: Vec<u32> = (0..cells.len() as u32).collect();
    order.sort_by_key(|&g| {
        let (row, column) = cells[g as usize];
        ((n + column_places[column] - row_places[row]) % n, Reverse(cost[g as usize]), g)
    });
    Some(order)
}

/// The place of each part, from the part at each place.
fn places(parts: &[usize]) -> Vec<usize> {
    let mut places = vec![0; parts.len()];
    parts.iter().enumerate().for_each(|(place, &part)| places[part] = place);
    places
}

struct Strata {
    /// The part at each place, of either DDS.
    rows: Vec<usize>,
    columns: Vec<usize>,
    /// When each part is done with the strata so far.
    row_ends: Vec<u64>,
    column_ends: Vec<u64>,
    /// What each block costs, by row and column; 0 where there is none.
    grid: Vec<u64>,
}

/// The longest chain, and what all strata would take one after the other.
type Length = (u64, u64);

impl Strata {
    /// Exchanges parts as long as that shortens the longest chain.
    fn renumber(&mut self, rows: usize, columns: usize) {
        let n = self.rows.len();
        let row_sums = (0..n).map(|row| self.grid[row * n..][..n].iter().sum::<u64>());
        let column_sums = (0..n).map(|column| (0..n).map(|row| self.grid[row * n + column]).sum::<u64>());
        // The busiest part is a chain in any order.
        let shortest = row_sums.chain(column_sums).max().unwrap_or(0);
        let mut best = self.length((u64::MAX, u64::MAX));
        for _ in 0..ROUNDS {
            let before = best;
            for (of_rows, parts) in [(true, rows), (false, columns)] {
                for (a, b) in (0..parts).flat_map(|a| (a + 1..parts).map(move |b| (a, b))) {
                    if best.0 == shortest {
                        return;
                    }
                    self.exchange(of_rows, a, b);
                    let length = self.length(best);
                    if length < best {
                        best = length;
                    } else {
                        self.exchange(of_rows, a, b);
                    }
                }
            }
            if best == before {
                return;
            }
        }
    }

    fn exchange(&mut self, of_rows: bool, a: usize, b: usize) {
        if of_rows { self.rows.swap(a, b) } else { self.columns.swap(a, b) }
    }

    /// How long the order is, or the most there is once that is more than `best`.
    fn length(&mut self, best: Length) -> Length {
        let n = self.rows.len();
        self.row_ends.fill(0);
        self.column_ends.fill(0);
        let (mut longest, mut one_by_one) = (0, 0);
        for stratum in 0..n {
            let mut costliest = 0;
            for (place, &row) in self.rows.iter().enumerate() {
                let column_place = if place + stratum < n { place + stratum } else { place + stratum - n };
                let cost = self.grid[row * n + self.columns[column_place]];
                let end = self.row_ends[place].max(self.column_ends[column_place]) + cost;
                self.row_ends[place] = end;
                self.column_ends[column_place] = end;
                longest = longest.max(end);
                costliest = costliest.max(cost);
            }
            if longest > best.0 {
                return (u64::MAX, u64::MAX);
            }
            one_by_one += costliest;
        }
        (longest, one_by_one)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::cut::Cut;
    use crate::plan::graph::BlockGraph;

    fn parts(of: &[usize]) -> Parts {
        let cuts = of.iter().map(|&parts| Cut { bounds: (0..=parts).collect() }).collect();
        Parts::new((0..of.len()).collect(), cuts)
    }

    /// Blocks of `rows` x `columns` parts that cost so much, none where that is 0.
    fn grid(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> (Vec<Box<[Touch]>>, Vec<u64>) {
        let cells = (0..rows).flat_map(|i| (0..columns).map(move |j| (i, j))).filter(|&(i, j)| cost(i, j) > 0);
        let touch = |resource: usize| Touch { resource: resource as u32, write: true };
        cells.map(|(i, j)| (Box::from([touch(i), touch(rows + j)]), cost(i, j))).unzip()
    }

    fn critical_path(order: &[u32], touches: &[Box<[Touch]>], cost: &[u64], resources: usize) -> u64 {
        let costs = order.iter().map(|&g| cost[g as usize]).collect();
        BlockGraph::from_touches(costs, resources, order.iter().map(|&g| &*touches[g as usize])).critical_path()
    }

    /// The parts of the other DDS that a part meets, in their order.
    fn met(order: &[u32], touches: &[Box<[Touch]>], part: u32) -> Vec<u32> {
        let blocks = order.iter().map(|&g| &touches[g as usize]);
        let with = blocks.filter(|touches| touches.iter().any(|touch| touch.resource == part));
        with.map(|touches| touches.iter().map(|touch| touch.resource).find(|&r| r != part).unwrap()).collect()
    }

    fn check(rows: usize, columns: usize, cost: impl Fn(usize, usize) -> u64) -> u64 {
        let (touches, costs) = grid(rows, columns, cost);
        let order = cyclic(&touches, &costs, &parts(&[rows, columns])).unwrap();
        let mut sorted = order.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..touches.len() as u32), "not every group once");
        critical_path(&order, &touches, &costs, rows + columns)
    }

    #[test]
    fn equal_blocks_rotate() {
        for (rows, columns) in [(1, 1), (1, 5), (2, 2), (3, 7), (7, 3), (8, 8), (16, 16), (40, 40), (33, 2)] {
            assert_eq!(check(rows, columns, |_, _| 10), 10 * rows.max(columns) as u64, "{rows} x {columns}");
        }
    }

    #[test]
    fn every_part_passes_the_others_in_the_same_circle() {
        for (rows, columns) in [(8, 8), (5, 8), (8, 5), (40, 40)] {
            let (touches, costs) = grid(rows, columns, |i, j| 100 + ((i * 37 + j * 61) % 50) as u64);
            let order = cyclic(&touches, &costs, &parts(&[rows, columns])).unwrap();
            for (first, many) in [(0, rows), (rows, columns)] {
                let circle = met(&order, &touches, first as u32);
                let twice = [circle.clone(), circle].concat();
                for part in first..first + many {
                    let mine = met(&order, &touches, part as u32);
                    assert!(twice.windows(mine.len()).any(|run| run == mine), "{rows} x {columns}, part {part}");
                }
            }
        }
    }

    #[test]
    fn unequal_blocks_come_close_to_the_busiest_part() {
        for n in [4, 8, 16] {
            let cost = |i: usize, j: usize| {
                let mixed = (i * n + j + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
                if mixed.is_multiple_of(8) { 0 } else { 100 + (mixed % 1000) as u64 }
            };
            let row = |i| (0..n).map(|j| cost(i, j)).sum::<u64>();
            let column = |j| (0..n).map(|i| cost(i, j)).sum::<u64>();
            let busiest = (0..n).map(row).chain((0..n).map(column)).max().unwrap();
            let path = check(n, n, cost);
            assert!(path as f64 <= 1.15 * busiest as f64, "{n}: {path}, the busiest part {busiest}");
        }
    }

    #[test]
    fn other_groups_have_no_rotation() {
        let touch = |resource| Touch { resource, write: true };
        let of = |touches: &[u32], sizes: &[usize]| {
            cyclic(&[touches.iter().map(|&r| touch(r)).collect()], &[1], &parts(sizes))
        };
        assert_eq!(of(&[0, 2], &[2, 2]), Some(vec![0]));
        assert_eq!(of(&[0, 1], &[2, 2]), None, "two parts of one DDS");
        assert_eq!(of(&[0], &[2, 2]), None, "one part");
        assert_eq!(of(&[0, 2, 3], &[2, 2]), None, "three parts");
        assert_eq!(of(&[0, 1], &[2]), None, "one DDS");
        assert_eq!(of(&[0, 2], &[2, 2, 2]), None, "three DDSs");
    }
}
