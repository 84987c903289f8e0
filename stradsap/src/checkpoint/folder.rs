//! A folder of checkpoints: what lies in it, and whether it is whole.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::manifest::{DataFile, LARGEST, Manifest, Refusal, manifest_name, step_of};
use super::place::Place;
use crate::read::one_line;
use crate::{Error, Result};

/// What is read at once to be checked.
const CHUNK: usize = 1 << 20;

#[derive(Clone, Debug)]
pub(super) struct Folder {
    pub(super) place: Arc<dyn Place>,
    pub(super) path: PathBuf,
}

/// Names and sizes.
pub(super) type Listing = BTreeMap<String, u64>;

/// Why a checkpoint can't be used.
#[derive(Debug)]
pub(super) struct FolderTrouble {
    pub(super) error: Error,
    /// It may be whole: it is for another version or machine, or can't be reached.
    pub(super) may_be_whole: bool,
}

/// The error of an operation on a file.
pub(super) fn at(path: &Path) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File { path, source }
}

/// The error of a file that is not what it should be.
pub(super) fn bad(path: &Path, problem: impl Into<String>) -> Error {
    at(path)(io::Error::new(io::ErrorKind::InvalidData, one_line(&problem.into())))
}

impl Folder {
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub(super) fn list(&self) -> Result<Listing> {
        let files = self.place.list().map_err(at(&self.path))?;
        Ok(files.into_iter().collect())
    }

    /// The manifest of a step.
    pub(super) fn manifest(&self, step: u64) -> Result<Manifest, FolderTrouble> {
        self.read_manifest(&manifest_name(step))
    }

    /// The manifest of a step, and the files that it names compared with their checksums.
    pub(super) fn whole(&self, step: u64) -> Result<Manifest, FolderTrouble> {
        let manifest = self.manifest(step)?;
        self.check(&manifest).map_err(|error| self.trouble(error))?;
        Ok(manifest)
    }

    /// The manifest in a file of this folder.
    pub(super) fn read_manifest(&self, name: &str) -> Result<Manifest, FolderTrouble> {
        let path = self.file(name);
        let bytes = self.read_small(name).map_err(|error| self.trouble(error))?;
        let manifest = Manifest::parse(&bytes).map_err(|refusal| match refusal {
            Refusal::Foreign(problem) => FolderTrouble { error: bad(&path, problem), may_be_whole: true },
            Refusal::Damaged(problem) => FolderTrouble { error: bad(&path, problem), may_be_whole: false },
        })?;
        match step_of(name) {
            Some(step) if step != manifest.step => {
                let problem = format!("not the checkpoint of its name: it is of step {}", manifest.step);
                Err(FolderTrouble { error: bad(&path, problem), may_be_whole: false })
            }
            _ => Ok(manifest),
        }
    }

    /// The bytes of what may be a manifest.
    fn read_small(&self, name: &str) -> Result<Vec<u8>> {
        let path = self.file(name);
        let (reader, size) = self.place.read(name).map_err(at(&path))?;
        if size > LARGEST {
            return Err(bad(&path, format!("not a manifest of a checkpoint: it has {size} bytes")));
        }
        let mut bytes = Vec::new();
        reader.take(LARGEST).read_to_end(&mut bytes).map_err(at(&path))?;
        Ok(bytes)
    }

    fn trouble(&self, error: Error) -> FolderTrouble {
        FolderTrouble { may_be_whole: self.is_out_of_reach(&error), error }
    }

    /// Whether an error says nothing of the file that it names.
    pub(super) fn is_out_of_reach(&self, error: &Error) -> bool {
        matches!(error, Error::File { source, .. } if self.place.is_out_of_reach(source))
    }

    /// Compares the files that a manifest names with their checksums. The first that differs is the error's.
    pub(super) fn check(&self, manifest: &Manifest) -> Result<()> {
        let mut checked = BTreeSet::new();
        for entry in &manifest.vectors {
            for piece in entry.sections.iter().flat_map(|section| &section.pieces) {
                if checked.insert(piece) {
                    let held = format!("`{}` of {}", entry.name, manifest_name(manifest.step));
                    self.check_data(piece, &held)?;
                }
            }
        }
        Ok(())
    }

    /// Compares a file with its checksum. `held` is what it holds, for the error.
    pub(super) fn check_data(&self, data: &DataFile, held: &str) -> Result<()> {
        let path = self.file(&data.file);
        let (mut reader, size) = self.place.read(&data.file).map_err(at(&path))?;
        self.check_size(data, size, held)?;
        let mut hasher = blake3::Hasher::new();
        let mut chunk = vec![0; usize::try_from(size).map_or(CHUNK, |size| size.clamp(1, CHUNK))];
        let mut read = 0;
        loop {
            match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(n) => {
                    hasher.update(&chunk[..n]);
                    read += n as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(at(&path)(error)),
            }
        }
        self.compare(data, &DataFile::new(hasher.finalize(), read), held)
    }

    /// The contents of a data file, compared with its checksum.
    pub(super) fn read_data(&self, data: &DataFile, held: &str) -> Result<Vec<u8>> {
        let path = self.file(&data.file);
        let (reader, size) = self.place.read(&data.file).map_err(at(&path))?;
        self.check_size(data, size, held)?;
        // The file is as large as that, so this is not more than lies on the disk.
        let room = usize::try_from(size).map_err(|_| bad(&path, "too large for memory"))?;
        let mut bytes = Vec::with_capacity(room);
        reader.take(data.bytes).read_to_end(&mut bytes).map_err(at(&path))?;
        self.compare(data, &DataFile::of(&bytes), held)?;
        Ok(bytes)
    }

    fn check_size(&self, data: &DataFile, size: u64, held: &str) -> Result<()> {
        if size == data.bytes {
            return Ok(());
        }
        let problem = format!("damaged or cut short: it has {size} bytes, and {} were expected ({held})", data.bytes);
        Err(bad(&self.file(&data.file), problem))
    }

    fn compare(&self, data: &DataFile, found: &DataFile, held: &str) -> Result<()> {
        if found == data {
            return Ok(());
        }
        let problem = format!("damaged: it doesn't match its checksum ({held})");
        Err(bad(&self.file(&data.file), problem))
    }
}

/// The steps that have manifests in a folder.
pub(super) fn steps(listing: &Listing) -> impl DoubleEndedIterator<Item = u64> {
    let mut steps: Vec<u64> = listing.keys().filter_map(|name| step_of(name)).collect();
    // More than twelve digits are not in the order of their names.
    steps.sort_unstable();
    steps.into_iter()
}
