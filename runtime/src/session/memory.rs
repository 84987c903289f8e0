//! A limit for what the process has in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use stradsap_dds_server::amounts;

use crate::memory::buffer::free_large_blocks_at_once;
use crate::memory::spill::Spill;
use crate::session::error::{Error, Result};
use crate::session::logging::warning;
use crate::session::{Session, env, locked};

/// The least limit: less than the library itself needs.
const LEAST: u64 = 1 << 20;

impl Session {
    /// Keeps the memory of this process, and that of each worker, near `limit` bytes from now on. Large DDSs that are made later, and
    /// copies that loops make of them, lie in files without names in `folder`; as much of them as there is room for is in memory. So a program can train a
    /// model, and use data, larger than the machine's memory. The environment sets the same with `STRADSAP_MEMORY` (`2GiB`) and
    /// `STRADSAP_SPILL` (the folder; by default that of temporary files).
    ///
    /// Workers use the same folder, unless their own environment names another. They keep snapshots in files, too.
    ///
    /// No result depends on it. The limit is one for the whole process: the last session that sets one decides. It ends with the
    /// session and the DDSs that were made under it.
    ///
    /// ```
    /// # let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    /// # if !cfg!(target_os = "linux") { return Ok(()) }
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{DVector, Session};
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// session.set_memory(64 << 20, folder)?;
    /// let numbers = DVector::from_fn(&session, 20 << 20, |i| i as f64)?; // 160 MiB, of which 64 are in memory
    /// assert_eq!(numbers.get(19 << 20)?, (19 << 20) as f64);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for a limit below 1 MiB, and on other systems than Linux; [`Error::File`] if nothing can be written in the
    /// folder, or if the folder itself lies in memory; [`Error::Cluster`], with the worker's name, if that is so of a worker's. If the disk has no room for a DDS later, the DDS stays in memory, with a
    /// warning.
    ///
    /// # Cost
    /// The plan of an asynchronous loop that is a grid, or has no conflicts, says which elements each block needs. These are read
    /// ahead, and those that are needed last leave first. Other loops and operators read what they touch when they touch it. Some
    /// data always stays in memory: plans (4 bytes for each iteration, and more while one is made), elements that own memory
    /// (`String`, `Vec`) and maps, tables of synchronous loops, and what a reader of a file has not yet handed over. A worker's folder needs
    /// room for the whole of each DDS of which it holds a part.
    pub fn set_memory(&self, limit: u64, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        if limit < LEAST {
            return Err(Error::usage(format!("a limit of {limit} bytes of memory: at least {LEAST} were expected")));
        }
        if cfg!(not(target_os = "linux")) {
            return Err(Error::usage("a limit of memory is offered on Linux alone"));
        }
        free_large_blocks_at_once();
        let spill = Spill::begin(limit, folder, |text| warning!("{text}"));
        let spill = spill.map_err(|source| Error::File { path: folder.to_path_buf(), source })?;
        *locked(&self.inner.spill) = Some(spill);
        self.inner.elements().limit_memory()
    }

    /// Sets the limit of a worker's driver, with the folder that this process's environment names, if it does. A limit of this
    /// process's environment stays.
    #[cfg(feature = "cluster")]
    pub(crate) fn follow_memory(&self, limit: u64, folder: &Path) -> Result<()> {
        if own_limit()?.is_some() {
            return Ok(());
        }
        let folder = own_folder()?.unwrap_or_else(|| folder.to_path_buf());
        let folder = std::path::absolute(&folder).unwrap_or(folder);
        let current = |spill: &Arc<Spill>| spill.limit() == limit && spill.folder() == folder;
        if locked(&self.inner.spill).as_ref().is_some_and(current) { Ok(()) } else { self.set_memory(limit, folder) }
    }

    /// Sets the limit that the environment asks for.
    pub(super) fn limit_memory(&self) -> Result<()> {
        match own_limit()? {
            Some(limit) => self.set_memory(limit, own_folder()?.unwrap_or_else(std::env::temp_dir)),
            None => Ok(()),
        }
    }
}

/// Reads an amount of memory as `STRADSAP_MEMORY` has it, for command lines: `1048576`, `500MB`, `2GiB`, `1.5 GiB`.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// assert_eq!(stradsap::parse_bytes("2GiB"), Ok(2 << 30));
/// assert_eq!(stradsap::parse_bytes("2G").unwrap_err(), "expected a number of bytes such as 2GiB or 500MB");
/// ```
///
/// # Errors
/// What was expected.
pub fn parse_bytes(text: &str) -> std::result::Result<u64, String> {
    amounts::bytes(text).ok_or_else(|| format!("expected {}", amounts::EXPECTED))
}

/// What the environment asks for.
fn own_limit() -> Result<Option<u64>> {
    let Some(text) = env("STRADSAP_MEMORY")?.filter(|text| !text.trim().is_empty()) else { return Ok(None) };
    let limit = amounts::bytes(&text).filter(|&limit| limit >= LEAST).ok_or_else(|| {
        Error::usage(format!("STRADSAP_MEMORY={text}: {} was expected, at least {LEAST}", amounts::EXPECTED))
    })?;
    Ok(Some(limit))
}

fn own_folder() -> Result<Option<PathBuf>> {
    Ok(env("STRADSAP_SPILL")?.filter(|text| !text.is_empty()).map(PathBuf::from))
}
