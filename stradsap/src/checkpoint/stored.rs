//! Elements in the files of a section, which any process can read: on workers each reads some files and keeps their elements.

use std::marker::PhantomData;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Checkpoint;
use super::folder::{Folder, bad};
use super::manifest::{DataFile, Section};
use super::saved::{VECTOR, held, other_elements};
use crate::__private::{Source, decode_vec, is_apart};
use crate::files::shown;
use crate::read::address;
use crate::{BatchProblem, DecodeError, Element, Error, Result, Session};

/// The files of elements, each of whole ones.
#[derive(Serialize, Deserialize)]
#[serde(bound = "")]
pub(super) struct Stored<T> {
    /// The folder, or the address of the place in a store.
    path: PathBuf,
    /// The same in the process that has opened it.
    #[serde(skip)]
    folder: Option<Folder>,
    pieces: Vec<DataFile>,
    /// What they hold, for messages.
    held: String,
    /// Whether elements take what they take.
    encoded: bool,
    number: PhantomData<fn() -> T>,
}

impl<T: Element> Stored<T> {
    /// The files of a section, if they can be those of its elements, which have this size.
    pub(super) fn of(checkpoint: &Checkpoint, section: &Section, name: &str, size: usize) -> Result<Stored<T>> {
        let (elements, bytes, size) = (section.elements, section.bytes(), size as u64);
        let whole = |piece: &DataFile| piece.bytes.checked_rem(size).is_none_or(|rest| rest == 0);
        if size.checked_mul(elements) != Some(bytes) || !section.pieces.iter().all(whole) {
            let problem = format!("{elements} of them do not take {bytes} bytes");
            return Err(other_elements(checkpoint, (VECTOR, name), &problem));
        }
        Ok(Stored { encoded: false, ..Stored::of_encoded(checkpoint, section, name) })
    }

    /// The same of elements that take what they take.
    pub(super) fn of_encoded(checkpoint: &Checkpoint, section: &Section, name: &str) -> Stored<T> {
        let folder = checkpoint.folder();
        let absolute = || std::path::absolute(&folder.path).unwrap_or_else(|_| folder.path.clone());
        let path = if address::scheme(&folder.path).is_some() { folder.path.clone() } else { absolute() };
        let (pieces, held) = (section.pieces.clone(), held(checkpoint, name));
        Stored { path, folder: Some(folder.clone()), pieces, held, encoded: true, number: PhantomData }
    }

    /// What reads them, as errors call it.
    pub(super) fn site(&self) -> String {
        format!("reading {}", self.held)
    }

    pub(super) fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// Has the elements read where they will be, by `born`. Where a worker can't read them and this process can, this process reads all.
    pub(super) fn read<D>(
        &self,
        session: &Session,
        born: impl FnOnce(&str, usize) -> Result<D>,
        here: impl FnOnce(Vec<Vec<T>>) -> Result<D>,
    ) -> Result<D> {
        match born(&self.site(), self.pieces()) {
            Err(Error::Operator { element: Some(piece), problem: BatchProblem::Body(why), .. }) => {
                let name = self.pieces.get(piece).map_or("", |piece| &*piece.file);
                let found = bad(&self.path.join(name), why.to_string());
                self.piece(piece).and_then(|_| if is_apart(session) { Ok(()) } else { Err(found) })?;
                tracing::warn!("{}: {why}; the program's own process reads it", shown(&self.path));
                here((0..self.pieces.len()).map(|piece| self.piece(piece)).collect::<Result<_>>()?)
            }
            read => read,
        }
    }

    fn piece(&self, piece: usize) -> Result<Vec<T>> {
        let folder = match &self.folder {
            Some(folder) => folder.clone(),
            None => Folder::open(&self.path)?,
        };
        let Some(data) = self.pieces.get(piece) else { return Ok(Vec::new()) };
        let bytes = folder.read_data(data, &self.held)?;
        let mut rest = &bytes[..];
        let elements = match self.encoded {
            true => decode_all(rest),
            false => decode_vec(bytes.len() / size_of::<T>().max(1), &mut rest),
        };
        elements.map_err(|error| bad(&folder.file(&data.file), error.to_string()))
    }
}

/// As many elements as there are bytes for.
fn decode_all<T: Element>(mut bytes: &[u8]) -> std::result::Result<Vec<T>, DecodeError> {
    let mut elements = Vec::new();
    while let left @ 1.. = bytes.len() {
        elements.push(T::decode(&mut bytes)?);
        if bytes.len() == left {
            return Err(DecodeError::Trailing { left });
        }
    }
    Ok(elements)
}

impl<T: Element> Source for Stored<T> {
    type Item = T;
    /// Later checkpoints don't need these files.
    const LASTS: bool = false;

    fn make(&self, piece: usize, items: &mut Vec<T>) -> std::result::Result<(), String> {
        *items = self.piece(piece).map_err(|error| error.to_string())?;
        Ok(())
    }
}
