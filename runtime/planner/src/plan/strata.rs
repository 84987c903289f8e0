//! Strata: the serial order of the blocks, cut where a block shares a part with one that stands before it in the same
//! stratum. Relaxed state is merged from stratum to stratum.

use super::BlockGraph;

/// Where nothing is shared, a stratum ends all the same.
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
    /// Cuts the serial order that a graph stands for.
    pub fn new(graph: &BlockGraph, staleness: Option<usize>) -> Self {
        let n = graph.len();
        // The last of the blocks before each that it shares a part with.
        let mut follows: Vec<Option<usize>> = vec![None; n];
        for block in 0..n {
            graph.followers(block).iter().for_each(|&after| follows[after as usize] = Some(block));
        }
        let mut starts = vec![0u32];
        let mut start = 0;
        for (block, follows) in follows.iter().enumerate() {
            if follows.is_some_and(|before| before >= start) || block - start == WIDEST {
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

    /// What must have ended before a block starts besides what shares its parts: pairs (before, after). The blocks of as
    /// many strata as reads may lag behind are named; they wait for those before them.
    pub fn edges(&self) -> Vec<(u32, u32)> {
        let mut edges = Vec::new();
        for stratum in self.staleness..self.count() {
            let seen = stratum + 1 - self.staleness;
            for before in seen.saturating_sub(self.staleness)..seen {
                for after in self.blocks_of(stratum) {
                    edges.extend(self.blocks_of(before).map(|before| (before as u32, after as u32)));
                }
            }
        }
        edges
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rotation(n: u32) -> BlockGraph {
        let block = |s: u32, i: u32| s * n + i;
        let mut edges = Vec::new();
        for s in 1..n {
            for i in 0..n {
                edges.push((block(s - 1, i), block(s, i)));
                edges.push((block(s - 1, (i + 1) % n), block(s, i)));
            }
        }
        BlockGraph::from_edges(vec![1; (n * n) as usize], edges)
    }

    #[test]
    fn a_rotations_strata() {
        let strata = Strata::new(&rotation(4), None);
        assert_eq!(strata.to_parts(), (vec![0, 4, 8, 12, 16], 2));
        assert_eq!((0..16).map(|b| strata.of(b)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
        assert_eq!([0, 4, 8, 12].map(|b| strata.seen_by(b)), [0, 0, 1, 2]);
    }

    #[test]
    fn all_that_a_block_sees_has_ended_before_it_starts() {
        for n in [1, 2, 5, 8] {
            for staleness in [1, 2, 3, 7] {
                let graph = rotation(n);
                let strata = Strata::new(&graph, Some(staleness));
                let blocks = strata.blocks();
                let mut ended_before: Vec<Vec<bool>> = vec![vec![false; blocks]; blocks];
                let mut edges: Vec<(u32, u32)> = strata.edges();
                edges.sort_unstable_by_key(|&(before, after)| (after, before));
                for (before, after) in edges {
                    assert!(before < after);
                    let inherited = ended_before[before as usize].clone();
                    for (to, from) in ended_before[after as usize].iter_mut().zip(inherited) {
                        *to |= from;
                    }
                    ended_before[after as usize][before as usize] = true;
                }
                for (block, ended) in ended_before.iter().enumerate() {
                    let mut seen = (0..strata.seen_by(block)).flat_map(|stratum| strata.blocks_of(stratum));
                    assert!(seen.all(|other| ended[other]), "{n}, {staleness}: what {block} sees");
                }
            }
        }
    }

    #[test]
    fn where_nothing_is_shared_strata_end() {
        let strata = Strata::new(&BlockGraph::from_edges(vec![1; 70], Vec::new()), Some(1));
        assert_eq!(strata.to_parts(), (vec![0, 32, 64, 70], 1));
    }
}
