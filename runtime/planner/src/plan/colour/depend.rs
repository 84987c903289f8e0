//! Which blocks of listed iterations must wait for which, element by element.
//!
//! Accesses are first sorted by ranges of elements, in the order of the blocks within each: what is known of a range's elements then
//! stays in a near cache. (900,000 iterations of a graph's colouring, which touch 3.6 million elements, took 500 ms without.)

use std::ops::Range;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::Listed;
use crate::plan::graph::BlockGraph;
use crate::threads::Threads;

/// A DDS has at most this many ranges,
const RANGES: usize = 256;
/// of at least this many elements each.
const RANGE: usize = 1 << 13;

/// The conflict graph of blocks, which begin at `starts`, from what their iterations touch of each shared DDS. `lens` are the DDSs' lengths.
pub(super) fn depend(starts: &[usize], listed: &[Listed], lens: &[usize], pool: &dyn Threads) -> BlockGraph {
    let cost = starts.windows(2).map(|ends| {
        let accesses = listed.iter().map(|listed| listed.start(ends[1]) - listed.start(ends[0]));
        (ends[1] - ends[0] + accesses.sum::<usize>()) as u64
    });
    let mut edges = Vec::new();
    for (listed, &len) in listed.iter().zip(lens) {
        let sorted = Sorted::new(starts, listed, len);
        let tasks = pool.count().min(sorted.ranges());
        let found = pool.map(tasks, |task| {
            let mut waits = Waits::new(starts.len());
            let ranges = |task| sorted.ranges() * task / tasks;
            (ranges(task)..ranges(task + 1)).for_each(|range| sorted.add_waits(range, &mut waits));
            waits.edges
        });
        found.into_iter().for_each(|found| edges.extend(found));
    }
    BlockGraph::from_edges(cost.collect(), edges)
}

/// The accesses to one DDS, range by range of its elements.
struct Sorted {
    /// How many elements a range has.
    each: usize,
    /// Where the accesses of each range begin, and their end.
    starts: Vec<usize>,
    /// (block, `index << 1 | written`), in the order of the blocks.
    accesses: Vec<(u32, u32)>,
}

impl Sorted {
    fn new(starts: &[usize], listed: &Listed, len: usize) -> Sorted {
        let each = len.div_ceil(RANGES).max(RANGE).next_power_of_two();
        let shift = each.ilog2() + 1;
        let mut begins = vec![0; len.div_ceil(each) + 1];
        for &entry in &listed.entries {
            begins[(entry >> shift) as usize + 1] += 1;
        }
        for range in 1..begins.len() {
            begins[range] += begins[range - 1];
        }
        let mut next = begins.clone();
        let mut accesses = vec![(0, 0); listed.entries.len()];
        for (block, ends) in starts.windows(2).enumerate() {
            for &entry in &listed.entries[listed.start(ends[0])..listed.start(ends[1])] {
                let next = &mut next[(entry >> shift) as usize];
                accesses[*next] = (block as u32, entry);
                *next += 1;
            }
        }
        Sorted { each, starts: begins, accesses }
    }

    fn ranges(&self) -> usize {
        self.starts.len() - 1
    }

    /// Finds the blocks that wait for others because of elements of a range.
    fn add_waits(&self, range: usize, waits: &mut Waits) {
        let Range { start, end } = self.starts[range]..self.starts[range + 1];
        let first = range * self.each;
        let mut seen = vec![Seen { writer: NOBODY, reader: NOBODY, older: NOBODY }; self.each];
        // Readers before the newest of an element: a block, and the place of one before that.
        let mut chain: Vec<(u32, u32)> = Vec::new();
        for &(block, entry) in &self.accesses[start..end] {
            let at = &mut seen[(entry >> 1) as usize - first];
            waits.add(at.writer, block);
            if entry & 1 == 1 {
                waits.add(at.reader, block);
                while at.older != NOBODY {
                    let (reader, older) = chain[at.older as usize];
                    waits.add(reader, block);
                    at.older = older;
                }
                *at = Seen { writer: block, reader: NOBODY, older: NOBODY };
            } else if at.reader != block {
                if at.reader != NOBODY {
                    chain.push((at.reader, at.older));
                    at.older = chain.len() as u32 - 1;
                }
                at.reader = block;
            }
        }
    }
}

const NOBODY: u32 = u32::MAX;

/// Who touched an element last.
#[derive(Clone)]
struct Seen {
    writer: u32,
    /// The newest reader since then,
    reader: u32,
    /// and where the others stand.
    older: u32,
}

/// Edges, each once.
struct Waits {
    edges: Vec<(u32, u32)>,
    known: HashTable<u64>,
    /// For each block the one that was last found to wait for it.
    last: Vec<u32>,
}

impl Waits {
    fn new(blocks: usize) -> Waits {
        Waits { edges: Vec::new(), known: HashTable::new(), last: vec![NOBODY; blocks] }
    }

    fn add(&mut self, before: u32, block: u32) {
        if before == NOBODY || before == block || std::mem::replace(&mut self.last[before as usize], block) == block {
            return;
        }
        let edge = u64::from(before) << 32 | u64::from(block);
        let hash = |edge: &u64| edge.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(26);
        if let Entry::Vacant(vacant) = self.known.entry(hash(&edge), |&known| known == edge, hash) {
            vacant.insert(edge);
            self.edges.push((before, block));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::threads::Inline;

    /// Threads of which each does its share in turn.
    struct Turns(usize);

    impl Threads for Turns {
        fn count(&self) -> usize {
            self.0
        }

        fn run(&self, n: usize, f: &(dyn Fn(usize) + Sync)) {
            Inline.run(n, f);
        }
    }

    /// Small numbers without an order.
    fn random(at: usize, below: usize) -> usize {
        (at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d_1ce4_e5b9) as usize
            % below
    }

    /// An access waits for the last writer before it, and a writer also for all readers since then.
    fn expected(starts: &[usize], listed: &[Listed]) -> BTreeSet<(u32, u32)> {
        let mut edges = BTreeSet::new();
        for listed in listed {
            let mut before: Vec<(u32, u32)> = Vec::new();
            for (block, ends) in starts.windows(2).enumerate() {
                for &entry in &listed.entries[listed.start(ends[0])..listed.start(ends[1])] {
                    for &(other, seen) in before.iter().rev().filter(|(_, seen)| seen >> 1 == entry >> 1) {
                        if (entry | seen) & 1 == 1 && other != block as u32 {
                            edges.insert((other, block as u32));
                        }
                        if seen & 1 == 1 {
                            break;
                        }
                    }
                    before.push((block as u32, entry));
                }
            }
        }
        edges
    }

    #[test]
    fn blocks_wait_for_those_that_they_conflict_with() {
        // Few elements in many ranges, of two DDSs.
        let lens = [5 * RANGE, 3];
        let element = |slot: usize, at: usize| match slot {
            0 => random(at, 40) * RANGE / 8,
            _ => random(at, 3),
        };
        let mut listed = [Listed::default(), Listed::default()];
        for (slot, listed) in listed.iter_mut().enumerate() {
            for k in 0..300 {
                let accesses = (0..random(k + slot, 4)).map(|n| {
                    let at = 8 * k + 2 * n + slot;
                    (element(slot, at) as u32) << 1 | u32::from(random(at + 5000, 4) == 0)
                });
                listed.entries.extend(accesses);
                listed.ends.push(listed.entries.len() as u32);
            }
        }
        let starts: Vec<usize> = (0..300).step_by(7).chain([300]).collect();
        let expected = expected(&starts, &listed);
        assert!(expected.len() > 100);
        for threads in [1, 2, 3, 64] {
            let graph = depend(&starts, &listed, &lens, &Turns(threads));
            let edges = |block: usize| graph.followers(block).iter().map(move |&after| (block as u32, after));
            assert!((0..graph.len()).flat_map(edges).eq(expected.iter().copied()), "{threads} threads");
            assert_eq!(graph.len(), starts.len() - 1);
            assert_eq!(graph.work() as usize, 300 + listed[0].entries.len() + listed[1].entries.len());
        }
    }

    #[test]
    fn nothing_is_touched() {
        let listed = [Listed { entries: Vec::new(), ends: vec![0; 4] }];
        let graph = depend(&[0, 2, 4], &listed, &[0], &Turns(2));
        assert_eq!((graph.len(), graph.edges(), graph.work()), (2, 0, 4));
    }
}
