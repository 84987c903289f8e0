//! A connection between two processes of a job, as it is after the handshake: sealed, or on one machine plain.
//!
//! A connection is sealed (see [`seal`](crate::seal)) where either side wants it, and a side wants it where the connection leaves
//! the machine. `STRADSAP_ENCRYPT=always` seals those on one machine as well; with `never` on both sides nothing is sealed, for
//! networks that are trusted as a machine is.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::hello::{self, GreetError, Hello, Role};
use crate::net;
use crate::seal::{Keys, Reading, Writing};
use crate::secret::Secret;
use crate::stream::{self, Stream};

/// The variable that says which connections are sealed (encrypted): `always`, `never`, or, if it isn't set, those that leave the
/// machine.
pub const ENCRYPT_VARIABLE: &str = "STRADSAP_ENCRYPT";

/// Which connections this process wants to be sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Those that leave the machine.
    BeyondLoopback,
    /// All.
    Always,
    /// None.
    Never,
}

impl Sealed {
    /// What [`ENCRYPT_VARIABLE`] says.
    ///
    /// # Errors
    /// [`GreetError::Setting`] where it says something else.
    pub fn from_environment() -> Result<Sealed, GreetError> {
        match std::env::var(ENCRYPT_VARIABLE).as_deref().map(str::trim) {
            Ok("always") => Ok(Sealed::Always),
            Ok("never") => Ok(Sealed::Never),
            Ok("") | Err(std::env::VarError::NotPresent) => Ok(Sealed::BeyondLoopback),
            Ok(_) | Err(_) => Err(GreetError::Setting),
        }
    }

    fn wanted_for(self, stream: &Stream) -> io::Result<bool> {
        Ok(match self {
            Sealed::Always => true,
            Sealed::Never => false,
            Sealed::BeyondLoopback => {
                !net::is_loopback(&stream.local_addr()?.ip()) || !net::is_loopback(&stream.peer_addr()?.ip())
            }
        })
    }
}

/// The connecting side of a handshake ([`hello::greet`]). It returns the connection, and what the peer said of itself.
///
/// # Errors
/// See [`GreetError`].
pub async fn greet(stream: impl Into<Stream>, secret: &Secret, me: &Hello) -> Result<(Link, Hello), GreetError> {
    let mut stream = stream.into();
    let seal = Sealed::from_environment()?.wanted_for(&stream)?;
    let (peer, keys) = hello::greet(&mut stream, secret, me, seal).await?;
    Ok((Link::new(stream, keys), peer))
}

/// The accepting side of a handshake ([`hello::welcome`]). It returns the connection, and what the peer said of itself.
///
/// # Errors
/// See [`GreetError`].
pub async fn welcome(
    stream: impl Into<Stream>,
    secret: &Secret,
    me: &Hello,
    check: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<(Link, Hello), GreetError> {
    let mut stream = stream.into();
    let seal = Sealed::from_environment()?.wanted_for(&stream)?;
    let (peer, keys) = hello::welcome(&mut stream, secret, me, seal, check).await?;
    Ok((Link::new(stream, keys), peer))
}

/// A connection. Written bytes are sent at the latest when it is flushed.
pub struct Link {
    stream: Stream,
    seal: Option<Box<(Reading, Writing)>>,
}

impl Link {
    /// A connection, sealed if there are keys.
    pub fn new(stream: impl Into<Stream>, keys: Option<Keys>) -> Link {
        let stream = stream.into();
        let seal = keys.map(|keys| Box::new((Reading::new(keys.open), Writing::new(keys.seal))));
        Link { stream, seal }
    }

    /// Whether it is sealed.
    pub fn is_sealed(&self) -> bool {
        self.seal.is_some()
    }

    /// Its address on this side.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }

    /// See [`net::be_patient`].
    pub fn be_patient(&self, peer: Role) {
        net::be_patient(&self.stream, peer);
    }

    /// Splits the connection into its two directions.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        let (read, write) = self.stream.into_split();
        let (reading, writing) = match self.seal {
            Some(seal) => (Some(seal.0), Some(seal.1)),
            None => (None, None),
        };
        (ReadHalf { stream: read, seal: reading }, WriteHalf { stream: write, seal: writing })
    }
}

/// The direction of a [`Link`] that is read.
pub struct ReadHalf {
    stream: stream::ReadHalf,
    seal: Option<Reading>,
}

/// The direction of a [`Link`] that is written.
pub struct WriteHalf {
    stream: stream::WriteHalf,
    seal: Option<Writing>,
}

macro_rules! reads {
    ($type:ty, |$link:ident| $seal:expr) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                let $link = self.get_mut();
                match $seal {
                    None => Pin::new(&mut $link.stream).poll_read(cx, into),
                    Some(reading) => reading.read(&mut $link.stream, cx, into),
                }
            }
        }
    };
}

macro_rules! writes {
    ($type:ty, |$link:ident| $seal:expr) => {
        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                let $link = self.get_mut();
                match $seal {
                    None => Pin::new(&mut $link.stream).poll_write(cx, bytes),
                    Some(writing) => writing.write(&mut $link.stream, cx, &[IoSlice::new(bytes)]),
                }
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                let $link = self.get_mut();
                match $seal {
                    None => Pin::new(&mut $link.stream).poll_write_vectored(cx, slices),
                    Some(writing) => writing.write(&mut $link.stream, cx, slices),
                }
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $link = self.get_mut();
                if let Some(writing) = $seal {
                    ready!(writing.drain(&mut $link.stream, cx))?;
                }
                Pin::new(&mut $link.stream).poll_flush(cx)
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $link = self.get_mut();
                if let Some(writing) = $seal {
                    ready!(writing.drain(&mut $link.stream, cx))?;
                }
                Pin::new(&mut $link.stream).poll_shutdown(cx)
            }
        }
    };
}

reads!(Link, |link| link.seal.as_mut().map(|seal| &mut seal.0));
writes!(Link, |link| link.seal.as_mut().map(|seal| &mut seal.1));
reads!(ReadHalf, |link| link.seal.as_mut());
writes!(WriteHalf, |link| link.seal.as_mut());
