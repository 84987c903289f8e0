//! What the elements held before a loop, so that one that fails leaves no trace.
//!
//! # Why this is sound
//! Elements are saved before a loop's first body runs and put back when its last has ended, by the thread that has the
//! DDSs borrowed and those that it waits for. They are plain: their bytes are all there is to them.
#![allow(unsafe_code)]

use std::ops::Range;

use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ElementOps;
use crate::session::pool::Pool;

/// Bytes that a thread copies at once.
const CHUNK: usize = 1 << 20;

/// Saves elements to a buffer, which may be there from an earlier time.
///
/// # Safety
/// `from` holds the elements of the range and before, of plain `ops`, and nobody writes them meanwhile.
pub(crate) unsafe fn save(
    kept: &mut Option<RawBuf>,
    ops: &'static ElementOps,
    from: *const u8,
    range: Range<usize>,
    pool: &Pool,
) {
    let len = range.len();
    let mut buffer = kept.take().filter(|buffer| buffer.len() == len).unwrap_or_else(|| {
        let mut fresh = RawBuf::for_random_access(ops, len);
        // SAFETY: plain elements need no drop, and nobody reads them before they are copied, below.
        unsafe { fresh.set_len(len) };
        fresh
    });
    // SAFETY: as long as the range.
    unsafe { copy(from.wrapping_add(range.start * ops.size), buffer.as_mut_ptr(), len * ops.size, pool) };
    *kept = Some(buffer);
}

/// Puts saved elements back.
///
/// # Safety
/// `to` has room for the elements of the range and before, and nobody else uses them meanwhile.
pub(crate) unsafe fn restore(saved: &RawBuf, to: *mut u8, start: usize, pool: &Pool) {
    let size = saved.ops().size;
    // SAFETY: the caller's promise.
    unsafe { copy(saved.as_ptr(), to.wrapping_add(start * size), saved.len() * size, pool) };
}

/// Saves the elements of some ranges, one after the other.
///
/// # Safety
/// `from` holds the elements of the ranges and before, of plain `ops`, and nobody writes them meanwhile.
pub(crate) unsafe fn save_runs(ops: &'static ElementOps, from: *const u8, runs: &[Range<u32>], pool: &Pool) -> RawBuf {
    let len = runs.iter().map(ExactSizeIterator::len).sum();
    let mut buffer = RawBuf::for_random_access(ops, len);
    let mut to = buffer.as_mut_ptr();
    for run in runs {
        // SAFETY: the caller's promise; the buffer has room for all ranges.
        unsafe { copy(from.wrapping_add(run.start as usize * ops.size), to, run.len() * ops.size, pool) };
        to = to.wrapping_add(run.len() * ops.size);
    }
    // SAFETY: `len` elements were copied, and plain elements need no drop.
    unsafe { buffer.set_len(len) };
    buffer
}

/// Puts elements back in the ranges from which they were saved.
///
/// # Safety
/// `to` has room for the elements of the ranges and before, and nobody else uses them meanwhile.
pub(crate) unsafe fn restore_runs(saved: &RawBuf, to: *mut u8, runs: &[Range<u32>], pool: &Pool) {
    let (size, mut from) = (saved.ops().size, saved.as_ptr());
    assert!(saved.len() == runs.iter().map(ExactSizeIterator::len).sum::<usize>(), "as many elements as places");
    for run in runs {
        // SAFETY: the caller's promise; as many elements were saved.
        unsafe { copy(from, to.wrapping_add(run.start as usize * size), run.len() * size, pool) };
        from = from.wrapping_add(run.len() * size);
    }
}

struct Both(*const u8, *mut u8);
// SAFETY: addresses that the caller of `copy` vouches for.
unsafe impl Sync for Both {}

/// # Safety
/// Both ranges are there, lie apart, and are used by nobody else.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, pool: &Pool) {
    if bytes <= CHUNK {
        // SAFETY: the caller's promise.
        return unsafe { std::ptr::copy_nonoverlapping(from, to, bytes) };
    }
    let both = Both(from, to);
    let both = &both;
    pool.map(bytes.div_ceil(CHUNK), |k| {
        let n = CHUNK.min(bytes - k * CHUNK);
        // SAFETY: chunks of the ranges, no two of them the same.
        unsafe { std::ptr::copy_nonoverlapping(both.0.add(k * CHUNK), both.1.add(k * CHUNK), n) };
    });
}
