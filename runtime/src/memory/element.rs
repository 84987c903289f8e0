//! What a DDS can hold.
//!
//! # Why this is sound
//! `PLAIN` is a claim about memory (see the trait's safety section). The implementations below make it for
//! primitive numbers, whose every byte is initialised and for which all bytes are values, for arrays of
//! plain elements, which have no padding between, and for tuples of them that rustc lays out without padding and in their
//! order. The derive macro computes it from the fields.
#![allow(unsafe_code)]

use std::any::type_name;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::{BuildHasher, Hash};
use std::marker::PhantomData;
use std::mem::offset_of;
use std::num::NonZero;
use std::time::Duration;

use crate::memory::decode::{DecodeError, check_claim, decode_array, decode_vec, deeper, take, take_array};
use crate::memory::ordered::Ordered;

/// An element of a DDS. Derive it: `#[derive(Clone, Element)]`.
///
/// Structs and tuples of numbers without padding are *plain*: they are saved, compared and hashed as their memory.
/// Everything else is handled field by field; a type that knows only serde says `#[element(serde)]`. Its `Deserialize`
/// must then read what its `Serialize` wrote without names to go by: no `flatten`, `untagged`, `skip_serializing_if`.
/// Elements must not change behind a shared reference (no atomics, no locks): a loop that is being
/// recorded reads them freely.
///
/// The standard library's types that are elements: numbers, `NonZero`, `bool`, `char`, `String`, `Duration`, arrays, tuples of
/// up to 12, `Box`, `Option`, `Result`, `Reverse`, `Vec`, `VecDeque`, and maps and sets, hashed or sorted. The bytes of a hashed one are in
/// the order of its keys' bytes, so that equal maps have one digest; what a body makes of the order in which it *iterates* over
/// one is its own affair, and differs from run to run with std's own hasher.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Element;
///
/// assert!(u32::PLAIN && <[f32; 8]>::PLAIN && !String::PLAIN);
/// let mut bytes = Vec::new();
/// 1u8.encode(&mut bytes);
/// true.encode(&mut bytes);
/// assert_eq!(bytes, [1, 1]);
///
/// let mut rest = &bytes[..];
/// assert_eq!((u8::decode(&mut rest)?, bool::decode(&mut rest)?, rest.len()), (1, true, 0));
/// assert!(bool::decode(&mut rest).is_err());
/// # Ok::<(), stradsap_runtime::DecodeError>(())
/// ```
///
/// # Safety
/// `PLAIN` may be true only if the type has no padding, needs no drop, and any bytes are a value of it; `BITS` only if it needs no drop.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an element of a DDS",
    label = "not an `Element`",
    note = "add `#[derive(Clone, Element)]` to the type, or `#[element(serde)]` beside it for a type that has serde's traits only",
    note = "of a reference, as closures of operators are lent, give what it points to: `*i`, or a clone"
)]
pub unsafe trait Element: Clone + Send + Sync + 'static {
    /// Whether an element is plain: nothing but its bytes, without padding or pointers.
    const PLAIN: bool;

    /// Whether a copy of an element's bytes, with its padding, is as good as a clone of it.
    #[doc(hidden)]
    const BITS: bool = Self::PLAIN;

    /// How many bytes every element is encoded in; 0 if not all in as many, or not as its numbers one after the other.
    #[doc(hidden)]
    const FLAT: usize = if Self::PLAIN { size_of::<Self>() } else { 0 };

    /// Whether accesses look for keys in the element, so that a loop can't be recorded on copies of other elements.
    #[doc(hidden)]
    const BY_KEY: bool = false;

    /// Whether an unused element may be kept, so that another can be cloned into its memory. This is allowed if dropping it only
    /// frees memory.
    #[doc(hidden)]
    const KEEPS_ROOM: bool = false;

    /// The same of the standard library's types, as far as they show it themselves: a list of a program's own types doesn't ask them,
    /// since they may be made of such lists.
    #[doc(hidden)]
    const FREES: bool = false;

    /// Makes another element a clone of this one, in the memory that it has.
    #[doc(hidden)]
    #[inline]
    fn clone_over(&self, other: &mut Self) {
        other.clone_from(self);
    }

    /// Appends the canonical bytes of one element. For plain types these are its bytes in memory.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads back what [`encode`](Element::encode) wrote, and removes these bytes from the front. It must handle any bytes: if they
    /// are no element it returns an error, and it compares every length with the bytes that are left before it allocates memory.
    ///
    /// # Errors
    /// [`DecodeError`]. How many bytes were removed is then unspecified.
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError>;
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        // SAFETY: a primitive number has no padding, no drop, and every bit pattern is a value.
        unsafe impl Element for $t {
            const PLAIN: bool = true;
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
            #[inline]
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                take_array(bytes, stringify!($t)).map(<$t>::from_ne_bytes)
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

macro_rules! non_zero {
    ($($t:ty)*) => {$(
        // SAFETY: not plain, so nothing is claimed: 0 is no value.
        unsafe impl Element for NonZero<$t> {
            const PLAIN: bool = false;
            const FLAT: usize = size_of::<$t>();
            fn encode(&self, out: &mut Vec<u8>) {
                self.get().encode(out);
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                const OF: &str = concat!("NonZero<", stringify!($t), ">");
                let invalid = DecodeError::Invalid { of: OF, found: 0, expected: "any other number" };
                NonZero::new(<$t>::decode(bytes)?).ok_or(invalid)
            }
        }
    )*};
}
non_zero!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize);

// SAFETY: an array has no padding beyond that of its elements, and drops what they drop.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const PLAIN: bool = T::PLAIN;
    const BITS: bool = T::BITS;
    const FLAT: usize = N * T::FLAT;
    fn encode(&self, out: &mut Vec<u8>) {
        encode_slice(self, out);
    }
    fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
        decode_array(bytes)
    }
}

/// Whether a type is plain: for the derive macro, where naming `PLAIN` itself would have rustc report a missing
/// `Clone` a second time.
pub const fn is_plain<T: Element>() -> bool {
    T::PLAIN
}

/// Whether dropping a value only frees memory.
const fn only_frees<T: Element>() -> bool {
    T::KEEPS_ROOM || !std::mem::needs_drop::<T>()
}

/// The same of an element in a list.
const fn frees<T: Element>() -> bool {
    T::FREES || !std::mem::needs_drop::<T>()
}

/// Whether a type has a `Drop` of its own: `HasDrop::<T>::ITS_OWN`, where [`DropsNothing`] is in scope.
pub struct HasDrop<T>(PhantomData<T>);

#[allow(drop_bounds, reason = "this asks for the implementation, not for what has to be dropped")]
impl<T: Drop> HasDrop<T> {
    /// It has one.
    pub const ITS_OWN: bool = true;
}

/// What holds of types that the constant above isn't there for.
pub trait DropsNothing {
    /// It has none.
    const ITS_OWN: bool = false;
}

impl<T> DropsNothing for HasDrop<T> {}

/// Appends the bytes of a run of elements, for plain ones in one copy.
pub fn encode_slice<T: Element>(slice: &[T], out: &mut Vec<u8>) {
    if T::PLAIN {
        // SAFETY: plain elements have no padding, so every byte of the slice is initialised.
        let bytes = unsafe { std::slice::from_raw_parts(slice.as_ptr().cast::<u8>(), std::mem::size_of_val(slice)) };
        out.extend_from_slice(bytes);
    } else {
        for element in slice {
            element.encode(out);
        }
    }
}

macro_rules! by_parts {
    ($([$($generic:tt)*] $t:ty $(= $frees:expr)? $(; $flat:literal)?, $self:ident, $out:ident => $encode:expr, $bytes:ident => $decode:expr;)*) => {$(
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl<$($generic)*> Element for $t {
            const PLAIN: bool = false;
            const KEEPS_ROOM: bool = Self::FREES;
            $(const FREES: bool = $frees;)?
            $(const FLAT: usize = $flat;)?
            fn encode(&$self, $out: &mut Vec<u8>) { $encode }
            fn decode($bytes: &mut &[u8]) -> Result<Self, DecodeError> { $decode }
        }
    )*};
}
by_parts! {
    [] bool; 1, self, out => out.push(u8::from(*self)), bytes => flag(bytes, "bool");
    [] char; 4, self, out => u32::from(*self).encode(out), bytes => decode_char(bytes);
    [] String = true, self, out => { self.len().encode(out); out.extend_from_slice(self.as_bytes()) },
        bytes => { let len = usize::decode(bytes)?; decode_str(bytes, len).map(ToString::to_string) };
    [] (), self, _out => {}, _bytes => Ok(());
    [T: Element] Vec<T> = frees::<T>(), self, out => { self.len().encode(out); encode_slice(self, out) },
        bytes => { let len = usize::decode(bytes)?; decode_vec(len, bytes) };
    [T: Element] Box<[T]> = frees::<T>(), self, out => { self.len().encode(out); encode_slice(self, out) },
        bytes => Vec::decode(bytes).map(Vec::into_boxed_slice);
    [T: Element] Box<T> = frees::<T>(), self, out => (**self).encode(out),
        bytes => { let _level = deeper()?; T::decode(bytes).map(Box::new) };
    [T: Element] Option<T> = frees::<T>(), self, out => match self {
        None => out.push(0),
        Some(value) => { out.push(1); value.encode(out) }
    }, bytes => if flag(bytes, "Option")? { T::decode(bytes).map(Some) } else { Ok(None) };
    [T: Element, E: Element] Result<T, E>, self, out => match self {
        Ok(value) => { out.push(0); value.encode(out) }
        Err(error) => { out.push(1); error.encode(out) }
    }, bytes => Ok(if flag(bytes, "Result")? { Err(E::decode(bytes)?) } else { Ok(T::decode(bytes)?) });
    [T: Element] Reverse<T> = frees::<T>(), self, out => self.0.encode(out), bytes => T::decode(bytes).map(Reverse);
    [T: Element] Ordered<T> = frees::<T>(), self, out => self.0.encode(out), bytes => T::decode(bytes).map(Ordered);
    [] Duration, self, out => (self.as_secs(), self.subsec_nanos()).encode(out), bytes => decode_duration(bytes);
    [T: Element] VecDeque<T> = frees::<T>(), self, out => {
        let (front, back) = self.as_slices();
        self.len().encode(out);
        encode_slice(front, out);
        encode_slice(back, out);
    }, bytes => Vec::decode(bytes).map(VecDeque::from);
    [K: Element + Ord, V: Element] BTreeMap<K, V>, self, out => {
        self.len().encode(out);
        self.iter().for_each(|(key, value)| { key.encode(out); value.encode(out) });
    }, bytes => decode_keyed(bytes, |map: &mut Self, (key, value)| map.insert(key, value).is_none());
    [K: Element + Ord] BTreeSet<K>, self, out => {
        self.len().encode(out);
        self.iter().for_each(|key| key.encode(out));
    }, bytes => decode_keyed(bytes, Self::insert);
    [K: Element + Eq + Hash, V: Element, S: BuildHasher + Default + Clone + Send + Sync + 'static] HashMap<K, V, S>,
        self, out => encode_sorted(self.iter(), out, |(key, _), out| key.encode(out), |(_, value), out| value.encode(out)),
        bytes => decode_keyed(bytes, |map: &mut Self, (key, value)| map.insert(key, value).is_none());
    [K: Element + Eq + Hash, S: BuildHasher + Default + Clone + Send + Sync + 'static] HashSet<K, S>,
        self, out => encode_sorted(self.iter(), out, K::encode, |_, _| {}),
        bytes => decode_keyed(bytes, Self::insert);
}

/// Appends entries in the order of their keys' bytes: that of a hashed map is another in each process.
fn encode_sorted<E: Copy>(
    entries: impl ExactSizeIterator<Item = E>,
    out: &mut Vec<u8>,
    key: impl Fn(E, &mut Vec<u8>),
    value: impl Fn(E, &mut Vec<u8>),
) {
    entries.len().encode(out);
    let mut keys = Vec::new();
    let mut sorted: Vec<(usize, usize, E)> = entries
        .map(|entry| {
            let start = keys.len();
            key(entry, &mut keys);
            (start, keys.len(), entry)
        })
        .collect();
    sorted.sort_by(|a, b| keys[a.0..a.1].cmp(&keys[b.0..b.1]));
    for (start, end, entry) in sorted {
        out.extend_from_slice(&keys[start..end]);
        value(entry, out);
    }
}

/// Reads a map or a set. `insert` says whether the key was new.
fn decode_keyed<M: Default, E: Element>(
    bytes: &mut &[u8],
    mut insert: impl FnMut(&mut M, E) -> bool,
) -> Result<M, DecodeError> {
    let len = usize::decode(bytes)?;
    check_claim(len, bytes, type_name::<E>())?;
    let _level = deeper()?;
    let mut all = M::default();
    for at in 0..len {
        if !insert(&mut all, E::decode(bytes)?) {
            return Err(DecodeError::Repeated { of: type_name::<M>(), at });
        }
    }
    Ok(all)
}

fn decode_duration(bytes: &mut &[u8]) -> Result<Duration, DecodeError> {
    let (seconds, nanos) = <(u64, u32)>::decode(bytes)?;
    if nanos >= 1_000_000_000 {
        let expected = "less than a second in nanoseconds";
        return Err(DecodeError::Invalid { of: "Duration", found: nanos.into(), expected });
    }
    Ok(Duration::new(seconds, nanos))
}

/// A byte that is 0 or 1.
pub(crate) fn flag(bytes: &mut &[u8], of: &'static str) -> Result<bool, DecodeError> {
    let [byte] = take_array(bytes, of)?;
    match byte {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { of, found: byte.into(), expected: "0 or 1" }),
    }
}

fn decode_char(bytes: &mut &[u8]) -> Result<char, DecodeError> {
    let found = u32::from_ne_bytes(take_array(bytes, "char")?);
    let invalid = DecodeError::Invalid { of: "char", found: found.into(), expected: "a Unicode scalar value" };
    char::from_u32(found).ok_or(invalid)
}

/// Text of `len` bytes, where it lies.
pub(crate) fn decode_str<'a>(bytes: &mut &'a [u8], len: usize) -> Result<&'a str, DecodeError> {
    let text = take(bytes, len, "text")?;
    std::str::from_utf8(text).map_err(|error| DecodeError::Utf8 { valid: error.valid_up_to() })
}

/// Whether the parts of a tuple lie one after the other, in their order, and nothing else is in it.
const fn are_side_by_side(places: &[usize], sizes: &[usize], size: usize) -> bool {
    let (mut part, mut end) = (0, 0);
    while part < places.len() {
        if places[part] != end {
            return false;
        }
        end += sizes[part];
        part += 1;
    }
    end == size
}

macro_rules! tuples {
    ($(($($name:ident $place:tt)+))*) => {$(
        // SAFETY: it drops what its parts drop. It is plain where all parts are, and lie in their order with nothing between or
        // behind them: so there is no padding, and its bytes in memory are those of the parts, one after the other.
        unsafe impl<$($name: Element),+> Element for ($($name,)+) {
            const PLAIN: bool = {
                let (places, sizes) = ([$(offset_of!(Self, $place)),+], [$(size_of::<$name>()),+]);
                true $(&& $name::PLAIN)+ && are_side_by_side(&places, &sizes, size_of::<Self>())
            };
            const BITS: bool = true $(&& $name::BITS)+;
            const FLAT: usize = if true $(&& $name::FLAT > 0)+ { 0 $(+ $name::FLAT)+ } else { 0 };
            const KEEPS_ROOM: bool = true $(&& only_frees::<$name>())+;
            const FREES: bool = true $(&& frees::<$name>())+;
            fn clone_over(&self, other: &mut Self) {
                $(self.$place.clone_over(&mut other.$place);)+
            }
            #[allow(non_snake_case)]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.encode(out);)+
            }
            fn decode(bytes: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($($name::decode(bytes)?,)+))
            }
        }
    )*};
}
tuples! {
    (A 0)
    (A 0 B 1)
    (A 0 B 1 C 2)
    (A 0 B 1 C 2 D 3)
    (A 0 B 1 C 2 D 3 E 4)
    (A 0 B 1 C 2 D 3 E 4 G 5)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10)
    (A 0 B 1 C 2 D 3 E 4 G 5 H 6 I 7 J 8 K 9 L 10 M 11)
}
