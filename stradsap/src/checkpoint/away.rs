//! What is written while the program waits: elements that workers have, and that are more than this process is to copy.
//!
//! The workers write the pieces, if the folder or the store is one that they see. What a worker can't write comes here, piece by piece.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use super::disk::{Directory, Disk, UNFINISHED};
use super::folder::{Folder, at};
use super::manifest::{DATA, DataFile};
use super::saved::sealed::{Pieces, Section};
use crate::__private::{Sink, Whereabouts};
use crate::read::address;
use crate::{Element, Error, Result};

/// Writes pieces to a folder or a store, in any process that sees it.
#[derive(Serialize, Deserialize)]
pub(crate) struct Writing {
    /// Its path or address.
    folder: PathBuf,
    /// The store, where this process writes; none if it can't be reached.
    #[serde(skip)]
    store: OnceLock<Option<Folder>>,
    /// A file in the folder that all processes see which see the folder.
    mark: String,
    /// Files that are there already.
    there: BTreeSet<String>,
    /// As errors call it.
    pub(super) site: String,
}

/// What became of a piece.
#[derive(Clone, Element)]
pub(crate) enum Put {
    /// The process doesn't see the folder.
    Unseen,
    /// A file of this hash and this number of bytes was written, or was there.
    Written([u8; 32], u64),
    There([u8; 32], u64),
    /// It can't be written: file and reason.
    Failed(String, String),
}

impl Sink for Writing {
    type Note = Put;

    fn take(&self, _piece: usize, bytes: &[u8]) -> Put {
        let is_address = address::scheme(&self.folder).is_some();
        let folder = match is_address {
            true => self.store.get_or_init(|| Folder::open(&self.folder).ok()).clone(),
            // Another process may be writing the same bytes.
            false => {
                let tag = format!(".{:016x}", random());
                let directory = Directory { layer: Arc::new(Disk), path: self.folder.clone(), tag };
                Some(Folder::over(directory, self.folder.clone()))
            }
        };
        let Some(place) = folder.map(|folder| folder.place).filter(|place| place.read(&self.mark).is_ok()) else {
            return Put::Unseen;
        };
        let hash = blake3::hash(bytes);
        let data = DataFile::new(hash, bytes.len() as u64);
        if self.there.contains(&data.file) {
            return Put::There(hash.into(), data.bytes);
        }
        match place.write(&data.file, bytes) {
            Ok(()) => Put::Written(hash.into(), data.bytes),
            // Perhaps it may only read there.
            Err(_) if is_address => Put::Unseen,
            Err(failed) => match failed.error {
                Error::File { path, source } => Put::Failed(path.display().to_string(), source.to_string()),
                error => Put::Failed(self.folder.display().to_string(), error.to_string()),
            },
        }
    }
}

fn random() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Files that were written before the others of a checkpoint, and what is known of those that are on the disk.
pub(super) struct Away<'a> {
    pub(super) folder: &'a Folder,
    pub(super) durable: &'a mut BTreeSet<DataFile>,
    /// The names of files that were written.
    pub(super) put: &'a mut Vec<String>,
}

impl Away<'_> {
    /// Writes a section in pieces of about `bytes` bytes; gives their files.
    pub(super) fn write(&mut self, section: &Section<'_>, bytes: usize, site: String) -> Result<Vec<DataFile>> {
        let plain = section.element_bytes.is_some();
        let files = match section.contents.whereabouts()? {
            Whereabouts::InRanges if plain => self.by_workers(section, bytes, site)?,
            _ => Vec::new(),
        };
        let mut here = Here { away: self, files, next: 0, buffer: Vec::new() };
        section.contents.encode(bytes, &mut here)?;
        Ok(here.files.into_iter().flatten().collect())
    }

    /// Has workers write; none for pieces of those that don't see the folder.
    fn by_workers(&mut self, section: &Section<'_>, bytes: usize, site: String) -> Result<Vec<Option<DataFile>>> {
        // A name that the next checkpoint deletes if this process can't.
        let mark = format!("{}{DATA}{UNFINISHED}", blake3::hash(&random().to_ne_bytes()).to_hex());
        let path = self.folder.file(&mark);
        let Some(folder) = self.folder.place.mark(&mark).map_err(at(&path))? else { return Ok(Vec::new()) };
        let there = self.durable.iter().map(|data| data.file.clone()).collect();
        let written = section
            .contents
            .write_there(bytes, &Writing { folder, store: OnceLock::new(), mark: mark.clone(), there, site });
        let _ = self.folder.place.remove(&mark); // see above
        let (mut files, mut failed) = (Vec::new(), None);
        for piece in written? {
            let file = match piece {
                Put::Unseen => None,
                Put::Written(hash, bytes) => {
                    let data = DataFile::new(hash.into(), bytes);
                    self.put.push(data.file.clone());
                    self.durable.insert(data.clone());
                    Some(data)
                }
                Put::There(hash, bytes) => Some(DataFile::new(hash.into(), bytes)),
                Put::Failed(path, why) => {
                    failed.get_or_insert_with(|| at(path.as_ref())(std::io::Error::other(why)));
                    None
                }
            };
            files.push(file);
        }
        failed.map_or(Ok(files), Err)
    }
}

/// Writes the pieces that workers have not written.
struct Here<'h, 'a> {
    away: &'h mut Away<'a>,
    files: Vec<Option<DataFile>>,
    /// The piece that comes next, at the earliest.
    next: usize,
    buffer: Vec<u8>,
}

impl Pieces for Here<'_, '_> {
    fn wants(&self, piece: usize) -> bool {
        self.files.get(piece).is_none_or(Option::is_none)
    }

    fn room(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    fn put(&mut self, piece: Vec<u8>) -> Result<()> {
        let data = DataFile::of(&piece);
        self.buffer = piece;
        if self.away.durable.insert(data.clone()) {
            self.away.folder.place.write(&data.file, &self.buffer).map_err(|failed| failed.error)?;
            self.away.put.push(data.file.clone());
        }
        while !self.wants(self.next) {
            self.next += 1;
        }
        match self.files.get_mut(self.next) {
            Some(file) => *file = Some(data),
            None => self.files.push(Some(data)),
        }
        Ok(())
    }
}
