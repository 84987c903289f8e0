//! The Huffman tree of a vocabulary, for hierarchical softmax: frequent words have short codes.
//!
//! It is built as the original builds it, ties included: one pass over the counts, which fall from the second word on,
//! with two fingers: one on the words, from the rarest, and one on the inner nodes, in the order of their making.

use stradsap::Element;

/// The longest code, in binary decisions. A longer one takes a corpus of a hundred million words, and counts that grow
/// like Fibonacci's numbers.
pub const MAX_CODE: usize = 40;

/// Where a word is in the tree: the inner nodes from the root on, and which way it goes at each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Element)]
pub struct Path {
    length: u32,
    /// Twice the node, plus 1 where the way goes to the node's second child.
    steps: [u32; MAX_CODE],
}

impl Path {
    const EMPTY: Path = Path { length: 0, steps: [0; MAX_CODE] };

    /// The number of decisions.
    pub fn len(&self) -> usize {
        self.length as usize
    }

    /// Whether there is nothing to decide, which is so for the only word of a vocabulary.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Inner nodes from the root on, each with its label: 1 if the way goes to the first child, 0 if to the second.
    #[inline(always)]
    pub fn steps(&self) -> impl Iterator<Item = (usize, f32)> {
        self.steps[..self.len().min(MAX_CODE)].iter().map(|&step| ((step >> 1) as usize, 1.0 - (step & 1) as f32))
    }
}

/// The paths of all words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// By the words' numbers.
    pub paths: Vec<Path>,
    /// One less than there are words: nodes are numbered from 0, and the last is the root.
    pub inner_nodes: usize,
}

impl Tree {
    /// Of words that occur so often each. `None` if a code would be longer than [`MAX_CODE`].
    pub fn new(counts: impl ExactSizeIterator<Item = u64>) -> Option<Tree> {
        let words = counts.len();
        let inner_nodes = words.saturating_sub(1);
        let mut count: Vec<u64> = counts.collect();
        let (mut parent, mut second) = (vec![0; words + inner_nodes], vec![false; words + inner_nodes]);
        // The words from `word` down and the nodes from `node` up have no parent yet.
        let (mut word, mut node) = (words, words);
        for made in words..words + inner_nodes {
            let mut smallest = || {
                if word > 0 && count.get(node).is_none_or(|&count_of_node| count[word - 1] < count_of_node) {
                    word -= 1;
                    word
                } else {
                    node += 1;
                    node - 1
                }
            };
            let (a, b) = (smallest(), smallest());
            count.push(count[a] + count[b]);
            (parent[a], parent[b], second[b]) = (made, made, true);
        }
        let root = (words + inner_nodes).saturating_sub(1);
        let path = |word: usize| {
            let mut up = Path::EMPTY;
            let mut at = word;
            while at != root {
                let decided = up.len();
                *up.steps.get_mut(decided)? = 2 * (parent[at] - words) as u32 + u32::from(second[at]);
                up.length += 1;
                at = parent[at];
            }
            let length = up.len();
            up.steps[..length].reverse();
            Some(up)
        };
        Some(Tree { paths: (0..words).map(path).collect::<Option<_>>()?, inner_nodes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn codes(counts: &[u64]) -> Vec<(Vec<usize>, String)> {
        let tree = Tree::new(counts.iter().copied()).unwrap();
        let code = |path: &Path| {
            let bits = path.steps().map(|(_, label)| if label == 1.0 { '0' } else { '1' });
            (path.steps().map(|(node, _)| node).collect(), bits.collect())
        };
        tree.paths.iter().map(code).collect()
    }

    fn one(points: &[usize], code: &str) -> (Vec<usize>, String) {
        (points.to_vec(), code.to_owned())
    }

    #[test]
    fn a_small_tree_by_hand() {
        // </s> 0, a 4, b 2, c 1. The rarest of the words is always the last that is left, even where </s> is rarer:
        // node 0 = c + b, node 1 = node 0 + a (3 < 4), node 2 = </s> + node 1.
        let expected = [one(&[2], "0"), one(&[2, 1], "11"), one(&[2, 1, 0], "101"), one(&[2, 1, 0], "100")];
        assert_eq!(codes(&[0, 4, 2, 1]), expected);
    }

    #[test]
    fn of_equals_the_inner_node_is_taken_first() {
        // node 0 = d + c (2); node 0 isn't larger than b (2), so node 1 = node 0 + b; node 2 = a + node 1.
        let expected = [one(&[2], "0"), one(&[2, 1], "11"), one(&[2, 1, 0], "101"), one(&[2, 1, 0], "100")];
        assert_eq!(codes(&[3, 2, 1, 1]), expected);
    }

    #[test]
    fn degenerate_vocabularies() {
        assert_eq!(codes(&[]), []);
        assert_eq!(codes(&[3]), [one(&[], "")]);
        assert_eq!(codes(&[0, 5]), [one(&[0], "1"), one(&[0], "0")]);
    }

    #[test]
    fn codes_are_prefix_free_and_as_short_as_can_be() {
        let counts: Vec<u64> = (1..=500u64).rev().map(|n| n * n).collect();
        let tree = Tree::new(counts.iter().copied()).unwrap();
        assert_eq!(tree.inner_nodes, 499);
        let kraft: f64 = tree.paths.iter().map(|path| 0.5f64.powi(path.len() as i32)).sum();
        assert!((kraft - 1.0).abs() < 1e-12, "{kraft}");
        let total: u64 = counts.iter().sum();
        let bits: u64 = counts.iter().zip(&tree.paths).map(|(count, path)| count * path.len() as u64).sum();
        let shares = counts.iter().map(|&count| count as f64 / total as f64);
        let entropy: f64 = shares.map(|share| -share * share.log2()).sum();
        let mean = bits as f64 / total as f64;
        assert!((entropy..entropy + 0.1).contains(&mean), "{mean} bits, entropy {entropy}");
    }

    #[test]
    fn codes_that_are_too_long_are_refused() {
        let mut fibonacci = vec![1u64, 1];
        while fibonacci.len() < 50 {
            fibonacci.push(fibonacci[fibonacci.len() - 1] + fibonacci[fibonacci.len() - 2]);
        }
        let falling = |n: usize| fibonacci[..n].iter().rev().copied().collect::<Vec<_>>().into_iter();
        assert_eq!(Tree::new(falling(50)), None);
        let deepest = Tree::new(falling(MAX_CODE + 1)).unwrap();
        assert_eq!(deepest.paths.iter().map(Path::len).max(), Some(MAX_CODE));
    }
}
