//! A worker's memory of a DDS: addresses for every element, pages for those that it holds.
//!
//! Blocks run on the same addresses as in one process, `base + index`; the system gives memory to the pages that are
//! touched, which are those of the worker's own parts. Where the process has a limit of memory, a large DDS has a file.
//!
//! # Why this is sound
//! 1. The reservation is `len` elements long, suitably aligned and zeroed; it lives as long as the shard.
//! 2. Plain elements are values whatever their bytes are, so all of the reservation is initialised. Of others `whole`
//!    says which are; blocks and encoders are given those only (the plan's parts arrive before the blocks that use
//!    them), and the shard drops exactly those.
//! 3. Who may read or write which element when is the plan's matter: the functions that say `unsafe` state what they
//!    need, and `dispatch` provides it.
#![allow(unsafe_code)]

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use stradsap_dds_server::records;

use crate::memory::buffer::RawBuf;
use crate::memory::decode::DecodeError;
use crate::memory::element_ops::ElementOps;
use crate::memory::locked;
use crate::memory::ranges::Ranges;
use crate::memory::spare::Spare;
use crate::memory::spill::FileMemory;

pub(crate) const PAGE: usize = 4096;
const HUGE_PAGE: usize = 2 << 20;

pub(crate) struct Reservation {
    base: NonNull<u8>,
    room: Room,
    len: usize,
    ops: &'static ElementOps,
    /// Elements that are not plain: which of them are there.
    whole: Mutex<Ranges>,
    spare: Arc<Spare>,
}

/// Where the elements lie.
enum Room {
    /// In a mapping of memory, of this many bytes.
    Memory(NonNull<u8>, usize),
    File(FileMemory),
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Room::Memory(ptr, mapped) = self {
            // SAFETY: the mapping that `new` made, which nobody uses any more.
            unsafe { libc::munmap(ptr.as_ptr().cast(), *mapped) };
        }
    }
}

// SAFETY: `Element` requires `Send` and `Sync`; access to the elements is rule 3.
unsafe impl Send for Reservation {}
// SAFETY: `Element` requires `Send` and `Sync`; access to the elements is rule 3.
unsafe impl Sync for Reservation {}

impl Reservation {
    /// Addresses for the elements of a DDS: in a file where the process has a limit of memory. The file has room for all of them, though
    /// a worker may hold few. None if the system has no such range left.
    pub(crate) fn of_dds(ops: &'static ElementOps, len: usize) -> Option<Reservation> {
        match FileMemory::new(ops.size.checked_mul(len)?, ops.align()) {
            Some(file) => {
                let reservation = Self::at(file.ptr(), Room::File(file), ops, len);
                // SAFETY: nobody has put anything there.
                unsafe { reservation.forget(0..len) };
                Some(reservation)
            }
            None => Self::new(ops, len),
        }
    }

    /// Addresses for `len` elements in memory. None if the system has no such range left.
    pub(crate) fn new(ops: &'static ElementOps, len: usize) -> Option<Reservation> {
        let bytes = ops.size.checked_mul(len)?;
        let align = ops.align().max(if bytes >= HUGE_PAGE { HUGE_PAGE } else { PAGE });
        let mapped = bytes.checked_add(align)?.max(PAGE);
        // Miri knows no other flags, and no advice.
        let reserve = if cfg!(miri) { 0 } else { libc::MAP_NORESERVE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | reserve;
        // SAFETY: a new private mapping, apart from everything else.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), mapped, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return None;
        }
        let ptr = NonNull::new(at.cast::<u8>())?;
        let offset = ptr.as_ptr().addr().wrapping_neg() % align;
        // SAFETY: the mapping is longer than the elements by the alignment.
        let base = unsafe { ptr.add(offset) };
        let reservation = Self::at(base, Room::Memory(ptr, mapped), ops, len);
        reservation.in_small_pages(false);
        Some(reservation)
    }

    /// Whether what is touched from now on takes a page of memory, or a huge one.
    pub(crate) fn in_small_pages(&self, small: bool) {
        let bytes = self.len * self.ops.size;
        if bytes >= HUGE_PAGE && matches!(self.room, Room::Memory(..)) && !cfg!(miri) {
            let advice = if small { libc::MADV_NOHUGEPAGE } else { libc::MADV_HUGEPAGE };
            // SAFETY: within the mapping; advice changes no contents, and a refusal is harmless.
            unsafe { libc::madvise(self.base().cast(), bytes, advice) };
        }
    }

    fn at(base: NonNull<u8>, room: Room, ops: &'static ElementOps, len: usize) -> Reservation {
        Reservation { base, room, len, ops, whole: Mutex::default(), spare: Arc::default() }
    }

    /// The file that the elements lie in, if they do.
    pub(crate) fn file(&self) -> Option<&FileMemory> {
        match &self.room {
            Room::File(file) => Some(file),
            Room::Memory(..) => None,
        }
    }

    /// Memory for copies of elements.
    pub(crate) fn spare(&self) -> &Arc<Spare> {
        &self.spare
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn ops(&self) -> &'static ElementOps {
        self.ops
    }

    /// To be called for what is about to be used.
    fn check(&self, range: &Range<usize>) {
        assert!(range.start <= range.end && range.end <= self.len, "a part beyond the end of its DDS");
        if let Some(file) = self.file() {
            file.used(file.slabs(self.bytes_of(range)));
        }
    }

    fn bytes_of(&self, range: &Range<usize>) -> Range<usize> {
        range.start * self.ops.size..range.end * self.ops.size
    }

    /// Whether elements travel as their memory.
    pub(crate) fn is_plain(&self) -> bool {
        self.ops.plain
    }

    /// The memory of plain elements.
    ///
    /// # Safety
    /// Nobody writes them while the slice lives.
    pub(crate) unsafe fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.check(&range);
        assert!(self.ops.plain, "elements that are not plain have no bytes to share");
        // SAFETY: within the reservation (checked), initialised (rule 2); the caller's promise.
        unsafe { std::slice::from_raw_parts(self.base().add(range.start * self.ops.size), range.len() * self.ops.size) }
    }

    /// The memory of plain elements, to be overwritten.
    ///
    /// # Safety
    /// Nobody else uses them while the slice lives.
    #[allow(clippy::mut_from_ref)]
    pub(crate) unsafe fn bytes_mut(&self, range: Range<usize>) -> &mut [u8] {
        self.check(&range);
        assert!(self.ops.plain, "elements that are not plain have no bytes to share");
        // SAFETY: within the reservation (checked), initialised (rule 2); the caller's promise.
        unsafe {
            std::slice::from_raw_parts_mut(self.base().add(range.start * self.ops.size), range.len() * self.ops.size)
        }
    }

    /// Appends what the elements encode to.
    ///
    /// # Safety
    /// All of them are there, and nobody writes them meanwhile.
    pub(crate) unsafe fn encode(&self, range: Range<usize>, out: &mut Vec<u8>) {
        self.check(&range);
        // SAFETY: the caller's promise.
        unsafe { self.ops.encode_run(self.base().add(range.start * self.ops.size), range.len(), out) };
    }

    /// The same, or none if not all of them are there.
    ///
    /// # Safety
    /// Nobody writes them meanwhile.
    pub(crate) unsafe fn encode_there(&self, range: Range<usize>, out: &mut Vec<u8>) -> Option<()> {
        let there = self.ops.plain || locked(&self.whole).segments(range.clone()).iter().all(|&(_, there)| there);
        // SAFETY: the caller's promise.
        there.then(|| unsafe { self.encode(range, out) })
    }

    /// The first of these elements behind their lengths (see `records`), about this many bytes of them, in place of what `out` holds;
    /// gives the first that is left. None if an element is too large.
    ///
    /// # Safety
    /// As for `encode`.
    pub(crate) unsafe fn records(&self, range: Range<usize>, most: usize, out: &mut Vec<u8>) -> Option<usize> {
        // SAFETY: the caller's promise.
        records::fill(out, range, most, |at, out| unsafe { self.encode(at..at + 1, out) })
    }

    /// Puts encoded elements in their places. On an error nothing has changed.
    ///
    /// # Safety
    /// Nobody else uses these elements meanwhile.
    pub(crate) unsafe fn decode(&self, range: Range<usize>, mut bytes: &[u8]) -> Result<(), DecodeError> {
        self.check(&range);
        let mut fresh = RawBuf::new(self.ops, range.len());
        fresh.push_decoded(range.len(), &mut bytes)?;
        if !bytes.is_empty() {
            return Err(DecodeError::Trailing { left: bytes.len() });
        }
        // SAFETY: the caller's promise.
        unsafe { self.move_in(range, fresh) };
        Ok(())
    }

    /// Moves elements to their places.
    ///
    /// # Safety
    /// Nobody else uses these places meanwhile.
    pub(crate) unsafe fn move_in(&self, range: Range<usize>, fresh: RawBuf) {
        // SAFETY: the caller's promise.
        unsafe { self.move_in_ranges(std::iter::once(range), fresh) };
    }

    /// Moves elements to their places, which don't overlap.
    ///
    /// # Safety
    /// Nobody else uses these places meanwhile.
    unsafe fn move_in_ranges(&self, ranges: impl Iterator<Item = Range<usize>> + Clone, mut fresh: RawBuf) {
        ranges.clone().for_each(|range| self.check(&range));
        assert!(fresh.len() == ranges.clone().map(|range| range.len()).sum::<usize>(), "as many elements as places");
        let mut whole = locked(&self.whole);
        let mut from = fresh.as_mut_ptr();
        let mut replaced = Vec::new();
        // SAFETY: both hold as many elements as are moved and lie apart. What was there before goes to `fresh`,
        // of which the elements that were moved to empty places are forgotten and the others dropped.
        unsafe { fresh.set_len(0) };
        for range in ranges {
            let mut move_in = |segment: Range<usize>, there: bool| {
                let n = segment.len();
                // SAFETY: as above; every range was checked.
                unsafe {
                    let to = self.base().add(segment.start * self.ops.size);
                    if there {
                        std::ptr::swap_nonoverlapping(from, to, n * self.ops.size);
                        replaced.push((from, n));
                    } else {
                        std::ptr::copy_nonoverlapping(from, to, n * self.ops.size);
                    }
                    from = from.add(n * self.ops.size);
                }
            };
            if self.ops.plain {
                move_in(range, false);
                continue;
            }
            for (segment, there) in whole.segments(range.clone()) {
                move_in(segment, there && self.ops.needs_drop);
            }
            whole.insert(range);
        }
        drop(whole);
        for (old, n) in replaced {
            // Versions that are out of date are nobody's: what their destructors say is printed, and no more.
            // SAFETY: they were moved here, and `fresh` doesn't count them.
            let dropping = catch_unwind(AssertUnwindSafe(|| unsafe { self.ops.drop_elements(old, n) }));
            dropping.unwrap_or_else(std::mem::forget);
        }
    }

    /// Appends what some elements encode to, one after the other.
    ///
    /// # Safety
    /// All of them are there, and nobody writes them meanwhile.
    pub(crate) unsafe fn encode_list(&self, elements: &[u32], out: &mut Vec<u8>) {
        for &i in elements {
            let at = i as usize;
            // SAFETY: the caller's promise.
            unsafe { self.encode(at..at + 1, out) };
        }
    }

    /// Puts encoded elements in their places. On an error nothing has changed.
    ///
    /// # Safety
    /// Nobody else uses these elements meanwhile.
    pub(crate) unsafe fn decode_list(
        &self,
        elements: impl ExactSizeIterator<Item = usize> + Clone,
        mut bytes: &[u8],
    ) -> Result<(), DecodeError> {
        let mut fresh = RawBuf::new(self.ops, elements.len());
        fresh.push_decoded(elements.len(), &mut bytes)?;
        if !bytes.is_empty() {
            return Err(DecodeError::Trailing { left: bytes.len() });
        }
        let places = elements.map(|at| at..at + 1);
        // SAFETY: the caller's promise.
        unsafe { self.move_in_ranges(places, fresh) };
        Ok(())
    }

    /// Gives the memory of elements back to the system: plain ones read as zeros from now on, or in a file as before; others aren't there.
    ///
    /// # Safety
    /// Nobody needs what they hold.
    pub(crate) unsafe fn forget(&self, range: Range<usize>) {
        self.check(&range);
        if !self.ops.plain {
            self.drop_there(&range);
        }
        let bytes = self.bytes_of(&range);
        if let Some(file) = self.file() {
            return file.forget(file.slabs_within(bytes));
        }
        let start = (self.base().addr() + bytes.start).next_multiple_of(PAGE);
        let end = (self.base().addr() + bytes.end) / PAGE * PAGE;
        if start < end {
            // SAFETY: whole pages of this mapping, all of them of elements that the caller gives up.
            unsafe { libc::madvise(self.base().with_addr(start).cast(), end - start, libc::MADV_DONTNEED) };
        }
    }
}

impl Reservation {
    /// Drops those of these elements that are there.
    fn drop_there(&self, range: &Range<usize>) {
        let there = locked(&self.whole).take(range);
        for part in there.into_iter().filter(|_| self.ops.needs_drop) {
            let at = self.base().wrapping_add(part.start * self.ops.size);
            // What their destructors say is printed, and no more.
            // SAFETY: these elements were there (rule 2) and no longer are; nobody uses them (`forget`), or the shard any more (`drop`).
            let dropping = catch_unwind(AssertUnwindSafe(|| unsafe { self.ops.drop_elements(at, part.len()) }));
            dropping.unwrap_or_else(std::mem::forget);
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.drop_there(&(0..self.len));
        // The room goes after this.
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element::Element;
    use crate::memory::element_ops::ops_of;

    fn encoded<T: Element>(elements: &[T]) -> Vec<u8> {
        let mut out = Vec::new();
        elements.iter().for_each(|element| element.encode(&mut out));
        out
    }

    #[test]
    fn strings_come_are_replaced_and_go() {
        let shard = Reservation::new(ops_of::<String>(), 1000).unwrap();
        let words: Vec<String> = (0..10).map(|i| format!("a word long enough for the heap, {i}")).collect();
        // SAFETY: nobody else has the shard.
        unsafe {
            shard.decode(100..110, &encoded(&words)).unwrap();
            shard.decode(105..115, &encoded(&words)).unwrap();
            let mut out = Vec::new();
            shard.encode(100..115, &mut out);
            assert_eq!(out, encoded(&[&words[..5], &words[..]].concat()));
            assert!(shard.decode(0..10, &out[..out.len() / 2]).is_err());
        }
    }

    #[test]
    fn single_elements_come_and_are_replaced() {
        let shard = Reservation::new(ops_of::<String>(), 100).unwrap();
        let words: Vec<String> = (0..4).map(|i| format!("a word long enough for the heap, {i}")).collect();
        // SAFETY: nobody else has the shard.
        unsafe {
            shard.decode_list([3, 50, 51, 99].into_iter(), &encoded(&words)).unwrap();
            shard.decode_list([51, 7].into_iter(), &encoded(&words[..2])).unwrap();
            let mut out = Vec::new();
            shard.encode_list(&[3, 7, 50, 51, 99], &mut out);
            assert_eq!(out, encoded(&[0, 1, 1, 0, 3].map(|k: usize| words[k].clone())));
            assert!(shard.decode_list([3, 7].into_iter(), &out[..out.len() / 2]).is_err());
            assert!(shard.encode_there(4..5, &mut out).is_none());
        }
    }

    #[test]
    fn only_touched_pages_cost_memory() {
        let shard = Reservation::new(ops_of::<[f32; 16]>(), 1 << 30).unwrap();
        // SAFETY: nobody else has the shard.
        unsafe {
            shard.bytes_mut(5_000_000..5_000_010).fill(1);
            assert_eq!(shard.bytes(4_999_999..5_000_001)[63..65], [0, 1]);
            shard.forget(4_900_000..5_100_000);
            assert!(shard.bytes(5_000_000..5_000_010).iter().all(|&byte| byte == 0));
        }
    }
}
