//! The order in which blocks must follow each other, and what it costs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Directed;
use petgraph::csr::Csr;
use petgraph::visit::{EdgeRef, IntoEdgeReferences, IntoNodeReferences};

/// A resource that a block needs, alone or with other readers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Touch {
    /// Which resource.
    pub resource: u32,
    /// Whether it is needed alone.
    pub write: bool,
}

/// The conflict graph of a plan's blocks: an edge leads from a block to one behind it in the serial order that must wait
/// for it. Conflicts that follow from others have no edge of their own.
///
/// A compressed matrix, since graphs with lists of edges (`petgraph::graph::DiGraph`) have 16 bytes for an edge where
/// this has 4, and executors ask for slices of followers.
#[derive(Debug, Default)]
pub struct BlockGraph {
    /// Blocks in serial order, weighed by their cost in accesses.
    graph: Csr<u64, (), Directed, u32>,
    /// For each block: how many blocks it has to wait for.
    pub waits_for: Vec<u32>,
    /// For each block: the cost of the longest chain that begins with it. The block with the largest runs first.
    pub tail: Vec<u64>,
}

impl BlockGraph {
    /// Restricts the serial order to each resource: a writer waits for all before it, a reader for the last writer.
    pub fn from_touches<'t>(cost: Vec<u64>, resources: usize, touches: impl Iterator<Item = &'t [Touch]>) -> Self {
        const NOBODY: u32 = u32::MAX;
        let mut last_writer = vec![NOBODY; resources];
        let mut readers: Vec<Vec<u32>> = vec![Vec::new(); resources];
        let mut edges: Vec<(u32, u32)> = Vec::new();
        for (block, touches) in touches.enumerate() {
            let block = block as u32;
            let from = edges.len();
            for touch in touches {
                let at = touch.resource as usize;
                // Behind readers a writer waits for the writer before them anyway.
                let behind_readers = touch.write && readers[at].iter().any(|&r| r != block);
                if last_writer[at] != NOBODY && last_writer[at] != block && !behind_readers {
                    edges.push((last_writer[at], block));
                }
                if touch.write {
                    edges.extend(readers[at].drain(..).filter(|&r| r != block).map(|reader| (reader, block)));
                    last_writer[at] = block;
                } else {
                    readers[at].push(block);
                }
            }
            unite_edges(&mut edges, from);
        }
        Self::from_edges(cost, edges)
    }

    /// A graph from edges (before, after), in any order.
    ///
    /// # Panics
    /// If a number is not that of a block.
    pub fn from_edges(cost: Vec<u64>, mut edges: Vec<(u32, u32)>) -> Self {
        edges.sort_unstable();
        edges.dedup();
        let Ok(mut graph) = Csr::from_sorted_edges(&edges) else { unreachable!("the edges were sorted") };
        let mut waits_for = vec![0; cost.len()];
        for &(before, after) in &edges {
            debug_assert!(before < after);
            waits_for[after as usize] += 1;
        }
        for (block, &cost) in cost.iter().enumerate() {
            // Only blocks up to the last one of an edge are there yet.
            if block < graph.node_count() {
                graph[block as u32] = cost;
            } else {
                graph.add_node(cost);
            }
        }
        let mut graph = BlockGraph { graph, waits_for, tail: cost };
        // The serial order is a topological one, so chains are known from the end on.
        for block in (0..graph.len()).rev() {
            let after = graph.followers(block).iter().map(|&f| graph.tail[f as usize]).max().unwrap_or(0);
            graph.tail[block] += after;
        }
        graph
    }

    /// Makes blocks wait for further ones: pairs (before, after).
    pub fn add_edges(&mut self, more: Vec<(u32, u32)>) {
        if more.is_empty() {
            return;
        }
        let mut edges = more;
        edges.extend(self.graph.edge_references().map(|edge| (edge.source(), edge.target())));
        let cost = (0..self.len()).map(|block| self.cost(block)).collect();
        *self = BlockGraph::from_edges(cost, edges);
    }

    /// The graph itself: a node for each block, weighed by its cost.
    pub(crate) fn graph(&self) -> &Csr<u64, (), Directed, u32> {
        &self.graph
    }

    /// The cost of a block, in accesses.
    pub fn cost(&self, block: usize) -> u64 {
        self.graph[block as u32]
    }

    /// True if there are no blocks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many blocks there are.
    pub fn len(&self) -> usize {
        self.graph.node_count()
    }

    /// The blocks that wait for this one.
    pub fn followers(&self, block: usize) -> &[u32] {
        self.graph.neighbors_slice(block as u32)
    }

    /// The number of edges.
    pub fn edges(&self) -> usize {
        self.graph.edge_count()
    }

    /// The cost of all blocks.
    pub fn work(&self) -> u64 {
        self.graph.node_references().map(|(_, cost)| cost).sum()
    }

    /// The cost of the longest chain.
    pub fn critical_path(&self) -> u64 {
        self.tail.iter().copied().max().unwrap_or(0)
    }

    /// The time that `workers` need if each always takes the ready block with the longest chain behind it.
    pub fn makespan(&self, workers: usize) -> u64 {
        let mut waits_for = self.waits_for.clone();
        let mut ready: BinaryHeap<(u64, Reverse<usize>)> =
            (0..self.len()).filter(|&b| waits_for[b] == 0).map(|b| (self.tail[b], Reverse(b))).collect();
        let mut running: BinaryHeap<Reverse<(u64, usize)>> = BinaryHeap::new();
        let mut now = 0;
        loop {
            while running.len() < workers {
                let Some((_, Reverse(block))) = ready.pop() else { break };
                running.push(Reverse((now + self.cost(block), block)));
            }
            let Some(Reverse((then, block))) = running.pop() else { return now };
            now = then;
            for &follower in self.followers(block) {
                let follower = follower as usize;
                waits_for[follower] -= 1;
                if waits_for[follower] == 0 {
                    ready.push((self.tail[follower], Reverse(follower)));
                }
            }
        }
    }
}

/// Keeps each of a block's edges, those from a place on, once. Blocks are reached in order, so equal edges are there.
pub(crate) fn unite_edges(edges: &mut Vec<(u32, u32)>, from: usize) {
    edges[from..].sort_unstable();
    let mut kept = from;
    for k in from..edges.len() {
        if k == from || edges[k] != edges[kept - 1] {
            edges[kept] = edges[k];
            kept += 1;
        }
    }
    edges.truncate(kept);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(blocks: &[&[(u32, bool)]]) -> BlockGraph {
        let touches: Vec<Vec<Touch>> = blocks
            .iter()
            .map(|block| block.iter().map(|&(resource, write)| Touch { resource, write }).collect())
            .collect();
        BlockGraph::from_touches(vec![1; blocks.len()], 9, touches.iter().map(Vec::as_slice))
    }

    #[test]
    fn readers_run_together_and_writers_alone() {
        let graph = graph(&[&[(0, true)], &[(0, false)], &[(0, false)], &[(0, true)]]);
        assert_eq!(graph.waits_for, [0, 1, 1, 2]);
        assert_eq!(graph.critical_path(), 3);
        assert_eq!((graph.makespan(1), graph.makespan(2)), (4, 3));
    }

    #[test]
    fn two_shared_resources_are_one_edge() {
        let graph = graph(&[&[(0, true), (1, true)], &[(0, true), (1, true)]]);
        assert_eq!(graph.edges(), 1);
    }

    #[test]
    fn a_latin_square_has_full_parallelism() {
        let n = 4;
        let blocks: Vec<Vec<(u32, bool)>> =
            (0..n).flat_map(|s| (0..n).map(move |i| vec![(i, true), (n + (i + s) % n, true)])).collect();
        let blocks: Vec<&[(u32, bool)]> = blocks.iter().map(Vec::as_slice).collect();
        assert_eq!(graph(&blocks).critical_path(), 4);
    }
}
