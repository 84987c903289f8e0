//! The nearest word to each of many directions: a matrix product in blocks, of which only the largest are kept.

use std::thread;

use wide::f32x8;

use super::Vectors;

/// Words of a block: with vectors of 100 values half of a second-level cache.
const BLOCK: usize = 1024;
/// Queries that share each load of a word's values.
const TOGETHER: usize = 8;

/// A direction: the sum of two words' vectors less a third's, all of length 1.
#[derive(Debug, Clone, Copy)]
pub(super) struct Query {
    pub(super) towards: [usize; 2],
    pub(super) away: usize,
}

/// Vectors of length 1, in vectors of eight lanes.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<f32x8>,
    /// Eights in a row.
    width: usize,
}

/// The nearest word so far.
#[derive(Debug, Clone, Copy)]
struct Best {
    cosine: f32,
    word: Option<usize>,
}

impl Table {
    /// Of the first words.
    pub(super) fn new(vectors: &Vectors, first: usize) -> Table {
        let width = vectors.size().div_ceil(8);
        let rows = (0..first).flat_map(|word| eights(&vectors.unit(word)).collect::<Vec<_>>()).collect();
        Table { rows, width }
    }

    /// The word with the largest cosine for each query; words that are the `same` as one of the query's don't count.
    pub(super) fn nearest(&self, queries: &[Query], same: &[usize], threads: usize) -> Vec<Option<usize>> {
        let share = queries.len().div_ceil(threads.max(1)).next_multiple_of(TOGETHER).max(TOGETHER);
        thread::scope(|scope| {
            let share_of = |queries| scope.spawn(move || self.nearest_of(queries, same));
            let running: Vec<_> = queries.chunks(share).map(share_of).collect();
            let ended = running.into_iter().flat_map(|thread| match thread.join() {
                Ok(found) => found,
                Err(panic) => std::panic::resume_unwind(panic),
            });
            ended.collect()
        })
    }

    fn nearest_of(&self, queries: &[Query], same: &[usize]) -> Vec<Option<usize>> {
        let mut best = vec![Best { cosine: f32::NEG_INFINITY, word: None }; queries.len()];
        let directions: Vec<f32x8> = queries.iter().flat_map(|query| self.direction(query)).collect();
        for (block, rows) in self.rows.chunks(BLOCK * self.width).enumerate() {
            let groups = queries.chunks(TOGETHER).zip(best.chunks_mut(TOGETHER));
            for ((queries, best), directions) in groups.zip(directions.chunks(TOGETHER * self.width)) {
                for (row, word) in rows.chunks_exact(self.width).zip(BLOCK * block..) {
                    let cosines = dots(row, directions);
                    for ((query, best), cosine) in queries.iter().zip(best.iter_mut()).zip(cosines) {
                        if cosine > best.cosine && !query.names(same, word) {
                            *best = Best { cosine, word: Some(word) };
                        }
                    }
                }
            }
        }
        best.into_iter().map(|best| best.word).collect()
    }

    fn row(&self, word: usize) -> &[f32x8] {
        &self.rows[self.width * word..][..self.width]
    }

    /// Its length doesn't matter: it is the same for all words.
    fn direction(&self, query: &Query) -> Vec<f32x8> {
        let [b, c] = query.towards.map(|word| self.row(word));
        b.iter().zip(c).zip(self.row(query.away)).map(|((b, c), a)| *b + *c - *a).collect()
    }
}

impl Query {
    fn names(&self, same: &[usize], word: usize) -> bool {
        let word = same[word];
        self.towards.iter().any(|&other| same[other] == word) || same[self.away] == word
    }
}

/// The values in eights, the last filled up with zeros.
fn eights(row: &[f32]) -> impl Iterator<Item = f32x8> {
    row.chunks(8).map(|values| {
        let mut eight = [0.0; 8];
        eight[..values.len()].copy_from_slice(values);
        f32x8::new(eight)
    })
}

/// The products of a row with up to [`TOGETHER`] others that follow each other.
fn dots(row: &[f32x8], others: &[f32x8]) -> [f32; TOGETHER] {
    let width = row.len();
    let mut sums = [f32x8::ZERO; TOGETHER];
    if others.len() == TOGETHER * width {
        for (k, x) in row.iter().enumerate() {
            for (n, sum) in sums.iter_mut().enumerate() {
                *sum += *x * others[width * n + k];
            }
        }
    } else {
        for (sum, other) in sums.iter_mut().zip(others.chunks_exact(width)) {
            row.iter().zip(other).for_each(|(x, y)| *sum += *x * *y);
        }
    }
    sums.map(f32x8::reduce_add)
}

#[cfg(test)]
mod tests {
    use super::*;
    use stradsap::random::Stream;

    #[test]
    fn the_nearest_is_that_of_a_plain_search() {
        let (words, size) = (3000, 13);
        let stream = Stream::new(5, 1);
        let values: Vec<f32> = (0..words * size).map(|i| stream.unit(i as u64) - 0.5).collect();
        let names = (0..words).map(|i| i.to_string().into()).collect();
        let vectors = Vectors { words: names, size: size as usize, values };
        let words = words as usize;
        let word = |i: u64| stream.bits(1 << 40 | i) as usize % words;
        let queries: Vec<Query> =
            (0..101).map(|i| Query { towards: [word(3 * i), word(3 * i + 1)], away: word(3 * i + 2) }).collect();
        // Every seventh word is the same as the one before.
        let same: Vec<usize> = (0..words).map(|i| if i % 7 == 6 { i - 1 } else { i }).collect();
        let units: Vec<Vec<f32>> = (0..words).map(|i| vectors.unit(i)).collect();
        let plain = |query: &Query| {
            let [b, c] = query.towards;
            let cosine = |word: usize| -> f64 {
                let at = |i: usize, k: usize| f64::from(units[i][k]);
                (0..vectors.size()).map(|k| at(word, k) * (at(b, k) + at(c, k) - at(query.away, k))).sum()
            };
            let others = (0..words).filter(|&i| ![b, c, query.away].iter().any(|&named| same[named] == same[i]));
            others.max_by(|&i, &j| cosine(i).total_cmp(&cosine(j)))
        };
        let expected: Vec<_> = queries.iter().map(plain).collect();
        let table = Table::new(&vectors, words);
        for threads in [1, 3, 200] {
            assert_eq!(table.nearest(&queries, &same, threads), expected);
        }
        assert_eq!(table.nearest(&[], &same, 2), []);
    }
}
