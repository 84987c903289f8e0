//! Rows of counts: the topics that a document or a word has, and how often.

use stradsap::Element;

use super::lanes::{LANES, lanes_with};

/// Up to this many topics a document's counts are stored for all of them: then nothing has to be searched.
const DENSE: usize = 256;

/// The topics of a document's words.
#[derive(Debug, Clone, PartialEq, Eq, Element)]
pub enum DocumentRow {
    /// A count for each topic, and zeros behind the last.
    Dense(Vec<u16>),
    /// The topics that the document has.
    Sparse(SparseRow),
}

/// 4 bytes for each topic that a document has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Element)]
pub struct SparseRow {
    /// Topic in the low half, count in the high half, and `NOTHING` behind the last. A topic that a document has more
    /// often than 16 bits can count stands there again.
    entries: Vec<u32>,
    used: u32,
}

const ONE: u32 = 1 << 16;
/// No document has it, and no topic has this number.
const NOTHING: u32 = u16::MAX as u32;

impl DocumentRow {
    /// Rows without a word, where there are this many topics and no document has more words than `longest`.
    pub fn empty(topics: usize, longest: u64) -> DocumentRow {
        if topics <= DENSE && longest <= u64::from(u16::MAX) {
            DocumentRow::Dense(vec![0; topics.next_multiple_of(LANES)])
        } else {
            DocumentRow::Sparse(SparseRow::default())
        }
    }

    /// Adds one to a topic.
    pub fn add(&mut self, topic: u16) {
        match self {
            DocumentRow::Dense(counts) => counts[usize::from(topic)] += 1,
            DocumentRow::Sparse(row) => row.add(topic),
        }
    }

    /// Topics and their counts, by topic.
    pub fn counts(&self) -> Vec<(u16, u32)> {
        let mut counts: Vec<(u16, u32)> = match self {
            DocumentRow::Dense(counts) => (0..).zip(counts.iter().map(|&count| u32::from(count))).collect(),
            DocumentRow::Sparse(row) => row.entries().iter().map(|&entry| (entry as u16, entry >> 16)).collect(),
        };
        counts.retain(|&(_, count)| count > 0);
        counts.sort_unstable();
        counts.dedup_by(|again, first| {
            let same = again.0 == first.0;
            first.1 += if same { again.1 } else { 0 };
            same
        });
        counts
    }

    /// Calls `f` with each count that isn't 0. A topic's count may come in several.
    pub(super) fn each_count(&self, mut f: impl FnMut(u32)) {
        match self {
            DocumentRow::Dense(counts) => {
                counts.iter().filter(|&&count| count > 0).for_each(|&count| f(count.into()));
            }
            // A topic that stands there again is that of a document of more than 65,535 words: those are summed up.
            DocumentRow::Sparse(row) if row.entries().iter().any(|&entry| entry >= FULL) => {
                self.counts().iter().for_each(|&(_, count)| f(count));
            }
            DocumentRow::Sparse(row) => row.entries().iter().for_each(|&entry| f(entry >> 16)),
        }
    }
}

/// An entry that can't be added to.
const FULL: u32 = u32::MAX - ONE + 1;

impl SparseRow {
    #[inline(always)]
    pub(super) fn entries(&self) -> &[u32] {
        &self.entries[..self.used as usize]
    }

    /// The entries and what stands behind them, in whole numbers of lanes.
    #[inline(always)]
    pub(super) fn chunks(&self) -> &[[u32; LANES]] {
        let chunks = (self.used as usize).div_ceil(LANES);
        &self.entries.as_chunks().0[..chunks]
    }

    /// Where a topic stands.
    fn position(&self, topic: u16) -> Option<usize> {
        for (c, chunk) in self.chunks().iter().enumerate() {
            let lanes = lanes_with(chunk, topic);
            if lanes != 0 {
                return Some(c * LANES + lanes.trailing_zeros() as usize);
            }
        }
        None
    }

    /// Moves one from a topic to another, which stands at a place if that is known. False if the document doesn't have
    /// the first.
    #[inline(always)]
    pub(super) fn move_one(&mut self, from: u16, to: u16, place: Option<usize>) -> bool {
        let Some(from) = self.position(from) else { return false };
        match place {
            Some(place) if self.entries[place] < FULL => self.entries[place] += ONE,
            _ => self.add(to),
        }
        self.entries[from] -= ONE;
        if self.entries[from] < ONE {
            self.used -= 1;
            let last = self.used as usize;
            self.entries[from] = self.entries[last];
            self.entries[last] = NOTHING;
        }
        true
    }

    fn add(&mut self, topic: u16) {
        match self.position(topic) {
            Some(place) if self.entries[place] < FULL => self.entries[place] += ONE,
            Some(_) => match self.entries().iter().position(|&entry| entry as u16 == topic && entry < FULL) {
                Some(place) => self.entries[place] += ONE,
                None => self.push(topic),
            },
            None => self.push(topic),
        }
    }

    fn push(&mut self, topic: u16) {
        let end = self.used as usize;
        if end == self.entries.len() {
            self.entries.resize(end + LANES, NOTHING);
        }
        self.entries[end] = ONE | u32::from(topic);
        self.used += 1;
    }
}

/// The topics of a word: 8 bytes for each topic that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Element)]
pub struct WordRow {
    /// Topic in the low half, count in the high half.
    entries: Vec<u64>,
}

const ONE_WIDE: u64 = 1 << 32;

impl WordRow {
    /// How many topics the word has.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether the word has none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Topics and their counts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.entries.iter().map(|&entry| (entry as u16, (entry >> 32) as u32))
    }

    /// Topics and their counts, by topic.
    pub fn counts(&self) -> Vec<(u16, u32)> {
        let mut counts: Vec<_> = self.iter().collect();
        counts.sort_unstable();
        counts
    }

    /// Adds one to a topic that stands at a place, or comes there: at the end.
    #[inline(always)]
    pub(super) fn add_at(&mut self, place: usize, topic: u16) {
        match self.entries.get_mut(place) {
            Some(entry) => *entry = entry.wrapping_add(ONE_WIDE),
            None => self.entries.push(ONE_WIDE | u64::from(topic)),
        }
    }

    /// Takes one away from the topic at a place. If nothing is left of it, the last one takes its place: that topic, or
    /// `u16::MAX` where it was the last itself.
    #[inline(always)]
    pub(super) fn take_at(&mut self, place: usize) -> Option<u16> {
        let entry = self.entries.get_mut(place)?;
        *entry = entry.wrapping_sub(ONE_WIDE);
        if *entry >= ONE_WIDE {
            return None;
        }
        self.entries.swap_remove(place);
        Some(self.entries.get(place).map_or(u16::MAX, |&entry| entry as u16))
    }

    /// Adds one to a topic.
    pub fn add(&mut self, topic: u16) {
        match self.entries.iter_mut().find(|entry| **entry as u16 == topic) {
            Some(entry) => *entry += ONE_WIDE,
            None => self.entries.push(ONE_WIDE | u64::from(topic)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use stradsap::random::Stream;

    #[test]
    fn rows_count_as_maps_do() {
        for (topics, longest) in [(40, 100), (40, 1 << 20), (300, 100), (3, 1 << 20)] {
            let random = Stream::new(topics as u64, longest);
            let mut row = DocumentRow::empty(topics, longest);
            let mut map: BTreeMap<u16, u32> = BTreeMap::new();
            // Sparse rows of few topics go beyond what one entry can count.
            let steps = if topics == 3 { 400_000 } else { 2000 };
            for step in 0..steps {
                let topic = (random.bits(step) % topics as u64) as u16;
                row.add(topic);
                *map.entry(topic).or_default() += 1;
                let from = (random.bits(step + steps) % topics as u64) as u16;
                if let DocumentRow::Sparse(row) = &mut row
                    && topics != 3
                {
                    let there = map.get(&from).is_some_and(|&count| count > 0);
                    assert_eq!(row.move_one(from, topic, None), there);
                    if there {
                        *map.get_mut(&from).unwrap() -= 1;
                        *map.entry(topic).or_default() += 1;
                    }
                }
            }
            map.retain(|_, count| *count > 0);
            assert_eq!(row.counts(), map.clone().into_iter().collect::<Vec<_>>());
            let mut counts = Vec::new();
            row.each_count(|count| counts.push(count));
            counts.sort_unstable();
            let mut expected: Vec<u32> = map.into_values().collect();
            expected.sort_unstable();
            assert_eq!(counts, expected);
        }
    }
}
