//! TCP as the processes of a job use it. Buffer sizes are left to the kernel, which tunes them better than a constant.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

use crate::hello::Role;
use crate::own_time;
#[cfg(feature = "simulation")]
use crate::simulation::wire;
use crate::stream::{Listener, Stream};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NetError {
    /// The address can't be resolved.
    #[error("{address}: not an address: HOST:PORT was expected ({error})")]
    Resolve {
        /// The address as it was given.
        address: String,
        /// What the resolver said.
        error: io::Error,
    },
    /// Others could reach this address, and there is no secret that a person chose.
    #[error(
        "{address}: refusing to listen where other machines can connect without a secret: set STRADSAP_SECRET or STRADSAP_SECRET_FILE"
    )]
    Exposed {
        /// The address as it was given.
        address: String,
    },
    /// This process can't listen on the address.
    #[error("{address}: can't listen here: {error}")]
    Bind {
        /// The address as it was given.
        address: String,
        /// What went wrong.
        error: io::Error,
    },
    /// Nobody answered at this address.
    #[error("{address}: can't connect: {error}")]
    Connect {
        /// The address as it was given.
        address: String,
        /// What went wrong.
        error: io::Error,
    },
    /// Nobody answered at this address in time.
    #[error("{address}: no connection within {seconds} s", seconds = after.as_secs_f64())]
    Timeout {
        /// The address as it was given.
        address: String,
        /// How long was waited.
        after: Duration,
    },
}

impl NetError {
    /// Whether the machine is there, and nobody listens.
    pub fn is_refused(&self) -> bool {
        matches!(self, Self::Connect { error, .. } if error.kind() == io::ErrorKind::ConnectionRefused)
    }

    /// Whether this process or its machine lacks resources for a connection, such as file descriptors. This may pass, and says
    /// nothing about the other side.
    pub fn is_own(&self) -> bool {
        let error = match self {
            Self::Resolve { error, .. } | Self::Bind { error, .. } | Self::Connect { error, .. } => error,
            Self::Exposed { .. } | Self::Timeout { .. } => return false,
        };
        matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
    }
}

/// Whether only this machine can reach this address.
pub fn is_loopback(address: &IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_loopback(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.to_ipv4_mapped().is_some_and(|v4| v4.is_loopback()),
    }
}

async fn resolve(address: &str) -> Result<Vec<SocketAddr>, NetError> {
    let failed = |error| NetError::Resolve { address: address.to_owned(), error };
    let found: Vec<_> = tokio::net::lookup_host(address).await.map_err(failed)?.collect();
    if found.is_empty() {
        return Err(failed(io::Error::new(io::ErrorKind::NotFound, "the name has no address")));
    }
    Ok(found)
}

/// Listens on `HOST:PORT`; port 0 lets the system choose.
///
/// # Errors
/// [`NetError::Exposed`] where other machines could connect and the secret was not given by a person
/// (`explicit_secret`); [`NetError::Resolve`], [`NetError::Bind`].
pub async fn bind(address: &str, explicit_secret: bool) -> Result<Listener, NetError> {
    #[cfg(feature = "simulation")]
    if let Some(bound) = wire::bind(address) {
        let bound = bound.map_err(|error| NetError::Bind { address: address.to_owned(), error })?;
        return Ok(Listener::Simulated(bound));
    }
    let found = resolve(address).await?;
    if !explicit_secret && !found.iter().all(|one| is_loopback(&one.ip())) {
        return Err(NetError::Exposed { address: address.to_owned() });
    }
    let bound = TcpListener::bind(found.as_slice()).await;
    bound.map(Listener::Tcp).map_err(|error| NetError::Bind { address: address.to_owned(), error })
}

/// After this long without an acknowledgement a connection counts as broken. (The system's own limit is a quarter of an hour.)
pub const UNACKNOWLEDGED: Duration = Duration::from_secs(3);

/// Sets the options of a connection: it has no Nagle's delay, and breaks when the other side no longer acknowledges what is sent.
///
/// # Errors
/// What the system says.
pub fn prepare(stream: &Stream) -> io::Result<()> {
    match stream {
        Stream::Tcp(stream) => {
            stream.set_nodelay(true)?;
            #[cfg(target_os = "linux")]
            socket2::SockRef::from(stream).set_tcp_user_timeout(Some(UNACKNOWLEDGED))?;
            Ok(())
        }
        #[cfg(feature = "simulation")]
        Stream::Simulated(_) => Ok(()),
    }
}

/// Keeps a connection to a driver while the driver is stopped and reads nothing; the heartbeat shows whether the driver is there.
/// Connections to other processes don't change.
pub fn be_patient(stream: &Stream, peer: Role) {
    match stream {
        #[cfg(target_os = "linux")]
        Stream::Tcp(stream) if peer == Role::Driver => {
            if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(None) {
                tracing::debug!(%error, "a connection stays impatient");
            }
        }
        Stream::Tcp(_) => {}
        #[cfg(feature = "simulation")]
        Stream::Simulated(stream) => stream.be_patient(peer == Role::Driver),
    }
}

/// Connects to `HOST:PORT`, without Nagle's delay.
///
/// # Errors
/// [`NetError::Timeout`] where it takes longer than `timeout`, resolving included; [`NetError::Resolve`],
/// [`NetError::Connect`].
pub async fn connect(address: &str, timeout: Duration) -> Result<Stream, NetError> {
    let failed = |error| NetError::Connect { address: address.to_owned(), error };
    let connecting = async {
        #[cfg(feature = "simulation")]
        if let Some(connected) = wire::connect(address).await {
            return connected.map(Stream::Simulated).map_err(failed);
        }
        let found = resolve(address).await?;
        let stream = Stream::Tcp(TcpStream::connect(found.as_slice()).await.map_err(failed)?);
        prepare(&stream).map_err(failed)?;
        Ok(stream)
    };
    match own_time::timeout(timeout, connecting).await {
        Some(done) => done,
        None => Err(NetError::Timeout { address: address.to_owned(), after: timeout }),
    }
}
