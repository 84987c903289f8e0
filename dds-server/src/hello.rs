//! The handshake: both sides prove that they know the job's secret before either reads anything of variable length.
//!
//! | from | bytes | |
//! |---|---|---|
//! | connecting | 65 | name of the protocol, first half of a key agreement under the secret |
//! | accepting | 65 | name of the protocol, second half (zeros: refused) |
//! | connecting | 16 | nothing, sealed: a proof |
//! | accepting | 16 | nothing, sealed: a proof |
//! | connecting | 4 + n + 16 | hello, sealed |
//! | accepting | 4 + n + 16 | hello or refusal, sealed |
//! | connecting | 17 | accepted or not, sealed |
//!
//! The agreement ([`seal`](crate::seal)) proves that both know the secret; its keys are new for each connection and each direction
//! and their messages are counted, so nothing can be sent back to where it came from, and nothing again. Each half says whether its
//! side wants what follows to be sealed as well: it is if either does, and otherwise it is neither signed nor encrypted.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use crate::codec::{self, CodecError};
use crate::process::{build_hash, host_name, one_line};
use crate::seal::{Agreement, HALF, Keys, NoKeys, TAG};
use crate::secret::Secret;
use crate::{heartbeat, own_time};

/// How long a handshake may take as a whole.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an encoded hello or refusal.
pub const MAX_HELLO: usize = 4096;

const PROTOCOL: [u8; 16] = *b"stradsap/hello 2";
const REASON: usize = 1024;

/// What a process is in its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Role {
    /// The user's program: it plans.
    Driver,
    /// The same executable: it runs blocks.
    Worker,
    /// A server that holds parts, of an executable of its own.
    Server,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Purpose {
    /// Control messages between the driver and a worker or a server.
    Control,
    /// Signs of life, and nothing that could hold them up.
    Heartbeat,
    /// Frames between any two processes.
    Data,
}

/// How a process introduces itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// What it is.
    pub role: Role,
    /// What this connection is for.
    pub purpose: Purpose,
    /// Its number among the processes of its role, if it has one.
    pub index: Option<u32>,
    /// The generation that it is in.
    pub generation: u32,
    /// The hash of its executable; see [`build_hash`].
    pub build: [u8; 32],
    /// The version of its stradsap.
    pub version: String,
    /// Where it listens for data, or nothing.
    pub address: String,
    /// The name of its machine.
    pub host: String,
    /// Its process number.
    pub pid: u32,
    /// How many threads run blocks in it.
    pub threads: u32,
}

impl Hello {
    /// A hello of this process: its executable, version, host and process number, without an index or address, in generation 0,
    /// with one thread.
    ///
    /// # Errors
    /// Those of [`build_hash`].
    pub fn of_this_process(role: Role, purpose: Purpose) -> io::Result<Hello> {
        Ok(Hello {
            role,
            purpose,
            index: None,
            generation: 0,
            build: build_hash()?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            address: String::new(),
            host: host_name(),
            pid: crate::tasks::process_number(),
            threads: 1,
        })
    }

    /// Its role, number, machine and process number, for messages.
    pub fn who(&self) -> String {
        let role = match self.role {
            Role::Driver => "driver",
            Role::Worker => "worker",
            Role::Server => "server",
        };
        let index = self.index.map_or(String::new(), |index| format!(" {index}"));
        format!("{role}{index} (host {}, pid {})", one_line(&self.host), self.pid)
    }

    /// Refuses a peer that can't work with this one: drivers and workers must be the same executable, a server must be of
    /// the same version.
    fn fits(&self, peer: &Hello) -> Result<(), GreetError> {
        let server = self.role == Role::Server || peer.role == Role::Server;
        if self.version == peer.version && (server || self.build == peer.build) {
            return Ok(());
        }
        Err(GreetError::Build(Box::new(Difference {
            peer: peer.who(),
            ours: short(&self.build),
            our_version: self.version.clone(),
            theirs: short(&peer.build),
            their_version: one_line(&peer.version),
        })))
    }
}

/// How two builds differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Who the peer says that it is.
    pub peer: String,
    /// The first 16 digits of this executable's hash.
    pub ours: String,
    /// This executable's version.
    pub our_version: String,
    /// The first 16 digits of the peer's hash.
    pub theirs: String,
    /// The peer's version.
    pub their_version: String,
}

/// Why a handshake failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GreetError {
    /// The connection failed.
    #[error("the connection failed during the handshake: {0}")]
    Io(io::Error),
    /// The peer went away.
    #[error("the peer ended the connection during the handshake")]
    Closed,
    /// It took too long.
    #[error("the handshake took longer than {} s", TIMEOUT.as_secs())]
    Timeout,
    /// The peer does not speak this protocol, or another version of it.
    #[error("the peer doesn't speak `{}`", String::from_utf8_lossy(&PROTOCOL))]
    Protocol,
    /// The peer does not know the secret.
    #[error("the peer has another secret: is STRADSAP_SECRET or STRADSAP_SECRET_FILE the same for all processes?")]
    Secret,
    /// What the peer said was changed on its way.
    #[error("the handshake was changed on its way")]
    Changed,
    /// What the peer said is longer than it may be.
    #[error("the peer's hello has {len} bytes, but at most {MAX_HELLO} are allowed")]
    TooLong {
        /// Its bytes.
        len: usize,
    },
    /// What the peer said can't be read, or what is to be said can't be written.
    #[error("the hello is malformed: {0}")]
    Malformed(#[from] CodecError),
    /// The peer is another build.
    #[error(
        "{} is another build: {} of version {}, but this is {} of version {}; all processes of a job need the same executable",
        .0.peer, .0.theirs, .0.their_version, .0.ours, .0.our_version
    )]
    Build(Box<Difference>),
    /// The peer was refused, here or there, for this reason.
    #[error("refused: {0}")]
    Refused(String),
    /// The library made no keys: for want of random bytes, most likely.
    #[error(transparent)]
    Keys(#[from] NoKeys),
    /// The variable says something else than it may.
    #[error("{}: `always` or `never` was expected", crate::link::ENCRYPT_VARIABLE)]
    Setting,
}

impl GreetError {
    /// Whether another attempt may succeed: the other side had no time, or too many peers.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed | Self::Timeout)
    }

    /// Whether a process that joins makes another attempt, after so long: for `patience`, and longer where the driver says nothing. It
    /// may be stopped, and its machine accepts connections all the same.
    pub fn is_worth_a_try(&self, waited: Duration, patience: Duration) -> bool {
        match self {
            Self::Timeout => waited < patience.max(heartbeat::pause()),
            _ => self.is_passing() && waited < patience,
        }
    }
}

impl From<io::Error> for GreetError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Io(error),
        }
    }
}

/// What the accepting side says at last. It introduces itself even when it refuses, so that both can say how they differ.
#[derive(Serialize, Deserialize)]
struct Answer {
    hello: Hello,
    refused: Option<String>,
}

/// The connecting side of a handshake. It returns what the peer said of itself, and the keys of the connection if it is sealed from
/// now on, since this side (`seal`) or the other one wants it.
///
/// # Errors
/// See [`GreetError`]. The connection is of no use after one.
pub async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    seal: bool,
) -> Result<(Hello, Option<Keys>), GreetError> {
    let since = Instant::now();
    let greeted =
        own_time::timeout(TIMEOUT, connecting(io, secret, me, seal)).await.unwrap_or(Err(GreetError::Timeout));
    // Where this process was stopped meanwhile the other side has given up, and what arrived before says nothing of that.
    if since.elapsed() < TIMEOUT { greeted } else { greeted.and(Err(GreetError::Timeout)) }
}

async fn connecting<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    seal: bool,
) -> Result<(Hello, Option<Keys>), GreetError> {
    let said = encode(me)?;
    let mut agreement = Agreement::new(secret, &PROTOCOL, true)?;
    write_opening(io, &agreement.say(u8::from(seal))?).await?;
    let they_do = agreement.hear(&read_opening(io).await?).ok_or(GreetError::Secret)?;
    let mut keys = agreement.keys()?;
    prove(io, &mut keys).await?;
    be_proved(io, &mut keys).await?;
    write_said(io, &mut keys, &said).await?;
    let answer: Answer = codec::decode(&read_said(io, &mut keys).await?, MAX_HELLO)?;
    let fits = me.fits(&answer.hello).and_then(|()| match &answer.refused {
        Some(why) => Err(GreetError::Refused(one_line(why))),
        None => Ok(()),
    });
    if answer.refused.is_none() {
        let mut last = Vec::new();
        keys.seal.append(&[u8::from(fits.is_ok())], &mut last)?;
        write(io, &last).await?;
    }
    fits.map(|()| (answer.hello, (seal || they_do != 0).then_some(keys)))
}

/// The accepting side of a handshake. It returns what the peer said of itself, and keys as [`greet`] does.
///
/// `check` is called last, for a peer that has proved the secret and is of the same build. Its reason to refuse is sent to the
/// peer.
///
/// # Errors
/// See [`GreetError`]. The connection is of no use after one.
pub async fn welcome<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    seal: bool,
    check: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<(Hello, Option<Keys>), GreetError> {
    own_time::timeout(TIMEOUT, accepting(io, secret, me, seal, check)).await.unwrap_or(Err(GreetError::Timeout))
}

async fn accepting<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    seal: bool,
    check: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<(Hello, Option<Keys>), GreetError> {
    let mut agreement = Agreement::new(secret, &PROTOCOL, false)?;
    let Some(they_do) = agreement.hear(&read_opening(io).await?) else {
        // Zeros agree to nothing; they only tell a peer of good will why this ends.
        let _gone = write_opening(io, &[0; HALF]).await;
        return Err(GreetError::Secret);
    };
    write_opening(io, &agreement.say(u8::from(seal))?).await?;
    let mut keys = agreement.keys()?;
    // (Who sends again what another one has said comes as far as this.)
    be_proved(io, &mut keys).await?;
    prove(io, &mut keys).await?;
    let hello: Hello = codec::decode(&read_said(io, &mut keys).await?, MAX_HELLO)?;
    let fits = me.fits(&hello).and_then(|()| check(&hello).map_err(|why| GreetError::Refused(reason(&why))));
    let refused = fits.as_ref().err().map(|error| match error {
        GreetError::Refused(why) => why.clone(),
        other => reason(&other.to_string()),
    });
    write_said(io, &mut keys, &encode(&Answer { hello: me.clone(), refused })?).await?;
    fits?;
    let mut last = [0; 1 + TAG];
    io.read_exact(&mut last).await?;
    if open(&mut keys, &last)? != [1] {
        return Err(GreetError::Refused(format!("{} does not accept this {}", hello.who(), me.who())));
    }
    Ok((hello, (seal || they_do != 0).then_some(keys)))
}

fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>, GreetError> {
    let bytes = codec::encode(value)?;
    if bytes.len() > MAX_HELLO {
        return Err(GreetError::TooLong { len: bytes.len() });
    }
    Ok(bytes)
}

async fn write<S: AsyncWrite + Unpin>(io: &mut S, bytes: &[u8]) -> Result<(), GreetError> {
    io.write_all(bytes).await?;
    io.flush().await?;
    Ok(())
}

async fn write_opening<S: AsyncWrite + Unpin>(io: &mut S, half: &[u8; HALF]) -> Result<(), GreetError> {
    write(io, &[&PROTOCOL[..], half].concat()).await
}

/// The name is looked at before the rest is waited for: who speaks something else is refused at once.
async fn read_opening<S: AsyncRead + Unpin>(io: &mut S) -> Result<[u8; HALF], GreetError> {
    let mut name = [0; 16];
    io.read_exact(&mut name).await?;
    if name != PROTOCOL {
        return Err(GreetError::Protocol);
    }
    let mut half = [0; HALF];
    io.read_exact(&mut half).await?;
    Ok(half)
}

async fn prove<S: AsyncWrite + Unpin>(io: &mut S, keys: &mut Keys) -> Result<(), GreetError> {
    let mut proof = Vec::new();
    keys.seal.append(&[], &mut proof)?;
    write(io, &proof).await
}

async fn be_proved<S: AsyncRead + Unpin>(io: &mut S, keys: &mut Keys) -> Result<(), GreetError> {
    let mut proof = [0; TAG];
    io.read_exact(&mut proof).await?;
    open(keys, &proof).map(|_| ())
}

async fn write_said<S: AsyncWrite + Unpin>(io: &mut S, keys: &mut Keys, said: &[u8]) -> Result<(), GreetError> {
    let mut out = (said.len() as u32).to_le_bytes().to_vec();
    keys.seal.append(said, &mut out)?;
    write(io, &out).await
}

async fn read_said<S: AsyncRead + Unpin>(io: &mut S, keys: &mut Keys) -> Result<Vec<u8>, GreetError> {
    let mut len = [0; 4];
    io.read_exact(&mut len).await?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_HELLO {
        return Err(GreetError::TooLong { len });
    }
    let mut sealed = vec![0; len + TAG];
    io.read_exact(&mut sealed).await?;
    open(keys, &sealed)
}

fn open(keys: &mut Keys, sealed: &[u8]) -> Result<Vec<u8>, GreetError> {
    let mut said = vec![0; sealed.len()];
    let len = keys.open.open(sealed, &mut said).map_err(|_| GreetError::Changed)?;
    said.truncate(len);
    Ok(said)
}

/// A reason that fits into an answer, in one line.
fn reason(why: &str) -> String {
    let mut why = one_line(why);
    let mut end = why.len().min(REASON);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why.truncate(end);
    why
}

fn short(build: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*build).to_hex()[..16].to_owned()
}
