//! What a loop body sees of a map.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::{Index, Range};

use super::bucket::{Bucket, MapEntry};
use super::hash::{bucket_of, hash_of};
use super::{DMap, Key};
use crate::body::capture::{Capture, Captured, Read, ReadCapture, Write, WriteCapture};
use crate::body::slot::Slot;
use crate::body::view::{ReadView, WriteView};
use crate::memory::element::Element;

/// A [`DMap`] captured as `&m`: `m[&key]`, `m.get(&key)`, `m.contains_key(&key)`, `m.iter()`, `m.keys()`, `m.values()`.
///
/// # Dependencies
/// An access reads the key; `iter`, `keys` and `values` read all.
pub struct MapView<'v, K, V, const C: usize> {
    buckets: ReadView<'v, Bucket<K, V>, C>,
    name: MapName,
}

/// A [`DMap`] captured as `&mut m`: as [`MapView`], and `insert`, `remove`, `get_mut`, `entry`.
///
/// # Dependencies
/// `get`, `contains_key` and `m[&key]` read the key. All other methods write it, whether the map has it or not.
pub struct MapWriteView<'v, K, V, const C: usize> {
    pub(super) buckets: WriteView<'v, Bucket<K, V>, C>,
    name: MapName,
}

/// What a body calls a map, for messages; nothing where that isn't known.
#[derive(Clone, Copy, Default)]
pub(super) struct MapName(Option<&'static str>);

impl MapName {
    pub(super) fn new(name: &'static str) -> Self {
        MapName(Some(name))
    }

    /// Panics, for a key that the map doesn't have. `instead` can be used where that may be.
    #[cold]
    #[track_caller]
    pub(super) fn has_no_such_key(self, instead: &str) -> ! {
        match self.0 {
            Some(name) => panic!("`{name}` has no such key: use {instead} where that may be"),
            None => panic!("the map has no such key: use {instead} where that may be"),
        }
    }
}

/// For views that need no name.
pub trait Named {
    /// Does nothing.
    #[inline(always)]
    fn __stradsap_named(&mut self, _name: &'static str) {}
}

impl<V> Named for V {}

macro_rules! common_to_views {
    ($view:ident) => {
        impl<K, V, const C: usize> $view<'_, K, V, C> {
            /// Says what the body calls the map.
            #[doc(hidden)]
            #[inline(always)]
            pub fn __stradsap_named(&mut self, name: &'static str) {
                self.name = MapName::new(name);
            }

            /// A key's value.
            #[inline]
            pub fn get<Q>(&self, key: &Q) -> Option<&V>
            where
                K: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.buckets[bucket_of(hash_of(key), self.buckets.len())].get(key)
            }

            /// True if the key has a value.
            #[inline]
            pub fn contains_key<Q>(&self, key: &Q) -> bool
            where
                K: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.get(key).is_some()
            }
        }

        impl<K, V, Q, const C: usize> Index<&Q> for $view<'_, K, V, C>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            type Output = V;

            /// # Panics
            /// If the key has no value. The loop then ends with an error.
            #[inline]
            #[track_caller]
            fn index(&self, key: &Q) -> &V {
                match self.get(key) {
                    Some(value) => value,
                    None => self.name.has_no_such_key("`get`"),
                }
            }
        }
    };
}
common_to_views!(MapView);
common_to_views!(MapWriteView);

impl<K, V, const C: usize> MapView<'_, K, V, C> {
    /// Where a key is, if the map has it.
    pub(crate) fn bucket_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        bucket_of(hash_of(key), self.buckets.len())
    }

    /// All entries in their order. `for (key, value) in &m` goes through the same.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        (0..self.buckets.len()).flat_map(|at| self.buckets[at].iter())
    }

    /// All keys, in the entries' order.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.iter().map(|(key, _)| key)
    }

    /// All values, in the entries' order.
    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.iter().map(|(_, value)| value)
    }
}

// A body has its views by mutable reference.
impl<'a, K, V, const C: usize> IntoIterator for &'a &mut MapView<'_, K, V, C> {
    type Item = (&'a K, &'a V);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<'a, K, V, const C: usize> IntoIterator for &'a mut MapView<'_, K, V, C> {
    type Item = (&'a K, &'a V);
    type IntoIter = Box<dyn Iterator<Item = Self::Item> + 'a>;

    fn into_iter(self) -> Self::IntoIter {
        Box::new(self.iter())
    }
}

impl<K, V, const C: usize> MapWriteView<'_, K, V, C> {
    #[inline]
    pub(super) fn bucket<Q>(&mut self, key: &Q) -> &mut Bucket<K, V>
    where
        Q: Hash + ?Sized,
    {
        let at = bucket_of(hash_of(key), self.buckets.len());
        &mut self.buckets[at]
    }

    /// A key's value, to change.
    #[inline]
    pub fn get_mut<Q>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.bucket(key).get_mut(key)
    }

    /// Removes a key, and gives its value.
    #[inline]
    pub fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.bucket(key).remove(key)
    }

    /// Inserts an entry, and returns the value that the key had.
    #[inline]
    pub fn insert(&mut self, key: K, value: V) -> Option<V>
    where
        K: Key,
    {
        self.bucket(&key).insert(key, value)
    }

    /// A key's place, whether it has a value or not: `*m.entry(key).or_insert(0) += 1`.
    #[inline]
    pub fn entry(&mut self, key: K) -> MapEntry<'_, K, V>
    where
        K: Key,
    {
        MapEntry::new(self.bucket(&key), key)
    }
}

impl<K: 'static, V: 'static, const W: usize> Capture for Read<'_, DMap<K, V>, W> {
    type View<'v, const C: usize> = MapView<'v, K, V, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.buckets.describe(false)
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> MapView<'v, K, V, C> {
        // SAFETY: the caller's promise: the slot was filled from the description of a DVector of buckets.
        MapView { buckets: unsafe { ReadView::new(slot) }, name: MapName::default() }
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut MapView<'_, K, V, C>, slot: &Slot<'_>) {
        view.buckets.begin(slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(view: &mut MapView<'_, K, V, C>, place: usize, first: usize, n: usize) -> Range<usize> {
        view.buckets.enter(place, first, n);
        0..usize::MAX
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut MapView<'_, K, V, C>, place: usize, i: usize) {
        view.buckets.turn_to(place, i);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut MapView<'_, K, V, C>, i: usize) {
        view.buckets.step(i);
    }
}

impl<K: Key, V: Element, const W: usize> Capture for Write<'_, DMap<K, V>, W> {
    type View<'v, const C: usize> = MapWriteView<'v, K, V, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        self.0.make_room();
        self.0.buckets.describe(true)
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> MapWriteView<'v, K, V, C> {
        // SAFETY: the caller's promise: the slot was filled from the description of a DVector of buckets.
        MapWriteView { buckets: unsafe { WriteView::new(slot) }, name: MapName::default() }
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut MapWriteView<'_, K, V, C>, slot: &Slot<'_>) {
        view.buckets.begin(slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(
        view: &mut MapWriteView<'_, K, V, C>,
        place: usize,
        first: usize,
        n: usize,
    ) -> Range<usize> {
        view.buckets.enter(place, first, n);
        0..usize::MAX
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut MapWriteView<'_, K, V, C>, place: usize, i: usize) {
        view.buckets.turn_to(place, i);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut MapWriteView<'_, K, V, C>, i: usize) {
        view.buckets.step(i);
    }
}

impl<K: 'static, V: 'static> ReadCapture for DMap<K, V> {
    type Dds = DMap<K, V>;
    fn dds(&self) -> &DMap<K, V> {
        self
    }
}

impl<K: Key, V: Element> WriteCapture for DMap<K, V> {
    type Handle<'h> = Write<'h, DMap<K, V>>;
    fn handle(&mut self) -> Write<'_, DMap<K, V>> {
        Write(self)
    }
}
