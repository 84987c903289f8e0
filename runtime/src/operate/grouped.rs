//! Pairs that are brought together by their keys, and become a map.
//!
//! Partitions are ranges of hashes, and so are a map's buckets. There is a power of two of both, so each partition is whole
//! buckets: where it was combined they are made, as soon as it is known how many entries the map has.
//!
//! # Why this is sound
//! As for all stages (see `kernel`).
#![allow(unsafe_code)]

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::marker::PhantomData;

use super::body::{Plain, Travels, decode_one};
use super::kernel::{Cx, Kernel};
use super::stage::{Items, PARTITIONS, Stage, decode_list, joined, unpack};
use crate::dds::dmap::Key;
use crate::dds::dmap::bucket::{Bucket, bytes_of};
use crate::dds::dmap::hash::{bucket_of, hash_of};
use crate::memory::codec::CodecError;
use crate::memory::decode::DecodeError;
use crate::memory::element::Element;
use crate::session::error::Error;

/// How the values of one key become one.
pub(super) trait Unite<V>: Copy + Sync {
    type United: Element;
    fn first(self, value: V) -> Self::United;
    fn and(self, united: &mut Self::United, value: V);
    /// Whether each chunk's values are united before they are dealt out.
    const EARLY: bool;
    /// What two chunks made of a key's values.
    fn both(self, united: &mut Self::United, later: Self::United);
}

/// Keeps them all.
#[derive(Clone, Copy)]
pub(super) struct Listing;

impl<V: Element> Unite<V> for Listing {
    type United = Vec<V>;
    const EARLY: bool = false;
    fn first(self, value: V) -> Vec<V> {
        vec![value]
    }
    fn and(self, united: &mut Vec<V>, value: V) {
        united.push(value);
    }
    fn both(self, united: &mut Vec<V>, later: Vec<V>) {
        united.extend(later);
    }
}

/// Unites two at a time by a function.
#[derive(Clone, Copy)]
pub(super) struct Pairwise<F>(pub(super) F);

impl<V: Element, F: Fn(V, V) -> V + Copy + Sync> Unite<V> for Pairwise<F> {
    type United = V;
    const EARLY: bool = true;
    fn first(self, value: V) -> V {
        value
    }
    fn and(self, united: &mut V, value: V) {
        *united = (self.0)(united.clone(), value);
    }
    fn both(self, united: &mut V, later: V) {
        self.and(united, later);
    }
}

/// Pairs brought together by their keys, in the order of a map.
pub(super) struct Grouped<K, U, F> {
    pub(super) kernel: K,
    /// A power of two.
    pub(super) partitions: usize,
    /// For how many times as many entries the map has room.
    pub(super) room: usize,
    /// How values are united: a type of one value.
    pub(super) unite: Plain<F>,
    pub(super) types: PhantomData<fn() -> U>,
}

impl<K: Travels, U, F: Copy> Travels for Grouped<K, U, F> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        (self.partitions, self.room).encode(out);
        self.kernel.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let (partitions, room): (usize, usize) = decode_one(bytes)?;
        // SAFETY: the caller's promise.
        unsafe {
            Ok(Grouped {
                partitions: partitions.clamp(1, PARTITIONS).next_power_of_two(),
                room,
                kernel: K::decode(bytes)?,
                unite: Travels::decode(bytes)?,
                types: PhantomData,
            })
        }
    }
}

/// A key with its hash, which is not to be computed again.
struct Hashed<Q>(u64, Q);

impl<Q: Eq> PartialEq for Hashed<Q> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 && self.1 == other.1
    }
}

impl<Q: Eq> Eq for Hashed<Q> {}

impl<Q> Hash for Hashed<Q> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0);
    }
}

/// Takes the hash that there is.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.0 = self.0.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type Map<Q, V> = HashMap<Hashed<Q>, V, BuildHasherDefault<Ready>>;

fn hashed<Q: Key>(key: Q) -> Hashed<Q> {
    Hashed(hash_of(&key), key)
}

impl<K, Q, V, F> Stage for Grouped<K, (Q, V), F>
where
    K: Kernel<Item = (Q, V)>,
    Q: Key,
    V: Element,
    F: Unite<V>,
{
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let part_of = |key: &Q| bucket_of(hash_of(key), self.partitions);
        let unite = self.unite.0;
        if !F::EARLY {
            let mut parts: Vec<Vec<(Q, V)>> = (0..self.partitions).map(|_| Vec::new()).collect();
            self.kernel.each_owned(cx, |(key, value)| parts[part_of(&key)].push((key, value)));
            return parts.into_iter().map(|part| Box::new(part) as Box<dyn Items>).collect();
        }
        let mut united = Map::<Q, F::United>::default();
        self.kernel.each_owned(cx, |(key, value)| match united.entry(hashed(key)) {
            Entry::Occupied(mut there) => unite.and(there.get_mut(), value),
            Entry::Vacant(place) => drop(place.insert(unite.first(value))),
        });
        let mut parts: Vec<Vec<(Q, F::United)>> = (0..self.partitions).map(|_| Vec::new()).collect();
        for (Hashed(hash, key), value) in united {
            parts[bucket_of(hash, self.partitions)].push((key, value));
        }
        parts.into_iter().map(|part| Box::new(part) as Box<dyn Items>).collect()
    }

    fn partitions(&self) -> usize {
        self.partitions
    }

    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
        let unite = self.unite.0;
        let mut map = Map::<Q, F::United>::default();
        if F::EARLY {
            for (key, value) in unpack::<(Q, F::United)>(lists).into_iter().flatten() {
                match map.entry(hashed(key)) {
                    Entry::Occupied(mut there) => unite.both(there.get_mut(), value),
                    Entry::Vacant(place) => drop(place.insert(value)),
                }
            }
        } else {
            for (key, value) in unpack::<(Q, V)>(lists).into_iter().flatten() {
                match map.entry(hashed(key)) {
                    Entry::Occupied(mut there) => unite.and(there.get_mut(), value),
                    Entry::Vacant(place) => drop(place.insert(unite.first(value))),
                }
            }
        }
        let mut entries: Vec<(u64, (Q, F::United))> =
            map.into_iter().map(|(Hashed(hash, key), value)| (hash, (key, value))).collect();
        entries.sort_unstable_by(|(a, (key, _)), (b, (other, _))| {
            a.cmp(b).then_with(|| bytes_of(key).cmp(&bytes_of(other)))
        });
        let partition = |hash| bucket_of(hash, self.partitions);
        let first = entries.first().map_or(0, |(hash, _)| partition(*hash));
        let constant = |(hash, (key, _)): &(u64, (Q, F::United))| partition(*hash) == first && hash_of(key) == *hash;
        assert!(entries.iter().all(constant), "{}", Error::InconstantHash);
        Box::new(entries)
    }

    fn arrived(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
        if F::EARLY { decode_list::<(Q, F::United)>(n, bytes) } else { decode_list::<(Q, V)>(n, bytes) }
    }

    fn returned(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
        decode_list::<(u64, (Q, F::United))>(n, bytes)
    }

    fn makes_map(&self) -> Option<usize> {
        Some(self.room)
    }

    fn buckets(&self, entries: Box<dyn Items>, buckets: usize) -> Box<dyn Items> {
        let mut filled: Vec<Bucket<Q, F::United>> = Vec::with_capacity(buckets);
        filled.resize_with(buckets, || Bucket::EMPTY);
        for (hash, (key, value)) in joined::<(u64, (Q, F::United))>(vec![entries]) {
            filled[bucket_of(hash, self.partitions * buckets) % buckets].push(key, value);
        }
        Box::new(filled)
    }
}
