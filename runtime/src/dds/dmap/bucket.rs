//! The element of a map that loops see: the few entries whose keys' hashes lie in one range.
//!
//! # Why this is sound
//! Nothing is claimed about memory: a bucket is not plain.
#![allow(unsafe_code)]

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::hash::Hash;

use super::Key;
use super::hash::hash_of;
use crate::memory::decode::{DecodeError, take_array};
use crate::memory::element::Element;

/// Entries in the order of their keys' hashes; of equal hashes, in that of the keys' bytes.
#[derive(Clone)]
pub(crate) struct Bucket<K, V>(Entries<K, V>);

/// Most buckets hold one entry or none, which then lies in place.
#[derive(Clone)]
enum Entries<K, V> {
    None,
    One(K, V),
    Many(Vec<(K, V)>),
}

// SAFETY: not plain, so nothing is claimed.
unsafe impl<K: Element, V: Element> Element for Bucket<K, V> {
    const PLAIN: bool = false;
    const BY_KEY: bool = true;

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.len() as u32).to_ne_bytes());
        for (key, value) in self.iter() {
            key.encode(out);
            value.encode(out);
        }
    }

    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        let len = u32::from_ne_bytes(take_array(bytes, "the length of a bucket")?);
        Ok(Bucket(match len {
            0 => Entries::None,
            1 => Entries::One(K::decode(bytes)?, V::decode(bytes)?),
            len => {
                // No length is believed before there are bytes to bear it out.
                let mut entries = Vec::new();
                for _ in 0..len {
                    entries.push((K::decode(bytes)?, V::decode(bytes)?));
                }
                Entries::Many(entries)
            }
        }))
    }
}

/// The order of two different keys in a map.
pub(crate) fn order_of<K: Key>(a: &K, b: &K) -> Ordering {
    hash_of(a).cmp(&hash_of(b)).then_with(|| bytes_of(a).cmp(&bytes_of(b)))
}

pub(crate) fn bytes_of<K: Key>(key: &K) -> Vec<u8> {
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    bytes
}

impl<K, V> Bucket<K, V> {
    pub(crate) const EMPTY: Self = Bucket(Entries::None);

    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Entries::None => 0,
            Entries::One(..) => 1,
            Entries::Many(entries) => entries.len(),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let (one, many) = match &self.0 {
            Entries::None => (None, &[][..]),
            Entries::One(key, value) => (Some((key, value)), &[][..]),
            Entries::Many(entries) => (None, entries.as_slice()),
        };
        one.into_iter().chain(many.iter().map(|(key, value)| (key, value)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let (one, many) = match &mut self.0 {
            Entries::None => (None, &mut [][..]),
            Entries::One(key, value) => (Some((&*key, value)), &mut [][..]),
            Entries::Many(entries) => (None, entries.as_mut_slice()),
        };
        one.into_iter().chain(many.iter_mut().map(|(key, value)| (&*key, value)))
    }

    /// Appends an entry whose key comes after all others.
    pub(crate) fn push(&mut self, key: K, value: V) {
        self.0 = match std::mem::replace(&mut self.0, Entries::None) {
            Entries::None => Entries::One(key, value),
            Entries::One(first, its) => Entries::Many(vec![(first, its), (key, value)]),
            Entries::Many(mut entries) => {
                entries.push((key, value));
                Entries::Many(entries)
            }
        };
    }

    /// All entries, in their order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        let (one, many) = match self.0 {
            Entries::None => (None, Vec::new()),
            Entries::One(key, value) => (Some((key, value)), Vec::new()),
            Entries::Many(entries) => (None, entries),
        };
        one.into_iter().chain(many)
    }

    #[inline]
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        match &self.0 {
            Entries::One(own, value) if own.borrow() == key => Some(value),
            Entries::None | Entries::One(..) => None,
            Entries::Many(entries) => entries.iter().find(|(own, _)| own.borrow() == key).map(|(_, value)| value),
        }
    }

    #[inline]
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        match &mut self.0 {
            Entries::One(own, value) if (*own).borrow() == key => Some(value),
            Entries::None | Entries::One(..) => None,
            Entries::Many(entries) => entries.iter_mut().find(|(own, _)| own.borrow() == key).map(|(_, value)| value),
        }
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        match std::mem::replace(&mut self.0, Entries::None) {
            Entries::None => None,
            Entries::One(own, value) if own.borrow() == key => Some(value),
            one @ Entries::One(..) => {
                self.0 = one;
                None
            }
            Entries::Many(mut entries) => {
                let at = entries.iter().position(|(own, _)| own.borrow() == key);
                let removed = at.map(|at| entries.remove(at).1);
                self.0 = match entries.len() {
                    1 => entries.pop().map_or(Entries::None, |(key, value)| Entries::One(key, value)),
                    _ => Entries::Many(entries),
                };
                removed
            }
        }
    }
}

impl<K: Key, V> Bucket<K, V> {
    /// Puts an entry in its place, and gives the value that the key had.
    pub(crate) fn insert(&mut self, key: K, value: V) -> Option<V> {
        match self.get_mut(&key) {
            Some(there) => Some(std::mem::replace(there, value)),
            None => {
                self.add(key, value);
                None
            }
        }
    }

    /// Puts an entry in whose key isn't there, and gives its value.
    fn add(&mut self, key: K, value: V) -> &mut V {
        let at = match &self.0 {
            Entries::None => 0,
            Entries::One(own, _) => usize::from(order_of(own, &key) == Ordering::Less),
            Entries::Many(entries) => entries.partition_point(|(own, _)| order_of(own, &key) == Ordering::Less),
        };
        if matches!(self.0, Entries::One(..)) {
            let before = std::mem::replace(&mut self.0, Entries::None);
            if let Entries::One(own, its) = before {
                self.0 = Entries::Many(vec![(own, its)]);
            }
        }
        match &mut self.0 {
            Entries::Many(entries) => {
                entries.insert(at, (key, value));
                &mut entries[at].1
            }
            empty => {
                *empty = Entries::One(key, value);
                match empty {
                    Entries::One(_, value) => value,
                    Entries::None | Entries::Many(_) => unreachable!("one entry was just put there"),
                }
            }
        }
    }
}

/// A key's place in a map: with a value or without.
///
/// ```
/// use stradsap_runtime::{DMap, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let mut stock = DMap::new(&session)?;
/// stock.update("pears".to_string(), |entry| *entry.and_modify(|n| *n += 1).or_insert(10))?;
/// stock.update("pears".to_string(), |entry| *entry.and_modify(|n| *n += 1).or_insert(10))?;
/// assert_eq!(stock.get("pears")?, Some(11));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
#[must_use]
pub struct MapEntry<'b, K, V> {
    bucket: &'b mut Bucket<K, V>,
    key: K,
}

impl<'b, K: Key, V> MapEntry<'b, K, V> {
    #[inline]
    pub(crate) fn new(bucket: &'b mut Bucket<K, V>, key: K) -> Self {
        MapEntry { bucket, key }
    }

    /// The key.
    pub fn key(&self) -> &K {
        &self.key
    }

    /// Changes the value, if there is one.
    pub fn and_modify(self, f: impl FnOnce(&mut V)) -> Self {
        if let Some(value) = self.bucket.get_mut(&self.key) {
            f(value);
        }
        self
    }

    /// The value; if there is none, this one.
    #[inline]
    pub fn or_insert(self, value: V) -> &'b mut V {
        self.or_insert_with(|| value)
    }

    /// The value; if there is none, what `f` gives.
    #[inline]
    pub fn or_insert_with(self, f: impl FnOnce() -> V) -> &'b mut V {
        let MapEntry { bucket, key } = self;
        // Keys are compared once: their `Eq` may say something else the next time.
        let at = match &bucket.0 {
            Entries::None => None,
            Entries::One(own, _) => (*own == key).then_some(0),
            Entries::Many(entries) => entries.iter().position(|(own, _)| *own == key),
        };
        match at {
            None => bucket.add(key, f()),
            Some(at) => match &mut bucket.0 {
                Entries::One(_, value) => value,
                Entries::Many(entries) => &mut entries[at].1,
                Entries::None => unreachable!("a place in an empty bucket"),
            },
        }
    }

    /// The value; if there is none, the type's own default.
    pub fn or_default(self) -> &'b mut V
    where
        V: Default,
    {
        self.or_insert_with(V::default)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_bucket_is_a_small_map() {
        let mut bucket = Bucket::<u32, u32>::EMPTY;
        let mut plain = BTreeMap::new();
        for step in 0..4000u32 {
            let key = step.wrapping_mul(2_654_435_761) >> 28;
            match step % 5 {
                0 => assert_eq!(bucket.remove(&key), plain.remove(&key)),
                1 => {
                    *MapEntry::new(&mut bucket, key).or_insert(7) += 1;
                    *plain.entry(key).or_insert(7) += 1;
                }
                _ => assert_eq!(bucket.insert(key, step), plain.insert(key, step)),
            }
            assert_eq!(bucket.len(), plain.len());
            assert!(plain.iter().all(|(key, value)| bucket.get(key) == Some(value)));
            assert!(bucket.iter().map(|(key, _)| hash_of(key)).is_sorted());
        }
        let mut bytes = Vec::new();
        bucket.encode(&mut bytes);
        let again = Bucket::<u32, u32>::decode(&mut bytes.as_slice()).unwrap();
        assert!(again.iter().eq(bucket.iter()));
    }
}
