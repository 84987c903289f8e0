//! What the body of a synchronous loop sees of a map that it writes.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::Index;

use super::bucket::Bucket;
use super::hash::{bucket_of, hash_of};
use super::{DMap, Key};
use crate::body::capture::{ByMerge, ByNothing, Capture, Captured, Nothing, SharedCapture, WriteShared};
use crate::body::shared_view::SharedView;
use crate::body::slot::Slot;
use crate::body::view::ReadView;
use crate::memory::merge::{Merge, MergeOps, merge_ops_of};
use crate::memory::shared::Shared;

/// A [`DMap`] captured as `&mut m` by a synchronous loop: `m[&key]` and `m.get(&key)` give [`Shared`] values, which are read
/// and changed by their methods: `m[&key].get()`, `m[&key].add(d)`.
///
/// It has the keys that the map had before the loop. There is no `insert`, `remove` or `entry`, since copies with different keys
/// could not be united. If a body calls one of them, the macro's error says so.
pub struct MapSharedView<'v, K, V, const C: usize> {
    values: SharedView<'v, V, C>,
    index: ReadView<'v, Bucket<K, u32>, C>,
}

impl<K, V, const C: usize> MapSharedView<'_, K, V, C> {
    /// A key's value, if the map had the key before the loop.
    #[inline]
    pub fn get<Q>(&self, key: &Q) -> Option<&Shared<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let place = *self.index[bucket_of(hash_of(key), self.index.len())].get(key)?;
        Some(&self.values[place])
    }

    /// True if the map had the key before the loop.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.index[bucket_of(hash_of(key), self.index.len())].get(key).is_some()
    }

    /// The number of entries of the whole map.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if the map has no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// All entries in their order. Each value counts as touched when the iterator reaches it.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &Shared<V>)> {
        let places = (0..self.index.len()).flat_map(|at| self.index[at].iter());
        places.map(|(key, &place)| (key, &self.values[place]))
    }
}

impl<K, V, Q, const C: usize> Index<&Q> for MapSharedView<'_, K, V, C>
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
            None => panic!("the map has no such key: use `get` where that may be, and insert keys before the loop"),
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
        unsafe { MapSharedView { values: SharedView::new(slot), index: ReadView::new(&key_indexes[0]) } }
    }

    #[allow(private_interfaces)]
    fn merge() -> Option<&'static MergeOps> {
        Some(merge_ops_of::<V>())
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
