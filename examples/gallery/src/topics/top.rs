//! The words that say what a topic is about.

use std::path::Path;

use stradsap_examples::Result;
use stradsap_examples::files::Staged;
use stradsap_examples::print_line;

use super::Vocabulary;

/// The words of each topic that weigh most, the heaviest first; of words that weigh the same, the one with the lower
/// number.
#[derive(Debug, Clone, PartialEq)]
pub struct TopWords {
    topics: Vec<Vec<(usize, f64)>>,
    most: usize,
}

impl TopWords {
    /// Of no word yet; each topic keeps up to `most`.
    pub fn new(topics: usize, most: usize) -> TopWords {
        TopWords { topics: vec![Vec::new(); topics], most }
    }

    /// Counts in a word that a topic has with some weight. Words come by rising number; what isn't above 0 isn't kept.
    pub fn add(&mut self, word: usize, topic: usize, weight: f64) {
        let Some(words) = self.topics.get_mut(topic) else { return };
        if weight > 0.0 && (words.len() < self.most || words.last().is_some_and(|&(_, least)| weight > least)) {
            let at = words.partition_point(|&(_, other)| other >= weight);
            words.insert(at, (word, weight));
            words.truncate(self.most);
        }
    }

    /// Each topic's words and their weights.
    pub fn topics(&self) -> impl ExactSizeIterator<Item = &[(usize, f64)]> {
        self.topics.iter().map(Vec::as_slice)
    }

    /// A line a topic: its number, from 0, and its words.
    pub fn lines(&self, vocabulary: &Vocabulary) -> impl Iterator<Item = String> {
        let width = self.topics.len().saturating_sub(1).to_string().len();
        self.topics().enumerate().map(move |(topic, words)| {
            let names: Vec<_> = words.iter().map(|&(word, _)| vocabulary.name(word)).collect();
            format!("topic {topic:>width$}: {}", names.join(" "))
        })
    }

    /// Prints the lines on standard output, if words are asked for.
    ///
    /// # Errors
    /// [`Error::Output`](stradsap_examples::Error::Output).
    pub fn print(&self, vocabulary: &Vocabulary) -> Result<()> {
        if self.most == 0 { Ok(()) } else { self.lines(vocabulary).try_for_each(|line| print_line(&line)) }
    }

    /// Writes the lines into a file, which is complete when it gets its name.
    ///
    /// # Errors
    /// [`Error::File`](stradsap_examples::Error::File).
    pub fn stage(&self, path: &Path, vocabulary: &Vocabulary) -> Result<Staged> {
        Staged::write(path, |out| self.lines(vocabulary).try_for_each(|line| writeln!(out, "{line}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stradsap::random::Stream;

    #[test]
    fn the_heaviest_words_are_those_of_a_sort() {
        let random = Stream::new(3, 1);
        let weight = |word: usize, topic: usize| (random.bits((word * 4 + topic) as u64) % 20) as f64 - 1.0;
        let mut top = TopWords::new(4, 6);
        for word in 0..60 {
            (0..4).for_each(|topic| top.add(word, topic, weight(word, topic)));
        }
        for (topic, found) in top.topics().enumerate() {
            let mut all: Vec<_> = (0..60).map(|word| (word, weight(word, topic))).filter(|&(_, x)| x > 0.0).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            all.truncate(6);
            assert_eq!(found, all);
        }
    }

    #[test]
    fn topics_are_lines_of_words() {
        let mut top = TopWords::new(11, 2);
        for (word, topic, weight) in [(0, 3, 1.0), (4, 3, 2.0), (5, 10, 0.5)] {
            top.add(word, topic, weight);
        }
        let lines: Vec<_> = top.lines(&Vocabulary::unknown()).collect();
        assert_eq!(
            (&*lines[3], &*lines[10], &*lines[0]),
            ("topic  3: word-5 word-1", "topic 10: word-6", "topic  0: ")
        );
    }
}
