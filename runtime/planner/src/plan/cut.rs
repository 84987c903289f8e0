//! Cutting a DDS into parts: contiguous ranges of about equal access weight.

use crate::recording::Recording;
use crate::threads::Threads;

/// The most parts that a DDS is ever cut into.
pub const MAX_PARTS: usize = 1024;

/// Loops with more accesses than this to a DDS are weighed by a sample of about this many,
const ENOUGH: usize = 1 << 17;
/// or of one in this many: finer cuts want to be weighed more closely.
const ONE_IN: usize = 512;

/// How often each element of a DDS is touched.
#[derive(Debug)]
pub(crate) struct Weights {
    /// By element.
    pub(crate) counts: Vec<u32>,
    /// How many iterations were looked at, and how many there are.
    pub(crate) weighed: usize,
    pub(crate) iterations: usize,
}

/// Counts the accesses to each element: of all iterations, or of short runs all over the loop where there are many.
pub(crate) fn weigh(recording: &Recording<'_>, capture: usize, len: usize, pool: &dyn Threads) -> Weights {
    let slices = recording.slice_count();
    let every = sampled_every(recording, capture);
    // A table a thread, but no more tables than the accesses are worth.
    let tables = pool.count().min(1 + recording.listed(capture) / every / len.max(1)).min(slices).max(1);
    let each = slices.div_ceil(tables);
    let mut counted = pool.map(tables, |t| {
        let mut counts = vec![0u32; len];
        let mut weighed = 0;
        for s in (0..slices).skip(t * each).take(each) {
            weighed += recording.each_sampled(s, capture, every, |entry| counts[(entry >> 1) as usize] += 1);
        }
        (counts, weighed)
    });
    let (mut counts, mut weighed) = counted.pop().unwrap_or_default();
    for (other, more) in counted {
        weighed += more;
        for (sum, count) in counts.iter_mut().zip(other) {
            *sum += count;
        }
    }
    Weights { counts, weighed, iterations: recording.iterations() }
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
    /// Whether few of many elements are touched.
    pub(crate) fn is_sparse(&self) -> bool {
        const SMALL: usize = 4096;
        let touched = self.counts.iter().filter(|&&count| count > 0).count();
        let of = self.iterations.checked_div(self.weighed).unwrap_or(1);
        self.counts.len() > SMALL && 4 * touched * of < self.counts.len()
    }

    /// The three elements that are touched most, and by how many iterations (about, unless all were looked at).
    pub(crate) fn hottest(&self) -> Vec<(usize, u32)> {
        let mut best: Vec<(usize, u32)> = Vec::new();
        for (i, &count) in self.counts.iter().enumerate() {
            if count > 0 && (best.len() < 3 || count > best[2].1) {
                best.push((i, count));
                best.sort_by_key(|&(i, count)| (std::cmp::Reverse(count), i));
                best.truncate(3);
            }
        }
        let scale = self.iterations as f64 / self.weighed.max(1) as f64;
        best.into_iter().map(|(i, count)| (i, (f64::from(count) * scale) as u32)).collect()
    }
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
    pub(crate) fn new(weights: &[u32], parts: usize) -> Self {
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

    /// How much of each part's weight is its heaviest element's, from 0 to 1.
    pub(crate) fn hottest_shares(&self, weights: &[u32]) -> Vec<f64> {
        self.bounds
            .windows(2)
            .map(|ends| {
                let part = &weights[ends[0]..ends[1]];
                let total: u64 = part.iter().map(|&w| u64::from(w)).sum();
                let hottest = part.iter().copied().max().unwrap_or(0);
                if total == 0 { 0.0 } else { f64::from(hottest) / total as f64 }
            })
            .collect()
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
    fn coarser_cuts_share_bounds() {
        let weights: Vec<u32> = (0..1000).map(|i| i * i % 97).collect();
        let fine = Cut::new(&weights, 32);
        for shift in 1..5 {
            assert_eq!(fine.coarser(shift), Cut::new(&weights, 32 >> shift));
        }
    }
}
