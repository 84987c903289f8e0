//! Files that appear whole or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Result};

const BUFFER: usize = 1 << 18;

/// Why a file was not filled.
pub(super) enum Failure {
    Io(io::Error),
    Other(Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Io(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Other(error)
    }
}

/// Writes a file in one step: it has what it had, or all of the new. A name that ends in `.gz` is packed.
pub(super) fn write(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<(), Failure>) -> Result<()> {
    let ends_in = |end: &str| path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(end));
    if ends_in("zst") {
        return Err(Error::usage(format!("{}: writing packs as .gz; no .zst was expected", path.display())));
    }
    let written = || -> Result<(), Failure> {
        if path.file_name().is_none() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a name of a file was expected").into());
        }
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = temporary_in(folder)?;
        let mut out = BufWriter::with_capacity(BUFFER, file.as_file());
        if ends_in("gz") {
            let mut packed = BufWriter::with_capacity(BUFFER, GzEncoder::new(out, Compression::default()));
            fill(&mut packed)?;
            packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?.flush()?;
        } else {
            fill(&mut out)?;
            out.flush()?;
            drop(out);
        }
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        // The name is in the folder: without this it may be gone after a power cut.
        Ok(File::open(folder)?.sync_all()?)
    };
    written().map_err(|failure| match failure {
        Failure::Io(source) => Error::File { path: path.to_path_buf(), source },
        Failure::Other(error) => error,
    })
}

/// Temporary files are private by default; these become ordinary ones, as the umask allows.
fn temporary_in(folder: &Path) -> io::Result<tempfile::NamedTempFile> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".stradsap-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    // The temporary file's own name would say nothing to a reader.
    builder.tempfile_in(folder).map_err(|error| {
        let text = error.to_string();
        io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or(&text))
    })
}
