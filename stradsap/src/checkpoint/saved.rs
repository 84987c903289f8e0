//! What a checkpoint can hold, as named sections of encoded elements.

use std::any::type_name;

use super::Checkpoint;
use super::folder::bad;
use super::manifest::{Entry, Section, manifest_name};
use crate::__private::{
    decode_vec, encode_elements, encode_entries, encode_rows, version_of, version_of_map, version_of_rows,
};
use crate::{DMap, DMatrix, DMultiMap, DVector, Element, Error, Key, Result, Session};

/// What a checkpoint can hold: a [`DVector`], a [`DMatrix`], a [`DMap`] or a [`DMultiMap`].
pub trait Saved: sealed::Saved {}

impl<T: Element> Saved for DVector<T> {}
impl<T: Element> Saved for DMatrix<T> {}
impl<K: Key, V: Element> Saved for DMap<K, V> {}
impl<K: Key, V: Element> Saved for DMultiMap<K, V> {}

pub(super) mod sealed {
    use crate::Result;

    pub trait Saved {
        /// What it is, in the manifest.
        fn kind(&self) -> &'static str;

        /// Its sections, each of which has a file of its own and is written again only if it changed.
        fn sections(&self) -> Vec<Section<'_>>;
    }

    /// A run of elements.
    pub struct Section<'s> {
        pub(crate) name: &'static str,
        pub(crate) type_name: &'static str,
        /// The size of an element where all have the same, and are their memory.
        pub(crate) element_bytes: Option<usize>,
        pub(crate) elements: usize,
        /// A number that no other contents of this process have; without one it is always written.
        pub(crate) version: Option<u64>,
        /// Writes the bytes of all elements in place of what the vector holds.
        pub(crate) encode: Encode<'s>,
    }

    pub(crate) type Encode<'s> = Box<dyn FnOnce(&mut Vec<u8>) -> Result<()> + 's>;
}

pub(super) const VECTOR: &str = "vector";
/// How many elements there may be.
const MOST: usize = i32::MAX as usize;
/// A vector's only section.
const ELEMENTS: &str = "elements";
pub(super) const MAP: &str = "map";
/// A map's only section: keys and values in turn, in the map's order.
const ENTRIES: &str = "entries";

fn element_bytes<T: Element>() -> Option<usize> {
    T::PLAIN.then_some(size_of::<T>())
}

impl<T: Element> sealed::Saved for DVector<T> {
    fn kind(&self) -> &'static str {
        VECTOR
    }

    fn sections(&self) -> Vec<sealed::Section<'_>> {
        vec![sealed::Section {
            name: ELEMENTS,
            type_name: type_name::<T>(),
            element_bytes: element_bytes::<T>(),
            elements: self.len(),
            version: Some(version_of(self)),
            encode: Box::new(|bytes| encode_elements(self, bytes)),
        }]
    }
}

/// As a vector of arrays is saved.
impl<T: Element> sealed::Saved for DMatrix<T> {
    fn kind(&self) -> &'static str {
        VECTOR
    }

    fn sections(&self) -> Vec<sealed::Section<'_>> {
        vec![sealed::Section {
            name: ELEMENTS,
            type_name: type_name::<[T]>(),
            element_bytes: Some(self.width() * size_of::<T>()),
            elements: self.len(),
            version: Some(version_of_rows(self)),
            encode: Box::new(|bytes| encode_rows(self, bytes)),
        }]
    }
}

impl<K: Key, V: Element> sealed::Saved for DMap<K, V> {
    fn kind(&self) -> &'static str {
        MAP
    }

    fn sections(&self) -> Vec<sealed::Section<'_>> {
        // Entries that can't be counted now can't be encoded either, and that is the error to report.
        let elements = self.len().unwrap_or(0);
        vec![sealed::Section {
            name: ENTRIES,
            type_name: type_name::<(K, V)>(),
            element_bytes: None,
            elements,
            version: Some(version_of_map(self)),
            encode: Box::new(move |bytes| match encode_entries(self, bytes)? {
                written if written == elements => Ok(()),
                written => {
                    Err(Error::usage(format!("a map of {elements} entries had {written} when it was to be saved")))
                }
            }),
        }]
    }
}

impl<K: Key, V: Element> sealed::Saved for DMultiMap<K, V> {
    fn kind(&self) -> &'static str {
        MAP
    }

    fn sections(&self) -> Vec<sealed::Section<'_>> {
        sealed::Saved::sections(self.as_map())
    }
}

/// Reads a map back.
pub(super) fn load_map<K: Key, V: Element>(
    checkpoint: &Checkpoint,
    session: &Session,
    name: &str,
) -> Result<DMap<K, V>> {
    let map = DMap::from_entries(session, elements::<(K, V)>(checkpoint, name, MAP, ENTRIES)?)?;
    checkpoint.record_loaded(version_of_map(&map), name, ENTRIES);
    Ok(map)
}

/// Reads a vector back.
pub(super) fn load<T: Element>(checkpoint: &Checkpoint, session: &Session, name: &str) -> Result<DVector<T>> {
    let vector = DVector::from_vec(session, elements(checkpoint, name, VECTOR, ELEMENTS)?);
    let vector = vector.map_err(|error| match error {
        Error::TooLong { .. } => bad(checkpoint.path(), format!("the vector `{name}`: {error}")),
        error => error,
    })?;
    // It is on the disk as it is.
    checkpoint.record_loaded(version_of(&vector), name, ELEMENTS);
    Ok(vector)
}

/// Reads a matrix back.
pub(super) fn load_matrix<T: Element>(checkpoint: &Checkpoint, session: &Session, name: &str) -> Result<DMatrix<T>> {
    let section = section_of(checkpoint, name, VECTOR, ELEMENTS)?;
    let other = |problem: String| bad(checkpoint.path(), format!("the vector `{name}` has other elements: {problem}"));
    let size = size_of::<T>().max(1) as u64;
    let Some(bytes) = section.element_bytes.filter(|bytes| *bytes > 0 && bytes % size == 0) else {
        let found = shown(section.element_bytes);
        return Err(other(format!("{found}, and rows of plain ones of {size} bytes were expected")));
    };
    if bytes.checked_mul(section.elements) != Some(section.data.bytes) {
        return Err(other(format!("{} of them do not take {} bytes", section.elements, section.data.bytes)));
    }
    let data = checkpoint.folder().read_data(&section.data, &held(checkpoint, name))?;
    let read = decode_vec(data.len() / size_of::<T>().max(1), &mut &data[..]);
    let numbers: Vec<T> = read.map_err(|error| other(error.to_string()))?;
    drop(data);
    let width = usize::try_from(bytes / size).map_err(|error| other(error.to_string()))?;
    let matrix = DMatrix::from_vec(session, width, numbers).map_err(|error| other(error.to_string()))?;
    checkpoint.record_loaded(version_of_rows(&matrix), name, ELEMENTS);
    Ok(matrix)
}

/// Of what size elements are.
fn shown(size: Option<u64>) -> String {
    match size {
        Some(size) => format!("plain ones of {size} bytes"),
        None => "ones that are not plain".to_owned(),
    }
}

/// What is read, in messages.
fn held(checkpoint: &Checkpoint, name: &str) -> String {
    format!("`{name}` of {}", manifest_name(checkpoint.manifest().step))
}

fn section_of<'c>(checkpoint: &'c Checkpoint, name: &str, kind: &str, section: &str) -> Result<&'c Section> {
    let manifest = checkpoint.manifest();
    let of_kind = |entry: &&Entry| entry.kind == kind;
    let entry = manifest.vectors.iter().filter(of_kind).find(|entry| entry.name == name);
    let entry = entry.and_then(|entry| entry.sections.iter().find(|found| found.name == section));
    let Some(entry) = entry else {
        let names: Vec<_> = manifest.vectors.iter().filter(of_kind).map(|entry| format!("`{}`", entry.name)).collect();
        let held = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(bad(checkpoint.path(), format!("it holds no {kind} `{name}`; it holds {held}")));
    };
    Ok(entry)
}

/// The elements of a section.
pub(super) fn elements<T: Element>(checkpoint: &Checkpoint, name: &str, kind: &str, section: &str) -> Result<Vec<T>> {
    let entry = section_of(checkpoint, name, kind, section)?;
    let other = |problem: String| bad(checkpoint.path(), format!("the {kind} `{name}` has other elements: {problem}"));
    let expected = element_bytes::<T>().map(|size| size as u64);
    if entry.element_bytes != expected {
        return Err(other(format!("{}, and {} were expected", shown(entry.element_bytes), shown(expected))));
    }
    if expected.is_some_and(|size| size.checked_mul(entry.elements) != Some(entry.data.bytes)) {
        return Err(other(format!("{} of them do not take {} bytes", entry.elements, entry.data.bytes)));
    }
    let bytes = checkpoint.folder().read_data(&entry.data, &held(checkpoint, name))?;
    let mut rest = &bytes[..];
    // Elements that take no bytes could be any number of them.
    let count = usize::try_from(entry.elements).ok().filter(|&count| count <= MOST);
    let count = count.ok_or_else(|| other(format!("{} are too many: at most {MOST}", entry.elements)))?;
    // Not more room than there are bytes for: a length is a claim.
    let mut elements = Vec::with_capacity(if size_of::<T>() == 0 { 0 } else { count.min(bytes.len()) });
    for i in 0..count {
        elements.push(T::decode(&mut rest).map_err(|error| other(format!("element {i}: {error}")))?);
    }
    if !rest.is_empty() {
        return Err(other(format!("{} bytes follow the last", rest.len())));
    }
    Ok(elements)
}
