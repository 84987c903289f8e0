//! Data connections to other processes: parts pushed to the worker that needs them next, and ranges, blobs and snapshots asked for.
//!
//! Pushes to one process go one after the other over a connection of their own. Questions take an idle connection or
//! open one, and wait for the answer before it is idle again.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stradsap_dds_server::frame::{self, FrameError, Header, Kind};
use stradsap_dds_server::hello::{GreetError, Hello, Purpose};
use stradsap_dds_server::link::{Link, greet};
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::{heartbeat, net, own_time, records, tasks};
use tokio::io::AsyncWrite;
use tokio::sync::{mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::cluster::wire::protocol::{DRIVER, Holder, Node, Peer, Problem};
use crate::memory::reservation::Reservation;
use crate::session::locked;
use crate::session::timeline::{Category, task_span};

/// How long a process may take to accept a connection, or to begin an answer. Hung processes are found by their
/// heartbeats, sooner.
const PATIENCE: Duration = Duration::from_secs(20);
const CONNECTING: Duration = Duration::from_secs(4);
/// How long to wait for file descriptors, before another look.
const LACKING: Duration = Duration::from_millis(100);
/// How often a connection for parts is tried while it is idle, and for how long it may be silent.
pub(super) const PING_EVERY: Duration = Duration::from_millis(500);
/// A sign of life that answers no ping: what was sent has arrived, and waits. Pings are numbered from the next one on.
pub(super) const NO_ANSWER: u64 = 0;
const DEAF: Duration = Duration::from_secs(3);
/// A question asks for no more bytes than this at once.
pub(crate) const CHUNK: usize = 16 << 20;
/// One about single elements.
const LISTED: usize = 1 << 20;
/// The first question about elements of which nobody knows how large they are.
const FIRST: usize = 1 << 12;

/// A range, cut into pieces of about that many bytes.
pub(crate) struct Pieces {
    rest: Range<usize>,
    each: usize,
    bytes: usize,
    /// Whether all elements have as many bytes.
    plain: bool,
}

impl Pieces {
    /// Of elements of `size` bytes, or of what they take: that shows as they come.
    pub(crate) fn new(range: Range<usize>, size: Option<usize>) -> Pieces {
        Pieces::of(range, size, CHUNK)
    }

    fn of(range: Range<usize>, size: Option<usize>, bytes: usize) -> Pieces {
        let each = size.map_or(bytes * FIRST / CHUNK, |size| (bytes / size.max(1)).max(1));
        Pieces { rest: range, each, bytes, plain: size.is_some() }
    }

    pub(crate) fn next(&mut self) -> Option<Range<usize>> {
        let end = self.rest.end.min(self.rest.start.saturating_add(self.each));
        let piece = std::mem::replace(&mut self.rest.start, end)..end;
        (!piece.is_empty()).then_some(piece)
    }

    /// What a piece had: the next one of elements that take what they take is larger or smaller.
    pub(crate) fn took(&mut self, elements: usize, bytes: usize) {
        if self.plain {
            return;
        }
        let fit = (elements as u128 * self.bytes as u128 / bytes.max(1) as u128) as usize;
        self.each = fit.clamp(1, self.each.saturating_mul(4));
    }
}

/// Why a data connection could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("it takes no part in generation {0}")]
    Unknown(u32),
    #[error(transparent)]
    Connect(#[from] net::NetError),
    #[error("{address}: {source}")]
    Greet { address: String, source: GreetError },
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error("no answer within {} s", PATIENCE.as_secs())]
    Silent,
    #[error("nothing that is sent arrives: no answer for {} s", DEAF.as_secs())]
    Deaf,
    #[error("it ended the connection")]
    Closed,
    #[error("it refused: {0}")]
    Refused(String),
    #[error("an answer of another kind or size than asked for")]
    Unexpected,
}

impl LinkError {
    /// What it means for who wanted something from `node`: that can't be reached, unless the cause is on this side.
    pub(crate) fn problem(self, node: Node) -> Problem {
        match self {
            Self::Connect(error) if error.is_own() => Problem::Broken(error.to_string()),
            error => Problem::Peer { node, why: error.to_string() },
        }
    }
}

/// Ends a task with its owner.
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What is pushed.
pub(crate) struct Outgoing {
    pub(crate) header: Header,
    pub(crate) payload: Payload,
}

pub(crate) enum Payload {
    Bytes(Vec<u8>),
    /// Plain elements that nobody writes until they have arrived, and what is dropped when they are sent.
    Memory(
        Arc<Reservation>,
        Range<usize>,
        #[expect(dead_code, reason = "it is there to be dropped")] Option<Box<dyn Send + Sync>>,
    ),
}

#[derive(Default)]
struct State {
    generation: u32,
    addresses: BTreeMap<Node, String>,
    pushers: BTreeMap<Node, mpsc::UnboundedSender<Outgoing>>,
    idle: BTreeMap<Node, Vec<Link>>,
    tasks: Vec<AbortHandle>,
}

/// The data connections of a process.
pub(crate) struct Links {
    secret: Secret,
    hello: Mutex<Hello>,
    state: Mutex<State>,
    sent: AtomicU64,
    runtime: tokio::runtime::Handle,
    /// Told when a push fails: to whom, and why.
    trouble: Box<dyn Fn(Node, String) + Send + Sync>,
}

/// What comes back from a process to which things are pushed.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// The last ping that was answered.
    answered: u64,
    /// How often there was a sign that what was sent has arrived.
    signs: u64,
}

impl Heard {
    fn note(&mut self, call: u64) {
        self.signs += 1;
        if call != NO_ANSWER {
            self.answered = call;
        }
    }
}

impl Links {
    /// Links of a process that introduces itself by `hello`. To be called within the runtime.
    pub(crate) fn new(
        secret: Secret,
        hello: &Hello,
        runtime: tokio::runtime::Handle,
        trouble: impl Fn(Node, String) + Send + Sync + 'static,
    ) -> Arc<Links> {
        Arc::new(Links {
            secret,
            hello: Mutex::new(Hello { purpose: Purpose::Data, ..hello.clone() }),
            state: Mutex::default(),
            sent: AtomicU64::new(0),
            runtime,
            trouble: Box::new(trouble),
        })
    }

    /// Begins a generation: all connections of the one before end.
    pub(crate) fn begin_generation(&self, me: Node, generation: u32, peers: impl IntoIterator<Item = Peer>) {
        let mut hello = locked(&self.hello);
        (hello.index, hello.generation) = (Some(me), generation);
        drop(hello);
        let addresses = peers.into_iter().map(|peer| (peer.node, peer.address)).collect();
        let old = std::mem::replace(&mut *locked(&self.state), State { generation, addresses, ..State::default() });
        old.tasks.into_iter().for_each(|task| task.abort());
    }

    pub(crate) fn generation(&self) -> u32 {
        locked(&self.state).generation
    }

    /// Bytes that were sent over data connections so far, frames' headers included.
    pub(crate) fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    pub(crate) fn count_sent(&self, bytes: u64) {
        self.sent.fetch_add(bytes, Relaxed);
    }

    fn address(&self, node: Node) -> Result<(String, u32), LinkError> {
        let state = locked(&self.state);
        let address = state.addresses.get(&node).cloned();
        address.map(|address| (address, state.generation)).ok_or(LinkError::Unknown(state.generation))
    }

    async fn connect(&self, node: Node) -> Result<Link, LinkError> {
        let (since, mut tries, mut lacking) = (Instant::now(), 0, false);
        loop {
            let (address, _) = self.address(node)?;
            let stream = match net::connect(&address, CONNECTING).await {
                // It may have some again when others close theirs.
                Err(error) if error.is_own() && since.elapsed() < PATIENCE => {
                    if !std::mem::replace(&mut lacking, true) {
                        tracing::warn!("{error}; trying again for {} s", PATIENCE.as_secs());
                    }
                    tokio::time::sleep(LACKING).await;
                    continue;
                }
                connected => connected?,
            };
            let hello = locked(&self.hello).clone();
            match greet(stream, &self.secret, &hello).await {
                Ok((link, peer)) => {
                    link.be_patient(peer.role);
                    return Ok(link);
                }
                // A driver that is stopped, perhaps: its machine accepts connections all the same.
                Err(GreetError::Timeout) if node == DRIVER && since.elapsed() < heartbeat::pause() => {}
                // Strangers that crowd there, perhaps.
                Err(source) if source.is_passing() && tries < 2 => tries += 1,
                Err(source) => return Err(LinkError::Greet { address, source }),
            }
        }
    }

    /// Sends something to a process, some time soon. Whether it arrives is reported elsewhere.
    pub(crate) fn push(self: &Arc<Self>, to: Node, what: Outgoing) {
        let mut state = locked(&self.state);
        if let Some(pusher) = state.pushers.get(&to) {
            // Where the pusher has ended, its end was reported.
            let _ended = pusher.send(what);
            return;
        }
        let (sender, queue) = mpsc::unbounded_channel();
        let _sent = sender.send(what);
        state.pushers.insert(to, sender);
        let links = Arc::clone(self);
        let task = tasks::spawn_on(&self.runtime, async move {
            if let Err(error) = links.push_all(to, queue).await {
                (links.trouble)(to, error.to_string());
            }
        });
        state.tasks.push(task.abort_handle());
    }

    async fn push_all(&self, to: Node, mut queue: mpsc::UnboundedReceiver<Outgoing>) -> Result<(), LinkError> {
        let (mut reader, mut writer) = self.connect(to).await?.into_split();
        // Whether anything arrives shows in the answers to pings alone: nobody answers to a part.
        let (heard, mut answers) = watch::channel(Heard::default());
        let listening = async move {
            while let Ok(Some(header)) = frame::read_header(&mut reader, 0).await {
                heard.send_modify(|heard| heard.note(header.call));
            }
        };
        let listening = AbortOnDrop(tasks::spawn_on(&self.runtime, listening).abort_handle());
        let generation = self.generation();
        let mut ticks = tokio::time::interval(PING_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // A process that is stopped counts no time; a driver that is shows in its heartbeat.
        let (mut asked, mut silent, mut signs) = (NO_ANSWER, Duration::ZERO, 0);
        let deaf = if to == DRIVER { heartbeat::pause() } else { DEAF };
        loop {
            tokio::select! {
                biased;
                what = queue.recv() => match what {
                    None => break,
                    Some(Outgoing { header, payload }) => self.send(&mut writer, header, &payload).await?,
                },
                closed = answers.changed() => closed.map_err(|_| LinkError::Closed)?,
                _ = ticks.tick() => {
                    let now = *answers.borrow();
                    if std::mem::replace(&mut signs, now.signs) != now.signs {
                        silent = Duration::ZERO;
                    }
                    if now.answered == asked {
                        (asked, silent) = (asked + 1, Duration::ZERO);
                        let ping = Header { kind: Kind::Ping, generation, call: asked, ..EMPTY };
                        frame::write_frame(&mut writer, ping, &[]).await?;
                    } else if silent > deaf {
                        return Err(LinkError::Deaf);
                    } else {
                        silent += PING_EVERY;
                    }
                }
            }
        }
        drop(listening);
        Ok(())
    }

    async fn send<W: AsyncWrite + Unpin>(
        &self,
        stream: &mut W,
        header: Header,
        payload: &Payload,
    ) -> Result<(), LinkError> {
        let mut span = task_span(Category::Send, 0);
        let bytes = match payload {
            Payload::Bytes(bytes) => bytes.as_slice(),
            // SAFETY: the plan lets nobody write these elements before the receiver has had them.
            #[allow(unsafe_code)]
            Payload::Memory(reservation, range, _) => unsafe { reservation.bytes(range.clone()) },
        };
        span.set(bytes.len() as u64);
        self.write(stream, header, bytes).await
    }

    async fn write<W: AsyncWrite + Unpin>(
        &self,
        stream: &mut W,
        header: Header,
        bytes: &[u8],
    ) -> Result<(), LinkError> {
        frame::write_frame(stream, header, bytes).await?;
        self.count_sent((frame::HEADER_LEN + bytes.len()) as u64);
        Ok(())
    }

    /// Asks a process something, and gives the stream with the answer's header read from it.
    async fn ask(&self, node: Node, question: Header, payload: &[u8]) -> Result<(Link, Header), LinkError> {
        let idle = locked(&self.state).idle.get_mut(&node).and_then(Vec::pop);
        let mut stream = match idle {
            Some(stream) => stream,
            None => self.connect(node).await?,
        };
        self.write(&mut stream, question, payload).await?;
        let patience = if node == DRIVER { heartbeat::pause() } else { PATIENCE };
        let answer = own_time::timeout(patience, frame::read_header(&mut stream, CHUNK as u64 * 64)).await;
        let header = answer.ok_or(LinkError::Silent)??.ok_or(LinkError::Closed)?;
        if header.kind == Kind::Refused {
            let why = frame::read_payload(&mut stream, &header).await?;
            return Err(LinkError::Refused(String::from_utf8_lossy(&why).into_owned()));
        }
        Ok((stream, header))
    }

    fn back(&self, node: Node, stream: Link, generation: u32) {
        let mut state = locked(&self.state);
        if state.generation == generation {
            state.idle.entry(node).or_default().push(stream);
        }
    }

    /// Fetches a blob.
    pub(crate) async fn blob(&self, from: Node, tag: u64) -> Result<Vec<u8>, LinkError> {
        let generation = self.generation();
        let (mut stream, header) = self.ask(from, Header { kind: Kind::Get, generation, tag, ..EMPTY }, &[]).await?;
        let bytes = frame::read_payload(&mut stream, &header).await?;
        self.back(from, stream, generation);
        Ok(bytes)
    }

    /// Fetches bytes of a blob, from `start` on.
    pub(crate) async fn blob_into(&self, from: Node, tag: u64, start: usize, into: &mut [u8]) -> Result<(), LinkError> {
        let generation = self.generation();
        let (lo, hi) = (start as u64, (start + into.len()) as u64);
        let (mut stream, header) =
            self.ask(from, Header { kind: Kind::Get, generation, tag, lo, hi, ..EMPTY }, &[]).await?;
        if header.len != into.len() as u64 {
            return Err(LinkError::Unexpected);
        }
        frame::read_payload_into(&mut stream, &header, into).await?;
        self.back(from, stream, generation);
        Ok(())
    }

    /// Fetches a range of elements in their encoded form: of `size` bytes each, or of what they take.
    pub(crate) async fn encoded(
        &self,
        dds: u64,
        range: Range<usize>,
        from: Holder,
        size: Option<usize>,
    ) -> Result<Vec<u8>, LinkError> {
        let n = range.len();
        let bytes = self.stored(dds, range, from, size).await?;
        if from.snapshot == 0 || size.is_some() {
            return Ok(bytes);
        }
        records::contents(&bytes, n).ok_or(LinkError::Unexpected)
    }

    /// The same as a snapshot has them: those that take what they take are behind their lengths.
    pub(crate) async fn stored(
        &self,
        dds: u64,
        range: Range<usize>,
        from: Holder,
        size: Option<usize>,
    ) -> Result<Vec<u8>, LinkError> {
        let generation = self.generation();
        // A snapshot's home does not know types: the request says how large an element is.
        let size = size.map(|size| (size as u64).to_le_bytes());
        let payload = size.as_ref().filter(|_| from.snapshot > 0).map_or(&[][..], |size| &size[..]);
        let (mut stream, header) = self.ask(from.node, question(generation, dds, &range, from), payload).await?;
        let bytes = frame::read_payload(&mut stream, &header).await?;
        self.back(from.node, stream, generation);
        Ok(bytes)
    }

    /// Fetches plain elements into their place.
    pub(crate) async fn plain(
        &self,
        dds: u64,
        range: Range<usize>,
        from: Holder,
        into: &mut [u8],
    ) -> Result<(), LinkError> {
        let generation = self.generation();
        // A snapshot's home does not know types: the request says how large an element is.
        let size = (into.len() / range.len().max(1)) as u64;
        let payload = if from.snapshot == 0 { &[][..] } else { &size.to_le_bytes()[..] };
        let (mut stream, header) = self.ask(from.node, question(generation, dds, &range, from), payload).await?;
        if header.len != into.len() as u64 {
            return Err(LinkError::Unexpected);
        }
        frame::read_payload_into(&mut stream, &header, into).await?;
        self.back(from.node, stream, generation);
        Ok(())
    }

    /// Fetches a range into a reservation. Nobody else uses its places meanwhile.
    #[allow(unsafe_code)]
    pub(crate) async fn fill(
        &self,
        reservation: &Reservation,
        dds: u64,
        range: Range<usize>,
        from: Holder,
    ) -> Result<(), Problem> {
        let problem = |error: LinkError| error.problem(from.node);
        let mut pieces = Pieces::new(range, reservation.ops().plain_size());
        while let Some(piece) = pieces.next() {
            if reservation.is_plain() {
                // SAFETY: the caller's promise.
                let into = unsafe { reservation.bytes_mut(piece.clone()) };
                self.plain(dds, piece, from, into).await.map_err(problem)?;
                continue;
            }
            let bytes = self.encoded(dds, piece.clone(), from, None).await.map_err(problem)?;
            pieces.took(piece.len(), bytes.len());
            // SAFETY: the caller's promise.
            let decoded = unsafe { reservation.decode(piece, &bytes) };
            decoded.map_err(|error| Problem::Broken(error.to_string()))?;
        }
        Ok(())
    }

    /// The same of single elements, in ascending order, that a process has in memory. Gives their bytes.
    #[allow(unsafe_code)]
    pub(crate) async fn fill_list(
        &self,
        reservation: &Reservation,
        dds: u64,
        elements: &[usize],
        from: Node,
    ) -> Result<usize, Problem> {
        let generation = self.generation();
        let from = Holder::memory(from);
        let mut pieces = Pieces::of(0..elements.len(), reservation.ops().plain_size(), LISTED);
        let mut all = 0;
        while let Some(piece) = pieces.next() {
            let piece = &elements[piece];
            let (Some(first), Some(last)) = (piece.first(), piece.last()) else { continue };
            let list: Vec<u8> = piece.iter().flat_map(|&at| (at as u64).to_le_bytes()).collect();
            let fetched = async {
                let question = question(generation, dds, &(*first..last + 1), from);
                let (mut stream, header) = self.ask(from.node, question, &list).await?;
                let bytes = frame::read_payload(&mut stream, &header).await?;
                self.back(from.node, stream, generation);
                Ok(bytes)
            };
            let bytes = fetched.await.map_err(|error: LinkError| error.problem(from.node))?;
            pieces.took(piece.len(), bytes.len());
            all += bytes.len();
            // SAFETY: the caller's promise.
            let decoded = unsafe { reservation.decode_list(piece.iter().copied(), &bytes) };
            decoded.map_err(|error| Problem::Broken(error.to_string()))?;
        }
        Ok(all)
    }

    /// Stores a range of a DDS with a process, under a snapshot's number.
    pub(crate) async fn put(
        &self,
        to: Node,
        dds: u64,
        range: &Range<usize>,
        snapshot: u64,
        bytes: &[u8],
    ) -> Result<(), LinkError> {
        let generation = self.generation();
        let header = Header { kind: Kind::Put, ..question(generation, dds, range, Holder { node: to, snapshot }) };
        let (stream, answer) = self.ask(to, header, bytes).await?;
        if answer.kind != Kind::Done {
            return Err(LinkError::Unexpected);
        }
        self.back(to, stream, generation);
        Ok(())
    }

    /// Lets a process forget snapshots of a DDS.
    pub(crate) async fn drop_snapshots(&self, to: Node, dds: u64, tags: Range<u64>) -> Result<(), LinkError> {
        let generation = self.generation();
        let header = Header { kind: Kind::Drop, generation, dds, lo: tags.start, tag: tags.end, ..EMPTY };
        let (stream, _answer) = self.ask(to, header, &[]).await?;
        self.back(to, stream, generation);
        Ok(())
    }
}

fn question(generation: u32, dds: u64, range: &Range<usize>, from: Holder) -> Header {
    Header {
        kind: Kind::Get,
        generation,
        dds,
        lo: range.start as u64,
        hi: range.end as u64,
        tag: from.snapshot,
        ..EMPTY
    }
}

pub(crate) const EMPTY: Header =
    Header { kind: Kind::Get, generation: 0, call: 0, dds: 0, lo: 0, hi: 0, tag: 0, len: 0, checksum: 0 };

#[cfg(test)]
#[path = "links_tests.rs"]
mod tests;
