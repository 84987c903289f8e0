//! Which parts of files a plan's blocks need in memory, and when: what a process with a limit of memory lets go last, and reads ahead.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::body::lease::Lease;
use crate::loops::pack::Packed;
use crate::memory::spill::{FileMemory, Spill};
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;

/// For how many blocks behind one that begins elements are read: about as many as run at a time.
const AHEAD: usize = 2;

/// The slabs that the blocks of one call need.
pub(crate) struct Residency {
    spill: Arc<Spill>,
    /// The moment of the first block.
    begun: u64,
    /// The blocks in the order in which one thread runs them, and the place of each in it.
    order: Vec<usize>,
    places: Vec<usize>,
    spans: Vec<Span>,
    /// Where the spans of each block begin.
    starts: Vec<usize>,
}

struct Span {
    file: FileMemory,
    slabs: Range<usize>,
    /// How many blocks later the same elements are needed again, in this call or in one like it.
    again: u64,
}

/// A block's elements, from its beginning to its end.
pub(crate) struct Needed<'r> {
    residency: &'r Residency,
    block: usize,
}

impl Residency {
    /// None where everything lies in memory, or the plan doesn't say which elements a block needs. `order` says in which order
    /// one thread runs the blocks; several run them in nearly the same.
    pub(crate) fn of(
        plan: &Plan,
        lease: &Lease<'_>,
        packed: &[Option<Packed>],
        order: impl FnOnce() -> Vec<usize>,
    ) -> Option<Residency> {
        let files = (0..lease.captured().len()).filter_map(|c| lease.vector(c)?.file());
        let laid_out = packed.iter().flatten().filter_map(|packed| packed.elements.file());
        let spill = Arc::clone(files.chain(laid_out).next()?.spill());
        let (mut spans, mut starts) = (Vec::new(), vec![0]);
        for b in 0..plan.blocks.len() {
            add_spans(b, (plan, lease, packed), &mut spans);
            starts.push(spans.len());
        }
        if spans.is_empty() {
            return None;
        }
        let order = order();
        let mut places = vec![0; plan.blocks.len()];
        order.iter().enumerate().for_each(|(place, &b)| places[b] = place);
        let begun = spill.begin_loop(plan.blocks.len());
        let mut residency = Residency { spill, begun, order, places, spans, starts };
        residency.foresee();
        Some(residency)
    }

    /// Finds when each span is needed again: from the end of the next call back.
    fn foresee(&mut self) {
        let blocks = self.order.len();
        let mut last = HashMap::new();
        for pass in [1, 0] {
            for (place, &b) in self.order.iter().enumerate().rev() {
                let now = pass * blocks + place;
                for span in &mut self.spans[self.starts[b]..self.starts[b + 1]] {
                    let next = last.insert((span.file.id(), span.slabs.clone()), now);
                    span.again = next.map_or(blocks, |next| next - now) as u64;
                }
            }
        }
    }

    fn spans_of(&self, block: usize) -> &[Span] {
        &self.spans[self.starts[block]..self.starts[block + 1]]
    }

    /// A block begins.
    pub(crate) fn begin(&self, block: usize) -> Needed<'_> {
        let place = self.places[block];
        let end = (place + 1 + AHEAD).min(self.order.len());
        for (at, &b) in self.order[place..end].iter().enumerate() {
            for span in self.spans_of(b) {
                span.file.need(span.slabs.clone(), self.begun + (place + at) as u64);
            }
        }
        Needed { residency: self, block }
    }
}

impl Drop for Needed<'_> {
    fn drop(&mut self) {
        let Needed { residency: all, block } = *self;
        let now = all.begun + all.places[block] as u64;
        for span in all.spans_of(block) {
            span.file.needed_next(span.slabs.clone(), now, now + span.again);
        }
        all.spill.balance();
    }
}

/// Adds what a block touches of elements that lie in files.
fn add_spans(b: usize, (plan, lease, packed): (&Plan, &Lease<'_>, &[Option<Packed>]), spans: &mut Vec<Span>) {
    let block = plan.blocks[b];
    let mut add = |file: Option<&FileMemory>, size: usize, elements: Range<usize>| {
        let Some(file) = file else { return };
        let slabs = file.slabs(elements.start.saturating_mul(size)..elements.end.saturating_mul(size));
        if !slabs.is_empty() {
            spans.push(Span { file: file.clone(), slabs, again: 0 });
        }
    };
    if let Some(parts) = &plan.parts {
        for touch in plan.touches(b) {
            let (slot, part) = parts.part_of(touch.resource);
            let Some(lent) = lease.vector(parts.captures[slot]) else { continue };
            let bounds = &parts.cuts[slot].bounds;
            add(lent.file(), lent.ops().size, bounds[part]..bounds[part + 1]);
        }
    }
    for (c, usage) in plan.usage.iter().enumerate() {
        let (&Usage::InStep { offset, .. }, Some(lent)) = (usage, lease.vector(c)) else { continue };
        if let Some(packed) = packed.get(c).and_then(Option::as_ref) {
            add(packed.elements.file(), lent.ops().size, block.start..block.end);
        } else if plan.keeps_order() {
            let first = plan.range.start.wrapping_add(offset);
            add(lent.file(), lent.ops().size, first.wrapping_add(block.start)..first.wrapping_add(block.end));
        }
    }
}
