//! Random choices. Each is a function of the seed, the epoch, and the number of the sentence (or of the word) alone, so
//! that a sentence can be trained on anywhere.

use std::ops::Range;

use stradsap::random::{Sequence, Stream};

/// The purposes of the random numbers: initial values; choices in the sentences of each epoch.
const ROWS: u64 = 0x5717;
const SENTENCES: u64 = 0x5e27 << 32;

/// How likely an occurrence of each word is kept, for words that occur so often each: 1 or more for all but the most
/// frequent, which carry less information. `sample` is the frequency around which it begins; 0 keeps everything.
pub fn keep_probabilities(counts: impl Iterator<Item = u64>, total: u64, sample: f64) -> Vec<f32> {
    let limit = sample * total as f64;
    let keep = |count: u64| {
        let ratio = count as f64 / limit;
        if sample > 0.0 && count > 0 { ((ratio.sqrt() + 1.0) / ratio) as f32 } else { 1.0 }
    };
    counts.map(keep).collect()
}

/// Where a word's row of the input layer starts: within half a unit of zero, over the number of values.
pub fn start_row(seed: u64, size: usize, word: usize) -> impl Iterator<Item = f32> {
    let stream = Stream::new(seed, ROWS);
    (0..size).map(move |k| (stream.unit((word * size + k) as u64) - 0.5) / size as f32)
}

/// The random choices in a sentence, in the order in which they are made.
#[derive(Debug, Clone)]
pub struct Choices(Sequence);

impl Choices {
    /// For the sentence of this number, in this epoch (from 0).
    pub fn new(seed: u64, epoch: u32, sentence: usize) -> Choices {
        Choices(Stream::new(seed, SENTENCES | u64::from(epoch)).sequence(sentence as u64))
    }

    /// Whether to keep an occurrence of a word.
    #[inline(always)]
    pub fn keeps(&mut self, probability: f32) -> bool {
        probability >= 1.0 || self.0.unit() < probability
    }

    /// The window around a word, `at`, of a sentence of this many: it reaches from 1 to `most` words to each side.
    #[inline(always)]
    pub fn window(&mut self, most: u32, at: usize, words: usize) -> Range<usize> {
        let reach = 1 + (((self.0.bits() >> 32) * u64::from(most)) >> 32) as usize;
        at.saturating_sub(reach)..words.min(at + reach + 1)
    }

    /// 64 random bits.
    #[inline(always)]
    pub fn bits(&mut self) -> u64 {
        self.0.bits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequent_words_are_kept_less_often() {
        // sqrt(x) + 1 over x, x being the frequency in units of `sample`.
        let keep = keep_probabilities([0u64, 1, 10, 40, 160].into_iter(), 10_000, 1e-3);
        assert_eq!(keep, [1.0, (10.0 * (0.1f64.sqrt() + 1.0)) as f32, 2.0, 0.75, 0.3125]);
        assert_eq!(keep_probabilities([5u64, 1000].into_iter(), 1005, 0.0), [1.0, 1.0]);
    }

    #[test]
    fn choices_are_those_of_the_sentence() {
        let bits = |seed, epoch, sentence| Choices::new(seed, epoch, sentence).bits();
        let all = [bits(1, 0, 0), bits(2, 0, 0), bits(1, 1, 0), bits(1, 0, 1)];
        for (i, a) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|b| a != b));
        }
        assert_eq!(all[3], bits(1, 0, 1));
    }

    #[test]
    fn windows_and_words_are_chosen_evenly() {
        let mut choices = Choices::new(3, 0, 7);
        let (mut reaches, mut kept) = ([0u32; 6], 0u32);
        for _ in 0..100_000 {
            let window = choices.window(5, 10, 20);
            assert_eq!((10 - window.start, window.len() % 2), (window.end - 11, 1));
            reaches[10 - window.start] += 1;
            kept += u32::from(choices.keeps(0.3));
        }
        assert_eq!(reaches[0], 0);
        assert!(reaches[1..].iter().all(|n| (19_000..21_000).contains(n)), "{reaches:?}");
        assert!((29_000..31_000).contains(&kept), "{kept}");
        assert!((0..100).all(|_| choices.keeps(1.0)));
        assert!((0..100).all(|_| choices.window(9, 0, 3).start == 0 && choices.window(9, 2, 3).end == 3));
    }

    #[test]
    fn rows_start_small_and_all_different() {
        let (a, b) = (start_row(1, 50, 0), start_row(1, 50, 1));
        let (a, b): (Vec<f32>, Vec<f32>) = (a.collect(), b.collect());
        assert_ne!(a, b);
        assert!(a.iter().chain(&b).all(|x| x.abs() <= 0.01));
        assert!(a.iter().any(|x| *x > 0.005) && a.iter().any(|x| *x < -0.005));
    }
}
