//! Checkpoints in a folder, and what that asks of a file system, so that tests can put one in its place that fails.

use std::fmt::Debug;
use std::fs::{File, create_dir_all, read_dir, remove_file, rename};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder::at;
use super::lock::{self, Lock};
use super::place::{Hold, NotWritten, Place};
use crate::Result;

/// At the end of a file's name while it is written.
pub(super) const UNFINISHED: &str = ".unfinished";
/// What is written at once.
const CHUNK: usize = 8 << 20;

/// Operations on files. Nothing is promised of what was not synced: it may be there after a crash, or in part, or not.
pub(super) trait FileLayer: Debug + Send + Sync {
    /// Creates a folder, and those above it.
    fn create_folder(&self, folder: &Path) -> io::Result<()>;
    /// A new, empty file, in place of one of that name.
    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>>;
    /// Gives a file another name, in place of one that has it.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Names and sizes of the files in a folder. Names that are not text are none of a checkpoint's.
    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>>;
    /// A file from its beginning, and its size.
    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)>;
    /// Keeps other processes from writing checkpoints to a folder, if that can be had.
    fn lock(&self, folder: &Path) -> Result<Option<Arc<Lock>>>;
    /// Has the names in a folder reach the disk: without this a rename may be undone by a power cut.
    fn sync_folder(&self, folder: &Path) -> io::Result<()>;
}

/// A file that is being written.
pub(super) trait FileWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Has what was written reach the disk.
    fn sync(&mut self) -> io::Result<()>;
}

/// A folder of a file system.
#[derive(Debug)]
pub(super) struct Directory {
    pub(super) layer: Arc<dyn FileLayer>,
    pub(super) path: PathBuf,
    /// What unfinished files have in their names beside, so that no two processes write one.
    pub(super) tag: String,
}

impl Place for Directory {
    fn check(&self) -> io::Result<()> {
        crate::files::check_folder(&self.path)
    }

    fn prepare(&self) -> io::Result<()> {
        self.layer.create_folder(&self.path)
    }

    fn list(&self) -> io::Result<Vec<(String, u64)>> {
        self.layer.list(&self.path)
    }

    fn read(&self, name: &str) -> io::Result<(Box<dyn Read>, u64)> {
        self.layer.read(&self.path.join(name))
    }

    /// Under a name that says that it is unfinished first; it gets its own when it is whole and on the disk.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), NotWritten> {
        let (from, to) = (self.path.join(format!("{name}{}{UNFINISHED}", self.tag)), self.path.join(name));
        let filled = self.layer.create(&from).and_then(|mut file| {
            bytes.chunks(CHUNK).try_for_each(|chunk| file.write(chunk))?;
            file.sync()
        });
        let discard = |_: &NotWritten| {
            let _ = self.layer.remove(&from); // only the first error is reported, and the next save tries again
        };
        filled.map_err(|error| NotWritten { error: at(&from)(error), absent: true }).inspect_err(discard)?;
        let named = self.layer.rename(&from, &to);
        named.map_err(|error| NotWritten { error: at(&to)(error), absent: false }).inspect_err(discard)
    }

    fn mark(&self, name: &str) -> io::Result<Option<PathBuf>> {
        self.layer.create(&self.path.join(name))?.sync()?;
        std::path::absolute(&self.path).map(Some)
    }

    fn sync(&self) -> io::Result<()> {
        self.layer.sync_folder(&self.path)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.layer.remove(&self.path.join(name))
    }

    fn lock(&self) -> Result<Option<Arc<dyn Hold>>> {
        Ok(self.layer.lock(&self.path)?.map(|lock| lock as Arc<dyn Hold>))
    }

    /// A disk that gives an error for a file gives it again.
    fn is_out_of_reach(&self, _error: &io::Error) -> bool {
        false
    }
}

/// The operating system's files.
#[derive(Debug)]
pub(super) struct Disk;

impl FileLayer for Disk {
    fn create_folder(&self, folder: &Path) -> io::Result<()> {
        create_dir_all(folder)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        // (What has the name may be a FIFO, which would wait for a reader.)
        let file = File::create_new(path).or_else(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => remove_file(path).and_then(|()| File::create_new(path)),
            _ => Err(error),
        })?;
        Ok(Box::new(file))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        remove_file(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<(String, u64)>> {
        let mut files = Vec::new();
        for entry in read_dir(folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            // One that another process has deleted meanwhile is none.
            match entry.metadata() {
                Ok(metadata) => files.push((name, metadata.len())),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(files)
    }

    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)> {
        let file = crate::files::open_regular(path)?;
        let size = file.metadata()?.len();
        Ok((Box::new(file), size))
    }

    fn lock(&self, folder: &Path) -> Result<Option<Arc<Lock>>> {
        lock::take(folder)
    }

    #[cfg(unix)]
    fn sync_folder(&self, folder: &Path) -> io::Result<()> {
        File::open(folder)?.sync_all()
    }

    /// Elsewhere a folder can't be opened as a file, and a rename is as durable as the system makes it.
    #[cfg(not(unix))]
    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl FileWriter for File {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_all()
    }
}
