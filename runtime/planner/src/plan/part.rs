//! Parts of a plan, to be run one after the other: consecutive blocks of its serial order.

use std::ops::Range;

use super::graph::BlockGraph;
use super::{Block, Plan};
use crate::options::Strategy;

impl Plan {
    /// Two plans that do, one after the other, what this one does; each has about half of the work. `within_blocks`: whether no bits
    /// depend on where a block begins, so that one can be cut. None where blocks see what others have added to relaxed state, and where there
    /// is nothing to cut.
    ///
    /// # Dependencies
    /// Those of this plan: the second half begins when the first has ended. A serial plan's reductions go on from what the first came to.
    pub fn halves(&self, within_blocks: bool) -> Option<[Plan; 2]> {
        if self.strata.blocks() > 0 || self.tiles.is_some() {
            return None;
        }
        if self.blocks.len() < 2 {
            return if self.strategy == Strategy::Serial {
                self.serial_halves()
            } else {
                self.block_halves(within_blocks)
            };
        }
        let half = self.graph.work().div_ceil(2);
        let mut before = 0;
        let reaches_half = |b: &usize| {
            before += self.graph.cost(*b);
            before >= half
        };
        let last = (0..self.blocks.len()).find(reaches_half).unwrap_or(0);
        let cut = (last + 1).min(self.blocks.len() - 1);
        Some([self.of_blocks(0..cut), self.of_blocks(cut..self.blocks.len())])
    }

    /// Of a plan of one block.
    fn block_halves(&self, may_be_cut: bool) -> Option<[Plan; 2]> {
        let Block { start, end } = *self.blocks.first()?;
        if !may_be_cut || end - start < 2 || self.has_alone() {
            return None;
        }
        let middle = start + (end - start) / 2;
        let half = |start: usize, end: usize| Plan { blocks: vec![Block { start, end }], ..self.of_blocks(0..1) };
        Some([half(start, middle), half(middle, end)])
    }

    fn serial_halves(&self) -> Option<[Plan; 2]> {
        let Range { start, end } = self.range;
        if end - start < 2 || !self.offsets.is_empty() {
            return None;
        }
        let middle = start + (end - start) / 2;
        let half = |range: Range<usize>| Plan {
            usage: self.usage.clone(),
            fields: self.fields.clone(),
            ..Plan::serial(range, self.usage.len(), self.facts.clone())
        };
        Some([half(start..middle), half(middle..end)])
    }

    /// Some of the blocks alone, which keep their places in the whole plan's serial order as their numbers.
    fn of_blocks(&self, blocks: Range<usize>) -> Plan {
        let first = blocks.start;
        let mut edges = Vec::new();
        for b in blocks.clone() {
            let followers = self.graph.followers(b).iter().map(|&follower| follower as usize);
            let within = followers.filter(|follower| blocks.contains(follower));
            edges.extend(within.map(|follower| ((b - first) as u32, (follower - first) as u32)));
        }
        let mut touch_starts = Vec::new();
        let mut touches = Vec::new();
        if !self.touch_starts.is_empty() {
            touch_starts.push(0);
            for b in blocks.clone() {
                touches.extend_from_slice(self.touches(b));
                touch_starts.push(touches.len() as u32);
            }
        }
        let alone = self.alone.iter().filter(|&&b| blocks.contains(&(b as usize)));
        let own: Vec<Block> = self.blocks[blocks.clone()].to_vec();
        Plan {
            strategy: self.strategy,
            usage: self.usage.clone(),
            blocks: own,
            offsets: self.offsets.clone(),
            graph: BlockGraph::from_edges(blocks.clone().map(|b| self.graph.cost(b)).collect(), edges),
            parts: self.parts.clone(),
            touch_starts,
            touches,
            listed: self.listed.clone(),
            shared: self.shared.clone(),
            windows: self.windows.clone(),
            fields: self.fields.clone(),
            sparse: self.sparse.clone(),
            alone: alone.map(|&b| b - first as u32).collect(),
            global: blocks.map(|b| self.number(b) as u32).collect(),
            ..Plan::serial(self.range.clone(), self.usage.len(), self.facts.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Facts, Touch};

    /// Blocks of a plan and all its parts, down to those that can't be cut, as numbers of the whole.
    fn leaves(plan: &Plan) -> Vec<Vec<usize>> {
        match plan.halves(false) {
            Some(halves) => halves.iter().flat_map(leaves).collect(),
            None => vec![(0..plan.blocks.len()).map(|b| plan.number(b)).collect()],
        }
    }

    #[test]
    fn halves_have_all_blocks_in_their_order_with_what_they_touch() {
        for n in 1..12usize {
            let write = |resource: usize| Touch { resource: resource as u32, write: true };
            let touches: Vec<Vec<Touch>> = (0..n).map(|b| vec![write(b % 3), write(3 + b * b % 2)]).collect();
            let cost: Vec<u64> = (0..n).map(|b| 1 + (b * 5 % 7) as u64).collect();
            let plan = Plan::of_touches(&[3, 2], cost, &touches);
            assert_eq!(leaves(&plan), (0..n).map(|b| vec![b]).collect::<Vec<_>>());
            let Some(halves) = plan.halves(false) else { continue };
            let mut first = 0;
            for half in &halves {
                for b in 0..half.blocks.len() {
                    assert_eq!(half.blocks[b], plan.blocks[first + b]);
                    assert_eq!(half.touches(b), plan.touches(first + b));
                    let follow = |followers: &[u32], first: usize| -> Vec<usize> {
                        followers
                            .iter()
                            .map(|&b| b as usize + first)
                            .filter(|&b| b < first + half.blocks.len())
                            .collect()
                    };
                    let whole: Vec<usize> = plan.graph.followers(first + b).iter().map(|&b| b as usize).collect();
                    let within: Vec<usize> =
                        whole.into_iter().filter(|b| (first..first + half.blocks.len()).contains(b)).collect();
                    assert_eq!(follow(half.graph.followers(b), first), within);
                }
                first += half.blocks.len();
            }
            assert_eq!(first, n);
        }
    }

    #[test]
    fn a_serial_loop_is_cut_by_iterations() {
        let plan = Plan::serial(3..10, 2, Facts::default());
        let [a, b] = plan.halves(false).expect("seven iterations");
        assert_eq!((a.range, b.range), (3..6, 6..10));
        assert!(Plan::serial(3..4, 2, Facts::default()).halves(true).is_none());
    }

    #[test]
    fn a_block_is_cut_where_no_bits_depend_on_it() {
        let touches = vec![vec![Touch { resource: 1, write: true }]];
        let one = Plan { blocks: vec![Block { start: 2, end: 7 }], ..Plan::of_touches(&[2], vec![9], &touches) };
        assert!(one.halves(false).is_none());
        let halves = one.halves(true).expect("five iterations");
        assert_eq!(
            halves.each_ref().map(|half| half.blocks[0]),
            [Block { start: 2, end: 4 }, Block { start: 4, end: 7 }]
        );
        for half in &halves {
            assert_eq!((half.touches(0), half.number(0)), (&touches[0][..], 0));
        }
    }
}
