//! Writing a checkpoint, while the program goes on.
//!
//! The order is what makes it safe: a manifest appears once all files that it names are on the disk under their names, and
//! files are deleted once a later manifest is there. So at any moment the manifests in the folder are whole, and the last
//! two of them name files that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use super::folder::{Folder, at};
use super::manifest::{DataFile, Manifest, data_digest, manifest_name, step_of};
use super::origin::Build;
use crate::{Error, Result};

/// How many checkpoints stay: the newest, and one to fall back to.
const KEPT: usize = 2;
const UNFINISHED: &str = ".unfinished";
/// What is written at once.
const CHUNK: usize = 8 << 20;

/// Memory that a checkpoint was copied to, by the names of what it holds: the next one is copied to it as well.
pub(super) type Spare = BTreeMap<(String, &'static str), Vec<u8>>;

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
    /// What is to be written; none where the file is there.
    pub(super) bytes: Option<Vec<u8>>,
}

/// A checkpoint to be written.
pub(super) struct Job {
    pub(super) folder: Folder,
    /// Without its build, and without the files of what is to be written.
    pub(super) manifest: Manifest,
    pub(super) placed: Vec<Placed>,
    pub(super) known: BTreeMap<u64, Known>,
    /// Files that are whole and on the disk.
    pub(super) durable: BTreeSet<DataFile>,
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
    pub(super) versions: Vec<(Key, DataFile)>,
}

impl Job {
    pub(super) fn run(mut self) -> Outcome {
        let written = self.write();
        let spare = self.spare();
        if let Err(error) = written {
            return Outcome { written: None, failed: Some(error), spare };
        }
        let file_of = |placed: &Placed| {
            let (entry, section) = placed.place;
            let data = &self.manifest.vectors[entry].sections[section].data;
            placed.version.map(|version| ((version, placed.name), data.clone()))
        };
        let versions = self.placed.iter().filter_map(file_of).collect();
        let step = self.manifest.step;
        let mut manifests = self.earlier();
        manifests.insert(step, Known { manifest: Arc::new(self.manifest), checked: true });
        let failed = clean(&self.folder, &manifests).err();
        Outcome { written: Some(Written { manifests, versions }), failed, spare }
    }

    fn spare(&mut self) -> Spare {
        let names: Vec<&str> = self.manifest.vectors.iter().map(|entry| &*entry.name).collect();
        let name = |placed: &Placed| (names[placed.place.0].to_owned(), placed.name);
        self.placed.iter_mut().filter_map(|placed| Some((name(placed), placed.bytes.take()?))).collect()
    }

    fn write(&mut self) -> Result<()> {
        self.manifest.build = Build::here();
        let mut put = Vec::new();
        let text = self.write_data(&mut put).and_then(|()| self.write_manifest()).inspect_err(|_| {
            // Where the disk is full this makes room. Another checkpoint may name the same contents.
            let known = || self.known.values().flat_map(|known| known.manifest.files());
            for name in put.iter().filter(|name| known().all(|data| data.file != **name)) {
                let _ = self.folder.layer.remove(&self.folder.file(name)); // only the first error is reported
            }
        })?;
        give_name(&self.folder, &text)?;
        self.sync_names()
    }

    /// Writes the files that are new, whose names are noted.
    fn write_data(&mut self, put: &mut Vec<String>) -> Result<()> {
        for placed in &self.placed {
            let Some(bytes) = &placed.bytes else { continue };
            let data = DataFile::of(bytes);
            if self.durable.insert(data.clone()) {
                fill(&self.folder, &data.file, bytes)?;
                give_name(&self.folder, &data.file)?;
                put.push(data.file.clone());
            }
            let (entry, section) = placed.place;
            self.manifest.vectors[entry].sections[section].data = data;
        }
        if put.is_empty() { Ok(()) } else { self.sync_names() }
    }

    /// Writes the manifest, which has no name yet. Gives the one that it will have.
    fn write_manifest(&self) -> Result<String> {
        let name = manifest_name(self.manifest.step);
        let path = self.folder.file(&name);
        let text = self.manifest.render().map_err(|error| at(&path)(error.into()))?;
        fill(&self.folder, &name, &text).map(|()| name)
    }

    fn sync_names(&self) -> Result<()> {
        let path = &self.folder.path;
        self.folder.layer.sync_folder(path).map_err(at(path))
    }

    /// The checkpoints before this one that stay: the newest that are whole.
    fn earlier(&self) -> BTreeMap<u64, Known> {
        let whole = |known: &Known| known.checked || self.folder.check(&known.manifest).is_ok();
        let earlier = self.known.range(..self.manifest.step).rev().filter(|(_, known)| whole(known));
        let checked = |known: &Known| Known { checked: true, ..known.clone() };
        earlier.map(|(&step, known)| (step, checked(known))).take(KEPT - 1).collect()
    }
}

/// Writes a file, under a name that says that it is unfinished.
fn fill(folder: &Folder, name: &str, bytes: &[u8]) -> Result<()> {
    let path = unfinished(folder, name);
    let written = folder.layer.create(&path).and_then(|mut file| {
        bytes.chunks(CHUNK).try_for_each(|chunk| file.write(chunk))?;
        file.sync()
    });
    written.map_err(at(&path)).inspect_err(|_| {
        let _ = folder.layer.remove(&path); // only the first error is reported, and the next save tries again
    })
}

/// Gives a file that is whole and on the disk its name.
fn give_name(folder: &Folder, name: &str) -> Result<()> {
    let (from, to) = (unfinished(folder, name), folder.file(name));
    folder.layer.rename(&from, &to).map_err(at(&to)).inspect_err(|_| {
        let _ = folder.layer.remove(&from); // as above
    })
}

fn unfinished(folder: &Folder, name: &str) -> PathBuf {
    folder.file(&format!("{name}{UNFINISHED}"))
}

/// Deletes what none of these manifests needs. A file that can't be deleted doesn't keep the others.
fn clean(folder: &Folder, manifests: &BTreeMap<u64, Known>) -> Result<()> {
    let named: BTreeSet<&str> =
        manifests.values().flat_map(|known| known.manifest.files()).map(|data| &*data.file).collect();
    let listing = folder.list()?;
    let old = |name: &&String| step_of(name).is_some_and(|step| !manifests.contains_key(&step));
    let unnamed = |name: &&String| match name.strip_suffix(UNFINISHED) {
        Some(name) => data_digest(name).is_some() || step_of(name).is_some(),
        None => data_digest(name).is_some() && !named.contains(&***name),
    };
    // Manifests first: one that is there has its files.
    let names = listing.keys().filter(old).chain(listing.keys().filter(unnamed));
    let mut first = Ok(());
    for path in names.map(|name| folder.file(name)) {
        match folder.layer.remove(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => first = first.and(Err(at(&path)(error))),
            _ => {}
        }
    }
    first
}
