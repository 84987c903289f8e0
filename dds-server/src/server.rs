//! Serving a store to peers, embedded in a worker or as a process of its own.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::frame::{self, FrameError, Header, Kind};
use crate::heartbeat::{self, Lost};
use crate::hello::{GreetError, Hello, Purpose, Role};
use crate::link::{Link, greet};
use crate::logging;
use crate::net::{self, NetError};
use crate::secret::Secret;
use crate::store::{Encoding, Slice, Store, StoreError};
use crate::stream::Stream;
use crate::{amounts, gate, hello, signals, store, tasks};

/// How long the driver may take to listen after a server was started.
const JOIN_WITHIN: Duration = Duration::from_secs(4);

/// How long to wait between two tries to reach the driver.
const JOIN_AGAIN: Duration = Duration::from_millis(100);

/// How long the control connection may outlive the heartbeat where the driver ends both.
const PARTING: Duration = Duration::from_millis(500);

/// Why a connection is not served any more.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A frame was not read or written.
    #[error("{peer}: {error}")]
    Frame {
        /// Who is at the other end.
        peer: String,
        /// What went wrong.
        error: FrameError,
    },
    /// An answer came where requests were expected.
    #[error("{peer}: a request was expected, but a frame of kind {kind:?} came")]
    Unexpected {
        /// Who is at the other end.
        peer: String,
        /// The kind that came.
        kind: Kind,
    },
}

/// Why a server ended before the driver was done with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// There is no network as it was asked for.
    #[error(transparent)]
    Net(#[from] NetError),
    /// The driver and this server don't go together.
    #[error("{address}: the driver can't be joined: {error}")]
    Join {
        /// Where the driver listens.
        address: String,
        /// What went wrong.
        error: GreetError,
    },
    /// The peer at the address to join is no driver.
    #[error("{address}: a driver was expected, but {found} is there")]
    NoDriver {
        /// Where it listens.
        address: String,
        /// Who it is.
        found: String,
    },
    /// The driver is lost.
    #[error("the driver at {address} is lost: {lost}")]
    Lost {
        /// Where it listened.
        address: String,
        /// How that was noticed.
        lost: Lost,
    },
    /// The control connection failed.
    #[error("the control connection to {0}")]
    Control(#[from] ServeError),
    /// This process can't say what it is.
    #[error("this executable can't be read: {0}")]
    Executable(io::Error),
    /// This process can't say where it listens.
    #[error("the address that was bound is not known: {0}")]
    Address(io::Error),
}

/// A store cannot be left half-changed by a panic: its methods change it after everything that can fail.
fn lock(store: &Mutex<Store>) -> MutexGuard<'_, Store> {
    store.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory set aside for a payload, given back where the payload does not arrive.
struct Claim<'a> {
    store: &'a Mutex<Store>,
    len: u64,
}

impl<'a> Claim<'a> {
    fn new(store: &'a Mutex<Store>, header: &Header) -> Result<Claim<'a>, StoreError> {
        lock(store).claim(header.len)?;
        Ok(Claim { store, len: header.len })
    }

    fn store(self, header: &Header, bytes: Vec<u8>) -> Result<(), StoreError> {
        let mut store = lock(self.store);
        // The generation may have changed while the payload came.
        store.admit(header.generation)?;
        store.put_claimed(header.dds, header.tag, header.lo, header.hi, bytes)?;
        drop(store);
        std::mem::forget(self);
        Ok(())
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        lock(self.store).release(self.len);
    }
}

/// Answers the requests of a peer that was welcomed, until it ends the connection.
///
/// See [`answer`] for the requests.
///
/// # Errors
/// [`ServeError`], after which the connection is of no use.
pub async fn serve_connection<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    peer: &Hello,
    store: &Mutex<Store>,
) -> Result<(), ServeError> {
    let limit = lock(store).limit();
    let failed = |error| ServeError::Frame { peer: peer.who(), error };
    loop {
        match frame::read_header(io, limit).await {
            Ok(Some(header)) => answer(io, &header, peer, store).await?,
            Ok(None) => return Ok(()),
            Err(error @ FrameError::TooLong { .. }) => {
                // Too much to be skipped; the peer gets an answer before it is left.
                let _gone = refuse(io, &Header::new(Kind::Refused), error.to_string()).await;
                return Err(failed(error));
            }
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Answers the request whose header has just been read from `io`, reading its payload.
///
/// | kind | payload | answer |
/// |---|---|---|
/// | [`Put`](Kind::Put) | the elements `lo..hi` of `dds`; each behind its length ([`records`](crate::records)), if they are not plain | [`Done`](Kind::Done) when they are stored in snapshot `tag` |
/// | [`Get`](Kind::Get) | the bytes of an element as a little-endian `u64`, where elements are plain; otherwise none | [`Data`](Kind::Data) with elements `lo..hi` of `dds` in snapshot `tag` |
/// | [`Drop`](Kind::Drop) | none | [`Done`](Kind::Done) when the snapshots `lo..tag` of `dds` are forgotten |
/// | [`Ping`](Kind::Ping) | none | [`Pong`](Kind::Pong) |
///
/// What can't be done is answered by [`Refused`](Kind::Refused) with the reason, also where the header's generation is older
/// than the newest that the store has seen. An answer has the numbers of its request.
///
/// # Errors
/// [`ServeError`], after which the connection is of no use.
pub async fn answer<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    header: &Header,
    peer: &Hello,
    store: &Mutex<Store>,
) -> Result<(), ServeError> {
    let done = match header.kind {
        Kind::Put => put(io, header, store).await,
        Kind::Get => get(io, header, store).await,
        Kind::Drop if header.len == 0 => forget(io, header, store).await,
        Kind::Ping if header.len == 0 => frame::write_frame(io, header.answer(Kind::Pong), &[]).await,
        Kind::Drop | Kind::Ping => skip_and_refuse(io, header, "this request has no payload".to_owned()).await,
        Kind::Part | Kind::Blob => {
            skip_and_refuse(io, header, "no loop runs here: only snapshots are served".to_owned()).await
        }
        Kind::Data | Kind::Done | Kind::Refused | Kind::Pong => {
            return Err(ServeError::Unexpected { peer: peer.who(), kind: header.kind });
        }
    };
    done.map_err(|error| ServeError::Frame { peer: peer.who(), error })
}

async fn put<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    header: &Header,
    store: &Mutex<Store>,
) -> Result<(), FrameError> {
    // Not within the match below: a guard that is held across an await would stop the others.
    let admitted = lock(store).admit(header.generation);
    let claim = match admitted.and_then(|()| Claim::new(store, header)) {
        Ok(claim) => claim,
        Err(error) => return skip_and_refuse(io, header, error.to_string()).await,
    };
    let bytes = match frame::read_payload(io, header).await {
        Ok(bytes) => bytes,
        // All of it was read: the next frame begins where it should.
        Err(error @ FrameError::Checksum { .. }) => return refuse(io, header, error.to_string()).await,
        Err(error) => return Err(error),
    };
    match claim.store(header, bytes) {
        Ok(()) => frame::write_frame(io, header.answer(Kind::Done), &[]).await,
        Err(error) => refuse(io, header, error.to_string()).await,
    }
}

async fn get<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    header: &Header,
    store: &Mutex<Store>,
) -> Result<(), FrameError> {
    let encoding = match header.len {
        0 => Encoding::Encoded,
        8 => {
            let mut size = [0; 8];
            frame::read_payload_into(io, header, &mut size).await?;
            Encoding::Plain { size: u64::from_le_bytes(size) }
        }
        _ => return skip_and_refuse(io, header, "the payload of this request has 0 or 8 bytes".to_owned()).await,
    };
    let found = {
        let mut store = lock(store);
        let admitted = store.admit(header.generation);
        admitted.and_then(|()| store.get(header.dds, header.tag, header.lo, header.hi, encoding))
    };
    match found {
        Ok(slices) => {
            let parts: Vec<&[u8]> = slices.iter().map(Slice::as_ref).collect();
            frame::write_frame_parts(io, header.answer(Kind::Data), &parts).await
        }
        Err(error) => refuse(io, header, error.to_string()).await,
    }
}

async fn forget<S: AsyncWrite + Unpin>(io: &mut S, header: &Header, store: &Mutex<Store>) -> Result<(), FrameError> {
    let admitted = {
        let mut store = lock(store);
        store.admit(header.generation).map(|()| store.drop_between(header.dds, header.lo..header.tag))
    };
    match admitted {
        Ok(_) => frame::write_frame(io, header.answer(Kind::Done), &[]).await,
        Err(error) => refuse(io, header, error.to_string()).await,
    }
}

async fn skip_and_refuse<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    header: &Header,
    why: String,
) -> Result<(), FrameError> {
    frame::skip_payload(io, header).await?;
    refuse(io, header, why).await
}

async fn refuse<S: AsyncWrite + Unpin>(io: &mut S, header: &Header, why: String) -> Result<(), FrameError> {
    frame::write_frame(io, header.answer(Kind::Refused), why.as_bytes()).await
}

/// How a server of its own is to run.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where the driver listens, as `HOST:PORT`.
    pub join: String,
    /// Where to listen for data, as `HOST:PORT`; port 0 lets the system choose.
    pub bind: String,
    /// The job's secret.
    pub secret: Secret,
    /// Whether a person gave the secret: only then other machines may be let in.
    pub explicit_secret: bool,
    /// The most bytes that snapshots may take.
    pub memory: u64,
    /// The folder for parts that come while more than this many bytes are held in memory.
    pub spill: Option<(PathBuf, u64)>,
    /// This server's place among the servers, where it has been given one.
    pub index: Option<u32>,
    /// The generation that it is started in.
    pub generation: u32,
    /// For how long a driver may be silent whose connections hold.
    pub pause: Duration,
}

impl ServerConfig {
    /// A server that joins the driver at `join`, listens on a loopback port that the system chooses, and holds at most
    /// `memory` bytes.
    pub fn new(join: impl Into<String>, secret: Secret, memory: u64) -> ServerConfig {
        ServerConfig {
            join: join.into(),
            bind: "127.0.0.1:0".to_owned(),
            secret,
            explicit_secret: false,
            memory,
            spill: None,
            index: None,
            generation: 0,
            pause: heartbeat::pause(),
        }
    }
}

/// Where a server keeps what there is no memory for: in a folder that is given, or else as the environment says (`STRADSAP_SPILL`, and
/// `STRADSAP_MEMORY` for the bytes that the process may have, `memory` otherwise). Half of the memory is for parts that arrive.
///
/// # Errors
/// The option or variable, and what is wrong with it.
pub fn spill(folder: Option<PathBuf>, memory: u64) -> Result<Option<(PathBuf, u64)>, String> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let (named, folder) = match (folder, variable("STRADSAP_SPILL")) {
        (Some(folder), _) => ("--spill", folder),
        (None, Some(folder)) => ("STRADSAP_SPILL", PathBuf::from(folder)),
        (None, None) => return Ok(None),
    };
    store::check_folder(&folder).map_err(|error| format!("{named}: {}: {error}", folder.display()))?;
    let memory = match variable("STRADSAP_MEMORY") {
        Some(text) if named == "STRADSAP_SPILL" => {
            let bytes = text.to_str().and_then(amounts::bytes);
            bytes.ok_or_else(|| format!("STRADSAP_MEMORY={}: {} was expected", text.display(), amounts::EXPECTED))?
        }
        _ => memory,
    };
    Ok(Some((folder, memory / 2)))
}

/// Runs a server: joins the driver with a control and a heartbeat connection, serves data connections, and ends when the
/// driver ends the control connection. The control connection is served like one for data.
///
/// # Errors
/// [`ServerError`], also where the driver is lost.
pub async fn run(config: ServerConfig) -> Result<(), ServerError> {
    let ServerConfig { join, bind, secret, explicit_secret, memory, spill, index, generation, pause } = config;
    if !tasks::is_simulated() {
        tokio::spawn(signals::end_when_told());
    }
    let listener = net::bind(&bind, explicit_secret).await?;
    let mut bound = listener.local_addr().map_err(ServerError::Address)?;
    let since = Instant::now();
    let mut stream = reach(&join).await?;
    if bound.ip().is_unspecified() {
        // Others reach this machine where the driver does.
        bound = SocketAddr::new(stream.local_addr().map_err(ServerError::Address)?.ip(), bound.port());
    }
    let mut me = Hello::of_this_process(Role::Server, Purpose::Control).map_err(ServerError::Executable)?;
    me.index = index;
    me.generation = generation;
    me.address = bound.to_string();
    let (mut control, driver) = loop {
        match introduce(stream, &join, &secret, &me).await {
            // Perhaps strangers crowd there.
            Err(ServerError::Join { error, .. }) if error.is_worth_a_try(since.elapsed(), hello::TIMEOUT) => {
                tokio::time::sleep(JOIN_AGAIN).await;
                stream = reach(&join).await?;
            }
            done => break done?,
        }
    };
    control.be_patient(driver.role);
    if let Some(index) = index {
        logging::set_name(format!("server {index}"));
    }
    let heart = beating(&join, &secret, &Hello { purpose: Purpose::Heartbeat, ..me.clone() }).await?;

    let mut store = Store::new(memory);
    if let Some((folder, keep)) = spill {
        store.spill_to(&folder, keep);
    }
    let store = Arc::new(Mutex::new(store));
    // It was new a line ago, so there is no generation that could be newer.
    let _first = lock(&store).admit(generation);
    tracing::info!("serving {} at {}", driver.who(), me.address);

    let mut serving = JoinSet::new();
    let welcoming = gate::watch(
        &listener,
        &secret,
        || Hello { purpose: Purpose::Data, generation: lock(&store).generation(), ..me.clone() },
        |peer: &Hello| match peer.purpose {
            Purpose::Data => Ok(()),
            other => Err(format!("a server is connected to for data, not for {other:?}")),
        },
        |mut link, _, peer| {
            while serving.try_join_next().is_some() {}
            let store = Arc::clone(&store);
            link.be_patient(peer.role);
            serving.spawn(tasks::owned(async move {
                if let Err(error) = serve_connection(&mut link, &peer, &store).await {
                    tracing::warn!("{error}");
                }
            }));
        },
        |line| tracing::warn!("{line}"),
    );
    let controlled = serve_connection(&mut control, &driver, &store);
    let beating = heartbeat::beat(heart, heartbeat::EVERY, pause, |_| {}, |_| {});
    tokio::pin!(controlled);
    tokio::select! {
        biased;
        ended = &mut controlled => Ok(ended?),
        lost = beating => match tokio::time::timeout(PARTING, controlled).await {
            Ok(Ok(())) if matches!(lost, Lost::Ended) => Ok(()),
            _ => Err(ServerError::Lost { address: join, lost }),
        },
        never = welcoming => match never {},
    }
}

/// Connects to the driver, which may be about to listen.
async fn reach(join: &str) -> Result<Stream, ServerError> {
    let until = Instant::now() + JOIN_WITHIN;
    loop {
        match net::connect(join, JOIN_WITHIN).await {
            Err(NetError::Connect { .. }) if Instant::now() + JOIN_AGAIN < until => {
                tokio::time::sleep(JOIN_AGAIN).await;
            }
            done => return Ok(done?),
        }
    }
}

/// The second connection to the driver, which may not have finished with the first.
async fn beating(join: &str, secret: &Secret, me: &Hello) -> Result<Link, ServerError> {
    let since = Instant::now();
    loop {
        match introduce(reach(join).await?, join, secret, me).await {
            Err(ServerError::Join { error, .. })
                if error.is_worth_a_try(since.elapsed(), hello::TIMEOUT)
                    || (matches!(error, GreetError::Refused(_)) && since.elapsed() < hello::TIMEOUT) =>
            {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            other => return other.map(|(heart, _)| heart),
        }
    }
}

async fn introduce(stream: Stream, join: &str, secret: &Secret, me: &Hello) -> Result<(Link, Hello), ServerError> {
    let address = || join.to_owned();
    let (link, peer) =
        greet(stream, secret, me).await.map_err(|error| ServerError::Join { address: address(), error })?;
    match peer.role {
        hello::Role::Driver => Ok((link, peer)),
        _ => Err(ServerError::NoDriver { address: address(), found: peer.who() }),
    }
}
