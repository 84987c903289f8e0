//! Colouring single iterations, where grouping by parts finds nothing: iterations of one colour share no element
//! that one of them writes.

mod depend;

use std::hint::black_box;

use super::graph::BlockGraph;
use crate::options::Order;
use crate::recording::Recording;
use crate::threads::Threads;

/// A colouring with more colours than this has too little to do in each.
const MAX_COLOURS: usize = 1 << 16;
/// Any order: masks of 32 colours at a time, this many times.
const ROUNDS: usize = 64;
/// Preserved order: as many wavefronts as one in this many iterations.
const WAVEFRONT_SIZE: usize = 4;

/// The accesses of a block's iterations, in the order of execution.
#[derive(Debug, Default, Clone)]
pub struct Listed {
    /// `index << 1 | written`, iteration by iteration. An iteration's ascend; few of them go round, from the first that is written.
    pub entries: Vec<u32>,
    /// Where each iteration's entries end.
    pub ends: Vec<u32>,
}

impl Listed {
    /// An iteration with no more entries than this has few.
    pub const FEW: usize = 32;

    /// Where the entries of the iteration at a place begin.
    pub(crate) fn start(&self, place: usize) -> usize {
        place.checked_sub(1).map_or(0, |last| self.ends[last] as usize)
    }

    /// The elements that are written, each once.
    pub fn written(&self) -> Vec<u32> {
        let mut written: Vec<u32> =
            self.entries.iter().filter(|&entry| entry & 1 == 1).map(|entry| entry >> 1).collect();
        written.sort_unstable();
        written.dedup();
        written
    }
}

/// Blocks of iterations of one colour.
#[derive(Debug)]
pub(crate) struct Coloured {
    pub(crate) colours: usize,
    pub(crate) offsets: Vec<u32>,
    /// Where each block begins in `offsets`, and the end.
    pub(crate) starts: Vec<usize>,
    pub(crate) graph: BlockGraph,
    /// For each shared capture.
    pub(crate) listed: Vec<Listed>,
}

/// Numbers for the elements that are touched, in their order, so that tables needn't have an entry for all others.
pub(crate) struct Touched {
    bits: Vec<u64>,
    /// How many are touched before each word of `bits`.
    before: Vec<u32>,
    count: usize,
}

impl Touched {
    fn new(recording: &Recording<'_>, capture: usize, len: usize) -> Touched {
        let mut bits = vec![0u64; len.div_ceil(64)];
        for s in 0..recording.slice_count() {
            mark(&mut bits, recording.log(s, capture).entries());
        }
        Touched::of_bits(bits)
    }

    /// The elements of these accesses.
    pub(crate) fn of(entries: &[u32]) -> Touched {
        let len = entries.iter().max().map_or(0, |last| (last >> 1) as usize + 1);
        let mut bits = vec![0u64; len.div_ceil(64)];
        mark(&mut bits, entries);
        Touched::of_bits(bits)
    }

    fn of_bits(bits: Vec<u64>) -> Touched {
        let mut count = 0;
        let mut before = Vec::with_capacity(bits.len());
        for word in &bits {
            before.push(count);
            count += word.count_ones();
        }
        Touched { bits, before, count: count as usize }
    }

    /// Their indices, ascending.
    pub(crate) fn indices(&self) -> impl Iterator<Item = u32> + '_ {
        let of_word = |(word, &bits): (usize, &u64)| {
            (0..u64::BITS).filter(move |bit| bits >> bit & 1 == 1).map(move |bit| word as u32 * u64::BITS + bit)
        };
        self.bits.iter().enumerate().flat_map(of_word)
    }

    fn count(&self) -> usize {
        self.count
    }

    /// The number of an element that is touched.
    pub(crate) fn rank(&self, index: u32) -> usize {
        let (word, bit) = (index as usize / 64, index % 64);
        (self.before[word] + (self.bits[word] & ((1 << bit) - 1)).count_ones()) as usize
    }
}

fn mark(bits: &mut [u64], entries: &[u32]) {
    for index in entries.iter().map(|entry| entry >> 1) {
        bits[index as usize / 64] |= 1 << (index % 64);
    }
}

/// An access to a shared DDS: which of them, the number of the element among those that are touched, and whether it is written.
type Access = (usize, usize, bool);

/// Two words for each element that is touched.
type Words = Vec<Vec<(u32, u32)>>;

/// How many iterations' elements are fetched at a time. (In any order; the iterations themselves wait for each other.)
const FETCHED: usize = 32;

/// Calls `f(words, iteration, accesses)` for each iteration, which is its offset; words are 0 at first. Ends early when `f` says so.
fn each_iteration(
    recording: &Recording<'_>,
    captures: &[usize],
    touched: &[Touched],
    mut f: impl FnMut(&mut Words, usize, &[Access]) -> bool,
) {
    let mut words: Words = touched.iter().map(|touched| vec![(0, 0); touched.count()]).collect();
    let (mut accesses, mut ends): (Vec<Access>, Vec<usize>) = (Vec::new(), Vec::new());
    let mut at = 0;
    for s in 0..recording.slice_count() {
        let logs: Vec<_> = captures.iter().map(|&capture| recording.log(s, capture)).collect();
        let slice: Vec<usize> = (0..recording.slice_len(s)).collect();
        for some in slice.chunks(FETCHED) {
            accesses.clear();
            ends.clear();
            for &k in some {
                for (slot, log) in logs.iter().enumerate() {
                    let place = |&entry: &u32| (slot, touched[slot].rank(entry >> 1), entry & 1 == 1);
                    accesses.extend(log.of(k).iter().map(place));
                }
                ends.push(accesses.len());
            }
            black_box(accesses.iter().fold(0, |sum, &(slot, place, _)| sum ^ words[slot][place].0));
            let mut from = 0;
            for &end in &ends {
                if !f(&mut words, at, &accesses[from..end]) {
                    return;
                }
                (from, at) = (end, at + 1);
            }
        }
    }
}

/// When a colouring is worth its cost.
pub(crate) struct Bounds<'b> {
    /// About how many iterations write the element that most write: there are at least as many colours.
    pub(crate) writers: usize,
    /// How many iterations touch the element that most touch,
    pub(crate) hottest: usize,
    /// and whether that may be more than there are colours: the loop asks for it. Grids ran three times as fast (docs/scaling.md).
    pub(crate) hubs: bool,
    /// Whether a plan may be the best one, by the cost of its longest chain and by its number of blocks.
    pub(crate) may_be_best: &'b dyn Fn(u64, usize) -> bool,
}

/// The colour of each iteration, and what those of each colour cost together; none if it takes too many.
fn colours(
    recording: &Recording<'_>,
    captures: &[usize],
    touched: &[Touched],
    order: Order,
) -> Option<(Vec<u32>, Vec<u64>)> {
    match order {
        Order::Any => first_fit(recording, captures, touched),
        Order::Preserve => wavefronts(recording, captures, touched),
    }
}

/// The smallest colour that no conflicting iteration before has.
fn first_fit(recording: &Recording<'_>, captures: &[usize], touched: &[Touched]) -> Option<(Vec<u32>, Vec<u64>)> {
    const NONE: u32 = u32::MAX;
    let mut colour = vec![NONE; recording.iterations()];
    let mut left = colour.len();
    let mut cost = Vec::new();
    for round in 0..ROUNDS {
        let before = left;
        // Per element: the colours of those that write it, and of all that touch it.
        each_iteration(recording, captures, touched, |masks, i, accesses| {
            if colour[i] != NONE {
                return true;
            }
            let mut taken = 0u32;
            for &(slot, place, write) in accesses {
                let (writers, all) = masks[slot][place];
                taken |= if write { all } else { writers };
            }
            let free = taken.trailing_ones();
            if free == u32::BITS {
                return true;
            }
            let bit = 1u32 << free;
            for &(slot, place, write) in accesses {
                let mask = &mut masks[slot][place];
                mask.1 |= bit;
                if write {
                    mask.0 |= bit;
                }
            }
            colour[i] = u32::BITS * round as u32 + free;
            add(&mut cost, colour[i], accesses.len());
            left -= 1;
            true
        });
        if left == 0 {
            return Some((colour, cost));
        }
        // At this rate it would not end within the rounds that there are.
        if (before - left) * (ROUNDS - round) < left {
            return None;
        }
    }
    None
}

/// One more than the last conflicting iteration's: keeps the loop's own order.
fn wavefronts(recording: &Recording<'_>, captures: &[usize], touched: &[Touched]) -> Option<(Vec<u32>, Vec<u64>)> {
    let n = recording.iterations();
    let limit = MAX_COLOURS.min(n / WAVEFRONT_SIZE + 1) as u32;
    let mut wavefront = Vec::with_capacity(n);
    let mut cost = Vec::new();
    // Per element: the last wavefront that writes it, and that touches it, each plus one.
    each_iteration(recording, captures, touched, |last, _, accesses| {
        let mut after = 0;
        for &(slot, place, write) in accesses {
            let (writer, any) = last[slot][place];
            after = after.max(if write { any } else { writer });
        }
        if after >= limit {
            return false;
        }
        for &(slot, place, write) in accesses {
            let seen = &mut last[slot][place];
            seen.1 = seen.1.max(after + 1);
            if write {
                seen.0 = after + 1;
            }
        }
        wavefront.push(after);
        add(&mut cost, after, accesses.len());
        true
    });
    if wavefront.len() < n {
        return None;
    }
    Some((wavefront, cost))
}

/// Counts one more iteration of a colour.
fn add(cost: &mut Vec<u64>, colour: u32, accesses: usize) {
    let colour = colour as usize;
    if cost.len() <= colour {
        cost.resize(colour + 1, 0);
    }
    cost[colour] += 1 + accesses as u64;
}

/// The least cost of the longest chain, about, and the number of blocks. Iterations that write the same element have different colours,
/// and run one after the other.
fn foreseen(cost: &[u64], begins: &[u32], writers: usize) -> (u64, usize) {
    let blocks = |c: usize| blocks_of((begins[c + 1] - begins[c]) as usize);
    let mut each: Vec<u64> = cost.iter().enumerate().map(|(c, cost)| cost / blocks(c) as u64).collect();
    let many = writers.min(each.len());
    if many > 0 {
        each.select_nth_unstable(many - 1);
    }
    (each[..many].iter().sum(), (0..cost.len()).map(blocks).sum())
}

/// How many blocks a colour is cut into at most: enough for many workers, not more than worth a dispatch.
fn blocks_of(size: usize) -> usize {
    (size / 256).clamp(1, 64)
}

/// Colours the iterations, and cuts every colour into blocks. None where that takes too many colours, or can't be the best plan.
pub(crate) fn colour(
    recording: &Recording<'_>,
    captures: &[usize],
    lens: &[usize],
    (order, pool): (Order, &dyn Threads),
    bounds: &Bounds<'_>,
) -> Option<Coloured> {
    let limit = match order {
        Order::Any => u32::BITS as usize * ROUNDS,
        Order::Preserve => MAX_COLOURS,
    };
    let most = if bounds.hubs { bounds.writers } else { bounds.hottest };
    if most > limit.min(recording.iterations() / WAVEFRONT_SIZE + 1) {
        return None;
    }
    let accesses: usize = captures.iter().map(|&c| recording.listed(c)).sum();
    if u32::try_from(accesses).is_err() {
        return None;
    }
    let touched: Vec<Touched> =
        captures.iter().zip(lens).map(|(&capture, &len)| Touched::new(recording, capture, len)).collect();
    let (colour, cost) = colours(recording, captures, &touched, order)?;
    let (n, colours) = (colour.len(), cost.len());
    let mut begins = vec![0u32; colours + 1];
    for &c in &colour {
        begins[c as usize + 1] += 1;
    }
    for c in 0..colours {
        begins[c + 1] += begins[c];
    }
    let (chain, blocks) = foreseen(&cost, &begins, bounds.writers);
    if !(bounds.may_be_best)(chain, blocks) {
        return None;
    }
    let mut next = begins.clone();
    let mut offsets = vec![0u32; n];
    for (i, &c) in colour.iter().enumerate() {
        offsets[next[c as usize] as usize] = i as u32;
        next[c as usize] += 1;
    }
    let mut starts = Vec::new();
    for ends in begins.windows(2) {
        let (from, to) = (ends[0] as usize, ends[1] as usize);
        let blocks = blocks_of(to - from);
        starts.extend((0..blocks).map(|b| from + (to - from) * b / blocks));
    }
    starts.push(n);
    let listed: Vec<Listed> = captures.iter().map(|&c| list(recording, c, &offsets)).collect();
    let graph = depend::depend(&starts, &listed, lens, pool);
    Some(Coloured { colours, offsets, starts, graph, listed })
}

fn list(recording: &Recording<'_>, capture: usize, offsets: &[u32]) -> Listed {
    let mut listed =
        Listed { entries: Vec::with_capacity(recording.listed(capture)), ends: Vec::with_capacity(offsets.len()) };
    for &offset in offsets {
        let start = listed.entries.len();
        recording.entries_of(offset as usize, capture, &mut listed.entries);
        let own = &mut listed.entries[start..];
        if own.len() <= Listed::FEW {
            own.rotate_left(own.iter().position(|entry| entry & 1 == 1).unwrap_or(0));
        }
        listed.ends.push(listed.entries.len() as u32);
    }
    listed
}
