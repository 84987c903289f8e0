//! The codec of control messages: bincode 2 with fixed-size little-endian integers.
//!
//! bincode writes. What is read comes from a peer, and bincode's own reader allocates what a length claims before it
//! looks whether so much is there, follows nesting as deep as it goes, and counts to 2^63 where elements take no bytes.
//! So the reader of the same format is here, in `read`.

use bincode::error::EncodeError;
use serde::Serialize;
use serde::de::DeserializeOwned;

#[cfg(feature = "net")]
mod bounded;
mod read;

#[cfg(feature = "net")]
pub use bounded::Bounded;

/// The most bytes that [`encode`] makes and [`decode`] takes, whatever limit it is given: 256 MiB.
pub const MAX_BYTES: usize = 256 << 20;

/// The most bytes of a control message: 64 MiB.
pub const MAX_MESSAGE: usize = 64 << 20;

/// Why a value was not encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value's own `Serialize` failed, or it has a sequence of unknown length.
    #[error("the value can't be encoded: {0}")]
    Encode(String),
    /// The value's own `Deserialize` returned an error.
    #[error("the bytes are no such value: {0}")]
    Invalid(String),
    /// The encoding is longer than it may be.
    #[error("the message has {len} bytes, but at most {limit} are allowed")]
    TooLong {
        /// Its bytes.
        len: usize,
        /// The bytes allowed.
        limit: usize,
    },
    /// A sequence claims more elements than the bytes left can hold.
    #[error("a length of {claimed} is claimed, but {left} bytes are left")]
    Length {
        /// The elements claimed.
        claimed: u64,
        /// The bytes left.
        left: usize,
    },
    /// The bytes end within a value.
    #[error("the message ends where {needed} more bytes were expected, but {left} are left")]
    Truncated {
        /// The bytes of the value.
        needed: usize,
        /// The bytes left.
        left: usize,
    },
    /// There are bytes after the value.
    #[error("the message goes on for {0} bytes after its value")]
    Trailing(usize),
    /// Values are nested more deeply than is allowed.
    #[error("the message nests deeper than {0} levels")]
    Depth(usize),
    /// The connection under the codec failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
}

impl From<CodecError> for std::io::Error {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Io(error) => error,
            other => std::io::Error::new(std::io::ErrorKind::InvalidData, other),
        }
    }
}

/// The encoding of a value.
///
/// ```
/// use stradsap_dds_server::codec;
///
/// let bytes = codec::encode(&(7u32, "seven"))?;
/// assert_eq!(codec::decode::<(u32, String)>(&bytes, 1024)?, (7, "seven".to_owned()));
/// # Ok::<(), codec::CodecError>(())
/// ```
///
/// # Errors
/// [`CodecError::Encode`]; [`CodecError::TooLong`] over [`MAX_BYTES`].
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>, CodecError> {
    let config = bincode::config::standard().with_little_endian().with_fixed_int_encoding();
    let bytes = bincode::serde::encode_to_vec(value, config).map_err(|error| {
        let text = match error {
            EncodeError::OtherString(text) => text,
            other => other.to_string(),
        };
        CodecError::Encode(one_line(&text))
    })?;
    within(bytes.len(), MAX_BYTES)?;
    Ok(bytes)
}

/// The value that all of these bytes encode.
///
/// It allocates no more than the bytes could fill (and 1 MiB per sequence within a sequence that is being read), nests
/// at most 1,024 levels, and allows at most 2^20 elements that take no bytes.
///
/// # Errors
/// [`CodecError::TooLong`] for more than `limit` bytes (or [`MAX_BYTES`]), [`CodecError::Trailing`] if bytes are left after the
/// value, and the other kinds for bytes that are no such value.
pub fn decode<T: DeserializeOwned>(bytes: &[u8], limit: usize) -> Result<T, CodecError> {
    within(bytes.len(), limit.min(MAX_BYTES))?;
    let mut left = bytes;
    let value = read::front(&mut left)?;
    if left.is_empty() { Ok(value) } else { Err(CodecError::Trailing(left.len())) }
}

/// Appends the encoding of a value.
///
/// # Errors
/// [`CodecError::Encode`], which leaves part of it appended.
pub fn encode_into<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    let config = bincode::config::standard().with_little_endian().with_fixed_int_encoding();
    match bincode::serde::encode_into_std_write(value, out, config) {
        Ok(_) => Ok(()),
        Err(EncodeError::OtherString(text)) => Err(CodecError::Encode(one_line(&text))),
        Err(other) => Err(CodecError::Encode(one_line(&other.to_string()))),
    }
}

/// The first bytes of a value's encoding, at most `limit` of them. If its `Serialize` fails, these are the bytes before the
/// failure.
pub fn encode_front<T: Serialize + ?Sized>(value: &T, limit: usize) -> Vec<u8> {
    let mut out = Front { bytes: Vec::new(), limit };
    let config = bincode::config::standard().with_little_endian().with_fixed_int_encoding();
    // Fails where the limit ends it.
    let _ = bincode::serde::encode_into_std_write(value, &mut out, config);
    out.bytes
}

/// Takes bytes until it is full.
struct Front {
    bytes: Vec<u8>,
    limit: usize,
}

impl std::io::Write for Front {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.limit - self.bytes.len());
        self.bytes.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Decodes the value at the front of the bytes, and removes its bytes. It checks as much as [`decode`].
///
/// # Errors
/// Those of [`decode`] for bytes that are no such value. The bytes are then left as they were.
pub fn decode_front<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, CodecError> {
    read::front(bytes)
}

fn within(len: usize, limit: usize) -> Result<(), CodecError> {
    if len <= limit { Ok(()) } else { Err(CodecError::TooLong { len, limit }) }
}

/// Messages are one line; those of a type's own `Serialize` may not be.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
