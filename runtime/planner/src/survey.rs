//! Passes over a loop's iterations that are made where the elements are which say what each iteration touches. The process that plans
//! asks questions about stretches of slices, and gets sums: weights, sizes of groups, a few neighbours. Each stretch's answer depends
//! on its own elements alone.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::plan::{Cut, Parts, cut, dense, interleaved};
use crate::recording::{Fields, Recording, Rule, Usage};
use crate::rule::SourceSpec;
use crate::threads::{Threads, locked};

/// A loop of which rules say what each iteration touches: one element of each shared DDS.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Survey {
    /// The loop's indices.
    pub range: Range<usize>,
    pub(crate) usage: Vec<Usage>,
    /// The captures that are shared and written: which, how many elements each has, where the index comes from, and whether the element is
    /// written.
    pub(crate) shared: Vec<(usize, usize, SourceSpec, bool)>,
}

/// What is asked about a stretch of slices.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Question {
    /// How often elements are touched, by a sample of one in this many runs for each shared capture; nothing if an index is no element's.
    Weigh(Vec<usize>),
    /// The same of the elements of these counts by themselves, where elements are counted together.
    WeighCloser(Vec<usize>, Vec<Vec<usize>>),
    /// How many iterations touch each combination of parts, of DDSs cut like this.
    Count(Vec<Vec<usize>>),
    /// How many neighbours in blocks collide, given how many iterations of each block come before the stretch.
    Neighbours(Sorting, Vec<u32>),
}

/// An answer to a [`Question`].
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Answer {
    /// For each shared capture the counts, and how many iterations were looked at.
    Weighed(Option<Vec<(Vec<u32>, usize)>>),
    /// For each shared capture the counts.
    WeighedCloser(Vec<Vec<u32>>),
    /// By the number of the combination.
    Counted(Vec<u32>),
    /// How many neighbours collide.
    Neighbours(Neighbours),
}

impl Answer {
    /// Takes in another stretch's answer, if only their sum counts and it is large.
    pub fn take_in(&mut self, other: &Answer) -> bool {
        let (Answer::Weighed(sums), Answer::Weighed(others)) = (self, other) else { return false };
        match (&mut *sums, others) {
            (Some(sums), Some(others)) if sums.len() == others.len() => {
                for (sum, (counts, iterations)) in sums.iter_mut().zip(others) {
                    sum.0.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
                    sum.1 += iterations;
                }
            }
            _ => *sums = None,
        }
        true
    }
}

/// A block, a place in it, and for each shared capture what the iteration at that place touches.
pub(crate) type Neighbour = (u32, u32, Vec<u32>);

/// What was found of neighbours in blocks.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Neighbours {
    /// How many pairs there are, and how many of these collide.
    pub(crate) pairs: usize,
    pub(crate) collisions: usize,
    /// The first and the last iteration of blocks, whose neighbours are in other stretches.
    pub(crate) first: Vec<Neighbour>,
    pub(crate) last: Vec<Neighbour>,
}

impl Neighbours {
    /// Counts a pair.
    pub(crate) fn count(&mut self, weight: usize, one: &[u32], other: &[u32]) {
        let hit = one.iter().zip(other).any(|(one, other)| one & 1 == 1 && one >> 1 == other >> 1);
        self.pairs += weight;
        self.collisions += if hit { weight } else { 0 };
    }
}

/// How many pairs of neighbours are looked at, at two places of each block.
pub(crate) const LOOK: usize = 64;

impl Survey {
    /// The captures in whose elements indices stand, and what is added to an iteration's number for its element.
    pub fn fields(&self) -> Vec<(usize, usize)> {
        let mut fields: Vec<(usize, usize)> = Vec::new();
        for (_, _, source, _) in &self.shared {
            if let SourceSpec::Field { capture, .. } = *source
                && let Some(&Usage::InStep { offset, .. }) = self.usage.get(capture)
                && !fields.contains(&(capture, offset))
            {
                fields.push((capture, offset));
            }
        }
        fields
    }

    /// What is added to an iteration's number for its element of a capture in step.
    pub fn offset_of(&self, capture: usize) -> Option<usize> {
        match self.usage.get(capture) {
            Some(&Usage::InStep { offset, .. }) => Some(offset),
            _ => None,
        }
    }

    /// How many slices the loop has.
    pub fn slices(&self) -> usize {
        self.recording(&[]).map_or(0, |recording| recording.slice_count())
    }

    /// The iterations of consecutive slices.
    pub fn iterations(&self, slices: &Range<usize>) -> Range<usize> {
        let Some(recording) = self.recording(&[]) else { return self.range.start..self.range.start };
        let at = |s: usize| self.range.start + recording.slice_start(s).min(self.range.len());
        at(slices.start)..at(slices.end)
    }

    /// The loop, with these elements by capture; those that aren't looked at may be left out.
    pub(crate) fn recording<'f>(&self, fields: &[Option<Fields<'f>>]) -> Option<Recording<'f>> {
        let mut rules: Vec<Option<Rule<'f>>> = self.usage.iter().map(|_| None).collect();
        for (capture, _, source, write) in &self.shared {
            let source = source.with(fields)?;
            *rules.get_mut(*capture)? = Some(Rule { sources: vec![(source, *write)] });
        }
        Some(Recording::of_rules(self.range.clone(), self.usage.clone(), rules))
    }

    /// Answers a question about some slices, given the elements of their iterations. None if something doesn't fit together.
    pub fn answer(
        &self,
        question: &Question,
        slices: Range<usize>,
        fields: &[Option<Fields<'_>>],
        pool: &dyn Threads,
    ) -> Option<Answer> {
        let recording = self.recording(fields)?;
        if slices.end > recording.slice_count() {
            return None;
        }
        Some(match question {
            Question::Weigh(every) => Answer::Weighed(self.weighed(&recording, every, slices, pool)),
            Question::WeighCloser(every, of) => {
                let counts = self.shared.iter().zip(every).zip(of).map(|((&(capture, len, ..), &every), of)| {
                    cut::count_closer(&recording, (capture, len, every.max(1)), slices.clone(), of)
                });
                Answer::WeighedCloser(counts.collect())
            }
            Question::Count(cuts) => {
                let parts = self.parts(cuts)?;
                let (digits, tables) = dense::digits_and_tables(&recording, &parts)?;
                let each = slices.len().div_ceil(pool.count().max(1)).max(1);
                let counted = pool.map(slices.len().div_ceil(each), |k| {
                    let mut counts = vec![0u32; dense::keys(&digits)];
                    for s in (slices.start + k * each..slices.end).take(each) {
                        let numbers = dense::numbers_of(&recording, s, &parts.captures, &tables, &digits);
                        numbers.into_iter().for_each(|number| counts[number as usize] += 1);
                    }
                    counts
                });
                Answer::Counted(summed(counted))
            }
            Question::Neighbours(sorting, before) => {
                Answer::Neighbours(sorting.neighbours(&recording, before, slices)?)
            }
        })
    }

    fn weighed(
        &self,
        recording: &Recording<'_>,
        every: &[usize],
        slices: Range<usize>,
        pool: &dyn Threads,
    ) -> Option<Vec<(Vec<u32>, usize)>> {
        let inside = pool.map(slices.len(), |k| self.is_within(recording, slices.start + k));
        if every.len() != self.shared.len() || !inside.into_iter().all(|inside| inside) {
            return None;
        }
        let weigh = |(&(capture, len, ..), &every): (&(usize, usize, SourceSpec, bool), &usize)| {
            cut::count(recording, (capture, len, every.max(1)), slices.clone())
        };
        Some(self.shared.iter().zip(every).map(weigh).collect())
    }

    /// Whether the iterations of a slice touch elements that there are.
    fn is_within(&self, recording: &Recording<'_>, s: usize) -> bool {
        self.shared.iter().all(|&(capture, len, ..)| recording.is_within(s, capture, len))
    }

    pub(crate) fn parts(&self, cuts: &[Vec<usize>]) -> Option<Parts> {
        let fits = |(cut, shared): (&Vec<usize>, &(usize, usize, SourceSpec, bool))| {
            cut.len() > 1 && cut[0] == 0 && cut.is_sorted() && cut[cut.len() - 1] == shared.1
        };
        if cuts.len() != self.shared.len() || !cuts.iter().zip(&self.shared).all(fits) {
            return None;
        }
        let captures = self.shared.iter().map(|shared| shared.0).collect();
        Some(Parts::new(captures, cuts.iter().map(|bounds| Cut { bounds: bounds.clone() }).collect()))
    }
}

/// The sums of several lists of equally many numbers.
pub(crate) fn summed(counted: impl IntoIterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut counted = counted.into_iter();
    let mut sums = counted.next().unwrap_or_default();
    for counts in counted {
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    sums
}

/// How the iterations of a plan are sorted into its blocks, wherever the elements are that say it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sorting {
    /// What each iteration touches.
    pub survey: Survey,
    /// How shared DDSs are cut to number what iterations touch.
    pub(crate) cuts: Vec<Vec<usize>>,
    /// The block of each number.
    pub(crate) block_of: Vec<u32>,
    /// How many iterations each block has.
    pub(crate) sizes: Vec<u32>,
    /// Whether places far apart in a block take turns.
    pub(crate) interleaved: bool,
}

/// Elements as bytes, one after the other, and how many bytes each has.
pub type Elements<'e> = (&'e [u8], usize);

/// The blocks of a slice's iterations.
type BlocksOf<'r> = Box<dyn Fn(usize) -> Vec<u32> + Sync + 'r>;

impl Sorting {
    fn blocks_of<'r>(&'r self, recording: &'r Recording<'_>) -> Option<BlocksOf<'r>> {
        let parts = self.survey.parts(&self.cuts)?;
        let (digits, tables) = dense::digits_and_tables(recording, &parts)?;
        if self.block_of.len() != dense::keys(&digits) {
            return None;
        }
        Some(Box::new(move |s| {
            let numbers = dense::numbers_of(recording, s, &parts.captures, &tables, &digits);
            numbers.into_iter().map(|number| self.block_of[number as usize]).collect()
        }))
    }

    /// How often it counts whether the iteration at a place of a block collides with the next one: pairs are looked at in two places of each
    /// block.
    pub(crate) fn weight(&self, block: usize, place: u32) -> usize {
        let (size, look) = (self.sizes[block], LOOK as u32);
        let middle = size / 2;
        let counts = usize::from(place < look) + usize::from((middle..middle + look).contains(&place));
        if place + 1 < size { counts } else { 0 }
    }

    /// Looks at neighbours in blocks, before places take turns. `before`: how many iterations each block has in the slices before these.
    pub(crate) fn neighbours(
        &self,
        recording: &Recording<'_>,
        before: &[u32],
        slices: Range<usize>,
    ) -> Option<Neighbours> {
        let blocks_of = self.blocks_of(recording)?;
        if before.len() != self.sizes.len() {
            return None;
        }
        let (mut places, mut found) = (before.to_vec(), Neighbours::default());
        // What the last iteration of each block touches, where the next one may collide with it.
        let mut last: Vec<Vec<u32>> = vec![Vec::new(); before.len()];
        for s in slices {
            for (k, block) in blocks_of(s).into_iter().enumerate() {
                let (b, place) = (block as usize, places.get_mut(block as usize)?);
                let (at, next) = (*place, self.weight(b, *place));
                let behind = if at > 0 { self.weight(b, at - 1) } else { 0 };
                *place += 1;
                if behind + next == 0 {
                    continue;
                }
                let mut entries = Vec::with_capacity(self.survey.shared.len());
                for &(capture, ..) in &self.survey.shared {
                    recording.entries_of(recording.slice_start(s) + k, capture, &mut entries);
                }
                match behind {
                    0 => {}
                    _ if at == before[b] => found.first.push((block, at, entries.clone())),
                    _ => found.count(behind, &last[b], &entries),
                }
                last[b] = if next > 0 { entries } else { Vec::new() };
            }
        }
        for (block, (place, last)) in places.into_iter().zip(last).enumerate() {
            if place > before[block] && self.weight(block, place - 1) > 0 {
                found.last.push((block as u32, place - 1, last));
            }
        }
        Some(found)
    }

    /// Deals what belongs to the iterations of some slices out to the workers that run their blocks: elements, as bytes, one after the other
    /// for these iterations; or, without elements, the iterations' offsets as 4 bytes each. All that one worker gets comes after all that the
    /// one before gets, and each begins with the number of iterations for each of the worker's blocks. None if something doesn't fit together.
    pub fn deal(
        &self,
        slices: Range<usize>,
        (fields, elements): (&[Option<Fields<'_>>], &[Option<Elements<'_>>]),
        (worker_of, workers): (&[u32], usize),
        pool: &dyn Threads,
    ) -> Option<Vec<Vec<u8>>> {
        let recording = self.survey.recording(fields)?;
        let blocks_of = self.blocks_of(&recording)?;
        if worker_of.len() != self.sizes.len() || worker_of.iter().any(|&worker| worker as usize >= workers) {
            return None;
        }
        let each = slices.len().div_ceil(pool.count().max(1)).max(1);
        let runs: Vec<Range<usize>> = slices.clone().step_by(each).map(|s| s..slices.end.min(s + each)).collect();
        let sorted = pool.map(runs.len(), |run| {
            let of: Vec<Vec<u32>> = runs[run].clone().map(&blocks_of).collect();
            let mut counts = vec![0u32; self.sizes.len()];
            for &block in of.iter().flatten() {
                *counts.get_mut(block as usize)? += 1;
            }
            Some((of, counts))
        });
        let sorted: Vec<(Vec<Vec<u32>>, Vec<u32>)> = sorted.into_iter().collect::<Option<_>>()?;
        let dealing = Sorted { slices, runs, sorted, worker_of, workers };
        let mut dealt: Vec<Vec<Vec<u8>>> = (0..workers).map(|_| Vec::with_capacity(elements.len())).collect();
        for elements in elements {
            let each = dealing.deal(&recording, *elements, pool)?;
            dealt.iter_mut().zip(each).for_each(|(dealt, each)| dealt.push(each));
        }
        Some(dealt.into_iter().flatten().collect())
    }

    /// Whether places far apart in a block take turns.
    pub fn interleaved(&self) -> bool {
        self.interleaved
    }

    /// The offsets of all iterations in serial order, given the elements of all.
    pub fn offsets(&self, fields: &[Option<Fields<'_>>], pool: &dyn Threads) -> Option<Vec<u32>> {
        let sizes: Vec<usize> = self.sizes.iter().map(|&size| size as usize).collect();
        let dealt = self.deal(0..self.survey.slices(), (fields, &[None]), (&vec![0; sizes.len()], 1), pool)?;
        gather_offsets(&sizes, &dealt, self.interleaved)
    }
}

/// The iterations of some slices with their blocks.
struct Sorted<'w> {
    slices: Range<usize>,
    /// Runs of slices, and of each the blocks of its iterations, slice by slice, with how many iterations each block has.
    runs: Vec<Range<usize>>,
    sorted: Vec<(Vec<Vec<u32>>, Vec<u32>)>,
    worker_of: &'w [u32],
    workers: usize,
}

impl Sorted<'_> {
    /// The blocks of a worker.
    fn own(&self, worker: usize) -> impl Iterator<Item = usize> {
        (0..self.worker_of.len()).filter(move |&b| self.worker_of[b] as usize == worker)
    }

    /// What each worker gets of the iterations' elements, or of their offsets.
    fn deal(
        &self,
        recording: &Recording<'_>,
        elements: Option<Elements<'_>>,
        pool: &dyn Threads,
    ) -> Option<Vec<Vec<u8>>> {
        let size = elements.map_or(4, |(_, size)| size);
        let total = |b: usize| self.sorted.iter().map(|(_, counts)| counts[b]).sum::<u32>();
        let room = |w: usize| {
            let mut bytes: Vec<u8> = self.own(w).flat_map(|b| total(b).to_ne_bytes()).collect();
            let iterations: usize = self.own(w).map(|b| total(b) as usize).sum();
            bytes.resize(bytes.len() + iterations * size, 0);
            bytes
        };
        let mut dealt: Vec<Vec<u8>> = (0..self.workers).map(room).collect();
        // Every run of slices writes to a stretch of its own in each block.
        let mut stretches: Vec<Vec<&mut [u8]>> = self.runs.iter().map(|_| Vec::new()).collect();
        stretches.iter_mut().for_each(|run| run.resize_with(self.worker_of.len(), Default::default));
        for (w, bytes) in dealt.iter_mut().enumerate() {
            let mut rest = &mut bytes[4 * self.own(w).count()..];
            for b in self.own(w) {
                for (run, (_, counts)) in self.sorted.iter().enumerate() {
                    let (stretch, behind) = rest.split_at_mut(counts[b] as usize * size);
                    (stretches[run][b], rest) = (stretch, behind);
                }
            }
        }
        let first = recording.slice_start(self.slices.start);
        let places: Vec<_> = stretches.into_iter().map(|run| std::sync::Mutex::new(Some(run))).collect();
        let filled = pool.map(self.runs.len(), |run| {
            let mut places = locked(&places[run]).take()?;
            for (s, blocks) in self.runs[run].clone().zip(&self.sorted[run].0) {
                for (offset, &block) in (recording.slice_start(s)..).zip(blocks) {
                    let place = places.get_mut(block as usize)?;
                    let (own, rest) = std::mem::take(place).split_at_mut_checked(size)?;
                    match elements {
                        Some((all, size)) => {
                            let at = (offset - first) * size;
                            own.copy_from_slice(all.get(at..at + size)?);
                        }
                        None => own.copy_from_slice(&(offset as u32).to_ne_bytes()),
                    }
                    *place = rest;
                }
            }
            Some(())
        });
        filled.into_iter().collect::<Option<Vec<()>>>()?;
        Some(dealt)
    }
}

/// Joins what was dealt out for the blocks of one worker, by stretches in their order, and passes each block on in the order in which its iterations
/// run. `sizes`: how many iterations each block has; `size`: the bytes for each. False unless each block has as many as it should.
pub fn gather(
    sizes: &[usize],
    dealt: &[Vec<u8>],
    (size, turns): (usize, bool),
    mut sink: impl FnMut(&[u8]) -> bool,
) -> bool {
    let mut rests: Vec<&[u8]> = dealt.iter().map(|bytes| bytes.get(4 * sizes.len()..).unwrap_or_default()).collect();
    let (mut block, mut turned) = (Vec::new(), Vec::new());
    for (k, &n) in sizes.iter().enumerate() {
        block.clear();
        for (bytes, rest) in dealt.iter().zip(&mut rests) {
            let count =
                bytes.get(4 * k..).and_then(|counts| counts.first_chunk()).map(|&count| u32::from_ne_bytes(count));
            let stretch = count.and_then(|count| rest.split_off(..(count as usize).checked_mul(size)?));
            block.extend_from_slice(stretch.unwrap_or_default());
        }
        if block.len() != n * size {
            return false;
        }
        let whole = match interleaved(n).filter(|_| turns) {
            Some(places) => {
                turned.clear();
                places.for_each(|place| turned.extend_from_slice(&block[place * size..(place + 1) * size]));
                &turned
            }
            None => &block,
        };
        if !sink(whole) {
            return false;
        }
    }
    rests.iter().all(|rest| rest.is_empty())
}

/// The same of offsets.
pub fn gather_offsets(sizes: &[usize], dealt: &[Vec<u8>], turns: bool) -> Option<Vec<u32>> {
    let mut offsets = Vec::with_capacity(sizes.iter().sum());
    let all = gather(sizes, dealt, (4, turns), |block| {
        offsets.extend(block.as_chunks::<4>().0.iter().map(|&offset| u32::from_ne_bytes(offset)));
        true
    });
    all.then_some(offsets)
}
