//! Elements in files, for models and data larger than the memory that the process may use.
//!
//! While a limit is set, large buffers lie in files without names, which are mapped. When the process has more in memory than the
//! limit, *slabs* of these files leave it: the loop that runs has said when it needs which of them next, and those that it needs
//! last go first (Belady's rule, which a plan can follow, since it knows the order of the blocks).
//!
//! # Why this is sound
//! 1. A [`FileMemory`] is a shared mapping of a file of its own, or bytes of one that no other has (see [`Carver`]). The file has no
//!    name, so that nobody else writes or shortens it, and all of its room on the disk before it is mapped. It is unmapped when the last
//!    owner goes.
//! 2. A slab that leaves goes from the process's page tables, not from the file: an access at any time, by any thread, finds the
//!    bytes that were there. So whatever this module thinks of slabs decides on speed alone.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock, TryLockError, Weak};
use std::time::Duration;

use crate::memory::locked;

const PAGE: usize = 4096;

/// What leaves memory and comes back at once.
const SLAB: usize = 1 << 20;

/// Smaller buffers stay in memory, unless they are carved.
const LEAST: usize = SLAB;

/// What buffers are carved from.
const BLOCK: usize = 4 * SLAB;

/// Buffers that are carved begin on cache lines.
const CARVED_ALIGN: usize = 64;

/// How often memory is looked at while no block says that it has ended.
const LOOKS: Duration = Duration::from_millis(10);

/// No loop has said when it needs a slab.
const NEVER: u64 = u64::MAX;

/// The limit of this process, if it has one.
static CURRENT: RwLock<Weak<Spill>> = RwLock::new(Weak::new());

/// A limit, and the files that buffers lie in under it. It counts as long as somebody has it: a session, or a buffer.
pub(crate) struct Spill {
    limit: u64,
    folder: PathBuf,
    mapped: Mutex<Vec<Weak<Mapped>>>,
    /// Blocks that loops have begun so far: the time in which slabs are needed.
    clock: AtomicU64,
    /// When the loop that runs began.
    begun: AtomicU64,
    balancing: Mutex<()>,
    warn: fn(String),
    warned: AtomicBool,
}

impl Spill {
    /// Buffers lie in files in this folder from now on, as long as somebody has what this gives.
    pub(crate) fn begin(limit: u64, folder: &Path, warn: fn(String)) -> io::Result<Arc<Spill>> {
        let spill = Arc::new(Spill::new(limit, folder, warn)?);
        let looks_after = Arc::downgrade(&spill);
        std::thread::Builder::new().name("stradsap memory".to_owned()).spawn(move || {
            while let Some(spill) = looks_after.upgrade() {
                spill.balance();
                drop(spill);
                std::thread::sleep(LOOKS);
            }
        })?;
        *CURRENT.write().unwrap_or_else(PoisonError::into_inner) = Arc::downgrade(&spill);
        Ok(spill)
    }

    fn new(limit: u64, folder: &Path, warn: fn(String)) -> io::Result<Spill> {
        let tried = tempfile::tempfile_in(folder)?;
        reserve(&tried, PAGE)?;
        if lies_in_memory(&tried) {
            return Err(io::Error::other("it lies in memory itself (tmpfs): a folder on a disk was expected"));
        }
        Ok(Spill {
            limit,
            // Workers are elsewhere.
            folder: std::path::absolute(folder)?,
            mapped: Mutex::default(),
            clock: AtomicU64::new(1),
            begun: AtomicU64::new(1),
            balancing: Mutex::new(()),
            warn,
            warned: AtomicBool::new(false),
        })
    }

    /// The limit of this process, if it has one.
    pub(crate) fn current() -> Option<Arc<Spill>> {
        CURRENT.read().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    pub(crate) fn limit(&self) -> u64 {
        self.limit
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The first of as many moments as a loop has blocks.
    pub(crate) fn begin_loop(&self, blocks: usize) -> u64 {
        let begun = self.clock.fetch_add(blocks as u64, Relaxed);
        self.begun.store(begun, Relaxed);
        begun
    }

    /// Lets slabs go where the process has too much in memory.
    pub(crate) fn balance(&self) {
        let _one_at_a_time = match self.balancing.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        let resident = resident_bytes();
        if resident > self.limit / 16 * 15 {
            self.leave(resident.saturating_sub(self.limit / 16 * 13));
        }
    }

    /// Lets slabs of this many bytes go, those first that are needed last.
    fn leave(&self, bytes: u64) {
        let mapped: Vec<Arc<Mapped>> = {
            let mut mapped = locked(&self.mapped);
            mapped.retain(|mapped| mapped.strong_count() > 0);
            mapped.iter().filter_map(Weak::upgrade).collect()
        };
        let begun = self.begun.load(Relaxed);
        let mut here = Vec::new();
        for (m, mapped) in mapped.iter().enumerate() {
            for (s, slab) in mapped.slabs.iter().enumerate().filter(|(_, slab)| slab.here.load(Relaxed)) {
                // What an earlier loop said is no longer known to be true.
                let next = slab.next.load(Relaxed);
                here.push((if next < begun { NEVER } else { next }, m, s));
            }
        }
        let wanted = (bytes as usize).div_ceil(SLAB);
        if here.len() <= wanted {
            // Slabs come back unseen where no plan says which elements are needed.
            mapped.iter().flat_map(|mapped| &mapped.slabs).for_each(|slab| slab.here.store(true, Relaxed));
        } else {
            here.select_nth_unstable_by(wanted, |a, b| b.cmp(a));
            here.truncate(wanted);
        }
        // Neighbours together.
        here.sort_unstable_by_key(|&(_, m, s)| (m, s));
        for run in here.chunk_by(|a, b| a.1 == b.1 && a.2 + 1 == b.2) {
            let (_, m, first) = run[0];
            mapped[m].leave(first..first + run.len());
        }
    }

    /// Says once why a buffer stays in memory.
    fn warn(&self, bytes: usize, error: &io::Error) {
        if !self.warned.swap(true, Relaxed) {
            let folder = self.folder.display();
            (self.warn)(format!("{folder} has no room for a DDS of {bytes} bytes, which stays in memory: {error}"));
        }
    }
}

/// Zeroed memory in a file. Clones are the same memory.
#[derive(Clone)]
pub(crate) struct FileMemory {
    mapped: Arc<Mapped>,
    /// Where it begins in the mapping.
    start: usize,
}

/// Carves buffers that are too small for files of their own from larger mappings, which go with the last of them.
#[derive(Default)]
pub(crate) struct Carver(Mutex<Option<(Arc<Mapped>, usize)>>);

impl Carver {
    /// Memory for a buffer, where the process has a limit.
    pub(crate) fn carve(&self, bytes: usize, align: usize) -> Option<FileMemory> {
        if bytes >= LEAST || align > CARVED_ALIGN {
            return FileMemory::new(bytes, align);
        }
        if bytes == 0 || cfg!(miri) { None } else { self.carve_under(&Spill::current()?, bytes) }
    }

    fn carve_under(&self, spill: &Arc<Spill>, bytes: usize) -> Option<FileMemory> {
        let mut block = locked(&self.0);
        let ours = |(mapped, at): &(Arc<Mapped>, usize)| Arc::ptr_eq(&mapped.spill, spill) && at + bytes <= BLOCK;
        if !block.as_ref().is_some_and(ours) {
            *block = Some((FileMemory::under(spill, BLOCK)?.mapped, 0));
        }
        let (mapped, at) = block.as_mut()?;
        let start = *at;
        *at = (start + bytes).next_multiple_of(CARVED_ALIGN);
        Some(FileMemory { mapped: Arc::clone(mapped), start })
    }
}

struct Mapped {
    ptr: NonNull<u8>,
    bytes: usize,
    slabs: Vec<Slab>,
    spill: Arc<Spill>,
}

struct Slab {
    /// When it is needed next.
    next: AtomicU64,
    /// Whether it may be in memory.
    here: AtomicBool,
}

// SAFETY: the address of a mapping that lives as long as this; its users state who accesses what.
unsafe impl Send for Mapped {}
// SAFETY: the address of a mapping that lives as long as this; its users state who accesses what.
unsafe impl Sync for Mapped {}

impl FileMemory {
    /// Memory for a buffer, where the process has a limit and the buffer is large enough. A buffer for which the folder has no
    /// room stays in memory.
    pub(crate) fn new(bytes: usize, align: usize) -> Option<FileMemory> {
        if bytes < LEAST || align > PAGE || cfg!(miri) {
            return None;
        }
        Self::under(&Spill::current()?, bytes)
    }

    fn under(spill: &Arc<Spill>, bytes: usize) -> Option<FileMemory> {
        match Mapped::new(bytes, spill) {
            Ok(mapped) => {
                let mapped = Arc::new(mapped);
                locked(&spill.mapped).push(Arc::downgrade(&mapped));
                Some(FileMemory { mapped, start: 0 })
            }
            Err(error) => {
                spill.warn(bytes, &error);
                None
            }
        }
    }

    pub(crate) fn ptr(&self) -> NonNull<u8> {
        // SAFETY: it begins within the mapping.
        unsafe { self.mapped.ptr.add(self.start) }
    }

    /// Differs from that of all others.
    pub(crate) fn id(&self) -> usize {
        self.ptr().addr().get()
    }

    /// The limit that it lies in a file for.
    pub(crate) fn spill(&self) -> &Arc<Spill> {
        &self.mapped.spill
    }

    /// The slabs of a range of bytes.
    pub(crate) fn slabs(&self, bytes: Range<usize>) -> Range<usize> {
        let (start, end) = (bytes.start.saturating_add(self.start), bytes.end.saturating_add(self.start));
        let end = end.min(self.mapped.bytes);
        if start < end { start / SLAB..end.div_ceil(SLAB) } else { 0..0 }
    }

    /// The slabs that have no bytes but those of a range.
    pub(crate) fn slabs_within(&self, bytes: Range<usize>) -> Range<usize> {
        let (start, end) = (bytes.start.saturating_add(self.start), bytes.end.saturating_add(self.start));
        let first = start.div_ceil(SLAB);
        let end = if end >= self.mapped.bytes { self.mapped.slabs.len() } else { end / SLAB };
        first..end.max(first)
    }

    /// Says that slabs are used now, which no plan has said.
    pub(crate) fn used(&self, slabs: Range<usize>) {
        for slab in self.mapped.slabs[slabs].iter().filter(|slab| !slab.here.load(Relaxed)) {
            slab.here.store(true, Relaxed);
        }
    }

    /// Says that nobody needs what slabs hold.
    pub(crate) fn forget(&self, slabs: Range<usize>) {
        if !slabs.is_empty() {
            self.mapped.leave(slabs);
        }
    }

    /// Says that slabs are needed at a moment, the present one or one that comes soon, and has those read that aren't there.
    pub(crate) fn need(&self, slabs: Range<usize>, at: u64) {
        let missing = |s: &usize| !self.mapped.slabs[*s].here.swap(true, Relaxed);
        let (mut first, mut end) = (slabs.end, slabs.start);
        for s in slabs.clone() {
            self.mapped.slabs[s].next.fetch_min(at, Relaxed);
            if missing(&s) {
                (first, end) = (first.min(s), s + 1);
            }
        }
        if first < end {
            self.mapped.advise(first..end, libc::MADV_WILLNEED);
        }
    }

    /// Says when slabs are needed next, of which a block has been using a range.
    pub(crate) fn needed_next(&self, slabs: Range<usize>, now: u64, next: u64) {
        let whole = slabs.start + 1..slabs.end.saturating_sub(1);
        for s in slabs {
            let slab = &self.mapped.slabs[s].next;
            let old = slab.load(Relaxed);
            // At its ends a range shares slabs with others.
            let other = !whole.contains(&s) && old > now && old != NEVER;
            slab.store(if other { old.min(next) } else { next }, Relaxed);
        }
    }
}

impl Mapped {
    fn new(bytes: usize, spill: &Arc<Spill>) -> io::Result<Mapped> {
        let file = tempfile::tempfile_in(&spill.folder)?;
        reserve(&file, bytes)?;
        let (protection, fd) = (libc::PROT_READ | libc::PROT_WRITE, file.as_raw_fd());
        // SAFETY: a new mapping of a file that is this one's alone, apart from everything else.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, libc::MAP_SHARED, fd, 0) };
        let ptr = NonNull::new(at.cast::<u8>()).filter(|_| at != libc::MAP_FAILED);
        let ptr = ptr.ok_or_else(io::Error::last_os_error)?;
        let slab = |_| Slab { next: AtomicU64::new(NEVER), here: AtomicBool::new(true) };
        let slabs = (0..bytes.div_ceil(SLAB)).map(slab).collect();
        Ok(Mapped { ptr, bytes, slabs, spill: Arc::clone(spill) })
    }

    fn bytes_of(&self, slabs: &Range<usize>) -> Range<usize> {
        slabs.start * SLAB..(slabs.end * SLAB).min(self.bytes)
    }

    fn advise(&self, slabs: Range<usize>, advice: libc::c_int) {
        let bytes = self.bytes_of(&slabs);
        // SAFETY: whole pages of this mapping, whose contents stay in the file (rule 2); a refusal is harmless.
        unsafe { libc::madvise(self.ptr.as_ptr().add(bytes.start).cast(), bytes.len(), advice) };
    }

    /// Takes slabs from the process's tables. The system writes to the disk what has changed when it needs the memory: it may have
    /// enough for the whole file, and then nobody waits for a disk.
    fn leave(&self, slabs: Range<usize>) {
        for slab in &self.slabs[slabs.clone()] {
            slab.here.store(false, Relaxed);
            slab.next.store(NEVER, Relaxed);
        }
        self.advise(slabs, libc::MADV_DONTNEED);
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping that `new` made, which nobody uses any more.
        unsafe { libc::munmap(self.ptr.as_ptr().cast(), self.bytes) };
    }
}

/// Makes a file as long as this, with its room on the disk: a write to a mapping that finds none would end the process.
#[cfg(target_os = "linux")]
fn reserve(file: &File, bytes: usize) -> io::Result<()> {
    // SAFETY: a descriptor that lives during the call.
    match unsafe { libc::posix_fallocate(file.as_raw_fd(), 0, bytes as libc::off_t) } {
        0 => Ok(()),
        error => Err(io::Error::from_raw_os_error(error)),
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_: &File, _: usize) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Whether a file is one of tmpfs.
#[cfg(target_os = "linux")]
fn lies_in_memory(file: &File) -> bool {
    let mut about = std::mem::MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: a descriptor that lives during the call, and room for what is known of its file system, which was written if
    // the call says so.
    unsafe {
        libc::fstatfs(file.as_raw_fd(), about.as_mut_ptr()) == 0 && about.assume_init().f_type == libc::TMPFS_MAGIC
    }
}

#[cfg(not(target_os = "linux"))]
fn lies_in_memory(_: &File) -> bool {
    false
}

/// What the process has in memory.
fn resident_bytes() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|text| text.split(' ').nth(1)?.parse::<u64>().ok());
    pages.unwrap_or(0) * page_size()
}

fn page_size() -> u64 {
    // SAFETY: asks for a number.
    let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(size).unwrap_or(PAGE as u64)
}

#[cfg(test)]
#[cfg(all(target_os = "linux", not(miri)))]
mod tests {
    use super::*;

    fn mapped(spill: &Arc<Spill>, slabs: usize) -> FileMemory {
        let mapped = Arc::new(Mapped::new(slabs * SLAB, spill).unwrap());
        locked(&spill.mapped).push(Arc::downgrade(&mapped));
        FileMemory { mapped, start: 0 }
    }

    /// A limit that is no other test's.
    fn spill() -> Arc<Spill> {
        let built = std::env::current_exe().unwrap();
        Arc::new(Spill::new(u64::MAX, built.parent().unwrap(), |_| {}).unwrap())
    }

    fn here(memory: &FileMemory) -> Vec<usize> {
        memory.mapped.slabs.iter().enumerate().filter(|(_, slab)| slab.here.load(Relaxed)).map(|(s, _)| s).collect()
    }

    #[test]
    fn what_leaves_is_found_again() {
        let spill = spill();
        let memory = mapped(&spill, 8);
        let bytes = memory.mapped.bytes;
        // SAFETY: the mapping's bytes, zeroed, which this thread alone uses.
        let words = unsafe { std::slice::from_raw_parts_mut(memory.ptr().as_ptr().cast::<u64>(), bytes / 8) };
        for round in 1..4u64 {
            for (i, word) in words.iter_mut().enumerate() {
                assert_eq!(*word, (round - 1) * i as u64);
                *word += i as u64;
                if i % 50_000 == 0 {
                    spill.leave(3 * SLAB as u64);
                }
            }
        }
    }

    #[test]
    fn those_that_are_needed_last_leave_first() {
        let spill = spill();
        let (a, b) = (mapped(&spill, 4), mapped(&spill, 4));
        let begun = spill.begin_loop(10);
        (0..4).for_each(|s| a.needed_next(s..s + 1, begun, begun + 5 - s as u64));
        b.needed_next(0..2, begun, begun + 3);
        spill.leave(2 * SLAB as u64);
        assert_eq!((here(&a), here(&b)), (vec![0, 1, 2, 3], vec![0, 1]), "no loop needs the others");
        spill.leave(SLAB as u64);
        spill.leave(SLAB as u64);
        assert_eq!((here(&a), here(&b)), (vec![2, 3], vec![0, 1]));
        b.need(1..4, begun);
        spill.leave(2 * SLAB as u64);
        assert_eq!((here(&a), here(&b)), (vec![3], vec![1, 2, 3]));
        // What another loop has said counts no more.
        let begun = spill.begin_loop(10);
        a.needed_next(3..4, begun, begun + 9);
        spill.leave(3 * SLAB as u64);
        assert_eq!((here(&a), here(&b)), (vec![3], vec![]));
    }

    #[test]
    fn a_slab_of_two_ranges_stays_for_the_one_that_comes_first() {
        let spill = spill();
        let memory = mapped(&spill, 3);
        let next = |s: usize| memory.mapped.slabs[s].next.load(Relaxed);
        memory.needed_next(0..2, 1, 4);
        memory.needed_next(1..3, 2, 9);
        assert_eq!((next(0), next(1), next(2)), (4, 4, 9));
        memory.needed_next(1..3, 4, 12);
        assert_eq!((next(1), next(2)), (12, 9), "the third is needed before that");
        memory.needed_next(1..3, 9, 12);
        assert_eq!((next(1), next(2)), (12, 12));
    }

    #[test]
    fn small_buffers_share_a_file() {
        let spill = spill();
        let carver = Carver::default();
        let carved: Vec<FileMemory> = (0..300).map(|k| carver.carve_under(&spill, 100 * k + 1).unwrap()).collect();
        for (k, memory) in carved.iter().enumerate() {
            // SAFETY: the memory's bytes, which this thread alone uses.
            unsafe { std::slice::from_raw_parts_mut(memory.ptr().as_ptr(), 100 * k + 1) }.fill(k as u8);
        }
        spill.leave(64 * SLAB as u64);
        for (k, memory) in carved.iter().enumerate() {
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(memory.ptr().as_ptr(), 100 * k + 1) };
            assert!(bytes.iter().all(|&byte| byte == k as u8), "buffer {k}");
            assert_eq!(memory.ptr().addr().get() % CARVED_ALIGN, 0);
        }
        let files = || spill.mapped.lock().unwrap().iter().filter(|mapped| mapped.strong_count() > 0).count();
        assert_eq!(files(), 2, "4.5 MB of them");
        drop((carved, carver));
        assert_eq!(files(), 0);
    }
}
