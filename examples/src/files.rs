//! The library's `stradsap::files`, with errors that say what was tried.

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use stradsap::{Checkpoints, files};

use crate::{Error, Result};

/// Opens a file for reading; one whose name ends in `.gz` or `.zst` is unpacked.
///
/// # Errors
/// [`Error::File`].
pub fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let input = stradsap::open_unpacked(path).map_err(|error| match error {
        stradsap::Error::File { source, .. } => Error::file("read", path, source),
        other => Error::file("read", path, io::Error::other(other)),
    })?;
    Ok(Box::new(BufReader::with_capacity(1 << 18, input)))
}

/// [`open`] for a file that is read more than once, which only a regular one can be.
///
/// # Errors
/// [`Error::File`].
pub fn open_regular(path: &Path) -> Result<Box<dyn BufRead>> {
    files::open_regular(path).map_err(|e| Error::file("read", path, e))?;
    open(path)
}

/// A file that is complete beside its destination and not yet under its name.
#[derive(Debug)]
pub struct Staged {
    file: files::Staged,
    path: PathBuf,
}

impl Staged {
    /// Writes a file beside its name, or what can't be replaced itself.
    ///
    /// # Errors
    /// [`Error::File`] when the folder or the disk doesn't take it; nothing is left behind then.
    pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Staged> {
        let file = files::Staged::write(path, fill).map_err(|e| Error::file("write", path, e))?;
        Ok(Staged { file, path: path.to_path_buf() })
    }

    /// Gives the file its name, replacing what had it.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be renamed.
    pub fn commit(self) -> Result<()> {
        self.file.commit().map_err(|e| Error::file("write", &self.path, e))
    }
}

/// Writes a file in one step: it has its old content, or all of the new.
///
/// # Errors
/// [`Error::File`].
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    files::write(path, fill).map_err(|e| Error::file("write", path, e))
}

/// Creates a folder and those that it lies in.
///
/// # Errors
/// [`Error::File`].
pub fn create_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::file("create folder", path, e))
}

/// Checks that a file can be written later, and changes nothing.
///
/// # Errors
/// [`Error::File`] when `path` is a folder, or when its folder is missing or can't be written.
pub fn check_file(path: &Path) -> Result<()> {
    files::check(path).map_err(|e| Error::file("write", path, e))
}

/// Checks that files can be written into a folder later, and changes nothing: the folder may not exist yet.
///
/// # Errors
/// [`Error::File`] when `path`, or the nearest folder above it that exists, isn't a folder or can't be written.
pub fn check_folder(path: &Path) -> Result<()> {
    files::check_folder(path).map_err(|e| Error::file("write into folder", path, e))
}

/// Checks that checkpoints can be kept in a folder or an object store later, and changes nothing.
///
/// # Errors
/// [`Error::File`] as [`check_folder`], or if the store can't be reached; [`Error::Usage`] for an address that can't be used.
pub fn check_checkpoints(path: &Path) -> Result<()> {
    Checkpoints::check(path).map_err(|error| match error {
        stradsap::Error::File { path, source } => Error::file("write into folder", &path, source),
        other => Error::Usage { option: "--checkpoint", problem: other.to_string() },
    })
}
