//! Which column belongs to which field of a type, found once a file.

use std::cell::Cell;

use serde::de::{DeserializeOwned, Deserializer, Visitor};
use serde::{Deserialize, Serialize};

use super::record::Record;
use super::row::{Fault, Row};
use crate::Element;

/// How records become elements.
#[derive(Serialize, Deserialize)]
pub(crate) struct Columns {
    pub(crate) names: Option<Vec<String>>,
    /// How many fields each record has.
    pub(crate) width: usize,
    pub(crate) way: Way,
}

/// How a struct's fields find theirs.
#[derive(Serialize, Deserialize)]
pub(crate) enum Way {
    /// Each record offers all its columns by their names, which is right for every type.
    Named,
    /// The struct takes the columns of these numbers in its own order, without a look at names.
    Order(Vec<usize>),
    /// All columns as they come.
    Position,
}

impl Columns {
    /// The columns of a file with this header, looked at with its first record.
    pub(crate) fn named<T: Element + DeserializeOwned>(
        names: Vec<String>,
        first: Option<&Record>,
    ) -> Result<Self, Fault> {
        let width = names.len();
        let mut columns = Columns { names: Some(names), width, way: Way::Named };
        let Some(first) = first.filter(|first| first.len() == width) else { return Ok(columns) };
        match columns.element::<T>(first) {
            Ok(element) => {
                if let Some(order) = columns.order::<T>() {
                    columns.way = Way::Order(order);
                    if !columns.gives(first, &element) {
                        columns.way = Way::Named;
                    }
                }
                Ok(columns)
            }
            Err(fault) if fault.missing => Err(fault),
            // The record is at fault, not its file: it is met again, where its place is known.
            Err(_) => Ok(columns),
        }
    }

    pub(crate) fn positional(width: usize) -> Self {
        Columns { names: None, width, way: Way::Position }
    }

    #[inline]
    pub(crate) fn element<T: DeserializeOwned>(&self, record: &Record) -> Result<T, Fault> {
        let mut row = Row::new(record, self);
        T::deserialize(&mut row).map_err(|mut fault| {
            fault.column = fault.column.or(row.column());
            fault
        })
    }

    /// The number of each field's column, where fields have one each.
    fn order<T: DeserializeOwned>(&self) -> Option<Vec<usize>> {
        let names = self.names.as_ref()?;
        let column = |field: &&str| {
            let mut found = names.iter().enumerate().filter(|(_, name)| name == field).map(|(k, _)| k);
            found.next().filter(|_| found.next().is_none())
        };
        fields::<T>()?.iter().map(column).collect()
    }

    /// Whether a record gives this same element, and every listed column has a part in it. Types may do as they like: ones
    /// with aliases list more names than they have fields.
    fn gives<T: Element + DeserializeOwned>(&self, record: &Record, element: &T) -> bool {
        let mut row = Row::new(record, self);
        let Ok(other) = T::deserialize(&mut row) else { return false };
        let Way::Order(order) = &self.way else { return false };
        let (mut bytes, mut others) = (Vec::new(), Vec::new());
        element.encode(&mut bytes);
        other.encode(&mut others);
        row.taken() == order.len() && bytes == others
    }
}

/// The names of a struct's fields.
pub(crate) fn fields<T: DeserializeOwned>() -> Option<&'static [&'static str]> {
    let found = Cell::new(None);
    // It always fails: names are all that was asked for.
    let _ = T::deserialize(Probe(&found));
    found.get()
}

struct Probe<'p>(&'p Cell<Option<&'static [&'static str]>>);

impl<'de> Deserializer<'de> for Probe<'_> {
    type Error = Fault;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Fault> {
        Err(Fault::default())
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        _: V,
    ) -> Result<V::Value, Fault> {
        self.0.set(Some(fields));
        Err(Fault::default())
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(self, _: &'static str, visitor: V) -> Result<V::Value, Fault> {
        visitor.visit_newtype_struct(self)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct seq
        tuple tuple_struct map enum identifier ignored_any
    }
}
