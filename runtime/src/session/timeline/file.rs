//! The file that a timeline is written to when its session ends.

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use super::json::{self, Process};
use super::{WANTED, now, take};
use crate::files;
use crate::session::error::{Error, Result};
use crate::session::late;
use crate::session::logging::warning;

/// A file to be written. While it is there, this process records.
#[derive(Debug)]
pub(crate) struct TimelineFile {
    path: PathBuf,
    written: bool,
}

impl TimelineFile {
    /// Begins to record. Whether the file can be written is tried now, not when the work is done.
    pub(crate) fn begin(path: &Path) -> Result<TimelineFile> {
        files::check(path).map_err(|source| Error::File { path: path.to_path_buf(), source })?;
        now();
        WANTED.fetch_add(1, Relaxed);
        Ok(TimelineFile { path: path.to_path_buf(), written: false })
    }

    /// Writes this process's events and those of others. The program is at its end: it ends with what goes wrong here.
    pub(crate) fn write(&mut self, others: Vec<Process>) {
        self.written = true;
        let here = Process { name: "driver".to_string(), place: 0, ahead: 0, recorded: take() };
        let processes: Vec<Process> = std::iter::once(here).chain(others).collect();
        for Process { name, recorded, .. } in processes.iter().filter(|process| process.recorded.left_out > 0) {
            warning!(
                "{}: {} later events of {name} are left out, after {}",
                files::shown(&self.path),
                recorded.left_out,
                recorded.events.len()
            );
        }
        let written = files::write(&self.path, |out| json::write(&processes, out));
        let _ = written.map_err(|source| late::record(Error::File { path: self.path.clone(), source }));
    }
}

impl Drop for TimelineFile {
    fn drop(&mut self) {
        if !self.written {
            self.write(Vec::new());
        }
        WANTED.fetch_sub(1, Relaxed);
    }
}
