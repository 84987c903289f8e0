//! A reader of bincode 2's format with fixed-size little-endian integers, for bytes that nobody vouches for.
//!
//! Lengths are compared with the bytes left before they are believed. Elements that take no bytes (`()`, empty structs)
//! can't be counted that way and have a budget of their own. Depth is counted, since a stack is no one's to fill.

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use super::{CodecError, one_line};

/// How deep values may nest.
const DEPTH: usize = 1024;

/// How many elements of a message may take no bytes.
const EMPTY: usize = 1 << 20;

/// The value at the front of the bytes, which are taken off.
pub(super) fn front<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, CodecError> {
    let mut reader = Reader { left: bytes, depth: DEPTH, empty: EMPTY };
    let value = T::deserialize(&mut reader)?;
    *bytes = reader.left;
    Ok(value)
}

impl serde::de::Error for CodecError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        CodecError::Invalid(one_line(&message.to_string()))
    }
}

struct Reader<'de> {
    left: &'de [u8],
    depth: usize,
    empty: usize,
}

impl<'de> Reader<'de> {
    fn take(&mut self, needed: usize) -> Result<&'de [u8], CodecError> {
        match self.left.split_at_checked(needed) {
            Some((taken, left)) => {
                self.left = left;
                Ok(taken)
            }
            None => Err(CodecError::Truncated { needed, left: self.left.len() }),
        }
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], CodecError> {
        let needed = N;
        let (taken, left) =
            self.left.split_first_chunk().ok_or(CodecError::Truncated { needed, left: self.left.len() })?;
        self.left = left;
        Ok(*taken)
    }

    /// A length in bytes, all of which must be there.
    fn run(&mut self) -> Result<&'de [u8], CodecError> {
        let claimed = u64::from_le_bytes(self.array()?);
        let left = self.left.len();
        match usize::try_from(claimed) {
            Ok(len) if len <= left => self.take(len),
            _ => Err(CodecError::Length { claimed, left }),
        }
    }

    /// A length in elements: each takes a byte at least, or one of the budget of those that take none.
    fn count(&mut self) -> Result<usize, CodecError> {
        let claimed = u64::from_le_bytes(self.array()?);
        let left = self.left.len();
        match usize::try_from(claimed) {
            Ok(len) if len <= left + self.empty => Ok(len),
            _ => Err(CodecError::Length { claimed, left }),
        }
    }

    fn text(&mut self) -> Result<&'de str, CodecError> {
        std::str::from_utf8(self.run()?).map_err(|error| CodecError::Invalid(format!("text is not UTF-8: {error}")))
    }

    // What isn't generic is a function of its own wherever it can be: the rest is compiled once for each type that is read.

    /// One level deeper. Who succeeds there calls `leave`.
    fn enter(&mut self) -> Result<&mut Self, CodecError> {
        self.depth = self.depth.checked_sub(1).ok_or(CodecError::Depth(DEPTH))?;
        Ok(self)
    }

    fn leave(&mut self) {
        self.depth += 1;
    }

    fn elements(&mut self, len: usize, claimed: bool) -> Result<Elements<'_, 'de>, CodecError> {
        Ok(Elements { reader: self.enter()?, len, claimed })
    }

    fn seq<V: Visitor<'de>>(&mut self, len: usize, claimed: bool, visitor: V) -> Result<V::Value, CodecError> {
        let mut elements = self.elements(len, claimed)?;
        let value = visitor.visit_seq(&mut elements)?;
        elements.whole()?;
        Ok(value)
    }
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident $type:ty),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
            visitor.$visit(<$type>::from_le_bytes(self.array()?))
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Reader<'de> {
    type Error = CodecError;

    numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128, deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
        deserialize_u128 visit_u128 u128, deserialize_f32 visit_f32 f32, deserialize_f64 visit_f64 f64,
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, CodecError> {
        Err(CodecError::Invalid("the type asks what the bytes are, which they don't say".to_owned()))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        self.deserialize_any(visitor)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.array::<1>()? {
            [0] => visitor.visit_bool(false),
            [1] => visitor.visit_bool(true),
            [other] => Err(CodecError::Invalid(format!("a bool is 0 or 1, but {other} came"))),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        let first = *self.left.first().ok_or(CodecError::Truncated { needed: 1, left: 0 })?;
        let len = match first {
            0x00..=0x7f => 1,
            0x80..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xff => 4,
        };
        let bytes = self.take(len)?;
        match std::str::from_utf8(bytes).ok().and_then(|text| text.chars().next()) {
            Some(one) => visitor.visit_char(one),
            None => Err(CodecError::Invalid(format!("a character is UTF-8, but {bytes:02x?} came"))),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_str(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_bytes(self.run()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_borrowed_bytes(self.run()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        match self.array::<1>()? {
            [0] => visitor.visit_none(),
            [1] => {
                let value = visitor.visit_some(self.enter()?)?;
                self.leave();
                Ok(value)
            }
            [other] => Err(CodecError::Invalid(format!("an option is 0 or 1, but {other} came"))),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, CodecError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, CodecError> {
        let value = visitor.visit_newtype_struct(self.enter()?)?;
        self.leave();
        Ok(value)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        let len = self.count()?;
        self.seq(len, true, visitor)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        self.seq(len, false, visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.seq(len, false, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, CodecError> {
        let len = self.count()?;
        let mut elements = self.elements(len, true)?;
        let value = visitor.visit_map(&mut elements)?;
        elements.whole()?;
        Ok(value)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.seq(fields.len(), false, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        let value = visitor.visit_enum(Variant { reader: self.enter()? })?;
        self.leave();
        Ok(value)
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a sequence or the entries of a map.
struct Elements<'a, 'de> {
    reader: &'a mut Reader<'de>,
    len: usize,
    /// Whether the message said how many, rather than the type.
    claimed: bool,
}

impl<'de> Elements<'_, 'de> {
    /// Reads a value that counts as an element: where it takes no bytes, it takes one of the budget.
    fn element<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, CodecError> {
        if self.len == 0 {
            return Ok(None);
        }
        let before = self.reader.left.len();
        let value = seed.deserialize(&mut *self.reader)?;
        self.count(before)?;
        Ok(Some(value))
    }

    /// An element was read where this many bytes were left.
    fn count(&mut self, before: usize) -> Result<(), CodecError> {
        if self.claimed && self.reader.left.len() == before {
            let claimed = self.len as u64;
            self.reader.empty = self.reader.empty.checked_sub(1).ok_or(CodecError::Length { claimed, left: before })?;
        }
        self.len -= 1;
        Ok(())
    }

    /// No more than could be there: what is reserved by this is bounded by the message.
    fn hint(&self) -> usize {
        self.len.min(self.reader.left.len())
    }

    /// A type that stops early would take the rest for something else.
    fn whole(self) -> Result<(), CodecError> {
        match self.len {
            0 => {
                self.reader.leave();
                Ok(())
            }
            left => Err(CodecError::Invalid(format!("the type left {left} elements unread"))),
        }
    }
}

impl<'de> SeqAccess<'de> for &mut Elements<'_, 'de> {
    type Error = CodecError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, CodecError> {
        self.element(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'de> MapAccess<'de> for &mut Elements<'_, 'de> {
    type Error = CodecError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, CodecError> {
        self.element(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, CodecError> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

struct Variant<'a, 'de> {
    reader: &'a mut Reader<'de>,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a, 'de> {
    type Error = CodecError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), CodecError> {
        let index = u32::from_le_bytes(self.reader.array()?);
        let value = seed.deserialize(U32Deserializer::<CodecError>::new(index))?;
        Ok((value, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_, 'de> {
    type Error = CodecError;

    fn unit_variant(self) -> Result<(), CodecError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, CodecError> {
        seed.deserialize(self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, CodecError> {
        self.reader.seq(len, false, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, CodecError> {
        self.reader.seq(fields.len(), false, visitor)
    }
}
