//! The file that a timeline is written to when its session ends.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;

use super::json::{self, Process};
use super::{WANTED, now, take};
use crate::session::error::{Error, Result};
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
        let probe = || {
            if path.is_dir() {
                return Err(io::Error::from(io::ErrorKind::IsADirectory));
            }
            let unfinished = unfinished(path)?;
            File::create(&unfinished)?;
            fs::remove_file(&unfinished)
        };
        probe().map_err(|source| Error::File { path: path.to_path_buf(), source })?;
        now();
        WANTED.fetch_add(1, Relaxed);
        Ok(TimelineFile { path: path.to_path_buf(), written: false })
    }

    /// Writes this process's events and those of others. What can't be written is a warning: the program is at its end,
    /// and its results stand.
    pub(crate) fn write(&mut self, others: Vec<Process>) {
        self.written = true;
        let here = Process { name: "driver".to_string(), place: 0, ahead: 0, recorded: take() };
        let processes: Vec<Process> = std::iter::once(here).chain(others).collect();
        for Process { name, recorded, .. } in processes.iter().filter(|process| process.recorded.left_out > 0) {
            warning!(
                "{}: {} later events of {name} are left out, after {}",
                self.path.display(),
                recorded.left_out,
                recorded.events.len()
            );
        }
        if let Err(error) = self.put(&processes) {
            warning!("no timeline: {}: {error}", self.path.display());
        }
    }

    fn put(&self, processes: &[Process]) -> io::Result<()> {
        let unfinished = unfinished(&self.path)?;
        let write = || {
            let mut out = BufWriter::new(File::create(&unfinished)?);
            json::write(processes, &mut out)?;
            out.flush()?;
            out.get_ref().sync_all()?;
            fs::rename(&unfinished, &self.path)
        };
        write().inspect_err(|_| {
            // Half a file helps nobody; the error that matters is the first.
            let _ = fs::remove_file(&unfinished);
        })
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

/// Where a file grows before it gets its name.
fn unfinished(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "it has no file name"))?;
    let mut name = name.to_os_string();
    name.push(".unfinished");
    Ok(path.with_file_name(name))
}
