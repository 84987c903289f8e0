//! Writing a checkpoint, while the program goes on.
//!
//! The order is what makes it safe: a manifest appears once all files that it names are on the disk under their names, and
//! files are deleted once a later manifest is there. So at any moment the manifests in the folder are whole, and the last
//! two of them name files that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::disk::UNFINISHED;
use super::folder::{Folder, at};
use super::manifest::{DATA, DataFile, Manifest, data_digest, manifest_name, step_of};
use super::origin::Build;
use super::place::NotWritten;
use super::saved::sealed::Pieces;
use crate::{Error, Result};

/// How many checkpoints stay: the newest, and one to fall back to.
const KEPT: usize = 2;

/// Memory that a checkpoint was copied to, by the names of what it holds: the next one is copied to it as well.
pub(super) type Spare = BTreeMap<(String, &'static str), Vec<Vec<u8>>>;

/// Tells contents apart within this process: a version, and the section that has it.
pub(super) type Key = (u64, &'static str);

/// A manifest that was read.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) manifest: Arc<Manifest>,
    /// Whether the files that it names were found to be whole, or were written by this process.
    pub(super) checked: bool,
}

/// A section of the manifest that is written, by the place of its entry and its own.
pub(super) struct Placed {
    pub(super) place: (usize, usize),
    pub(super) name: &'static str,
    /// Its version, if it has one.
    pub(super) version: Option<u64>,
    /// Pieces to be written; none where the files are there.
    pub(super) copies: Option<Vec<Vec<u8>>>,
}

/// Memory that a section is copied to, piece by piece.
#[derive(Default)]
pub(super) struct Copies {
    pub(super) spare: Vec<Vec<u8>>,
    pub(super) pieces: Vec<Vec<u8>>,
}

impl Pieces for Copies {
    /// Memory that was written to before costs no page faults.
    fn room(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_default()
    }

    fn put(&mut self, piece: Vec<u8>) -> Result<()> {
        self.pieces.push(piece);
        Ok(())
    }
}

/// A checkpoint to be written.
pub(super) struct Job {
    pub(super) folder: Folder,
    /// Without its build, and without the files of what is to be written.
    pub(super) manifest: Manifest,
    pub(super) placed: Vec<Placed>,
    pub(super) known: BTreeMap<u64, Known>,
    /// Files that are whole and on the disk, or were written for this checkpoint.
    pub(super) durable: BTreeSet<DataFile>,
    /// The names of those that were.
    pub(super) put: Vec<String>,
}

/// How it went.
#[derive(Debug)]
pub(super) struct Outcome {
    /// The manifest, once it is on the disk.
    pub(super) written: Option<Written>,
    /// What went wrong, before or after that.
    pub(super) failed: Option<Error>,
    pub(super) spare: Spare,
}

#[derive(Debug)]
pub(super) struct Written {
    pub(super) manifests: BTreeMap<u64, Known>,
    pub(super) versions: Vec<(Key, Vec<DataFile>)>,
}

impl Job {
    pub(super) fn run(mut self) -> Outcome {
        let written = self.write();
        let spare = self.spare();
        if let Err(error) = written {
            return Outcome { written: None, failed: Some(error), spare };
        }
        let files_of = |placed: &Placed| {
            let (entry, section) = placed.place;
            let pieces = &self.manifest.vectors[entry].sections[section].pieces;
            placed.version.map(|version| ((version, placed.name), pieces.clone()))
        };
        let versions = self.placed.iter().filter_map(files_of).collect();
        let step = self.manifest.step;
        let mut manifests = self.earlier();
        manifests.insert(step, Known { manifest: Arc::new(self.manifest), checked: true });
        let failed = clean(&self.folder, &manifests).err();
        Outcome { written: Some(Written { manifests, versions }), failed, spare }
    }

    fn spare(&mut self) -> Spare {
        let names: Vec<&str> = self.manifest.vectors.iter().map(|entry| &*entry.name).collect();
        let name = |placed: &Placed| (names[placed.place.0].to_owned(), placed.name);
        self.placed.iter_mut().filter_map(|placed| Some((name(placed), placed.copies.take()?))).collect()
    }

    fn write(&mut self) -> Result<()> {
        self.manifest.build = Build::here();
        let written = self.write_data().and_then(|()| self.write_manifest());
        written.map_err(|failed| {
            if failed.absent {
                discard(&self.folder, &self.known, &self.put);
            }
            failed.error
        })?;
        self.sync()
    }

    /// Writes the files that are new, whose names are noted.
    fn write_data(&mut self) -> Result<(), NotWritten> {
        for placed in &self.placed {
            let Some(copies) = &placed.copies else { continue };
            let mut pieces = Vec::with_capacity(copies.len());
            for bytes in copies {
                let data = DataFile::of(bytes);
                if self.durable.insert(data.clone()) {
                    // There is no manifest, whether there is this file or not.
                    let written = self.folder.place.write(&data.file, bytes);
                    written.map_err(|failed| NotWritten { absent: true, ..failed })?;
                    self.put.push(data.file.clone());
                }
                pieces.push(data);
            }
            let (entry, section) = placed.place;
            self.manifest.vectors[entry].sections[section].pieces = pieces;
        }
        let synced = if self.put.is_empty() { Ok(()) } else { self.sync() };
        synced.map_err(|error| NotWritten { error, absent: true })
    }

    fn write_manifest(&self) -> Result<(), NotWritten> {
        let name = manifest_name(self.manifest.step);
        let unsaid =
            |error: serde_json::Error| NotWritten { error: at(&self.folder.file(&name))(error.into()), absent: true };
        let text = self.manifest.render().map_err(unsaid)?;
        self.folder.place.write(&name, &text)
    }

    fn sync(&self) -> Result<()> {
        self.folder.place.sync().map_err(at(&self.folder.path))
    }

    /// The checkpoints before this one that stay: the newest that are whole, or may be.
    fn earlier(&self) -> BTreeMap<u64, Known> {
        let look = |(&step, known): (&u64, &Known)| {
            let checked = if known.checked { Ok(()) } else { self.folder.check(&known.manifest) };
            let stays = checked.as_ref().err().is_none_or(|error| self.folder.is_out_of_reach(error));
            stays.then(|| (step, Known { checked: checked.is_ok(), ..known.clone() }))
        };
        self.known.range(..self.manifest.step).rev().filter_map(look).take(KEPT - 1).collect()
    }
}

/// Deletes files that were written in vain: where the disk is full this makes room. Another checkpoint may name the same contents.
pub(super) fn discard(folder: &Folder, known: &BTreeMap<u64, Known>, put: &[String]) {
    let known = || known.values().flat_map(|known| known.manifest.files());
    for name in put.iter().filter(|name| known().all(|data| data.file != **name)) {
        let _ = folder.place.remove(name); // only the first error is reported
    }
}

/// Deletes what none of these manifests needs. A file that can't be deleted doesn't keep the others.
fn clean(folder: &Folder, manifests: &BTreeMap<u64, Known>) -> Result<()> {
    let named: BTreeSet<&str> =
        manifests.values().flat_map(|known| known.manifest.files()).map(|data| &*data.file).collect();
    let listing = folder.list()?;
    let old = |name: &&String| step_of(name).is_some_and(|step| !manifests.contains_key(&step));
    let unnamed = |name: &&String| match name.strip_suffix(UNFINISHED) {
        // What a worker writes has a number behind the name.
        Some(name) => {
            let data = name.find(DATA).map_or(name, |at| &name[..at + DATA.len()]);
            data_digest(data).is_some() || step_of(name).is_some()
        }
        None => data_digest(name).is_some() && !named.contains(&***name),
    };
    // Manifests first: one that is there has its files.
    let names = listing.keys().filter(old).chain(listing.keys().filter(unnamed));
    let mut first = Ok(());
    for name in names {
        match folder.place.remove(name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                first = first.and(Err(at(&folder.file(name))(error)));
            }
            _ => {}
        }
    }
    first
}
