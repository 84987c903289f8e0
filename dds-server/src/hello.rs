//! The handshake: both sides prove that they know the job's secret before either reads anything of variable length.
//!
//! | from | bytes | |
//! |---|---|---|
//! | connecting | 48 | name of the protocol, nonce |
//! | accepting | 48 | name of the protocol, nonce |
//! | connecting | 32 | keyed hash of both nonces |
//! | accepting | 32 | keyed hash of both nonces (zeros: refused) |
//! | connecting | 4 + n + 32 | hello, keyed hash of nonces and hello |
//! | accepting | 4 + n + 32 | hello or refusal, keyed hash of nonces and both |
//! | connecting | 33 | accepted or not, keyed hash of nonces, both and that |
//!
//! The hashes are BLAKE3 under the secret; each step has a name of its own that is hashed with it, so that nothing can be
//! sent back to where it came from, and nonces are new, so that nothing can be sent again. Comparison takes the same time
//! wherever two hashes differ. What follows on the connection is neither hashed nor encrypted.

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use crate::codec::{self, CodecError};
use crate::own_time;
use crate::process::{build_hash, host_name, one_line};
use crate::secret::{Secret, SecretError, random};

/// How long a handshake may take as a whole.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// The most bytes of an encoded hello or refusal.
pub const MAX_HELLO: usize = 4096;

const PROTOCOL: [u8; 16] = *b"stradsap/hello 1";
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
    /// Its place among those of its role, where it has been given one.
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
            pid: std::process::id(),
            threads: 1,
        })
    }

    /// What it is, where: for messages.
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
    /// There were no random bytes for a nonce.
    #[error(transparent)]
    Random(#[from] SecretError),
}

impl GreetError {
    /// Whether another try may go well: the other side had no time, or too many to greet.
    pub fn is_passing(&self) -> bool {
        matches!(self, Self::Io(_) | Self::Closed | Self::Timeout)
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

/// The nonces of a handshake under its secret.
struct Proofs<'a> {
    secret: &'a Secret,
    connecting: [u8; 32],
    accepting: [u8; 32],
}

impl Proofs<'_> {
    fn of(&self, step: &str, said: &[&[u8]]) -> blake3::Hash {
        let mut fields: Vec<&[u8]> = vec![&PROTOCOL, step.as_bytes(), &self.connecting, &self.accepting];
        fields.extend_from_slice(said);
        self.secret.mac(&fields)
    }
}

/// The connecting side of a handshake; gives what the peer said of itself.
///
/// # Errors
/// See [`GreetError`]. The connection is of no use after one.
pub async fn greet<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
) -> Result<Hello, GreetError> {
    own_time::timeout(TIMEOUT, connecting(io, secret, me)).await.unwrap_or(Err(GreetError::Timeout))
}

async fn connecting<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
) -> Result<Hello, GreetError> {
    let said = encode(me)?;
    let mine = random()?;
    write_opening(io, &mine).await?;
    let proofs = Proofs { secret, connecting: mine, accepting: read_opening(io).await? };
    write(io, proofs.of("connecting proves", &[]).as_bytes()).await?;
    if read_hash(io).await? != proofs.of("accepting proves", &[]) {
        return Err(GreetError::Secret);
    }
    write_said(io, &said, &proofs.of("connecting says", &[&said])).await?;
    let heard = read_said(io).await?;
    if heard.hash != proofs.of("accepting says", &[&said, &heard.bytes]) {
        return Err(GreetError::Changed);
    }
    let answer: Answer = codec::decode(&heard.bytes, MAX_HELLO)?;
    let fits = me.fits(&answer.hello).and_then(|()| match &answer.refused {
        Some(why) => Err(GreetError::Refused(one_line(why))),
        None => Ok(()),
    });
    let verdict = [u8::from(fits.is_ok())];
    if answer.refused.is_none() {
        let last = proofs.of("connecting ends", &[&said, &heard.bytes, &verdict]);
        write(io, &[&verdict[..], last.as_bytes()].concat()).await?;
    }
    fits.map(|()| answer.hello)
}

/// The accepting side of a handshake; gives what the peer said of itself.
///
/// `check` is asked last, of a peer that has proved the secret and is of the same build; its reason to refuse travels to
/// the peer.
///
/// # Errors
/// See [`GreetError`]. The connection is of no use after one.
pub async fn welcome<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    check: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<Hello, GreetError> {
    own_time::timeout(TIMEOUT, accepting(io, secret, me, check)).await.unwrap_or(Err(GreetError::Timeout))
}

async fn accepting<S: AsyncRead + AsyncWrite + Unpin>(
    io: &mut S,
    secret: &Secret,
    me: &Hello,
    check: impl FnOnce(&Hello) -> Result<(), String>,
) -> Result<Hello, GreetError> {
    let theirs = read_opening(io).await?;
    let mine = random()?;
    write_opening(io, &mine).await?;
    let proofs = Proofs { secret, connecting: theirs, accepting: mine };
    if read_hash(io).await? != proofs.of("connecting proves", &[]) {
        // Zeros are no proof of anything; they only tell a peer of good will why this ends.
        let _gone = write(io, &[0; 32]).await;
        return Err(GreetError::Secret);
    }
    write(io, proofs.of("accepting proves", &[]).as_bytes()).await?;
    let heard = read_said(io).await?;
    if heard.hash != proofs.of("connecting says", &[&heard.bytes]) {
        return Err(GreetError::Changed);
    }
    let hello: Hello = codec::decode(&heard.bytes, MAX_HELLO)?;
    let fits = me.fits(&hello).and_then(|()| check(&hello).map_err(|why| GreetError::Refused(reason(&why))));
    let refused = fits.as_ref().err().map(|error| match error {
        GreetError::Refused(why) => why.clone(),
        other => reason(&other.to_string()),
    });
    let said = encode(&Answer { hello: me.clone(), refused })?;
    write_said(io, &said, &proofs.of("accepting says", &[&heard.bytes, &said])).await?;
    fits?;
    let mut last = [0; 33];
    io.read_exact(&mut last).await?;
    let (verdict, hash) = last.split_at(1);
    if blake3::Hash::from_slice(hash).ok() != Some(proofs.of("connecting ends", &[&heard.bytes, &said, verdict])) {
        return Err(GreetError::Changed);
    }
    if verdict != [1] {
        return Err(GreetError::Refused(format!("{} does not accept this {}", hello.who(), me.who())));
    }
    Ok(hello)
}

struct Said {
    bytes: Vec<u8>,
    hash: blake3::Hash,
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

async fn write_opening<S: AsyncWrite + Unpin>(io: &mut S, nonce: &[u8; 32]) -> Result<(), GreetError> {
    write(io, &[&PROTOCOL[..], nonce].concat()).await
}

/// The name is looked at before the nonce is waited for: who speaks something else is refused at once.
async fn read_opening<S: AsyncRead + Unpin>(io: &mut S) -> Result<[u8; 32], GreetError> {
    let mut name = [0; 16];
    io.read_exact(&mut name).await?;
    if name != PROTOCOL {
        return Err(GreetError::Protocol);
    }
    let mut nonce = [0; 32];
    io.read_exact(&mut nonce).await?;
    Ok(nonce)
}

async fn read_hash<S: AsyncRead + Unpin>(io: &mut S) -> Result<blake3::Hash, GreetError> {
    let mut bytes = [0; 32];
    io.read_exact(&mut bytes).await?;
    Ok(bytes.into())
}

async fn write_said<S: AsyncWrite + Unpin>(io: &mut S, said: &[u8], hash: &blake3::Hash) -> Result<(), GreetError> {
    write(io, &[&(said.len() as u32).to_le_bytes()[..], said, hash.as_bytes()].concat()).await
}

async fn read_said<S: AsyncRead + Unpin>(io: &mut S) -> Result<Said, GreetError> {
    let mut len = [0; 4];
    io.read_exact(&mut len).await?;
    let len = u32::from_le_bytes(len) as usize;
    if len > MAX_HELLO {
        return Err(GreetError::TooLong { len });
    }
    let mut bytes = vec![0; len];
    io.read_exact(&mut bytes).await?;
    Ok(Said { bytes, hash: read_hash(io).await? })
}

/// A reason that fits into an answer.
fn reason(why: &str) -> String {
    let mut end = why.len().min(REASON);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why[..end].to_owned()
}

fn short(build: &[u8; 32]) -> String {
    blake3::Hash::from_bytes(*build).to_hex()[..16].to_owned()
}
