//! `DMap`: a map whose entries parallel loops share.
//!
//! A map is a [`DVector`] of buckets, each with the entries whose keys' stable hashes lie in one range. So whatever holds of a
//! DVector's elements in loops holds of keys: recording, plans, undoing, workers and snapshots know buckets only. Two keys of
//! one bucket count as one element; there are as many buckets as entries, or more.

pub(crate) mod bucket;
mod forms;
pub(crate) mod hash;
mod multi;
mod multi_shared;
mod new_entries;
mod shared;
mod tally;
mod view;

use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::{Arc, Mutex};

pub(crate) use self::bucket::Bucket;
pub use self::bucket::MapEntry;
use self::forms::Forms;
use self::hash::{bucket_of, hash_of};
pub use self::multi::{DMultiMap, MultiMapView, MultiMapWriteView};
pub use self::multi_shared::MultiMapSharedView;
pub use self::shared::{MapSharedView, SharedEntry};
pub use self::view::{MapView, MapWriteView, Named};
use crate::dds::dvector::DVector;
use crate::memory::buffer::RawBuf;
use crate::memory::element::Element;
use crate::memory::element_ops::ops_of;
use crate::planner::recording::LISTED;
use crate::session::backend::Whereabouts;
use crate::session::error::{Error, Result};
use crate::session::{Session, SessionInner, locked};

/// An empty map has this many buckets: a first loop that fills it is cut into parts of them.
pub(crate) const FEWEST: usize = 256;

/// How many buckets a map of this many entries has, with room for `room` times as many: a power of two.
pub(crate) fn buckets_for(entries: usize, room: usize) -> Result<usize> {
    let most = LISTED / 2;
    if entries > most {
        return Err(Error::TooLong { len: entries, max: most });
    }
    Ok(entries.saturating_mul(room).clamp(FEWEST, most).next_power_of_two())
}

/// What can be a key of a map: an [`Element`] with `Hash` and `Eq`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be a key of a map",
    label = "not an `Element` with `Hash` and `Eq`",
    note = "derive them: `#[derive(Clone, PartialEq, Eq, Hash, Element)]`"
)]
pub trait Key: Element + Hash + Eq {}

#[diagnostic::do_not_recommend]
impl<K: Element + Hash + Eq> Key for K {}

/// A map from `K` to `V` that parallel loops read and write by key.
///
/// Capture it in a loop as `&m` (the body has [`MapView`]: `m[&key]`, `get`) or `&mut m` ([`MapWriteView`]: also `insert`,
/// `remove`, `get_mut`, `entry`). An `async_parallel_for!` may insert new keys; an insertion is a write of the key like any other.
/// A `sync_parallel_for!` changes values, and adds keys ([`MapSharedView`]). Keys are placed by a hash that is the
/// same in every process, and entries are in the order of these hashes. So maps with equal contents have the same order, however
/// they were made. Keys and values may be of any [`Element`] type.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DMap, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let mut ages = DMap::from_entries(&session, [("Ada".to_string(), 36), ("Alan".to_string(), 41)])?;
/// assert_eq!(ages.insert("Ada".to_string(), 37)?, Some(36));
/// assert_eq!((ages.get("Ada")?, ages.get("Kurt")?, ages.len()?), (Some(37), None, 2));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
///
/// # Cost
/// A map has about as many buckets as entries. A bucket takes the size of an entry, and 8 or 16 bytes more. An access hashes the
/// key (2 ns for a number) and compares it with the keys of one bucket. In a loop, two keys of one bucket conflict. A loop that
/// writes the map is recorded with real values, so it copies what it writes.
///
/// A map that a synchronous loop writes takes as much memory again, for the values apart from their keys. The next use that is not
/// a synchronous loop (nor `get`, `len`, `to_vec` or `digest`) brings the values back to their keys, in one pass over the map.
pub struct DMap<K, V> {
    pub(crate) buckets: Forms<K, V>,
    /// How many entries there were, and the version that was counted.
    counted: Mutex<Option<(u64, usize)>>,
    /// Counts them, where they are. Known since the map was made: who asks needs to know nothing of its types.
    count: fn(&DVector<Bucket<K, V>>) -> Result<usize>,
}

impl<K: Key, V: Element> DMap<K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// None.
    pub fn new(session: &Session) -> Result<Self> {
        Self::with_capacity(session, 0)
    }

    /// An empty map with room for this many entries. The map need not grow when they are inserted, and a loop that inserts them can
    /// be cut into that many parts.
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn with_capacity(session: &Session, entries: usize) -> Result<Self> {
        Self::of_sorted(&session.inner(), entries, std::iter::empty())
    }

    /// A map of the entries of an iterator. Of several entries with the same key the last one stays.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMap, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let last = DMap::from_entries(&session, (0..10u32).map(|i| (i % 3, i)))?;
    /// assert_eq!([last.get(&0)?, last.get(&1)?, last.get(&2)?], [Some(9), Some(7), Some(8)]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TooLong`].
    pub fn from_entries(session: &Session, entries: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let mut hashed: Vec<(u64, (K, V))> =
            entries.into_iter().map(|(key, value)| (hash_of(&key), (key, value))).collect();
        // By a number that stays what it is, whatever the keys' `Hash` says the next time.
        hashed.sort_by_key(|(hash, _)| *hash);
        let len = hashed.len();
        let mut rest = hashed.into_iter().peekable();
        let runs = std::iter::from_fn(move || {
            let (hash, first) = rest.next()?;
            let mut run = vec![first];
            while let Some((_, entry)) = rest.next_if(|(next, _)| *next == hash) {
                match run.iter_mut().find(|(key, _)| *key == entry.0) {
                    Some(before) => *before = entry,
                    None => run.push(entry),
                }
            }
            if run.len() > 1 {
                run.sort_by_cached_key(|(key, _)| bucket::bytes_of(key));
            }
            Some(run.into_iter().map(move |entry| (hash, entry)))
        });
        Self::of_sorted(&session.inner(), len, runs.flatten())
    }

    /// Entries and their keys' hashes, in their order, no two with the same key, about `len` of them.
    pub(crate) fn of_sorted(
        session: &Arc<SessionInner>,
        len: usize,
        entries: impl Iterator<Item = (u64, (K, V))>,
    ) -> Result<Self> {
        let n = buckets_for(len, 1)?;
        let mut buffer = RawBuf::for_random_access(ops_of::<Bucket<K, V>>(), n);
        let (mut open, mut count) = (Bucket::EMPTY, 0);
        for (hash, (key, value)) in entries {
            let at = bucket_of(hash, n);
            if at < buffer.len() {
                return Err(Error::InconstantHash);
            }
            while buffer.len() < at {
                buffer.push(std::mem::replace(&mut open, Bucket::EMPTY));
            }
            open.push(key, value);
            count += 1;
        }
        while buffer.len() < n {
            buffer.push(std::mem::replace(&mut open, Bucket::EMPTY));
        }
        Ok(Self::of_buckets(DVector::of_buffer(Arc::clone(session), buffer), count))
    }

    /// A map of its buckets, in which there are this many entries.
    pub(crate) fn of_buckets(buckets: DVector<Bucket<K, V>>, entries: usize) -> Self {
        let counted = Mutex::new(Some((buckets.version(), entries)));
        let count = |buckets: &DVector<Bucket<K, V>>| buckets.fold(0usize, |n, bucket| n + bucket.len(), |a, b| a + b);
        DMap { buckets: Forms::new(buckets), counted, count }
    }

    /// Inserts an entry, and returns the value that the key had.
    ///
    /// If loops run on workers, the first change after a loop brings all entries back to this process.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if entries are with workers and can't be fetched.
    pub fn insert(&mut self, key: K, value: V) -> Result<Option<V>> {
        self.at(hash_of(&key), |bucket| bucket.insert(key, value))
    }

    /// Removes a key, and returns its value.
    ///
    /// # Errors
    /// As [`insert`](DMap::insert).
    pub fn remove<Q>(&mut self, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.at(hash_of(key), |bucket| bucket.remove(key))
    }

    /// Calls `f` with a key's place, whether it has a value or not, and returns the result of `f`.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMap, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let mut counts = DMap::new(&session)?;
    /// for word in ["a", "b", "a"] {
    ///     counts.update(word.to_string(), |entry| *entry.or_insert(0u64) += 1)?;
    /// }
    /// assert_eq!(counts.get("a")?, Some(2));
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`insert`](DMap::insert).
    pub fn update<R>(&mut self, key: K, f: impl FnOnce(MapEntry<'_, K, V>) -> R) -> Result<R> {
        self.at(hash_of(&key), |bucket| f(MapEntry::new(bucket, key)))
    }

    /// Changes the bucket of a hash, then makes room if there has to be.
    fn at<R>(&mut self, hash: u64, f: impl FnOnce(&mut Bucket<K, V>) -> R) -> Result<R> {
        let before = self.len()?;
        let buckets = self.buckets.settled()?;
        let (result, len) = buckets.change(|buckets| {
            let at = bucket_of(hash, buckets.len());
            let bucket = &mut buckets[at];
            let there = bucket.len();
            let result = f(bucket);
            (result, before + bucket.len() - there)
        })?;
        self.has_changed(len)?;
        Ok(result)
    }

    /// Calls `put` with the place of each of these keys, and what comes with it. Then makes room if there has to be.
    pub(super) fn extend<T>(
        &mut self,
        entries: impl Iterator<Item = (K, T)>,
        mut put: impl FnMut(MapEntry<'_, K, V>, T),
    ) -> Result<()> {
        let before = self.len()?;
        let buckets = self.buckets.settled()?;
        let len = buckets.change(|buckets| {
            entries.fold(before, |len, (key, value)| {
                let at = bucket_of(hash_of(&key), buckets.len());
                let bucket = &mut buckets[at];
                let there = bucket.len();
                put(MapEntry::new(bucket, key), value);
                len + bucket.len() - there
            })
        })?;
        self.has_changed(len)
    }

    /// The buckets hold this many entries now.
    fn has_changed(&mut self, len: usize) -> Result<()> {
        let (version, room) = (self.buckets.version(), self.buckets.len());
        *locked(&self.counted) = Some((version, len));
        if len > room { self.grow(len) } else { Ok(()) }
    }

    /// As many buckets as there will be entries soon.
    fn grow(&mut self, len: usize) -> Result<()> {
        let buckets = self.buckets.settled()?;
        if buckets.whereabouts()? == Whereabouts::InRanges {
            *self = self.made_roomier()?;
            return Ok(());
        }
        let session = Arc::clone(buckets.session());
        let old = buckets.change(|buckets| {
            buckets.iter_mut().map(|bucket| std::mem::replace(bucket, Bucket::EMPTY)).collect::<Vec<_>>()
        })?;
        let entries = old.into_iter().flat_map(Bucket::into_entries);
        let mut hashed: Vec<(u64, (K, V))> = entries.map(|entry| (hash_of(&entry.0), entry)).collect();
        if !hashed.is_sorted_by_key(|(hash, _)| *hash) {
            hashed.sort_by_key(|(hash, _)| *hash);
        }
        *self = Self::of_sorted(&session, len.saturating_mul(2).min(LISTED / 2), hashed.into_iter())?;
        Ok(())
    }

    /// Before a loop that may insert: a map that a loop before has filled gets more buckets.
    pub(crate) fn make_room(&mut self) {
        if let Ok(len) = self.len()
            && len > self.buckets.len()
        {
            // Without it the loop is only slower.
            let _too_large = self.grow(len);
        }
    }

    /// All entries in their order, cloned.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DMap, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// let squares = DMap::from_entries(&session, (0..5u32).map(|i| (i, i * i)))?;
    /// let mut entries = squares.to_vec()?;
    /// entries.sort();
    /// assert_eq!(entries, [(0, 0), (1, 1), (2, 4), (3, 9), (4, 16)]);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in one process; where entries are elsewhere, that they can't be fetched.
    pub fn to_vec(&self) -> Result<Vec<(K, V)>> {
        let mut entries = Vec::new();
        self.buckets.each(|key, value| entries.push((key.clone(), value.clone())))?;
        Ok(entries)
    }

    /// Clones of all entries in their order, one after the other.
    ///
    /// # Errors
    /// As [`to_vec`](DMap::to_vec).
    pub fn iter(&self) -> Result<impl Iterator<Item = (K, V)>> {
        Ok(self.to_vec()?.into_iter())
    }

    /// A BLAKE3 hash of the entries in their order: maps with equal contents have the same digest.
    ///
    /// # Errors
    /// As [`to_vec`](DMap::to_vec).
    pub fn digest(&self) -> Result<String> {
        let (mut hasher, mut bytes) = (blake3::Hasher::new(), Vec::new());
        self.buckets.each(|key, value| {
            bytes.clear();
            key.encode(&mut bytes);
            value.encode(&mut bytes);
            hasher.update(&bytes);
        })?;
        Ok(format!("blake3:{}", hasher.finalize().to_hex()))
    }
}

/// A number that changes with the contents; no two contents of this process have the same.
#[doc(hidden)]
pub fn version_of_map<K: 'static, V: 'static>(map: &DMap<K, V>) -> u64 {
    map.buckets.version()
}

/// Calls a function with all entries in their order.
#[doc(hidden)]
pub fn each_entry<K: Key, V: Element>(map: &DMap<K, V>, look: impl FnMut(&K, &V)) -> Result<()> {
    map.buckets.each(look)
}

/// Where a map's entries are.
///
/// # Errors
/// [`Error::Cluster`] within the functions of a scheduled program.
#[doc(hidden)]
pub fn whereabouts_of_map<K: Key, V: Element>(map: &DMap<K, V>) -> Result<Whereabouts> {
    map.buckets.whereabouts()
}

impl<K: 'static, V: 'static> DMap<K, V> {
    /// A clone of a key's value.
    ///
    /// # Errors
    /// [`Error::Cluster`](crate::Error::Cluster) if the entry is with a worker and can't be fetched.
    pub fn get<Q>(&self, key: &Q) -> Result<Option<V>>
    where
        K: Borrow<Q>,
        V: Clone,
        Q: Hash + Eq + ?Sized,
    {
        self.buckets.look(key, V::clone)
    }

    /// True if the key has a value.
    ///
    /// # Errors
    /// As [`get`](DMap::get).
    pub fn contains_key<Q>(&self, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        Ok(self.buckets.look(key, |_| ())?.is_some())
    }

    /// The number of entries. The first call after a loop that wrote the map counts them, in the processes that hold them.
    ///
    /// # Errors
    /// As [`get`](DMap::get).
    pub fn len(&self) -> Result<usize> {
        if let Some(len) = self.buckets.counted() {
            return Ok(len);
        }
        let buckets: &DVector<_> = &self.buckets;
        let version = buckets.version();
        if let Some((of, len)) = *locked(&self.counted)
            && of == version
        {
            return Ok(len);
        }
        let len = (self.count)(buckets)?;
        *locked(&self.counted) = Some((version, len));
        Ok(len)
    }

    /// True if there are no entries.
    ///
    /// # Errors
    /// As [`get`](DMap::get).
    pub fn is_empty(&self) -> Result<bool> {
        self.len().map(|len| len == 0)
    }
}

impl<K: std::fmt::Debug + 'static, V: std::fmt::Debug + 'static> std::fmt::Debug for DMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut entries = f.debug_map();
        let looked = self.buckets.each(|key, value| {
            entries.entry(key, value);
        });
        match looked {
            Ok(()) => entries.finish(),
            Err(error) => write!(f, "entries elsewhere: {error}}}"),
        }
    }
}

#[cfg(test)]
mod tests;
