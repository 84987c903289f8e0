//! Columns of Parquet files.

use std::marker::PhantomData;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use serde::de::value::{MapDeserializer, SeqDeserializer, StrDeserializer};
use serde::de::{DeserializeOwned, Deserializer, Error as _, IntoDeserializer, Visitor};
use serde::{Deserialize, Serialize};
use stradsap_runtime::private::Source;

use super::csv::{Fault, fields};
use super::source::{Input, resolve};
use super::whole::{Place, read_by_workers};
use crate::{DVector, Element, Error, Result, Session, files};

/// The records of one row group.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Group {
    file: usize,
    number: usize,
    /// How many records the file has before.
    before: u64,
}

type Chunk<T> = (usize, Result<Vec<T>>);

/// Reads row groups.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
struct Groups<T> {
    places: Vec<Place>,
    groups: Vec<Group>,
    record: PhantomData<fn() -> T>,
}

impl<T: Element + DeserializeOwned> Source for Groups<T> {
    type Item = T;
    const LASTS: bool = false;

    fn make(&self, piece: usize, items: &mut Vec<T>) -> std::result::Result<(), String> {
        let group = &self.groups[piece];
        let read = records(&self.places[group.file].input()?, group);
        items.append(&mut read.map_err(|error| error.to_string())?);
        Ok(())
    }
}

pub(super) fn read<T: Element + DeserializeOwned>(session: &Session, path: &Path) -> Result<DVector<T>> {
    let inputs = resolve(path)?;
    let mut groups = Vec::new();
    for (file, input) in inputs.iter().enumerate() {
        let reader = open(input)?;
        let mut before = 0;
        for number in 0..reader.num_row_groups() {
            groups.push(Group { file, number, before });
            before += u64::try_from(reader.metadata().row_group(number).num_rows()).unwrap_or(0);
        }
    }
    if let Some(places) = inputs.iter().map(Place::of).collect::<Option<_>>() {
        let source = Groups { places, groups: groups.clone(), record: PhantomData };
        let site = format!("reading {}", files::shown(path));
        if let Some(read) = read_by_workers(session, &site, groups.len(), &source)? {
            return Ok(read);
        }
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
    let chunks: Mutex<Vec<Chunk<T>>> = Mutex::default();
    session.everywhere(session.threads().min(groups.len()), || {
        loop {
            let k = next.fetch_add(1, Relaxed);
            // Groups before one that failed are read nonetheless: only the first error is reported.
            let Some(group) = groups.get(k).filter(|_| k < failed.load(Relaxed)) else { break };
            let chunk = records(&inputs[group.file], group);
            if chunk.is_err() {
                failed.fetch_min(k, Relaxed);
            }
            chunks.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((k, chunk));
        }
    })?;
    let mut chunks = chunks.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    chunks.sort_unstable_by_key(|(k, _)| *k);
    DVector::from_chunks(session, chunks.into_iter().map(|(_, chunk)| chunk).collect::<Result<_>>()?)
}

fn open(input: &Input) -> Result<Box<dyn FileReader>> {
    let failed = |error: ParquetError| input.error(std::io::Error::other(error));
    if input.is_local() {
        let file = crate::files::open_regular(&input.path).map_err(|source| input.error(source))?;
        return Ok(Box::new(SerializedFileReader::new(file).map_err(failed)?));
    }
    let mut bytes = Vec::new();
    input.open()?.read_to_end(&mut bytes).map_err(|source| input.error(source))?;
    Ok(Box::new(SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(failed)?))
}

fn records<T: Element + DeserializeOwned>(input: &Input, group: &Group) -> Result<Vec<T>> {
    let reader = open(input)?;
    let failed = |error: ParquetError| input.error(std::io::Error::other(error));
    let rows = reader.get_row_group(group.number).map_err(failed)?;
    let projection = projection::<T>(reader.metadata().file_metadata().schema()).map_err(failed)?;
    let mut records = Vec::new();
    for (k, row) in rows.get_row_iter(projection).map_err(failed)?.enumerate() {
        let row = row.map_err(failed)?;
        records.push(T::deserialize(Record(&row)).map_err(|fault| {
            let line = group.before + k as u64 + 1;
            Error::Input { path: input.path.clone(), line, column: None, problem: fault.problem }
        })?);
    }
    Ok(records)
}

/// The columns that a struct has fields for; all of them for other types.
fn projection<T: DeserializeOwned>(schema: &Type) -> Result<Option<Type>, ParquetError> {
    let Some(wanted) = fields::<T>() else { return Ok(None) };
    let columns = schema.get_fields().iter().filter(|column| wanted.contains(&column.name())).cloned().collect();
    Type::group_type_builder(schema.name()).with_fields(columns).build().map(Some)
}

/// A record with the names of its columns.
struct Record<'a>(&'a Row);

impl<'de> Deserializer<'de> for Record<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_map(named(self.0))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Fault> {
        let mut columns = self.0.get_column_iter();
        visitor
            .visit_seq(SeqDeserializer::new(std::iter::from_fn(|| Some(Value { name: "", field: columns.next()?.1 }))))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple_struct map struct enum identifier ignored_any
    }
}

fn named<'de>(row: &Row) -> impl serde::de::MapAccess<'de, Error = Fault> {
    MapDeserializer::new(row.get_column_iter().map(|(name, field)| (name.as_str(), Value { name, field })))
}

/// A value in a column.
#[derive(Clone, Copy)]
struct Value<'a> {
    name: &'a str,
    field: &'a Field,
}

impl IntoDeserializer<'_, Fault> for Value<'_> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

impl<'de> Deserializer<'de> for Value<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        let name = self.name;
        let value = match self.field {
            Field::Null => visitor.visit_unit(),
            Field::Bool(value) => visitor.visit_bool(*value),
            Field::Byte(value) => visitor.visit_i8(*value),
            Field::Short(value) => visitor.visit_i16(*value),
            Field::Int(value) | Field::Date(value) | Field::TimeMillis(value) => visitor.visit_i32(*value),
            Field::Long(value)
            | Field::TimeMicros(value)
            | Field::TimestampMillis(value)
            | Field::TimestampMicros(value) => visitor.visit_i64(*value),
            Field::UByte(value) => visitor.visit_u8(*value),
            Field::UShort(value) => visitor.visit_u16(*value),
            Field::UInt(value) => visitor.visit_u32(*value),
            Field::ULong(value) => visitor.visit_u64(*value),
            Field::Float16(value) => visitor.visit_f32(value.to_f32()),
            Field::Float(value) => visitor.visit_f32(*value),
            Field::Double(value) => visitor.visit_f64(*value),
            Field::Str(value) => visitor.visit_str(value),
            Field::Bytes(value) => visitor.visit_bytes(value.data()),
            Field::Group(row) => visitor.visit_map(named(row)),
            Field::ListInternal(list) => {
                visitor.visit_seq(SeqDeserializer::new(list.elements().iter().map(|field| Value { name, field })))
            }
            other => Err(Fault::custom(format_args!("{other} is of a kind that isn't read"))),
        };
        value.map_err(|mut fault: Fault| {
            if !name.is_empty() && !fault.problem.starts_with('`') {
                fault.problem = format!("`{name}`: {}", fault.problem);
            }
            fault
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Fault> {
        match self.field {
            Field::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Fault> {
        match self.field {
            Field::Str(text) => StrDeserializer::new(text).deserialize_enum(name, variants, visitor),
            other => Err(Fault::custom(format_args!("`{}` is {other}; a variant's name was expected", self.name))),
        }
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parquet::data_type::{ByteArray, ByteArrayType, FloatType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    use super::*;

    #[derive(Clone, Debug, PartialEq, Element, serde::Deserialize)]
    struct Rating {
        name: String,
        user: u32,
        stars: Option<f32>,
    }

    /// A file of two row groups; every third rating has no stars.
    fn write(path: &Path, users: &[i64]) {
        let schema =
            "message m { required int64 user; optional float stars; required binary name (utf8); required int32 x; }";
        let schema = Arc::new(parse_message_type(schema).unwrap());
        let file = std::fs::File::create(path).unwrap();
        let mut writer = SerializedFileWriter::new(file, schema, Arc::new(WriterProperties::default())).unwrap();
        for users in users.chunks(users.len().div_ceil(2).max(1)) {
            let mut group = writer.next_row_group().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int64Type>().write_batch(users, None, None).unwrap();
            column.close().unwrap();
            let stars: Vec<f32> = users.iter().filter(|user| *user % 3 > 0).map(|user| *user as f32 / 2.0).collect();
            let levels: Vec<i16> = users.iter().map(|user| i16::from(user % 3 > 0)).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<FloatType>().write_batch(&stars, Some(&levels), None).unwrap();
            column.close().unwrap();
            let names: Vec<ByteArray> =
                users.iter().map(|user| ByteArray::from(format!("n{user}").into_bytes())).collect();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<ByteArrayType>().write_batch(&names, None, None).unwrap();
            column.close().unwrap();
            let mut column = group.next_column().unwrap().unwrap();
            column.typed::<Int32Type>().write_batch(&vec![7; users.len()], None, None).unwrap();
            column.close().unwrap();
            group.close().unwrap();
        }
        writer.close().unwrap();
    }

    #[test]
    fn columns_are_matched_by_name() {
        let folder = tempfile::tempdir().unwrap();
        let users: Vec<i64> = (0..1000).collect();
        write(&folder.path().join("a.parquet"), &users);
        write(&folder.path().join("b.parquet"), &[5]);
        let want: Vec<Rating> = users
            .iter()
            .chain(&[5])
            .map(|user| Rating {
                name: format!("n{user}"),
                user: *user as u32,
                stars: (user % 3 > 0).then_some(*user as f32 / 2.0),
            })
            .collect();
        for threads in [1, 3] {
            let session = Session::builder().threads(threads).build().unwrap();
            let read = super::read::<Rating>(&session, &folder.path().join("*.parquet")).unwrap();
            assert_eq!(read.to_vec().unwrap(), want);
            let tuples = super::read::<(u32, Option<f32>, String, i8)>(&session, &folder.path().join("b.parquet"));
            assert_eq!(tuples.unwrap().to_vec().unwrap(), [(5, Some(2.5), "n5".to_string(), 7)]);
        }
    }

    #[derive(Clone, Debug, Element, serde::Deserialize)]
    struct Other {
        #[allow(dead_code, reason = "only asked for")]
        item: u32,
    }

    #[test]
    fn errors_name_the_record() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let mut users: Vec<i64> = (0..100).collect();
        (users[70], users[90]) = (-3, -4);
        write(&path, &users);
        for threads in [1, 3] {
            let session = Session::builder().threads(threads).build().unwrap();
            let text = |error: Error| error.to_string().replace(&format!("{}/", folder.path().display()), "");
            let bad = text(super::read::<Rating>(&session, &path).unwrap_err());
            assert!(bad.starts_with("a.parquet:71: `user`: invalid value: integer `-3`, expected u32"), "{bad}");
            let missing = text(super::read::<Other>(&session, &path).unwrap_err());
            assert!(missing.starts_with("a.parquet:1: there is no column `item`"), "{missing}");
            std::fs::write(folder.path().join("b.parquet"), "PAR1 and no more").unwrap();
            let broken = text(super::read::<Rating>(&session, &folder.path().join("b.parquet")).unwrap_err());
            assert!(broken.starts_with("b.parquet: "), "{broken}");
        }
    }
}
