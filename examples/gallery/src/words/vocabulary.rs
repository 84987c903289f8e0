//! The words of a corpus, the most frequent first.

use std::hash::{BuildHasher, Hasher};

use indexmap::IndexMap;

/// The word that ends a sentence. It is the first of every vocabulary, however rare.
pub const SENTENCE_END: &str = "</s>";

/// Different words that are counted at a time. Where a corpus has more, the rarest are forgotten.
const MOST_WORDS: usize = 21_000_000;

/// Words and how often each was seen, in the order in which they were first seen.
#[derive(Debug)]
pub struct Counts {
    counts: IndexMap<Box<str>, u64, WordHash>,
    most: usize,
    /// Words seen so often, or less, are forgotten when the table is full the next time.
    rare: u64,
}

/// The words that training knows, by number and by name.
#[derive(Debug, Clone, Default)]
pub struct Vocabulary {
    counts: IndexMap<Box<str>, u64, WordHash>,
    total: u64,
}

impl Default for Counts {
    fn default() -> Counts {
        Counts::of_at_most(MOST_WORDS)
    }
}

impl Counts {
    fn of_at_most(most: usize) -> Counts {
        let mut counts = IndexMap::with_hasher(WordHash);
        counts.insert(SENTENCE_END.into(), 0);
        Counts { counts, most, rare: 1 }
    }

    /// Counts a word.
    pub fn add(&mut self, word: &str) {
        match self.counts.get_mut(word) {
            Some(count) => *count += 1,
            None => {
                self.counts.insert(word.into(), 1);
                if self.counts.len() > self.most {
                    let rare = self.rare;
                    self.counts.retain(|word, count| *count > rare || **word == *SENTENCE_END);
                    self.rare += 1;
                }
            }
        }
    }

    /// Counts the end of a sentence.
    pub fn add_sentence_end(&mut self) {
        self.counts[0] += 1;
    }

    /// How many different words there are, and how often the most frequent was seen; ends of sentences aside.
    pub fn seen(&self) -> (usize, u64) {
        (self.counts.len() - 1, self.counts.values().skip(1).copied().max().unwrap_or(0))
    }

    /// The words seen `min_count` times or more, by falling count; of words seen equally often the one that was seen
    /// first. The end of a sentence is word 0.
    pub fn into_vocabulary(mut self, min_count: u64) -> Vocabulary {
        self.counts.retain(|word, count| *count >= min_count || **word == *SENTENCE_END);
        self.counts.sort_by(|a, m, b, n| (**b == *SENTENCE_END).cmp(&(**a == *SENTENCE_END)).then(n.cmp(m)));
        let total = self.counts.values().sum();
        Vocabulary { counts: self.counts, total }
    }
}

impl Vocabulary {
    /// Of words in the order of their numbers.
    pub(super) fn of(words: impl Iterator<Item = (String, u64)>) -> Vocabulary {
        let counts: IndexMap<Box<str>, u64, WordHash> = words.map(|(word, count)| (word.into(), count)).collect();
        let total = counts.values().sum();
        Vocabulary { counts, total }
    }

    /// How many words there are, the end of a sentence among them.
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether there is no word but the end of a sentence.
    pub fn is_empty(&self) -> bool {
        self.counts.len() <= 1
    }

    /// A word's number.
    pub fn number(&self, word: &str) -> Option<u32> {
        self.counts.get_index_of(word).map(|number| number as u32)
    }

    /// The words, in the order of their numbers.
    pub fn words(&self) -> impl ExactSizeIterator<Item = &str> {
        self.counts.keys().map(|word| &**word)
    }

    /// How often each word was seen.
    pub fn counts(&self) -> impl ExactSizeIterator<Item = u64> + Clone {
        self.counts.values().copied()
    }

    /// The sum of all counts: the words of the corpus that training knows, ends of sentences among them.
    pub fn total(&self) -> u64 {
        self.total
    }
}

/// A hash for words, eight bytes at a time. A text made to fill one bucket would be slow to read, and no more.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct WordHash;

/// See [`WordHash`].
#[derive(Debug)]
pub(super) struct WordHasher(u64);

impl BuildHasher for WordHash {
    type Hasher = WordHasher;

    fn build_hasher(&self) -> WordHasher {
        WordHasher(0x9e37_79b9_7f4a_7c15)
    }
}

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (eights, rest) = bytes.as_chunks::<8>();
        eights.iter().for_each(|eight| self.take(u64::from_le_bytes(*eight)));
        let last = rest.iter().rev().fold(0u64, |all, &b| all << 8 | u64::from(b));
        self.take(last | (rest.len() as u64 + 1) << 56);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl WordHasher {
    /// Both halves of the product: each bit of the result depends on all bits before.
    fn take(&mut self, bits: u64) {
        let product = u128::from(self.0 ^ bits) * 0xa076_1d64_78bd_642f;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(text: &str) -> Counts {
        let mut counts = Counts::default();
        text.split(' ').for_each(|word| counts.add(word));
        counts
    }

    #[test]
    fn frequent_words_come_first_and_equals_in_the_order_of_the_text() {
        let vocabulary = counted("d b a b c a c a d e").into_vocabulary(2);
        assert_eq!(vocabulary.words().collect::<Vec<_>>(), ["</s>", "a", "d", "b", "c"]);
        assert_eq!(vocabulary.counts().collect::<Vec<_>>(), [0, 3, 2, 2, 2]);
        assert_eq!((vocabulary.len(), vocabulary.total(), vocabulary.is_empty()), (5, 9, false));
        assert_eq!((vocabulary.number("d"), vocabulary.number("e")), (Some(2), None));
    }

    #[test]
    fn the_sentence_end_is_kept_first() {
        let mut counts = counted("a a </s>");
        counts.add_sentence_end();
        assert_eq!(counts.seen(), (1, 2));
        let vocabulary = counts.into_vocabulary(3);
        assert_eq!(vocabulary.words().zip(vocabulary.counts()).collect::<Vec<_>>(), [("</s>", 2)]);
        assert!(vocabulary.is_empty());
    }

    #[test]
    fn a_full_table_forgets_rare_words() {
        let mut counts = Counts::of_at_most(5);
        "a a b c d e a f g h a i".split(' ').for_each(|word| counts.add(word));
        // Full at "e" (all seen once go) and at "i" (all seen up to twice go).
        assert_eq!(counts.seen(), (1, 4));
    }

    #[test]
    fn hashes_differ_by_every_byte_and_by_length() {
        let hash = |text: &str| WordHash.hash_one(text);
        let texts = ["", "a", "b", "aa", "a\0", "abcdefgh", "abcdefgi", "abcdefghi", "abcdefgh\0", "habcdefg"];
        for (i, a) in texts.iter().enumerate() {
            assert!(texts[..i].iter().all(|b| hash(a) != hash(b)), "{a:?}");
        }
    }
}
