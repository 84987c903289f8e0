//! Memory of elements whose type the engine does not know.
//!
//! # Why this is sound
//! 1. A [`RawBuf`] is a vector of `len` initialised elements of the one type whose [`ElementOps`] it holds;
//!    `ptr` is valid for `capacity` of them and aligned to at least 64 bytes.
//! 2. Elements enter by clone, by move or decoded through the functions below, which count them only once they are
//!    whole, so a panic in a user's `clone` or `decode` leaves a shorter buffer and no half element.
//! 3. An element is one `T`, or a row of `width` of them (rule 1 of [`crate::memory::element_ops`]).
#![allow(unsafe_code)]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::any::TypeId;
use std::ptr::NonNull;

use crate::memory::decode::DecodeError;
use crate::memory::element::Element;
use crate::memory::element_ops::ElementOps;
use crate::memory::spill::{Carver, FileMemory};

/// Rows start on a cache line, so that a vector load never straddles two.
const ROW_ALIGN: usize = 64;
/// From this size on, ask for huge pages: a model row is touched at random, and the TLB is what misses.
const HUGE_PAGE: usize = 2 << 20;

/// A vector of elements of one erased type.
pub(crate) struct RawBuf {
    ptr: NonNull<u8>,
    len: usize,
    capacity: usize,
    ops: &'static ElementOps,
    memory: Memory,
}

// SAFETY: `Element` requires `Send` and `Sync`, and a RawBuf owns its elements.
unsafe impl Send for RawBuf {}
// SAFETY: elements are `Sync`; a shared RawBuf gives out addresses only, whose users state their own argument.
unsafe impl Sync for RawBuf {}

impl RawBuf {
    /// Room for `capacity` elements, none of them there yet, to be used from one end to the other.
    pub(crate) fn new(ops: &'static ElementOps, capacity: usize) -> Self {
        Self::allocate(ops, capacity, false)
    }

    /// Room for `capacity` elements that will be touched at random, on huge pages where that is worth while.
    pub(crate) fn for_random_access(ops: &'static ElementOps, capacity: usize) -> Self {
        Self::allocate(ops, capacity, true)
    }

    /// As `new`; a small one shares a file with others where the process has a limit of memory.
    pub(crate) fn carved(ops: &'static ElementOps, capacity: usize, carver: &Carver) -> Self {
        match carver.carve(ops.size.saturating_mul(capacity), ops.align) {
            Some(file) => Self::in_file(ops, capacity, file),
            None => Self::new(ops, capacity),
        }
    }

    fn in_file(ops: &'static ElementOps, capacity: usize, file: FileMemory) -> Self {
        RawBuf { ptr: file.ptr(), len: 0, capacity, ops, memory: Memory::File(file) }
    }

    fn allocate(ops: &'static ElementOps, capacity: usize, random_access: bool) -> Self {
        let bytes = ops.size.saturating_mul(capacity);
        if let Some(file) = FileMemory::new(bytes, ops.align) {
            return Self::in_file(ops, capacity, file);
        }
        let huge = random_access && bytes >= HUGE_PAGE;
        let align = ops.align.max(if huge { HUGE_PAGE } else { ROW_ALIGN });
        let Ok(layout) = Layout::from_size_align(bytes, align) else {
            handle_alloc_error(Layout::new::<u8>());
        };
        let ptr = if bytes == 0 {
            // SAFETY: no alignment is zero.
            unsafe { NonNull::new_unchecked(std::ptr::without_provenance_mut(align)) }
        } else {
            // SAFETY: the layout has a size.
            match NonNull::new(unsafe { alloc(layout) }) {
                Some(ptr) => ptr,
                None => handle_alloc_error(layout),
            }
        };
        if huge {
            advise_huge(ptr.as_ptr(), bytes);
        }
        RawBuf { ptr, len: 0, capacity, ops, memory: Memory::Heap(ptr, layout) }
    }

    /// The file that the elements lie in, if they do.
    pub(crate) fn file(&self) -> Option<&FileMemory> {
        match &self.memory {
            Memory::File(file) => Some(file),
            Memory::Heap(..) => None,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many elements there is room for.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    #[inline]
    pub(crate) fn ops(&self) -> &'static ElementOps {
        self.ops
    }

    #[inline]
    pub(crate) fn as_ptr(&self) -> *const u8 {
        self.ptr.as_ptr()
    }

    #[inline]
    pub(crate) fn as_mut_ptr(&mut self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// The address for writers that share the buffer; who writes what is their argument.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.ptr.as_ptr()
    }

    /// Appends clones of `n` elements.
    ///
    /// # Safety
    /// `src` holds `n` elements of this buffer's type that nobody writes meanwhile.
    #[inline]
    pub(crate) unsafe fn push_clones(&mut self, src: *const u8, n: usize) {
        assert!(self.len + n <= self.capacity, "a buffer of {} is full", self.capacity);
        // SAFETY: the room is there (asserted); the caller vouches for the source. The count rises with
        // each whole element (rule 2).
        unsafe {
            let dst = self.ptr.as_ptr().add(self.len * self.ops.size);
            self.ops.clone_run(src, dst, n, &mut self.len);
        }
    }

    /// Clones `n` elements into those from `at` on, which keep their memory.
    ///
    /// # Safety
    /// `src` holds `n` elements of this buffer's type that nobody writes meanwhile, and that are none of the buffer's.
    pub(crate) unsafe fn clone_into(&mut self, at: usize, src: *const u8, n: usize) {
        assert!(at <= self.len && n <= self.len - at, "elements {at} and {n} more of {}", self.len);
        assert!(self.ops.keeps_room && self.ops.width == 1, "elements that are cloned anew");
        // SAFETY: the elements are there (asserted), and the buffer is borrowed alone; the caller vouches for the source.
        unsafe { (self.ops.clone_into_run)(src, self.ptr.as_ptr().add(at * self.ops.size), n) };
    }

    /// Appends a clone of the first element of another buffer.
    pub(crate) fn push_copy(&mut self, of: &RawBuf) {
        assert!(of.len > 0 && self.ops.is(of.ops), "no element of this type");
        // SAFETY: an element of this type is there, and borrowed.
        unsafe { self.push_clones(of.as_ptr(), 1) };
    }

    /// Appends an element by move.
    pub(crate) fn push<T: Element>(&mut self, value: T) {
        assert!(self.holds::<T>() && self.ops.width == 1, "another element type");
        assert!(self.len < self.capacity, "a buffer of {} is full", self.capacity);
        // SAFETY: there is room for one more, and it is of this type.
        unsafe { self.ptr.as_ptr().cast::<T>().add(self.len).write(value) };
        self.len += 1;
    }

    /// Appends the numbers of some rows, or plain elements.
    pub(crate) fn push_numbers<T: Element>(&mut self, numbers: &[T]) {
        assert!(self.holds::<T>() && numbers.len().is_multiple_of(self.ops.width), "no whole rows of this type");
        // SAFETY: as many elements as this are whole rows of numbers (rule 3).
        unsafe { self.push_clones(numbers.as_ptr().cast(), numbers.len() / self.ops.width) };
    }

    /// Appends `n` elements that it reads back from the front of the bytes. After an error those that were whole stay.
    #[allow(dead_code, reason = "elements that come from elsewhere arrive here")]
    pub(crate) fn push_decoded(&mut self, n: usize, bytes: &mut &[u8]) -> Result<(), DecodeError> {
        let room = self.capacity - self.len;
        if n > room {
            return Err(DecodeError::Room { len: n, room });
        }
        // SAFETY: the room is there. The count rises with each whole element (rule 2).
        unsafe {
            let dst = self.ptr.as_ptr().add(self.len * self.ops.size);
            self.ops.decode_run(bytes, dst, n, &mut self.len)
        }
    }

    /// Appends `n` plain elements, whose bytes the caller fills in.
    ///
    /// # Safety
    /// The elements are used after that alone: these bytes are none of such an element yet.
    pub(crate) unsafe fn push_unfilled(&mut self, n: usize) -> &mut [u8] {
        assert!(self.ops.plain && n <= self.capacity - self.len, "{n} elements where there is no room");
        let bytes = n * self.ops.size;
        // SAFETY: the room is there; plain elements own nothing, and zeros are bytes.
        unsafe {
            let dst = self.ptr.as_ptr().add(self.len * self.ops.size);
            dst.write_bytes(0, bytes);
            self.len += n;
            std::slice::from_raw_parts_mut(dst, bytes)
        }
    }

    /// Appends the bytes of the elements `lo..hi`, for plain ones in one copy.
    pub(crate) fn encode_range(&self, lo: usize, hi: usize, out: &mut Vec<u8>) {
        assert!(lo <= hi && hi <= self.len, "elements {lo}..{hi} of {}", self.len);
        // SAFETY: the range is within the elements that are there (rule 1).
        unsafe { self.ops.encode_run(self.ptr.as_ptr().add(lo * self.ops.size), hi - lo, out) };
    }

    /// A copy of all elements.
    pub(crate) fn copy(&self) -> RawBuf {
        let mut copy = RawBuf::new(self.ops, self.len);
        // SAFETY: `len` elements are there (rule 1), borrowed.
        unsafe { copy.push_clones(self.ptr.as_ptr(), self.len) };
        copy
    }

    /// The memory of plain elements.
    pub(crate) fn bytes(&self) -> &[u8] {
        assert!(self.ops.plain, "elements that are not plain");
        // SAFETY: `len` plain elements are there (rule 1), which have no padding.
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr(), self.len * self.ops.size) }
    }

    /// The elements by type; of rows the numbers, one row after the other.
    pub(crate) fn as_slice<T: 'static>(&self) -> &[T] {
        assert!(self.holds::<T>(), "another element type");
        // SAFETY: `len` elements of this type are there (rule 1), each of them `width` numbers (rule 3).
        unsafe { std::slice::from_raw_parts(self.ptr.as_ptr().cast::<T>(), self.len * self.ops.width) }
    }

    /// The elements by type, to change.
    pub(crate) fn as_mut_slice<T: 'static>(&mut self) -> &mut [T] {
        assert!(self.holds::<T>(), "another element type");
        // SAFETY: rules 1 and 3, and the buffer is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.ptr.as_ptr().cast::<T>(), self.len * self.ops.width) }
    }

    fn holds<T: 'static>(&self) -> bool {
        (self.ops.type_id)() == TypeId::of::<T>()
    }

    /// Forgets the elements without dropping them, where they have been moved out.
    ///
    /// # Safety
    /// Somebody else owns every element now, or they need no drop.
    pub(crate) unsafe fn set_len(&mut self, len: usize) {
        debug_assert!(len <= self.capacity);
        self.len = len;
    }

    /// Frees the memory, and has the system take its pages at once: an allocator may keep what it is given.
    pub(crate) fn give_back(mut self) {
        self.clear();
        if let Memory::Heap(ptr, layout) = &self.memory {
            // SAFETY: no element is left, and nobody else has the buffer.
            unsafe { release(ptr.as_ptr(), layout.size()) };
        }
    }

    pub(crate) fn clear(&mut self) {
        let n = std::mem::take(&mut self.len);
        if self.ops.needs_drop {
            // SAFETY: the first n elements were initialised, and `len` no longer counts them.
            unsafe { self.ops.drop_elements(self.ptr.as_ptr(), n) };
        }
    }
}

impl Drop for RawBuf {
    fn drop(&mut self) {
        // The memory goes after this, even if dropping the elements unwinds.
        self.clear();
    }
}

/// What a buffer has allocated.
enum Memory {
    Heap(NonNull<u8>, Layout),
    File(FileMemory),
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Memory::Heap(ptr, layout) = self
            && layout.size() > 0
        {
            // SAFETY: allocated in `allocate` with this layout, and no element of it is left.
            unsafe { dealloc(ptr.as_ptr(), *layout) };
        }
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
fn advise_huge(ptr: *mut u8, bytes: usize) {
    // SAFETY: the range is the caller's; advice changes no contents, and a refusal is harmless.
    unsafe { libc::madvise(ptr.cast(), bytes, libc::MADV_HUGEPAGE) };
}

/// Asks for large pages where a long list lies that is about to be written: what is read in one stretch is then fetched ahead beyond
/// 4 KiB.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn large_pages(list: &mut [u32]) {
    const LONG: usize = 4 << 20;
    const PAGE: usize = 4096;
    let (ptr, bytes) = (list.as_mut_ptr().cast::<u8>(), size_of_val(list));
    if bytes >= LONG {
        let before = ptr.addr().wrapping_neg() % PAGE;
        // Whole pages within the list, which is the caller's.
        advise_huge(ptr.wrapping_add(before), (bytes - before) / PAGE * PAGE);
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn large_pages(_list: &mut [u32]) {}

/// Asks for the pages of a fresh range at once, instead of one fault each. For callers that are about to write it all.
#[cfg(all(target_os = "linux", not(miri)))]
pub(crate) fn populate(ptr: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    let before = ptr.addr().wrapping_neg() % PAGE;
    if bytes > before + PAGE {
        let whole = (bytes - before) / PAGE * PAGE;
        // SAFETY: whole pages within the caller's range; the advice changes no contents, and a refusal is harmless.
        unsafe { libc::madvise(ptr.wrapping_add(before).cast(), whole, libc::MADV_POPULATE_WRITE) };
    }
}

/// Has the allocator give large blocks back to the system as soon as they are freed. By itself it keeps blocks of up to 32 MiB,
/// once one has been freed; in a process whose large blocks come and go, as a driver's do, the gaps between those add up.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
pub(crate) fn free_large_blocks_at_once() {
    const LARGE: libc::c_int = 256 << 10;
    // SAFETY: this changes where blocks are taken from and nothing else; a refusal is harmless.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(crate) fn free_large_blocks_at_once() {}

/// Has the allocator give what was freed back to the system: after many elements with memory of their own were dropped.
#[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
pub(crate) fn give_freed_back() {
    // SAFETY: blocks that are in use stay as they are.
    unsafe { libc::malloc_trim(0) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu", not(miri))))]
pub(crate) fn give_freed_back() {}

/// Gives the pages of a range back.
///
/// # Safety
/// The range is the caller's own, and may have any contents from then on.
#[cfg(all(target_os = "linux", not(miri)))]
unsafe fn release(ptr: *mut u8, bytes: usize) {
    const PAGE: usize = 4096;
    let before = ptr.addr().wrapping_neg() % PAGE;
    if bytes > before + 16 * PAGE {
        let whole = (bytes - before) / PAGE * PAGE;
        // SAFETY: whole pages within the caller's range; a refusal is harmless.
        unsafe { libc::madvise(ptr.wrapping_add(before).cast(), whole, libc::MADV_DONTNEED) };
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
unsafe fn release(_ptr: *mut u8, _bytes: usize) {}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn populate(_ptr: *mut u8, _bytes: usize) {}

#[cfg(not(all(target_os = "linux", not(miri))))]
fn advise_huge(_ptr: *mut u8, _bytes: usize) {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::element_ops::{ops_of, row_ops};

    #[test]
    fn elements_come_and_go_whole() {
        let mut buf = RawBuf::new(ops_of::<String>(), 3);
        buf.push("a".to_string());
        buf.push("b".to_string());
        let mut copy = RawBuf::new(ops_of::<String>(), 2);
        // SAFETY: two strings are there.
        unsafe { copy.push_clones(buf.as_ptr(), 2) };
        buf.as_mut_slice::<String>()[0].push('!');
        assert_eq!(buf.as_slice::<String>(), ["a!", "b"]);
        assert_eq!(copy.as_slice::<String>(), ["a", "b"]);
    }

    #[test]
    fn all_elements_are_dropped_though_some_panic() {
        use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
        static DROPPED: AtomicUsize = AtomicUsize::new(0);
        #[derive(Clone)]
        struct Angry(u8);
        impl Drop for Angry {
            fn drop(&mut self) {
                DROPPED.fetch_add(1, Relaxed);
                assert!(self.0.is_multiple_of(2), "number {}", self.0);
            }
        }
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl Element for Angry {
            const PLAIN: bool = false;
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(self.0);
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                u8::decode(bytes).map(Angry)
            }
        }
        let mut buf = RawBuf::new(ops_of::<Angry>(), 6);
        (0..6).for_each(|k| buf.push(Angry(k)));
        let note = crate::body::panics::caught(|| drop(buf)).unwrap_err();
        assert_eq!((note.message.as_str(), DROPPED.load(Relaxed)), ("number 1", 6));
    }

    #[test]
    fn rows_start_on_cache_lines() {
        for n in [1, 1000, 1 << 20] {
            let buf = RawBuf::new(ops_of::<f32>(), n);
            assert_eq!(buf.as_ptr().addr() % ROW_ALIGN, 0);
        }
    }

    #[test]
    fn wide_elements_are_aligned_as_they_ask() {
        #[derive(Clone)]
        #[repr(align(256))]
        struct Wide(u8);
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl Element for Wide {
            const PLAIN: bool = false;
            fn encode(&self, out: &mut Vec<u8>) {
                out.push(self.0);
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                u8::decode(bytes).map(Wide)
            }
        }
        for n in [0, 1, 20_000] {
            assert_eq!(RawBuf::new(ops_of::<Wide>(), n).as_ptr().addr() % 256, 0);
        }
    }

    fn through_bytes<T: Element + PartialEq + std::fmt::Debug>(elements: &[T]) {
        let mut buf = RawBuf::new(ops_of::<T>(), elements.len());
        elements.iter().for_each(|element| buf.push(element.clone()));
        let (mut all, mut middle) = (Vec::new(), Vec::new());
        buf.encode_range(0, elements.len(), &mut all);
        buf.encode_range(1, elements.len() - 1, &mut middle);
        let mut one = Vec::new();
        // SAFETY: an element is there.
        unsafe { buf.ops().encode(buf.as_ptr(), &mut one) };
        assert!(all.starts_with(&one) && all[one.len()..].starts_with(&middle));

        let mut copy = RawBuf::new(ops_of::<T>(), elements.len());
        let mut bytes = &all[..];
        copy.push_decoded(1, &mut bytes).unwrap();
        copy.push_decoded(elements.len() - 1, &mut bytes).unwrap();
        assert_eq!((copy.as_slice::<T>(), bytes.len()), (elements, 0));
        assert_eq!(copy.push_decoded(1, &mut &all[..]), Err(DecodeError::Room { len: 1, room: 0 }));

        for end in 0..all.len() {
            copy.clear();
            assert!(copy.push_decoded(elements.len(), &mut &all[..end]).is_err());
            assert!(copy.len() < elements.len() && elements.starts_with(copy.as_slice()), "{end} bytes");
        }
    }

    #[test]
    fn elements_travel_as_bytes() {
        through_bytes(&[[1.5f32, -0.0, f32::INFINITY], [0.0; 3], [7.0; 3]]);
        through_bytes(&["one".to_string(), String::new(), "two".to_string(), "three".to_string()]);
        through_bytes(&[Some(vec![1u16, 2]), None, Some(vec![])]);
        through_bytes(&[(), (), ()]);
    }

    #[test]
    fn rows_of_a_chosen_width_are_elements() {
        let ops = row_ops(ops_of::<u16>(), 3).unwrap();
        assert!(std::ptr::eq(ops, row_ops(ops_of::<u16>(), 3).unwrap()) && ops.is(ops));
        assert!((ops.size, ops.width(), ops.plain) == (6, 3, true) && std::ptr::eq(ops.of_one(), ops_of::<u16>()));
        assert!(!ops.is(row_ops(ops_of::<u16>(), 4).unwrap()) && !ops.is(row_ops(ops_of::<i16>(), 3).unwrap()));
        assert!(row_ops(ops_of::<u16>(), 0).is_none() && row_ops(ops_of::<String>(), 2).is_none());
        assert!(row_ops(ops_of::<u16>(), usize::MAX / 2).is_none());
        assert!(std::ptr::eq(row_ops(ops_of::<String>(), 1).unwrap(), ops_of::<String>()));

        let mut rows = RawBuf::new(ops, 3);
        rows.push_numbers(&[1u16, 2, 3, 4, 5, 6]);
        let mut bytes = Vec::new();
        rows.encode_range(1, 2, &mut bytes);
        assert_eq!(rows.push_decoded(1, &mut &bytes[..5]).is_err(), rows.len() == 2);
        rows.push_decoded(1, &mut &bytes[..]).unwrap();
        assert_eq!((rows.len(), rows.as_slice::<u16>()), (3, &[1, 2, 3, 4, 5, 6, 4, 5, 6][..]));
        let mut copy = rows.copy();
        // SAFETY: three rows are in each.
        unsafe { ops.assign(rows.as_ptr().add(ops.size), copy.as_mut_ptr()) };
        assert_eq!(copy.as_slice::<u16>(), [4, 5, 6, 4, 5, 6, 4, 5, 6]);
        assert!(crate::body::panics::caught(|| copy.push_numbers(&[1u16, 2])).is_err());
    }

    #[test]
    #[should_panic(expected = "another element type")]
    fn a_wrong_type_is_refused() {
        let buf = RawBuf::new(ops_of::<f32>(), 1);
        let _ = buf.as_slice::<u32>();
    }
}
