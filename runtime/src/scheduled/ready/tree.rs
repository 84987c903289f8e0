//! Sums of weights, to draw in proportion to them.
//!
//! Every inner node is the sum of its two children as they are now, rounded once: it is computed anew on the way up from a leaf
//! that changes, and nothing is ever subtracted from it. So the tree is a function of its leaves alone, however often they have
//! changed, and a weight that was taken out and put back leaves no trace.

/// Weights, none of them negative.
#[derive(Clone, Debug)]
pub(super) struct SumTree {
    len: usize,
    /// The number of leaves, a power of two. Node `k` has the children `2 k` and `2 k + 1`; the leaves come last.
    leaves: usize,
    nodes: Vec<f64>,
}

impl SumTree {
    /// This many weights, by number.
    pub(super) fn new(len: usize, weight: impl FnMut(usize) -> f64) -> SumTree {
        let leaves = len.next_power_of_two().max(1);
        let mut tree = SumTree { len, leaves, nodes: vec![0.0; 2 * leaves] };
        tree.fill(weight);
        tree
    }

    /// Replaces all weights.
    pub(super) fn fill(&mut self, mut weight: impl FnMut(usize) -> f64) {
        for i in 0..self.len {
            self.nodes[self.leaves + i] = weight(i);
        }
        for k in (1..self.leaves).rev() {
            self.nodes[k] = self.nodes[2 * k] + self.nodes[2 * k + 1];
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, i: usize) -> f64 {
        self.nodes[self.leaves + i]
    }

    pub(super) fn set(&mut self, i: usize, weight: f64) {
        let mut k = self.leaves + i;
        self.nodes[k] = weight;
        while k > 1 {
            k /= 2;
            self.nodes[k] = self.nodes[2 * k] + self.nodes[2 * k + 1];
        }
    }

    pub(super) fn total(&self) -> f64 {
        self.nodes[1]
    }

    /// The leaf in which `unit`, in [0, 1), of the total falls; never one of no weight. None if all are.
    pub(super) fn draw(&self, unit: f64) -> Option<usize> {
        let total = self.total();
        if total <= 0.0 {
            return None;
        }
        let (mut k, mut rest) = (1, unit * total);
        while k < self.leaves {
            let (left, right) = (self.nodes[2 * k], self.nodes[2 * k + 1]);
            // Sums are rounded: where the rest falls beyond what is there, it falls on what is next to it.
            if right <= 0.0 || (left > 0.0 && rest < left) {
                k *= 2;
            } else {
                rest = (rest - left).max(0.0);
                k = 2 * k + 1;
            }
        }
        Some(k - self.leaves)
    }
}

#[cfg(test)]
mod tests {
    use super::super::random::Numbers;
    use super::*;

    #[test]
    fn a_tree_is_a_function_of_its_leaves() {
        let mut numbers = Numbers::new(3);
        let mut weights: Vec<f64> = (0..37).map(|_| numbers.unit() * 1e3).collect();
        let mut tree = SumTree::new(37, |i| weights[i]);
        for k in 0..20_000 {
            let i = (numbers.unit() * 37.0) as usize;
            // From 1e-30 to 1e30: a sum that is kept up by differences would be noise.
            weights[i] = if k % 5 == 0 { 0.0 } else { 10f64.powf(60.0 * numbers.unit() - 30.0) };
            tree.set(i, weights[i]);
        }
        assert_eq!(tree.nodes, SumTree::new(37, |i| weights[i]).nodes);
    }

    #[test]
    fn draws_follow_the_weights() {
        let weights = [0.0, 1.0, 0.0, 5.0, 2.0, 0.0, 0.0];
        let tree = SumTree::new(7, |i| weights[i]);
        let mut counts = [0u32; 7];
        let n = 80_000u32;
        for k in 0..n {
            counts[tree.draw((f64::from(k) + 0.5) / f64::from(n)).unwrap()] += 1;
        }
        assert_eq!(counts, [0, 10_000, 0, 50_000, 20_000, 0, 0]);
        assert_eq!(SumTree::new(4, |_| 0.0).draw(0.5), None);
        assert_eq!(SumTree::new(0, |_| 1.0).draw(0.5), None);
    }

    #[test]
    fn nothing_without_weight_is_drawn_however_sums_are_rounded() {
        let mut numbers = Numbers::new(5);
        for n in 1..60 {
            let weight = |i: usize, numbers: &mut Numbers| match i % 3 {
                0 => 0.0,
                _ => 10f64.powf(40.0 * numbers.unit() - 20.0),
            };
            let tree = SumTree::new(n, |i| weight(i, &mut numbers));
            for unit in [0.0, 0.25, 0.5, 0.999_999, 1.0 - f64::EPSILON / 2.0] {
                match tree.draw(unit) {
                    Some(i) => assert!(i < n && tree.get(i) > 0.0, "{i} of {n}"),
                    None => assert_eq!(n, 1),
                }
            }
        }
    }
}
