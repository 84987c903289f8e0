//! Checkpoints: the state of a program after so many steps, kept in files, from which a later run goes on.

mod format;
mod vectors;

use std::collections::BTreeMap;
use std::fs::{File, create_dir_all, read_dir, remove_file, rename};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::__private::{decode_serde, encode_serde};
use crate::{DVector, Element, Error, Result, Session};
use format::{Reader, Writer, bad};
pub use vectors::Saved;

/// The section that holds the program's own state; vectors have names.
const STATE: &str = "";
/// How many checkpoints stay: the newest, and one to fall back to.
const KEPT: usize = 2;
const UNFINISHED: &str = "checkpoint.unfinished";

/// A folder of checkpoints, one file each. The last two are kept.
///
/// A program that goes on from a checkpoint ends with the same bits as one that was never interrupted, if it continues
/// from nothing but what it saved, and if the elements that its loops touch don't depend on the values of others.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path().join("checkpoints");
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
///         if checkpoints.due(step + 1) {
///             checkpoints.save(step + 1, &(), &[("x", &x)])?;
///         }
///     }
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
    folder: PathBuf,
    every: u64,
    /// Bad files that were found: they are deleted once there is a good one.
    bad: Vec<PathBuf>,
}

impl Checkpoints {
    /// Checkpoints in a folder, which is created where needed, `every` so many steps.
    ///
    /// # Errors
    /// [`Error::Usage`] for every 0 steps; [`Error::File`] if the folder can't be created or read.
    pub fn new(folder: impl Into<PathBuf>, every: u64) -> Result<Checkpoints> {
        if every == 0 {
            return Err(Error::usage("a checkpoint every 0 steps: a number from 1 was expected"));
        }
        let folder = folder.into();
        create_dir_all(&folder).map_err(at(&folder))?;
        let checkpoints = Checkpoints { folder, every, bad: Vec::new() };
        checkpoints.files().map(|_| checkpoints)
    }

    /// Whether a checkpoint is due after so many steps.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let checkpoints = stradsap::Checkpoints::new(folder.path(), 5)?;
    /// assert!(checkpoints.due(10) && !checkpoints.due(11));
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    pub fn due(&self, step: u64) -> bool {
        step != 0 && step.is_multiple_of(self.every)
    }

    /// Checks that there are no checkpoints: those of another run would be mistaken for this one's.
    ///
    /// ```
    /// # let folder = tempfile::tempdir().unwrap();
    /// let mut checkpoints = stradsap::Checkpoints::new(folder.path(), 5)?;
    /// checkpoints.begin()?;
    /// checkpoints.save(5, &0.25, &[])?;
    /// assert_eq!(checkpoints.begin().unwrap_err().exit_code(), 2);
    /// # Ok::<(), stradsap::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] with the folder.
    pub fn begin(&self) -> Result<()> {
        match self.files()?.last_key_value() {
            None => Ok(()),
            Some((step, _)) => Err(Error::usage(format!(
                "{} holds checkpoints up to step {step}: resume from them, or give a folder without any",
                self.folder.display()
            ))),
        }
    }

    /// The newest checkpoint that is whole, if there are any at all. Those that are not are named on standard error.
    ///
    /// # Errors
    /// [`Error::File`] with the newest, if none is whole.
    pub fn resume(&mut self) -> Result<Option<Checkpoint>> {
        let mut newest = None;
        for path in self.files()?.into_values().rev() {
            match Checkpoint::open(&path) {
                Ok(checkpoint) => return Ok(Some(checkpoint)),
                Err(error) => {
                    eprintln!("skipped a checkpoint: {error}");
                    newest.get_or_insert(error);
                    self.bad.push(path);
                }
            }
        }
        newest.map_or(Ok(None), Err)
    }

    /// Writes what the program needs to go on after so many steps: a state of its own and its vectors. The file appears
    /// whole or not at all, and stays through a power cut; then all but the last two are deleted.
    ///
    /// # Errors
    /// [`Error::File`] if it can't be written; the checkpoints before it stay then. [`Error::Usage`] if two vectors have
    /// the same name, or none, or if the folder holds later checkpoints, which another run must have written.
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
        let mut files = self.files()?;
        files.retain(|_, path| !self.bad.contains(path));
        if let Some((later, path)) = files.last_key_value().filter(|&(&later, _)| later > step) {
            return Err(Error::usage(format!(
                "{}: a checkpoint of step {later} is there before step {step}: resume from it, or give another folder",
                path.display()
            )));
        }

        let path = self.folder.join(format!("step-{step:012}.checkpoint"));
        let unfinished = self.folder.join(UNFINISHED);
        self.write(&unfinished, step, state, vectors).inspect_err(|_| {
            let _ = remove_file(&unfinished); // the first error is the one to tell
        })?;
        rename(&unfinished, &path).map_err(at(&path))?;
        // The name is in the folder: without this it may be gone after a power cut.
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(at(&self.folder))?;

        self.bad.retain(|bad| *bad != path);
        files.insert(step, path);
        let old = files.len().saturating_sub(KEPT);
        for path in files.into_values().take(old).chain(self.bad.drain(..)) {
            match remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(at(&path)(error)),
                _ => {}
            }
        }
        Ok(())
    }

    fn write<S>(&self, path: &Path, step: u64, state: &S, vectors: &[(&str, &dyn Saved)]) -> Result<()>
    where
        S: Serialize + DeserializeOwned,
    {
        let mut writer = Writer::create(path)?;
        let mut bytes = Vec::new();
        encode_serde(state, &mut bytes);
        writer.write(&bytes)?;
        writer.end_section(STATE, None, 1)?;
        for (name, vector) in vectors {
            vector.save(name, &mut writer)?;
        }
        writer.finish(step)
    }

    /// The files with checkpoints' names, by their steps.
    fn files(&self) -> Result<BTreeMap<u64, PathBuf>> {
        let mut files = BTreeMap::new();
        for entry in read_dir(&self.folder).map_err(at(&self.folder))? {
            let path = entry.map_err(at(&self.folder))?.path();
            let step = path
                .file_name()
                .and_then(|name| name.to_str())
                .and_then(|name| name.strip_prefix("step-")?.strip_suffix(".checkpoint")?.parse().ok());
            if let Some(step) = step {
                files.insert(step, path);
            }
        }
        Ok(files)
    }
}

/// One checkpoint, found to be whole.
///
/// ```
/// use stradsap::prelude::*;
///
/// # fn main() -> stradsap::Result<()> {
/// # let folder = tempfile::tempdir().unwrap();
/// # let folder = folder.path();
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
    reader: Reader,
}

impl Checkpoint {
    /// A file, every byte of which is checked.
    ///
    /// # Errors
    /// [`Error::File`] if it can't be read, is no checkpoint of this version, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Checkpoint> {
        let reader = Reader::open(path.as_ref())?;
        reader.check_sections()?;
        Ok(Checkpoint { reader })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// How many steps the program had done.
    pub fn step(&self) -> u64 {
        self.reader.step()
    }

    /// The program's own state.
    ///
    /// # Errors
    /// [`Error::File`] if the file changed meanwhile, or holds no such state.
    pub fn state<S: Serialize + DeserializeOwned>(&self) -> Result<S> {
        let bytes = self.reader.section(STATE)?;
        let mut rest = &bytes[..];
        match decode_serde(&mut rest) {
            Ok(state) if rest.is_empty() => Ok(state),
            Ok(_) => Err(bad(self.path(), "it holds a state of another type: bytes are left over")),
            Err(error) => Err(bad(self.path(), format!("it holds a state of another type: {error}"))),
        }
    }

    /// A vector, by the name with which it was saved.
    ///
    /// # Errors
    /// [`Error::File`] if the file changed meanwhile, or holds no such vector of such elements.
    pub fn vector<T: Element>(&self, session: &Session, name: &str) -> Result<DVector<T>> {
        vectors::load(&self.reader, session, name)
    }
}

fn at(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_path_buf();
    move |source| Error::File { path, source }
}
