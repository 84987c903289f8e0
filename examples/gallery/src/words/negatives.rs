//! Words drawn at random by the power 0.75 of how often they occur: the negative samples.

use stradsap::Element;

/// A column of the alias table: the column's own word below the threshold, the other one from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Element)]
pub struct Slot {
    /// Of 2^32.
    threshold: u32,
    other: u32,
}

impl Slot {
    /// The word that this column gives for a random number.
    #[inline(always)]
    fn word(self, own: u32, random: u32) -> u32 {
        if random < self.threshold { own } else { self.other }
    }
}

/// The distribution, as a table with a column for each word (Walker's alias method): a draw looks at one column, 8 bytes
/// of a table that fits a cache, where a table of all draws takes hundreds of megabytes.
#[derive(Debug, Clone)]
pub struct Negatives {
    /// By the words' numbers.
    pub slots: Vec<Slot>,
}

impl Negatives {
    /// Of words that occur so often each. The end of a sentence, word 0, is never drawn: as in the original, any other
    /// word is drawn in its place, all of them equally likely.
    pub fn new(counts: impl ExactSizeIterator<Item = u64>) -> Negatives {
        let mut weights: Vec<f64> = counts.map(|count| (count as f64).powf(0.75)).collect();
        if let [end, words @ ..] = &mut weights[..]
            && !words.is_empty()
        {
            let share = std::mem::take(end) / words.len() as f64;
            words.iter_mut().for_each(|weight| *weight += share);
        }
        Negatives { slots: alias_table(&weights) }
    }

    /// The word that 64 random bits stand for.
    #[inline(always)]
    pub fn draw(&self, random: u64) -> u32 {
        let column = Negatives::column(self.slots.len(), random);
        Negatives::in_column(self.slots[column], column, random)
    }

    /// The column that random bits choose from a table of this many.
    #[inline(always)]
    pub fn column(columns: usize, random: u64) -> usize {
        // The high half of the product is below `columns`.
        ((u128::from(random) * columns as u128) >> 64) as usize
    }

    /// The word that a column gives for the same random bits. (Which column it is depends on the high bits.)
    #[inline(always)]
    pub fn in_column(slot: Slot, column: usize, random: u64) -> u32 {
        slot.word(column as u32, random as u32)
    }
}

/// Each column is filled up to the mean weight: those that have less get the rest from one that has more.
fn alias_table(weights: &[f64]) -> Vec<Slot> {
    let total: f64 = weights.iter().sum();
    let scale = if total > 0.0 { weights.len() as f64 / total } else { 0.0 };
    let mut left: Vec<f64> = weights.iter().map(|weight| weight * scale).collect();
    let mut slots: Vec<Slot> = (0..left.len() as u32).map(|own| Slot { threshold: u32::MAX, other: own }).collect();
    let (mut poor, mut rich): (Vec<usize>, Vec<usize>) = (0..left.len()).partition(|&i| left[i] < 1.0);
    while let (Some(&from), Some(to)) = (rich.last(), poor.pop()) {
        slots[to] = Slot { threshold: (left[to] * 2f64.powi(32)) as u32, other: from as u32 };
        left[from] -= 1.0 - left[to];
        if left[from] < 1.0 {
            rich.pop();
            poor.push(from);
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;
    use stradsap::random::Stream;

    /// How likely each word is, from the table itself.
    fn probabilities(slots: &[Slot]) -> Vec<f64> {
        let mut found = vec![0.0; slots.len()];
        for (own, slot) in slots.iter().enumerate() {
            let share = if slot.other as usize == own { 1.0 } else { f64::from(slot.threshold) / 2f64.powi(32) };
            found[own] += share / slots.len() as f64;
            found[slot.other as usize] += (1.0 - share) / slots.len() as f64;
        }
        found
    }

    #[test]
    fn words_are_as_likely_as_their_count_to_the_power_of_three_quarters() {
        let counts = [0u64, 10_000, 625, 16, 1];
        let found = probabilities(&Negatives::new(counts.into_iter()).slots);
        let total = 1000.0 + 125.0 + 8.0 + 1.0;
        for (word, expected) in [0.0, 1000.0, 125.0, 8.0, 1.0].into_iter().enumerate() {
            assert!((found[word] - expected / total).abs() < 1e-8, "word {word}: {}", found[word]);
        }
    }

    #[test]
    fn the_sentence_end_s_share_goes_to_all_others() {
        let found = probabilities(&Negatives::new([81u64, 16, 1].into_iter()).slots);
        let expected = [0.0, (8.0 + 13.5) / 36.0, (1.0 + 13.5) / 36.0];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-8), "{found:?}");
    }

    #[test]
    fn draws_follow_the_table() {
        let negatives = Negatives::new((0..200u32).rev().map(u64::from));
        let expected = probabilities(&negatives.slots);
        let stream = Stream::new(1, 1);
        let mut drawn = vec![0u32; 200];
        let draws = 1_000_000;
        (0..draws).for_each(|i| drawn[negatives.draw(stream.bits(i)) as usize] += 1);
        assert_eq!(drawn[0], 0);
        for (word, (&drawn, expected)) in drawn.iter().zip(expected).enumerate() {
            let mean = expected * draws as f64;
            assert!((f64::from(drawn) - mean).abs() < 6.0 * mean.sqrt() + 1.0, "word {word}: {drawn}, not {mean}");
        }
    }
}
