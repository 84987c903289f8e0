//! Cutting a DDS into parts: contiguous ranges of about equal access weight.

use std::ops::Range;

use crate::recording::Recording;
use crate::threads::Threads;

/// The most parts that a DDS is ever cut into.
pub const MAX_PARTS: usize = 1024;

/// Loops with more accesses than this to a DDS are weighed by a sample of about this many,
const ENOUGH: usize = 1 << 17;
/// or of one in this many: finer cuts want to be weighed more closely.
const ONE_IN: usize = 512;

/// There are no more counts than this: neighbours in longer DDSs are counted together.
const MOST_COUNTS: usize = 1 << 22;
/// Which elements of these are touched most is found out where no more than `1 << CLOSE` of them are counted together.
const CLOSE: u32 = 12;

/// How often the elements of a DDS are touched.
#[derive(Debug)]
pub(crate) struct Weights {
    len: usize,
    /// Of `1 << together(len)` elements each.
    counts: Vec<u32>,
    /// How many iterations were looked at, and how many there are.
    pub(crate) weighed: usize,
    pub(crate) iterations: usize,
    /// Where elements are counted together: those of the largest counts, by themselves.
    closer: Vec<(usize, u32)>,
}

/// How many elements are counted together, as a power of two.
fn together(len: usize) -> u32 {
    len.div_ceil(MOST_COUNTS).next_power_of_two().ilog2()
}

/// Counts the accesses in some slices to the elements of a DDS, and gives how many iterations were looked at.
pub(crate) fn count(
    recording: &Recording<'_>,
    (capture, len, every): (usize, usize, usize),
    slices: Range<usize>,
) -> (Vec<u32>, usize) {
    let shift = together(len);
    let (mut counts, mut weighed) = (vec![0u32; len.div_ceil(1 << shift)], 0);
    for s in slices {
        weighed += recording.each_sampled(s, capture, every, |entry| counts[(entry >> 1) as usize >> shift] += 1);
    }
    (counts, weighed)
}

/// The same of the single elements of some counts.
pub(crate) fn count_closer(
    recording: &Recording<'_>,
    (capture, len, every): (usize, usize, usize),
    slices: Range<usize>,
    of: &[usize],
) -> Vec<u32> {
    let shift = together(len);
    let mut counts = vec![0u32; of.len() << shift];
    for s in slices {
        recording.each_sampled(s, capture, every, |entry| {
            let element = (entry >> 1) as usize;
            if let Some(k) = of.iter().position(|&count| count == element >> shift) {
                counts[(k << shift) + (element & ((1 << shift) - 1))] += 1;
            }
        });
    }
    counts
}

/// Counts the accesses to each element: of all iterations, or of short runs all over the loop where there are many.
pub(crate) fn weigh(recording: &Recording<'_>, capture: usize, len: usize, pool: &dyn Threads) -> Weights {
    let slices = recording.slice_count();
    let every = sampled_every(recording, capture);
    let what = (capture, len, every);
    // A table a thread, but no more tables than the accesses are worth.
    let size = len.div_ceil(1 << together(len)).max(1);
    let tables = pool.count().min(1 + recording.listed(capture) / every / size).min(slices).max(1);
    let each = slices.div_ceil(tables);
    let mut counted =
        pool.map(tables, |t| count(recording, what, (t * each).min(slices)..((t + 1) * each).min(slices)));
    let (mut counts, mut weighed) = counted.pop().unwrap_or_default();
    for (other, more) in counted {
        weighed += more;
        for (sum, count) in counts.iter_mut().zip(other) {
            *sum += count;
        }
    }
    let mut weights = Weights::new(len, (counts, weighed), recording.iterations());
    let heaviest = weights.heaviest();
    if !heaviest.is_empty() {
        weights.look_closer(&heaviest, &count_closer(recording, what, 0..slices, &heaviest));
    }
    weights
}

pub(super) fn sampled_every(recording: &Recording<'_>, capture: usize) -> usize {
    (recording.listed(capture) / ENOUGH).clamp(1, ONE_IN)
}

/// How many iterations write each of a few elements, by the same sample.
pub(crate) fn writers(recording: &Recording<'_>, capture: usize, elements: &[(usize, u32)]) -> Vec<u32> {
    let (mut written, mut weighed) = (vec![0u32; elements.len()], 0);
    for s in 0..recording.slice_count() {
        weighed += recording.each_sampled(s, capture, sampled_every(recording, capture), |entry| {
            if let Some(k) = elements.iter().position(|element| element.0 == (entry >> 1) as usize) {
                written[k] += entry & 1;
            }
        });
    }
    let scale = recording.iterations() as f64 / weighed.max(1) as f64;
    written.into_iter().map(|count| (f64::from(count) * scale) as u32).collect()
}

impl Weights {
    /// What [`count`] has found of all slices.
    pub(crate) fn new(len: usize, (counts, weighed): (Vec<u32>, usize), iterations: usize) -> Weights {
        Weights { len, counts, weighed, iterations, closer: Vec::new() }
    }

    /// The largest counts, if their elements are to be counted by themselves.
    pub(crate) fn heaviest(&self) -> Vec<usize> {
        match together(self.len) {
            1..=CLOSE => largest(self.counts.iter().copied().enumerate()).into_iter().map(|(count, _)| count).collect(),
            _ => Vec::new(),
        }
    }

    /// Takes over what [`count_closer`] has found of all slices.
    pub(crate) fn look_closer(&mut self, heaviest: &[usize], counts: &[u32]) {
        let shift = together(self.len);
        let elements = heaviest.iter().flat_map(|&count| count << shift..(count + 1) << shift);
        self.closer = elements.zip(counts.iter().copied()).collect();
    }

    /// Whether few of many elements are touched.
    pub(crate) fn is_sparse(&self) -> bool {
        const SMALL: usize = 4096;
        let touched = self.counts.iter().map(|&count| (count as usize).min(1 << together(self.len))).sum::<usize>();
        let of = self.iterations.checked_div(self.weighed).unwrap_or(1);
        self.len > SMALL && touched.saturating_mul(4 * of) < self.len
    }

    /// The three elements that are touched most, and by how many iterations (about, unless all were looked at).
    pub(crate) fn hottest(&self) -> Vec<(usize, u32)> {
        let best = match together(self.len) {
            0 => largest(self.counts.iter().copied().enumerate()),
            _ => largest(self.closer.iter().copied()),
        };
        let scale = self.iterations as f64 / self.weighed.max(1) as f64;
        best.into_iter().map(|(i, count)| (i, (f64::from(count) * scale) as u32)).collect()
    }

    /// Parts of about equal weight.
    pub(crate) fn cut(&self, parts: usize) -> Cut {
        let mut cut = Cut::new(&self.counts, parts);
        let shift = together(self.len);
        cut.bounds.iter_mut().for_each(|bound| *bound = (*bound << shift).min(self.len));
        cut
    }

    /// How much of each part's weight is that of its heaviest element (or of those that are counted together), from 0 to 1.
    pub(crate) fn hottest_shares(&self, cut: &Cut) -> Vec<f64> {
        let shift = together(self.len);
        let share = |ends: &[usize]| {
            let part = &self.counts[ends[0] >> shift..ends[1].div_ceil(1 << shift)];
            let total: u64 = part.iter().map(|&w| u64::from(w)).sum();
            let hottest = part.iter().copied().max().unwrap_or(0);
            if total == 0 { 0.0 } else { f64::from(hottest) / total as f64 }
        };
        cut.bounds.windows(2).map(share).collect()
    }

    /// How many bytes they take.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.counts)
    }
}

/// The three largest counts, and whose they are.
fn largest(counts: impl Iterator<Item = (usize, u32)>) -> Vec<(usize, u32)> {
    let mut best: Vec<(usize, u32)> = Vec::new();
    for (i, count) in counts {
        if count > 0 && (best.len() < 3 || count > best[2].1) {
            best.push((i, count));
            best.sort_by_key(|&(i, count)| (std::cmp::Reverse(count), i));
            best.truncate(3);
        }
    }
    best
}

/// One DDS in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Part `k` is `bounds[k]..bounds[k + 1]`.
    pub bounds: Vec<usize>,
}

impl Cut {
    /// Cuts into `parts` ranges whose weights are as equal as single elements allow. Cuts into `p` and into
    /// `2 p` parts share every second bound.
    fn new(weights: &[u32], parts: usize) -> Self {
        let total: u64 = weights.iter().map(|&w| u64::from(w)).sum();
        let mut bounds = Vec::with_capacity(parts + 1);
        bounds.push(0);
        let (mut i, mut before) = (0, 0u64);
        for k in 1..parts as u64 {
            let want = total * k / parts as u64;
            while i < weights.len() && before < want {
                before += u64::from(weights[i]);
                i += 1;
            }
            bounds.push(i);
        }
        bounds.push(weights.len());
        Cut { bounds }
    }

    /// How many parts there are.
    pub fn parts(&self) -> usize {
        self.bounds.len() - 1
    }

    /// Joins runs of `1 << shift` parts.
    pub(crate) fn coarser(&self, shift: u32) -> Cut {
        let last = self.parts();
        let mut bounds: Vec<usize> = (0..last).step_by(1 << shift).map(|k| self.bounds[k]).collect();
        bounds.push(self.bounds[last]);
        Cut { bounds }
    }

    /// The part of each element.
    pub(crate) fn table(&self) -> Vec<u16> {
        let mut table = Vec::with_capacity(self.bounds[self.parts()]);
        for (k, ends) in self.bounds.windows(2).enumerate() {
            table.resize(table.len() + (ends[1] - ends[0]), k as u16);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_shared_out_evenly() {
        let cut = Cut::new(&[1; 100], 4);
        assert_eq!(cut.bounds, [0, 25, 50, 75, 100]);
    }

    #[test]
    fn a_heavy_element_stands_alone() {
        let mut weights = [1; 100];
        weights[50] = 1000;
        let cut = Cut::new(&weights, 8);
        assert_eq!(cut.table().len(), 100);
        assert!(cut.bounds.contains(&51));
    }

    #[test]
    fn neighbours_in_long_ddss_are_counted_together() {
        const LEN: usize = 3 * MOST_COUNTS + 5;
        assert_eq!((together(MOST_COUNTS), together(LEN), together(1 << 47)), (0, 2, 25));
        let mut counts = vec![1; LEN.div_ceil(4)];
        (counts[1000], counts[77]) = (90, 40);
        let mut weights = Weights::new(LEN, (counts, 50), 100);
        assert!(!weights.is_sparse() && weights.hottest().is_empty());
        let heaviest = weights.heaviest();
        assert_eq!(heaviest, [1000, 77, 0]);
        weights.look_closer(&heaviest, &[20, 0, 70, 0, 10, 10, 10, 10, 0, 1, 0, 0]);
        assert_eq!(weights.hottest(), [(4002, 140), (4000, 40), (308, 20)]);
        let cut = weights.cut(16);
        assert_eq!((cut.bounds[0], cut.bounds[16]), (0, LEN));
        assert!(cut.bounds[1..16].iter().all(|bound| bound % 4 == 0));
        assert!(cut.bounds.windows(2).all(|ends| (ends[1] - ends[0]).abs_diff(LEN / 16) < 1000));
        let shares = weights.hottest_shares(&cut);
        assert!(shares[0] > 0.0003 && shares[15] < 0.00001, "{shares:?}");
        // Few of many are touched.
        let few = |touched: usize| {
            Weights::new(LEN, ((0..LEN.div_ceil(4)).map(|i| u32::from(i < touched)).collect(), 100), 100)
        };
        assert!(few(LEN / 5).is_sparse() && !few(LEN / 4 + 1).is_sparse());
    }

    #[test]
    fn coarser_cuts_share_bounds() {
        let weights: Vec<u32> = (0..1000).map(|i| i * i % 97).collect();
        let fine = Cut::new(&weights, 32);
        for shift in 1..5 {
            assert_eq!(fine.coarser(shift), Cut::new(&weights, 32 >> shift));
        }
    }
}
