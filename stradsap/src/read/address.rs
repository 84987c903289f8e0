//! Addresses: `s3://bucket/key`.

use std::path::Path;
#[cfg(feature = "remote")]
use std::{io, path::PathBuf};

#[cfg(feature = "remote")]
use url::Url;

#[cfg(feature = "remote")]
use crate::{Error, Result};

/// What stands before `://`, if this is an address. (A single letter is a drive.)
pub(crate) fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    (scheme.len() > 1 && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())).then_some(scheme)
}

#[cfg(feature = "remote")]
pub(crate) fn parse(path: &Path) -> io::Result<Url> {
    let invalid = |error| io::Error::new(io::ErrorKind::InvalidInput, error);
    Url::parse(&path.to_string_lossy()).map_err(invalid)
}

/// The path that a `file://` address names.
#[cfg(feature = "remote")]
pub(crate) fn local(path: &Path) -> Result<PathBuf> {
    let elsewhere = || io::Error::new(io::ErrorKind::InvalidInput, "a file of this machine was expected: file:///...");
    let found = parse(path).and_then(|url| url.to_file_path().map_err(|()| elsewhere()));
    found.map_err(|source| Error::File { path: path.to_path_buf(), source })
}
