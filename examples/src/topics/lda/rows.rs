//! Sparse rows of counts: the topics that a document or a word has, and how often.

use stradsap::Element;

/// The topics of a document's words: 4 bytes for each topic that it has.
#[derive(Debug, Clone, Default, PartialEq, Eq, Element)]
pub struct DocumentRow {
    /// Topic in the low half, count in the high half. A topic that a document has more often stands there again.
    entries: Vec<u32>,
}

const ONE: u32 = 1 << 16;

impl DocumentRow {
    /// Room for so many topics.
    pub fn with_capacity(topics: usize) -> DocumentRow {
        DocumentRow { entries: Vec::with_capacity(topics) }
    }

    /// Topics and their counts, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (u16, u32)> + '_ {
        self.entries.iter().map(|&entry| (entry as u16, entry >> 16))
    }

    /// As they are stored.
    #[inline(always)]
    pub(super) fn entries(&self) -> &[u32] {
        &self.entries
    }

    /// Where a topic stands.
    #[inline(always)]
    fn position(&self, topic: u16) -> Option<usize> {
        // Without a way out in the middle this is a few vector comparisons.
        let mut chunks = self.entries.chunks_exact(16);
        for (c, chunk) in (&mut chunks).enumerate() {
            let mut hits = 0u32;
            for (k, &entry) in chunk.iter().enumerate() {
                hits |= u32::from(entry as u16 == topic) << k;
            }
            if hits != 0 {
                return Some(16 * c + hits.trailing_zeros() as usize);
            }
        }
        let rest = chunks.remainder();
        let first = self.entries.len() - rest.len();
        rest.iter().position(|&entry| entry as u16 == topic).map(|k| first + k)
    }

    /// Takes one away from a topic and says where it stands; its entry stays, whatever is left. None if the document
    /// doesn't have it.
    #[inline(always)]
    pub(super) fn take(&mut self, topic: u16) -> Option<usize> {
        let place = self.position(topic)?;
        self.entries[place] -= ONE;
        Some(place)
    }

    /// Gives back what [`take`](DocumentRow::take) took.
    #[inline(always)]
    pub(super) fn give_back(&mut self, place: usize) {
        self.entries[place] += ONE;
    }

    /// Adds one to the topic at a place, and drops the entry at another if nothing is left of it.
    #[inline(always)]
    pub(super) fn move_to(&mut self, place: usize, from: usize) {
        if self.entries[place] >= u32::MAX - ONE {
            let topic = self.entries[place] as u16;
            self.entries.push(ONE | u32::from(topic));
        } else {
            self.entries[place] += ONE;
        }
        self.drop_empty(from);
    }

    /// The same for a topic that may not be there yet.
    pub(super) fn move_to_topic(&mut self, topic: u16, from: usize) {
        match self.position(topic) {
            Some(place) => self.move_to(place, from),
            None => {
                self.entries.push(ONE | u32::from(topic));
                self.drop_empty(from);
            }
        }
    }

    #[inline(always)]
    fn drop_empty(&mut self, place: usize) {
        if self.entries[place] < ONE {
            self.entries.swap_remove(place);
        }
    }

    /// Adds one to a topic.
    pub fn add(&mut self, topic: u16) {
        match self.entries.iter_mut().find(|entry| **entry as u16 == topic && **entry < u32::MAX - ONE) {
            Some(entry) => *entry += ONE,
            None => self.entries.push(ONE | u32::from(topic)),
        }
    }

    /// Topics and their counts, each topic once, in no order.
    pub fn counts(&self) -> Vec<(u16, u32)> {
        let mut counts: Vec<(u16, u32)> = Vec::with_capacity(self.entries.len());
        for (topic, count) in self.iter() {
            match counts.iter_mut().find(|(other, _)| *other == topic) {
                Some((_, sum)) => *sum += count,
                None => counts.push((topic, count)),
            }
        }
        counts
    }

    /// The words of the document.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| u64::from(count)).sum()
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
    /// Room for so many topics.
    pub fn with_capacity(topics: usize) -> WordRow {
        WordRow { entries: Vec::with_capacity(topics) }
    }

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

    /// Adds one to a topic that stands at a place, or comes there: at the end.
    #[inline(always)]
    pub(super) fn add_at(&mut self, place: usize, topic: u16) {
        match self.entries.get_mut(place) {
            Some(entry) => *entry += ONE_WIDE,
            None => self.entries.push(ONE_WIDE | u64::from(topic)),
        }
    }

    /// Takes one away from the topic at a place. If nothing is left of it, the last one takes its place: that topic.
    #[inline(always)]
    pub(super) fn take_at(&mut self, place: usize) -> Option<u16> {
        let entry = self.entries.get_mut(place)?;
        *entry = entry.wrapping_sub(ONE_WIDE);
        if *entry >= ONE_WIDE {
            return None;
        }
        self.entries.swap_remove(place);
        // Where the last one was dropped there is none that moved: its own topic again.
        Some(self.entries.get(place).map_or(u16::MAX, |&entry| entry as u16))
    }

    /// Adds one to a topic.
    pub fn add(&mut self, topic: u16) {
        match self.entries.iter_mut().find(|entry| **entry as u16 == topic) {
            Some(entry) => *entry += ONE_WIDE,
            None => self.entries.push(ONE_WIDE | u64::from(topic)),
        }
    }

    /// How often the word has a topic.
    pub fn count(&self, topic: u16) -> u32 {
        self.iter().find(|&(other, _)| other == topic).map_or(0, |(_, count)| count)
    }

    /// How often the word occurs.
    pub fn total(&self) -> u64 {
        self.iter().map(|(_, count)| u64::from(count)).sum()
    }
}
