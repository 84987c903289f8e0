//! What is under way while the program goes on, and what this process knows of its checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

use super::folder::{Folder, FolderTrouble, Listing, at, steps};
use super::manifest::DataFile;
use super::write::{Job, Key, Known, Outcome, Spare, Written};
use crate::{Error, Result};

/// Contents whose files are whole and on the disk.
pub(super) type Versions = Arc<Mutex<BTreeMap<Key, Vec<DataFile>>>>;

#[derive(Debug, Default)]
pub(super) struct Background {
    running: Option<JoinHandle<Outcome>>,
    /// What went wrong with a write that the program has not heard of yet.
    pub(super) late: Option<Error>,
    /// Manifests in the folder that were read, by their steps.
    pub(super) known: BTreeMap<u64, Known>,
    /// Damaged ones: they are deleted once there is a good one.
    pub(super) bad: BTreeSet<u64>,
    pub(super) versions: Versions,
    pub(super) spare: Spare,
}

impl Background {
    /// Waits for the write that is under way, and notes how it went.
    pub(super) fn settle(&mut self, folder: &Path) {
        let Some(running) = self.running.take() else { return };
        let outcome = running.join().unwrap_or_else(|_| {
            let source = std::io::Error::other("the thread that writes checkpoints panicked");
            Outcome { written: None, failed: Some(at(folder)(source)), spare: Spare::new() }
        });
        self.spare = outcome.spare;
        if let Some(Written { manifests, versions }) = outcome.written {
            self.known = manifests;
            if outcome.failed.is_none() {
                self.bad.clear();
            }
            let mut all = locked(&self.versions);
            all.extend(versions);
            let kept: BTreeSet<&DataFile> = self.known.values().flat_map(|known| known.manifest.files()).collect();
            all.retain(|_, files| files.iter().all(|data| kept.contains(data)));
        }
        if let Some(error) = outcome.failed
            && let Some(before) = self.late.replace(error)
        {
            warn(&format!("a checkpoint was not written: {before}"));
        }
    }

    /// Reads the manifests that are there and not known yet.
    pub(super) fn look_over(&mut self, folder: &Folder, listing: &Listing) -> Result<()> {
        let there: BTreeSet<u64> = steps(listing).collect();
        self.known.retain(|step, _| there.contains(step));
        self.bad.retain(|step| there.contains(step));
        for step in there {
            if self.known.contains_key(&step) || self.bad.contains(&step) {
                continue;
            }
            match folder.manifest(step) {
                Ok(manifest) => {
                    self.known.insert(step, Known { manifest: Arc::new(manifest), checked: false });
                }
                // Which files it needs isn't known, so nothing may be deleted beside it.
                Err(FolderTrouble { error, may_be_whole: true }) => return Err(error),
                Err(_) => {
                    self.bad.insert(step);
                }
            }
        }
        Ok(())
    }

    /// Has a thread write a checkpoint.
    pub(super) fn start(&mut self, job: Job) -> Result<()> {
        let thread = Builder::new().name("stradsap-checkpoint".to_owned()).spawn(move || job.run());
        let running = thread.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        self.running = Some(running);
        Ok(())
    }
}

/// A panic elsewhere leaves nothing half done here.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Tells a person: in the log where there is one, otherwise on standard error.
pub(super) fn warn(text: &str) {
    if tracing::enabled!(tracing::Level::WARN) {
        tracing::warn!("{text}");
    } else {
        eprintln!("warning: {text}");
    }
}
