//! The body of a synchronous loop as the engine runs it: without its types.
//!
//! # Why this is sound
//! Types were erased when the loop was called: the engine makes contexts from the captures that the body was called with, and
//! batches from its input (or, on a worker, from what the driver says these are, in a program with the same code).
#![allow(unsafe_code)]

use std::any::TypeId;
use std::marker::PhantomData;

use super::batch::Batch;
use super::input::InputOf;
use crate::body::capture::Handles;
use crate::body::context::Context;
use crate::body::new_entries::NewEntryOps;
use crate::body::outcome::{Failure, Outcome, outcome, unwound};
use crate::body::sharing::Watch;
use crate::body::stored::Stored;
use crate::body::task::Given;
use crate::body::value::Values;
use crate::memory::codec::CodecError;
use crate::memory::merge::MergeOps;
use crate::memory::named::{Maker, Makes, Named};
use crate::session::error::BodyError;

/// A body of a synchronous loop, whose parameters rustc infers from the input and the captures beside it.
pub fn typed_batch_body<T, V, H, F, R>(_input: &InputOf<'_, T>, _values: &V, _handles: &H, body: F) -> F
where
    T: ?Sized + Stored + 'static,
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R,
{
    body
}

/// A minibatch by address.
#[derive(Clone, Copy)]
pub(crate) struct RawBatch {
    /// Its elements, `len` of them.
    pub(crate) at: *const u8,
    pub(crate) len: usize,
    /// How many numbers a row of a DMatrix has; 1 of others.
    pub(crate) width: usize,
    /// The index of the first in the input.
    pub(crate) start: usize,
    pub(crate) number: usize,
}

/// A loop body, its captured values and its capture types.
pub(crate) trait BatchTask: Sync {
    /// Runs one minibatch.
    ///
    /// # Safety
    /// The context's slots describe the captures that this body was made for, and the batch elements of its input's type
    /// which nobody writes meanwhile.
    unsafe fn run(&self, context: &Context<'_>, batch: RawBatch) -> Result<(), Failure>;
    /// How changes of copies are united, for each capture that is written.
    fn merges(&self) -> Vec<Option<&'static MergeOps>>;
    /// How new entries are united, for each capture.
    fn new_entry_ops(&self) -> Vec<Option<&'static NewEntryOps>>;
    /// What tells this body from others at the same place in the source.
    fn type_id(&self) -> TypeId;
    /// What bodies must not change of its values.
    fn watch(&self) -> Watch;
}

pub(crate) struct BodyTask<T: ?Sized, V: Values, H, F, R> {
    values: Given<V>,
    body: F,
    types: PhantomData<fn(&T, H) -> R>,
}

/// Makes a task from the bytes of its values.
pub(crate) type MakeBatchTask = Make<'static>;

type Make<'t> = for<'b> fn(&'b [u8]) -> Result<Box<dyn BatchTask + 't>, CodecError>;

fn make_task<'t, T, V, H, F, R>(values: &[u8]) -> Result<Box<dyn BatchTask + 't>, CodecError>
where
    T: ?Sized + Stored + 'static,
    V: Values + 't,
    H: Handles + 't,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const { assert!(size_of::<F>() == 0) };
    // SAFETY: a closure without captures is a type of one value, which has no bytes. Nobody can name this function
    // without having had that value: it is reached through a task that was made from one, in a program with the same
    // code.
    let body = unsafe { std::ptr::NonNull::<F>::dangling().read() };
    Ok(Box::new(BodyTask::<T, V, H, F, R> { values: Given::Arrived(V::decode(values)?), body, types: PhantomData }))
}

/// The [`MakeBatchTask`] of a loop.
struct MakerOf<'t, T>(PhantomData<&'t T>);

impl<'t, T, V, H, F, R> MakerOf<'t, BodyTask<T, V, H, F, R>>
where
    T: ?Sized + Stored + 'static,
    V: Values + 't,
    H: Handles + 't,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const MAKER: &'static Named<Maker> =
        // SAFETY: that is what it makes.
        &Named::new(unsafe { Maker::new(make_task::<T, V, H, F, R> as Make<'t> as *const (), Makes::BatchLoop) });
}

impl<T, V, H, F, R> BodyTask<T, V, H, F, R>
where
    T: ?Sized + Stored + 'static,
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    pub(crate) fn new(values: V, _handles: &H, body: F) -> Self {
        const {
            assert!(
                size_of::<F>() == 0,
                "the body of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
        }
        BodyTask { values: Given::Borrowed(values), body, types: PhantomData }
    }

    /// What the loop needs to run in another process: its [`MakeBatchTask`], and its values as bytes.
    pub(crate) fn pack(&self) -> Result<(&'static Maker, Vec<u8>), CodecError> {
        let values = match &self.values {
            Given::Borrowed(values) => values.encode()?,
            Given::Arrived(_) => Vec::new(),
        };
        Ok((&MakerOf::<'_, Self>::MAKER.value, values))
    }

    /// # Safety
    /// As for [`BatchTask::run`].
    #[inline(never)]
    unsafe fn call(&self, context: &Context<'_>, batch: RawBatch) -> Option<BodyError> {
        let values = self.values.refs();
        // SAFETY: the engine made the slots from the captures that `H` described.
        let mut views = unsafe { H::views(&context.slots) };
        let width = T::width(batch.width);
        // SAFETY: `len` elements of T lie there, and nobody writes them (the caller's promise).
        let numbers = unsafe { std::slice::from_raw_parts(batch.at.cast::<T::Number>(), T::numbers(batch.len, width)) };
        // The views stay in memory: with all of them in registers LLVM keeps a body's rows on the stack instead, around a call that
        // seldom happens.
        let views = std::hint::black_box(&mut views);
        let error = (self.body)(values, views, Batch::new(numbers, width, batch.start, batch.number)).into_error();
        H::finish(views, &context.slots);
        error
    }
}

impl<T, V, H, F, R> BatchTask for BodyTask<T, V, H, F, R>
where
    T: ?Sized + Stored + 'static,
    V: Values,
    H: Handles,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, Batch<'v, T>) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    unsafe fn run(&self, context: &Context<'_>, batch: RawBatch) -> Result<(), Failure> {
        context.state.at.set(batch.number);
        // SAFETY: the caller's promise.
        let ran = unwound(|| unsafe { self.call(context, batch) }.map(|error| (batch.number, error)));
        outcome(context, Some(batch.number), ran).map_err(|(_, failure)| failure)
    }

    fn merges(&self) -> Vec<Option<&'static MergeOps>> {
        H::merges()
    }

    fn new_entry_ops(&self) -> Vec<Option<&'static NewEntryOps>> {
        H::new_entry_ops()
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<F>()
    }

    fn watch(&self) -> Watch {
        self.values.watch()
    }
}
