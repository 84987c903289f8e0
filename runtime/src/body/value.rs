//! What a loop may capture by value.

pub(crate) mod kinds;

use std::hash::{DefaultHasher, Hasher};
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::sharing::Watch;
use crate::memory::codec::{CodecError, check_size};

/// What a bare name in a capture list may be: a value that can be serialised, since it may travel with the task. References to
/// such values, slices and texts, `Arc`s of them, functions, and closures that capture nothing can be captured, too.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// fn can_be_captured<T: stradsap::Value>(_: &T) {}
/// can_be_captured(&0.5f32);
/// can_be_captured(&vec![String::from("a word"), String::from("another")]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured as a value",
    label = "can't travel to other processes",
    note = "a captured value is copied into the task: derive `serde::Serialize` and `serde::Deserialize` for its type (also where `&T`, `&[T]` or `Arc<T>` is captured), capture a `Vec` instead of an array of more than 32 elements, or capture a DDS by reference (`&x`, `&mut x`; also where `x` is itself a reference to one)",
    note = "a `Session` can't be captured: make reductions, relaxed state and generators of random numbers before the loop, and capture those",
    note = "capture another kind of reference as `*x`, functions and closures that capture nothing by name; a type parameter needs `F: Fn(f32) -> f32 + Copy + Send + Sync + 'static`"
)]
pub trait Value: Serialize + DeserializeOwned + Send + Sync + 'static {}

// Without this rustc would report the missing halves of serde one by one.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// A captured value, and how it travels.
pub struct Copied<'h, T: ?Sized, C = ()>(pub(crate) &'h T, PhantomData<fn() -> C>);

/// A bare name of a capture list. What kind it is of, the macro chooses next (see `kinds`).
pub fn value<T>(value: &T) -> Copied<'_, T> {
    Copied(value, PhantomData)
}

impl<'h, T: ?Sized, C> Copied<'h, T, C> {
    /// For method calls that choose by the type.
    pub fn probe(&self) -> Probe<'h, T> {
        Probe(self.0)
    }
}

/// How a captured value, the `index`-th, travels.
#[doc(hidden)]
pub trait Codec<T: ?Sized>: Shown<T> {
    /// What arrives.
    type Owned: Send + Sync + 'static;
    #[doc(hidden)]
    fn of(owned: &Self::Owned) -> &T;
    #[doc(hidden)]
    fn encode(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError>;
    #[doc(hidden)]
    fn decode(index: usize, bytes: &mut &[u8]) -> Result<Self::Owned, CodecError>;
    /// Its first bytes, to tell it from others.
    #[doc(hidden)]
    fn front(value: &T) -> Vec<u8> {
        let mut front = Vec::new();
        // (What can't be told apart is taken for the same.)
        let _ended = Self::encode(0, value, &mut front);
        front
    }
    /// Notes the value, if it may hide state that bodies change.
    #[doc(hidden)]
    fn watch(_value: &T, _watch: &mut Watch) {}
}

/// How a body sees a captured value.
#[doc(hidden)]
pub trait Shown<T: ?Sized>: 'static {
    #[doc(hidden)]
    type Seen<'v>: Copy
    where
        T: 'v;
    #[doc(hidden)]
    fn seen(value: &T) -> Self::Seen<'_>;
}

/// How a tuple of captured values reaches the body. (A trait of its own: here the references need no `Self: 'v`,
/// which a body that takes any lifetime could not promise.)
#[doc(hidden)]
pub trait ValueRefs {
    /// References to the values.
    type Refs<'v>: Copy;
}

/// A tuple of captured values. As bytes they follow each other.
#[doc(hidden)]
pub trait Values: ValueRefs + Sync {
    /// The values themselves, as they are where they arrive.
    type Owned: Send + Sync + 'static;
    #[doc(hidden)]
    fn refs(&self) -> Self::Refs<'_>;
    #[doc(hidden)]
    fn encode(&self) -> Result<Vec<u8>, CodecError>;
    #[doc(hidden)]
    fn decode(bytes: &[u8]) -> Result<Self::Owned, CodecError>;
    /// What bodies must not change.
    #[doc(hidden)]
    fn watch(&self) -> Watch;
    /// The same of values that arrived.
    #[doc(hidden)]
    fn watch_owned(owned: &Self::Owned) -> Watch;
    /// A number for each, from its first bytes: the same for the same value.
    #[doc(hidden)]
    fn digests(&self) -> Vec<u64>;
    #[doc(hidden)]
    fn owned_refs(owned: &Self::Owned) -> Self::Refs<'_>;
}

macro_rules! values {
    ($(($($name:ident $by:ident $n:tt)*))*) => {$(
        impl<$($name: ?Sized + 'static, $by: Shown<$name>),*> ValueRefs for ($(Copied<'_, $name, $by>,)*) {
            type Refs<'v> = ($($by::Seen<'v>,)*);
        }

        #[allow(clippy::unused_unit)]
        impl<$($name: ?Sized + Send + Sync + 'static, $by: Codec<$name>),*> Values for ($(Copied<'_, $name, $by>,)*) {
            type Owned = ($($by::Owned,)*);

            fn refs(&self) -> Self::Refs<'_> {
                ($($by::seen(self.$n.0),)*)
            }

            #[allow(unused_mut)]
            fn encode(&self) -> Result<Vec<u8>, CodecError> {
                let mut out = Vec::new();
                $($by::encode($n, self.$n.0, &mut out)?;)*
                Ok(out)
            }

            #[allow(unused_mut)]
            fn watch(&self) -> Watch {
                let mut watch = Watch::default();
                $($by::watch(self.$n.0, &mut watch);)*
                watch
            }

            #[allow(unused_mut, unused_variables)]
            fn watch_owned(owned: &Self::Owned) -> Watch {
                let mut watch = Watch::default();
                $($by::watch($by::of(&owned.$n), &mut watch);)*
                watch
            }

            fn digests(&self) -> Vec<u64> {
                vec![$(digest(&$by::front(self.$n.0))),*]
            }

            #[allow(unused_mut)]
            fn decode(bytes: &[u8]) -> Result<Self::Owned, CodecError> {
                const COUNT: usize = <[usize]>::len(&[$($n),*]);
                check_size(bytes)?;
                let mut left = bytes;
                let owned = ($($by::decode($n, &mut left)?,)*);
                match left.len() {
                    0 => Ok(owned),
                    left => Err(CodecError::Trailing { values: COUNT, left }),
                }
            }

            #[allow(unused_variables)]
            fn owned_refs(owned: &Self::Owned) -> Self::Refs<'_> {
                ($($by::seen($by::of(&owned.$n)),)*)
            }
        }
    )*};
}
values! {
    ()
    (A AA 0)
    (A AA 0 B BB 1)
    (A AA 0 B BB 1 C CC 2)
    (A AA 0 B BB 1 C CC 2 D DD 3)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5 H HH 6)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5 H HH 6 I II 7)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5 H HH 6 I II 7 J JJ 8)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5 H HH 6 I II 7 J JJ 8 K KK 9)
    (A AA 0 B BB 1 C CC 2 D DD 3 E EE 4 G GG 5 H HH 6 I II 7 J JJ 8 K KK 9 L LL 10)
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Chooses how a value arrives in the body: `Copy` types as themselves, others by reference.
pub struct Probe<'v, T: ?Sized>(pub &'v T);

impl<T: ?Sized> Clone for Probe<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Probe<'_, T> {}

/// What a captured reference refers to: a reference in the body, too.
pub struct Referred<'v, T: ?Sized>(&'v T);

impl<T: ?Sized> Clone for Referred<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: ?Sized> Copy for Referred<'_, T> {}

impl<'v, T: ?Sized> Referred<'v, T> {
    /// The reference.
    #[inline(always)]
    pub fn by_value(self) -> &'v T {
        self.0
    }
}

/// For types that are `Copy`.
pub trait CopyValue {
    /// The value itself.
    type Out;
    /// The value as the body sees it.
    fn by_value(&self) -> Self::Out;
}

/// For types that are not.
pub trait RefValue {
    /// A reference to the value.
    type Out;
    /// The value as the body sees it.
    fn by_value(&self) -> Self::Out;
}

impl<T: Copy> CopyValue for Probe<'_, T> {
    type Out = T;
    #[inline(always)]
    fn by_value(&self) -> T {
        *self.0
    }
}

impl<'v, T> RefValue for &Probe<'v, T> {
    type Out = &'v T;
    #[inline(always)]
    fn by_value(&self) -> &'v T {
        self.0
    }
}
