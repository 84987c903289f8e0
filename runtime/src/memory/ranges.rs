//! Sets of indices as ranges.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of indices: ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    ends: BTreeMap<usize, usize>,
}

impl Ranges {
    pub(crate) fn insert(&mut self, range: Range<usize>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        if let Some((&s, &e)) = self.ends.range(..=start).next_back()
            && e >= start
        {
            (start, end) = (s, end.max(e));
        }
        while let Some((&s, &e)) = self.ends.range(start..=end).next() {
            end = end.max(e);
            self.ends.remove(&s);
        }
        self.ends.insert(start, end);
    }

    /// Takes out what is in a range, and gives it.
    pub(crate) fn take(&mut self, range: &Range<usize>) -> Vec<Range<usize>> {
        let taken = self.segments(range.clone()).into_iter().filter(|&(_, there)| there).map(|(segment, _)| segment);
        let taken: Vec<Range<usize>> = taken.collect();
        for Range { start, end } in taken.iter().cloned() {
            // (The last range that begins at or before it has it.)
            let Some((&whole, &last)) = self.ends.range(..=start).next_back() else { continue };
            self.ends.remove(&whole);
            let rest = [whole..start, end..last];
            rest.into_iter()
                .filter(|rest| !rest.is_empty())
                .for_each(|rest| _ = self.ends.insert(rest.start, rest.end));
        }
        taken
    }

    #[cfg(test)]
    pub(crate) fn contains(&self, index: usize) -> bool {
        self.ends.range(..=index).next_back().is_some_and(|(_, &end)| index < end)
    }

    /// The range cut where membership changes: its segments, with whether each is in the set.
    pub(crate) fn segments(&self, range: Range<usize>) -> Vec<(Range<usize>, bool)> {
        let mut segments = Vec::new();
        let mut at = range.start;
        let before = self.ends.range(..=at).next_back().map(|(&start, _)| start).unwrap_or(at);
        for (&start, &end) in self.ends.range(before..range.end.max(before)) {
            if end <= at {
                continue;
            }
            if start > at {
                segments.push((at..start.min(range.end), false));
                at = start.min(range.end);
            }
            if at < range.end {
                segments.push((at..end.min(range.end), true));
                at = end.min(range.end);
            }
        }
        if at < range.end {
            segments.push((at..range.end, false));
        }
        segments
    }

    #[cfg(test)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ends.iter().map(|(&start, &end)| start..end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_ranges_are_sets_of_indices() {
        let mut state = 7u64;
        let mut next = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..500 {
            let (mut ranges, mut plain) = (Ranges::default(), [false; 40]);
            for _ in 0..next(8) {
                let start = next(40) as usize;
                let end = start + next(41 - start as u64) as usize;
                ranges.insert(start..end);
                plain[start..end].fill(true);
            }
            let start = next(40) as usize;
            let range = start..start + next(41 - start as u64) as usize;
            let taken = ranges.take(&range);
            assert!(taken.iter().flat_map(Clone::clone).eq(range.clone().filter(|&i| plain[i])));
            plain[range].fill(false);
            (0..40).for_each(|i| assert_eq!(ranges.contains(i), plain[i]));
            let segments = ranges.segments(3..37);
            assert_eq!(segments.iter().map(|(range, _)| range.len()).sum::<usize>(), 34);
            let mut at = 3;
            for (range, inside) in segments {
                assert_eq!(range.start, at);
                assert!(range.clone().all(|i| plain[i] == inside), "{range:?}");
                at = range.end;
            }
            assert!(ranges.iter().collect::<Vec<_>>().windows(2).all(|two| two[0].end < two[1].start));
        }
    }
}
