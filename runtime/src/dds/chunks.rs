//! Chunks of elements, concatenated in one buffer.
//!
//! # Why this is sound
//! 1. A chunk's elements are moved: its `Vec` forgets them before their bytes are copied, and the buffer counts them only
//!    when all chunks are there. A panic between leaves elements that nobody drops, and none that is dropped twice.
//! 2. Where a chunk goes is the sum of the lengths before it, so no two chunks overlap, and the last ends where the buffer
//!    does, whose elements are as many numbers (`elements_of`). Lengths can't change meanwhile: the chunks are owned.
//! 3. Each chunk is taken out of its mutex by one thread. Threads share the buffer's address alone, and write disjoint
//!    ranges of it.
//! 4. Pages are given back within the allocation of an empty `Vec`, whose contents nobody may rely on.
#![allow(unsafe_code)]

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::{ElementOps, ops_of};
use crate::planner::recording::MAX_LEN;
use crate::session::error::{Error, Result};
use crate::session::{SessionInner, locked};

/// From this many bytes on, threads move chunks side by side.
const WORTH_THREADS: usize = 4 << 20;

/// An address that threads write through, each its own range.
struct Destination<T>(*mut T);

// SAFETY: `Element` requires `Send`, and who writes where is rule 3.
unsafe impl<T: Element> Send for Destination<T> {}
// SAFETY: `Element` requires `Send`, and who writes where is rule 3.
unsafe impl<T: Element> Sync for Destination<T> {}

impl<T: Element> Destination<T> {
    /// Moves a chunk to the elements from `offset` on, and gives its memory back.
    ///
    /// # Safety
    /// The whole chunk fits there, and nobody else uses that range.
    unsafe fn take(&self, offset: usize, mut chunk: Vec<T>) {
        let len = chunk.len();
        // SAFETY: no element is left in the vector's count, so it drops none of those that are copied (rule 1); the
        // caller vouches for the range.
        unsafe {
            chunk.set_len(0);
            std::ptr::copy_nonoverlapping(chunk.as_ptr(), self.0.add(offset), len);
        }
        give_back(&mut chunk);
    }
}

/// How many elements of this kind a chunk's numbers are.
fn elements_of<T: Element>(ops: &'static ElementOps, numbers: usize) -> usize {
    let whole = ops.of_one().is(ops_of::<T>()) && numbers.is_multiple_of(ops.width());
    assert!(whole, "{numbers} numbers are no elements of this kind");
    numbers / ops.width()
}

/// Checks that a DVector may have this many elements of this size.
pub(crate) fn check_len(len: usize, size: usize) -> Result<()> {
    // (No more bytes have addresses, and some go into alignment.)
    let max = MAX_LEN.min((isize::MAX as usize >> 1) / size.max(1));
    if len > max { Err(Error::TooLong { len, max }) } else { Ok(()) }
}

/// One buffer with the elements of all chunks, in their order: each chunk has `T`s, or whole rows of them. Chunks are freed as
/// they are moved.
pub(crate) fn concatenate<T: Element>(
    session: &SessionInner,
    ops: &'static ElementOps,
    chunks: Vec<Vec<T>>,
) -> Result<RawBuf> {
    let numbers = chunks.iter().fold(0usize, |sum, chunk| sum.saturating_add(chunk.len()));
    let len = elements_of::<T>(ops, numbers);
    check_len(len, ops.size)?;
    let mut buffer = RawBuf::for_random_access(ops, len);
    let destination = Destination(buffer.base().cast::<T>());
    let mut starts = Vec::with_capacity(chunks.len());
    let mut end = 0;
    for chunk in &chunks {
        starts.push(end);
        end += chunk.len();
    }
    if chunks.len() == 1 || numbers.saturating_mul(size_of::<T>()) < WORTH_THREADS {
        for (start, chunk) in starts.into_iter().zip(chunks) {
            // SAFETY: rule 2.
            unsafe { destination.take(start, chunk) };
        }
    } else {
        let next = AtomicUsize::new(0);
        let chunks: Vec<Mutex<Vec<T>>> = chunks.into_iter().map(Mutex::new).collect();
        session.pool()?.everywhere(chunks.len(), |_| {
            loop {
                let k = next.fetch_add(1, Relaxed);
                let (Some(chunk), Some(&start)) = (chunks.get(k), starts.get(k)) else { break };
                let chunk = std::mem::take(&mut *locked(chunk));
                // SAFETY: rules 2 and 3.
                unsafe { destination.take(start, chunk) };
            }
        });
    }
    // SAFETY: every chunk was moved, and the buffer was made with this capacity.
    unsafe { buffer.set_len(len) };
    Ok(buffer)
}

/// One buffer with the elements of a vector, which has `T`s or whole rows of them.
pub(crate) fn single<T: Element>(ops: &'static ElementOps, chunk: Vec<T>) -> RawBuf {
    let len = elements_of::<T>(ops, chunk.len());
    let mut buffer = RawBuf::new(ops, len);
    // SAFETY: the buffer was made with this capacity, and is nobody else's.
    unsafe {
        Destination(buffer.base().cast::<T>()).take(0, chunk);
        buffer.set_len(len);
    }
    buffer
}

/// Gives the pages of an empty vector back to the system before the allocator has it, which may keep what it is given:
/// chunks and buffer would then need twice the memory.
#[cfg(all(target_os = "linux", not(miri)))]
fn give_back<T>(empty: &mut Vec<T>) {
    const PAGE: usize = 4096;
    debug_assert!(empty.is_empty());
    let bytes = empty.capacity().saturating_mul(size_of::<T>());
    let base = empty.as_mut_ptr().cast::<u8>();
    let before = base.addr().wrapping_neg() % PAGE;
    if bytes >= before + 16 * PAGE {
        let whole = (bytes - before) / PAGE * PAGE;
        // SAFETY: whole pages within the vector's own allocation, which holds no element (rule 4); a refusal is harmless.
        unsafe { libc::madvise(base.wrapping_add(before).cast(), whole, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn give_back<T>(_empty: &mut Vec<T>) {}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;
    use crate::memory::decode::DecodeError;

    /// Counts how many of it live, through the pointer that all share.
    #[derive(Clone)]
    struct Counted(u64, Arc<()>);

    // SAFETY: not plain, so nothing is claimed.
    unsafe impl Element for Counted {
        const PLAIN: bool = false;
        fn encode(&self, out: &mut Vec<u8>) {
            self.0.encode(out);
        }
        fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
            u64::decode(bytes).map(|number| Counted(number, Arc::new(())))
        }
    }

    fn session(threads: usize) -> Arc<SessionInner> {
        crate::Session::builder().threads(threads).build().unwrap().inner()
    }

    #[test]
    fn each_element_is_dropped_once() {
        for (threads, len) in [(1, 10), (2, 10), (3, 3000)] {
            let owner = Arc::new(());
            let chunks = (0..400u64)
                .map(|k| (0..k % 3 * len).map(|i| Counted(1_000_000 * k + i, Arc::clone(&owner))).collect())
                .collect::<Vec<Vec<Counted>>>();
            let numbers: Vec<u64> = chunks.iter().flatten().map(|counted| counted.0).collect();
            let buffer = concatenate(&session(threads), ops_of::<Counted>(), chunks).unwrap();
            assert!(buffer.as_slice::<Counted>().iter().map(|counted| counted.0).eq(numbers.iter().copied()));
            assert!(buffer.as_slice::<Counted>().iter().all(|counted| Arc::ptr_eq(&counted.1, &owner)));
            assert_eq!(Arc::strong_count(&owner), numbers.len() + 1);
            drop(buffer);
            assert_eq!(Arc::strong_count(&owner), 1);
        }
    }

    #[test]
    fn large_chunks_keep_their_order() {
        let chunks: Vec<Vec<[u64; 2]>> =
            (0..9).map(|k| (0..40_000 + 13 * k).map(|i| [k, i]).collect()).chain([Vec::new()]).collect();
        let flat: Vec<[u64; 2]> = chunks.iter().flatten().copied().collect();
        for threads in [1, 2, 4] {
            let buffer = concatenate(&session(threads), ops_of::<[u64; 2]>(), chunks.clone()).unwrap();
            assert_eq!(buffer.as_slice::<[u64; 2]>(), flat);
        }
    }

    #[test]
    fn elements_without_a_size() {
        let buffer = concatenate(&session(2), ops_of::<()>(), vec![vec![(); 3], vec![], vec![(); 4]]).unwrap();
        assert_eq!(buffer.len(), 7);
        let too_long = concatenate(&session(1), ops_of::<()>(), vec![vec![(); MAX_LEN], vec![()]]).map(|_| ());
        assert!(matches!(too_long, Err(Error::TooLong { len, .. }) if len == MAX_LEN + 1));
    }

    proptest! {
        #[test]
        fn chunks_follow_each_other(chunks in prop::collection::vec(prop::collection::vec(".{0,4}", 0..9), 0..9)) {
            let flat = chunks.concat();
            let buffer = concatenate(&session(1), ops_of::<String>(), chunks).unwrap();
            prop_assert_eq!(buffer.as_slice::<String>(), flat);
        }
    }
}
