//! A file system in memory that knows what of it is on the disk, fails where it is told to, and can lose its power.
//!
//! What a disk holds after a crash: all that was synced, and of the rest anything. The contents of a file and the names in
//! a folder are synced apart from each other. Operations on names that were not synced may each be there or not, whatever
//! came before them; a write that was not synced may be there up to any byte, or as zeros.

use std::collections::BTreeMap;
use std::io::{self, Cursor, Error, ErrorKind, Read};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use super::nowhere;
use crate::checkpoint::disk::{Directory, FileLayer, FileWriter};
use crate::checkpoint::folder::Folder;
use crate::checkpoint::lock::Lock;

/// What happens at an operation that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// From the operation of this number on nothing happens any more.
    Crash(usize),
    /// That one gives this error; a write has written half.
    Fail(usize, ErrorKind),
    /// All from that one on do.
    FailFrom(usize, ErrorKind),
    Never,
}

/// Which promises the disk doesn't keep: to see that tests notice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lies {
    pub(super) about_contents: bool,
    pub(super) about_names: bool,
}

#[derive(Clone, Debug, Default)]
struct Contents {
    durable: Vec<u8>,
    now: Vec<u8>,
}

/// An operation on names that may not be on the disk.
#[derive(Clone, Debug)]
enum Naming {
    Create(String, usize),
    Rename(String, String, usize),
    Remove(String),
}

#[derive(Clone, Debug, Default)]
struct State {
    files: Vec<Contents>,
    durable: BTreeMap<String, usize>,
    now: BTreeMap<String, usize>,
    pending: Vec<Naming>,
    done: usize,
    log: Vec<&'static str>,
}

/// The file system. Clones are the same one.
#[derive(Clone, Debug)]
pub(super) struct Faulty {
    state: Arc<Mutex<State>>,
    fault: Fault,
    lies: Lies,
}

/// What of a file's last, unsynced bytes is on the disk.
#[derive(Clone, Copy, Debug)]
pub(super) enum Torn {
    /// Those up to here.
    At(usize),
    /// As many zeros.
    Zeros,
}

impl Faulty {
    pub(super) fn new(fault: Fault) -> Faulty {
        Faulty { state: Arc::default(), fault, lies: Lies::default() }
    }

    pub(super) fn lying(fault: Fault, lies: Lies) -> Faulty {
        Faulty { lies, ..Faulty::new(fault) }
    }

    pub(super) fn folder(&self) -> Folder {
        let path = nowhere().to_path_buf();
        Folder::over(Directory { layer: Arc::new(self.clone()), path: path.clone(), tag: String::new() }, path)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// The names of the operations so far.
    pub(super) fn log(&self) -> Vec<&'static str> {
        self.state().log.clone()
    }

    /// How many operations on names are not on the disk.
    pub(super) fn pending(&self) -> usize {
        self.state().pending.len()
    }

    /// The longest run of bytes that were written and not synced.
    pub(super) fn unsynced(&self) -> usize {
        self.state().files.iter().map(|file| file.now.len().saturating_sub(file.durable.len())).max().unwrap_or(0)
    }

    /// A disk as it may be after the power went: the pending operations on names whose bits are set were done, and files
    /// are torn.
    pub(super) fn after_crash(&self, names: u64, torn: Torn) -> Faulty {
        let state = self.state();
        let mut durable = state.durable.clone();
        let pending = state.pending.iter().enumerate().filter(|(i, _)| names >> i & 1 == 1);
        for (_, naming) in pending {
            match naming {
                Naming::Create(name, file) => {
                    durable.insert(name.clone(), *file);
                }
                Naming::Rename(from, to, file) => {
                    if durable.get(from) == Some(file) {
                        durable.remove(from);
                    }
                    durable.insert(to.clone(), *file);
                }
                Naming::Remove(name) => {
                    durable.remove(name);
                }
            }
        }
        let tear = |file: &Contents| {
            let new = file.now.get(file.durable.len()..).unwrap_or_default();
            let rest = match torn {
                Torn::At(n) => new[..n.min(new.len())].to_vec(),
                Torn::Zeros => vec![0; new.len()],
            };
            let bytes = [&file.durable[..], &rest].concat();
            Contents { durable: bytes.clone(), now: bytes }
        };
        let files = state.files.iter().map(tear).collect();
        let fresh = State { files, now: durable.clone(), durable, ..State::default() };
        Faulty { state: Arc::new(Mutex::new(fresh)), fault: Fault::Never, lies: Lies::default() }
    }

    /// The same files, whose operations count anew.
    pub(super) fn with_fault(&self, fault: Fault) -> Faulty {
        let state = State { done: 0, log: Vec::new(), ..self.state().clone() };
        Faulty { state: Arc::new(Mutex::new(state)), fault, lies: self.lies }
    }

    /// A file's bytes, to damage them.
    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let state = self.state();
        state.files[state.now[name]].now.clone()
    }

    pub(super) fn replace(&self, name: &str, bytes: &[u8]) {
        let mut state = self.state();
        state.files.push(Contents { durable: bytes.to_vec(), now: bytes.to_vec() });
        let file = state.files.len() - 1;
        state.now.insert(name.to_owned(), file);
        state.durable.insert(name.to_owned(), file);
    }

    /// Counts an operation that changes something.
    fn begin(&self, state: &mut State, operation: &'static str) -> io::Result<()> {
        state.done += 1;
        state.log.push(operation);
        match self.fault {
            Fault::Crash(n) if state.done >= n => Err(Error::other("the power is off")),
            Fault::Fail(n, kind) if state.done == n => Err(kind.into()),
            Fault::FailFrom(n, kind) if state.done >= n => Err(kind.into()),
            _ => Ok(()),
        }
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

fn missing() -> Error {
    ErrorKind::NotFound.into()
}

impl FileLayer for Faulty {
    fn create_folder(&self, _folder: &Path) -> io::Result<()> {
        Ok(())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn FileWriter>> {
        let mut state = self.state();
        self.begin(&mut state, "create")?;
        // Whether an old file of this name is emptied first makes no difference: nobody reads unfinished ones.
        state.files.push(Contents::default());
        let file = state.files.len() - 1;
        state.now.insert(name_of(path), file);
        state.pending.push(Naming::Create(name_of(path), file));
        Ok(Box::new(Writer { disk: self.clone(), file }))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.begin(&mut state, "rename")?;
        let file = state.now.remove(&name_of(from)).ok_or_else(missing)?;
        state.now.insert(name_of(to), file);
        state.pending.push(Naming::Rename(name_of(from), name_of(to), file));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.begin(&mut state, "remove")?;
        state.now.remove(&name_of(path)).ok_or_else(missing)?;
        state.pending.push(Naming::Remove(name_of(path)));
        Ok(())
    }

    fn list(&self, _folder: &Path) -> io::Result<Vec<(String, u64)>> {
        let state = self.state();
        Ok(state.now.iter().map(|(name, &file)| (name.clone(), state.files[file].now.len() as u64)).collect())
    }

    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read>, u64)> {
        let state = self.state();
        let file = *state.now.get(&name_of(path)).ok_or_else(missing)?;
        let bytes = state.files[file].now.clone();
        let size = bytes.len() as u64;
        Ok((Box::new(Cursor::new(bytes)), size))
    }

    fn lock(&self, _folder: &Path) -> crate::Result<Option<Arc<Lock>>> {
        Ok(None)
    }

    fn sync_folder(&self, _folder: &Path) -> io::Result<()> {
        let mut state = self.state();
        self.begin(&mut state, "sync folder")?;
        if !self.lies.about_names {
            state.durable = state.now.clone();
            state.pending.clear();
        }
        Ok(())
    }
}

struct Writer {
    disk: Faulty,
    file: usize,
}

impl FileWriter for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.disk.state();
        let begun = self.disk.begin(&mut state, "write");
        // What fails on the way, or is under way when the power goes, has written something.
        let n =
            if begun.is_ok() || self.disk.fault == Fault::Crash(state.done) { bytes.len() } else { bytes.len() / 2 };
        if !matches!(self.disk.fault, Fault::Crash(crash) if state.done > crash) {
            let file = self.file;
            state.files[file].now.extend_from_slice(&bytes[..n]);
        }
        begun
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut state = self.disk.state();
        self.disk.begin(&mut state, "sync")?;
        if !self.disk.lies.about_contents {
            let file = &mut state.files[self.file];
            file.durable = file.now.clone();
        }
        Ok(())
    }
}
