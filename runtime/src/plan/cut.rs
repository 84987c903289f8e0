//! Cutting a DDS into parts: contiguous ranges of about equal access weight.

use crate::pool::Pool;
use crate::recording::Recording;

/// The most parts that a DDS is ever cut into.
pub(crate) const MAX_PARTS: usize = 1024;

/// How often each element is touched.
pub(crate) fn weights(recording: &Recording, capture: usize, len: usize, pool: &Pool) -> Vec<u32> {
    let slices = recording.slice_count();
    // A table a thread, but no more tables than the accesses are worth.
    let tables = pool.threads().min(1 + recording.listed(capture) / len.max(1)).min(slices).max(1);
    let each = slices.div_ceil(tables);
    let mut counted = pool.map(tables, |t| {
        let mut counts = vec![0u32; len];
        for s in (0..slices).skip(t * each).take(each) {
            for entry in recording.log(s, capture).entries() {
                counts[(entry >> 1) as usize] += 1;
            }
        }
        counts
    });
    let mut total = counted.pop().unwrap_or_default();
    for other in counted {
        for (sum, count) in total.iter_mut().zip(other) {
            *sum += count;
        }
    }
    total
}

/// One DDS in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Part `k` is `bounds[k]..bounds[k + 1]`.
    pub(crate) bounds: Vec<usize>,
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

    pub(crate) fn parts(&self) -> usize {
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
