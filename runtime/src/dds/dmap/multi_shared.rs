//! What the body of a synchronous loop sees of a multimap to which it adds values.

use std::borrow::Borrow;
use std::hash::Hash;

use super::bucket::Bucket;
use super::hash::{bucket_of, hash_of};
use super::new_entries::{NewValues, OpsOf, OwnEntries, entries_of};
use super::{DMultiMap, Key};
use crate::body::capture::{ByMerge, Capture, Captured, SharedCapture, WriteShared};
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::slot::Slot;
use crate::body::view::ReadView;
use crate::memory::element::Element;
use crate::session::error::Result;

/// A [`DMultiMap`] captured as `&mut m` by a synchronous loop: `m.insert(key, value)` adds a value to those of a key.
///
/// It has the values that the map had before the loop, and those that its copy has added since. (Under
/// [`Hybrid`](crate::SyncPolicy::Hybrid) each thread has those that it has added itself.) When the loop has ended well, the map takes
/// what all copies have added: of each key the values of the first minibatch first, those of a minibatch in its order. So
/// the map is as the plain loop would have left it, if what a body adds doesn't depend on what others write.
pub struct MultiMapSharedView<'v, K: Send + 'static, V: Send + 'static, const C: usize> {
    buckets: ReadView<'v, Bucket<K, Vec<V>>, C>,
    new: OwnEntries<'v, K, NewValues<V>>,
}

impl<K: Send + 'static, V: Send + 'static, const C: usize> MultiMapSharedView<'_, K, V, C> {
    /// Adds a value to those of a key.
    #[inline]
    pub fn insert(&mut self, key: K, value: V)
    where
        K: Key,
    {
        let minibatch = self.new.minibatch();
        self.new.place(key, |_| NewValues(Vec::new())).0.push((minibatch, value));
    }

    /// A key's values: those that the map had before the loop, then those that were added.
    pub fn values<Q>(&self, key: &Q) -> impl Iterator<Item = &V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(key);
        let before = self.buckets[bucket_of(hash, self.buckets.len())].get(key);
        let new = self.new.get(hash, key).map(|new| &new.0);
        before.into_iter().flatten().chain(new.into_iter().flatten().map(|(_, value)| value))
    }

    /// True if the key has values.
    #[inline]
    pub fn contains_key<Q>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let hash = hash_of(key);
        self.buckets[bucket_of(hash, self.buckets.len())].get(key).is_some() || self.new.get(hash, key).is_some()
    }
}

impl<K: Key, V: Element> Capture for WriteShared<'_, DMultiMap<K, V>> {
    type View<'v, const C: usize> = MultiMapSharedView<'v, K, V, C>;

    // What is there is only read.
    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.map.buckets.describe(false)
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(
        slot: &'v Slot<'v>,
        _: &'v [Slot<'v>],
    ) -> MultiMapSharedView<'v, K, V, C> {
        // SAFETY: the caller's promise: the slot was filled from the description of a DVector of buckets.
        let buckets = unsafe { ReadView::new(slot) };
        MultiMapSharedView { buckets, new: OwnEntries::new(slot) }
    }

    #[allow(private_interfaces)]
    fn new_entry_ops() -> Option<&'static NewEntryOps> {
        Some(OpsOf::<K, NewValues<V>>::OPS)
    }

    #[allow(private_interfaces)]
    fn take_new_entries(&mut self, new: NewEntries) -> Result<()> {
        self.0.map.extend(entries_of::<K, NewValues<V>>(new), |entry, values| {
            entry.or_default().extend(values.0.into_iter().map(|(_, value)| value));
        })
    }
}

impl<K: Key, V: Element> SharedCapture<ByMerge> for DMultiMap<K, V> {
    type Handle<'h> = WriteShared<'h, DMultiMap<K, V>>;
    fn shared_handle(&mut self) -> WriteShared<'_, DMultiMap<K, V>> {
        WriteShared(self)
    }
}
