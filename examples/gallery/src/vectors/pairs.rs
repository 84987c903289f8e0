//! Pairs of words that people judged by how alike they are: WordSim-353, SimLex-999.

use std::path::Path;

use serde::Serialize;
use stradsap_examples::{Error, Result, files};

use super::Vectors;

/// A file of pairs.
#[derive(Debug)]
pub struct Pairs {
    /// Two words in upper case, and the judgement.
    pairs: Vec<(String, String, f64)>,
}

/// How well vectors agree with people.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PairScore {
    /// Spearman's rank correlation of the cosines with the judgements; `None` where it isn't defined, as for one pair.
    pub spearman: Option<f64>,
    /// Pairs that were compared.
    pub pairs: usize,
    /// Pairs left out, since a word of theirs has no vector.
    pub skipped: usize,
}

impl Pairs {
    /// Reads lines of word TAB word TAB number. Blank lines and those that begin with `#` are skipped.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Line`] with the line that isn't a pair.
    pub fn read(path: &Path) -> Result<Pairs> {
        let mut pairs = Vec::new();
        for (line, text) in lines(path)? {
            if text.starts_with('#') || text.trim().is_empty() {
                continue;
            }
            let fields: Vec<_> = text.split('\t').map(str::trim).collect();
            let pair = match fields[..] {
                [a, b, score] => score.parse().ok().filter(|x: &f64| x.is_finite()).map(|score| (a, b, score)),
                _ => None,
            };
            let Some((a, b, score)) = pair else {
                let problem = format!("{:?}; expected word TAB word TAB number", text.trim_end());
                return Err(Error::Line { path: path.to_path_buf(), line, column: None, problem });
            };
            pairs.push((a.to_uppercase(), b.to_uppercase(), score));
        }
        Ok(Pairs { pairs })
    }

    /// Compares the judgements with the cosines of vectors, of the first `restrict` words. Upper and lower case are the
    /// same.
    pub fn score(&self, vectors: &Vectors, restrict: usize) -> PairScore {
        let numbers = vectors.by_upper_case(restrict);
        let known = |(a, b, score): &(String, String, f64)| Some((*numbers.get(a)?, *numbers.get(b)?, *score));
        let known: Vec<_> = self.pairs.iter().filter_map(known).collect();
        let cosines: Vec<f64> = known.iter().map(|&(a, b, _)| cosine(vectors.row(a), vectors.row(b))).collect();
        let judged: Vec<f64> = known.iter().map(|&(_, _, score)| score).collect();
        let spearman = correlation(&ranks(&cosines), &ranks(&judged));
        PairScore { spearman, pairs: known.len(), skipped: self.pairs.len() - known.len() }
    }
}

/// The lines of a text, with their numbers from 1.
///
/// # Errors
/// [`Error::File`], [`Error::Line`] with the first line that isn't UTF-8.
pub(super) fn lines(path: &Path) -> Result<Vec<(u64, String)>> {
    let mut bytes = Vec::new();
    std::io::Read::read_to_end(&mut files::open(path)?, &mut bytes).map_err(|e| Error::file("read", path, e))?;
    let text = |(line, bytes): (u64, &[u8])| match str::from_utf8(bytes) {
        Ok(text) => Ok((line, text.to_owned())),
        Err(_) => Err(Error::Line {
            path: path.to_path_buf(),
            line,
            column: None,
            problem: "bytes that aren't UTF-8 text".to_owned(),
        }),
    };
    (1..).zip(bytes.split(|&b| b == b'\n')).map(text).collect()
}

fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum::<f64>();
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    if lengths > 0.0 { dot(a, b) / lengths } else { 0.0 }
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut below = 0;
    for equal in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let mean = below as f64 + (equal.len() + 1) as f64 / 2.0;
        equal.iter().for_each(|&i| ranks[i] = mean);
        below += equal.len();
    }
    ranks
}

/// Pearson's correlation; `None` if one side doesn't vary.
fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (mean_a, mean_b) = (mean(a), mean(b));
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(b) {
        let (x, y) = (x - mean_a, y - mean_b);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    (aa > 0.0 && bb > 0.0).then(|| ab / (aa * bb).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vectors() -> Vectors {
        let words = ["king", "Queen", "queen", "car", "zero"].map(Box::from).to_vec();
        Vectors { words, size: 2, values: vec![4.0, 0.0, 2.0, 2.0, -1.0, 0.0, 0.0, 4.0, 0.0, 0.0] }
    }

    fn pairs(text: &str) -> Result<Pairs> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pairs.tsv");
        std::fs::write(&path, text).unwrap();
        Pairs::read(&path)
    }

    #[test]
    fn equal_values_share_ranks() {
        assert_eq!(ranks(&[2.0, 1.0, 2.0, 5.0, 2.0]), [3.0, 1.0, 3.0, 5.0, 3.0]);
        assert_eq!(ranks(&[0.0, -0.0]), [1.5, 1.5]);
    }

    #[test]
    fn a_score_by_hand() {
        // Cosines: king-queen 0.71 (the first queen), king-car 0, queen-car 0.71, queen-queen 1: ranks 2.5 1 2.5 4,
        // against judged 3 1 2 4. Covariance 4.5, variances 4.5 and 5.
        let text =
            "# a\tb\tmean\nKing\tQUEEN\t8\nking\tcar\t1\n\nqueen\tcar\t2\nqueen\tqueen\t10\r\nking\tunicorn\t5\n";
        let score = pairs(text).unwrap().score(&vectors(), 300_000);
        assert_eq!((score.pairs, score.skipped), (4, 1));
        assert!((score.spearman.unwrap() - 4.5 / (4.5f64 * 5.0).sqrt()).abs() < 1e-12, "{score:?}");
        let score = pairs(text).unwrap().score(&vectors(), 2);
        assert_eq!((score.pairs, score.skipped), (2, 3));
        assert_eq!(pairs("king\tqueen\t1\n").unwrap().score(&vectors(), 10).spearman, None);
        assert_eq!(pairs("").unwrap().score(&vectors(), 10), PairScore { spearman: None, pairs: 0, skipped: 0 });
    }

    #[test]
    fn a_line_that_is_no_pair_is_named() {
        for (text, line) in [("a\tb\t1\na b 2\n", 2), ("a\tb\tx\n", 1), ("a\tb\tnan\n", 1), ("\na\tb\t1\tc\n", 2)] {
            let error = pairs(text).unwrap_err().to_string();
            assert!(error.contains(&format!("pairs.tsv:{line}: \"")) && error.ends_with("word TAB number"), "{error}");
        }
    }
}
