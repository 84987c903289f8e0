//! A limit for what the process has in memory.

use std::path::{Path, PathBuf};

use crate::memory::spill::Spill;
use crate::session::error::{Error, Result};
use crate::session::logging::warning;
use crate::session::{Session, env, locked};

/// The least limit: less than the library itself needs.
const LEAST: u64 = 1 << 20;

impl Session {
    /// Keeps the memory of this process near `limit` bytes from now on. Large DDSs that are made later, and copies that loops make
    /// of them, lie in files without names in `folder`; as much of them as there is room for is in memory. So a program can train a
    /// model, and use data, larger than the machine's memory. The environment sets the same with `STRADSAP_MEMORY` (bytes) and
    /// `STRADSAP_SPILL` (the folder; by default that of temporary files).
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
    /// folder, or if the folder itself lies in memory. If the disk has no room for a DDS later, the DDS stays in memory, with a
    /// warning.
    ///
    /// # Cost
    /// The plan of an asynchronous loop that is a grid, or has no conflicts, says which elements each block needs. These are read
    /// ahead, and those that are needed last leave first. Other loops and operators read what they touch when they touch it. Some
    /// data always stays in memory: plans (4 bytes for each iteration, and more while one is made), elements that own memory
    /// (`String`, `Vec`), what a reader of a file has not yet handed over, and the elements of workers.
    pub fn set_memory(&self, limit: u64, folder: impl AsRef<Path>) -> Result<()> {
        let folder = folder.as_ref();
        if limit < LEAST {
            return Err(Error::usage(format!("a limit of {limit} bytes of memory: at least {LEAST} were expected")));
        }
        if cfg!(not(target_os = "linux")) {
            return Err(Error::usage("a limit of memory is offered on Linux alone"));
        }
        let spill = Spill::begin(limit, folder, |text| warning!("{text}"));
        let spill = spill.map_err(|source| Error::File { path: folder.to_path_buf(), source })?;
        *locked(&self.inner.spill) = Some(spill);
        Ok(())
    }

    /// Sets the limit that the environment asks for.
    pub(super) fn limit_memory(&self) -> Result<()> {
        let Some(text) = env("STRADSAP_MEMORY")?.filter(|text| !text.trim().is_empty()) else { return Ok(()) };
        let limit = text.trim().parse().ok().filter(|&limit| limit >= LEAST);
        let limit = limit.ok_or_else(|| {
            Error::usage(format!("STRADSAP_MEMORY={text}: a number of bytes was expected, at least {LEAST}"))
        })?;
        self.set_memory(limit, env("STRADSAP_SPILL")?.map_or_else(std::env::temp_dir, PathBuf::from))
    }
}
