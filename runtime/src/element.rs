//! What a DDS can hold.
//!
//! # Why this is sound
//! `PLAIN` is a claim about memory (see the trait's safety section). The implementations below make it for
//! primitive numbers, whose every byte is initialised and for which all bytes are values, and for arrays of
//! plain elements, which have no padding between. The derive macro computes it from the fields.
#![allow(unsafe_code)]

/// An element of a DDS. Derive it: `#[derive(Clone, Element)]`.
///
/// Structs of numbers without padding are *plain*: they are saved, compared and hashed as their memory.
/// Everything else is handled field by field; a type that knows only serde says `#[element(serde)]`.
/// Elements must not change behind a shared reference (no atomics, no locks): a loop that is being
/// recorded reads them freely.
///
/// ```
/// use stradsap_runtime::Element;
///
/// assert!(u32::PLAIN && <[f32; 8]>::PLAIN && !String::PLAIN);
/// let mut bytes = Vec::new();
/// 1u8.encode(&mut bytes);
/// true.encode(&mut bytes);
/// assert_eq!(bytes, [1, 1]);
/// ```
///
/// # Safety
/// `PLAIN` may be true only if the type has no padding, needs no drop, and any bytes are a value of it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an element of a DDS",
    label = "not an `Element`",
    note = "add `#[derive(Clone, Element)]` to the type, or `#[element(serde)]` beside it for a type that has serde's traits only"
)]
pub unsafe trait Element: Clone + Send + Sync + 'static {
    /// Whether an element is nothing but its bytes.
    const PLAIN: bool;

    /// Appends the canonical bytes of one element: for plain types its memory.
    fn encode(&self, out: &mut Vec<u8>);
}

macro_rules! numbers {
    ($($t:ty)*) => {$(
        // SAFETY: a primitive number has no padding, no drop, and every bit pattern is a value.
        unsafe impl Element for $t {
            const PLAIN: bool = true;
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_ne_bytes());
            }
        }
    )*};
}
numbers!(u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64);

// SAFETY: an array has no padding beyond that of its elements, and drops what they drop.
unsafe impl<T: Element, const N: usize> Element for [T; N] {
    const PLAIN: bool = T::PLAIN;
    fn encode(&self, out: &mut Vec<u8>) {
        encode_slice(self, out);
    }
}

/// Whether a type is plain: for the derive macro, where naming `PLAIN` itself would have rustc report a missing
/// `Clone` a second time.
pub const fn is_plain<T: Element>() -> bool {
    T::PLAIN
}

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
    ($($t:ty, $self:ident, $out:ident => $body:expr;)*) => {$(
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl Element for $t {
            const PLAIN: bool = false;
            fn encode(&$self, $out: &mut Vec<u8>) { $body }
        }
    )*};
}
by_parts! {
    bool, self, out => out.push(u8::from(*self));
    char, self, out => u32::from(*self).encode(out);
    String, self, out => { self.len().encode(out); out.extend_from_slice(self.as_bytes()) };
    (), self, _out => {};
}

macro_rules! containers {
    ($($t:ty, $self:ident, $out:ident => $body:expr;)*) => {$(
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl<T: Element> Element for $t {
            const PLAIN: bool = false;
            fn encode(&$self, $out: &mut Vec<u8>) { $body }
        }
    )*};
}
containers! {
    Vec<T>, self, out => { self.len().encode(out); encode_slice(self, out) };
    Box<[T]>, self, out => { self.len().encode(out); encode_slice(self, out) };
    Box<T>, self, out => (**self).encode(out);
    Option<T>, self, out => match self {
        None => out.push(0),
        Some(value) => { out.push(1); value.encode(out) }
    };
}

macro_rules! tuples {
    ($(($($name:ident)+))*) => {$(
        // SAFETY: not plain, so nothing is claimed.
        unsafe impl<$($name: Element),+> Element for ($($name,)+) {
            const PLAIN: bool = false;
            #[allow(non_snake_case)]
            fn encode(&self, out: &mut Vec<u8>) {
                let ($($name,)+) = self;
                $($name.encode(out);)+
            }
        }
    )*};
}
tuples! { (A) (A B) (A B C) (A B C D) (A B C D E) (A B C D E G) }
