//! Sealed connections: a Noise session (`NNpsk0`, <https://noiseprotocol.org>) under the job's secret. This is the one module that
//! knows the library for it.
//!
//! Both sides make a key pair for the one connection and send its public half, mixed with the secret: so each knows that the other
//! has the secret, and who learns the secret later can't read what was said before. Then what is sent is cut into records:
//!
//! | bytes | |
//! |---|---|
//! | 2 | length of what follows, little-endian |
//! | 17 to 65,535 | AES-256-GCM of up to 65,519 bytes; the records of a direction are counted |
//!
//! A record that was changed, left out, sent again or moved doesn't open, and nothing of it is passed on; the connection is of no
//! use after that. Its end is not sealed: frames notice where one is cut off.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use snow::{Builder, HandshakeState, StatelessTransportState};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::secret::Secret;

const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_SHA256";

/// The bytes of either side's half of the agreement: a public key, one byte, and the proof of both.
pub(crate) const HALF: usize = 32 + 1 + TAG;

/// What a message is longer than what it says.
pub(crate) const TAG: usize = 16;

/// The longest message that Noise knows.
const LONGEST: usize = 65_535;

/// The most bytes that one record holds.
const RECORD: usize = LONGEST - TAG;

/// How much is sealed before it is sent: the system's work is about the same for any amount.
const BUFFER: usize = 512 << 10;

/// How much is read at once.
const AT_ONCE: usize = 256 << 10;

/// Why no keys came about.
#[derive(Debug, thiserror::Error)]
#[error("no keys for the connection: {0}")]
pub struct NoKeys(#[from] snow::Error);

/// The agreement on keys, of which each side says one half.
pub(crate) struct Agreement(HandshakeState);

impl Agreement {
    /// Begins on the connecting or on the accepting side. Both must name the same `protocol`.
    pub(crate) fn new(secret: &Secret, protocol: &[u8], connecting: bool) -> Result<Agreement, NoKeys> {
        let shared = secret.key_for("stradsap connections");
        let builder = Builder::new(PATTERN.parse()?).psk(0, &shared)?.prologue(protocol)?;
        Ok(Agreement(if connecting { builder.build_initiator()? } else { builder.build_responder()? }))
    }

    /// This side's half, which says one byte.
    pub(crate) fn say(&mut self, byte: u8) -> Result<[u8; HALF], NoKeys> {
        let mut half = [0; HALF];
        self.0.write_message(&[byte], &mut half)?;
        Ok(half)
    }

    /// What the other side's half says; none where it has another secret, or was changed.
    pub(crate) fn hear(&mut self, half: &[u8; HALF]) -> Option<u8> {
        let mut said = [0; HALF];
        (self.0.read_message(half, &mut said).ok()? == 1).then_some(said[0])
    }

    /// The keys, when both halves were said.
    pub(crate) fn keys(self) -> Result<Keys, NoKeys> {
        let state = Arc::new(self.0.into_stateless_transport_mode()?);
        Ok(Keys { seal: Sealing { state: Arc::clone(&state), count: 0 }, open: Opening { state, count: 0 } })
    }
}

/// The keys of one end of a connection.
pub struct Keys {
    pub(crate) seal: Sealing,
    pub(crate) open: Opening,
}

/// Seals messages, each under a number of its own.
pub(crate) struct Sealing {
    state: Arc<StatelessTransportState>,
    count: u64,
}

/// Opens messages in the order in which they were sealed.
pub(crate) struct Opening {
    state: Arc<StatelessTransportState>,
    count: u64,
}

fn changed() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what came was changed on its way")
}

impl Sealing {
    /// Seals `said` at the end of `out`.
    pub(crate) fn append(&mut self, said: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let from = out.len();
        out.resize(from + said.len() + TAG, 0);
        self.seal(said, &mut out[from..])
    }

    /// Seals `said` at the beginning of `out`.
    fn seal(&mut self, said: &[u8], out: &mut [u8]) -> io::Result<()> {
        self.state.write_message(self.count, said, out).map_err(io::Error::other)?;
        self.count += 1;
        Ok(())
    }
}

impl Opening {
    /// Opens `sealed` into `out`, which has room for as many bytes; gives how many there are.
    pub(crate) fn open(&mut self, sealed: &[u8], out: &mut [u8]) -> io::Result<usize> {
        let len = self.state.read_message(self.count, sealed, out).map_err(|_| changed())?;
        self.count += 1;
        Ok(len)
    }
}

/// The half of a sealed connection that is written.
pub(crate) struct Writing {
    seal: Sealing,
    /// Records that were not taken yet, from `sent` to `end`.
    out: Vec<u8>,
    sent: usize,
    end: usize,
    /// Where what lies apart is brought together.
    together: Vec<u8>,
}

impl Writing {
    pub(crate) fn new(seal: Sealing) -> Writing {
        Writing { seal, out: Vec::new(), sent: 0, end: 0, together: Vec::new() }
    }

    /// Seals the beginning of `slices`, and gives how much that was.
    pub(crate) fn write<W: AsyncWrite + Unpin>(
        &mut self,
        to: &mut W,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if slices.iter().all(|slice| slice.is_empty()) {
            return Poll::Ready(Ok(0));
        }
        if self.end >= BUFFER {
            ready!(self.drain(to, cx))?;
        }
        let first = slices.iter().find(|slice| !slice.is_empty()).map_or(&[][..], |slice| slice);
        let said = if first.len() >= RECORD || slices.len() == 1 {
            &first[..first.len().min(RECORD)]
        } else {
            self.together.clear();
            for slice in slices {
                let room = RECORD - self.together.len();
                self.together.extend_from_slice(&slice[..slice.len().min(room)]);
            }
            &self.together
        };
        let (len, taken) = (said.len() + TAG, said.len());
        let next = self.end + 2 + len;
        if self.out.len() < next {
            self.out.resize(next, 0);
        }
        let (prefix, record) = self.out[self.end..next].split_at_mut(2);
        prefix.copy_from_slice(&(len as u16).to_le_bytes());
        self.seal.seal(said, record)?;
        self.end = next;
        // Many records at once, or with the flush: each call of the system costs as much as some records.
        Poll::Ready(Ok(taken))
    }

    /// Sends all that was sealed.
    pub(crate) fn drain<W: AsyncWrite + Unpin>(&mut self, to: &mut W, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.end {
            let taken = ready!(Pin::new(&mut *to).poll_write(cx, &self.out[self.sent..self.end]))?;
            if taken == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += taken;
        }
        (self.sent, self.end) = (0, 0);
        Poll::Ready(Ok(()))
    }
}

/// The half of a sealed connection that is read.
pub(crate) struct Reading {
    open: Opening,
    /// What came and was not opened yet, from `start` to `end`.
    came: Vec<u8>,
    start: usize,
    end: usize,
    /// What was opened and not asked for yet, from `given` on.
    opened: Vec<u8>,
    given: usize,
}

impl Reading {
    pub(crate) fn new(open: Opening) -> Reading {
        Reading { open, came: Vec::new(), start: 0, end: 0, opened: Vec::new(), given: 0 }
    }

    pub(crate) fn read<R: AsyncRead + Unpin>(
        &mut self,
        from: &mut R,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let left = &self.opened[self.given..];
            if !left.is_empty() {
                let taken = left.len().min(into.remaining());
                into.put_slice(&left[..taken]);
                self.given += taken;
                return Poll::Ready(Ok(()));
            }
            if into.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            if let Some(len) = self.next_record() {
                let sealed = &self.came[self.start + 2..self.start + 2 + len];
                let at_once = into.remaining() >= len;
                let opened = if at_once {
                    self.open.open(sealed, into.initialize_unfilled_to(len))?
                } else {
                    self.opened.resize(len, 0);
                    self.given = len;
                    self.open.open(sealed, &mut self.opened)?
                };
                // It would read as the end.
                if opened == 0 {
                    return Poll::Ready(Err(changed()));
                }
                self.start += 2 + len;
                if at_once {
                    into.advance(opened);
                    return Poll::Ready(Ok(()));
                }
                self.opened.truncate(opened);
                self.given = 0;
                continue;
            }
            if ready!(self.fill(from, cx))? == 0 {
                let within = self.start < self.end;
                return Poll::Ready(if within { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) });
            }
        }
    }

    /// The length of the next record, past its prefix, where all of it is there.
    fn next_record(&self) -> Option<usize> {
        let there = &self.came[self.start..self.end];
        let (len, rest) = there.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_le_bytes(*len));
        (rest.len() >= len).then_some(len)
    }

    /// Reads what comes; gives how much that was.
    fn fill<R: AsyncRead + Unpin>(&mut self, from: &mut R, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        self.came.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        // Connections that carry little stay small.
        if self.end == self.came.len() {
            let size = (2 * self.came.len()).clamp(4 << 10, AT_ONCE);
            self.came.resize(size, 0);
        }
        let mut room = ReadBuf::new(&mut self.came[self.end..]);
        ready!(Pin::new(&mut *from).poll_read(cx, &mut room))?;
        let read = room.filled().len();
        self.end += read;
        Poll::Ready(Ok(read))
    }
}
