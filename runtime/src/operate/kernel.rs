//! What a pipe does to one chunk of its source, from the first closure to the last in one pass.
//!
//! # Why this is sound
//! A [`Cx`] is made by the runner for one chunk: `inputs[k]` are `len` elements of the `k`-th source's own type, which
//! nobody writes while the operator runs, and the slots are those of the captures in their order. A kernel finds its
//! source and its slots by places that were counted when the pipe was put together, together with the sources and
//! captures themselves.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::marker::PhantomData;

use super::body::{Body, Travels, decode_one};
use crate::body::slot::Slot;
use crate::dds::dmap::hash::hash_of;
use crate::dds::dmap::{Bucket, Key};
use crate::memory::codec::CodecError;
use crate::memory::element::Element;

/// One chunk, as a thread sees it.
#[doc(hidden)]
pub struct Cx<'v> {
    /// Each source.
    pub(crate) inputs: &'v [Input],
    /// The index of the first element, and how many there are.
    pub(crate) start: usize,
    pub(crate) len: usize,
    pub(crate) slots: &'v [Slot<'v>],
    /// The index that is at work.
    pub(crate) at: &'v Cell<usize>,
    /// What chance goes by: the index, or the hash of a map's key.
    pub(crate) place: &'v Cell<u64>,
    /// The first element that nothing can be made of, and why.
    pub(crate) refused: &'v Cell<Option<(usize, String)>>,
    /// Set where the chunk is run to find out what its joins look up: whether an element of a capture is elsewhere.
    pub(crate) asked: Option<&'v dyn Fn(usize, usize) -> bool>,
}

/// What a chunk has of a source.
#[derive(Clone, Copy)]
pub(crate) struct Input {
    /// Where its first elements lie.
    pub(crate) at: *const u8,
    /// How many numbers each has; 1 where it isn't a row.
    pub(crate) width: usize,
}

impl Cx<'_> {
    #[inline(always)]
    pub(super) fn set(&self, at: usize) {
        self.at.set(at);
        self.place.set(at as u64);
    }

    /// Ends the chunk, since nothing can be made of the element that is at work.
    pub(super) fn refuse(&self, problem: String) -> ! {
        let first = self.refused.take().unwrap_or_else(|| (self.at.get(), problem));
        self.refused.set(Some(first));
        std::panic::resume_unwind(Box::new("refused"))
    }
}

/// The steps of a pipe.
#[doc(hidden)]
pub trait Kernel: Travels + Sync {
    type Item: 'static;
    /// Whether there is one item for each element of the source.
    #[doc(hidden)]
    const ONE_EACH: bool = false;
    /// Lends each item of the chunk.
    #[doc(hidden)]
    fn each(&self, cx: &Cx<'_>, sink: impl FnMut(&Self::Item));
    /// Gives each item of the chunk away.
    #[doc(hidden)]
    fn each_owned(&self, cx: &Cx<'_>, sink: impl FnMut(Self::Item));
    /// Its sources and captures come after this many others.
    #[doc(hidden)]
    fn shift(&mut self, inputs: usize, slots: usize);
}

/// A kernel with one item for each element of its source.
#[doc(hidden)]
#[diagnostic::on_unimplemented(
    message = "the items of this pipe have no indices",
    label = "`filter`, `flat_map`, `sample` and `join` leave as many items as they like",
    note = "call `.collect()?` first, and begin a new pipe with its result"
)]
pub trait IndexedKernel: Kernel {
    /// The item of the chunk's `k`-th element.
    #[doc(hidden)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> Self::Item;
}

/// The elements of a DVector.
#[doc(hidden)]
pub struct Elements<T> {
    input: usize,
    element: PhantomData<fn() -> T>,
}

impl<T> Elements<T> {
    pub(super) fn new() -> Self {
        Elements { input: 0, element: PhantomData }
    }

    fn slice<'v>(&self, cx: &Cx<'v>) -> &'v [T] {
        // SAFETY: the module's argument.
        unsafe { std::slice::from_raw_parts(cx.inputs[self.input].at.cast::<T>(), cx.len) }
    }
}

macro_rules! travels_as_input {
    ($kernel:ident<$($t:ident),*>, $types:ident) => {
        impl<$($t),*> Travels for $kernel<$($t),*> {
            fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
                self.input.encode(out);
                Ok(())
            }

            unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
                Ok($kernel { input: decode_one(bytes)?, $types: PhantomData })
            }
        }
    };
}
travels_as_input!(Elements<T>, element);
travels_as_input!(Rows<T>, number);
travels_as_input!(MapEntries<K, V>, entry);

impl<T: Element> Kernel for Elements<T> {
    type Item = T;
    const ONE_EACH: bool = true;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&T)) {
        for (k, element) in self.slice(cx).iter().enumerate() {
            cx.set(cx.start + k);
            sink(element);
        }
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(T)) {
        self.each(cx, |element| sink(element.clone()));
    }

    fn shift(&mut self, inputs: usize, _slots: usize) {
        self.input += inputs;
    }
}

impl<T: Element> IndexedKernel for Elements<T> {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> T {
        cx.set(cx.start + k);
        self.slice(cx)[k].clone()
    }
}

/// The rows of a DMatrix.
#[doc(hidden)]
pub struct Rows<T> {
    input: usize,
    number: PhantomData<fn() -> T>,
}

impl<T> Rows<T> {
    pub(super) fn new() -> Self {
        Rows { input: 0, number: PhantomData }
    }

    fn each_row<'v>(&self, cx: &Cx<'v>) -> impl Iterator<Item = &'v [T]> + use<'v, T>
    where
        T: 'v,
    {
        let Input { at, width } = cx.inputs[self.input];
        // SAFETY: the module's argument: `len` rows of `width` numbers, one after the other.
        unsafe { std::slice::from_raw_parts(at.cast::<T>(), cx.len * width) }.chunks_exact(width)
    }
}

impl<T: Element> Kernel for Rows<T> {
    type Item = Vec<T>;
    const ONE_EACH: bool = true;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&Vec<T>)) {
        let mut copy = Vec::new();
        for (k, row) in self.each_row(cx).enumerate() {
            cx.set(cx.start + k);
            copy.clear();
            copy.extend_from_slice(row);
            sink(&copy);
        }
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(Vec<T>)) {
        for (k, row) in self.each_row(cx).enumerate() {
            cx.set(cx.start + k);
            sink(row.to_vec());
        }
    }

    fn shift(&mut self, inputs: usize, _slots: usize) {
        self.input += inputs;
    }
}

impl<T: Element> IndexedKernel for Rows<T> {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> Vec<T> {
        cx.set(cx.start + k);
        self.each_row(cx).nth(k).map(<[T]>::to_vec).unwrap_or_default()
    }
}

/// The entries of a map.
#[doc(hidden)]
pub struct MapEntries<K, V> {
    input: usize,
    entry: PhantomData<fn() -> (K, V)>,
}

impl<K, V> MapEntries<K, V> {
    pub(super) fn new() -> Self {
        MapEntries { input: 0, entry: PhantomData }
    }
}

impl<K: Key, V: Element> Kernel for MapEntries<K, V> {
    type Item = (K, V);

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&(K, V))) {
        self.each_owned(cx, |entry| sink(&entry));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut((K, V))) {
        // SAFETY: the module's argument.
        let buckets = unsafe { std::slice::from_raw_parts(cx.inputs[self.input].at.cast::<Bucket<K, V>>(), cx.len) };
        for (k, bucket) in buckets.iter().enumerate() {
            cx.at.set(cx.start + k);
            for (key, value) in bucket.iter() {
                cx.place.set(hash_of(key));
                sink((key.clone(), value.clone()));
            }
        }
    }

    fn shift(&mut self, inputs: usize, _slots: usize) {
        self.input += inputs;
    }
}

/// What a closure makes of each item.
#[doc(hidden)]
pub struct Mapped<K, B, U> {
    before: K,
    body: B,
    item: PhantomData<fn() -> U>,
}

/// The items that a closure wants.
#[doc(hidden)]
pub struct Filtered<K, B> {
    before: K,
    body: B,
}

/// All that a closure makes of each item.
#[doc(hidden)]
pub struct FlatMapped<K, B, R> {
    before: K,
    body: B,
    items: PhantomData<fn() -> R>,
}

macro_rules! one_step {
    ($kernel:ident<$k:ident, $b:ident $(, $u:ident as $types:ident)?>) => {
        impl<$k, $b $(, $u)?> $kernel<$k, $b $(, $u)?> {
            pub(super) fn new(before: $k, body: $b) -> Self {
                $kernel { before, body $(, $types: PhantomData)? }
            }
        }

        impl<$k: Travels, $b: Travels $(, $u)?> Travels for $kernel<$k, $b $(, $u)?> {
            fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
                self.before.encode(out)?;
                self.body.encode(out)
            }

            unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
                // SAFETY: the caller's promise: both were encoded, one after the other.
                unsafe { Ok(Self::new($k::decode(bytes)?, $b::decode(bytes)?)) }
            }
        }
    };
}
one_step!(Mapped<K, B, U as item>);
one_step!(Filtered<K, B>);
one_step!(FlatMapped<K, B, R as items>);

impl<K: Kernel, U: 'static, B: Body<K::Item, U>> Kernel for Mapped<K, B, U> {
    type Item = U;
    const ONE_EACH: bool = K::ONE_EACH;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&U)) {
        self.each_owned(cx, |item| sink(&item));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(U)) {
        let mut body = self.body.bind(cx);
        self.before.each(cx, |item| sink(body(item)));
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.before.shift(inputs, slots);
        self.body.shift(slots);
    }
}

impl<K: IndexedKernel, U: 'static, B: Body<K::Item, U>> IndexedKernel for Mapped<K, B, U> {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> U {
        self.body.bind(cx)(&self.before.nth(cx, k))
    }
}

impl<K: Kernel, B: Body<K::Item, bool>> Kernel for Filtered<K, B> {
    type Item = K::Item;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&K::Item)) {
        let mut wants = self.body.bind(cx);
        self.before.each(cx, |item| {
            if wants(item) {
                sink(item);
            }
        });
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(K::Item)) {
        let mut wants = self.body.bind(cx);
        self.before.each_owned(cx, |item| {
            if wants(&item) {
                sink(item);
            }
        });
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.before.shift(inputs, slots);
        self.body.shift(slots);
    }
}

impl<K: Kernel, R: IntoIterator<Item: 'static> + 'static, B: Body<K::Item, R>> Kernel for FlatMapped<K, B, R> {
    type Item = R::Item;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&R::Item)) {
        self.each_owned(cx, |item| sink(&item));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(R::Item)) {
        let mut body = self.body.bind(cx);
        self.before.each(cx, |item| body(item).into_iter().for_each(&mut sink));
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.before.shift(inputs, slots);
        self.body.shift(slots);
    }
}

/// Items with their indices.
#[doc(hidden)]
pub struct Numbered<K>(pub(super) K);

impl<K: Travels> Travels for Numbered<K> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: the caller's promise.
        unsafe { K::decode(bytes).map(Numbered) }
    }
}

impl<K: IndexedKernel> Kernel for Numbered<K> {
    type Item = (usize, K::Item);
    const ONE_EACH: bool = true;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&Self::Item)) {
        self.each_owned(cx, |item| sink(&item));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(Self::Item)) {
        let mut k = cx.start;
        self.0.each_owned(cx, |item| {
            sink((k, item));
            k += 1;
        });
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.0.shift(inputs, slots);
    }
}

impl<K: IndexedKernel> IndexedKernel for Numbered<K> {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> Self::Item {
        (cx.start + k, self.0.nth(cx, k))
    }
}

/// The items of two pipes with equal indices.
#[doc(hidden)]
pub struct Zipped<A, B>(pub(super) A, pub(super) B);

impl<A: Travels, B: Travels> Travels for Zipped<A, B> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(out)?;
        self.1.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: the caller's promise: both were encoded, one after the other.
        unsafe { Ok(Zipped(A::decode(bytes)?, B::decode(bytes)?)) }
    }
}

impl<A: IndexedKernel, B: IndexedKernel> Kernel for Zipped<A, B> {
    type Item = (A::Item, B::Item);
    const ONE_EACH: bool = true;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&Self::Item)) {
        self.each_owned(cx, |item| sink(&item));
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(Self::Item)) {
        let mut k = 0;
        self.0.each_owned(cx, |item| {
            sink((item, self.1.nth(cx, k)));
            k += 1;
        });
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.0.shift(inputs, slots);
        self.1.shift(inputs, slots);
    }
}

impl<A: IndexedKernel, B: IndexedKernel> IndexedKernel for Zipped<A, B> {
    #[inline(always)]
    fn nth(&self, cx: &Cx<'_>, k: usize) -> Self::Item {
        (self.0.nth(cx, k), self.1.nth(cx, k))
    }
}

/// A function that is called for each item in order, and gives its place: that of its element, and which of the element's items
/// it is, where steps have made several.
pub(super) fn places(place: &Cell<u64>) -> impl FnMut() -> (u64, u64) {
    let mut last: Option<(u64, u64)> = None;
    move || {
        let place = place.get();
        let nth = last.filter(|(before, _)| *before == place).map_or(0, |(_, nth)| nth + 1);
        *last.insert((place, nth))
    }
}

/// Items chosen by chance, from a number that follows from the seed and the item's place.
#[doc(hidden)]
pub struct Sampled<K> {
    pub(super) before: K,
    pub(super) seed: u64,
    /// An item is chosen if its number is below.
    pub(super) below: u64,
    /// Whether those are kept, or the others.
    pub(super) keep: bool,
}

impl<K: Travels> Travels for Sampled<K> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        (self.seed, self.below, self.keep).encode(out);
        self.before.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let (seed, below, keep) = decode_one(bytes)?;
        // SAFETY: the caller's promise.
        Ok(Sampled { before: unsafe { K::decode(bytes)? }, seed, below, keep })
    }
}

impl<K: Kernel> Sampled<K> {
    /// A function that is called for each item in order, and tells which ones stay.
    fn chooser(&self, place: &Cell<u64>) -> impl FnMut() -> bool {
        let (seed, below, keep) = (self.seed, self.below, self.keep);
        let mut next = places(place);
        move || {
            let (place, nth) = next();
            (hash_of(&(seed, place, nth)) < below) == keep
        }
    }
}

impl<K: Kernel> Kernel for Sampled<K> {
    type Item = K::Item;

    #[inline(always)]
    fn each(&self, cx: &Cx<'_>, mut sink: impl FnMut(&K::Item)) {
        let mut stays = self.chooser(cx.place);
        self.before.each(cx, |item| {
            if stays() {
                sink(item);
            }
        });
    }

    #[inline(always)]
    fn each_owned(&self, cx: &Cx<'_>, mut sink: impl FnMut(K::Item)) {
        let mut stays = self.chooser(cx.place);
        self.before.each_owned(cx, |item| {
            if stays() {
                sink(item);
            }
        });
    }

    fn shift(&mut self, inputs: usize, slots: usize) {
        self.before.shift(inputs, slots);
    }
}
