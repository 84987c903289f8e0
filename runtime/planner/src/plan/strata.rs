//! Strata: the serial order of the blocks, cut where a block shares a part with one that stands before it in the same
//! stratum. Relaxed state is merged from stratum to stratum.

use super::BlockGraph;

/// Where nothing is shared, a stratum ends all the same, after this many blocks or as many as the parts of a DDS.
const WIDEST: usize = 32;
/// How many strata reads of relaxed state may lag behind where the loop doesn't say.
const STALENESS: usize = 2;

/// The strata of a plan.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Strata {
    /// The first block of each, and the number of blocks.
    starts: Vec<u32>,
    staleness: usize,
}

impl Strata {
    /// Cuts the serial order that a graph stands for. `parts`: the most that a DDS is cut into, as many blocks as a stratum of a rotation has.
    pub fn new(graph: &BlockGraph, parts: usize, staleness: Option<usize>) -> Self {
        let widest = WIDEST.max(parts);
        let n = graph.len();
        // The last of the blocks before each that it shares a part with.
        let mut follows: Vec<Option<usize>> = vec![None; n];
        for block in 0..n {
            graph.followers(block).iter().for_each(|&after| follows[after as usize] = Some(block));
        }
        let mut starts = vec![0u32];
        let mut start = 0;
        for (block, follows) in follows.iter().enumerate() {
            if follows.is_some_and(|before| before >= start) || block - start == widest {
                starts.push(block as u32);
                start = block;
            }
        }
        starts.push(n as u32);
        Strata { starts, staleness: staleness.unwrap_or(STALENESS).max(1) }
    }

    /// As they travel.
    pub fn to_parts(&self) -> (Vec<u32>, usize) {
        (self.starts.clone(), self.staleness)
    }

    /// Of what has travelled: starts that rise from 0 on.
    pub fn of_parts(starts: Vec<u32>, staleness: usize) -> Option<Self> {
        let whole = starts.first() == Some(&0) && starts.is_sorted() && starts.len() > 1;
        whole.then(|| Strata { starts, staleness: staleness.max(1) })
    }

    /// By how many strata reads of relaxed state may lag behind.
    pub fn staleness(&self) -> usize {
        self.staleness
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len().saturating_sub(1)
    }

    /// How many blocks the plan has.
    pub fn blocks(&self) -> usize {
        self.starts.last().map_or(0, |&end| end as usize)
    }

    /// The blocks of a stratum.
    pub fn blocks_of(&self, stratum: usize) -> std::ops::Range<usize> {
        self.starts[stratum] as usize..self.starts[stratum + 1] as usize
    }

    /// The stratum of a block.
    pub fn of(&self, block: usize) -> usize {
        self.starts[1..].partition_point(|&start| start as usize <= block)
    }

    /// How many strata of additions to relaxed state a block sees: the first ones in the serial order.
    pub fn seen_by(&self, block: usize) -> usize {
        (self.of(block) + 1).saturating_sub(self.staleness)
    }

    /// What must have ended before a block starts besides what shares its parts: pairs (before, after). Of as many strata as
    /// reads may lag behind those blocks are named that none of these strata has to wait for by the graph; they wait for those before them.
    pub fn edges(&self, graph: &BlockGraph) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        for stratum in self.staleness..self.count() {
            let seen = stratum + 1 - self.staleness;
            let [first, end] = [seen.saturating_sub(self.staleness), seen].map(|stratum| self.starts[stratum]);
            let is_last = |&before: &u32| graph.followers(before as usize).iter().all(|&after| after >= end);
            let last: Vec<u32> = (first..end).filter(is_last).collect();
            edges.extend(
                self.blocks_of(stratum).flat_map(|after| last.iter().map(move |&before| (before, after as u32))),
            );
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Touch;

    /// The rotation of n x n blocks, of which some may be missing.
    fn rotation(n: u32, is_there: impl Fn(u32, u32) -> bool) -> BlockGraph {
        let all = (0..n).flat_map(|s| (0..n).map(move |i| (i, (i + s) % n))).filter(|&(i, j)| is_there(i, j));
        let touch = |resource| Touch { resource, write: true };
        let touches: Vec<[Touch; 2]> = all.map(|(i, j)| [touch(i), touch(n + j)]).collect();
        BlockGraph::from_touches(vec![1; touches.len()], 2 * n as usize, touches.iter().map(|touches| &touches[..]))
    }

    #[test]
    fn a_rotations_strata() {
        let strata = Strata::new(&rotation(4, |_, _| true), 4, None);
        assert_eq!(strata.to_parts(), (vec![0, 4, 8, 12, 16], 2));
        assert_eq!((0..16).map(|b| strata.of(b)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!([0, 4, 8, 12].map(|b| strata.seen_by(b)), [0, 0, 1, 2]);
        let strata = Strata::new(&rotation(100, |_, _| true), 100, None);
        assert_eq!(strata.count(), 100, "large ones are whole, too");
    }

    #[test]
    fn all_that_a_block_sees_has_ended_before_it_starts() {
        for (n, missing) in [(1, u32::MAX), (2, u32::MAX), (5, u32::MAX), (8, u32::MAX), (8, 3), (9, 2), (12, 5)] {
            for staleness in [1, 2, 3, 7] {
                let mut graph = rotation(n, |i, j| (3 * i + 5 * j + i * j) % missing != 1);
                let strata = Strata::new(&graph, n as usize, Some(staleness));
                graph.add_edges(strata.edges(&graph));
                let blocks = strata.blocks();
                let mut ended_before: Vec<Vec<bool>> = vec![vec![false; blocks]; blocks];
                for before in 0..blocks {
                    let ended = ended_before[before].clone();
                    for &after in graph.followers(before) {
                        let ended_before = &mut ended_before[after as usize];
                        ended_before.iter_mut().zip(&ended).for_each(|(to, from)| *to |= from);
                        ended_before[before] = true;
                    }
                }
                for (block, ended) in ended_before.iter().enumerate() {
                    let mut seen = (0..strata.seen_by(block)).flat_map(|stratum| strata.blocks_of(stratum));
                    assert!(seen.all(|other| ended[other]), "{n}, {missing}, {staleness}: what {block} sees");
                }
            }
        }
    }

    #[test]
    fn where_nothing_is_shared_strata_end() {
        let strata = Strata::new(&BlockGraph::from_edges(vec![1; 70], Vec::new()), 0, Some(1));
        assert_eq!(strata.to_parts(), (vec![0, 32, 64, 70], 1));
    }
}
