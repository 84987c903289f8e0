//! Connections and what listens for them: TCP, and in a simulation what stands for it (the feature `simulation`).

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};

#[cfg(feature = "simulation")]
use crate::simulation::wire;

/// A connection.
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Within a simulation.
    #[cfg(feature = "simulation")]
    Simulated(wire::Stream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Stream {
        Stream::Tcp(stream)
    }
}

impl Stream {
    /// Its address on this side.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.local_addr(),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Ok(stream.local_addr()),
        }
    }

    /// Its address on the other side.
    ///
    /// # Errors
    /// What the system says.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(stream) => stream.peer_addr(),
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => Ok(stream.peer_addr()),
        }
    }

    /// Both directions, each for itself.
    pub(crate) fn into_split(self) -> (ReadHalf, WriteHalf) {
        match self {
            Self::Tcp(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Tcp(read), WriteHalf::Tcp(write))
            }
            #[cfg(feature = "simulation")]
            Self::Simulated(stream) => {
                let (read, write) = stream.into_split();
                (ReadHalf::Simulated(read), WriteHalf::Simulated(write))
            }
        }
    }
}

/// The direction of a connection that is read.
pub(crate) enum ReadHalf {
    Tcp(OwnedReadHalf),
    #[cfg(feature = "simulation")]
    Simulated(wire::ReadHalf),
}

/// The direction of a connection that is written.
pub(crate) enum WriteHalf {
    Tcp(OwnedWriteHalf),
    #[cfg(feature = "simulation")]
    Simulated(wire::WriteHalf),
}

macro_rules! each {
    ($self:ident, $stream:ident => $call:expr) => {
        match $self.get_mut() {
            Self::Tcp($stream) => $call,
            #[cfg(feature = "simulation")]
            Self::Simulated($stream) => $call,
        }
    };
}

macro_rules! reads {
    ($type:ty) => {
        impl AsyncRead for $type {
            fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
                each!(self, stream => Pin::new(stream).poll_read(cx, into))
            }
        }
    };
}

macro_rules! writes {
    ($type:ty) => {
        impl AsyncWrite for $type {
            fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
                each!(self, stream => Pin::new(stream).poll_write(cx, bytes))
            }

            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                slices: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                each!(self, stream => Pin::new(stream).poll_write_vectored(cx, slices))
            }

            fn is_write_vectored(&self) -> bool {
                true
            }

            fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, stream => Pin::new(stream).poll_flush(cx))
            }

            fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                each!(self, stream => Pin::new(stream).poll_shutdown(cx))
            }
        }
    };
}

reads!(Stream);
writes!(Stream);
reads!(ReadHalf);
writes!(WriteHalf);

/// Where connections come in.
pub enum Listener {
    /// Over TCP.
    Tcp(TcpListener),
    /// Within a simulation.
    #[cfg(feature = "simulation")]
    Simulated(wire::Listener),
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Listener").field(&self.local_addr()).finish()
    }
}

impl Listener {
    /// Where it listens.
    ///
    /// # Errors
    /// What the system says.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        match self {
            Self::Tcp(listener) => listener.local_addr(),
            #[cfg(feature = "simulation")]
            Self::Simulated(listener) => Ok(listener.local_addr()),
        }
    }

    /// The next connection, and where it comes from.
    ///
    /// # Errors
    /// What the system says.
    pub async fn accept(&self) -> io::Result<(Stream, SocketAddr)> {
        match self {
            Self::Tcp(listener) => listener.accept().await.map(|(stream, peer)| (Stream::Tcp(stream), peer)),
            #[cfg(feature = "simulation")]
            Self::Simulated(listener) => {
                let (stream, peer) = listener.accept().await;
                Ok((Stream::Simulated(stream), peer))
            }
        }
    }
}
