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

struct Both(*const u8, *mut u8);
// SAFETY: addresses that the caller of `copy` vouches for.
unsafe impl Sync for Both {}

/// # Safety
/// Both ranges are there, lie apart, and are used by nobody else.
unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize, pool: &Pool) {
    let both = Both(from, to);
    let both = &both;
    pool.map(bytes.div_ceil(CHUNK), |k| {
        let n = CHUNK.min(bytes - k * CHUNK);
        // SAFETY: chunks of the ranges, no two of them the same.
        unsafe { std::ptr::copy_nonoverlapping(both.0.add(k * CHUNK), both.1.add(k * CHUNK), n) };
    });
}
