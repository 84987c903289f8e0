//! A thread's own copies of elements of one DDS, in runs of neighbours.
//!
//! # Why this is sound
//! 1. A run is a `RawBuf` of the elements from its key on; no two runs hold the same element. So different elements are
//!    different copies, and equal ones the same.
//! 2. An address that was given out stays good until [`unite`](Runs::unite) is called, which callers do only for who has the view
//!    alone, or until all is dropped: `side_by_side` and `insert` change no run that is there.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::ops::Range;

use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;

/// How many single copies' memory is kept.
const SPARE: usize = 64;

/// Copies of elements.
#[derive(Default)]
pub(crate) struct Runs {
    by_first: BTreeMap<usize, RawBuf>,
    /// Ranges to be read that lie in more than one run.
    gathered: Vec<RawBuf>,
    elements: usize,
}

impl Runs {
    /// How many copies there are.
    pub(crate) fn elements(&self) -> usize {
        self.elements
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.elements == 0
    }

    /// Drops all copies. The memory of some single ones is kept for others.
    pub(crate) fn clear(&mut self, spare: &mut Vec<RawBuf>) {
        let Runs { by_first, gathered, .. } = std::mem::take(self);
        for mut run in by_first.into_values() {
            if run.capacity() == 1 && spare.len() < SPARE {
                run.clear();
                spare.push(run);
            }
        }
        drop(gathered);
    }

    /// All copies, to be dropped.
    pub(crate) fn into_copies(self) -> impl Iterator<Item = RawBuf> {
        self.by_first.into_values().chain(self.gathered)
    }

    /// Where the copy of an element lies.
    pub(crate) fn at(&self, index: usize) -> Option<*mut u8> {
        self.whole(index..index + 1)
    }

    /// Notes the copy of an element that has none.
    pub(crate) fn insert(&mut self, index: usize, copy: RawBuf) -> *mut u8 {
        debug_assert!(self.at(index).is_none());
        self.elements += copy.len();
        let address = copy.base();
        self.by_first.insert(index, copy);
        address
    }

    /// Where a range lies that is in one run.
    fn whole(&self, range: Range<usize>) -> Option<*mut u8> {
        let (first, run) = self.by_first.range(..=range.start).next_back()?;
        let at = range.start - first;
        (range.end - first <= run.len()).then(|| run.base().wrapping_add(at * run.ops().size))
    }

    /// Whether any element of a range has a copy.
    pub(crate) fn overlap(&self, range: &Range<usize>) -> bool {
        self.by_first.range(..range.end).next_back().is_some_and(|(first, run)| first + run.len() > range.start)
    }

    /// The address of a range's copies, to be written: side by side, whether they were before or not. `copy` makes one of an
    /// element that has none.
    pub(crate) fn unite(
        &mut self,
        ops: &'static ElementOps,
        range: Range<usize>,
        copy: &mut dyn FnMut(usize) -> Option<RawBuf>,
    ) -> Option<*mut u8> {
        if let Some(address) = self.whole(range.clone()) {
            return Some(address);
        }
        let run = self.gather(ops, range.clone(), copy)?;
        // What other runs hold of the range is cut out of them.
        while let Some((&first, cut)) = self.by_first.range(..range.end).next_back()
            && first + cut.len() > range.start
        {
            let end = first + cut.len();
            let before = (first < range.start).then(|| part(cut, 0..range.start - first));
            let after = (end > range.end).then(|| part(cut, range.end - first..end - first));
            self.elements -= cut.len();
            self.by_first.remove(&first);
            before.into_iter().for_each(|before| _ = self.insert(first, before));
            after.into_iter().for_each(|after| _ = self.insert(range.end, after));
        }
        Some(self.insert(range.start, run))
    }

    /// The same, to be read: other addresses stay good.
    pub(crate) fn side_by_side(
        &mut self,
        ops: &'static ElementOps,
        range: Range<usize>,
        copy: &mut dyn FnMut(usize) -> Option<RawBuf>,
    ) -> Option<*mut u8> {
        if let Some(address) = self.whole(range.clone()) {
            return Some(address);
        }
        let run = self.gather(ops, range.clone(), copy)?;
        if !self.overlap(&range) {
            return Some(self.insert(range.start, run));
        }
        let address = run.base();
        self.elements += run.len();
        self.gathered.push(run);
        Some(address)
    }

    fn gather(
        &self,
        ops: &'static ElementOps,
        range: Range<usize>,
        copy: &mut dyn FnMut(usize) -> Option<RawBuf>,
    ) -> Option<RawBuf> {
        let mut run = RawBuf::new(ops, range.len());
        for index in range {
            match self.at(index) {
                // SAFETY: an element is there, of this thread's alone, and borrowed by nobody who writes it.
                Some(copied) => unsafe { run.push_clones(copied, 1) },
                None => {
                    let fresh = copy(index)?;
                    run.push_copy(&fresh);
                }
            }
        }
        Some(run)
    }
}

/// Copies of some elements of a run.
fn part(run: &RawBuf, places: Range<usize>) -> RawBuf {
    assert!(places.start <= places.end && places.end <= run.len());
    let mut part = RawBuf::new(run.ops(), places.len());
    // SAFETY: these elements are there, and this thread's alone.
    unsafe { part.push_clones(run.as_ptr().wrapping_add(places.start * run.ops().size), places.len()) };
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::ops_of;

    fn of(text: String) -> RawBuf {
        let mut one = RawBuf::new(ops_of::<String>(), 1);
        one.push(text);
        one
    }

    fn texts(at: *mut u8, n: usize) -> &'static mut [String] {
        // SAFETY: the tests ask for ranges of copies that live on.
        unsafe { std::slice::from_raw_parts_mut(at.cast(), n) }
    }

    #[test]
    fn every_element_has_one_copy_however_ranges_overlap() {
        let ops = ops_of::<String>();
        let mut plain: Vec<String> = (0..40).map(|i| i.to_string()).collect();
        let (mut runs, mut spare) = (Runs::default(), Vec::new());
        let mut state = 7usize;
        let mut next = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..2000 {
            let (a, b) = (next(40), next(40));
            let range = a.min(b)..a.max(b) + 1;
            let mut copy = |i: usize| Some(of(i.to_string()));
            if next(3) == 0 {
                let at = match runs.at(a) {
                    Some(at) => at,
                    None => {
                        let mut copy = spare.pop().unwrap_or_else(|| RawBuf::new(ops, 1));
                        copy.push(a.to_string());
                        runs.insert(a, copy)
                    }
                };
                texts(at, 1)[0].push('+');
                plain[a].push('+');
            } else if next(2) == 0 {
                let read = runs.side_by_side(ops, range.clone(), &mut copy).unwrap();
                assert_eq!(texts(read, range.len()), &plain[range.clone()], "round {round}");
            } else {
                let written = texts(runs.unite(ops, range.clone(), &mut copy).unwrap(), range.len());
                assert_eq!(written, &plain[range.clone()], "round {round}");
                written[0] = format!("round {round}");
                plain[range.start] = format!("round {round}");
            }
            if next(100) == 0 {
                runs.clear(&mut spare);
                plain = (0..40).map(|i| i.to_string()).collect();
            }
        }
        let copies: usize = runs.into_copies().map(|run| run.len()).sum();
        assert!(copies > 0);
    }

    #[test]
    fn a_range_that_cant_be_copied_leaves_what_was_there() {
        let ops = ops_of::<String>();
        let mut runs = Runs::default();
        runs.insert(3, of("three".to_string()));
        assert!(runs.unite(ops, 2..5, &mut |i| (i < 4).then(|| of(i.to_string()))).is_none());
        assert_eq!(texts(runs.at(3).unwrap(), 1), ["three"]);
        assert_eq!(runs.elements(), 1);
    }
}
