//! Which blocks wait for which, and what each worker's blocks need of others.

use std::collections::BTreeMap;

use super::{Cargo, Dealt, NOBODY};
use crate::layout::{ShortList, Transfer};
use crate::plan::unite_edges;

/// Which blocks write each element.
pub(super) struct Writers<'d> {
    dealt: &'d Dealt<'d>,
    begins: Vec<u32>,
    blocks: Vec<u32>,
}

impl<'d> Writers<'d> {
    pub(super) fn new(dealt: &'d Dealt<'d>) -> Writers<'d> {
        let elements = dealt.accesses.elements.len();
        let each = |f: &mut dyn FnMut(usize, usize)| {
            for block in 0..dealt.blocks() {
                dealt.entries(block).filter(|entry| entry & 1 == 1).for_each(|entry| f((entry >> 1) as usize, block));
            }
        };
        let mut begins = vec![0u32; elements + 1];
        each(&mut |element, _| begins[element + 1] += 1);
        for element in 0..elements {
            begins[element + 1] += begins[element];
        }
        let mut next = begins.clone();
        let mut blocks = vec![0; begins[elements] as usize];
        each(&mut |element, block| {
            blocks[next[element] as usize] = block as u32;
            next[element] += 1;
        });
        Writers { dealt, begins, blocks }
    }

    /// In serial order.
    fn of(&self, element: usize) -> &[u32] {
        &self.blocks[self.begins[element] as usize..self.begins[element + 1] as usize]
    }

    pub(super) fn owner(&self, element: usize) -> Option<u32> {
        self.of(element).last().map(|&block| self.dealt.worker_of[block as usize])
    }
}

/// Chains of blocks, each a place in `links` of (block, older place).
#[derive(Default)]
struct Chains {
    links: Vec<(u32, u32)>,
}

impl Chains {
    fn push(&mut self, head: &mut u32, block: u32) {
        if *head == NOBODY || self.links[*head as usize].0 != block {
            self.links.push((block, *head));
            *head = self.links.len() as u32 - 1;
        }
    }

    fn drain(&self, head: &mut u32, mut f: impl FnMut(u32)) {
        while *head != NOBODY {
            let (block, older) = self.links[*head as usize];
            f(block);
            *head = older;
        }
    }
}

/// Which blocks wait for which, by the elements that they touch.
pub(super) struct Edges {
    pub(super) edges: Vec<(u32, u32)>,
    /// Of each element: the pass that saw it last, who wrote it last then, and who has read it since.
    seen: Vec<(u32, u32, u32)>,
    pass: u32,
}

impl Edges {
    pub(super) fn new(elements: usize) -> Edges {
        Edges { edges: Vec::new(), seen: vec![(0, NOBODY, NOBODY); elements], pass: 0 }
    }

    /// The order of these blocks among each other.
    pub(super) fn add(&mut self, dealt: &Dealt<'_>, blocks: impl Iterator<Item = usize>) {
        self.pass += 1;
        let mut chains = Chains::default();
        for block in blocks {
            let (b, from) = (block as u32, self.edges.len());
            for entry in dealt.entries(block) {
                let element = (entry >> 1) as usize;
                if !dealt.accesses.written[element] {
                    continue;
                }
                let seen = &mut self.seen[element];
                if seen.0 != self.pass {
                    *seen = (self.pass, NOBODY, NOBODY);
                }
                let edges = &mut self.edges;
                if seen.1 != NOBODY && seen.1 != b {
                    edges.push((seen.1, b));
                }
                if entry & 1 == 1 {
                    chains.drain(&mut seen.2, |reader| edges.extend((reader != b).then_some((reader, b))));
                    seen.1 = b;
                } else {
                    chains.push(&mut seen.2, b);
                }
            }
            unite_edges(&mut self.edges, from);
        }
    }
}

/// What a worker has of an element.
#[derive(Clone, Copy)]
struct Have {
    /// Versions are numbered by the writes so far; `NOBODY`: it has none.
    version: u32,
    /// The transfer that brought it.
    brought: u32,
    /// The blocks that use this memory since it was last overwritten.
    used: u32,
}

/// A transfer that is being made.
struct Arriving {
    before: Vec<u32>,
    behind: Vec<u32>,
    /// Of each block that makes some of them, or nobody.
    pieces: BTreeMap<u32, Vec<u32>>,
}

/// One worker's blocks in their order, and what they need of others.
pub(super) struct Receiver<'d> {
    dealt: &'d Dealt<'d>,
    writers: &'d Writers<'d>,
    worker: u32,
    have: Vec<Option<Have>>,
    /// How many writers of each element were passed.
    passed: Vec<u32>,
    chains: Chains,
    /// By level (0 for what stands when the loop begins, else one more), worker and slot.
    numbers: BTreeMap<(u32, u32, u32), u32>,
    arriving: Vec<Arriving>,
}

impl<'d> Receiver<'d> {
    pub(super) fn new(dealt: &'d Dealt<'d>, writers: &'d Writers<'d>, worker: u32) -> Self {
        let elements = dealt.accesses.elements.len();
        Receiver {
            dealt,
            writers,
            worker,
            have: vec![None; elements],
            passed: vec![0; elements],
            chains: Chains::default(),
            numbers: BTreeMap::new(),
            arriving: Vec::new(),
        }
    }

    pub(super) fn run(&mut self, block: usize) {
        let dealt = self.dealt;
        for entry in dealt.entries(block) {
            let element = (entry >> 1) as usize;
            if dealt.accesses.written[element] {
                self.touch(block as u32, element, entry & 1 == 1);
            }
        }
    }

    fn touch(&mut self, block: u32, element: usize, write: bool) {
        let writers = self.writers.of(element);
        let passed = &mut self.passed[element];
        while writers.get(*passed as usize).is_some_and(|&writer| writer < block) {
            *passed += 1;
        }
        let version = *passed;
        let begins = if self.writers.owner(element) == Some(self.worker) { 0 } else { NOBODY };
        let mut have = self.have[element].unwrap_or(Have { version: begins, brought: NOBODY, used: NOBODY });
        if have.version != version {
            let by = version.checked_sub(1).map(|last| writers[last as usize]);
            let arriving = self.bring(element, by);
            let brought = &mut self.arriving[arriving as usize];
            self.chains.drain(&mut have.used, |user| brought.behind.push(user));
            (have.version, have.brought) = (version, arriving);
        }
        if let Some(arriving) = self.arriving.get_mut(have.brought as usize)
            && arriving.before.last() != Some(&block)
        {
            arriving.before.push(block);
        }
        if write {
            // What the worker itself did before has ended before this block starts.
            have = Have { version: version + 1, brought: NOBODY, used: NOBODY };
        }
        self.chains.push(&mut have.used, block);
        self.have[element] = Some(have);
    }

    /// The transfer that brings an element as this block leaves it, or as it stands when the loop begins.
    fn bring(&mut self, element: usize, by: Option<u32>) -> u32 {
        let (slot, index) = self.dealt.accesses.elements[element];
        let from = match by {
            Some(block) => self.dealt.worker_of[block as usize],
            None => self.writers.owner(element).unwrap_or(0),
        };
        let level = by.map_or(0, |block| 1 + self.dealt.level[block as usize]);
        let next = self.arriving.len() as u32;
        let number = *self.numbers.entry((level, from, slot)).or_insert(next);
        if number == next {
            let (before, behind, pieces) = (Vec::new(), Vec::new(), BTreeMap::new());
            self.arriving.push(Arriving { before, behind, pieces });
        }
        self.arriving[number as usize].pieces.entry(by.unwrap_or(NOBODY)).or_default().push(index);
        number
    }

    pub(super) fn finish(self) -> impl Iterator<Item = (Transfer, Cargo)> {
        let mut arriving: Vec<Option<Arriving>> = self.arriving.into_iter().map(Some).collect();
        let to = self.worker;
        let of = move |((_, from, slot), number): ((u32, u32, u32), u32)| {
            let Arriving { mut before, mut behind, pieces } = arriving[number as usize].take()?;
            for blocks in [&mut before, &mut behind] {
                blocks.sort_unstable();
                blocks.dedup();
            }
            let after = pieces.keys().copied().filter(|&block| block != NOBODY).collect();
            let mut pieces: Vec<Vec<u32>> = pieces.into_values().collect();
            pieces.iter_mut().for_each(|piece| piece.sort_unstable());
            let [before, behind] = [before, behind].map(ShortList::from_iter);
            let transfer = Transfer { resource: 0, from, to, after, before, behind, copy: true };
            Some((transfer, Cargo { slot: slot as usize, pieces }))
        };
        self.numbers.into_iter().filter_map(of)
    }
}
