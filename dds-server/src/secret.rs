//! The secret of a job: who knows it may take part.
//!
//! It comes from the environment or from a file that only its owner can read, never from a command line, which every
//! user of a machine can see.

use std::fmt;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// The variable that holds the secret as 64 hexadecimal digits.
pub const SECRET_VARIABLE: &str = "STRADSAP_SECRET";

/// The variable that names a file with the secret.
pub const SECRET_FILE_VARIABLE: &str = "STRADSAP_SECRET_FILE";

/// 256 bits that only the processes of a job know. Its `Debug` shows none of them.
///
/// ```
/// use stradsap_dds_server::secret::Secret;
///
/// let secret = Secret::generate()?;
/// assert!(Secret::from_hex(&secret.to_hex())? == secret);
/// assert_eq!(format!("{secret:?}"), "Secret(..)");
/// # Ok::<(), stradsap_dds_server::secret::SecretError>(())
/// ```
#[derive(Clone)]
pub struct Secret([u8; 32]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl PartialEq for Secret {
    /// Takes the same time wherever the two differ.
    fn eq(&self, other: &Self) -> bool {
        blake3::Hash::from_bytes(self.0) == blake3::Hash::from_bytes(other.0)
    }
}

impl Eq for Secret {}

/// Why there is no secret.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// The system gave no random bytes.
    #[error("the system gave no random bytes for a secret: {0}")]
    Random(getrandom::Error),
    /// This is not a secret.
    #[error("{from}: a secret is 64 hexadecimal digits, but this has {found} bytes or other characters")]
    Malformed {
        /// The variable or file that it came from.
        from: String,
        /// The bytes that were there.
        found: usize,
    },
    /// Both variables are set.
    #[error("set {SECRET_VARIABLE} or {SECRET_FILE_VARIABLE}, not both")]
    Both,
    /// The file can be read by others than its owner.
    #[error("{path}: others can read or change this file (mode {mode:04o}): a secret needs mode 0600", path = path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The file could not be read or written.
    #[error("{path}: {error}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        error: io::Error,
    },
}

impl Secret {
    /// A new secret, from the system's random numbers.
    ///
    /// # Errors
    /// [`SecretError::Random`].
    pub fn generate() -> Result<Secret, SecretError> {
        Ok(Secret(random()?))
    }

    /// The secret with these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }

    /// The secret as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// The secret with these 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`SecretError::Malformed`].
    pub fn from_hex(digits: &str) -> Result<Secret, SecretError> {
        Self::parse(digits, "the secret")
    }

    fn parse(digits: &str, from: &str) -> Result<Secret, SecretError> {
        match blake3::Hash::from_hex(digits) {
            Ok(hash) => Ok(Secret(*hash.as_bytes())),
            // The message says nothing of what was there: it may be a secret with a slip.
            Err(_) => Err(SecretError::Malformed { from: from.to_owned(), found: digits.len() }),
        }
    }

    /// The secret from `STRADSAP_SECRET`, or from the file that `STRADSAP_SECRET_FILE` names.
    ///
    /// # Errors
    /// Those of [`from_hex`](Secret::from_hex) and [`from_file`](Secret::from_file); [`SecretError::Both`].
    pub fn from_environment() -> Result<Option<Secret>, SecretError> {
        #[cfg(feature = "simulation")]
        if let Some(process) = crate::simulation::current() {
            return Self::from_variables(|name| process.variable(name));
        }
        Self::from_variables(|name| std::env::var_os(name))
    }

    /// As [`from_environment`](Secret::from_environment), with the variables looked up by `get`.
    ///
    /// # Errors
    /// As [`from_environment`](Secret::from_environment).
    pub fn from_variables(get: impl Fn(&str) -> Option<std::ffi::OsString>) -> Result<Option<Secret>, SecretError> {
        match (get(SECRET_VARIABLE), get(SECRET_FILE_VARIABLE)) {
            (Some(_), Some(_)) => Err(SecretError::Both),
            (Some(digits), None) => Self::parse(digits.to_string_lossy().trim(), SECRET_VARIABLE).map(Some),
            (None, Some(path)) => Self::from_file(Path::new(&path)).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// The secret in a file of 64 hexadecimal digits.
    ///
    /// # Errors
    /// [`SecretError::Mode`] where others than the owner have any right to the file, [`SecretError::Malformed`],
    /// [`SecretError::File`].
    pub fn from_file(path: &Path) -> Result<Secret, SecretError> {
        let failed = |error| SecretError::File { path: path.to_owned(), error };
        // (Before it is opened: a FIFO would wait for a writer.)
        let found = std::fs::metadata(path).map_err(failed)?;
        let file = if found.is_file() { Some(std::fs::File::open(path).map_err(failed)?) } else { None };
        let metadata = file.as_ref().map_or(Ok(found), std::fs::File::metadata).map_err(failed)?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            let mode = metadata.permissions().mode() & 0o7777;
            if mode & 0o077 != 0 {
                return Err(SecretError::Mode { path: path.to_owned(), mode });
            }
        }
        let Some(file) = file else {
            let problem = "not a file, but a secret's file was expected";
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, problem)));
        };
        let mut text = Vec::new();
        file.take(1024).read_to_end(&mut text).map_err(failed)?;
        Self::parse(String::from_utf8_lossy(&text).trim(), &path.display().to_string())
    }

    /// Writes the secret to a new file that only its owner can read.
    ///
    /// # Errors
    /// [`SecretError::File`], also where the file is there already: its rights are not ours to trust.
    pub fn write_file(&self, path: &Path) -> Result<(), SecretError> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let write = |mut file: std::fs::File| file.write_all(format!("{}\n", self.to_hex()).as_bytes());
        options.open(path).and_then(write).map_err(|error| SecretError::File { path: path.to_owned(), error })
    }

    /// A key for one use that follows from this secret, and says nothing of it.
    pub(crate) fn key_for(&self, what: &str) -> [u8; 32] {
        blake3::derive_key(what, &self.0)
    }
}

/// 32 bytes from the system's random numbers.
fn random() -> Result<[u8; 32], SecretError> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(SecretError::Random)?;
    Ok(bytes)
}
