//! Checkpoints: the state of a program after some of its steps, kept in files or objects, from which a later run goes on.

mod away;
mod background;
mod disk;
mod folder;
mod lock;
mod manifest;
mod origin;
mod place;
pub(crate) mod report;
mod saved;
#[cfg(feature = "remote")]
mod store;
mod stored;
#[cfg(test)]
mod tests;
mod write;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::__private::{Whereabouts, decode_serde, encode_serde};
use crate::files::shown;
use crate::{DMap, DMatrix, DMultiMap, DVector, Element, Error, Key, Result, Session};
use away::Away;
use background::{Background, Versions, locked};
use folder::{Folder, FolderTrouble, Listing, at, bad, steps};
use manifest::{Entry, FORMAT, LARGEST_STATE, Manifest, PIECE, Section, VERSION, byte_order, hexadecimal};
use origin::{Build, now};
use place::Hold;
pub use saved::Saved;
use write::{Copies, Job, Known, Placed, discard};

/// A folder of checkpoints, or a place for them in an object store. The last two are kept.
///
/// With the feature `remote`, a folder can be `s3://bucket/prefix` or another address (`gs://`, `az://`, `https://`, `file://`).
/// The credentials come from the environment. See
/// [checkpoints.md](https://github.com/stradsap/stradsap/blob/main/docs/checkpoints.md#in-object-stores).
///
/// Only one job can use a folder at a time. A process locks it with its first [`begin`](Checkpoints::begin),
/// [`resume`](Checkpoints::resume) or [`save`](Checkpoints::save), until it drops this value or ends in any way.
/// [`Checkpoint::open`] and the command can read the folder at any time.
///
/// [`save`](Checkpoints::save) copies what has changed since the checkpoint before, and a thread writes the copy while the program
/// goes on. What has not changed is neither copied nor written again. Many elements that workers have are written by the workers before
/// `save` returns, and read by them when a run goes on. The command `stradsap checkpoints` lists and checks the
/// files.
///
/// A program that goes on from a checkpoint ends with the same bits as one that was never interrupted, if two things hold: it
/// continues from nothing but what it saved, and which elements its loops touch doesn't depend on the values of other elements.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let folder = std::path::Path::new("checkpoints");
/// # let temporary = tempfile::tempdir().unwrap();
/// # let folder = temporary.path();
/// /// Trains from where the last run ended; gives where that was.
/// fn train(session: &Session, folder: &std::path::Path, steps: u64) -> stradsap::Result<u64> {
///     let mut checkpoints = Checkpoints::new(folder, 10)?;
///     let mut x = DVector::from_fn(session, 1000, |i| i as f64)?;
///     let mut first = 0;
///     if let Some(checkpoint) = checkpoints.resume()? {
///         x = checkpoint.vector(session, "x")?;
///         first = checkpoint.step();
///     }
///     for step in first..steps {
///         async_parallel_for!(0..x.len(), [&mut x], |i| x[i] *= 0.5)?;
///         let stopping = session.stopping(); // by Ctrl-C or SIGTERM
///         if checkpoints.due(step + 1) || stopping.is_some() {
///             checkpoints.save(step + 1, &(), &[("x", &x)])?;
///         }
///         if let Some(signal) = stopping {
///             checkpoints.finish()?;
///             return Err(stradsap::Error::Stopped { signal });
///         }
///     }
///     checkpoints.finish()?;
///     Ok(first)
/// }
///
/// let session = Session::new()?;
/// assert_eq!(train(&session, &folder, 25)?, 0);
/// assert_eq!(train(&session, &folder, 40)?, 20);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Checkpoints {
    folder: Folder,
    every: u64,
    /// About this many bytes are in each data file.
    piece: usize,
    background: Mutex<Background>,
    /// From the first call that would lead to a write.
    lock: OnceLock<Option<Arc<dyn Hold>>>,
}

impl Checkpoints {
    /// Checkpoints in a folder, one after each `every` steps. The folder is created if it doesn't exist.
    ///
    /// # Errors
    /// [`Error::Usage`] if `every` is 0, for an address without the feature `remote`, and for an address that contains credentials;
    /// [`Error::File`] if the folder can't be created or read, or if the store can't be reached.
    pub fn new(folder: impl Into<PathBuf>, every: u64) -> Result<Checkpoints> {
        Checkpoints::over(Folder::open(&folder.into())?, every)
    }

    /// Checks that checkpoints can be written to a folder later, as far as that can be known, and changes nothing. Call it before
    /// the work that leads to the first checkpoint.
    ///
    /// ```
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// stradsap::Checkpoints::check(folder.join("kept"))?;
    /// assert!(!folder.join("kept").exists());
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`new`](Checkpoints::new). Also if the folder, or the nearest existing folder above it, can't be written.
    pub fn check(folder: impl AsRef<Path>) -> Result<()> {
        let folder = Folder::open(folder.as_ref())?;
        folder.place.check().map_err(at(&folder.path))
    }

    fn over(folder: Folder, every: u64) -> Result<Checkpoints> {
        if every == 0 {
            return Err(Error::usage("a checkpoint every 0 steps: a number from 1 was expected"));
        }
        folder.place.prepare().map_err(at(&folder.path))?;
        folder.list()?;
        Ok(Checkpoints { folder, every, piece: PIECE, background: Mutex::default(), lock: OnceLock::new() })
    }

    /// Whether a checkpoint is due after this many steps.
    ///
    /// ```
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// let checkpoints = stradsap::Checkpoints::new(folder, 5)?;
    /// assert!(checkpoints.due(10) && !checkpoints.due(11));
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    pub fn due(&self, step: u64) -> bool {
        step != 0 && step.is_multiple_of(self.every)
    }

    /// Checks that the folder has no checkpoints, since those of another run could be mistaken for this run's.
    ///
    /// ```
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// let mut checkpoints = stradsap::Checkpoints::new(folder, 5)?;
    /// checkpoints.begin()?;
    /// checkpoints.save(5, &0.25, &[])?;
    /// assert_eq!(checkpoints.begin().unwrap_err().exit_code(), 2);
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] that names the folder. Also if another process uses it, which the message names.
    pub fn begin(&self) -> Result<()> {
        self.lock()?;
        drop(self.settled());
        match steps(&self.folder.list()?).next_back() {
            None => Ok(()),
            Some(step) => Err(Error::usage(format!(
                "{} holds checkpoints up to step {step}: resume from them, or give a folder without any",
                shown(&self.folder.path)
            ))),
        }
    }

    /// The newest undamaged checkpoint, or `None` if there are no checkpoints. Damaged ones are named on standard error.
    ///
    /// # Errors
    /// [`Error::File`] for the newest checkpoint, if all are damaged. [`Error::File`] for a checkpoint of another version of the
    /// format, or of a machine with another byte order, if it is newer than the newest undamaged one. [`Error::Usage`] if another
    /// process uses the folder.
    ///
    /// # Cost
    /// Each byte of the checkpoint is read and compared with its checksum.
    pub fn resume(&mut self) -> Result<Option<Checkpoint>> {
        self.lock()?;
        let mut background = self.settled();
        let mut newest = None;
        for step in steps(&self.folder.list()?).rev() {
            match self.folder.whole(step).map(Arc::new) {
                Ok(manifest) => {
                    background.bad.remove(&step);
                    background.known.insert(step, Known { manifest: Arc::clone(&manifest), checked: true });
                    let path = self.folder.file(&manifest::manifest_name(step));
                    let versions = Arc::clone(&background.versions);
                    return Ok(Some(Checkpoint { folder: self.folder.clone(), path, manifest, versions }));
                }
                Err(FolderTrouble { error, may_be_whole: true }) => return Err(error),
                Err(FolderTrouble { error, .. }) => {
                    eprintln!("skipped a checkpoint: {error}");
                    background.bad.insert(step);
                    background.known.remove(&step);
                    // What this process wrote may be what is damaged: it is written again.
                    locked(&background.versions).clear();
                    newest.get_or_insert(error);
                }
            }
        }
        newest.map_or(Ok(None), Err)
    }

    /// Saves what the program needs to go on after this many steps: a state of its own, and its vectors. A thread writes the
    /// checkpoint. When it is written completely it survives a power cut, and all but the last two checkpoints are deleted. Until
    /// then the earlier checkpoints stay as they are.
    ///
    /// # Errors
    /// [`Error::File`] if the checkpoint *before* could not be written, or if old files could not all be deleted. The new
    /// checkpoint is being written nonetheless. ([`finish`](Checkpoints::finish) reports the errors of the last one.)
    ///
    /// After all other errors nothing is being written: [`Error::File`] if the folder can't be read, has a checkpoint of another
    /// version of the format, or if workers can't write to it; [`Error::Usage`] if two vectors have the same name, or one has none, if the state takes more than 64
    /// MiB, if the folder has later checkpoints, which another run must have written, or if another process uses it.
    ///
    /// # Cost
    /// One copy of each vector that a loop or the program may have changed since it was last saved. The memory for the copies is
    /// kept for the next checkpoint, until [`finish`](Checkpoints::finish). If the checkpoint before is still being written, `save`
    /// waits for it. Of what workers have, 32 MiB are copied; for more `save` waits until it is on the disk
    /// ([checkpoints.md](https://github.com/stradsap/stradsap/blob/main/docs/checkpoints.md#on-workers)).
    ///
    /// # Panics
    /// If the state's own `Serialize` reports an error.
    pub fn save<S>(&mut self, step: u64, state: &S, vectors: &[(&str, &dyn Saved)]) -> Result<()>
    where
        S: Serialize + DeserializeOwned,
    {
        for (i, (name, _)) in vectors.iter().enumerate() {
            if name.is_empty() || vectors[..i].iter().any(|(other, _)| other == name) {
                return Err(Error::usage(format!(
                    "the vector `{name}` of a checkpoint: a name of its own was expected"
                )));
            }
        }
        self.lock()?;
        let mut background = self.settled();
        let listing = self.folder.list()?;
        background.look_over(&self.folder, &listing)?;
        if let Some(later) = background.known.keys().next_back().filter(|&&later| later > step) {
            return Err(Error::usage(format!(
                "{}: a checkpoint of step {later} is there before step {step}: resume from it, or give another folder",
                shown(&self.folder.file(&manifest::manifest_name(*later)))
            )));
        }
        let mut bytes = Vec::new();
        encode_serde(state, &mut bytes);
        if bytes.len() > LARGEST_STATE {
            return Err(Error::usage(format!(
                "the state of a checkpoint takes {} bytes, and at most {LARGEST_STATE} may: put it into a DVector",
                bytes.len()
            )));
        }
        let job = self.job(step, &bytes, vectors, &mut background, &listing)?;
        background.start(job)?;
        background.late.take().map_or(Ok(()), Err)
    }

    /// Waits until everything saved is on the disk. Call it at the end of a program. Dropping this value waits as well, but can
    /// only log errors.
    ///
    /// ```
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// let mut checkpoints = stradsap::Checkpoints::new(folder, 5)?;
    /// checkpoints.save(5, &0.25, &[])?;
    /// checkpoints.finish()?;
    /// assert!(folder.join("step-000000000005.checkpoint").exists());
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if the last checkpoint could not be written, or if old files could not all be deleted.
    pub fn finish(&mut self) -> Result<()> {
        let mut background = self.settled();
        background.spare.clear();
        background.late.take().map_or(Ok(()), Err)
    }

    /// Keeps other processes out, until this is dropped.
    fn lock(&self) -> Result<()> {
        if self.lock.get().is_none() {
            let _ = self.lock.set(self.folder.place.lock()?); // another thread's is as good
        }
        Ok(())
    }

    /// Waits for the write that is under way.
    fn settled(&self) -> MutexGuard<'_, Background> {
        let mut background = locked(&self.background);
        background.settle(&self.folder.path);
        background
    }

    /// Copies what has changed.
    fn job(
        &self,
        step: u64,
        state: &[u8],
        vectors: &[(&str, &dyn Saved)],
        background: &mut Background,
        listing: &Listing,
    ) -> Result<Job> {
        let mut versions = locked(&background.versions);
        // What somebody has deleted or cut meanwhile is written again.
        versions.retain(|_, files| files.iter().all(|data| listing.get(&data.file) == Some(&data.bytes)));
        let mut manifest = Manifest {
            format: FORMAT.to_owned(),
            version: VERSION,
            step,
            written: now(),
            build: Build::default(),
            byte_order: byte_order().to_owned(),
            word_bits: usize::BITS,
            state: hexadecimal(state),
            vectors: Vec::new(),
        };
        let mut spare = std::mem::take(&mut background.spare);
        let mut durable = versions.values().flatten().cloned().collect();
        let (mut placed, mut put, mut room) = (Vec::new(), Vec::new(), self.piece);
        for (i, (name, saved)) in vectors.iter().enumerate() {
            let mut sections = Vec::new();
            for (k, section) in saved.sections().into_iter().enumerate() {
                let mut of = Section::new(section.name, section.type_name, section.element_bytes, section.elements);
                let key = section.version.map(|version| (version, section.name));
                let mut copies = None;
                if let Some(files) = key.and_then(|key| versions.get(&key)) {
                    of.pieces.clone_from(files);
                } else if has_room(&section, &mut room)? {
                    let spare = spare.remove(&((*name).to_owned(), section.name)).unwrap_or_default();
                    let mut copied = Copies { spare, ..Copies::default() };
                    section.contents.encode(self.piece, &mut copied)?;
                    copies = Some(copied.pieces);
                } else {
                    let site = format!("saving `{name}`");
                    let mut away = Away { folder: &self.folder, durable: &mut durable, put: &mut put };
                    let written = away.write(&section, self.piece, site);
                    of.pieces = written.inspect_err(|_| discard(&self.folder, &background.known, &put))?;
                }
                placed.push(Placed { place: (i, k), name: section.name, version: section.version, copies });
                sections.push(of);
            }
            manifest.vectors.push(Entry { name: (*name).to_owned(), kind: saved.kind().to_owned(), sections });
        }
        Ok(Job { folder: self.folder.clone(), manifest, placed, known: background.known.clone(), durable, put })
    }
}

/// Whether a section is copied to this process's memory: where it is there already, or takes none of what there is for others.
fn has_room(section: &saved::sealed::Section<'_>, room: &mut usize) -> Result<bool> {
    if section.contents.whereabouts()? == Whereabouts::Here {
        return Ok(true);
    }
    let bytes = section.element_bytes.and_then(|size| size.checked_mul(section.elements));
    let left = bytes.and_then(|bytes| room.checked_sub(bytes));
    *room = left.unwrap_or(*room);
    Ok(left.is_some())
}

impl Drop for Checkpoints {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            background::warn(&format!("a checkpoint was not written: {error}"));
        }
    }
}

/// One checkpoint, whose checksums have been compared.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// let folder = std::path::Path::new("checkpoints");
/// # let temporary = tempfile::tempdir().unwrap();
/// # let folder = temporary.path();
/// let session = Session::new()?;
/// let names = DVector::from_vec(&session, vec!["a".to_string(), "b".to_string()])?;
/// let mut checkpoints = Checkpoints::new(folder, 1)?;
/// checkpoints.save(3, &0.25f32, &[("names", &names)])?;
///
/// let checkpoint = checkpoints.resume()?.expect("the one above");
/// assert_eq!((checkpoint.step(), checkpoint.state::<f32>()?), (3, 0.25));
/// assert_eq!(checkpoint.vector::<String>(&session, "names")?.to_vec()?, ["a", "b"]);
/// assert!(checkpoint.vector::<f64>(&session, "names").is_err());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Checkpoint {
    folder: Folder,
    path: PathBuf,
    manifest: Arc<Manifest>,
    versions: Versions,
}

impl Checkpoint {
    /// Opens a checkpoint by its manifest, the file `step-….checkpoint`, which names the other files. Each byte of all files is
    /// checked.
    ///
    /// # Errors
    /// [`Error::File`] for the file that can't be read, has another version, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let path = path.as_ref().to_path_buf();
        let (folder, name) = Folder::of_file(&path)?;
        let manifest = folder.read_manifest(name).map_err(|trouble| trouble.error)?;
        folder.check(&manifest)?;
        Ok(Checkpoint { folder, path, manifest: Arc::new(manifest), versions: Versions::default() })
    }

    /// The path of the manifest.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many steps the program had done when it saved the checkpoint.
    pub fn step(&self) -> u64 {
        self.manifest.step
    }

    /// The program's own state.
    ///
    /// # Errors
    /// [`Error::File`] if the checkpoint has no state, or one whose bytes are none of this type. (Types aren't written: a `u32` is read as an
    /// `f32` without an error.)
    pub fn state<S: Serialize + DeserializeOwned>(&self) -> Result<S> {
        let bytes = self.manifest.state().ok_or_else(|| bad(&self.path, "its state is not hexadecimal"))?;
        let mut rest = &bytes[..];
        match decode_serde(&mut rest) {
            Ok(state) if rest.is_empty() => Ok(state),
            Ok(_) => Err(bad(self.path(), "it holds a state of another type: bytes are left over")),
            Err(error) => Err(bad(self.path(), format!("it holds a state of another type: {error}"))),
        }
    }

    /// A vector, by the name with which it was saved. If its elements are plain and there are workers, they read it and keep its elements.
    ///
    /// # Errors
    /// [`Error::File`] if a file has changed since it was checked, or if the checkpoint has no vector of this name with such
    /// elements.
    pub fn vector<T: Element>(&self, session: &Session, name: &str) -> Result<DVector<T>> {
        saved::load(self, session, name)
    }

    /// A matrix, by the name with which it was saved; a vector of arrays can be read as one, and the other way round.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> stradsap::Result<()> {
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// let session = Session::new()?;
    /// let width = 5;
    /// let rows = DMatrix::from_fn(&session, 3, width, |i, k| (i + k) as f32)?;
    /// let mut checkpoints = Checkpoints::new(folder, 1)?;
    /// checkpoints.save(1, &(), &[("rows", &rows)])?;
    /// checkpoints.finish()?;
    ///
    /// let checkpoint = checkpoints.resume()?.expect("the one above");
    /// let again = checkpoint.matrix::<f32>(&session, "rows")?;
    /// assert_eq!((again.width(), again.to_vec()?), (5, rows.to_vec()?));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if a file has changed since it was checked, or if the checkpoint has no rows of this name and type.
    pub fn matrix<T: Element>(&self, session: &Session, name: &str) -> Result<DMatrix<T>> {
        saved::load_matrix(self, session, name)
    }

    /// A map, by the name with which it was saved.
    ///
    /// ```
    /// use stradsap::prelude::*;
    ///
    /// # fn main() -> stradsap::Result<()> {
    /// let folder = std::path::Path::new("checkpoints");
    /// # let temporary = tempfile::tempdir().unwrap();
    /// # let folder = temporary.path();
    /// let session = Session::new()?;
    /// let ages = DMap::from_entries(&session, [("Ada".to_string(), 36u32), ("Alan".to_string(), 41)])?;
    /// let mut checkpoints = Checkpoints::new(folder, 1)?;
    /// checkpoints.save(1, &(), &[("ages", &ages)])?;
    /// checkpoints.finish()?;
    ///
    /// let checkpoint = checkpoints.resume()?.expect("the one above");
    /// assert_eq!(checkpoint.map::<String, u32>(&session, "ages")?.get("Ada")?, Some(36));
    /// assert!(checkpoint.vector::<u32>(&session, "ages").is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if a file has changed since it was checked, or if the checkpoint has no map of this name with such entries.
    pub fn map<K: Key, V: Element>(&self, session: &Session, name: &str) -> Result<DMap<K, V>> {
        saved::load_map(self, session, name)
    }

    /// A map with several values for each key, by the name with which it was saved.
    ///
    /// # Errors
    /// As [`map`](Checkpoint::map).
    pub fn multi_map<K: Key, V: Element>(&self, session: &Session, name: &str) -> Result<DMultiMap<K, V>> {
        saved::load_map(self, session, name).map(DMultiMap::from)
    }

    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn folder(&self) -> &Folder {
        &self.folder
    }

    /// Contents that were read: the next checkpoint of the same folder needn't write them again.
    fn record_loaded(&self, version: u64, name: &str, section: &'static str) {
        let entry = self.manifest.vectors.iter().find(|entry| entry.name == name);
        let found = entry.and_then(|entry| entry.sections.iter().find(|found| found.name == section));
        if let Some(found) = found {
            locked(&self.versions).insert((version, section), found.pieces.clone());
        }
    }
}
