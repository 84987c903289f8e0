//! One job at a time writes to a folder of checkpoints: each deletes what it doesn't know.
//!
//! The system's lock on a file in the folder says who does. It ends with its process, however that ends; reading needs none.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions, TryLockError, canonicalize, read_to_string, remove_file};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use super::background::{locked, warn};
use super::origin::now;
use super::place::Hold;
use crate::__private::host_name;
use crate::files::shown;
use crate::{Error, Result};

pub(super) const NAME: &str = ".stradsap.lock";
/// Of these one is mine, or the file is another by now.
const TRIES: usize = 100;

/// A folder that only this process writes checkpoints to.
#[derive(Debug)]
pub(super) struct Lock {
    path: PathBuf,
    file: File,
}

impl Hold for Lock {}

impl Drop for Lock {
    fn drop(&mut self) {
        // While it is locked: nobody else takes it for theirs.
        if is_at(&self.file, &self.path) {
            let _ = remove_file(&self.path); // one that stays is not locked
        }
    }
}

/// Locks a folder, unless another process has it. Within this process it is one lock. Where the system can't lock, there is
/// none, and a person is warned.
pub(super) fn take(folder: &Path) -> Result<Option<Arc<Lock>>> {
    static HELD: Mutex<BTreeMap<PathBuf, Weak<Lock>>> = Mutex::new(BTreeMap::new());
    let path = canonicalize(folder).unwrap_or_else(|_| folder.to_path_buf()).join(NAME);
    let mut held = locked(&HELD);
    held.retain(|_, lock| lock.strong_count() > 0);
    if let Some(lock) = held.get(&path).and_then(Weak::upgrade) {
        return Ok(Some(lock));
    }
    match acquire(&path) {
        Ok(file) => {
            let lock = Arc::new(Lock { path: path.clone(), file });
            held.insert(path, Arc::downgrade(&lock));
            Ok(Some(lock))
        }
        Err(TryLockError::WouldBlock) => {
            let mut holder = read_to_string(&path).unwrap_or_default();
            for _ in 0..TRIES {
                if !holder.is_empty() {
                    break;
                }
                // It has the lock, and is about to say so.
                std::thread::sleep(Duration::from_millis(1));
                holder = read_to_string(&path).unwrap_or_default();
            }
            let holder = holder.lines().next().filter(|line| !line.is_empty()).unwrap_or("another process");
            Err(in_use(folder, holder))
        }
        // Who may not write here can only read.
        Err(TryLockError::Error(error)) if is_forbidden(&error) => Ok(None),
        Err(TryLockError::Error(error)) => {
            let folder = shown(folder);
            warn(&format!("{folder} can't be locked ({error}): see to it that no other job uses it at the same time"));
            Ok(None)
        }
    }
}

/// Who holds a lock, for people.
pub(super) fn this_process() -> String {
    format!("process {} on {} since {}", std::process::id(), host_name(), now())
}

/// The error of a job that finds another one in its folder. Who that is comes from a file.
pub(super) fn in_use(folder: &Path, holder: &str) -> Error {
    let holder: String = holder.chars().filter(|c| !c.is_control()).take(200).collect();
    let folder = shown(folder);
    Error::usage(format!("{folder} is in use by {holder}: one job at a time keeps its checkpoints in a folder"))
}

fn acquire(path: &Path) -> std::result::Result<File, TryLockError> {
    for _ in 0..TRIES {
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path);
        let mut file = opened.map_err(TryLockError::Error)?;
        file.try_lock()?;
        // Who had it before may have deleted it since it was opened.
        if is_at(&file, path) {
            let holder = format!("{}\n", this_process());
            // Only for people: the lock holds without it.
            let _ = file.set_len(0).and_then(|()| file.write_all(holder.as_bytes()));
            return Ok(file);
        }
    }
    Err(TryLockError::Error(io::Error::other("its lock file is deleted again and again")))
}

fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether this file has this name.
#[cfg(unix)]
fn is_at(file: &File, path: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let place = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    let own = place(file.metadata());
    own.is_some() && own == place(std::fs::symlink_metadata(path))
}

/// Elsewhere a file that is open can't be deleted.
#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}
