//! Which process holds which range of a DDS.

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// The number of a process in its job. The driver has 0; no number is used twice.
pub type Node = u32;

/// The driver, in which the program runs.
pub const DRIVER: Node = 0;

/// A range of a DDS, and the processes that hold it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// The range.
    pub range: Range<usize>,
    /// The holders of the range.
    pub at: Vec<Holder>,
}

/// A process that has a range: in its memory, or as part of a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// The process.
    pub node: Node,
    /// The snapshot's number; 0 for memory.
    pub snapshot: u64,
}

/// A range to be fetched.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pull {
    /// The DDS of which it is a range.
    pub dds: u64,
    /// The range.
    pub range: Range<usize>,
    /// Where it is fetched from.
    pub from: Holder,
}

/// The ranges of one DDS, one after the other, each with its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    segments: Vec<Segment>,
}

impl Holder {
    /// The holder that has the range in a process's memory.
    pub fn memory(node: Node) -> Holder {
        Holder { node, snapshot: 0 }
    }
}

impl Placement {
    /// The driver holds all of the DDS.
    pub fn home(len: usize) -> Placement {
        Placement { segments: vec![Segment { range: 0..len, at: vec![Holder::memory(DRIVER)] }] }
    }

    /// No process holds any of the DDS: it is still to be made.
    pub fn nowhere() -> Placement {
        Placement { segments: Vec::new() }
    }

    /// These ranges, one after the other, each held by one process.
    pub fn of_ranges(ranges: impl Iterator<Item = (Range<usize>, Node)>) -> Placement {
        let mut segments = Vec::new();
        ranges.for_each(|(range, node)| push(&mut segments, range, vec![Holder::memory(node)]));
        Placement { segments }
    }

    /// All ranges, one after the other.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether the driver has all of it in memory.
    pub fn is_home(&self) -> bool {
        self.segments.iter().all(|held| held.at.contains(&Holder::memory(DRIVER)))
    }

    /// Lets `f` change the holders of a range.
    fn change(&mut self, range: &Range<usize>, f: impl Fn(&mut Vec<Holder>)) {
        let mut segments: Vec<Segment> = Vec::with_capacity(self.segments.len() + 2);
        for Segment { range: segment, at } in self.segments.drain(..) {
            let inside = segment.start.max(range.start)..segment.end.min(range.end);
            if inside.is_empty() {
                push(&mut segments, segment, at);
                continue;
            }
            push(&mut segments, segment.start..inside.start, at.clone());
            let mut changed = at.clone();
            f(&mut changed);
            push(&mut segments, inside.clone(), changed);
            push(&mut segments, inside.end..segment.end, at);
        }
        self.segments = segments;
    }

    /// A range has been written: only this process holds it now.
    pub fn written(&mut self, range: &Range<usize>, at: Holder) {
        // So it is whenever a loop runs again.
        if self.of(range).all(|(_, holders)| holders == [at]) {
            return;
        }
        self.change(range, |holders| *holders = vec![at]);
    }

    /// This process holds the range, too.
    pub fn copied(&mut self, range: &Range<usize>, at: Holder) {
        self.change(range, |holders| {
            if !holders.contains(&at) {
                holders.push(at);
            }
        });
    }

    /// Appends the range that follows the last one, with its holders.
    pub fn append(&mut self, range: Range<usize>, at: Vec<Holder>) {
        push(&mut self.segments, range, at);
    }

    /// A holder of a range, or of parts of it, gives it up to others.
    pub fn passed_on(&mut self, range: &Range<usize>, from: Holder, to: &[Holder]) {
        self.change(range, |holders| {
            if holders.contains(&from) {
                holders.retain(|holder| *holder != from);
                holders.extend(to.iter().filter(|holder| !holders.contains(holder)).copied().collect::<Vec<_>>());
            }
        });
    }

    /// Removes processes that aren't alive; false if a range is lost with them.
    pub fn without(&mut self, alive: impl Fn(Node) -> bool) -> bool {
        self.segments.iter_mut().for_each(|held| held.at.retain(|holder| alive(holder.node)));
        self.segments.iter().all(|held| held.range.is_empty() || !held.at.is_empty())
    }

    /// Removes holders in other snapshots than these, which are about to be deleted. A range that nobody else holds stays.
    pub fn without_snapshots_but(&mut self, kept: impl Fn(u64) -> bool) {
        for held in &mut self.segments {
            let stays = |holder: &Holder| holder.snapshot == 0 || kept(holder.snapshot);
            if held.at.iter().any(stays) {
                held.at.retain(stays);
            }
        }
    }

    /// What a process must fetch to hold a range. `spread` is a different number for each process that fetches the same range, so
    /// that they don't all ask the same holder.
    pub fn missing(&self, dds: u64, range: &Range<usize>, me: Node, spread: usize) -> Vec<Pull> {
        let lacking = self.of(range).filter(|(_, at)| !at.contains(&Holder::memory(me)) && !at.is_empty());
        lacking.map(|(range, at)| Pull { dds, range, from: at[spread % at.len()] }).collect()
    }

    /// The same, from these holders alone; none if they don't have all of it.
    pub fn missing_from(
        &self,
        dds: u64,
        range: &Range<usize>,
        me: Node,
        spread: usize,
        these: impl Fn(&Holder) -> bool,
    ) -> Option<Vec<Pull>> {
        let lacking = self.of(range).filter(|(_, at)| !at.contains(&Holder::memory(me)));
        let pull = |(range, at): (Range<usize>, &[Holder])| {
            let at: Vec<&Holder> = at.iter().filter(|holder| these(holder)).collect();
            let from = **at.get(spread % at.len().max(1))?;
            Some(Pull { dds, range, from })
        };
        lacking.map(pull).collect()
    }

    /// The parts of a range, with their holders.
    pub fn of(&self, range: &Range<usize>) -> impl Iterator<Item = (Range<usize>, &[Holder])> {
        let (start, end) = (range.start, range.end);
        self.segments.iter().filter_map(move |held| {
            let inside = held.range.start.max(start)..held.range.end.min(end);
            (!inside.is_empty()).then_some((inside, held.at.as_slice()))
        })
    }
}

fn push(segments: &mut Vec<Segment>, range: Range<usize>, at: Vec<Holder>) {
    if range.is_empty() {
        return;
    }
    match segments.last_mut() {
        Some(last) if last.at == at && last.range.end == range.start => last.range.end = range.end,
        _ => segments.push(Segment { range, at }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_change_hands() {
        let mut placement = Placement::home(100);
        assert!(placement.is_home());
        let (one, two) = (Holder::memory(1), Holder::memory(2));
        placement.written(&(0..50), one);
        placement.written(&(50..80), two);
        placement.copied(&(40..60), two);
        let seen: Vec<_> = placement.of(&(0..100)).map(|(range, at)| (range, at.len())).collect();
        assert_eq!(seen, [(0..40, 1), (40..50, 2), (50..80, 1), (80..100, 1)]);
        let pulls = placement.missing(7, &(30..90), 2, 0);
        let ranges: Vec<_> = pulls.iter().map(|pull| (pull.range.clone(), pull.from.node)).collect();
        assert_eq!(ranges, [(30..40, 1), (80..90, DRIVER)]);
        placement.written(&(0..100), one);
        assert_eq!(placement.segments().len(), 1);
        assert!(!placement.clone().without(|node| node != 1));
        placement.copied(&(0..100), two);
        assert!(placement.without(|node| node != 1));
    }

    #[test]
    fn what_is_given_up_is_with_others() {
        let mut placement = Placement::home(10);
        let (one, driver) = (Holder::memory(1), Holder::memory(DRIVER));
        let two = [Holder { node: 1, snapshot: 5 }, Holder { node: 2, snapshot: 5 }];
        placement.copied(&(2..6), one);
        placement.written(&(6..7), one);
        placement.passed_on(&(0..4), driver, &two);
        placement.passed_on(&(4..10), driver, &two[1..]);
        let seen: Vec<_> = placement.of(&(0..10)).map(|(range, at)| (range, at.to_vec())).collect();
        let expected = [
            (0..2, two.to_vec()),
            (2..4, vec![one, two[0], two[1]]),
            (4..6, vec![one, two[1]]),
            (6..7, vec![one]),
            (7..10, vec![two[1]]),
        ];
        assert_eq!(seen, expected);
        let mut other = Placement::nowhere();
        other.append(0..3, two.to_vec());
        other.append(3..4, two.to_vec());
        other.append(4..4, vec![one]);
        assert_eq!(other.segments().len(), 1);
    }

    #[test]
    fn nothing_is_placed_too() {
        let mut placement = Placement::home(0);
        placement.written(&(0..0), Holder::memory(3));
        assert!(placement.missing(1, &(0..0), 3, 0).is_empty() && placement.without(|_| false));
    }
}
