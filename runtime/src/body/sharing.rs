//! State that changes behind a shared reference, in what loops and operators capture and in elements.
//!
//! Each process has a copy of a captured value, and bodies run more often than once an iteration (to record a loop, to undo
//! it), so what they add up there comes out wrong. rustc refuses such state where the type shows it; where a type hides it,
//! a value whose first bytes change while the loop runs is an error.

use std::any::type_name;
use std::cell::{Cell, OnceCell, RefCell, UnsafeCell};
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet, VecDeque};
use std::fmt::Display;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{
    AtomicBool, AtomicI8, AtomicI16, AtomicI32, AtomicI64, AtomicIsize, AtomicU8, AtomicU16, AtomicU32, AtomicU64,
    AtomicUsize,
};
use std::sync::{Arc, Mutex, OnceLock, RwLock};

use serde::Serialize;

use crate::body::value::Probe;
use crate::memory::codec::front_of;
use crate::session::error::{Error, LoopProblem, Result};

/// How many bytes of a captured value are compared.
const WATCHED: usize = 1 << 14;

/// Types that show that they hold state of this kind. `At` says where: a pair may hold it in either place.
pub trait SharedState<At> {}

/// In the `N`-th place of a tuple.
pub struct Place<const N: usize, At>(PhantomData<At>);

macro_rules! shared {
    ($($leaf:ty)*; $($cell:ident)*; $($holder:ty)*) => {
        $(impl SharedState<()> for $leaf {})*
        $(impl<T: ?Sized> SharedState<()> for $cell<T> {})*
        $(impl<T: SharedState<At>, At> SharedState<At> for $holder {})*
    };
}
shared! {
    AtomicBool AtomicI8 AtomicI16 AtomicI32 AtomicI64 AtomicIsize AtomicU8 AtomicU16 AtomicU32 AtomicU64 AtomicUsize;
    Cell RefCell UnsafeCell Mutex RwLock;
    Option<T> Box<T> Rc<T> Arc<T> Vec<T> VecDeque<T> [T]
}
impl<T> SharedState<()> for OnceCell<T> {}
impl<T> SharedState<()> for OnceLock<T> {}
impl<T: SharedState<At>, At, const N: usize> SharedState<At> for [T; N] {}
impl<K, V: SharedState<At>, At> SharedState<At> for BTreeMap<K, V> {}
impl<K, V: SharedState<At>, S, At> SharedState<At> for HashMap<K, V, S> {}

macro_rules! tuples {
    ($(($($name:ident)*) $shared:ident $n:literal)*) => {$(
        impl<$($name,)* At> SharedState<Place<$n, At>> for ($($name,)*) where $shared: SharedState<At> {}
    )*};
}
tuples! {
    (A) A 0
    (A B) A 0 (A B) B 1
    (A B C) A 0 (A B C) B 1 (A B C) C 2
    (A B C D) A 0 (A B C D) B 1 (A B C D) C 2 (A B C D) D 3
}

/// Nothing that is [`SharedState`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured as a value: it changes behind a shared reference",
    label = "state that all iterations would share",
    note = "each process has a copy of a captured value, and a body may run more than once an iteration: what it adds up there is wrong",
    note = "to add up, capture a reduction (`session.count()`, `session.sum(0.0)`, `session.max(0)`); to change what other iterations read, a `DVector` as `&mut x`, or `session.relaxed_vector(...)`"
)]
pub trait UnsharedValue {}

/// Nothing that is [`SharedState`].
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be part of an element: it changes behind a shared reference",
    label = "state that changes behind a shared reference",
    note = "elements change only where a loop captures their DVector as `&mut x`: use a plain field, as in `hits: u64` instead of `hits: AtomicU64`"
)]
pub trait UnsharedElement {}

/// For types that show such state: rustc says what to write instead.
pub trait ShowsState<At> {
    /// The type.
    type Holder: ?Sized;
    /// Refuses a captured value.
    fn check_value(&self)
    where
        Self::Holder: UnsharedValue,
    {
    }
    /// Refuses a field of an element.
    fn check_element(&self)
    where
        Self::Holder: UnsharedElement,
    {
    }
}

impl<T: SharedState<At> + ?Sized, At> ShowsState<At> for Probe<'_, T> {
    type Holder = T;
}

/// For all others.
pub trait ShowsNone {
    /// Lets it pass.
    fn check_value(&self) {}
    /// Lets it pass.
    fn check_element(&self) {}
}

impl<T: ?Sized> ShowsNone for &Probe<'_, T> {}

/// No collection of the standard library.
#[diagnostic::on_unimplemented(
    message = "a captured `{Self}` can't be changed: every iteration gets the same one",
    label = "this method changes it",
    note = "for a copy that lasts one iteration use `let mut copy = name.clone();`; for a sum use a reduction (`session.sum(0.0)`); for what the loop leaves, a `DVector` or `DMap` captured as `&mut x`"
)]
pub trait ChangedValue {}

/// For collections, of which the macro found a call of a method that changes them. rustc would say that their capture isn't `mut`.
pub trait IsCollection {
    /// The type.
    type Holder: ?Sized;
    /// Refuses the call.
    fn check_unchanged(&self)
    where
        Self::Holder: ChangedValue,
    {
    }
}

macro_rules! collections {
    ($([$($generic:tt)*] $collection:ty;)*) => {$(
        impl<$($generic)*> IsCollection for Probe<'_, $collection> {
            type Holder = $collection;
        }
    )*};
}
collections! {
    [T] Vec<T>;
    [T] VecDeque<T>;
    [T] BinaryHeap<T>;
    [T] BTreeSet<T>;
    [K, V] BTreeMap<K, V>;
    [T, S] HashSet<T, S>;
    [K, V, S] HashMap<K, V, S>;
    [T] [T];
    [T, const N: usize] [T; N];
    [] String;
}

/// For all others.
pub trait IsNoCollection {
    /// Lets it pass.
    fn check_unchanged(&self) {}
}

impl<T: ?Sized> IsNoCollection for &Probe<'_, T> {}

/// The first bytes of captured values that may hide such state, each with its type.
#[doc(hidden)]
#[derive(Debug, Default, PartialEq)]
pub struct Watch(Vec<(&'static str, Vec<u8>)>);

impl Watch {
    /// Of a single value.
    pub(crate) fn of<T: Serialize>(value: &T) -> Self {
        let mut watch = Watch::default();
        watch.add(value);
        watch
    }

    /// Adds a value.
    pub(crate) fn add<T: Serialize + ?Sized>(&mut self, value: &T) {
        self.0.push((type_name::<T>(), front_of(value, WATCHED)));
    }

    /// The type of a value that is another one now, if there is one.
    pub(crate) fn changed(&self, now: &Watch) -> Option<String> {
        self.0.iter().zip(&now.0).find(|(before, now)| before != now).map(|((of, _), _)| of.to_string())
    }

    /// Fails for values that are others now.
    pub(crate) fn unchanged(&self, now: &Watch, site: &dyn Display) -> Result<()> {
        self.changed(now).map_or(Ok(()), |of| Err(shared_state(of, site)))
    }
}

/// The error for a value of this type that bodies changed.
pub(crate) fn shared_state(of: String, site: &dyn Display) -> Error {
    Error::Loop { site: site.to_string(), problem: LoopProblem::SharedState { of } }
}
