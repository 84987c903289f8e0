//! Frames: a fixed header of [`HEADER_LEN`] bytes and a payload of the length that it says.
//!
//! The header is little-endian, and has a checksum of its own, so that a flipped bit in a length is noticed before the
//! length is believed; the payload's checksum is in the header.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `SDSF` |
//! | 4 | version of the format |
//! | 5 | kind |
//! | 6..8 | zero |
//! | 8..12 | generation |
//! | 12..16 | CRC-32 of the payload |
//! | 16..24, 24..32, 32..40, 40..48, 48..56 | call, dds, lo, hi, tag |
//! | 56..64 | payload bytes |
//! | 64..68 | zero |
//! | 68..72 | CRC-32 of bytes 0..68 |
//!
//! No function here may be cancelled half-way and the connection used on: what was read or written of a frame is gone.

use std::io;
use std::io::IoSlice;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The bytes of an encoded [`Header`].
pub const HEADER_LEN: usize = 72;

/// The version of the format that this build speaks.
pub const VERSION: u8 = 1;

const MAGIC: [u8; 4] = *b"SDSF";

/// How much is allocated ahead of what has arrived, at first and at least; see [`read_payload`].
const STEP: usize = 1 << 20;

/// How much is read before it is summed: it is still in the cache then.
const CHUNK: usize = 256 << 10;

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A part of a running loop, pushed by the worker that has finished with it to the one that needs it next.
    Part = 1,
    /// Asks for elements `lo..hi` of a DDS; answered by [`Data`](Kind::Data) or [`Refused`](Kind::Refused).
    Get = 2,
    /// The elements that a [`Get`](Kind::Get) asked for.
    Data = 3,
    /// Stores elements `lo..hi` of a DDS under the snapshot `tag`; answered by [`Done`](Kind::Done) or
    /// [`Refused`](Kind::Refused).
    Put = 4,
    /// It was done; no payload.
    Done = 5,
    /// Forgets the snapshots of a DDS below `tag`; answered by [`Done`](Kind::Done).
    Drop = 6,
    /// It was not done; the payload is a short reason in UTF-8.
    Refused = 7,
    /// Other bytes in bulk, told apart by `tag`.
    Blob = 8,
    /// Asks whether the other side is alive; answered by [`Pong`](Kind::Pong).
    Ping = 9,
    /// The other side is alive.
    Pong = 10,
}

impl Kind {
    /// Every kind, in the order of their numbers.
    pub const ALL: [Kind; 10] = [
        Kind::Part,
        Kind::Get,
        Kind::Data,
        Kind::Put,
        Kind::Done,
        Kind::Drop,
        Kind::Refused,
        Kind::Blob,
        Kind::Ping,
        Kind::Pong,
    ];

    fn from_byte(byte: u8) -> Option<Kind> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// The header of a frame, before its payload.
///
/// ```
/// use stradsap_dds_server::frame::{Header, Kind};
///
/// let header = Header { generation: 2, dds: 7, lo: 10, hi: 20, ..Header::new(Kind::Get) };
/// assert_eq!(Header::decode(&header.encode())?, header);
/// # Ok::<(), stradsap_dds_server::frame::FrameError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is for.
    pub kind: Kind,
    /// The generation of the job that the sender is in. It increases by one whenever a process is lost.
    pub generation: u32,
    /// The number of the call. An answer has that of its request.
    pub call: u64,
    /// The DDS that the elements belong to.
    pub dds: u64,
    /// The first element.
    pub lo: u64,
    /// One past the last element.
    pub hi: u64,
    /// Another number, whose meaning depends on the kind: the snapshot, the step, or what a blob is.
    pub tag: u64,
    /// The bytes of the payload.
    pub len: u64,
    /// The CRC-32 of the payload.
    pub checksum: u32,
}

impl Header {
    /// A header of this kind with every number 0.
    pub const fn new(kind: Kind) -> Header {
        Header { kind, generation: 0, call: 0, dds: 0, lo: 0, hi: 0, tag: 0, len: 0, checksum: 0 }
    }

    /// The header of an answer to this frame: the same numbers under another kind, without a payload.
    pub const fn answer(&self, kind: Kind) -> Header {
        Header { kind, len: 0, checksum: 0, ..*self }
    }

    /// The header as it is sent.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..4].copy_from_slice(&MAGIC);
        out[4] = VERSION;
        out[5] = self.kind as u8;
        out[8..12].copy_from_slice(&self.generation.to_le_bytes());
        out[12..16].copy_from_slice(&self.checksum.to_le_bytes());
        for (i, word) in [self.call, self.dds, self.lo, self.hi, self.tag, self.len].into_iter().enumerate() {
            out[16 + i * 8..24 + i * 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = crc32fast::hash(&out[..68]);
        out[68..72].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Decodes a header.
    ///
    /// # Errors
    /// [`FrameError::Magic`], [`FrameError::Version`], [`FrameError::HeaderChecksum`], [`FrameError::Reserved`] or
    /// [`FrameError::Kind`], whichever is seen first.
    pub fn decode(bytes: &[u8; HEADER_LEN]) -> Result<Header, FrameError> {
        let short = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        if bytes[..4] != MAGIC {
            return Err(FrameError::Magic([bytes[0], bytes[1], bytes[2], bytes[3]]));
        }
        if bytes[4] != VERSION {
            return Err(FrameError::Version(bytes[4]));
        }
        let sum = crc32fast::hash(&bytes[..68]);
        if short(68) != sum {
            return Err(FrameError::HeaderChecksum { expected: sum, found: short(68) });
        }
        if bytes[6..8] != [0; 2] || bytes[64..68] != [0; 4] {
            return Err(FrameError::Reserved);
        }
        Ok(Header {
            kind: Kind::from_byte(bytes[5]).ok_or(FrameError::Kind(bytes[5]))?,
            generation: short(8),
            checksum: short(12),
            call: long(16),
            dds: long(24),
            lo: long(32),
            hi: long(40),
            tag: long(48),
            len: long(56),
        })
    }
}

/// Why a frame was not read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The connection failed.
    #[error("the connection failed: {0}")]
    Io(#[from] io::Error),
    /// These bytes don't begin a frame.
    #[error("a frame begins with {MAGIC:02x?}, but {0:02x?} came")]
    Magic([u8; 4]),
    /// The peer speaks another version of the format.
    #[error("the frame has version {0} of the format, but this build speaks {VERSION}")]
    Version(u8),
    /// The header was damaged on its way.
    #[error("the frame's header is damaged: its checksum is {found:08x}, but {expected:08x} was expected")]
    HeaderChecksum {
        /// The checksum of the bytes that came.
        expected: u32,
        /// The checksum that came with them.
        found: u32,
    },
    /// Bytes that have no meaning in this version aren't 0.
    #[error("the frame's header has bytes set that must be 0")]
    Reserved,
    /// There is no such kind of frame.
    #[error("a frame's kind is 1 to 10, but {0} came")]
    Kind(u8),
    /// The payload is longer than the reader allows.
    #[error("the frame claims {len} bytes, but at most {limit} are allowed here")]
    TooLong {
        /// The bytes that the header claims.
        len: u64,
        /// The bytes that the reader allows.
        limit: u64,
    },
    /// The payload doesn't have the length that its reader expects.
    #[error("the frame has {found} bytes, but {expected} were expected")]
    Length {
        /// The bytes that the reader expects.
        expected: u64,
        /// The bytes that the header says.
        found: u64,
    },
    /// The payload was damaged on its way.
    #[error("the frame's payload is damaged: its checksum is {found:08x}, but {expected:08x} was expected")]
    Checksum {
        /// The checksum in the header.
        expected: u32,
        /// The checksum of the bytes that came.
        found: u32,
    },
    /// The connection ended within a frame.
    #[error("the connection ended within a frame")]
    Truncated,
}

impl FrameError {
    /// Turns an end of the stream within a frame into [`Truncated`](FrameError::Truncated).
    fn from_read(error: io::Error) -> FrameError {
        if error.kind() == io::ErrorKind::UnexpectedEof { FrameError::Truncated } else { FrameError::Io(error) }
    }
}

/// Reads a header, or `None` if the connection ended before its first byte.
///
/// # Errors
/// Those of [`Header::decode`]; [`FrameError::TooLong`] if the payload is longer than `limit`, before anything is allocated;
/// [`FrameError::Truncated`], [`FrameError::Io`].
pub async fn read_header<R: AsyncRead + Unpin>(reader: &mut R, limit: u64) -> Result<Option<Header>, FrameError> {
    let mut bytes = [0; HEADER_LEN];
    let first = reader.read(&mut bytes).await?;
    if first == 0 {
        return Ok(None);
    }
    reader.read_exact(&mut bytes[first..]).await.map_err(FrameError::from_read)?;
    let header = Header::decode(&bytes)?;
    if header.len > limit {
        return Err(FrameError::TooLong { len: header.len, limit });
    }
    Ok(Some(header))
}

/// Reads the payload of `header` into `into`, and checks it. After an error the content of `into` is unspecified.
///
/// # Errors
/// [`FrameError::Length`] where `into` has another length, before anything is read; [`FrameError::Checksum`],
/// [`FrameError::Truncated`], [`FrameError::Io`].
pub async fn read_payload_into<R: AsyncRead + Unpin>(
    reader: &mut R,
    header: &Header,
    into: &mut [u8],
) -> Result<(), FrameError> {
    let expected = into.len() as u64;
    if header.len != expected {
        return Err(FrameError::Length { expected, found: header.len });
    }
    let mut sum = crc32fast::Hasher::new();
    for chunk in into.chunks_mut(CHUNK) {
        reader.read_exact(chunk).await.map_err(FrameError::from_read)?;
        sum.update(chunk);
    }
    check(header, sum)
}

/// Reads the payload of `header` and checks it.
///
/// Memory is allocated as bytes arrive: 1 MiB at first, then never more than has already arrived. So a peer that claims much and
/// sends little costs little.
///
/// # Errors
/// [`FrameError::Checksum`], [`FrameError::Truncated`], [`FrameError::Io`]; [`FrameError::TooLong`] if this machine can't address
/// that number of bytes.
pub async fn read_payload<R: AsyncRead + Unpin>(reader: &mut R, header: &Header) -> Result<Vec<u8>, FrameError> {
    let limit = isize::MAX as u64;
    let len = usize::try_from(header.len).ok().filter(|&n| n as u64 <= limit);
    let len = len.ok_or(FrameError::TooLong { len: header.len, limit })?;
    let mut out = Vec::new();
    let mut sum = crc32fast::Hasher::new();
    while out.len() < len {
        if out.len() == out.capacity() {
            out.reserve_exact((len - out.len()).min(out.len().max(STEP)));
        }
        let from = out.len();
        let room = (out.capacity() - from).min(len - from).min(CHUNK);
        if (&mut *reader).take(room as u64).read_buf(&mut out).await? == 0 {
            return Err(FrameError::Truncated);
        }
        sum.update(&out[from..]);
    }
    check(header, sum)?;
    Ok(out)
}

/// Reads the payload of `header` and discards it unchecked.
///
/// # Errors
/// [`FrameError::Truncated`], [`FrameError::Io`].
pub async fn skip_payload<R: AsyncRead + Unpin>(reader: &mut R, header: &Header) -> Result<(), FrameError> {
    let read = tokio::io::copy(&mut reader.take(header.len), &mut tokio::io::sink()).await?;
    if read == header.len { Ok(()) } else { Err(FrameError::Truncated) }
}

fn check(header: &Header, sum: crc32fast::Hasher) -> Result<(), FrameError> {
    let found = sum.finalize();
    if found == header.checksum { Ok(()) } else { Err(FrameError::Checksum { expected: header.checksum, found }) }
}

/// Writes a frame, and flushes. The length and the checksum in `header` are ignored and computed anew.
///
/// # Errors
/// [`FrameError::Io`].
pub async fn write_frame<W: AsyncWrite + Unpin>(
    writer: &mut W,
    header: Header,
    payload: &[u8],
) -> Result<(), FrameError> {
    write_frame_parts(writer, header, &[payload]).await
}

/// Writes a frame whose payload lies in several runs of bytes, without copying them, and flushes. See [`write_frame`].
///
/// # Errors
/// [`FrameError::Io`].
pub async fn write_frame_parts<W: AsyncWrite + Unpin>(
    writer: &mut W,
    mut header: Header,
    parts: &[&[u8]],
) -> Result<(), FrameError> {
    let mut sum = crc32fast::Hasher::new();
    header.len = 0;
    for part in parts {
        sum.update(part);
        header.len += part.len() as u64;
    }
    header.checksum = sum.finalize();
    let encoded = header.encode();
    let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(parts.len() + 1);
    slices.push(IoSlice::new(&encoded));
    slices.extend(parts.iter().filter(|part| !part.is_empty()).map(|part| IoSlice::new(part)));
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        let written = writer.write_vectored(left).await?;
        if written == 0 {
            return Err(FrameError::Io(io::ErrorKind::WriteZero.into()));
        }
        IoSlice::advance_slices(&mut left, written);
    }
    writer.flush().await?;
    Ok(())
}
