//! The kinds of values that a bare name in a capture list may be, and how each travels.
//!
//! The macro calls `kind` on a [`Probe`] behind six references; rustc takes the first trait below whose implementation fits the
//! type: references and `Arc`s, values that are `Copy`, other values, function pointers, code without bytes, and what can't be captured.
//! (References come first: rustc takes `&str` for a value here, since it doesn't look at lifetimes.)
//!
//! # Why this is sound
//! 1. Code without bytes is of a type of one value, which is copied here to other places where the same program runs: as for a
//!    loop's body (`task`), it is made anew only where a task arrived that was made of such a value. `Copy`, `Send` and `'static`
//!    say that this may be.
//! 2. A function pointer travels as its place in the executable (`memory::image`), and arrives in a process that has proved to
//!    run the same executable before it was told anything, as the part of a task of which the type is that of the loop. So the
//!    place is that of a function of this type.
//! 3. A value that [`Held`] holds was copied from one of its type, into room that is as large and as aligned, and is read only there.
//!    `MaybeUninit` keeps each byte as it is, and a type that is `Copy` may be copied so.
#![allow(unsafe_code)]

use std::any::type_name;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::{Codec, Copied, Probe, Referred, Shown, Value};
use crate::body::sharing::Watch;
use crate::memory::codec::{CodecError, front_of, read_value, write_value};
use crate::memory::decode::DecodeError;

/// How many bytes tell a value from others.
const FRONT: usize = 1 << 12;

macro_rules! shown {
    ($($by:ty: $seen:ident)*) => {$(
        impl<T: ?Sized> Shown<T> for $by {
            type Seen<'v>
                = $seen<'v, T>
            where
                T: 'v;
            #[inline(always)]
            fn seen(value: &T) -> $seen<'_, T> {
                $seen(value)
            }
        }
    )*};
}
shown! {
    BySerde: Probe
    ByReference: Referred
    ByParts: Referred
    ByContents: Probe
    ByAddress: Probe
    ByCode: Probe
    Untravelled: Probe
}

/// Values that are `Copy`, so that no body can change them.
pub struct ByCopy;

/// Other values.
pub struct BySerde;

/// What a reference refers to.
pub struct ByReference;

/// Room for a small value.
type Room = [MaybeUninit<u64>; 2];

/// A value that is `Copy`, as bodies see it: a small one itself, so that loops have it in a register. (What stands behind a reference
/// is loaded again in each iteration, since the compiler doesn't know that no element is written there.)
pub struct Held<'v, T> {
    room: Room,
    large: Option<&'v T>,
    value: PhantomData<T>,
}

impl<T> Clone for Held<'_, T> {
    #[inline(always)]
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Held<'_, T> {}

impl<'v, T: Copy> Held<'v, T> {
    const IS_SMALL: bool = size_of::<T>() <= size_of::<Room>() && align_of::<T>() <= align_of::<Room>();

    #[inline(always)]
    fn new(value: &'v T) -> Self {
        let mut held = Held { room: [MaybeUninit::uninit(); 2], large: None, value: PhantomData };
        if Self::IS_SMALL {
            // SAFETY: rule 3: it has room.
            unsafe { held.room.as_mut_ptr().cast::<T>().write(*value) }
        } else {
            held.large = Some(value);
        }
        held
    }

    /// The value.
    #[inline(always)]
    pub fn by_value(self) -> T {
        match self.large {
            Some(value) => *value,
            // SAFETY: rule 3: `new` has written it there.
            None => unsafe { self.room.as_ptr().cast::<T>().read() },
        }
    }
}

impl<T: Copy> Shown<T> for ByCopy {
    type Seen<'v>
        = Held<'v, T>
    where
        T: 'v;
    #[inline(always)]
    fn seen(value: &T) -> Held<'_, T> {
        Held::new(value)
    }
}

macro_rules! by_serde {
    ([$($bound:tt)*] $by:ty: $($watch:tt)*) => {
        impl<T: $($bound)*> Codec<T> for $by {
            type Owned = T;

            fn of(owned: &T) -> &T {
                owned
            }

            fn encode(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
                write_value(index, value, out)
            }

            fn decode(index: usize, bytes: &mut &[u8]) -> Result<T, CodecError> {
                read_value(index, bytes)
            }

            fn front(value: &T) -> Vec<u8> {
                front_of(value, FRONT)
            }

            $($watch)*
        }
    };
}
by_serde!([Value + Copy] ByCopy:);
by_serde! {
    [Value] BySerde:
    fn watch(value: &T, watch: &mut Watch) {
        watch.add(value);
    }
}
by_serde! {
    [Value] ByReference:
    fn watch(value: &T, watch: &mut Watch) {
        watch.add(value);
    }
}

/// Slices and texts.
pub struct ByParts;

impl<T: Value> Codec<[T]> for ByParts {
    type Owned = Vec<T>;

    fn of(owned: &Vec<T>) -> &[T] {
        owned
    }

    fn encode(index: usize, value: &[T], out: &mut Vec<u8>) -> Result<(), CodecError> {
        write_value(index, value, out)
    }

    fn decode(index: usize, bytes: &mut &[u8]) -> Result<Vec<T>, CodecError> {
        read_value(index, bytes)
    }

    fn front(value: &[T]) -> Vec<u8> {
        front_of(value, FRONT)
    }

    fn watch(value: &[T], watch: &mut Watch) {
        watch.add(value);
    }
}

impl Codec<str> for ByParts {
    type Owned = String;

    fn of(owned: &String) -> &str {
        owned
    }

    fn encode(index: usize, value: &str, out: &mut Vec<u8>) -> Result<(), CodecError> {
        write_value(index, value, out)
    }

    fn decode(index: usize, bytes: &mut &[u8]) -> Result<String, CodecError> {
        read_value(index, bytes)
    }

    fn front(value: &str) -> Vec<u8> {
        front_of(value, FRONT)
    }
}

/// What `Arc`s share.
pub struct ByContents;

macro_rules! by_contents {
    ([$($t:ident)?] $contents:ty, $parts:ty) => {
        impl$(<$t: Value>)? Codec<Arc<$contents>> for ByContents {
            type Owned = Arc<$contents>;

            fn of(owned: &Arc<$contents>) -> &Arc<$contents> {
                owned
            }

            fn encode(index: usize, value: &Arc<$contents>, out: &mut Vec<u8>) -> Result<(), CodecError> {
                write_value(index, &**value, out)
            }

            fn decode(index: usize, bytes: &mut &[u8]) -> Result<Arc<$contents>, CodecError> {
                read_value::<$parts>(index, bytes).map(Arc::from)
            }

            fn front(value: &Arc<$contents>) -> Vec<u8> {
                front_of(&**value, FRONT)
            }

            fn watch(value: &Arc<$contents>, watch: &mut Watch) {
                watch.add(&**value);
            }
        }

        impl<'h, $($t: Value)?> ChooseKnown for &&&&&Probe<'h, Arc<$contents>> {
            type Out = Copied<'h, Arc<$contents>, ByContents>;
            fn kind(&self) -> Self::Out {
                Copied(self.0, std::marker::PhantomData)
            }
        }
    };
}
by_contents!([T] T, T);
by_contents!([T][T], Vec<T>);
by_contents!([] str, String);

/// Function pointers.
pub struct ByAddress;

/// A function pointer of up to three parameters, each a value or a reference.
pub trait FunctionPointer: Copy + Send + Sync + 'static {
    #[doc(hidden)]
    fn address(self) -> usize;
    /// # Safety
    /// A function of this type lies there.
    #[doc(hidden)]
    unsafe fn at(address: usize) -> Self;
}

macro_rules! function_pointers {
    (() $([$($generic:tt)*])*; $($parameter:ty,)*) => {
        #[allow(coherence_leak_check, reason = "a function of any value, and one of a reference of any lifetime, are two types")]
        impl<$($($generic)*,)* R: 'static> FunctionPointer for fn($($parameter),*) -> R {
            fn address(self) -> usize {
                self as usize
            }

            unsafe fn at(address: usize) -> Self {
                // SAFETY: the caller's promise.
                unsafe { std::mem::transmute::<*const (), Self>(std::ptr::with_exposed_provenance(address)) }
            }
        }
    };
    (($next:ident $($rest:ident)*) $([$($generic:tt)*])*; $($parameter:ty,)*) => {
        function_pointers!(($($rest)*) $([$($generic)*])* [$next: 'static]; $($parameter,)* $next,);
        function_pointers!(($($rest)*) $([$($generic)*])* [$next: ?Sized + 'static]; $($parameter,)* &$next,);
        function_pointers!(($($rest)*) $([$($generic)*])* [$next: ?Sized + 'static]; $($parameter,)* &mut $next,);
    };
}
function_pointers!((););
function_pointers!((A););
function_pointers!((A B););
function_pointers!((A B C););

impl<T: FunctionPointer> Codec<T> for ByAddress {
    type Owned = T;

    fn of(owned: &T) -> &T {
        owned
    }

    fn encode(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
        let reason = "it lies outside the program, in a shared library".to_string();
        let name = name_of(value.address()).ok_or(CodecError::Encode { index, of: type_name::<T>(), reason })?;
        write_value(index, &name, out)
    }

    fn decode(index: usize, bytes: &mut &[u8]) -> Result<T, CodecError> {
        let name = read_value::<u64>(index, bytes)?;
        let source = DecodeError::Invalid { of: type_name::<T>(), found: name, expected: "a function of the program" };
        let address = address_of(name).ok_or(CodecError::Decode { index, of: type_name::<T>(), source })?;
        // SAFETY: rule 2.
        Ok(unsafe { T::at(address) })
    }
}

#[cfg(feature = "cluster")]
use crate::memory::image::name_of;

#[cfg(feature = "cluster")]
fn address_of(name: u64) -> Option<usize> {
    crate::memory::image::address_of(name, 1, true)
}

/// There are no other processes.
#[cfg(not(feature = "cluster"))]
fn name_of(_address: usize) -> Option<u64> {
    None
}

#[cfg(not(feature = "cluster"))]
fn address_of(_name: u64) -> Option<usize> {
    None
}

/// Functions and closures that capture nothing: they have no bytes.
pub struct ByCode;

impl<T: Copy + Send + Sync + 'static> Codec<T> for ByCode {
    type Owned = T;

    fn of(owned: &T) -> &T {
        owned
    }

    fn encode(_index: usize, _value: &T, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(())
    }

    fn decode(_index: usize, _bytes: &mut &[u8]) -> Result<T, CodecError> {
        assert!(size_of::<T>() == 0, "`kind` takes no other");
        // SAFETY: rule 1: it has no bytes, and its type a value.
        Ok(unsafe { std::ptr::NonNull::<T>::dangling().read() })
    }
}

/// What can be called. `As` says with which parameters.
pub trait Callable<As> {}

macro_rules! callable {
    ($(($($parameter:ident)*))*) => {$(
        impl<T: Fn($($parameter),*) -> R, R, $($parameter),*> Callable<fn($($parameter),*) -> R> for T {}
    )*};
}
callable!(()(A)(A B)(A B C)(A B C D)(A B C D E)(A B C D E G));

/// What is no value, in programs that don't compile.
pub struct Untravelled;

impl<T> Codec<T> for Untravelled {
    type Owned = ();

    fn of((): &()) -> &T {
        unreachable!("it doesn't arrive anywhere")
    }

    fn encode(index: usize, _value: &T, _out: &mut Vec<u8>) -> Result<(), CodecError> {
        Err(CodecError::Encode { index, of: type_name::<T>(), reason: "it is no `Value`".to_string() })
    }

    fn decode(index: usize, _bytes: &mut &[u8]) -> Result<(), CodecError> {
        let source = DecodeError::Serde { message: "it is no `Value`".to_string() };
        Err(CodecError::Decode { index, of: type_name::<T>(), source })
    }
}

macro_rules! choices {
    ($($(#[$doc:meta])* $choose:ident)*) => {$(
        $(#[$doc])*
        pub trait $choose {
            /// The value with its codec.
            type Out;
            /// The value with its codec.
            fn kind(&self) -> Self::Out;
        }
    )*};
}
choices! {
    /// Values that are `Copy`.
    ChooseCopy
    /// Other values.
    ChooseSerde
    /// References and `Arc`s.
    ChooseKnown
    /// Function pointers.
    ChooseFunction
}

macro_rules! chosen {
    ($([$($generic:tt)*] $choose:ident for [$($refs:tt)*] $given:ty, by $lifetime:lifetime $captured:ty, $by:ty;)*) => {$(
        impl<'h, $($generic)*> $choose for $($refs)* Probe<'h, $given> {
            type Out = Copied<$lifetime, $captured, $by>;
            fn kind(&self) -> Self::Out {
                Copied(self.0, std::marker::PhantomData)
            }
        }
    )*};
}
chosen! {
    [T: Value + Copy] ChooseCopy for [&&&&] T, by 'h T, ByCopy;
    [T: Value] ChooseSerde for [&&&] T, by 'h T, BySerde;
    ['r, T: Value] ChooseKnown for [&&&&&] &'r T, by 'h T, ByReference;
    ['r, T: Value] ChooseKnown for [&&&&&] &'r [T], by 'h [T], ByParts;
    ['r] ChooseKnown for [&&&&&] &'r str, by 'h str, ByParts;
    [T: FunctionPointer + 'static] ChooseFunction for [&&] T, by 'h T, ByAddress;
}

/// Code without bytes.
pub trait ChooseCode<As> {
    /// The value with its codec.
    type Out;
    /// The value with its codec.
    fn kind(&self) -> Self::Out;
}

impl<'h, T: Callable<As> + Copy + Send + Sync + 'static, As> ChooseCode<As> for &Probe<'h, T> {
    type Out = Copied<'h, T, ByCode>;
    fn kind(&self) -> Self::Out {
        const {
            assert!(
                size_of::<T>() == 0,
                "a closure that captures variables can't be captured by a parallel loop: capture those variables in the \
                 loop's own list, and write the closure in its body"
            );
        }
        Copied(self.0, std::marker::PhantomData)
    }
}

/// What can't be captured: rustc says why.
pub trait ChooseNone<'h> {
    /// The type.
    type Holder;
    /// Refuses it.
    fn kind(&self) -> Copied<'h, Self::Holder, Untravelled>
    where
        Self::Holder: Value;
}

impl<'h, T> ChooseNone<'h> for Probe<'h, T> {
    type Holder = T;
    fn kind(&self) -> Copied<'h, T, Untravelled> {
        Copied(self.0, std::marker::PhantomData)
    }
}
