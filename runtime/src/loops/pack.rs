//! Elements that are read in step with the loop, laid out once in the order in which the iterations run.
//!
//! # Why this is sound
//! Only elements are laid out of which a copy of the bytes is as good as a clone (`BITS`). Every thread fills a stretch of its own.
#![allow(unsafe_code)]

use crate::body::lease::Lease;
use crate::memory::buffer::{RawBuf, populate};
use crate::memory::home::Home;
use crate::planner::plan::Plan;
use crate::planner::recording::Usage;
use crate::session::pool::Pool;

/// Larger elements stay where they are: one cache miss for one of them is little.
pub(crate) const LARGEST: usize = 128;

/// A copy of a DVector in execution order.
pub(crate) struct Packed {
    pub(crate) elements: RawBuf,
    pub(crate) version: u64,
}

/// The copies that a plan wants, made anew where the elements have changed since.
pub(crate) fn refresh(packed: &mut Vec<Option<Packed>>, plan: &Plan, lease: &Lease<'_>, pool: &Pool) {
    packed.resize_with(lease.captured().len(), || None);
    if plan.offsets.is_empty() {
        return;
    }
    for (c, capture) in lease.captured().iter().enumerate() {
        let Usage::InStep { offset, written: false } = plan.usage[c] else { continue };
        let (Some(lent), Some(version)) = (lease.vector(c), capture.home().map(Home::version)) else { continue };
        let ops = lent.ops();
        if !ops.bits || ops.size == 0 || ops.size > LARGEST {
            continue;
        }
        if packed[c].as_ref().is_some_and(|old| old.version == version) {
            continue;
        }
        let old = packed[c].take().map(|old| old.elements).filter(|old| old.len() == plan.offsets.len());
        let fresh = old.is_none();
        let mut elements = old.unwrap_or_else(|| RawBuf::new(ops, plan.offsets.len()));
        let first = plan.range.start.wrapping_add(offset);
        assert!(first <= lent.len() && plan.range.len() <= lent.len() - first);
        let source = Shared(lent.at(first));
        let target = Shared(elements.as_mut_ptr());
        const STRETCH: usize = 1 << 16;
        pool.map(plan.offsets.len().div_ceil(STRETCH), |s| {
            let stretch = &plan.offsets[s * STRETCH..plan.offsets.len().min((s + 1) * STRETCH)];
            let target = target.get().wrapping_add(s * STRETCH * ops.size);
            if fresh {
                populate(target, stretch.len() * ops.size);
            }
            // SAFETY: every offset is below the number of iterations, so `first + offset` is an element (both ends were
            // compared); stretch `s` of the target is this call's alone.
            unsafe { copy_each(source.get(), target, ops.size, stretch) };
        });
        // SAFETY: all of it has been written, and such elements need no drop.
        unsafe { elements.set_len(plan.offsets.len()) };
        packed[c] = Some(Packed { elements, version });
    }
}

#[derive(Clone, Copy)]
struct Shared(*mut u8);
// SAFETY: see the callers: threads read one range and write stretches of their own of another.
unsafe impl Send for Shared {}
// SAFETY: see the callers: threads read one range and write stretches of their own of another.
unsafe impl Sync for Shared {}

impl Shared {
    fn get(self) -> *mut u8 {
        self.0
    }
}

/// # Safety
/// `source` holds an element of `size` bytes at each offset; `target` has room for all of them.
pub(crate) unsafe fn copy_each(source: *const u8, target: *mut u8, size: usize, offsets: &[u32]) {
    macro_rules! by_size {
        ($($n:literal)*) => {
            match size {
                $($n => for (k, &offset) in offsets.iter().enumerate() {
                    // SAFETY: the caller's promise; the size is a constant here, so that the copy is a move.
                    unsafe { std::ptr::copy_nonoverlapping(source.add(offset as usize * $n), target.add(k * $n), $n) }
                },)*
                _ => for (k, &offset) in offsets.iter().enumerate() {
                    // SAFETY: the caller's promise.
                    unsafe {
                        std::ptr::copy_nonoverlapping(source.add(offset as usize * size), target.add(k * size), size);
                    }
                },
            }
        };
    }
    by_size!(4 8 12 16 20 24 32);
}
