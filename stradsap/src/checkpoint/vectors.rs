//! DVectors as sections of a checkpoint: plain elements as their memory, others one encoding after the other.

use super::format::{Reader, Writer, bad};
use crate::{DVector, Element, Error, Result, Session};

/// So many elements are read from a DVector at once, or so many bytes' worth of them, whatever is less.
const RUN: usize = 4096;
const RUN_BYTES: usize = 1 << 20;

/// What a checkpoint can hold: a [`DVector`].
pub trait Saved: sealed::Saved {}

impl<T: Element> Saved for DVector<T> {}

pub(super) mod sealed {
    use super::Writer;
    use crate::Result;

    pub trait Saved {
        fn save(&self, name: &str, writer: &mut Writer) -> Result<()>;
    }
}

/// The size of an element where all have the same.
fn size<T: Element>() -> Option<usize> {
    T::PLAIN.then_some(size_of::<T>())
}

fn run<T>() -> usize {
    (RUN_BYTES / size_of::<T>().max(1)).clamp(1, RUN)
}

impl<T: Element> sealed::Saved for DVector<T> {
    fn save(&self, name: &str, writer: &mut Writer) -> Result<()> {
        let mut bytes = Vec::new();
        for start in (0..self.len()).step_by(run::<T>()) {
            bytes.clear();
            for element in self.read(start..self.len().min(start + run::<T>()))? {
                element.encode(&mut bytes);
            }
            writer.write(&bytes)?;
        }
        writer.end_section(name, size::<T>(), self.len())
    }
}

/// Reads a section back.
pub(super) fn load<T: Element>(reader: &Reader, session: &Session, name: &str) -> Result<DVector<T>> {
    let Some(entry) = reader.find(name).filter(|_| !name.is_empty()) else {
        let names: Vec<_> = reader.names().map(|name| format!("`{name}`")).collect();
        let held = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(bad(reader.path(), format!("it holds no vector `{name}`; it holds {held}")));
    };
    let other = |problem: String| bad(reader.path(), format!("the vector `{name}` has other elements: {problem}"));
    let kind = |size: Option<usize>| match size {
        Some(size) => format!("plain ones of {size} bytes"),
        None => "ones that are not plain".to_owned(),
    };
    if entry.size != size::<T>() {
        return Err(other(format!("{}, and {} were expected", kind(entry.size), kind(size::<T>()))));
    }
    if size::<T>().is_some_and(|size| size.checked_mul(entry.len) != usize::try_from(entry.bytes).ok()) {
        return Err(other(format!("{} of them do not take {} bytes", entry.len, entry.bytes)));
    }
    let bytes = reader.section(name)?;
    let mut rest = &bytes[..];
    // Not more room than there are bytes for: a length is a claim.
    let mut elements = Vec::with_capacity(if size_of::<T>() == 0 { 0 } else { entry.len.min(bytes.len()) });
    for i in 0..entry.len {
        elements.push(T::decode(&mut rest).map_err(|error| other(format!("element {i}: {error}")))?);
    }
    if !rest.is_empty() {
        return Err(other(format!("{} bytes are left behind the last", rest.len())));
    }
    DVector::from_vec(session, elements).map_err(|error| match error {
        Error::TooLong { .. } => bad(reader.path(), format!("the vector `{name}`: {error}")),
        error => error,
    })
}
