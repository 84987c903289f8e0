//! Which parts of files a plan's blocks need in memory, and when: what a process with a limit of memory lets go last, and reads ahead.

use std::ops::Range;
use std::sync::Arc;

use crate::body::lease::Lease;
use crate::loops::pack::Packed;
use crate::memory::spill::{FileMemory, Spill};
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;

/// How many blocks ahead of one that begins are read: about as many as run at a time.
const AHEAD: usize = 2;

/// The slabs that the blocks of one call need.
pub(crate) struct Residency {
    spill: Arc<Spill>,
    /// The moment of the first block.
    begun: u64,
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
    /// None where everything lies in memory, or the plan doesn't say which elements a block needs.
    pub(crate) fn of(plan: &Plan, lease: &Lease<'_>, packed: &[Option<Packed>]) -> Option<Residency> {
        let files = (0..lease.captured().len()).filter_map(|c| lease.vector(c)?.file());
        let laid_out = packed.iter().flatten().filter_map(|packed| packed.elements.file());
        let spill = Arc::clone(files.chain(laid_out).next()?.spill());
        let (mut spans, mut starts) = (Vec::new(), vec![0]);
        for b in 0..plan.blocks.len() {
            spans_of(b, (plan, lease, packed), &mut spans);
            starts.push(spans.len());
        }
        if spans.is_empty() {
            return None;
        }
        let mut residency = Residency { begun: spill.begin_loop(plan.blocks.len()), spill, spans, starts };
        residency.foresee();
        Some(residency)
    }

    /// Finds when each span is needed again: from the end of the next call back.
    fn foresee(&mut self) {
        let blocks = self.starts.len() - 1;
        let mut last = std::collections::HashMap::new();
        for pass in [1, 0] {
            for b in (0..blocks).rev() {
                let now = pass * blocks + b;
                for span in &mut self.spans[self.starts[b]..self.starts[b + 1]] {
                    let next = last.insert((span.file.id(), span.slabs.clone()), now);
                    span.again = next.map_or(blocks, |next| next - now) as u64;
                }
            }
        }
    }

    /// A block begins.
    pub(crate) fn begin(&self, block: usize) -> Needed<'_> {
        for b in block..(block + 1 + AHEAD).min(self.starts.len() - 1) {
            for span in &self.spans[self.starts[b]..self.starts[b + 1]] {
                span.file.need(span.slabs.clone(), self.begun + b as u64);
            }
        }
        Needed { residency: self, block }
    }
}

impl Drop for Needed<'_> {
    fn drop(&mut self) {
        let Needed { residency: all, block } = *self;
        let now = all.begun + block as u64;
        for span in &all.spans[all.starts[block]..all.starts[block + 1]] {
            span.file.needed_next(span.slabs.clone(), now, now + span.again);
        }
        all.spill.balance();
    }
}

/// Adds what a block touches of elements that lie in files.
fn spans_of(b: usize, (plan, lease, packed): (&Plan, &Lease<'_>, &[Option<Packed>]), spans: &mut Vec<Span>) {
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
