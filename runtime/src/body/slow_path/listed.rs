//! Elements that a plan lists for each single iteration.

use std::cell::Cell;
use std::ops::Range;

use super::{Access, ViewRange};
use crate::planner::plan;

/// How many ranges a view looks at besides its first: an iteration's elements are often in three parts.
pub(crate) const MORE: usize = 2;

/// Ranges of a view besides its first. Where each iteration owns elements of its own they change with it.
#[derive(Default)]
pub(crate) struct More([Cell<ViewRange>; MORE]);

impl More {
    pub(super) fn new(ranges: [ViewRange; MORE]) -> More {
        More(ranges.map(Cell::new))
    }

    #[inline(always)]
    pub(crate) fn iter(&self) -> impl Iterator<Item = ViewRange> {
        self.0.iter().map(Cell::get)
    }
}

/// The elements of every iteration of a block: index and write bit in one number, delimited by `ends`.
#[derive(Clone, Copy)]
pub(crate) struct Listing<'t> {
    pub(crate) entries: &'t [u32],
    /// One for each iteration.
    pub(crate) ends: &'t [u32],
    /// Where the block's first iteration begins.
    pub(crate) start: u32,
}

/// Where the running iteration's entries are, in a listing.
#[derive(Default)]
pub(crate) struct Listed {
    /// From where to where, once one runs,
    now: Cell<Option<(usize, usize)>>,
    /// and the entry that was looked up last: bodies mostly go through their elements in the order of the list.
    next: Cell<usize>,
}

/// At most this many elements are made the view's own range.
const WINDOW: usize = 8;

impl Listed {
    /// The running iteration's entries, once one runs.
    pub(super) fn entries<'t>(&self, listing: &Listing<'t>) -> Option<&'t [u32]> {
        let (from, to) = self.now.get()?;
        listing.entries.get(from..to)
    }

    /// Turns to the block's `place`-th iteration. Gives what its view reaches without asking, and sets the other such ranges.
    #[inline(always)]
    pub(super) fn enter(&self, listing: &Listing<'_>, place: usize, more: &More) -> ViewRange {
        let from = if place == 0 { listing.start } else { listing.ends[place - 1] } as usize;
        let to = listing.ends[place] as usize;
        self.now.set(Some((from, to)));
        self.choose(&listing.entries[from..to], more)
    }

    /// An element that is written, which is touched most often, and what follows it; and in other ranges those behind. (Without branches on
    /// how many there are, which the processor can't foretell.)
    #[inline(always)]
    fn choose(&self, entries: &[u32], more: &More) -> ViewRange {
        let is_written = |entry: &u32| entry & 1 == 1;
        let at = match entries.len() {
            0 => {
                more.0.iter().for_each(|range| range.set(ViewRange::EMPTY));
                return ViewRange::EMPTY;
            }
            1..=plan::Listed::FEW => 0,
            _ => entries.iter().position(is_written).unwrap_or(0),
        };
        let lo = (entries[at] >> 1) as usize;
        let follows = |&(k, entry): &(usize, &u32)| (*entry >> 1) as usize == lo + k;
        let len = entries[at..].iter().take(WINDOW).enumerate().take_while(follows).count();
        let wlen = entries[at..at + len].iter().take_while(|entry| is_written(entry)).count();
        for (k, range) in more.0.iter().enumerate() {
            // (The last one again, where there are no others.)
            let entry = entries[(at + len + k).min(entries.len() - 1)];
            range.set(ViewRange { lo: (entry >> 1) as usize, len: 1, wlen: (entry & 1) as usize });
        }
        self.next.set(at + len + MORE);
        ViewRange { lo, len, wlen }
    }

    /// Whether the running iteration may reach an element so.
    #[inline(always)]
    pub(super) fn owns(&self, listing: &Listing<'_>, i: usize, access: Access) -> bool {
        let Some(entries) = self.entries(listing) else { return false };
        let is = |k: usize| entries.get(k).is_some_and(|entry| (entry >> 1) as usize == i);
        let next = self.next.get();
        // A body often comes back to the element that it has just reached.
        let found = [next, next + 1].into_iter().find(|&k| is(k)).or_else(|| place_in(entries, i));
        let Some(k) = found else { return false };
        self.next.set(k);
        access == Access::Read || entries[k] & 1 == 1
    }

    /// Whether each element of a range is listed for the running iteration.
    pub(super) fn owns_all(&self, listing: &Listing<'_>, range: &Range<usize>, write: bool) -> bool {
        let entries = self.entries(listing).unwrap_or_default();
        let Some(first) = place_in(entries, range.start) else { return false };
        let (before, behind) = entries.split_at(first);
        let is = |(entry, i): (&u32, usize)| (entry >> 1) as usize == i && (!write || entry & 1 == 1);
        range.len() <= entries.len() && behind.iter().chain(before).zip(range.clone()).all(is)
    }
}

/// Where an element's entry is, among those of an iteration.
#[inline(never)]
fn place_in(entries: &[u32], i: usize) -> Option<usize> {
    let of = |entry: &u32| (entry >> 1) as usize;
    if entries.len() > plan::Listed::FEW {
        return entries.binary_search_by_key(&i, of).ok();
    }
    // Without a jump.
    let place =
        entries.iter().enumerate().fold(entries.len(), |place, (k, entry)| if of(entry) == i { k } else { place });
    (place < entries.len()).then_some(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_of_listed_elements_is_reached_without_asking() {
        let listed = Listed::default();
        let ranges = |entries: &[u32]| {
            let more = More::default();
            let of = |ViewRange { lo, len, wlen }| (lo, len, wlen);
            let first = of(listed.choose(entries, &more));
            (first, more.0.map(|range| of(range.get())))
        };
        let [read, write] = [0, 1].map(|bit| move |i: u32| 2 * i + bit);
        let others = [(30, 1, 0), (2, 1, 0)];
        assert_eq!(ranges(&[write(9), read(10), read(30), read(2), read(8)]), ((9, 2, 1), others));
        assert_eq!(ranges(&[write(3), write(4), read(5), write(8)]), ((3, 3, 2), [(8, 1, 1); 2]), "the last one twice");
        assert_eq!(ranges(&[read(4), read(5)]), ((4, 2, 0), [(5, 1, 0); 2]), "nothing is written");
        assert_eq!(ranges(&[]), ((0, 0, 0), [(0, 0, 0); 2]));
        let many: Vec<u32> = (0..40).map(|i| if i < 20 { read(i) } else { write(i) }).collect();
        assert_eq!(ranges(&many), ((20, WINDOW, WINDOW), [(28, 1, 1), (29, 1, 1)]), "long ones ascend");
    }

    #[test]
    fn a_range_may_begin_before_what_is_written_first() {
        let entries = [9 << 1 | 1, 10 << 1, 30 << 1, 2 << 1, 8 << 1];
        let (listing, listed) = (Listing { entries: &entries, ends: &[5], start: 0 }, Listed::default());
        listed.enter(&listing, 0, &More::default());
        let owns = |range, write| listed.owns_all(&listing, &range, write);
        assert!(owns(8..11, false) && owns(9..10, true) && owns(30..31, false));
        assert!(!owns(8..11, true) && !owns(8..12, false) && !owns(2..4, false) && !owns(1..3, false));
        assert!(listed.owns(&listing, 8, Access::Read) && !listed.owns(&listing, 8, Access::Write { nth: 0 }));
    }
}
