//! The slow path to elements that a body takes as one slice.
//!
//! # Why this is sound
//! The address of a range is given where each of its elements might be reached alone in that way (rules 1 to 3 of
//! `slow_path`), and all lie side by side: in the DDS's own memory, or in one run of copies. A range of which the block owns a
//! part only is a copy altogether, since others may write the rest. Rule 4 holds for the placeholders of a range: they are
//! filled, or replaced by more of them, only by an access that writes, which needs the view alone.

use std::ops::Range;

use super::{Access, Doing, Pager, RUNAWAY_SYMBOLIC, Recorder, SlowPath, ViewRange, is_cheap};
use crate::body::context::AccessTrouble;
use crate::body::panics;
use crate::memory::buffer::RawBuf;

impl SlowPath<'_> {
    /// The address of the elements of a range, or no return; of an empty one any that is aligned. `own` is the view's range;
    /// to be written, the view is borrowed alone.
    #[cold]
    #[inline(never)]
    #[track_caller]
    pub(in crate::body) fn reach_range(&self, range: Range<usize>, own: ViewRange, write: bool) -> *mut u8 {
        let Range { start, end } = range;
        assert!(start <= end, "a range of elements starts at {start} but ends at {end}");
        if end > self.len {
            let index = (end - 1).max(start);
            self.end(AccessTrouble::OutOfRange { capture: self.capture, index });
        }
        if start == end {
            return self.address(start);
        }
        match &self.doing {
            Doing::ReadOnly if !write => self.address(start),
            Doing::Fetched(pager, _) if !write => {
                self.bring_all(*pager, range);
                self.address(start)
            }
            Doing::Spans(spans) if owns(spans, own, &range, write) => self.address(start),
            Doing::Logged { spans, saved } if owns(spans, own, &range, write) => {
                if write {
                    range.for_each(|i| self.save_first(saved, i));
                }
                self.address(start)
            }
            Doing::Listed(listing, listed) if listed.owns_all(listing, &range, write) => self.address(start),
            Doing::Tiled(tiling) if tiling.owns_all(range.clone(), write) => self.address(start),
            Doing::Record(recorder) => self.record_range(recorder, range, write),
            Doing::Tally(pages) if write => {
                let mut pages = pages.borrow_mut();
                let all = pages.all();
                all.base().wrapping_add(start * all.ops().size)
            }
            _ if end - start == 1 => self.reach(start, if write { Access::Write { nth: 0 } } else { Access::Read }),
            _ => self.stray_to_range(range, write),
        }
    }

    fn bring_all(&self, pager: &dyn Pager, mut range: Range<usize>) {
        while !range.is_empty() {
            match pager.bring(self.capture, range.start) {
                Some(here) => range.start = here.end.max(range.start + 1),
                None => self.end(AccessTrouble::Unreachable),
            }
        }
    }

    fn stray_to_range(&self, range: Range<usize>, write: bool) -> *mut u8 {
        let trouble = AccessTrouble::Misspeculation { capture: self.capture };
        self.state.record(trouble);
        let Some(lent) = self.lent else { self.end(trouble) };
        let of_own = || panics::caught(|| Some(self.clone_of(lent, self.own()?))).ok().flatten();
        let copies = panics::caught(|| self.astray.reach_range((self.capture, lent.ops()), range, write, of_own));
        copies.ok().flatten().unwrap_or_else(|| self.end(trouble))
    }

    fn record_range(&self, recorder: &Recorder<'_>, range: Range<usize>, write: bool) -> *mut u8 {
        let lent = recorder.elements;
        let concrete = recorder.concrete.get();
        let touched = recorder.log.borrow_mut().access_range(range.clone(), write);
        if touched > RUNAWAY_SYMBOLIC && touched > recorder.most_accesses() {
            self.end(AccessTrouble::Runaway);
        }
        if let Some(pager) = recorder.pager
            && (concrete || !write)
        {
            self.bring_all(pager, range.clone());
        }
        if concrete && lent.is_writable() {
            let mut own = recorder.own.borrow_mut();
            if !write && !own.overlap(&range) {
                return lent.at(range.start);
            }
            let mut copy = |i: usize| Some(self.clone_of(lent, i));
            let (ops, unreachable) = (lent.ops(), AccessTrouble::Unreachable);
            let copies = if write { own.unite(ops, range, &mut copy) } else { own.side_by_side(ops, range, &mut copy) };
            return copies.unwrap_or_else(|| self.end(unreachable));
        }
        if write { self.range_of_placeholders(recorder, range.len()) } else { lent.at(range.start) }
    }

    fn range_of_placeholders(&self, recorder: &Recorder<'_>, n: usize) -> *mut u8 {
        let lent = recorder.elements;
        let mut placeholders = recorder.range.borrow_mut();
        let there = placeholders.as_ref().is_some_and(|there| there.len() >= n);
        if !there || !recorder.range_lent.get() || is_cheap(lent.ops()) {
            *placeholders = None;
        }
        recorder.range_lent.set(true);
        let filled = placeholders.get_or_insert_with(|| {
            let middle = self.clone_of(lent, lent.len() / 2);
            let mut filled = RawBuf::new(lent.ops(), n);
            (0..n).for_each(|_| filled.push_copy(&middle));
            filled
        });
        filled.as_mut_ptr()
    }
}

/// Whether a block owns each element of a range, by the view's range and these spans, which may adjoin one another.
fn owns(spans: &[ViewRange], own: ViewRange, range: &Range<usize>, write: bool) -> bool {
    let end_of = |span: &ViewRange, at: usize| {
        let owned = if write { span.wlen } else { span.len };
        (at >= span.lo && at - span.lo < owned).then_some(span.lo + owned)
    };
    let mut at = range.start;
    while at < range.end {
        let span = spans.partition_point(|span| span.lo <= at).checked_sub(1).map(|k| &spans[k]);
        match span.and_then(|span| end_of(span, at)).or_else(|| end_of(&own, at)) {
            Some(end) => at = end,
            None => return false,
        }
    }
    true
}
