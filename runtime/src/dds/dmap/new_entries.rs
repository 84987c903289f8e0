//! Entries that the body of a synchronous loop adds to a map. A view keeps those of its part, and finds them again in the next
//! minibatch; when the loop has ended, those of all parts are united key by key, in the map's order.

use std::any::Any;
use std::borrow::Borrow;
use std::marker::PhantomData;

use super::Key;
use super::bucket::{Bucket, MapEntry};
use super::hash::{bucket_of, hash_of};
use crate::body::new_entries::{NewEntries, NewEntryOps};
use crate::body::slot::Slot;
use crate::memory::decode::{DecodeError, take_array};
use crate::memory::element::Element;
use crate::memory::merge::{Merge, Union, unite_values};
use crate::memory::shared::Shared;

/// A new table has this many buckets.
const FEWEST: usize = 64;

/// What is kept of a new key.
pub(super) trait NewEntry: Sized + Send + 'static {
    fn encode(&self, out: &mut Vec<u8>);
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;
    /// Makes one of those of several parts, which come in their order.
    fn unite(parts: Vec<Self>, how: Union) -> Self;
}

/// The value of a new key of a `DMap`.
pub(super) struct NewValue<V> {
    /// The minibatch that made it.
    made: usize,
    /// What it began with.
    first: V,
    pub(super) now: Shared<V>,
}

impl<V: Clone> NewValue<V> {
    pub(super) fn new(made: usize, first: V) -> Self {
        NewValue { made, now: Shared::new(first.clone()), first }
    }
}

impl<V: Merge> NewEntry for NewValue<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.made.encode(out);
        self.first.encode(out);
        self.now.get().encode(out);
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let made = usize::decode(bytes)?;
        Ok(NewValue { made, first: V::decode(bytes)?, now: Shared::new(V::decode(bytes)?) })
    }

    fn unite(parts: Vec<Self>, how: Union) -> Self {
        let values: Vec<(V, V)> = parts.iter().map(|part| (part.first.clone(), part.now.get())).collect();
        let Some(NewValue { made, first, .. }) = parts.into_iter().min_by_key(|part| part.made) else {
            unreachable!("some part made it")
        };
        NewValue { made, now: Shared::new(unite_values(&first, &values, how)), first }
    }
}

/// The new values of a key of a `DMultiMap`, each with the minibatch that added it.
pub(super) struct NewValues<V>(pub(super) Vec<(usize, V)>);

impl<V: Element> NewEntry for NewValues<V> {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.len().encode(out);
        for (minibatch, value) in &self.0 {
            minibatch.encode(out);
            value.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let mut all = Vec::new();
        // Each takes some bytes, and no room is made in advance.
        for _ in 0..usize::decode(bytes)? {
            all.push((usize::decode(bytes)?, V::decode(bytes)?));
        }
        Ok(NewValues(all))
    }

    fn unite(parts: Vec<Self>, _: Union) -> Self {
        let mut all: Vec<(usize, V)> = parts.into_iter().flat_map(|part| part.0).collect();
        // A minibatch is one part's.
        all.sort_by_key(|&(minibatch, _)| minibatch);
        NewValues(all)
    }
}

/// New keys of one map, in buckets as the map's own.
pub(super) struct NewTable<K, E> {
    buckets: Vec<Bucket<K, E>>,
    len: usize,
}

impl<K, E> NewTable<K, E> {
    fn new() -> Self {
        NewTable { buckets: (0..FEWEST).map(|_| Bucket::EMPTY).collect(), len: 0 }
    }

    fn get<Q>(&self, hash: u64, key: &Q) -> Option<&E>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.buckets[bucket_of(hash, self.buckets.len())].get(key)
    }

    /// All of it in the map's order.
    pub(super) fn into_entries(self) -> impl Iterator<Item = (K, E)> {
        self.buckets.into_iter().flat_map(Bucket::into_entries)
    }

    fn iter(&self) -> impl Iterator<Item = (&K, &E)> {
        self.buckets.iter().flat_map(Bucket::iter)
    }
}

impl<K: Key, E> NewTable<K, E> {
    /// What is kept of a key; if there is none, `new` makes it.
    fn place(&mut self, key: K, new: impl FnOnce() -> E) -> &mut E {
        if self.len >= self.buckets.len() {
            self.grow();
        }
        let NewTable { buckets, len } = self;
        let at = bucket_of(hash_of(&key), buckets.len());
        MapEntry::new(&mut buckets[at], key).or_insert_with(|| {
            *len += 1;
            new()
        })
    }

    fn grow(&mut self) {
        let n = 2 * self.buckets.len();
        let old = std::mem::replace(&mut self.buckets, (0..n).map(|_| Bucket::EMPTY).collect());
        for (key, entry) in old.into_iter().flat_map(Bucket::into_entries) {
            // In the order of hashes, here as there.
            self.buckets[bucket_of(hash_of(&key), n)].push(key, entry);
        }
    }
}

/// The new entries of a view's part.
pub(super) struct OwnEntries<'v, K: Send + 'static, E: Send + 'static> {
    slot: &'v Slot<'v>,
    /// None as long as there are none.
    table: Option<Box<NewTable<K, E>>>,
}

impl<'v, K: Send + 'static, E: Send + 'static> OwnEntries<'v, K, E> {
    /// With those of the part's minibatches before.
    #[inline]
    pub(super) fn new(slot: &'v Slot<'v>) -> Self {
        let before: Option<Box<dyn Any>> = slot.new_entries().take().map(|entries| entries as Box<dyn Any>);
        OwnEntries { slot, table: before.and_then(|entries| entries.downcast().ok()) }
    }

    pub(super) fn len(&self) -> usize {
        self.table.as_ref().map_or(0, |table| table.len)
    }

    #[inline]
    pub(super) fn get<Q>(&self, hash: u64, key: &Q) -> Option<&E>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.table.as_ref()?.get(hash, key)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&K, &E)> {
        self.table.iter().flat_map(|table| table.iter())
    }

    /// What is kept of a key; if there is none, `new` makes it in the minibatch that it is told.
    pub(super) fn place(&mut self, key: K, new: impl FnOnce(usize) -> E) -> &mut E
    where
        K: Key,
    {
        let minibatch = self.slot.iteration();
        self.table.get_or_insert_with(|| Box::new(NewTable::new())).place(key, || new(minibatch))
    }

    /// The minibatch that runs.
    pub(super) fn minibatch(&self) -> usize {
        self.slot.iteration()
    }
}

/// They go back to where the next minibatch finds them.
impl<K: Send + 'static, E: Send + 'static> Drop for OwnEntries<'_, K, E> {
    fn drop(&mut self) {
        self.slot.new_entries().set(self.table.take().map(|table| table as NewEntries));
    }
}

/// The entries of a map that takes such ones; none if they are of another.
pub(super) fn entries_of<K: Key, E: NewEntry>(entries: NewEntries) -> impl Iterator<Item = (K, E)> {
    entries.downcast::<NewTable<K, E>>().ok().into_iter().flat_map(|table| table.into_entries())
}

pub(super) struct OpsOf<K, E>(PhantomData<(K, E)>);

impl<K: Key, E: NewEntry> OpsOf<K, E> {
    pub(super) const OPS: &'static NewEntryOps = &NewEntryOps {
        encode: encode::<K, E>,
        #[cfg(feature = "cluster")]
        decode: |bytes| Ok(Box::new(decode::<K, E>(bytes)?)),
        unite: unite::<K, E>,
    };
}

fn encode<K: Key, E: NewEntry>(entries: &NewEntries, out: &mut Vec<u8>) {
    let table = entries.downcast_ref::<NewTable<K, E>>();
    out.extend_from_slice(&(table.map_or(0, |table| table.len) as u64).to_le_bytes());
    for (key, entry) in table.into_iter().flat_map(NewTable::iter) {
        key.encode(out);
        entry.encode(out);
    }
}

#[cfg_attr(not(feature = "cluster"), allow(dead_code))]
fn decode<K: Key, E: NewEntry>(bytes: &mut &[u8]) -> Result<NewTable<K, E>, DecodeError> {
    let len = u64::from_le_bytes(take_array(bytes, "the number of new keys")?);
    let mut table = NewTable::new();
    // No length is believed before there are bytes to bear it out.
    for at in 0..len {
        let (key, entry) = (K::decode(bytes)?, E::decode(bytes)?);
        let mut is_new = false;
        table.place(key, || {
            is_new = true;
            entry
        });
        if !is_new {
            return Err(DecodeError::Repeated { of: "new keys", at: at as usize });
        }
    }
    Ok(table)
}

fn unite<K: Key, E: NewEntry>(parts: Vec<NewEntries>, how: Union) -> NewEntries {
    let mut by_key = NewTable::<K, Vec<E>>::new();
    for (key, entry) in parts.into_iter().flat_map(entries_of::<K, E>) {
        by_key.place(key, Vec::new).push(entry);
    }
    let NewTable { buckets, len } = by_key;
    let mut united = NewTable { buckets: (0..buckets.len()).map(|_| Bucket::EMPTY).collect(), len };
    for (to, from) in united.buckets.iter_mut().zip(buckets) {
        from.into_entries().for_each(|(key, entries)| to.push(key, E::unite(entries, how)));
    }
    Box::new(united)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Counts = OpsOf<String, NewValue<u64>>;

    fn part(entries: &[(&str, usize, u64, u64)]) -> NewEntries {
        let mut table = NewTable::<String, NewValue<u64>>::new();
        for &(key, made, first, now) in entries {
            table.place(key.to_string(), || NewValue::new(made, first)).now.set(now);
        }
        Box::new(table)
    }

    fn values(entries: NewEntries) -> Vec<(String, u64)> {
        let mut all: Vec<_> =
            entries_of::<String, NewValue<u64>>(entries).map(|(key, value)| (key, value.now.get())).collect();
        assert!(all.iter().map(|(key, _)| hash_of(key)).is_sorted());
        all.sort();
        all
    }

    #[test]
    fn values_of_one_key_are_united_from_where_each_part_began() {
        let parts =
            || vec![part(&[("a", 4, 10, 13), ("b", 4, 0, 7)]), part(&[("a", 2, 5, 6)]), part(&[("c", 3, 1, 1)])];
        let expected = |a, b, c| [("a", a), ("b", b), ("c", c)].map(|(key, n)| (key.to_string(), n)).to_vec();
        assert_eq!(values((Counts::OPS.unite)(parts(), Union::Sum)), expected(5 + 3 + 1, 7, 1));
        assert_eq!(values((Counts::OPS.unite)(parts(), Union::Combine)), expected(5 + 3 + 1, 7, 1));
        assert_eq!(values((Counts::OPS.unite)(parts(), Union::Mean(3))), expected(5 + 1, 2, 1));
    }

    #[test]
    fn a_table_grows_and_stays_in_order() {
        let keys: Vec<String> = (0..1000).map(|i| format!("key {i}")).collect();
        let entries: Vec<_> = keys.iter().map(|key| (key.as_str(), 0, 1, 2)).collect();
        let all = values(part(&[&entries[..], &entries[..]].concat()));
        assert_eq!(all.len(), 1000);
        assert!(all.into_iter().all(|(_, value)| value == 2));
    }

    #[cfg(feature = "cluster")]
    #[test]
    fn nothing_is_believed_that_does_not_fit() {
        let mut bytes = Vec::new();
        (Counts::OPS.encode)(&part(&[("a", 4, 10, 13), ("bcd", 7, 0, 7), ("", 1, 2, 3)]), &mut bytes);
        let again = (Counts::OPS.decode)(&mut &bytes[..]).unwrap();
        assert_eq!(values(again).len(), 3);
        (0..bytes.len()).for_each(|end| assert!((Counts::OPS.decode)(&mut &bytes[..end]).is_err(), "{end} bytes"));
        // One key twice.
        let one = bytes.len();
        (Counts::OPS.encode)(&part(&[("a", 4, 10, 13)]), &mut bytes);
        let twice = [&2u64.to_le_bytes()[..], &bytes[one + 8..], &bytes[one + 8..]].concat();
        assert!(matches!((Counts::OPS.decode)(&mut &twice[..]), Err(DecodeError::Repeated { at: 1, .. })));
        bytes.truncate(one);
        let mut state = 7u64;
        for _ in 0..20_000 {
            let mut hostile = bytes.clone();
            for _ in 0..3 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let at = (state >> 33) as usize % hostile.len();
                hostile[at] ^= (state >> 20) as u8;
            }
            if let Ok(entries) = (Counts::OPS.decode)(&mut &hostile[..]) {
                assert!(values(entries).len() < 4);
            }
        }
    }
}
