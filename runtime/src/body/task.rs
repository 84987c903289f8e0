//! A loop body as the engine runs it: without its types.
//!
//! # Why this is sound
//! 1. A closure without captures is a type of one value, which has no bytes. Nobody can name the function that conjures it
//!    up without having had that value: it is reached through a task that was made from one, in a program with the same
//!    code.
//! 2. Who runs a task vouches for the context: its slots are those of the captures that `H` describes. All views of a slot are
//!    made one after the other.
#![allow(unsafe_code)]

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::AtomicUsize;

use crate::body::capture::Handles;
use crate::body::context::Context;
use crate::body::outcome::{Failure, Outcome, outcome, unwound};
use crate::body::sharing::Watch;
use crate::body::slot::Slot;
use crate::body::value::Values;
use crate::memory::codec::CodecError;
use crate::memory::element::Element;
use crate::memory::named::{Maker, Makes, Named};
use crate::planner::plan::{Run, are_neighbours};
use crate::session::options::Indices;

mod record;
mod run;

/// Which iterations a block runs.
#[derive(Clone, Copy)]
pub(crate) enum Iterations<'p> {
    /// Consecutive ones.
    Range { start: usize, end: usize },
    /// A list: offsets from `first`, in the order of execution.
    List { first: usize, offsets: &'p [u32] },
    /// Runs of rows: offsets from `first`.
    Runs { first: usize, runs: &'p [Run] },
}

/// A loop body, its captured values and its capture types.
pub(crate) trait Task: Sync {
    /// Runs iterations for real. On failure says which iteration it was, unless it was one that unwound: the hot
    /// loop doesn't keep count for the sake of failures.
    ///
    /// # Safety
    /// The context has a slot for each capture that this body was made for (and then for each key index), made of that
    /// capture's description, for these iterations.
    unsafe fn run(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)>;
    /// Runs iterations as `run` does, more slowly: a failure always says which iteration it was.
    ///
    /// # Safety
    /// As for `run`.
    unsafe fn trace(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)>;
    /// Runs iterations virtually: the slow paths of the context's slots note what they touch.
    ///
    /// # Safety
    /// As for `run`; the slots record.
    unsafe fn record(&self, context: &Context<'_>, range: Range<usize>);
    /// What tells this body from others at the same place in the source.
    fn type_id(&self) -> TypeId;
    /// What bodies must not change of its values.
    fn watch(&self) -> Watch;
}

pub(crate) struct LoopTask<X: Indices, V: Values, H, S, I, F, R> {
    rule: X::Rule,
    values: Given<V>,
    /// Sets up what a block has for itself, from which on the body goes.
    scratch: I,
    body: F,
    /// How many iterations a turn has where the loop may be stopped.
    turn: AtomicUsize,
    types: PhantomData<fn(H, S) -> R>,
}

/// Captured values: where the loop is called they are borrowed, elsewhere they arrived as bytes.
pub(crate) enum Given<V: Values> {
    Borrowed(V),
    Arrived(V::Owned),
}

impl<V: Values> Given<V> {
    /// What bodies must not change.
    pub(crate) fn watch(&self) -> Watch {
        match self {
            Given::Borrowed(values) => values.watch(),
            Given::Arrived(values) => V::watch_owned(values),
        }
    }

    pub(crate) fn refs(&self) -> V::Refs<'_> {
        match self {
            Given::Borrowed(values) => values.refs(),
            Given::Arrived(values) => V::owned_refs(values),
        }
    }
}

/// Makes a task from the bytes of its values: what a loop is, apart from where it is called.
pub(crate) type MakeTask = Make<'static>;

type Make<'t> = for<'b> fn(&'b [u8]) -> Result<Box<dyn Task + 't>, CodecError>;

impl<'t, X, V, H, S, I, F, R> MakerOf<'t, LoopTask<X, V, H, S, I, F, R>>
where
    X: Indices,
    V: Values + 't,
    H: Handles + 't,
    S: 't,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const MAKER: &'static Named<Maker> =
        // SAFETY: that is what it makes.
        &Named::new(unsafe { Maker::new(make_task::<X, V, H, S, I, F, R> as Make<'t> as *const (), Makes::Loop) });
}

/// The [`MakeTask`] of a loop, for all types of it.
struct MakerOf<'t, T>(PhantomData<&'t T>);

fn make_task<'t, X, V, H, S, I, F, R>(mut bytes: &[u8]) -> Result<Box<dyn Task + 't>, CodecError>
where
    X: Indices,
    V: Values + 't,
    H: Handles + 't,
    S: 't,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome + 't,
{
    const { assert!(size_of::<F>() == 0 && size_of::<I>() == 0) };
    // SAFETY: rule 1.
    let (scratch, body) =
        unsafe { (std::ptr::NonNull::<I>::dangling().read(), std::ptr::NonNull::<F>::dangling().read()) };
    let rule = X::Rule::decode(&mut bytes).map_err(|source| CodecError::Decode { index: 0, of: "range", source })?;
    let values = Given::Arrived(V::decode(bytes)?);
    Ok(Box::new(LoopTask::<X, V, H, S, I, F, R> {
        rule,
        values,
        scratch,
        body,
        turn: AtomicUsize::new(1),
        types: PhantomData,
    }))
}

impl<X, V, H, S, I, F, R> LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    pub(crate) fn new(rule: X::Rule, values: V, _handles: &H, scratch: I, body: F) -> Self {
        const {
            assert!(
                size_of::<I>() == 0,
                "the `scratch` of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
            assert!(
                size_of::<F>() == 0,
                "the body of this parallel loop uses a variable that is not in its capture list: add it there, \
                 as `x` (a value), `&x` (a DDS that is read) or `&mut x` (a DDS that is written)"
            );
        }
        LoopTask { rule, values: Given::Borrowed(values), scratch, body, turn: AtomicUsize::new(1), types: PhantomData }
    }

    /// A number for each of its values: the same for the same value.
    pub(crate) fn digests(&self) -> Vec<u64> {
        match &self.values {
            Given::Borrowed(values) => values.digests(),
            Given::Arrived(_) => Vec::new(),
        }
    }

    /// What the loop needs to run in another process: its [`MakeTask`], and its range's rule and its values as bytes.
    pub(crate) fn pack(&self) -> Result<(&'static Maker, Vec<u8>), CodecError> {
        let mut bytes = Vec::new();
        if let Given::Borrowed(values) = &self.values {
            self.rule.encode(&mut bytes);
            bytes.append(&mut values.encode()?);
        }
        Ok((&MakerOf::<'_, Self>::MAKER.value, bytes))
    }
}

impl<X, V, H, S, I, F, R> Task for LoopTask<X, V, H, S, I, F, R>
where
    X: Indices,
    V: Values,
    H: Handles,
    I: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>) -> S + Copy + Sync + 'static,
    F: for<'a, 'v> Fn(V::Refs<'v>, &'a mut H::Views<'v>, &'a mut S, X::Index) -> R + Copy + Sync + 'static,
    R: Outcome,
{
    unsafe fn run(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)> {
        let tracked = context.slots.iter().any(Slot::is_tracked);
        let packed = context.slots.iter().any(|slot| slot.here().is_packed());
        let listed = context.slots.iter().any(|slot| slot.slow_path().is_listed());
        let ran = unwound(|| match iterations {
            Iterations::Range { start, end } if !listed => self.in_turns(context, end - start, |place, n| {
                // SAFETY: rule 2, and nothing is packed or listed.
                unsafe { self.run_range(context, place, start + place, n) }
            }),
            Iterations::List { first, offsets } if Self::HAS_RUNS && !packed && !listed && are_neighbours(offsets) => {
                self.in_turns(context, offsets.len(), |place, n| {
                    // SAFETY: rule 2, and nothing is packed or listed.
                    unsafe { self.run_joined(context, place, first, &offsets[place..place + n]) }
                })
            }
            // SAFETY: rule 2.
            Iterations::Runs { first, runs } if H::IN_TILES && Self::HAS_RUNS => unsafe {
                self.run_tile(context, first, runs)
            },
            Iterations::List { first, offsets } if !tracked => self.in_turns(context, offsets.len(), |place, n| {
                // SAFETY: rule 2, and nothing is tracked.
                unsafe { self.run_list(context, place, first, &offsets[place..place + n]) }
            }),
            // SAFETY: rule 2.
            _ => unsafe { self.run_singly(context, iterations, |context| !context.state.is_stopped()) },
        });
        outcome(context, None, ran)
    }

    unsafe fn trace(&self, context: &Context<'_>, iterations: Iterations<'_>) -> Result<(), (Option<usize>, Failure)> {
        let goes_on = |context: &Context<'_>| !context.state.is_astray() && !context.state.is_stopped();
        // SAFETY: rule 2.
        let ran = unwound(|| unsafe { self.run_singly(context, iterations, goes_on) });
        outcome(context, Some(context.state.at.get()), ran)
    }

    unsafe fn record(&self, context: &Context<'_>, range: Range<usize>) {
        // SAFETY: as this one's caller vouches for.
        unsafe { self.record_range(context, range) }
    }

    fn type_id(&self) -> TypeId {
        TypeId::of::<F>()
    }

    fn watch(&self) -> Watch {
        self.values.watch()
    }
}
