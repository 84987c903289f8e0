//! Opening files so that no call waits for ever.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use super::{PATIENCE, is_fifo};

/// How often a thread that waits for a writer is woken.
const TRIES: usize = 100;

/// Opens what is to be read from its beginning to its end: a file, a device, a pipe, or a FIFO, which gets 30 s for its writer
/// to come.
///
/// # Errors
/// What the system says, and a FIFO that nobody writes to.
pub fn open(path: &Path) -> io::Result<File> {
    let fifo = is_fifo(&fs::metadata(path)?);
    // A pipe without a name (`/dev/stdin`, `<(command)`) is there already, and leads nowhere.
    if fifo && fs::canonicalize(path).is_ok() { open_fifo(path, PATIENCE) } else { File::open(path) }
}

/// Opens a regular file, and nothing else: for what has to know how long it is, or is read more than once.
///
/// # Errors
/// What the system says, and what it is if it is something else.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK | libc::O_NOCTTY);
    let file = options.open(path)?;
    let found = file.metadata()?;
    if found.is_file() {
        return Ok(file);
    }
    let what = match (found.is_dir(), is_fifo(&found)) {
        (true, _) => "a folder",
        (_, true) => "a FIFO or pipe",
        _ => "a device or socket",
    };
    Err(io::Error::new(ErrorKind::InvalidInput, format!("this is {what}; a regular file was expected")))
}

/// Opens a FIFO, on a thread that can be left behind for a moment: it waits until there is a writer.
pub(super) fn open_fifo(path: &Path, patience: Duration) -> io::Result<File> {
    let (sender, receiver) = mpsc::channel();
    let name = path.to_path_buf();
    std::thread::Builder::new().name("stradsap-fifo".to_string()).spawn(move || sender.send(File::open(name)))?;
    if let Ok(opened) = receiver.recv_timeout(patience) {
        return opened;
    }
    // Ends the thread's waiting, lest it be the reader of a later writer; but for a FIFO that has lost its name.
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK);
    for _ in 0..TRIES {
        let _writer = options.open(path);
        let ended = receiver.recv_timeout(Duration::from_millis(10));
        if !matches!(ended, Err(mpsc::RecvTimeoutError::Timeout)) {
            break;
        }
    }
    let problem = format!("nobody has opened this FIFO for writing within {} s", patience.as_secs());
    Err(io::Error::new(ErrorKind::TimedOut, problem))
}
