//! Where checkpoints lie: a folder of files, or objects in a store that have a prefix.

use std::fmt::Debug;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::disk::{Directory, Disk};
use super::folder::{Folder, bad};
use crate::Result;
use crate::read::address;

/// Files by their names, each of which is there whole or not at all.
pub(super) trait Place: Debug + Send + Sync {
    /// Whether it can be made ready, as far as that can be known without a change.
    fn check(&self) -> io::Result<()>;
    /// Makes it ready for the first checkpoint, if it isn't.
    fn prepare(&self) -> io::Result<()>;
    /// Names and sizes of the files. Names that are not text are none of a checkpoint's.
    fn list(&self) -> io::Result<Vec<(String, u64)>>;
    /// A file from its beginning, and its size.
    fn read(&self, name: &str) -> io::Result<(Box<dyn Read>, u64)>;
    /// Writes a file, in place of one of that name.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), NotWritten>;
    /// Makes a file without contents, for other processes to look for; gives the folder or the address where it is, if others may see it
    /// at all.
    fn mark(&self, _name: &str) -> io::Result<Option<PathBuf>> {
        Ok(None)
    }
    /// From here on all that was written stays through a power cut.
    fn sync(&self) -> io::Result<()>;
    fn remove(&self, name: &str) -> io::Result<()>;
    /// Keeps other processes from writing checkpoints here, if that can be had.
    fn lock(&self) -> Result<Option<Arc<dyn Hold>>>;
    /// Whether an error of reading is no sign that the file is damaged: it could not be asked for.
    fn is_out_of_reach(&self, error: &io::Error) -> bool;
}

/// A place that only this process writes to, until this is dropped.
pub(super) trait Hold: Debug + Send + Sync {}

/// Why a file was not written.
#[derive(Debug)]
pub(super) struct NotWritten {
    pub(super) error: crate::Error,
    /// It is not there. Otherwise it may be: the answer may have been lost and not the request.
    pub(super) absent: bool,
}

impl Folder {
    /// The folder that a path names, or the place in a store that an address names.
    pub(super) fn open(path: &Path) -> Result<Folder> {
        match address::scheme(path) {
            None => Ok(Folder::on_disk(path.to_path_buf())),
            Some(scheme) => Folder::at_address(path, scheme),
        }
    }

    /// The folder that a file lies in, and the file's name there.
    pub(super) fn of_file(path: &Path) -> Result<(Folder, &str)> {
        let folder = Folder::open(path.parent().unwrap_or(Path::new("")))?;
        let name = path.file_name().unwrap_or_default().to_str();
        Ok((folder, name.ok_or_else(|| bad(path, "a name in UTF-8 was expected"))?))
    }

    /// A folder of the operating system's.
    pub(super) fn on_disk(path: PathBuf) -> Folder {
        Folder::over(Directory { layer: Arc::new(Disk), path: path.clone(), tag: String::new() }, path)
    }

    pub(super) fn over(place: impl Place + 'static, path: PathBuf) -> Folder {
        Folder { place: Arc::new(place), path }
    }

    #[cfg(feature = "remote")]
    fn at_address(path: &Path, scheme: &str) -> Result<Folder> {
        if scheme == "file" {
            return Ok(Folder::on_disk(address::local(path)?));
        }
        Ok(Folder::over(super::store::Objects::open(path)?, path.to_path_buf()))
    }

    #[cfg(not(feature = "remote"))]
    fn at_address(path: &Path, scheme: &str) -> Result<Folder> {
        Err(crate::Error::usage(format!(
            "{}: this program keeps checkpoints in folders only; for those at {scheme}:// it has to be built with the \
             feature `remote` of stradsap",
            crate::files::shown(path)
        )))
    }
}
