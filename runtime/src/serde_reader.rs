//! A serde format that is only read: bincode 2 with fixed-size integers, as `codec` writes it.
//!
//! Integers and floats lie in little-endian order, lengths as 64 bits before texts, sequences and maps, the number of
//! a variant as 32 bits, a `char` as its UTF-8. Structs, tuples and units have nothing around them.

use serde::de::value::U32Deserializer;
use serde::de::{
    DeserializeSeed, Deserializer, EnumAccess, Error, IntoDeserializer, MapAccess, SeqAccess, VariantAccess, Visitor,
};

use crate::decode::{DecodeError, check_claim, deeper, take, take_array};
use crate::element::{decode_str, flag};

/// Takes values off the front of bytes.
pub(crate) struct SerdeReader<'r, 'de> {
    bytes: &'r mut &'de [u8],
}

impl<'r, 'de> SerdeReader<'r, 'de> {
    pub(crate) fn new(bytes: &'r mut &'de [u8]) -> Self {
        SerdeReader { bytes }
    }

    fn len(&mut self) -> Result<usize, DecodeError> {
        let len = u64::from_le_bytes(take_array(self.bytes, "a length")?);
        let too_long = DecodeError::Length { of: "bytes", len: usize::MAX, left: self.bytes.len() };
        usize::try_from(len).map_err(|_| too_long)
    }

    /// The length of a sequence or map, whose entries may encode to nothing.
    fn claim(&mut self, of: &'static str) -> Result<usize, DecodeError> {
        let len = self.len()?;
        check_claim(len, self.bytes, of)?;
        Ok(len)
    }
}

impl serde::de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        DecodeError::Serde { message: message.to_string() }
    }
}

/// What needs to know how the value was written, which the bytes don't say.
fn names_nothing(what: &str) -> DecodeError {
    DecodeError::custom(format_args!("{what} needs a format that says what comes next, which this one doesn't"))
}

macro_rules! numbers {
    ($($deserialize:ident $visit:ident $t:ident)*) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            visitor.$visit($t::from_le_bytes(take_array(self.bytes, stringify!($t))?))
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut SerdeReader<'_, 'de> {
    type Error = DecodeError;

    numbers! {
        deserialize_i8 visit_i8 i8
        deserialize_i16 visit_i16 i16
        deserialize_i32 visit_i32 i32
        deserialize_i64 visit_i64 i64
        deserialize_i128 visit_i128 i128
        deserialize_u8 visit_u8 u8
        deserialize_u16 visit_u16 u16
        deserialize_u32 visit_u32 u32
        deserialize_u64 visit_u64 u64
        deserialize_u128 visit_u128 u128
        deserialize_f32 visit_f32 f32
        deserialize_f64 visit_f64 f64
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_bool(flag(self.bytes, "bool")?)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let first = *self.bytes.first().ok_or(DecodeError::Truncated { of: "char", needed: 1, left: 0 })?;
        let width = match first {
            0..0x80 => 1,
            0x80..0xe0 => 2,
            0xe0..0xf0 => 3,
            _ => 4,
        };
        let mut text = decode_str(self.bytes, width)?.chars();
        match (text.next(), text.next()) {
            (Some(c), None) => visitor.visit_char(c),
            _ => Err(DecodeError::Invalid { of: "char", found: first.into(), expected: "UTF-8" }),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let len = self.len()?;
        visitor.visit_borrowed_str(decode_str(self.bytes, len)?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let len = self.len()?;
        visitor.visit_borrowed_bytes(take(self.bytes, len, "bytes")?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_bytes(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        if !flag(self.bytes, "Option")? {
            return visitor.visit_none();
        }
        let _level = deeper()?;
        visitor.visit_some(self)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let left = self.claim("a sequence's elements")?;
        let _level = deeper()?;
        visitor.visit_seq(Entries { reader: self, left })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        let left = self.claim("a map's entries")?;
        let _level = deeper()?;
        visitor.visit_map(Entries { reader: self, left })
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_seq(Entries { reader: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_tuple(fields.len(), visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        let _level = deeper()?;
        visitor.visit_enum(self)
    }

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, DecodeError> {
        Err(names_nothing("`deserialize_any`"))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, DecodeError> {
        Err(names_nothing("`deserialize_identifier`"))
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, DecodeError> {
        Err(names_nothing("`deserialize_ignored_any`"))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// The elements of a sequence, the fields of a struct, or the entries of a map.
struct Entries<'a, 'r, 'de> {
    reader: &'a mut SerdeReader<'r, 'de>,
    left: usize,
}

impl<'de> Entries<'_, '_, 'de> {
    fn next<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        if self.left == 0 {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    /// Who makes room in advance shall have bytes for it.
    fn hint(&self) -> usize {
        self.left.min(self.reader.bytes.len())
    }
}

impl<'de> SeqAccess<'de> for Entries<'_, '_, 'de> {
    type Error = DecodeError;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        self.next(seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'de> MapAccess<'de> for Entries<'_, '_, 'de> {
    type Error = DecodeError;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, DecodeError> {
        self.next(seed)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, DecodeError> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.hint())
    }
}

impl<'de> EnumAccess<'de> for &mut SerdeReader<'_, 'de> {
    type Error = DecodeError;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), DecodeError> {
        let number = u32::from_le_bytes(take_array(self.bytes, "a variant's number")?);
        let variant: U32Deserializer<DecodeError> = number.into_deserializer();
        Ok((seed.deserialize(variant)?, self))
    }
}

impl<'de> VariantAccess<'de> for &mut SerdeReader<'_, 'de> {
    type Error = DecodeError;

    fn unit_variant(self) -> Result<(), DecodeError> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, DecodeError> {
        seed.deserialize(self)
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_tuple(len, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_tuple(fields.len(), visitor)
    }
}
