//! Iterations that run alone: those that a plan can't foresee, since what they touch depends on what others write. Each waits for
//! all before it in the serial order, and all behind it wait for it, so that it may touch anything.
//!
//! Where any order will do, they come last, in one block. Where the loop's order counts, the plan is cut at each of them: the blocks
//! come once with the iterations before it, and once more with those behind.

use std::ops::Range;
use std::sync::Arc;

use super::{Block, BlockGraph, Listed, Plan};
use crate::options::Strategy;

/// A plan may have this many blocks.
const MOST_BLOCKS: usize = 1 << 14;

impl Plan {
    /// Whether a block runs alone and may touch anything.
    pub fn is_alone(&self, block: usize) -> bool {
        self.alone.binary_search(&(block as u32)).is_ok()
    }

    /// Whether there is such a block.
    pub fn has_alone(&self) -> bool {
        !self.alone.is_empty()
    }

    /// The same plan with some iterations alone, given by their offsets in ascending order. `None` if that isn't possible, or would
    /// make too many blocks.
    pub fn with_alone(&self, odd: &[u32], in_order: bool) -> Option<Plan> {
        let n = u32::try_from(self.range.len()).ok()?;
        let known = odd.is_sorted_by(|a, b| a < b) && odd.last().is_some_and(|&last| last < n);
        let orderly = self.strategy == Strategy::Serial || self.tiles.is_some() || !self.windows.is_empty();
        if !known || orderly || self.has_alone() || self.strata.blocks() > 0 {
            return None;
        }
        // Without a list of iterations there is no order but the loop's.
        let cut = in_order || self.offsets.is_empty();
        let stretches: Vec<Range<u32>> = if cut {
            let starts = std::iter::once(0).chain(odd.iter().map(|&odd| odd + 1));
            starts.zip(odd.iter().copied().chain([n])).map(|(start, end)| start..end).collect()
        } else {
            std::iter::once(0..n).collect()
        };
        if stretches.len() * (self.blocks.len() + 1) > MOST_BLOCKS {
            return None;
        }
        let alone = if cut { odd.chunks(1).collect() } else { vec![odd] };
        Some(Cutting::of(self, &stretches, &alone))
    }

    /// The place of an iteration in the serial order, by its offset.
    pub fn place(&self, offset: usize) -> Option<usize> {
        if self.offsets.is_empty() {
            return (offset < self.range.len()).then_some(offset);
        }
        self.offsets.iter().position(|&other| other as usize == offset)
    }
}

/// A plan that is being cut.
struct Cutting<'p> {
    whole: &'p Plan,
    blocks: Vec<Block>,
    cost: Vec<u64>,
    offsets: Vec<u32>,
    listed: Vec<Listed>,
}

impl Cutting<'_> {
    /// The blocks of each stretch, and behind it the iterations that run alone there.
    fn of(whole: &Plan, stretches: &[Range<u32>], alone: &[&[u32]]) -> Plan {
        let listed = whole.listed.iter().map(|_| Listed::default()).collect();
        let mut cutting = Cutting { whole, blocks: Vec::new(), cost: Vec::new(), offsets: Vec::new(), listed };
        let mut odd = alone.concat();
        odd.sort_unstable();
        let mut stands_alone = Vec::new();
        for (s, stretch) in stretches.iter().enumerate() {
            for b in 0..whole.blocks.len() {
                cutting.cut(b, stretch, &odd);
            }
            if let Some(alone) = alone.get(s) {
                stands_alone.push(cutting.blocks.len() as u32);
                cutting.alone(alone);
            }
        }
        cutting.finish(stretches.len(), stands_alone)
    }

    /// A block's iterations of one stretch. It may have none: blocks keep their places.
    fn cut(&mut self, b: usize, stretch: &Range<u32>, odd: &[u32]) {
        let (whole, block) = (self.whole, self.whole.blocks[b]);
        let cut = if whole.offsets.is_empty() {
            let place = |at: usize| at.clamp(stretch.start as usize, stretch.end as usize);
            Block { start: place(block.start), end: place(block.end) }
        } else {
            let start = self.offsets.len();
            for place in block.start..block.end {
                let offset = whole.offsets[place];
                if stretch.contains(&offset) && odd.binary_search(&offset).is_err() {
                    self.push(offset, Some(place));
                }
            }
            Block { start, end: self.offsets.len() }
        };
        let (left, all) = (cut.end - cut.start, block.end - block.start);
        self.cost.push(whole.graph.cost(b) * left as u64 / all.max(1) as u64);
        self.blocks.push(cut);
    }

    fn alone(&mut self, odd: &[u32]) {
        let whole = self.whole;
        let block = if whole.offsets.is_empty() {
            let start = odd.first().map_or(0, |&first| first as usize);
            Block { start, end: start + odd.len() }
        } else {
            let start = self.offsets.len();
            odd.iter().for_each(|&offset| self.push(offset, None));
            Block { start, end: self.offsets.len() }
        };
        self.cost.push((1 + whole.graph.work() / whole.range.len().max(1) as u64) * odd.len() as u64);
        self.blocks.push(block);
    }

    /// An iteration, and what is listed for it at its old place.
    fn push(&mut self, offset: u32, place: Option<usize>) {
        self.offsets.push(offset);
        for (listed, old) in self.listed.iter_mut().zip(&self.whole.listed) {
            if let Some(place) = place {
                let start = place.checked_sub(1).map_or(0, |last| old.ends[last]) as usize;
                listed.entries.extend_from_slice(&old.entries[start..old.ends[place] as usize]);
            }
            listed.ends.push(listed.entries.len() as u32);
        }
    }

    fn finish(self, stretches: usize, alone: Vec<u32>) -> Plan {
        let Cutting { whole, blocks, cost, offsets, listed } = self;
        let n = whole.blocks.len();
        let at = |s: usize, b: usize| (s * (n + 1) + b) as u32;
        let mut edges = Vec::new();
        for s in 0..stretches {
            for b in 0..n {
                let followers = whole.graph.followers(b);
                edges.extend(followers.iter().map(|&after| (at(s, b), at(s, after as usize))));
                if followers.is_empty() && s < alone.len() {
                    edges.push((at(s, b), at(s, n)));
                }
                if whole.graph.waits_for[b] == 0 && s > 0 {
                    edges.push((at(s - 1, n), at(s, b)));
                }
            }
        }
        let (mut touch_starts, mut touches) = (Vec::new(), Vec::new());
        if !whole.touch_starts.is_empty() {
            touch_starts.push(0);
            for (k, block) in blocks.iter().enumerate() {
                // What has no iterations is no part's first writer.
                if block.start < block.end && k % (n + 1) < n {
                    touches.extend_from_slice(whole.touches(k % (n + 1)));
                }
                touch_starts.push(touches.len() as u32);
            }
        }
        let mut facts = whole.facts.clone();
        facts.rotation = false;
        Plan {
            strategy: whole.strategy,
            usage: whole.usage.clone(),
            blocks,
            offsets: offsets.into(),
            graph: BlockGraph::from_edges(cost, edges),
            parts: whole.parts.clone(),
            touch_starts,
            touches,
            listed,
            shared: whole.shared.clone(),
            fields: whole.fields.clone(),
            sparse: whole.sparse.clone(),
            strata: Arc::clone(&whole.strata),
            alone,
            ..Plan::serial(whole.range.clone(), whole.usage.len(), facts)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Facts, Touch};

    /// The iterations of each block that has some, and whether it runs alone.
    fn shown(plan: &Plan) -> Vec<(Vec<usize>, bool)> {
        let iterations =
            |b: usize| (plan.blocks[b].start..plan.blocks[b].end).map(|place| plan.offset(place)).collect();
        let all = (0..plan.blocks.len()).map(|b| (iterations(b), plan.is_alone(b)));
        all.filter(|(iterations, _): &(Vec<usize>, bool)| !iterations.is_empty()).collect()
    }

    /// Whether each block waits, by itself or through others, for each before it that it must.
    fn waits(plan: &Plan, before: usize, after: usize) -> bool {
        let mut reached = vec![false; plan.blocks.len()];
        reached[before] = true;
        for b in 0..plan.blocks.len() {
            if reached[b] {
                plan.graph.followers(b).iter().for_each(|&f| reached[f as usize] = true);
            }
        }
        reached[after]
    }

    fn check(plan: &Plan) {
        for &alone in &plan.alone {
            let alone = alone as usize;
            assert!(
                (0..alone).all(|b| waits(plan, b, alone))
                    && (alone + 1..plan.blocks.len()).all(|b| waits(plan, alone, b))
            );
        }
    }

    #[test]
    fn ranges_are_cut_at_each() {
        let blocks = (0..3).map(|b| Block { start: 4 * b, end: 4 * (b + 1) }).collect();
        let graph = BlockGraph::from_edges(vec![8; 3], Vec::new());
        let whole = Plan { strategy: Strategy::Aligned, blocks, graph, ..Plan::serial(50..62, 0, Facts::default()) };
        let plan = whole.with_alone(&[0, 5, 6], false).unwrap();
        let expected = [
            (vec![0], true),
            (vec![1, 2, 3], false),
            (vec![4], false),
            (vec![5], true),
            (vec![6], true),
            (vec![7], false),
            (vec![8, 9, 10, 11], false),
        ];
        assert_eq!(shown(&plan), expected);
        check(&plan);
        assert!(whole.with_alone(&[12], false).is_none() && whole.with_alone(&[3, 3], false).is_none());
    }

    #[test]
    fn lists_are_cut_where_the_order_counts_and_followed_where_it_does_not() {
        let touches = vec![vec![Touch { resource: 0, write: true }], vec![Touch { resource: 1, write: true }]];
        let mut whole = Plan::of_touches(&[2], vec![6, 6], &touches);
        whole.range = 0..6;
        whole.blocks = vec![Block { start: 0, end: 3 }, Block { start: 3, end: 6 }];
        whole.offsets = vec![0, 2, 4, 1, 3, 5].into();
        let any = whole.with_alone(&[2, 3], false).unwrap();
        assert_eq!(shown(&any), [(vec![0, 4], false), (vec![1, 5], false), (vec![2, 3], true)]);
        check(&any);
        let ordered = whole.with_alone(&[2, 3], true).unwrap();
        let expected =
            [(vec![0], false), (vec![1], false), (vec![2], true), (vec![3], true), (vec![4], false), (vec![5], false)];
        assert_eq!(shown(&ordered), expected);
        check(&ordered);
        assert_eq!(whole.place(4), Some(2));
        let written = |plan: &Plan| (0..plan.blocks.len()).map(|b| plan.touches(b).len()).sum::<usize>();
        assert_eq!((written(&any), written(&ordered)), (2, 4));
    }
}
