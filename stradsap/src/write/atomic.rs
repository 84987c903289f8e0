//! Files that appear whole or not at all, packed if their names say so.

use std::io::{self, BufWriter, Write};
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::{Error, Result, files};

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
        return Err(Error::usage(format!("{}: writing packs as .gz; no .zst was expected", files::shown(path))));
    }
    let written = files::write(path, |out| {
        if !ends_in("gz") {
            return fill(out);
        }
        let mut packed = BufWriter::with_capacity(BUFFER, GzEncoder::new(out, Compression::default()));
        fill(&mut packed)?;
        packed.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
        Ok(())
    });
    written.map_err(|failure| match failure {
        Failure::Io(source) => Error::File { path: path.to_path_buf(), source },
        Failure::Other(error) => error,
    })
}
