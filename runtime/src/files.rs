//! Files that are written whole: what has the name holds what it held, or all of the new. And files that are opened for
//! reading, without waiting for ever.
//!
//! ```
//! # use stradsap_runtime as stradsap;
//! use std::io::Write;
//! use std::path::Path;
//!
//! # let folder = tempfile::tempdir()?;
//! let path = Path::new("result.txt");
//! # let path = &folder.path().join(path);
//! stradsap::files::check(path)?; // before the work: can it be written?
//! stradsap::files::write(path, |out| writeln!(out, "42"))?;
//! assert_eq!(std::fs::read_to_string(path)?, "42\n");
//! # Ok::<(), std::io::Error>(())
//! ```
//!
//! A regular file, or a name that nothing has yet, is written under another name in the same folder, brought to the disk, and
//! renamed; it keeps its permissions. A symbolic link stays one, and what it leads to gets the content. Anything else, such as
//! a device or a FIFO, can't be replaced and is written to; so is the file that standard output or standard error goes to.

mod reading;

use std::fmt::{self, Display, Write as _};
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tempfile::NamedTempFile;

pub use self::reading::{open, open_regular};

/// How long who is at the other end of a FIFO may take to come.
const PATIENCE: Duration = Duration::from_secs(30);
/// How many links may lead to each other: as many as Linux follows.
const MOST_LINKS: usize = 40;
const BUFFER: usize = 1 << 18;

/// Writes a file in one step.
///
/// # Errors
/// The error of `fill`, or of the system; the file is then unchanged. A FIFO that no process reads within 30 s is an error as
/// well. A FIFO or a device may have received a part.
pub fn write<E: From<io::Error>>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<(), E>) -> Result<(), E> {
    Ok(Staged::write(path, fill)?.commit()?)
}

/// Checks that a file can be written later, and changes nothing. Devices and FIFOs are not opened.
///
/// # Errors
/// The error that writing it would give: the path is a folder, for instance, or its folder is missing.
pub fn check(path: &Path) -> io::Result<()> {
    match Destination::of(path)? {
        Destination::Replaced(path, _) => temporary_in(folder_of(&path)).map(drop),
        Destination::Stream(_) => Ok(()),
        Destination::Other { .. } if fs::metadata(path)?.permissions().readonly() => {
            Err(io::Error::from(ErrorKind::PermissionDenied))
        }
        Destination::Other { .. } => Ok(()),
    }
}

/// Checks that files can be written into a folder later, and changes nothing. The folder need not exist yet.
///
/// # Errors
/// The folder, or the nearest one above it that exists, isn't a folder or can't be written.
pub fn check_folder(path: &Path) -> io::Result<()> {
    let nearest = path.ancestors().find(|path| path.exists()).filter(|path| !path.as_os_str().is_empty());
    let nearest = nearest.unwrap_or(Path::new("."));
    if !nearest.is_dir() {
        return Err(io::Error::from(ErrorKind::NotADirectory));
    }
    temporary_in(nearest).map(drop)
}

/// A file that is complete, but still has a temporary name beside its destination. So several files can be completed before the
/// first gets its name. A destination that can't be replaced (a device, a FIFO) has been written to already.
#[derive(Debug)]
#[must_use]
pub struct Staged {
    waiting: Option<(NamedTempFile, PathBuf)>,
}

impl Staged {
    /// Writes a temporary file in the folder of `path`, and syncs it to the disk.
    ///
    /// # Errors
    /// As [`write()`].
    pub fn write<E: From<io::Error>>(
        path: &Path,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Staged, E> {
        let (path, permissions) = match Destination::of(path)? {
            Destination::Replaced(path, permissions) => (path, permissions),
            Destination::Stream(file) => return Staged::straight(&file, false, fill),
            Destination::Other { fifo, disk } => {
                return Staged::straight(&open_other(path, fifo, PATIENCE)?, disk, fill);
            }
        };
        let file = temporary_in(folder_of(&path))?;
        if let Some(permissions) = permissions {
            file.as_file().set_permissions(permissions)?;
        }
        let mut out = BufWriter::with_capacity(BUFFER, file.as_file());
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        file.as_file().sync_all()?;
        Ok(Staged { waiting: Some((file, path)) })
    }

    fn straight<E: From<io::Error>>(
        file: &File,
        disk: bool,
        fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
    ) -> Result<Staged, E> {
        let mut out = BufWriter::with_capacity(BUFFER, Patient(file));
        fill(&mut out)?;
        out.flush()?;
        drop(out);
        if disk {
            file.sync_all()?;
        }
        Ok(Staged { waiting: None })
    }

    /// Gives the file its name. A file that has this name is replaced.
    ///
    /// # Errors
    /// The system's error.
    pub fn commit(self) -> io::Result<()> {
        let Some((file, path)) = self.waiting else { return Ok(()) };
        file.persist(&path).map_err(|error| error.error)?;
        // The name is in the folder: without this it may be gone after a power cut.
        if cfg!(unix) { File::open(folder_of(&path))?.sync_all() } else { Ok(()) }
    }
}

/// A path for a message. Control characters and bytes that are no text are escaped, since they could break the line or control a
/// terminal.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// assert_eq!(stradsap::files::shown("a\nb.csv").to_string(), "a\\nb.csv");
/// ```
pub fn shown<P: AsRef<Path> + ?Sized>(path: &P) -> impl Display {
    Shown(path.as_ref())
}

struct Shown<'a>(&'a Path);

impl Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.as_os_str().as_encoded_bytes().utf8_chunks() {
            for letter in chunk.valid().chars() {
                if letter.is_control() { write!(f, "{}", letter.escape_default())? } else { f.write_char(letter)? }
            }
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        Ok(())
    }
}

/// Where what is written to a path goes.
enum Destination {
    /// The file of this name, which is there with these permissions or will be.
    Replaced(PathBuf, Option<Permissions>),
    /// What a stream of this process goes to: it would not see a file in place of its own.
    Stream(File),
    /// Neither file nor folder.
    Other { fifo: bool, disk: bool },
}

impl Destination {
    fn of(path: &Path) -> io::Result<Destination> {
        if path.file_name().is_none() {
            return Err(io::Error::new(ErrorKind::InvalidInput, "a name of a file was expected"));
        }
        let found = match fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(Destination::Replaced(behind_links(path)?, None));
            }
            found => found?,
        };
        if found.is_dir() {
            return Err(io::Error::from(ErrorKind::IsADirectory));
        }
        if let Some(stream) = stream_of(&found) {
            io::stdout().flush()?; // what the program has said comes first
            return Ok(Destination::Stream(stream));
        }
        if found.is_file() {
            return Ok(Destination::Replaced(fs::canonicalize(path)?, Some(found.permissions())));
        }
        Ok(Destination::Other { fifo: is_fifo(&found), disk: is_disk(&found) })
    }
}

/// The name that a chain of links leads to, which nothing has yet.
fn behind_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = folder_of(&path).join(next),
            Err(_) => return Ok(path),
        }
    }
    Err(io::Error::other("too many symbolic links lead to each other"))
}

#[cfg(unix)]
fn is_fifo(found: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_fifo(&found.file_type())
}

#[cfg(unix)]
fn is_disk(found: &Metadata) -> bool {
    std::os::unix::fs::FileTypeExt::is_block_device(&found.file_type())
}

#[cfg(not(unix))]
fn is_fifo(_: &Metadata) -> bool {
    false
}

#[cfg(not(unix))]
fn is_disk(_: &Metadata) -> bool {
    false
}

/// Standard output or standard error, if that is what was found.
#[cfg(unix)]
fn stream_of(found: &Metadata) -> Option<File> {
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::MetadataExt;
    let same = |stream: BorrowedFd<'_>| {
        let file = File::from(stream.try_clone_to_owned().ok()?);
        let own = file.metadata().ok()?;
        ((own.dev(), own.ino()) == (found.dev(), found.ino())).then_some(file)
    };
    same(io::stdout().as_fd()).or_else(|| same(io::stderr().as_fd()))
}

#[cfg(not(unix))]
fn stream_of(_: &Metadata) -> Option<File> {
    None
}

/// Opens what is there to be written to. A FIFO can be opened once it has a reader.
fn open_other(path: &Path, fifo: bool, patience: Duration) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let since = Instant::now();
    loop {
        match options.open(path) {
            Err(error) if fifo && nobody_reads(&error) => {}
            opened => return opened,
        }
        if since.elapsed() >= patience {
            let problem = format!("nobody has opened this FIFO for reading within {} s", patience.as_secs());
            return Err(io::Error::new(ErrorKind::TimedOut, problem));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(unix)]
fn nobody_reads(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENXIO)
}

#[cfg(not(unix))]
fn nobody_reads(_: &io::Error) -> bool {
    false
}

/// Writes to what was opened so that opening it doesn't block: where there is no room now, there will be.
struct Patient<'a>(&'a File);

impl Write for Patient<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.0.write(bytes) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(1)),
                written => return written,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
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
        builder.permissions(Permissions::from_mode(0o666));
    }
    // The temporary file's own name would say nothing to a reader.
    builder.tempfile_in(folder).map_err(|error| {
        let text = error.to_string();
        io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or(&text))
    })
}

#[cfg(test)]
#[path = "files_tests.rs"]
mod tests;
