//! The codec with a limit of its own.

use std::pin::Pin;

use bytes::{Bytes, BytesMut};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::{CodecError, MAX_MESSAGE, decode, encode, within};

/// [`encode`] and [`decode`] with a limit, for the framed transports of `tokio_serde`, and with them tarpc's.
///
/// ```
/// use stradsap_dds_server::codec::Bounded;
/// let codec = Bounded::default();
/// assert_eq!(codec.limit(), 64 << 20);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Bounded {
    limit: usize,
}

impl Bounded {
    /// A codec for messages of at most `limit` bytes.
    pub const fn new(limit: usize) -> Bounded {
        Bounded { limit }
    }

    /// The most bytes that a message may have.
    pub const fn limit(&self) -> usize {
        self.limit
    }
}

impl Default for Bounded {
    /// Messages of at most [`MAX_MESSAGE`] bytes.
    fn default() -> Bounded {
        Bounded::new(MAX_MESSAGE)
    }
}

impl<T: Serialize> tokio_serde::Serializer<T> for Bounded {
    type Error = CodecError;

    fn serialize(self: Pin<&mut Self>, item: &T) -> Result<Bytes, CodecError> {
        let bytes = encode(item)?;
        within(bytes.len(), self.limit)?;
        Ok(bytes.into())
    }
}

impl<T: DeserializeOwned> tokio_serde::Deserializer<T> for Bounded {
    type Error = CodecError;

    fn deserialize(self: Pin<&mut Self>, src: &BytesMut) -> Result<T, CodecError> {
        decode(src, self.limit)
    }
}
