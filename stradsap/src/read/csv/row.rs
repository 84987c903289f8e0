//! A record as serde sees it.

use std::fmt::Display;
use std::str::FromStr;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::columns::{Columns, Way};
use super::record::Record;
use crate::read::text::excerpt;

/// Why a record is no element.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    /// Which field is to blame.
    pub(crate) column: Option<usize>,
    /// A field of the type has no column.
    pub(crate) missing: bool,
    pub(crate) problem: String,
}

impl Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.problem)
    }
}

impl std::error::Error for Fault {}

impl serde::de::Error for Fault {
    fn custom<T: Display>(problem: T) -> Self {
        Fault { problem: problem.to_string(), ..Fault::default() }
    }

    fn missing_field(field: &'static str) -> Self {
        Fault { missing: true, problem: format!("there is no column `{field}`"), ..Fault::default() }
    }
}

/// A record whose fields are taken one by one.
pub(crate) struct Row<'a> {
    record: &'a Record,
    columns: &'a Columns,
    taken: usize,
    /// The field taken last.
    last: Option<usize>,
    /// Whether a single column is asked for.
    one: bool,
}

impl<'a> Row<'a> {
    #[inline]
    pub(crate) fn new(record: &'a Record, columns: &'a Columns) -> Self {
        Row { record, columns, taken: 0, last: None, one: false }
    }

    pub(crate) fn taken(&self) -> usize {
        self.taken
    }

    pub(crate) fn column(&self) -> Option<usize> {
        self.last
    }

    /// The number of the next field, unless all were taken.
    #[inline]
    fn peek(&self) -> Option<usize> {
        let k = match &self.columns.way {
            Way::Order(order) if !self.one => *order.get(self.taken)?,
            _ => self.taken,
        };
        (k < self.record.len()).then_some(k)
    }

    #[inline]
    fn next(&mut self) -> Result<&'a [u8], Fault> {
        let taken = self.peek().and_then(|k| Some((k, self.record.field(k)?)));
        let Some((k, field)) = taken else {
            let problem = format!("the record has {} fields; one more was expected", self.record.len());
            return Err(Fault { problem, ..Fault::default() });
        };
        self.taken += 1;
        self.last = Some(k);
        Ok(field)
    }

    /// What is said of the field taken last.
    #[cold]
    fn unexpected(&self, found: &[u8], expected: impl Display) -> Fault {
        let names = self.columns.names.as_ref();
        let which = match (self.last, self.last.and_then(|k| names?.get(k))) {
            (_, Some(name)) => format!("`{name}`"),
            (k, None) => format!("field {}", k.unwrap_or(0) + 1),
        };
        let problem = format!("{which} is {}; {expected} was expected", excerpt(found));
        Fault { column: self.last, problem, ..Fault::default() }
    }

    /// The next field as it stands, with blanks that are between quotes.
    #[inline]
    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let field = self.next()?;
        Ok(self.last.and_then(|k| self.record.text(k)).unwrap_or(field))
    }

    #[inline]
    fn text(&mut self) -> Result<&'a str, Fault> {
        let field = self.bytes()?;
        self.utf8(field)
    }

    #[inline]
    fn utf8(&self, field: &'a [u8]) -> Result<&'a str, Fault> {
        std::str::from_utf8(field).map_err(|_| self.unexpected(field, "UTF-8 text"))
    }

    #[inline]
    fn number<N: FromStr>(&mut self, expected: impl Fn() -> String) -> Result<N, Fault> {
        let field = self.next()?;
        let number = std::str::from_utf8(field).ok().and_then(|text| text.parse().ok());
        number.ok_or_else(|| self.unexpected(field, expected()))
    }

    /// Within a single column there are no more.
    fn compound(&self, what: &str) -> Result<(), Fault> {
        if self.one {
            let problem = format!("a column holds one value; {what} can't be in it");
            return Err(Fault { column: self.last, problem, ..Fault::default() });
        }
        Ok(())
    }
}

macro_rules! whole_numbers {
    ($($deserialize:ident $visit:ident $number:ty;)*) => {$(
        #[inline]
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
            let expected = || format!("a whole number from {} to {}", <$number>::MIN, <$number>::MAX);
            visitor.$visit(self.number::<$number>(expected)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for &mut Row<'_> {
    type Error = Fault;

    /// What a field looks like: a number, or text.
    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.text()?;
        let plain = text.trim_ascii();
        match plain {
            "true" => return visitor.visit_bool(true),
            "false" => return visitor.visit_bool(false),
            _ => {}
        }
        if let Ok(number) = plain.parse() {
            visitor.visit_u64(number)
        } else if let Ok(number) = plain.parse() {
            visitor.visit_i64(number)
        } else if let Ok(number) = plain.parse() {
            visitor.visit_f64(number)
        } else {
            visitor.visit_str(text)
        }
    }

    whole_numbers! {
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
    }

    #[inline]
    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f32(self.number(|| "a number".to_string())?)
    }

    #[inline]
    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_f64(self.number(|| "a number".to_string())?)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.next()? {
            b"true" | b"1" => visitor.visit_bool(true),
            b"false" | b"0" => visitor.visit_bool(false),
            other => Err(self.unexpected(other, "true, false, 1 or 0")),
        }
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let text = self.text()?;
        let mut letters = text.chars();
        match (letters.next(), letters.next()) {
            (Some(letter), None) => visitor.visit_char(letter),
            _ => Err(self.unexpected(text.as_bytes(), "a single character")),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_bytes<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bytes(self.bytes()?)
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_bytes(self.bytes()?)
    }

    /// An empty field is none.
    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.peek().and_then(|k| self.record.field(k)) {
            None | Some([]) => {
                if self.peek().is_some() {
                    self.next()?;
                }
                visitor.visit_none()
            }
            Some(_) => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.next()? {
            [] => visitor.visit_unit(),
            other => Err(self.unexpected(other, "an empty field")),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_unit(visitor)
    }

    #[inline]
    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.compound("a list")?;
        visitor.visit_seq(Sequence { row: self, left: usize::MAX })
    }

    #[inline]
    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, Fault> {
        self.compound("a list")?;
        visitor.visit_seq(Sequence { row: self, left: len })
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.deserialize_tuple(len, visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.compound("a map")?;
        match &self.columns.names {
            Some(names) => visitor.visit_map(Named { row: self, names, k: 0 }),
            None => Err(serde::de::Error::custom("a file without a header has no names for a map's values")),
        }
    }

    #[inline]
    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        self.compound("a struct")?;
        match (&self.columns.way, &self.columns.names) {
            (Way::Named, Some(names)) => visitor.visit_map(Named { row: self, names, k: 0 }),
            _ => visitor.visit_seq(Sequence { row: self, left: fields.len() }),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        let field = self.next()?;
        let text = self.utf8(field)?;
        if !variants.contains(&text) {
            return Err(self.unexpected(text.as_bytes(), format_args!("one of {}", variants.join(", "))));
        }
        visitor.visit_enum(Name(text))
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.deserialize_str(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        self.next()?;
        visitor.visit_unit()
    }
}

/// The next fields, this many.
struct Sequence<'r, 'a> {
    row: &'r mut Row<'a>,
    left: usize,
}

impl<'de> SeqAccess<'de> for Sequence<'_, '_> {
    type Error = Fault;

    #[inline]
    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        if self.left == 0 || self.row.peek().is_none() {
            return Ok(None);
        }
        self.left -= 1;
        seed.deserialize(&mut *self.row).map(Some)
    }
}

/// All columns, each with its name.
struct Named<'r, 'a> {
    row: &'r mut Row<'a>,
    names: &'r [String],
    k: usize,
}

impl<'de> MapAccess<'de> for Named<'_, '_> {
    type Error = Fault;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Fault> {
        let Some(name) = self.names.get(self.k) else { return Ok(None) };
        self.row.last = Some(self.k);
        seed.deserialize(StrDeserializer::new(name)).map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Fault> {
        self.row.taken = self.k;
        self.row.one = true;
        self.k += 1;
        let value = seed.deserialize(&mut *self.row);
        self.row.one = false;
        value
    }
}

/// A variant without fields.
struct Name<'t>(&'t str);

impl<'de> EnumAccess<'de> for Name<'_> {
    type Error = Fault;
    type Variant = Self;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self), Fault> {
        Ok((seed.deserialize(StrDeserializer::<Fault>::new(self.0))?, self))
    }
}

impl<'de> VariantAccess<'de> for Name<'_> {
    type Error = Fault;

    fn unit_variant(self) -> Result<(), Fault> {
        Ok(())
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, _: S) -> Result<S::Value, Fault> {
        Err(no_room(self.0))
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, _: V) -> Result<V::Value, Fault> {
        Err(no_room(self.0))
    }

    fn struct_variant<V: Visitor<'de>>(self, _: &'static [&'static str], _: V) -> Result<V::Value, Fault> {
        Err(no_room(self.0))
    }
}

fn no_room(variant: &str) -> Fault {
    serde::de::Error::custom(format_args!("variant `{variant}` has values of its own; a column holds one value"))
}
