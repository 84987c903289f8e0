//! What the body of a synchronous loop sees of a map that it writes.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::Index;

use super::bucket::Bucket;
use super::hash::{bucket_of, hash_of};
use super::new_entries::{NewValue, OpsOf, OwnEntries, entries_of};
use super::view::MapName;
use super::{DMap, Key};
use crate::body::capture::{ByMerge, ByNothing, Capture, Captured, Nothing, SharedCapture, WriteShared};
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::shared_view::SharedView;
use crate::body::slot::Slot;
use crate::body::view::ReadView;
use crate::memory::merge::{Merge, MergeOps, merge_ops_of};
use crate::memory::shared::Shared;
use crate::session::error::Result;

/// A [`DMap`] captured as `&mut m` by a synchronous loop: `m[&key]` and `m.get(&key)` give [`Shared`] values, which are read
/// and changed by their methods: `m[&key].get()`, `m[&key].add(d)`. `m.entry(key)` adds a key that the map doesn't have.
///
/// It has the keys that the map had before the loop, and those that its copy has added since. (Under
/// [`Hybrid`](crate::SyncPolicy::Hybrid) each thread has those that it has added itself.) When the loop has ended well, the map takes the
/// new keys of all copies. No key is ever removed.
pub struct MapSharedView<'v, K: Send + 'static, V: Send + 'static, const C: usize> {
    values: SharedView<'v, V, C>,
    index: ReadView<'v, Bucket<K, u32>, C>,
    new: OwnEntries<'v, K, NewValue<V>>,
    name: MapName,
}

/// What no view is.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "a synchronous loop can't replace a value of a map, since other copies may change it",
    label = "write `.entry(key).or_insert(value)` for a new key, and `.set(value)` behind it for any",
    note = "`DMultiMap`s take `insert(key, value)`"
)]
pub trait Inserts {}

impl<'v, K: Send + 'static, V: Send + 'static, const C: usize> MapSharedView<'v, K, V, C> {
    /// Says what the body calls the map.
    #[doc(hidden)]
    #[inline(always)]
    pub fn __stradsap_named(&mut self, name: &'static str) {
        self.name = MapName::new(name);
    }

    /// A key's value.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&Shared<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(key);
        match self.index[bucket_of(hash, self.index.len())].get(key) {
            Some(&place) => Some(&self.values[place]),
            None => self.new.get(hash, key).map(|value| &value.now),
        }
    }

    /// A key's place, whether it has a value or not: `m.entry(key).or_insert(0).add(1)`.
    #[inline]
    pub fn entry(&mut self, key: K) -> SharedEntry<'_, 'v, K, V>
    where
        K: Key,
    {
        let there = self.index[bucket_of(hash_of(&key), self.index.len())].get(&key);
        SharedEntry { there: there.map(|&place| &self.values[place]), new: &mut self.new, key }
    }

    /// For who looks for it: there is none, since a value that other copies change can't be replaced.
    #[doc(hidden)]
    pub fn insert(&mut self, key: K, value: V)
    where
        Self: Inserts,
    {
        _ = (key, value);
    }

    /// True if there is the key.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(key);
        self.index[bucket_of(hash, self.index.len())].get(key).is_some() || self.new.get(hash, key).is_some()
    }

    /// The number of entries of the whole map, and of those that were added.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len() + self.new.len()
    }

    /// True if there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries that the map had before the loop, in their order; then those that were added, in theirs. Each value counts as
    /// touched when the iterator reaches it.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Shared<V>)> {
        let places = (0..self.index.len()).flat_map(|at| self.index[at].iter());
        let new = self.new.iter().map(|(key, value)| (key, &value.now));
        places.map(|(key, &place)| (key, &self.values[place])).chain(new)
    }
}

/// A key's place in a map that a synchronous loop writes, with or without a value.
///
/// Of a new key, the value that it begins with is no change: where several copies add the key, it begins as in the earliest of their
/// minibatches, and what each copy has done to it since is united as for any other key.
#[must_use]
pub struct SharedEntry<'e, 'v, K: Send + 'static, V: Send + 'static> {
    there: Option<&'e Shared<V>>,
    new: &'e mut OwnEntries<'v, K, NewValue<V>>,
    key: K,
}

impl<'e, K: Key, V: Merge> SharedEntry<'e, '_, K, V> {
    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// The value. If there is none, the key begins with `value`.
    #[inline]
    pub fn or_insert(self, value: V) -> &'e Shared<V> {
        self.or_insert_with(|| value)
    }

    /// The value. If there is none, the key begins with the result of `f`.
    #[inline]
    pub fn or_insert_with(self, f: impl FnOnce() -> V) -> &'e Shared<V> {
        match self.there {
            Some(there) => there,
            None => &self.new.place(self.key, |minibatch| NewValue::new(minibatch, f())).now,
        }
    }

    /// The value. If there is none, the key begins with the type's default.
    pub fn or_default(self) -> &'e Shared<V>
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

impl<K: Send + 'static, V: Send + 'static, Q, const C: usize> Index<&Q> for MapSharedView<'_, K, V, C>
where
    K: Borrow<Q>,
    Q: Hash + Eq + ?Sized,
{
    type Output = Shared<V>;

    /// # Panics
    /// If the map has no such key. The loop then ends with an error.
    #[inline]
    #[track_caller]
    fn index(&self, key: &Q) -> &Shared<V> {
        match self.get(key) {
            Some(value) => value,
            None => self.name.has_no_such_key("`get` or `entry`"),
        }
    }
}

impl<K: Key, V: Merge> Capture for WriteShared<'_, DMap<K, V>> {
    type View<'v, const C: usize> = MapSharedView<'v, K, V, C>;

    /// The index.
    const KEY_INDEXES: usize = 1;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.buckets.dense().values.describe(true)
    }

    // Not made anew: it belongs to the values that were described.
    #[allow(private_interfaces)]
    fn key_indexes(&mut self) -> Vec<Captured> {
        self.0.buckets.index().map(|index| index.describe(false)).into_iter().collect()
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(
        slot: &'v Slot<'v>,
        key_indexes: &'v [Slot<'v>],
    ) -> MapSharedView<'v, K, V, C> {
        const { assert!(V::PLAIN, "values that a synchronous loop writes must be plain: numbers, and arrays of them") };
        // SAFETY: the caller's promise: the slot was filled from the description of a DVector of values, and that of the key index from
        // the description of an index.
        let (values, index) = unsafe { (SharedView::new(slot), ReadView::new(&key_indexes[0])) };
        MapSharedView { values, index, new: OwnEntries::new(slot), name: MapName::default() }
    }

    #[allow(private_interfaces)]
    fn merge() -> Option<&'static MergeOps> {
        Some(merge_ops_of::<V>())
    }

    #[allow(private_interfaces)]
    fn new_entry_ops() -> Option<&'static NewEntryOps> {
        Some(OpsOf::<K, NewValue<V>>::OPS)
    }

    #[allow(private_interfaces)]
    fn take_new_entries(&mut self, new: NewEntries) -> Result<()> {
        self.0.extend(entries_of::<K, NewValue<V>>(new), |entry, value| {
            entry.or_insert_with(|| value.now.get());
        })
    }
}

impl<K: Key, V: Merge> SharedCapture<ByMerge> for DMap<K, V> {
    type Handle<'h> = WriteShared<'h, DMap<K, V>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DMap<K, V>> {
        WriteShared(self)
    }
}

#[diagnostic::do_not_recommend]
impl<K: Key, V: Merge + Nothing> SharedCapture<ByNothing> for DMap<K, V> {
    type Handle<'h> = WriteShared<'h, DMap<K, V>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DMap<K, V>> {
        WriteShared(self)
    }
}
