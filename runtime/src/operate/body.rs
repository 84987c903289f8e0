//! A closure of an operator: what it needs to run here or in another process.
//!
//! # Why this is sound
//! A closure without captures is a type of one value, which has no bytes. [`Travels::decode`] conjures it up in a process
//! that runs the same code; nobody can name that function without having had the value (see `task`).
//!
//! What remains: that a closure of a plain method captures nothing is known by its size alone, and a value without bytes
//! passes. In this process that is sound (the closure is `Copy`, `Sync` and `'static`, and one was given); in another a token
//! that stands for something done there would be made out of nothing. No bound tells such closures apart; only the coercion
//! to a `fn` does, which must stand where the closure is written. Loops have it in what their macro writes. A method has no
//! such place, but for a parameter of type `fn`, which would be called for each element instead of inlined.
#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::ptr::NonNull;

use super::kernel::{Cx, places};
use crate::body::capture::Handles;
use crate::body::task::Given;
use crate::body::value::Values;
use crate::dds::dmap::hash::hash_of;
use crate::memory::codec::CodecError;
use crate::memory::decode::DecodeError;
use crate::memory::element::Element;

/// What can be sent to another process that runs the same executable.
#[doc(hidden)]
pub trait Travels: Sized {
    #[doc(hidden)]
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError>;
    /// # Safety
    /// A value of this type was encoded to these bytes, in a process that runs the same executable.
    #[doc(hidden)]
    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError>;
}

/// Appends elements, with the length of what they encode to before them.
pub(super) fn encode_elements<T: Element>(elements: &[T], out: &mut Vec<u8>) {
    elements.len().encode(out);
    elements.iter().for_each(|element| element.encode(out));
}

pub(super) fn broken<T>(source: DecodeError) -> CodecError {
    CodecError::Decode { index: 0, of: std::any::type_name::<T>(), source }
}

pub(super) fn decode_elements<T: Element>(bytes: &mut &[u8]) -> Result<Vec<T>, CodecError> {
    Vec::<T>::decode(bytes).map_err(broken::<T>)
}

pub(super) fn decode_one<T: Element>(bytes: &mut &[u8]) -> Result<T, CodecError> {
    T::decode(bytes).map_err(broken::<T>)
}

/// A closure from a reference to an element, that may use captured values and DDSs.
#[doc(hidden)]
pub trait Body<T, U>: Travels + Sync {
    /// The closure, ready to run on one chunk.
    #[doc(hidden)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(&T) -> U + 'v
    where
        T: 'v,
        U: 'v;
    /// The DDSs that it captures come after this many others.
    #[doc(hidden)]
    fn shift(&mut self, slots: usize);
}

/// A closure that uses nothing.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct Plain<F>(pub(super) F);

/// A closure that uses what it captured.
#[doc(hidden)]
pub struct With<V: Values, H, F> {
    values: Given<V>,
    slot: usize,
    body: F,
    handles: PhantomData<fn(H)>,
}

const CAPTURES: &str = "this closure uses a variable, with or without `move`: name it in a capture list, as in `with!([x, &map], data.map(|element| ...))`";

impl<F: Copy> Plain<F> {
    pub(super) fn new(body: F) -> Self {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        Plain(body)
    }
}

impl<V: Values, H: Handles, F> With<V, H, F> {
    /// What the closure is called with, and the closure.
    #[inline(always)]
    pub(super) fn parts<'v>(&'v self, cx: &Cx<'v>) -> (V::Refs<'v>, H::Views<'v>, &'v F) {
        // SAFETY: the slots from this place on were made from the captures that `H` described.
        let views = unsafe { H::views(&cx.slots[self.slot..]) };
        (self.values.refs(), views, &self.body)
    }
}

impl<V: Values, H, F: Copy> With<V, H, F> {
    pub(super) fn new(values: V, slot: usize, body: F) -> Self {
        const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
        With { values: Given::Borrowed(values), slot, body, handles: PhantomData }
    }
}

/// # Safety
/// A value of the type exists in the program.
unsafe fn conjure<F: Copy>() -> F {
    const { assert!(size_of::<F>() == 0, "{}", CAPTURES) };
    // SAFETY: a type of one value, which has no bytes and, as the caller says, exists.
    unsafe { NonNull::<F>::dangling().read() }
}

impl<F: Copy> Travels for Plain<F> {
    fn encode(&self, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    unsafe fn decode(_bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: one was encoded (the caller's promise).
        Ok(Plain(unsafe { conjure() }))
    }
}

impl<T, U, F: Fn(&T) -> U + Copy + Sync> Body<T, U> for Plain<F> {
    #[inline(always)]
    fn bind<'v>(&'v self, _cx: &Cx<'v>) -> impl FnMut(&T) -> U + 'v
    where
        T: 'v,
        U: 'v,
    {
        &self.0
    }

    fn shift(&mut self, _slots: usize) {}
}

/// A random number for each item, from a seed and the item's place.
pub(super) struct ByChance(pub(super) u64);

impl Travels for ByChance {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(out);
        Ok(())
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        decode_one(bytes).map(ByChance)
    }
}

impl<T> Body<T, u64> for ByChance {
    #[inline(always)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(&T) -> u64 + 'v
    where
        T: 'v,
    {
        /// What makes these numbers others than those by which items are sampled.
        const SHUFFLE: u64 = 0x0bde_0bdf_0be0_0be1;
        let mut next = places(cx.place);
        move |_| hash_of(&(SHUFFLE, self.0, next()))
    }

    fn shift(&mut self, _slots: usize) {}
}

/// What a closure makes of each item, and the item's place.
pub(super) struct WithPlace<B>(pub(super) B);

impl<B: Travels> Travels for WithPlace<B> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.0.encode(out)
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        // SAFETY: the caller's promise.
        unsafe { B::decode(bytes).map(WithPlace) }
    }
}

impl<T, U, B: Body<T, U>> Body<T, (U, (u64, u64))> for WithPlace<B> {
    #[inline(always)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(&T) -> (U, (u64, u64)) + 'v
    where
        T: 'v,
        U: 'v,
    {
        let (mut body, mut next) = (self.0.bind(cx), places(cx.place));
        move |item| (body(item), next())
    }

    fn shift(&mut self, slots: usize) {
        self.0.shift(slots);
    }
}

impl<V: Values, H, F: Copy> Travels for With<V, H, F> {
    fn encode(&self, out: &mut Vec<u8>) -> Result<(), CodecError> {
        self.slot.encode(out);
        let values = match &self.values {
            Given::Borrowed(values) => values.encode()?,
            Given::Arrived(_) => Vec::new(),
        };
        encode_elements(&values, out);
        Ok(())
    }

    unsafe fn decode(bytes: &mut &[u8]) -> Result<Self, CodecError> {
        let slot = decode_one(bytes)?;
        let values: Vec<u8> = decode_elements(bytes)?;
        let values = Given::Arrived(V::decode(&values)?);
        // SAFETY: one was encoded (the caller's promise).
        Ok(With { values, slot, body: unsafe { conjure() }, handles: PhantomData })
    }
}

impl<T, U, V, H, F> Body<T, U> for With<V, H, F>
where
    V: Values,
    H: Handles,
    F: for<'a, 'v, 't> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'t T) -> U + Copy + Sync,
{
    #[inline(always)]
    fn bind<'v>(&'v self, cx: &Cx<'v>) -> impl FnMut(&T) -> U + 'v
    where
        T: 'v,
        U: 'v,
    {
        let (values, mut views, body) = self.parts(cx);
        move |element| body(values, &mut views, element)
    }

    fn shift(&mut self, slots: usize) {
        self.slot += slots;
    }
}
