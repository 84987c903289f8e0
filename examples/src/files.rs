//! Files that appear whole or not at all, and the check that they can be written, made before the work that fills them.

use std::fs;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use flate2::bufread::MultiGzDecoder;
use tempfile::NamedTempFile;

use crate::{Error, Result};

/// Opens a file for reading; one whose name ends in `.gz` is unpacked.
///
/// # Errors
/// [`Error::File`].
pub fn open(path: &Path) -> Result<Box<dyn BufRead>> {
    let file = fs::File::open(path).map_err(|e| Error::file("read", path, e))?;
    let file = BufReader::with_capacity(1 << 18, file);
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz")) {
        Ok(Box::new(BufReader::with_capacity(1 << 18, MultiGzDecoder::new(file))))
    } else {
        Ok(Box::new(file))
    }
}

/// A file that is complete beside its destination and not yet under its name.
#[derive(Debug)]
pub struct Staged {
    file: NamedTempFile,
    path: PathBuf,
}

impl Staged {
    /// Writes a temporary file in the folder of `path`, and has it reach the disk.
    ///
    /// # Errors
    /// [`Error::File`] when the folder or the disk doesn't take it; nothing is left behind then.
    pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<Staged> {
        let write = || {
            let mut file = temporary_in(folder_of(path))?;
            let mut out = BufWriter::new(file.as_file_mut());
            fill(&mut out)?;
            out.flush()?;
            drop(out);
            file.as_file().sync_all()?;
            Ok(Staged { file, path: path.to_path_buf() })
        };
        write().map_err(|e| Error::file("write", path, e))
    }

    /// Gives the file its name, replacing what had it.
    ///
    /// # Errors
    /// [`Error::File`] when it can't be renamed.
    pub fn commit(self) -> Result<()> {
        let Staged { file, path } = self;
        let rename = || {
            file.persist(&path).map_err(|e| e.error)?;
            // The name is in the folder: without this it may be gone after a power cut.
            fs::File::open(folder_of(&path))?.sync_all()
        };
        rename().map_err(|e| Error::file("write", &path, e))
    }
}

/// Writes a file in one step: it has its old content, or all of the new.
///
/// # Errors
/// [`Error::File`].
pub fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
    Staged::write(path, fill)?.commit()
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
    let probe = || {
        if path.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"));
        }
        temporary_in(folder_of(path)).map(drop)
    };
    probe().map_err(|e| Error::file("write", path, e))
}

/// Checks that files can be written into a folder later, and changes nothing: the folder may not exist yet.
///
/// # Errors
/// [`Error::File`] when `path`, or the nearest folder above it that exists, isn't a folder or can't be written.
pub fn check_folder(path: &Path) -> Result<()> {
    let probe = || {
        let nearest = path.ancestors().find(|p| p.exists()).filter(|p| !p.as_os_str().is_empty());
        let nearest = nearest.unwrap_or(Path::new("."));
        if !nearest.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        temporary_in(nearest).map(drop)
    };
    probe().map_err(|e| Error::file("write into folder", path, e))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Temporary files are private by default; these become ordinary ones, as the umask allows.
fn temporary_in(folder: &Path) -> io::Result<NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".stradsap-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|e| without_path(&e))
}

/// The error without the path of the temporary file, which would say nothing to a reader.
fn without_path(error: &io::Error) -> io::Error {
    let text = error.to_string();
    let said = text.split(" at path ").next().unwrap_or(&text);
    io::Error::new(error.kind(), said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        write(&path, |w| w.write_all(b"first")).unwrap();
        let failed = write(&path, |w| {
            w.write_all(b"half")?;
            Err(io::Error::other("full"))
        });
        assert_eq!(failed.unwrap_err().to_string(), format!("can't write {}: full", path.display()));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        write(&path, |w| w.write_all(b"second")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file is left");
    }

    #[test]
    fn checks_change_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        check_folder(&root.join("a/b/c")).unwrap();
        check_file(&root.join("report.json")).unwrap();
        assert_eq!(fs::read_dir(root).unwrap().count(), 0);

        fs::write(root.join("plain"), "").unwrap();
        assert!(check_folder(&root.join("plain")).is_err());
        assert!(check_folder(&root.join("plain/below")).is_err());
        assert!(check_file(root).is_err());
        let missing = check_file(&root.join("missing/report.json")).unwrap_err().to_string();
        assert!(missing.ends_with("No such file or directory (os error 2)"), "{missing}");
    }
}
