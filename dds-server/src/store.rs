//! Snapshots of parts: runs of elements of a DDS, as bytes, under the number of the snapshot that they belong to.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::records;

/// What a part costs besides its bytes, about: so that a million empty parts are counted too.
const OVERHEAD: u64 = 128;

/// Smaller parts stay in memory.
const WORTH_A_FILE: u64 = 16 << 10;

/// How the bytes of a part are laid out, as the one who asks for it knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Each element takes `size` bytes: any range of them can be cut out.
    Plain {
        /// The bytes of an element.
        size: u64,
    },
    /// Elements take what they take: each is stored behind its length, and given so ([`records`]).
    Encoded,
}

/// Bytes of a part, shared with the store.
#[derive(Clone, Debug)]
pub struct Slice {
    bytes: Arc<Vec<u8>>,
    range: Range<usize>,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[self.range.clone()]
    }
}

/// Why the store did not do what it was asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The bytes would be more than the store may hold.
    #[error("{len} bytes don't fit: {held} of {limit} bytes are held")]
    Full {
        /// The bytes to be stored, with what a part costs besides.
        len: u64,
        /// The bytes held.
        held: u64,
        /// The most that may be held.
        limit: u64,
    },
    /// The range is empty or ends before it begins.
    #[error("elements {lo}..{hi} are no range: a part has at least one")]
    Range {
        /// The first element.
        lo: u64,
        /// One past the last element.
        hi: u64,
    },
    /// The part overlaps another of the same snapshot without being the same range.
    #[error(
        "elements {lo}..{hi} of DDS {dds} in snapshot {tag} overlap {other_lo}..{other_hi}, which is stored already"
    )]
    Overlap {
        /// The DDS.
        dds: u64,
        /// The snapshot.
        tag: u64,
        /// The first element of the part to be stored.
        lo: u64,
        /// One past its last element.
        hi: u64,
        /// The first element of the part that is there.
        other_lo: u64,
        /// One past its last element.
        other_hi: u64,
    },
    /// Not all of the range is stored.
    #[error("elements {lo}..{hi} of DDS {dds} are not in snapshot {tag}")]
    Missing {
        /// The DDS.
        dds: u64,
        /// The snapshot.
        tag: u64,
        /// The first element asked for.
        lo: u64,
        /// One past the last element asked for.
        hi: u64,
    },
    /// A stored part has another number of bytes than its elements take.
    #[error("elements {lo}..{hi} of DDS {dds} have {found} bytes, which is not {size} bytes each")]
    Encoding {
        /// The DDS.
        dds: u64,
        /// The first element of the part.
        lo: u64,
        /// One past its last element.
        hi: u64,
        /// The bytes of an element, as the one who asks says.
        size: u64,
        /// The bytes of the part.
        found: u64,
    },
    /// A stored part isn't as many elements behind their lengths.
    #[error("elements {lo}..{hi} of DDS {dds} are not stored behind their lengths")]
    Records {
        /// The DDS.
        dds: u64,
        /// The first element of the part.
        lo: u64,
        /// One past its last element.
        hi: u64,
    },
    /// A part that lies in a file can't be read.
    #[error("elements {lo}..{hi} of DDS {dds} can't be read from their file: {why}")]
    File {
        /// The DDS.
        dds: u64,
        /// The first element asked for.
        lo: u64,
        /// One past the last element asked for.
        hi: u64,
        /// What the system says.
        why: String,
    },
    /// The one who asks has not noticed that a process was lost; what it says is of a time that was undone.
    #[error("generation {found} is over: this is generation {now}")]
    Stale {
        /// The generation of the one who asks.
        found: u32,
        /// The generation here.
        now: u32,
    },
}

#[derive(Debug)]
struct Part {
    hi: u64,
    len: usize,
    bytes: Bytes,
}

#[derive(Debug)]
enum Bytes {
    Here(Arc<Vec<u8>>),
    /// From this place on in the file of its DDS and snapshot.
    InFile(Arc<File>, u64),
}

impl Part {
    /// The memory that it takes, besides what each part costs.
    fn held(&self) -> u64 {
        match self.bytes {
            Bytes::Here(_) => self.len as u64,
            Bytes::InFile(..) => 0,
        }
    }

    fn slice(&self, range: Range<usize>) -> io::Result<Slice> {
        match &self.bytes {
            Bytes::Here(bytes) => Ok(Slice { bytes: Arc::clone(bytes), range }),
            Bytes::InFile(file, at) => {
                let mut bytes = vec![0; range.len()];
                file.read_exact_at(&mut bytes, at + range.start as u64)?;
                Ok(Slice { range: 0..bytes.len(), bytes: Arc::new(bytes) })
            }
        }
    }
}

/// The parts of a DDS in one snapshot.
#[derive(Debug, Default)]
struct Parts {
    by_first: BTreeMap<u64, Part>,
    /// The file for those that there is no memory for, and its end. It has no name, and goes with the last of them.
    file: Option<(Arc<File>, u64)>,
}

impl Parts {
    /// Writes a part to the file.
    fn write(&mut self, bytes: &[u8], folder: &Path) -> io::Result<Bytes> {
        let (file, end) = match &mut self.file {
            Some(file) => file,
            none => none.insert((Arc::new(tempfile::tempfile_in(folder)?), 0)),
        };
        file.write_all_at(bytes, *end)?;
        let at = *end;
        *end += bytes.len() as u64;
        Ok(Bytes::InFile(Arc::clone(file), at))
    }
}

/// Whether parts can be written in a folder.
///
/// # Errors
/// What the system says.
pub fn check_folder(folder: &Path) -> io::Result<()> {
    tempfile::tempfile_in(folder)?.write_all_at(&[0; 512], 0)
}

/// Where parts go that there is no memory for.
#[derive(Debug)]
struct Spill {
    folder: PathBuf,
    keep: u64,
    warned: bool,
}

/// The parts that a server holds, within a bound.
///
/// ```
/// use stradsap_dds_server::store::{Encoding, Store};
///
/// let mut store = Store::new(1 << 20);
/// store.put(7, 1, 0, 4, vec![0, 1, 2, 3])?;
/// let slices = store.get(7, 1, 1, 3, Encoding::Plain { size: 1 })?;
/// assert_eq!(slices[0].as_ref(), [1, 2]);
/// # Ok::<(), stradsap_dds_server::store::StoreError>(())
/// ```
#[derive(Debug)]
pub struct Store {
    limit: u64,
    held: u64,
    generation: u32,
    snapshots: BTreeMap<(u64, u64), Parts>,
    spill: Option<Spill>,
}

impl Store {
    /// A store that holds at most `limit` bytes.
    pub const fn new(limit: u64) -> Store {
        Store { limit, held: 0, generation: 0, snapshots: BTreeMap::new(), spill: None }
    }

    /// Parts that come from now on lie in files without names in this folder, where more than `keep` bytes are held in memory.
    /// If a file can't be written, the part stays in memory.
    pub fn spill_to(&mut self, folder: &Path, keep: u64) {
        self.spill = Some(Spill { folder: folder.to_path_buf(), keep, warned: false });
    }

    /// The most bytes that may be held.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// The bytes held in memory, those that are still arriving and what parts cost besides included.
    pub const fn held(&self) -> u64 {
        self.held
    }

    /// The newest generation that has been seen.
    pub const fn generation(&self) -> u32 {
        self.generation
    }

    /// Accepts a process of this generation, or refuses it if a newer generation has been seen.
    ///
    /// # Errors
    /// [`StoreError::Stale`].
    pub fn admit(&mut self, generation: u32) -> Result<(), StoreError> {
        if generation < self.generation {
            return Err(StoreError::Stale { found: generation, now: self.generation });
        }
        self.generation = generation;
        Ok(())
    }

    /// Sets memory aside for a part of `len` bytes that is to arrive; [`put_claimed`](Store::put_claimed) or
    /// [`release`](Store::release) must follow.
    ///
    /// # Errors
    /// [`StoreError::Full`].
    pub fn claim(&mut self, len: u64) -> Result<(), StoreError> {
        let cost = len.saturating_add(OVERHEAD);
        match self.held.checked_add(cost).filter(|&held| held <= self.limit) {
            Some(held) => {
                self.held = held;
                Ok(())
            }
            None => Err(StoreError::Full { len: cost, held: self.held, limit: self.limit }),
        }
    }

    /// Gives back what [`claim`](Store::claim) set aside.
    pub fn release(&mut self, len: u64) {
        self.held = self.held.saturating_sub(len.saturating_add(OVERHEAD));
    }

    /// Stores elements `lo..hi` of a DDS under the snapshot `tag`. The same range again replaces it, so that a request that
    /// is sent twice does no harm.
    ///
    /// # Errors
    /// [`StoreError::Full`], [`StoreError::Range`], [`StoreError::Overlap`].
    pub fn put(&mut self, dds: u64, tag: u64, lo: u64, hi: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        let len = bytes.len() as u64;
        self.claim(len)?;
        self.put_claimed(dds, tag, lo, hi, bytes).inspect_err(|_| self.release(len))
    }

    /// As [`put`](Store::put), for bytes whose memory was set aside before. After an error it still is.
    ///
    /// # Errors
    /// [`StoreError::Range`], [`StoreError::Overlap`].
    pub fn put_claimed(&mut self, dds: u64, tag: u64, lo: u64, hi: u64, bytes: Vec<u8>) -> Result<(), StoreError> {
        if lo >= hi {
            return Err(StoreError::Range { lo, hi });
        }
        if let Some((other_lo, other_hi)) = self.overlap(dds, tag, lo, hi) {
            return Err(StoreError::Overlap { dds, tag, lo, hi, other_lo, other_hi });
        }
        let parts = self.snapshots.entry((dds, tag)).or_default();
        let len = bytes.len();
        let spill = self.spill.as_mut().filter(|spill| self.held > spill.keep && len as u64 >= WORTH_A_FILE);
        let in_file = spill.and_then(|spill| {
            let written = parts.write(&bytes, &spill.folder);
            let warned = |error: &io::Error| {
                if !std::mem::replace(&mut spill.warned, true) {
                    tracing::warn!("a part of a snapshot stays in memory: {}: {error}", spill.folder.display());
                }
            };
            written.inspect_err(warned).ok()
        });
        let part = Part { hi, len, bytes: in_file.unwrap_or_else(|| Bytes::Here(Arc::new(bytes))) };
        let freed = len as u64 - part.held();
        let replaced = parts.by_first.insert(lo, part).map_or(0, |old| old.held() + OVERHEAD);
        self.held = self.held.saturating_sub(freed + replaced);
        Ok(())
    }

    /// A stored part that meets `lo..hi` and is not that very range.
    fn overlap(&self, dds: u64, tag: u64, lo: u64, hi: u64) -> Option<(u64, u64)> {
        let parts = &self.snapshots.get(&(dds, tag))?.by_first;
        // Stored parts are apart from each other, so only the last two that begin before `hi` are of interest: where the
        // last is the same range, none other meets it.
        let (&other_lo, other) = parts.range(..hi).next_back()?;
        (other.hi > lo && (other_lo, other.hi) != (lo, hi)).then_some((other_lo, other.hi))
    }

    /// Elements `lo..hi` of a DDS in the snapshot `tag`, as runs one after the other.
    ///
    /// Any range can be read, also across parts. To find an element that is not plain, its part is gone through from the beginning.
    ///
    /// # Errors
    /// [`StoreError::Range`], [`StoreError::Missing`], [`StoreError::Encoding`], [`StoreError::Records`], [`StoreError::File`].
    pub fn get(&self, dds: u64, tag: u64, lo: u64, hi: u64, encoding: Encoding) -> Result<Vec<Slice>, StoreError> {
        if lo >= hi {
            return Err(StoreError::Range { lo, hi });
        }
        let missing = StoreError::Missing { dds, tag, lo, hi };
        let parts = &self.snapshots.get(&(dds, tag)).ok_or_else(|| missing.clone())?.by_first;
        let unread = |error: io::Error| StoreError::File { dds, lo, hi, why: error.to_string() };
        let first = parts.range(..=lo).next_back().map_or(lo, |(&first, _)| first);
        let mut slices = Vec::new();
        let mut next = lo;
        for (&part_lo, part) in parts.range(first..hi) {
            if part_lo > next || part.hi <= next {
                return Err(missing);
            }
            let (found, end) = (part.len as u64, part.hi.min(hi));
            let (n, own) = (part.hi - part_lo, next - part_lo..end - part_lo);
            slices.push(match encoding {
                Encoding::Plain { size } if n.checked_mul(size) != Some(found) => {
                    return Err(StoreError::Encoding { dds, lo: part_lo, hi: part.hi, size, found });
                }
                // No overflow and within the part's memory: the product above is its length.
                Encoding::Plain { size } => {
                    part.slice((own.start * size) as usize..(own.end * size) as usize).map_err(unread)?
                }
                Encoding::Encoded => {
                    let all = part.slice(0..part.len).map_err(unread)?;
                    let cut = records::cut(all.as_ref(), n, own);
                    let range = cut.ok_or(StoreError::Records { dds, lo: part_lo, hi: part.hi })?;
                    Slice { range, ..all }
                }
            });
            next = end;
        }
        if next == hi { Ok(slices) } else { Err(missing) }
    }

    /// The ranges stored of a DDS in the snapshot `tag`, in order, with their bytes.
    pub fn ranges(&self, dds: u64, tag: u64) -> impl Iterator<Item = (Range<u64>, usize)> + '_ {
        let parts = self.snapshots.get(&(dds, tag)).into_iter().flat_map(|parts| &parts.by_first);
        parts.map(|(&lo, part)| (lo..part.hi, part.len))
    }

    /// Forgets these snapshots of a DDS, and gives the bytes that this frees.
    pub fn drop_between(&mut self, dds: u64, tags: Range<u64>) -> u64 {
        if tags.is_empty() {
            return 0;
        }
        let before = self.held;
        let gone: Vec<(u64, u64)> =
            self.snapshots.range((dds, tags.start)..(dds, tags.end)).map(|(&key, _)| key).collect();
        for parts in gone.iter().filter_map(|key| self.snapshots.remove(key)) {
            let freed = parts.by_first.values().map(|part| part.held() + OVERHEAD).sum();
            self.held = self.held.saturating_sub(freed);
        }
        before - self.held
    }
}
