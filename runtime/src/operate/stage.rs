//! The end of a pipe: what becomes of the items of each chunk.
//!
//! Most operators make one list of items of each chunk, and the lists in the order of their chunks are the result. Those that bring
//! together what belongs together (`sort_by_key`, `group_by_key` and the like) deal each chunk's items out to partitions
//! first, and then make one list of each partition. Where chunks and partitions begin follows from the data alone.
#![allow(unsafe_code)]

use std::any::Any;
use std::marker::PhantomData;

use super::body::{Body, Travels, decode_elements, decode_one, encode_elements};
use super::folding::FoldBody;
use super::kernel::{Cx, Kernel};
use super::run::{DEALT_LARGEST, LARGEST};
use crate::dds::chunks;
use crate::memory::buffer::RawBuf;
use crate::memory::codec::CodecError;
use crate::memory::decode::DecodeError;
use crate::memory::element::{Element, encode_slice};
use crate::memory::element_ops::ops_of;
use crate::memory::named::{Maker, Makes, Named};

/// Items of one type that their holder doesn't know.
pub(crate) trait Items: Send {
    fn len(&self) -> usize;
    fn encode(&self, out: &mut Vec<u8>);
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
    fn into_buffer(self: Box<Self>) -> RawBuf;
}

impl<T: Element> Items for Vec<T> {
    fn len(&self) -> usize {
        Vec::len(self)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        encode_slice(self, out);
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn into_buffer(self: Box<Self>) -> RawBuf {
        chunks::single(ops_of::<T>(), *self)
    }
}

/// What an operator does, apart from where it is called.
pub(crate) trait Stage: Sync {
    /// A list for each partition.
    ///
    /// # Safety
    /// The inputs and slots are those that the pipe was put together with (see `kernel`).
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>>;
    /// How many there are.
    fn partitions(&self) -> usize;
    /// Whether lists are combined at all; otherwise those of the chunks are the result as they are.
    fn shuffles(&self) -> bool {
        true
    }
    /// Whether the result is the same however long chunks are, and long ones cost less.
    fn wants_long_chunks(&self) -> bool {
        self.shuffles()
    }
    /// What becomes of the lists of one partition, in the order of their chunks.
    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items>;
    /// Of items that are the entries of a map, which is stored as its buckets: for how many times as many it has room.
    fn makes_map(&self) -> Option<usize> {
        None
    }
    /// The buckets of one partition's entries, this many.
    fn buckets(&self, entries: Box<dyn Items>, _buckets: usize) -> Box<dyn Items> {
        entries
    }
    /// Reads back a list of `n` dealt-out items.
    fn arrived(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError>;
    /// Reads back `n` items of the result.
    fn returned(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError>;
}

/// Makes a stage from its bytes.
///
/// # Safety
/// As for [`Travels::decode`].
pub(crate) type MakeStage = Make<'static>;

type Make<'t> = for<'b> unsafe fn(&'b [u8]) -> Result<Box<dyn Stage + 't>, CodecError>;

unsafe fn make_stage<'t, S: Stage + Travels + 't>(bytes: &[u8]) -> Result<Box<dyn Stage + 't>, CodecError> {
    let mut rest = bytes;
    // SAFETY: the caller's promise.
    let stage = unsafe { S::decode(&mut rest)? };
    match rest.len() {
        0 => Ok(Box::new(stage)),
        left => Err(CodecError::Trailing { values: 1, left }),
    }
}

struct MakerOf<'t, S>(PhantomData<&'t S>);

impl<'t, S: Stage + Travels + 't> MakerOf<'t, S> {
    const MAKER: &'static Named<Maker> =
        // SAFETY: that is what it makes.
        &Named::new(unsafe { Maker::new(make_stage::<S> as Make<'t> as *const (), Makes::Stage) });
}

/// The [`MakeStage`] of a stage.
pub(crate) fn maker_of<'t, S: Stage + Travels + 't>(_stage: &S) -> &'static Maker {
    &MakerOf::<'t, S>::MAKER.value
}

pub(super) fn decode_list<T: Element>(n: usize, mut bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
    let mut items = Vec::new();
    for _ in 0..n {
        items.push(T::decode(&mut bytes)?);
    }
    if bytes.is_empty() { Ok(Box::new(items)) } else { Err(DecodeError::Trailing { left: bytes.len() }) }
}

/// The items of all lists, in order.
pub(crate) fn unpack<T: Element>(lists: Vec<Box<dyn Items>>) -> Vec<Vec<T>> {
    lists.into_iter().filter_map(|list| list.into_any().downcast::<Vec<T>>().ok()).map(|items| *items).collect()
}

/// The items of all lists as one, in order.
pub(super) fn joined<T: Element>(lists: Vec<Box<dyn Items>>) -> Vec<T> {
    let mut items = Vec::with_capacity(lists.iter().map(|list| list.len()).sum());
    for mut list in unpack(lists) {
        items.append(&mut list);
    }
    items
}

/// Keeps the items.
pub(super) struct Collected<K>(pub(super) K);

impl<K: Travels> Travels for Collected<K> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: the caller's promise.
        unsafe { K::decode(bytes).map(Collected) }
    }
}

/// Stages with one list a chunk.
macro_rules! no_partitions {
    ($item:ty) => {
        fn partitions(&self) -> usize {
            1
        }

        fn shuffles(&self) -> bool {
            false
        }

        fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
            Box::new(joined::<$item>(lists))
        }

        fn arrived(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
            decode_list::<$item>(n, bytes)
        }

        fn returned(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
            decode_list::<$item>(n, bytes)
        }
    };
}
pub(super) use no_partitions;

impl<K: Kernel<Item: Element>> Stage for Collected<K> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut items = Vec::with_capacity(cx.len.min(LARGEST));
        self.0.each_owned(cx, |item| items.push(item));
        // What a filter left is not to hold the room of all.
        if items.len() < items.capacity() / 2 {
            items.shrink_to_fit();
        }
        vec![Box::new(items)]
    }

    no_partitions!(K::Item);
}

/// One value of each chunk, from the items in their order.
pub(super) struct Folded<K, A, B> {
    pub(super) kernel: K,
    pub(super) init: A,
    pub(super) body: B,
}

impl<K: Travels, A: Element, B: Travels> Travels for Folded<K, A, B> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.init.encode(out);
        self.kernel.encode(out)?;
        self.body.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let init = decode_one(bytes)?;
        // SAFETY: the caller's promise.
        unsafe { Ok(Folded { init, kernel: K::decode(bytes)?, body: B::decode(bytes)? }) }
    }
}

impl<K: Kernel, A: Element, B: FoldBody<A, K::Item>> Stage for Folded<K, A, B> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut fold = self.body.bind(cx);
        let mut folded = Some(self.init.clone());
        // Always there: a panic of the closure between leaves the loop.
        self.kernel.each(cx, |item| folded = folded.take().map(|so_far| fold(so_far, item)));
        vec![Box::new(folded.into_iter().collect::<Vec<A>>())]
    }

    no_partitions!(A);
}

/// The items of each chunk reduced to one, if there are any.
pub(super) struct Reduced<K, F> {
    pub(super) kernel: K,
    pub(super) body: super::body::Plain<F>,
}

impl<K: Travels, F: Copy> Travels for Reduced<K, F> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.kernel.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: the caller's promise.
        unsafe { Ok(Reduced { kernel: K::decode(bytes)?, body: Travels::decode(bytes)? }) }
    }
}

impl<K: Kernel<Item: Element>, F: Fn(K::Item, K::Item) -> K::Item + Copy + Sync> Stage for Reduced<K, F> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut reduced: Option<K::Item> = None;
        self.kernel.each_owned(cx, |item| {
            reduced = Some(match reduced.take() {
                Some(so_far) => (self.body.0)(so_far, item),
                None => item,
            });
        });
        vec![Box::new(reduced.into_iter().collect::<Vec<_>>())]
    }

    no_partitions!(K::Item);
}

/// More partitions than this are of no use.
pub(super) const PARTITIONS: usize = 64;

/// One key in this many, from which the borders between partitions are chosen.
pub(super) struct Keys<K, B, S> {
    pub(super) kernel: K,
    pub(super) body: B,
    pub(super) every: usize,
    pub(super) key: PhantomData<fn() -> S>,
}

impl<K: Travels, B: Travels, S> Travels for Keys<K, B, S> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.every.encode(out);
        self.kernel.encode(out)?;
        self.body.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let every = decode_one(bytes)?;
        // SAFETY: the caller's promise.
        unsafe { Ok(Keys { every, kernel: K::decode(bytes)?, body: B::decode(bytes)?, key: PhantomData }) }
    }
}

impl<K: Kernel, S: Element, B: Body<K::Item, S>> Stage for Keys<K, B, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut key = self.body.bind(cx);
        let (mut keys, mut n) = (Vec::new(), 0usize);
        self.kernel.each(cx, |item| {
            if n.is_multiple_of(self.every.max(1)) {
                keys.push(key(item));
            }
            n += 1;
        });
        vec![Box::new(keys)]
    }

    no_partitions!(S);
}

/// The items of each chunk with the largest keys, and these.
pub(super) struct Top<K, B, S> {
    pub(super) kernel: K,
    pub(super) body: B,
    pub(super) most: usize,
    pub(super) key: PhantomData<fn() -> S>,
}

impl<K: Travels, B: Travels, S> Travels for Top<K, B, S> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.most.encode(out);
        self.kernel.encode(out)?;
        self.body.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let most = decode_one(bytes)?;
        // SAFETY: the caller's promise.
        unsafe { Ok(Top { most, kernel: K::decode(bytes)?, body: B::decode(bytes)?, key: PhantomData }) }
    }
}

/// Leaves the items with the largest keys, the largest first; equal ones stay in order.
pub(super) fn keep_top<S: Ord, T>(items: &mut Vec<(S, T)>, most: usize) {
    items.sort_by(|(a, _), (b, _)| b.cmp(a));
    items.truncate(most);
}

impl<K: Kernel<Item: Element>, S: Element + Ord, B: Body<K::Item, S>> Stage for Top<K, B, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut key = self.body.bind(cx);
        let mut top: Vec<(S, K::Item)> = Vec::new();
        // As soon as the first ones are in order, what isn't above the last of them is out.
        let mut ordered = false;
        self.kernel.each(cx, |item| {
            let key = key(item);
            if self.most == 0 || ordered && key <= top[self.most - 1].0 {
                return;
            }
            top.push((key, item.clone()));
            if top.len() / 2 >= self.most {
                keep_top(&mut top, self.most);
                ordered = true;
            }
        });
        keep_top(&mut top, self.most);
        vec![Box::new(top)]
    }

    /// Each chunk finds the first ones anew.
    fn wants_long_chunks(&self) -> bool {
        true
    }

    no_partitions!((S, K::Item));
}

/// Items in the order of their keys; of equal keys in the order in which they came.
pub(super) struct Sorted<K, B, S> {
    pub(super) kernel: K,
    pub(super) body: B,
    /// The first keys of all partitions but the first, in order.
    pub(super) borders: Vec<S>,
}

impl<K: Travels, B: Travels, S: Element> Travels for Sorted<K, B, S> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        encode_elements(&self.borders, out);
        self.kernel.encode(out)?;
        self.body.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let borders = decode_elements(bytes)?;
        // SAFETY: the caller's promise.
        unsafe { Ok(Sorted { borders, kernel: K::decode(bytes)?, body: B::decode(bytes)? }) }
    }
}

impl<K: Kernel<Item: Element>, S: Element + Ord, B: Body<K::Item, S>> Stage for Sorted<K, B, S> {
    unsafe fn run(&self, cx: &Cx<'_>) -> Vec<Box<dyn Items>> {
        let mut key = self.body.bind(cx);
        // Borders divide the items about evenly.
        let room = cx.len.min(DEALT_LARGEST) / self.partitions() * 5 / 4 + 8;
        let mut parts: Vec<Vec<(S, K::Item)>> = (0..self.partitions()).map(|_| Vec::with_capacity(room)).collect();
        self.kernel.each_owned(cx, |item| {
            let key = key(&item);
            let part = self.borders.partition_point(|border| *border <= key);
            parts[part].push((key, item));
        });
        parts.into_iter().map(|part| Box::new(part) as Box<dyn Items>).collect()
    }

    fn partitions(&self) -> usize {
        self.borders.len() + 1
    }

    fn combine(&self, lists: Vec<Box<dyn Items>>) -> Box<dyn Items> {
        let mut items: Vec<(S, K::Item)> = joined(lists);
        items.sort_by(|(a, _), (b, _)| a.cmp(b));
        Box::new(items.into_iter().map(|(_, item)| item).collect::<Vec<_>>())
    }

    fn arrived(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
        decode_list::<(S, K::Item)>(n, bytes)
    }

    fn returned(&self, n: usize, bytes: &[u8]) -> Result<Box<dyn Items>, DecodeError> {
        decode_list::<K::Item>(n, bytes)
    }
}
