//! What serde writes and reads of elements and captured values, in the format of `stradsap_dds_server::codec`.

use std::any::type_name;

use serde::Serialize;
use serde::de::DeserializeOwned;
use stradsap_dds_server::codec;

use crate::memory::decode::DecodeError;

/// The most bytes that the captured values of a loop may take.
pub(crate) const MAX_VALUES: usize = 1 << 30;

/// Why captured values could not be encoded as bytes, or decoded.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::CodecError;
///
/// let error = CodecError::Encode { index: 1, of: "Table", reason: "not sorted".to_string() };
/// assert_eq!(error.to_string(), "captured value 1, a Table, can't be serialised: not sorted");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// A value's `Serialize` returned an error, or needs a format that names its fields.
    #[error("captured value {index}, a {of}, can't be serialised: {reason}")]
    Encode {
        /// Which of the captured values it is, from 0.
        index: usize,
        /// Its type.
        of: &'static str,
        /// What serde said.
        reason: String,
    },
    /// The bytes are no value of the type.
    #[error("captured value {index}, a {of}, can't be read back: {source}")]
    Decode {
        /// Which of the captured values it is, from 0.
        index: usize,
        /// Its type.
        of: &'static str,
        /// What is wrong with the bytes.
        source: DecodeError,
    },
    /// There are more bytes than values.
    #[error("{left} bytes follow the {values} captured values")]
    Trailing {
        /// How many values there are.
        values: usize,
        /// How many bytes are left.
        left: usize,
    },
    /// Values so large belong into a DDS.
    #[error(
        "the captured values take {bytes} bytes, and at most {max} may travel with a loop: put them into a DVector"
    )]
    TooLarge {
        /// How many they take, as far as they were looked at.
        bytes: usize,
        /// How many they may.
        max: usize,
    },
}

fn write<T: Serialize + ?Sized>(value: &T, out: &mut Vec<u8>) -> Result<(), String> {
    codec::encode_into(value, out).map_err(|error| match error {
        codec::CodecError::Encode(message) => message,
        other => other.to_string(),
    })
}

fn read<T: DeserializeOwned>(bytes: &mut &[u8]) -> Result<T, DecodeError> {
    codec::decode_front(bytes).map_err(|error| match error {
        codec::CodecError::Depth(levels) => DecodeError::Nesting { levels: levels as u32 },
        other => DecodeError::Serde { message: other.to_string() },
    })
}

/// A type that says `#[element(serde)]`.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't be an element by its serde",
    label = "can't be serialised",
    note = "derive `serde::Serialize` and `serde::Deserialize` for it, or leave out `#[element(serde)]`"
)]
pub trait SerdeElement: Serialize + DeserializeOwned {}

// Without this rustc would report the missing halves of serde one by one.
#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned> SerdeElement for T {}

/// Appends the encoding of an element that knows serde.
///
/// # Panics
/// If the type's own `Serialize` reports an error: an encoding that stops half-way must not pass for a whole one.
pub fn encode_serde<T: SerdeElement>(value: &T, out: &mut Vec<u8>) {
    if let Err(reason) = write(value, out) {
        panic!("an element of type {} can't be serialised: {reason}", type_name::<T>());
    }
}

/// Reads back what [`encode_serde`] wrote, off the front.
///
/// # Errors
/// If the bytes are no such value.
pub fn decode_serde<T: SerdeElement>(bytes: &mut &[u8]) -> Result<T, DecodeError> {
    read(bytes)
}

/// The first bytes of a captured value.
pub(crate) fn front_of<T: Serialize + ?Sized>(value: &T, limit: usize) -> Vec<u8> {
    codec::encode_front(value, limit)
}

/// Appends a captured value, the `index`-th.
pub(crate) fn write_value<T: Serialize + ?Sized>(index: usize, value: &T, out: &mut Vec<u8>) -> Result<(), CodecError> {
    write(value, out).map_err(|reason| CodecError::Encode { index, of: type_name::<T>(), reason })?;
    check_size(out)
}

/// Takes a captured value off the front, the `index`-th.
pub(crate) fn read_value<T: DeserializeOwned>(index: usize, bytes: &mut &[u8]) -> Result<T, CodecError> {
    read(bytes).map_err(|source| CodecError::Decode { index, of: type_name::<T>(), source })
}

/// Refuses values that are too large.
pub(crate) fn check_size(bytes: &[u8]) -> Result<(), CodecError> {
    if bytes.len() > MAX_VALUES {
        return Err(CodecError::TooLarge { bytes: bytes.len(), max: MAX_VALUES });
    }
    Ok(())
}
