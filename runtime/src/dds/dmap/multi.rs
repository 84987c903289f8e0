//! `DMultiMap`: a map from a key to all values that it was given.

use std::borrow::Borrow;
use std::hash::Hash;
use std::ops::{Index, Range};

use super::view::{MapView, MapWriteView};
use super::{DMap, Key};
use crate::body::capture::{Capture, Captured, Read, ReadCapture, Write, WriteCapture};
use crate::body::slot::Slot;
use crate::memory::element::Element;
use crate::session::Session;
use crate::session::error::Result;

/// A map from `K` to several `V`. The values of a key stay in the order in which they were inserted.
///
/// In a loop the body has [`MultiMapView`] (`m[&key]` is a slice, empty for a key without values) or
/// [`MultiMapWriteView`] (also `insert`, `remove`, `get_mut`). All values of a key count as one element; in an
/// `async_parallel_for!` their order is that of the loop's serial order.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::{DMultiMap, Session};
///
/// let session = Session::builder().threads(1).build()?;
/// let mut links = DMultiMap::from_pairs(&session, [(1u32, 2u32), (1, 3), (2, 1)])?;
/// links.insert(2, 3)?;
/// assert_eq!((links.get(&1)?, links.get(&2)?, links.get(&7)?), (vec![2, 3], vec![1, 3], vec![]));
/// assert_eq!((links.keys()?, links.len()?), (2, 4));
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
///
/// # Cost
/// As for a [`DMap`] whose value is a `Vec`.
pub struct DMultiMap<K, V> {
    pub(crate) map: DMap<K, Vec<V>>,
}

impl<K: Key, V: Element> DMultiMap<K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// None.
    pub fn new(session: &Session) -> Result<Self> {
        DMap::new(session).map(|map| DMultiMap { map })
    }

    /// An empty map with room for this many keys.
    ///
    /// # Errors
    /// [`Error::TooLong`](crate::Error::TooLong).
    pub fn with_capacity(session: &Session, keys: usize) -> Result<Self> {
        DMap::with_capacity(session, keys).map(|map| DMultiMap { map })
    }

    /// A map of the pairs of an iterator. The values of a key stay in their order.
    ///
    /// # Errors
    /// [`Error::TooLong`](crate::Error::TooLong).
    pub fn from_pairs(session: &Session, pairs: impl IntoIterator<Item = (K, V)>) -> Result<Self> {
        let mut grouped = std::collections::HashMap::<K, Vec<V>>::new();
        for (key, value) in pairs {
            grouped.entry(key).or_default().push(value);
        }
        // A map has one order, whatever order its entries come in.
        DMap::from_entries(session, grouped).map(|map| DMultiMap { map })
    }

    /// Adds a value to those of a key.
    ///
    /// # Errors
    /// As [`DMap::insert`].
    pub fn insert(&mut self, key: K, value: V) -> Result<()> {
        self.map.update(key, |entry| entry.or_default().push(value))
    }

    /// Removes a key, and gives its values.
    ///
    /// # Errors
    /// As [`DMap::insert`].
    pub fn remove<Q>(&mut self, key: &Q) -> Result<Vec<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.remove(key).map(Option::unwrap_or_default)
    }

    /// Clones of a key's values.
    ///
    /// # Errors
    /// As [`DMap::get`].
    pub fn get<Q>(&self, key: &Q) -> Result<Vec<V>>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.get(key).map(Option::unwrap_or_default)
    }

    /// True if the key has values.
    ///
    /// # Errors
    /// As [`DMap::get`].
    pub fn contains_key<Q>(&self, key: &Q) -> Result<bool>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map.contains_key(key)
    }

    /// The number of keys.
    ///
    /// # Errors
    /// As [`DMap::get`].
    pub fn keys(&self) -> Result<usize> {
        self.map.len()
    }

    /// The number of values of all keys.
    ///
    /// # Errors
    /// As [`DMap::get`].
    pub fn len(&self) -> Result<usize> {
        Ok(self.map.to_vec()?.iter().map(|(_, values)| values.len()).sum())
    }

    /// True if there are no values.
    ///
    /// # Errors
    /// As [`DMap::get`].
    pub fn is_empty(&self) -> Result<bool> {
        self.map.is_empty()
    }

    /// All keys with their values, in the keys' order.
    ///
    /// # Errors
    /// As [`DMap::to_vec`].
    pub fn to_vec(&self) -> Result<Vec<(K, Vec<V>)>> {
        self.map.to_vec()
    }

    /// All keys with their values, in the keys' order, one after the other.
    ///
    /// # Errors
    /// As [`DMap::to_vec`].
    pub fn iter(&self) -> Result<impl Iterator<Item = (K, Vec<V>)>> {
        self.map.iter()
    }

    /// A BLAKE3 hash of the contents in their order.
    ///
    /// # Errors
    /// As [`DMap::to_vec`].
    pub fn digest(&self) -> Result<String> {
        self.map.digest()
    }
}

impl<K, V> DMultiMap<K, V> {
    /// The same map, as a [`DMap`] from a key to all its values.
    #[doc(hidden)]
    pub fn as_map(&self) -> &DMap<K, Vec<V>> {
        &self.map
    }
}

impl<K, V> From<DMap<K, Vec<V>>> for DMultiMap<K, V> {
    fn from(map: DMap<K, Vec<V>>) -> Self {
        DMultiMap { map }
    }
}

impl<K: std::fmt::Debug + 'static, V: std::fmt::Debug + 'static> std::fmt::Debug for DMultiMap<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.map.fmt(f)
    }
}

/// A [`DMultiMap`] captured as `&m`: `m[&key]`, `m.get(&key)`, `m.contains_key(&key)`, `m.iter()`.
///
/// # Dependencies
/// An access reads the key; `iter` reads all.
pub struct MultiMapView<'v, K, V, const C: usize>(MapView<'v, K, Vec<V>, C>);

/// A [`DMultiMap`] captured as `&mut m`: as [`MultiMapView`], and `insert`, `remove`, `get_mut`.
///
/// # Dependencies
/// `m[&key]` and `contains_key` read the key; all others write it.
pub struct MultiMapWriteView<'v, K, V, const C: usize>(MapWriteView<'v, K, Vec<V>, C>);

impl<K, V, const C: usize> MultiMapView<'_, K, V, C> {
    /// Where a key is, if the map has it.
    pub(crate) fn bucket_of<Q: Hash + ?Sized>(&self, key: &Q) -> usize {
        self.0.bucket_of(key)
    }
}

macro_rules! common_to_views {
    ($view:ident) => {
        impl<K, V, const C: usize> $view<'_, K, V, C> {
            /// A key's values, none if it has none: `m[&key]`.
            #[inline]
            pub fn get<Q>(&self, key: &Q) -> &[V]
            where
                K: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.0.get(key).map_or(&[], Vec::as_slice)
            }

            /// True if the key has values.
            #[inline]
            pub fn contains_key<Q>(&self, key: &Q) -> bool
            where
                K: Borrow<Q>,
                Q: Hash + Eq + ?Sized,
            {
                self.0.contains_key(key)
            }
        }

        impl<K, V, Q, const C: usize> Index<&Q> for $view<'_, K, V, C>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            type Output = [V];
            #[inline]
            fn index(&self, key: &Q) -> &[V] {
                self.get(key)
            }
        }
    };
}
common_to_views!(MultiMapView);
common_to_views!(MultiMapWriteView);

impl<K, V, const C: usize> MultiMapView<'_, K, V, C> {
    /// All keys with their values, in the keys' order.
    pub fn iter(&self) -> impl Iterator<Item = (&K, &[V])> {
        self.0.iter().map(|(key, values)| (key, values.as_slice()))
    }
}

impl<K, V, const C: usize> MultiMapWriteView<'_, K, V, C> {
    /// A key's values, to change.
    #[inline]
    pub fn get_mut<Q>(&mut self, key: &Q) -> &mut [V]
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.get_mut(key).map_or(&mut [], Vec::as_mut_slice)
    }

    /// Adds a value to those of a key.
    #[inline]
    pub fn insert(&mut self, key: K, value: V)
    where
        K: Key,
    {
        self.0.entry(key).or_default().push(value);
    }

    /// Removes a key, and gives its values.
    #[inline]
    pub fn remove<Q>(&mut self, key: &Q) -> Vec<V>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.0.remove(key).unwrap_or_default()
    }
}

impl<K: 'static, V: 'static, const W: usize> Capture for Read<'_, DMultiMap<K, V>, W> {
    type View<'v, const C: usize> = MultiMapView<'v, K, V, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        Read::<_, 0>(&self.0.map).describe()
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> MultiMapView<'v, K, V, C> {
        // SAFETY: the caller's promise: the slot was filled from this description.
        MultiMapView(unsafe { <Read<'_, DMap<K, Vec<V>>>>::view::<C>(slot) })
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut MultiMapView<'_, K, V, C>, slot: &Slot<'_>) {
        <Read<'_, DMap<K, Vec<V>>>>::begin(&mut view.0, slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(
        view: &mut MultiMapView<'_, K, V, C>,
        place: usize,
        first: usize,
        n: usize,
    ) -> Range<usize> {
        <Read<'_, DMap<K, Vec<V>>>>::enter(&mut view.0, place, first, n)
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut MultiMapView<'_, K, V, C>, place: usize, i: usize) {
        <Read<'_, DMap<K, Vec<V>>>>::turn_to(&mut view.0, place, i);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut MultiMapView<'_, K, V, C>, i: usize) {
        <Read<'_, DMap<K, Vec<V>>>>::step(&mut view.0, i);
    }
}

impl<K: Key, V: Element, const W: usize> Capture for Write<'_, DMultiMap<K, V>, W> {
    type View<'v, const C: usize> = MultiMapWriteView<'v, K, V, C>;

    #[allow(private_interfaces)]
    fn describe(&mut self) -> Captured {
        Write::<_, 0>(&mut self.0.map).describe()
    }

    #[allow(unsafe_code)]
    unsafe fn view_beside<'v, const C: usize>(slot: &'v Slot<'v>, _: &'v [Slot<'v>]) -> MultiMapWriteView<'v, K, V, C> {
        // SAFETY: the caller's promise: the slot was filled from this description.
        MultiMapWriteView(unsafe { <Write<'_, DMap<K, Vec<V>>>>::view::<C>(slot) })
    }

    #[inline(always)]
    fn begin<const C: usize>(view: &mut MultiMapWriteView<'_, K, V, C>, slot: &Slot<'_>) {
        <Write<'_, DMap<K, Vec<V>>>>::begin(&mut view.0, slot);
    }

    #[inline(always)]
    fn enter<const C: usize>(
        view: &mut MultiMapWriteView<'_, K, V, C>,
        place: usize,
        first: usize,
        n: usize,
    ) -> Range<usize> {
        <Write<'_, DMap<K, Vec<V>>>>::enter(&mut view.0, place, first, n)
    }

    #[inline(always)]
    fn turn_to<const C: usize>(view: &mut MultiMapWriteView<'_, K, V, C>, place: usize, i: usize) {
        <Write<'_, DMap<K, Vec<V>>>>::turn_to(&mut view.0, place, i);
    }

    #[inline(always)]
    fn step<const C: usize>(view: &mut MultiMapWriteView<'_, K, V, C>, i: usize) {
        <Write<'_, DMap<K, Vec<V>>>>::step(&mut view.0, i);
    }
}

impl<K: 'static, V: 'static> ReadCapture for DMultiMap<K, V> {
    type Dds = DMultiMap<K, V>;
    fn dds(&self) -> &DMultiMap<K, V> {
        self
    }
}

impl<K: Key, V: Element> WriteCapture for DMultiMap<K, V> {
    type Handle<'h> = Write<'h, DMultiMap<K, V>>;
    fn handle(&mut self) -> Write<'_, DMultiMap<K, V>> {
        Write(self)
    }
}
