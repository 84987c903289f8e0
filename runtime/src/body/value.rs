//! What a loop may capture by value.

use std::any::type_name;
use std::marker::PhantomData;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::sharing::Watch;
use crate::memory::codec::{CodecError, check_size, read_value, write_value};
use crate::memory::decode::DecodeError;

/// What a bare name in a capture list may be: a value that can be serialised, since it may travel with the task.
///
/// ```
/// fn can_be_captured<T: stradsap_runtime::Value>(_: &T) {}
/// can_be_captured(&0.5f32);
/// can_be_captured(&vec![String::from("a word"), String::from("another")]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be captured as a value",
    label = "can't be serialised",
    note = "a captured value is copied into the task: derive `serde::Serialize` and `serde::Deserialize` for its type, or capture a DDS by reference (`&x`, `&mut x`)",
    note = "where `x` is a reference, what it refers to can be captured: `*x`; of a text or a slice a copy, `x = x.to_string()`, `x = x.to_vec()`"
)]
pub trait Value: Serialize + DeserializeOwned + Send + Sync + 'static {}

// Without this rustc would report the missing halves of serde one by one.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + Sync + 'static> Value for T {}

/// A captured value, and how it travels.
pub struct Copied<'h, T, C = ()>(pub(crate) &'h T, PhantomData<fn() -> C>);

/// A bare name of a capture list.
pub fn value<T: Value>(value: &T) -> Copied<'_, T> {
    Copied(value, PhantomData)
}

impl<'h, T, C> Copied<'h, T, C> {
    /// For method calls that choose by the type. For the codec: `CopyCodec` or `SerdeCodec` for a [`Value`], else `AnyCodec`.
    /// A tuple of values would otherwise demand `Value` of each once more, and rustc report what [`value`] has refused at
    /// the whole loop, too.
    pub fn probe(&self) -> Probe<'h, T> {
        Probe(self.0)
    }

    /// The value with its codec.
    pub fn by<D: Codec<T>>(&self, _codec: D) -> Copied<'h, T, D> {
        Copied(self.0, PhantomData)
    }
}

/// How a captured value, the `index`-th, travels.
#[doc(hidden)]
pub trait Codec<T>: 'static {
    #[doc(hidden)]
    fn encode(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError>;
    #[doc(hidden)]
    fn decode(index: usize, bytes: &mut &[u8]) -> Result<T, CodecError>;
    /// Notes the value, if it may hide state that bodies change.
    #[doc(hidden)]
    fn watch(_value: &T, _watch: &mut Watch) {}
}

/// The codec of values that are `Copy`, so that no body can change them.
pub struct ByCopy;

/// The codec of other values.
pub struct BySerde;

macro_rules! by_serde {
    ($by:ty: $($watch:tt)*) => {
        impl<T: Value> Codec<T> for $by {
            fn encode(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
                write_value(index, value, out)
            }

            fn decode(index: usize, bytes: &mut &[u8]) -> Result<T, CodecError> {
                read_value(index, bytes)
            }

            $($watch)*
        }
    };
}
by_serde!(ByCopy:);
by_serde! {
    BySerde:
    fn watch(value: &T, watch: &mut Watch) {
        watch.add(value);
    }
}

/// The codec of what is no value, in programs that don't compile.
pub struct Untravelled;

impl<T> Codec<T> for Untravelled {
    fn encode(index: usize, _value: &T, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Err(CodecError::Encode { index, of: type_name::<T>(), reason: "it is no `Value`".to_string() })
    }

    fn decode(index: usize, _bytes: &mut &[u8]) -> Result<T, CodecError> {
        let source = DecodeError::Serde { message: "it is no `Value`".to_string() };
        Err(CodecError::Decode { index, of: type_name::<T>(), source })
    }
}

/// For values that are `Copy`.
pub trait CopyCodec {
    /// The codec.
    fn codec(&self) -> ByCopy {
        ByCopy
    }
}

/// For other values.
pub trait SerdeCodec {
    /// The codec.
    fn codec(&self) -> BySerde {
        BySerde
    }
}

/// For types that are not.
pub trait AnyCodec {
    /// The codec.
    fn codec(&self) -> Untravelled {
        Untravelled
    }
}

// In the order in which `(&&probe).codec()` tries them.
impl<T: Value + Copy> CopyCodec for &Probe<'_, T> {}
impl<T: Value> SerdeCodec for &&Probe<'_, T> {}
impl<T> AnyCodec for Probe<'_, T> {}

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
    #[doc(hidden)]
    fn owned_refs(owned: &Self::Owned) -> Self::Refs<'_>;
}

macro_rules! values {
    ($(($($name:ident $by:ident $n:tt)*))*) => {$(
        impl<$($name: 'static, $by),*> ValueRefs for ($(Copied<'_, $name, $by>,)*) {
            type Refs<'v> = ($(&'v $name,)*);
        }

        #[allow(clippy::unused_unit)]
        impl<$($name: Send + Sync + 'static, $by: Codec<$name>),*> Values for ($(Copied<'_, $name, $by>,)*) {
            type Owned = ($($name,)*);

            fn refs(&self) -> Self::Refs<'_> {
                ($(self.$n.0,)*)
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
                ($(&owned.$n,)*)
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

/// Chooses how a value arrives in the body: `Copy` types as themselves, others by reference.
pub struct Probe<'v, T>(pub &'v T);

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
