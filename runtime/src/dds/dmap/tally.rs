//! Tallies of maps: maps of more buckets, whose values are added to those of the same keys.
//!
//! # Why this is sound
//! As `memory::additive` says: the operations read and write buckets of one type alone, at addresses that the caller vouches
//! for, and leave empty buckets of those that they take.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::borrow::Borrow;
use std::hash::Hash;
use std::marker::PhantomData;

use super::bucket::{Bucket, order_of};
use super::hash::{bucket_of, hash_of};
use super::{DMap, Key, MapWriteView};
use crate::body::capture::Write;
use crate::body::summed::{SumCapture, Tallied};
use crate::memory::additive::{Additive, TallyOps};
use crate::memory::buffer::RawBuf;
use crate::memory::element_ops::ops_of;
use crate::memory::named::Named;

/// A new tally has this many buckets or more.
const LEAST: usize = 1 << 12;
/// Buckets of a tally that are looked at, to guess how full it is.
const LOOKED_AT: usize = 1 << 10;
/// To a bucket with this many entries others are added one by one.
const FEW: usize = 4;

struct OpsOf<K, V>(PhantomData<(K, V)>);

impl<K: Key, V: Additive> OpsOf<K, V> {
    const OPS: &'static Named<TallyOps> = &Named::new(TallyOps {
        exact: V::EXACT,
        steady: || V::STEADY && compares_steadily::<K>(),
        element: ops_of::<Bucket<K, V>>,
        zeros: |_, len| empty::<K, V>(len),
        spread: |len| LEAST.div_ceil(len).next_power_of_two(),
        crowded: crowded::<K, V>,
        grow: grow::<K, V>,
        unite_run: unite_run::<K, V>,
    });
}

impl<K: Key, V: Additive> SumCapture for DMap<K, V> {
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps {
        &OpsOf::<K, V>::OPS.value
    }
}

impl<K: Key, V: Additive, const W: usize> Tallied for Write<'_, DMap<K, V>, W> {
    #[allow(private_interfaces)]
    fn tally_ops() -> &'static TallyOps {
        &OpsOf::<K, V>::OPS.value
    }
}

impl<K: Key, V: Additive, const C: usize> MapWriteView<'_, K, V, C> {
    /// Adds `by` to a key's value, or to [`zero`](Additive::zero) if the key has none. Integers wrap around. The key is cloned only
    /// if it is new, so the words of a `DMap<String, u64>` are counted without making a `String` of each.
    #[inline]
    pub fn add<Q>(&mut self, key: &Q, by: V)
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ToOwned<Owned = K> + ?Sized,
    {
        let bucket = self.bucket(key);
        match bucket.get_mut(key) {
            Some(own) => own.unite(&by),
            None => drop(bucket.insert(key.to_owned(), by)),
        }
    }
}

/// Whether hashing and comparing keys of this type is known not to panic.
fn compares_steadily<K: Key>() -> bool {
    macro_rules! is_one_of {
        ($($t:ty),*) => { [$(TypeId::of::<$t>()),*].contains(&TypeId::of::<K>()) };
    }
    is_one_of!(
        u8,
        u16,
        u32,
        u64,
        u128,
        usize,
        i8,
        i16,
        i32,
        i64,
        i128,
        isize,
        char,
        bool,
        String,
        (u32, u32),
        (u64, u64),
        (usize, usize),
        (String, String)
    )
}

fn empty<K: Key, V: Additive>(len: usize) -> RawBuf {
    let mut buckets = RawBuf::for_random_access(ops_of::<Bucket<K, V>>(), len);
    (0..len).for_each(|_| buckets.push(Bucket::<K, V>::EMPTY));
    buckets
}

/// Whether there are four buckets or fewer for three entries. Hashes are spread evenly, so that some of them tell.
fn crowded<K: Key, V: Additive>(tally: &RawBuf) -> bool {
    let buckets = tally.as_slice::<Bucket<K, V>>();
    let some = &buckets[..buckets.len().min(LOOKED_AT)];
    4 * some.iter().map(Bucket::len).sum::<usize>() > 3 * some.len()
}

fn grow<K: Key, V: Additive>(tally: &mut RawBuf) {
    let len = 2 * tally.len();
    let mut grown = empty::<K, V>(len);
    let buckets = grown.as_mut_slice::<Bucket<K, V>>();
    for bucket in tally.as_mut_slice::<Bucket<K, V>>() {
        for (key, value) in std::mem::replace(bucket, Bucket::EMPTY).into_entries() {
            // In the order of hashes, here as there.
            buckets[bucket_of(hash_of(&key), len)].push(key, value);
        }
    }
    *tally = grown;
}

/// # Safety
/// As for [`TallyOps::unite`].
unsafe fn unite_run<K: Key, V: Additive>(to: *mut u8, from: *mut u8, n: usize, spread: usize) {
    // SAFETY: the caller's promise.
    let (to, from) = unsafe {
        (
            std::slice::from_raw_parts_mut(to.cast::<Bucket<K, V>>(), n),
            std::slice::from_raw_parts_mut(from.cast::<Bucket<K, V>>(), n * spread),
        )
    };
    for (to, from) in to.iter_mut().zip(from.chunks_exact_mut(spread)) {
        let others = from.iter_mut().filter(|bucket| bucket.len() > 0);
        let others = others.flat_map(|bucket| std::mem::replace(bucket, Bucket::EMPTY).into_entries());
        if to.len() == 0 {
            others.for_each(|(key, value)| to.push(key, value));
        } else if to.len() <= FEW {
            others.for_each(|(key, value)| add(to, key, value));
        } else {
            merge(to, others);
        }
    }
}

fn add<K: Key, V: Additive>(to: &mut Bucket<K, V>, key: K, value: V) {
    match to.get_mut(&key) {
        Some(own) => own.unite(&value),
        None => drop(to.insert(key, value)),
    }
}

/// Both are in the order of their keys' hashes, and so is what they become.
fn merge<K: Key, V: Additive>(to: &mut Bucket<K, V>, others: impl Iterator<Item = (K, V)>) {
    let hashed = |(key, value): (K, V)| (hash_of(&key), key, value);
    let mut own = std::mem::replace(to, Bucket::EMPTY).into_entries().map(hashed).peekable();
    let mut others = others.map(hashed).peekable();
    let mut same = Vec::new();
    while let Some(hash) = own.peek().map(|first| first.0).into_iter().chain(others.peek().map(|first| first.0)).min() {
        while let Some((_, key, value)) = own.next_if(|next| next.0 == hash) {
            same.push((key, value));
        }
        let mut sorted = true;
        while let Some((_, key, value)) = others.next_if(|next| next.0 == hash) {
            match same.iter_mut().find(|(own, _)| *own == key) {
                Some((_, own)) => own.unite(&value),
                None => {
                    same.push((key, value));
                    sorted = same.len() == 1;
                }
            }
        }
        if !sorted {
            same.sort_by(|(a, _), (b, _)| order_of(a, b));
        }
        same.drain(..).for_each(|(key, value)| to.push(key, value));
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn tallies_of_any_size_add_up_to_the_same_map() {
        let ops = <DMap<u32, u64> as SumCapture>::tally_ops();
        let mut plain: BTreeMap<u32, u64> = BTreeMap::new();
        let mut map = empty::<u32, u64>(8);
        for round in 0..4u32 {
            let mut tally = empty::<u32, u64>(8 << round);
            for n in 0..600u32 {
                let key = (n * n + round) % 997;
                let at = bucket_of(hash_of(&key), tally.len());
                add(&mut tally.as_mut_slice::<Bucket<u32, u64>>()[at], key, u64::from(n));
                *plain.entry(key).or_insert(0) += u64::from(n);
            }
            while crowded::<u32, u64>(&tally) {
                grow::<u32, u64>(&mut tally);
            }
            let spread = tally.len() / 8;
            // SAFETY: as many buckets are there, which nobody else uses.
            unsafe { ops.unite(map.as_mut_ptr(), tally.as_mut_ptr(), 8, spread) };
            assert!(tally.as_slice::<Bucket<u32, u64>>().iter().all(|bucket| bucket.len() == 0));
        }
        let buckets = map.as_slice::<Bucket<u32, u64>>();
        let hashes = buckets.iter().flat_map(|bucket| bucket.iter().map(|(key, _)| hash_of(key)));
        assert!(hashes.is_sorted());
        let entries: BTreeMap<u32, u64> =
            buckets.iter().flat_map(|bucket| bucket.iter().map(|(&key, &value)| (key, value))).collect();
        assert_eq!(entries, plain);
    }
}
