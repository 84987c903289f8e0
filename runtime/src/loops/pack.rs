//! Elements that are read in step with the loop, laid out once in the order in which the iterations run.
//!
//! # Why this is sound
//! Elements of which a copy of the bytes is as good as a clone (`BITS`) are copied, others cloned. Every thread fills a stretch of
//! its own.
#![allow(unsafe_code)]

use crate::body::lease::Lease;
use crate::body::panics;
use crate::kernels::fetch_bytes;
use crate::memory::buffer::{RawBuf, populate};
use crate::memory::element_ops::ElementOps;
use crate::memory::home::Home;
use crate::planner::plan::{Plan, are_neighbours};
use crate::planner::recording::Usage;
use crate::session::pool::Pool;

/// Larger elements stay where they are: one cache miss for one of them is little.
pub(crate) const LARGEST: usize = 128;

/// Elements that own memory are laid out where there are at least this many: fewer stay in the nearer caches.
const MANY: usize = 1 << 15;

/// Elements are fetched this many places before they are copied: they come from all over memory.
const AHEAD: usize = 16;

/// How many elements a thread copies at a time.
const STRETCH: usize = 1 << 16;

/// Whether as many elements that are read in step are laid out. Rows and texts are cloned one after the other, so that
/// their memory mostly lies in that order, too.
pub(crate) fn is_laid_out(ops: &ElementOps, n: usize) -> bool {
    (ops.bits || ops.keeps_room && n >= MANY) && (1..=LARGEST).contains(&ops.size)
}

/// A copy of a DVector in execution order.
pub(crate) struct Packed {
    pub(crate) elements: RawBuf,
    pub(crate) version: u64,
}

/// The copies that a plan wants, made anew where the elements have changed since. `seen` are the versions of what owns memory,
/// which is cloned when a call finds it as the last one left it: a clone costs more than it gains in one call.
pub(crate) fn refresh(
    (packed, seen): (&mut Vec<Option<Packed>>, &mut Vec<Option<u64>>),
    plan: &Plan,
    lease: &Lease<'_>,
    pool: &Pool,
) {
    packed.resize_with(lease.captured().len(), || None);
    seen.resize(lease.captured().len(), None);
    // Runs of neighbours lie in their order as they are.
    if plan.offsets.is_empty() || are_neighbours(&plan.offsets) {
        return;
    }
    for (c, capture) in lease.captured().iter().enumerate() {
        let Usage::InStep { offset, written: false } = plan.usage[c] else { continue };
        let (Some(lent), Some(version)) = (lease.vector(c), capture.home().map(Home::version)) else { continue };
        let ops = lent.ops();
        if !is_laid_out(ops, plan.offsets.len()) {
            continue;
        }
        if packed[c].as_ref().is_some_and(|old| old.version == version) {
            continue;
        }
        let first = plan.range.start.wrapping_add(offset);
        assert!(first <= lent.len() && plan.range.len() <= lent.len() - first);
        let source = Shared(lent.at(first));
        let old = packed[c].take().map(|old| old.elements).filter(|old| ops.bits && old.len() == plan.offsets.len());
        if !ops.bits {
            if seen[c].replace(version) != Some(version) {
                continue;
            }
            // SAFETY: every offset is below the number of iterations, and nobody writes what the loop only reads.
            let elements = unsafe { clone_each(source, ops, &plan.offsets, pool) };
            packed[c] = elements.map(|elements| Packed { elements, version });
            continue;
        }
        let fresh = old.is_none();
        let mut elements = old.unwrap_or_else(|| RawBuf::new(ops, plan.offsets.len()));
        let target = Shared(elements.as_mut_ptr());
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

/// Clones of elements in this order. None if cloning one of them panics.
///
/// # Safety
/// `source` is followed by an element at each offset, and nobody writes them meanwhile.
unsafe fn clone_each(source: Shared, ops: &'static ElementOps, offsets: &[u32], pool: &Pool) -> Option<RawBuf> {
    let stretches: Vec<&[u32]> = offsets.chunks(STRETCH / 8).collect();
    let cloned = pool.map(stretches.len(), |s| {
        panics::caught(|| {
            let mut stretch = RawBuf::new(ops, stretches[s].len());
            for (k, &offset) in stretches[s].iter().enumerate() {
                if let Some(&next) = stretches[s].get(k + AHEAD) {
                    fetch_bytes(source.get().wrapping_add(next as usize * ops.size), ops.size);
                }
                // SAFETY: the caller's promise.
                unsafe { stretch.push_clones(source.get().wrapping_add(offset as usize * ops.size), 1) };
            }
            stretch
        })
        .ok()
    });
    let mut elements = RawBuf::new(ops, offsets.len());
    for mut stretch in cloned.into_iter().collect::<Option<Vec<RawBuf>>>()? {
        let at = elements.len();
        assert!(stretch.len() <= offsets.len() - at);
        // SAFETY: there is room for them (asserted); they move, and the stretch forgets them.
        unsafe {
            let to = elements.as_mut_ptr().add(at * ops.size);
            std::ptr::copy_nonoverlapping(stretch.as_ptr(), to, stretch.len() * ops.size);
            elements.set_len(at + stretch.len());
            stretch.set_len(0);
        }
    }
    Some(elements)
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
                    if let Some(&next) = offsets.get(k + AHEAD) {
                        fetch_bytes(source.wrapping_add(next as usize * $n), 1);
                    }
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
