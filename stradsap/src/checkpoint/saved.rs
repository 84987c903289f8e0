//! What a checkpoint can hold, as named sections of encoded elements.

use std::any::type_name;
use std::ops::Range;

use super::Checkpoint;
use super::away::{Put, Writing};
use super::folder::bad;
use super::manifest::{Entry, Section, manifest_name};
use super::stored::Stored;
use crate::__private::{
    Whereabouts, born, born_rows, each_element, each_entry, each_row, encode_slice, is_apart, taken, taken_rows,
    version_of, version_of_map, version_of_rows, whereabouts, whereabouts_of_map, whereabouts_of_rows,
};
use crate::{BatchProblem, DMap, DMatrix, DMultiMap, DVector, Element, Error, Key, Result, Session};

/// What a checkpoint can hold: a [`DVector`], a [`DMatrix`], a [`DMap`] or a [`DMultiMap`].
pub trait Saved: sealed::Saved {}

impl<T: Element> Saved for DVector<T> {}
impl<T: Element> Saved for DMatrix<T> {}
impl<K: Key, V: Element> Saved for DMap<K, V> {}
impl<K: Key, V: Element> Saved for DMultiMap<K, V> {}

pub(super) mod sealed {
    use crate::__private::Whereabouts;
    use crate::Result;
    use crate::checkpoint::away::{Put, Writing};

    pub trait Saved {
        /// What it is, in the manifest.
        fn kind(&self) -> &'static str;

        /// Its sections, each of which has files of its own and is written again only if it changed.
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
        pub(crate) contents: Box<dyn Contents + 's>,
    }

    /// Elements that are to be written, in pieces of about a given number of bytes. Where they are cut depends on the elements alone.
    pub(crate) trait Contents {
        fn whereabouts(&self) -> Result<Whereabouts> {
            Ok(Whereabouts::Here)
        }

        /// Gives the pieces in order.
        fn encode(&self, bytes: usize, pieces: &mut dyn Pieces) -> Result<()>;

        /// Has plain elements written where they are; what became of each piece.
        fn write_there(&self, _bytes: usize, _writing: &Writing) -> Result<Vec<Put>> {
            Ok(Vec::new())
        }
    }

    /// What takes pieces.
    pub(crate) trait Pieces {
        fn wants(&self, _piece: usize) -> bool {
            true
        }

        /// Memory for the next one.
        fn room(&mut self) -> Vec<u8>;

        fn put(&mut self, piece: Vec<u8>) -> Result<()>;
    }
}

use sealed::{Contents, Pieces};

/// How many elements of a size make a piece of about `bytes` bytes.
fn elements_each(bytes: usize, size: usize) -> usize {
    (bytes / size.max(1)).max(1)
}

/// Gives pieces of plain elements of a size, which `fill` encodes.
fn encode_plain(
    (len, size): (usize, usize),
    bytes: usize,
    pieces: &mut dyn Pieces,
    fill: impl Fn(Range<usize>, &mut Vec<u8>) -> Result<()>,
) -> Result<()> {
    let (each, len) = (elements_each(bytes, size), if size == 0 { 0 } else { len });
    for (piece, start) in (0..len).step_by(each).enumerate() {
        if pieces.wants(piece) {
            let range = start..len.min(start + each);
            let mut buffer = pieces.room();
            buffer.clear();
            buffer.reserve_exact(range.len() * size);
            fill(range, &mut buffer)?;
            pieces.put(buffer)?;
        }
    }
    Ok(())
}

/// Cuts what is encoded behind the element with which there are enough bytes.
struct Cutting<'p> {
    bytes: usize,
    pieces: &'p mut dyn Pieces,
    buffer: Vec<u8>,
}

impl<'p> Cutting<'p> {
    fn new(bytes: usize, pieces: &'p mut dyn Pieces) -> Cutting<'p> {
        let mut buffer = pieces.room();
        buffer.clear();
        Cutting { bytes, pieces, buffer }
    }

    fn add(&mut self, encode: impl FnOnce(&mut Vec<u8>)) -> Result<()> {
        encode(&mut self.buffer);
        if self.buffer.len() < self.bytes {
            return Ok(());
        }
        self.pieces.put(std::mem::take(&mut self.buffer))?;
        self.buffer = self.pieces.room();
        self.buffer.clear();
        Ok(())
    }

    fn end(self) -> Result<()> {
        if self.buffer.is_empty() { Ok(()) } else { self.pieces.put(self.buffer) }
    }
}

impl<T: Element> Contents for &DVector<T> {
    fn whereabouts(&self) -> Result<Whereabouts> {
        whereabouts(self)
    }

    fn encode(&self, bytes: usize, pieces: &mut dyn Pieces) -> Result<()> {
        if T::PLAIN {
            return encode_plain((self.len(), size_of::<T>()), bytes, pieces, |range, buffer| {
                each_element(self, range, |elements| {
                    encode_slice(elements, buffer);
                    Ok(())
                })
            });
        }
        let mut cutting = Cutting::new(bytes, pieces);
        each_element(self, 0..self.len(), |elements| {
            elements.iter().try_for_each(|element| cutting.add(|buffer| element.encode(buffer)))
        })?;
        cutting.end()
    }

    fn write_there(&self, bytes: usize, writing: &Writing) -> Result<Vec<Put>> {
        taken(self, &writing.site, elements_each(bytes, size_of::<T>()), writing)
    }
}

impl<T: Element> Contents for &DMatrix<T> {
    fn whereabouts(&self) -> Result<Whereabouts> {
        whereabouts_of_rows(self)
    }

    fn encode(&self, bytes: usize, pieces: &mut dyn Pieces) -> Result<()> {
        encode_plain((self.len(), self.width() * size_of::<T>()), bytes, pieces, |range, buffer| {
            each_row(self, range, |numbers| {
                encode_slice(numbers, buffer);
                Ok(())
            })
        })
    }

    fn write_there(&self, bytes: usize, writing: &Writing) -> Result<Vec<Put>> {
        taken_rows(self, &writing.site, elements_each(bytes, self.width() * size_of::<T>()), writing)
    }
}

/// The entries of a map, and how many it had when it was looked at.
struct Entries<'m, K, V>(&'m DMap<K, V>, usize);

impl<K: Key, V: Element> Contents for Entries<'_, K, V> {
    fn whereabouts(&self) -> Result<Whereabouts> {
        whereabouts_of_map(self.0)
    }

    fn encode(&self, bytes: usize, pieces: &mut dyn Pieces) -> Result<()> {
        let (mut cutting, mut written, mut outcome) = (Cutting::new(bytes, pieces), 0, Ok(()));
        each_entry(self.0, |key, value| {
            if outcome.is_ok() {
                outcome = cutting.add(|buffer| {
                    key.encode(buffer);
                    value.encode(buffer);
                });
                written += 1;
            }
        })?;
        outcome?;
        if written != self.1 {
            let elements = self.1;
            return Err(Error::usage(format!("a map of {elements} entries had {written} when it was to be saved")));
        }
        cutting.end()
    }
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
            contents: Box::new(self),
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
            contents: Box::new(self),
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
            contents: Box::new(Entries(self, elements)),
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
    let map = match on_workers::<(K, V)>(checkpoint, session, name, (MAP, ENTRIES))? {
        Some(entries) => entries.map(Clone::clone).collect_map()?,
        None => DMap::from_entries(session, elements::<(K, V)>(checkpoint, name, MAP, ENTRIES)?)?,
    };
    checkpoint.record_loaded(version_of_map(&map), name, ENTRIES);
    Ok(map)
}

/// Has workers read elements that take what they take, if there are workers and all goes well. What doesn't is found by this process, too.
fn on_workers<T: Element>(
    checkpoint: &Checkpoint,
    session: &Session,
    name: &str,
    (kind, section): (&str, &str),
) -> Result<Option<DVector<T>>> {
    let section = section_of(checkpoint, name, kind, section)?;
    if !is_apart(session) || section.elements == 0 || section.element_bytes.is_some() {
        return Ok(None);
    }
    let files = Stored::of_encoded(checkpoint, section, name);
    match born(session, &files.site(), files.pieces(), &files) {
        Ok(elements) if elements.len() as u64 == section.elements => Ok(Some(elements)),
        Ok(_) | Err(Error::Operator { element: Some(_), problem: BatchProblem::Body(_), .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads a vector back.
pub(super) fn load<T: Element>(checkpoint: &Checkpoint, session: &Session, name: &str) -> Result<DVector<T>> {
    let section = section_of(checkpoint, name, VECTOR, ELEMENTS)?;
    let vector = if T::PLAIN && size_of::<T>() > 0 && section.elements > 0 {
        expect_size::<T>(checkpoint, section, (VECTOR, name))?;
        let files = Stored::of(checkpoint, section, name, size_of::<T>())?;
        files.read(
            session,
            |site, pieces| born(session, site, pieces, &files),
            |chunks| DVector::from_chunks(session, chunks),
        )
    } else {
        match on_workers(checkpoint, session, name, (VECTOR, ELEMENTS))? {
            Some(vector) => Ok(vector),
            None => DVector::from_vec(session, elements(checkpoint, name, VECTOR, ELEMENTS)?),
        }
    };
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
    let size = size_of::<T>().max(1) as u64;
    let Some(bytes) = section.element_bytes.filter(|bytes| *bytes > 0 && bytes % size == 0) else {
        let found = shown(section.element_bytes);
        let problem = format!("{found}, and rows of plain ones of {size} bytes were expected");
        return Err(other_elements(checkpoint, (VECTOR, name), &problem));
    };
    let width = usize::try_from(bytes / size);
    let width = width.map_err(|error| other_elements(checkpoint, (VECTOR, name), &error.to_string()))?;
    let files = Stored::<T>::of(checkpoint, section, name, width.saturating_mul(size_of::<T>()))?;
    let matrix = if section.elements == 0 || size_of::<T>() == 0 {
        DMatrix::from_vec(session, width, Vec::new())
    } else {
        files.read(
            session,
            |site, pieces| born_rows(session, site, (pieces, width), &files),
            |chunks| DMatrix::from_vec(session, width, chunks.concat()),
        )
    };
    let matrix = matrix.map_err(|error| match error {
        Error::TooLong { .. } | Error::Rows { .. } => other_elements(checkpoint, (VECTOR, name), &error.to_string()),
        error => error,
    })?;
    checkpoint.record_loaded(version_of_rows(&matrix), name, ELEMENTS);
    Ok(matrix)
}

/// What is held under a name can't be read as what it was asked for.
pub(super) fn other_elements(checkpoint: &Checkpoint, (kind, name): (&str, &str), problem: &str) -> Error {
    bad(checkpoint.path(), format!("the {kind} `{name}` has other elements: {problem}"))
}

fn expect_size<T: Element>(checkpoint: &Checkpoint, section: &Section, what: (&str, &str)) -> Result<()> {
    // The entries of a map are never stored as their memory.
    let expected = element_bytes::<T>().filter(|_| section.name != ENTRIES).map(|size| size as u64);
    if section.element_bytes == expected {
        return Ok(());
    }
    let problem = format!("{}, and {} were expected", shown(section.element_bytes), shown(expected));
    Err(other_elements(checkpoint, what, &problem))
}

/// Of what size elements are.
fn shown(size: Option<u64>) -> String {
    match size {
        Some(size) => format!("plain ones of {size} bytes"),
        None => "ones that are not plain".to_owned(),
    }
}

/// What is read, in messages.
pub(super) fn held(checkpoint: &Checkpoint, name: &str) -> String {
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
        let other = manifest.vectors.iter().find(|entry| entry.name == name && entry.kind != kind);
        let other = other.map_or_else(String::new, |entry| format!("; `{name}` is a {}", entry.kind));
        return Err(bad(checkpoint.path(), format!("it holds no {kind} `{name}`; it holds {held}{other}")));
    };
    Ok(entry)
}

/// The elements of a section.
pub(super) fn elements<T: Element>(checkpoint: &Checkpoint, name: &str, kind: &str, section: &str) -> Result<Vec<T>> {
    let section = section_of(checkpoint, name, kind, section)?;
    let other = |problem: String| other_elements(checkpoint, (kind, name), &problem);
    expect_size::<T>(checkpoint, section, (kind, name))?;
    if section.element_bytes.is_some_and(|size| size.checked_mul(section.elements) != Some(section.bytes())) {
        return Err(other(format!("{} of them do not take {} bytes", section.elements, section.bytes())));
    }
    // Elements that take no bytes could be any number of them.
    let count = usize::try_from(section.elements).ok().filter(|&count| count <= MOST);
    let count = count.ok_or_else(|| other(format!("{} are too many: at most {MOST}", section.elements)))?;
    let (mut elements, mut pieces) = (Vec::new(), section.pieces.iter());
    let (mut bytes, mut read) = (Vec::new(), 0);
    for i in 0..count {
        while read == bytes.len()
            && let Some(piece) = pieces.next()
        {
            (bytes, read) = (checkpoint.folder().read_data(piece, &held(checkpoint, name))?, 0);
            // Not more room than there are bytes for: a length is a claim.
            elements.reserve(if size_of::<T>() == 0 { 0 } else { (count - i).min(bytes.len()) });
        }
        let mut rest = &bytes[read..];
        elements.push(T::decode(&mut rest).map_err(|error| other(format!("element {i}: {error}")))?);
        read = bytes.len() - rest.len();
    }
    let left = pieces.fold((bytes.len() - read) as u64, |sum, piece| sum.saturating_add(piece.bytes));
    if left > 0 {
        return Err(other(format!("{left} bytes follow the last")));
    }
    Ok(elements)
}
