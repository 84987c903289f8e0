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

/// Entries in the order of their keys' hashes; of equal hashes, in that of the keys' bytes. Most buckets hold one or none.
///
/// The first lies in place whether there are others or not: an access can tell that it found its key without knowing which it is. (A
/// branch on whether there are others is foreseen half of the time, and waits for the bucket to come from memory.)
pub(crate) struct Bucket<K, V>(Entries<K, V>);

/// (Not an `Option` of a pair and the others: what is left empty beside a short value has room for the tag.)
enum Entries<K, V> {
    None,
    Some { key: K, value: V, others: Others<K, V> },
}

/// None if there are no others: buckets are as small as can be.
type Others<K, V> = Option<Box<Behind<K, V>>>;

/// The entries behind the first. (Mostly one: a copy of it takes one piece of memory.)
#[derive(Clone)]
struct Behind<K, V> {
    second: (K, V),
    rest: Vec<(K, V)>,
}

impl<K: Clone, V: Clone> Clone for Bucket<K, V> {
    // (Inlined: a bucket that a call returns is read back from the stack in larger pieces than it was written in, which makes a
    // copy of a map wait for each one.)
    #[inline]
    fn clone(&self) -> Self {
        #[inline(never)]
        fn behind<K: Clone, V: Clone>(others: &Behind<K, V>) -> Box<Behind<K, V>> {
            Box::new(others.clone())
        }
        Bucket(match &self.0 {
            Entries::None => Entries::None,
            Entries::Some { key, value, others } => {
                Entries::Some { key: key.clone(), value: value.clone(), others: others.as_deref().map(behind) }
            }
        })
    }
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
        // No length is believed before there are bytes to bear it out.
        let mut bucket = Bucket::EMPTY;
        for _ in 0..len {
            bucket.push(K::decode(bytes)?, V::decode(bytes)?);
        }
        Ok(bucket)
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

impl<K, V> Behind<K, V> {
    #[inline]
    fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        std::iter::once(&self.second).chain(&self.rest)
    }

    #[inline]
    fn iter_mut(&mut self) -> impl Iterator<Item = &mut (K, V)> {
        std::iter::once(&mut self.second).chain(&mut self.rest)
    }

    fn at(&mut self, place: usize) -> &mut (K, V) {
        if place == 0 { &mut self.second } else { &mut self.rest[place - 1] }
    }

    fn insert(others: &mut Others<K, V>, place: usize, entry: (K, V)) -> &mut (K, V) {
        match others {
            Some(others) => {
                let (at, entry) = match place {
                    0 => (0, std::mem::replace(&mut others.second, entry)),
                    _ => (place - 1, entry),
                };
                others.rest.insert(at, entry);
                others.at(place)
            }
            none => &mut none.insert(Box::new(Behind { second: entry, rest: Vec::new() })).second,
        }
    }
}

impl<K, V> Bucket<K, V> {
    pub(crate) const EMPTY: Self = Bucket(Entries::None);

    /// The entries behind the first.
    fn others(&self) -> impl Iterator<Item = &(K, V)> {
        let others = match &self.0 {
            Entries::Some { others, .. } => others.as_ref(),
            Entries::None => None,
        };
        others.into_iter().flat_map(|others| others.iter())
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        match &self.0 {
            Entries::None => 0,
            Entries::Some { others, .. } => 1 + others.as_ref().map_or(0, |others| 1 + others.rest.len()),
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        let first = match &self.0 {
            Entries::None => None,
            Entries::Some { key, value, .. } => Some((key, value)),
        };
        first.into_iter().chain(self.others().map(|(key, value)| (key, value)))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&K, &mut V)> {
        let (first, others) = match &mut self.0 {
            Entries::None => (None, None),
            Entries::Some { key, value, others } => (Some((&*key, value)), others.as_mut()),
        };
        first
            .into_iter()
            .chain(others.into_iter().flat_map(|others| others.iter_mut().map(|(key, value)| (&*key, value))))
    }

    /// Appends an entry whose key comes after all others.
    pub(crate) fn push(&mut self, key: K, value: V) {
        match &mut self.0 {
            Entries::Some { others, .. } => match others {
                Some(others) => others.rest.push((key, value)),
                none => *none = Some(Box::new(Behind { second: (key, value), rest: Vec::new() })),
            },
            none => *none = Entries::Some { key, value, others: None },
        }
    }

    /// All entries, in their order.
    pub(crate) fn into_entries(self) -> impl Iterator<Item = (K, V)> {
        let (first, others) = match self.0 {
            Entries::None => (None, None),
            Entries::Some { key, value, others } => (Some((key, value)), others),
        };
        first.into_iter().chain(others.into_iter().flat_map(|others| std::iter::once(others.second).chain(others.rest)))
    }

    /// Where a key stands among all entries. Keys are compared once each: their `Eq` may say something else the next time.
    fn place_of<Q>(&self, key: &Q) -> Option<usize>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.iter().position(|(own, _)| own.borrow() == key)
    }

    #[inline]
    pub(crate) fn get<Q>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let Entries::Some { key: own, value, others } = &self.0 else { return None };
        if own.borrow() == key {
            return Some(value);
        }
        others.as_ref()?.iter().find(|(own, _)| own.borrow() == key).map(|(_, value)| value)
    }

    #[inline]
    pub(crate) fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        let Entries::Some { key: own, value, others } = &mut self.0 else { return None };
        if (*own).borrow() == key {
            return Some(value);
        }
        others.as_mut()?.iter_mut().find(|(own, _)| own.borrow() == key).map(|(_, value)| value)
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        let place = self.place_of(key)?;
        let mut entries = std::mem::replace(self, Bucket::EMPTY).into_entries().collect::<Vec<_>>();
        let (_, removed) = entries.remove(place);
        entries.into_iter().for_each(|(key, value)| self.push(key, value));
        Some(removed)
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

    /// The value of a key that is not the first; if there is none, what `f` gives.
    fn behind_first(&mut self, key: K, f: impl FnOnce() -> V) -> &mut V {
        // Keys are compared once: their `Eq` may say something else the next time.
        let place = self.others().position(|(own, _)| *own == key);
        match place {
            Some(at) => match &mut self.0 {
                Entries::Some { others: Some(others), .. } => &mut others.at(at).1,
                _ => unreachable!("a place among no others"),
            },
            None => self.add(key, f()),
        }
    }

    /// Puts an entry in whose key isn't there, and gives its value.
    fn add(&mut self, key: K, value: V) -> &mut V {
        let before = |own: &K| order_of(own, &key) == Ordering::Less;
        match &mut self.0 {
            Entries::Some { key: first, value: its, others } => {
                if before(first) {
                    let at =
                        others.as_ref().map_or(0, |others| others.iter().take_while(|(own, _)| before(own)).count());
                    &mut Behind::insert(others, at, (key, value)).1
                } else {
                    Behind::insert(others, 0, (std::mem::replace(first, key), std::mem::replace(its, value)));
                    its
                }
            }
            none => {
                *none = Entries::Some { key, value, others: None };
                match none {
                    Entries::Some { value, .. } => value,
                    Entries::None => unreachable!("an entry was just put in"),
                }
            }
        }
    }
}

/// A key's place in a map, with or without a value.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DMap, Session};
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

    /// The value. If there is none, `value` is inserted.
    #[inline]
    pub fn or_insert(self, value: V) -> &'b mut V {
        self.or_insert_with(|| value)
    }

    /// The value. If there is none, the result of `f` is inserted.
    #[inline]
    pub fn or_insert_with(self, f: impl FnOnce() -> V) -> &'b mut V {
        let MapEntry { bucket, key } = self;
        match &bucket.0 {
            Entries::None => bucket.add(key, f()),
            Entries::Some { key: own, .. } if *own == key => match &mut bucket.0 {
                Entries::Some { value, .. } => value,
                Entries::None => unreachable!("it has an entry"),
            },
            Entries::Some { .. } => bucket.behind_first(key, f),
        }
    }

    /// The value. If there is none, the type's default is inserted.
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
