//! Connections of a simulation. Each direction keeps its order; what is written arrives after a while, unless nothing passes on the
//! way, and breaks off as TCP does: with the end of its process, by a reset, or when nothing is acknowledged for long.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

use super::{End, Process, World, current, locked};
use crate::net::UNACKNOWLEDGED;

/// The most bytes on their way in one direction.
const ROOM: usize = 256 << 10;

/// How a direction ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Last {
    /// After all that was written.
    Fin,
    /// At once.
    Reset,
}

struct Packet {
    arrives: Instant,
    bytes: VecDeque<u8>,
}

/// One direction.
struct Pipe {
    packets: VecDeque<Packet>,
    under_way: usize,
    /// When the last packet arrives.
    latest: Instant,
    last: Option<(Instant, Last)>,
    /// Since when something is not acknowledged.
    in_doubt: Option<Instant>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

impl Pipe {
    fn wake(&mut self) {
        self.reader.take().into_iter().chain(self.writer.take()).for_each(Waker::wake);
    }
}

/// One side.
#[derive(Default)]
struct Side {
    /// Of two halves these are gone.
    dropped: u8,
    closed: bool,
    failed: Option<ErrorKind>,
    patient: bool,
}

struct State {
    /// By the side that writes.
    pipes: [Pipe; 2],
    sides: [Side; 2],
}

/// A connection: the side that asked for it is the first.
pub struct Connection {
    number: u64,
    processes: [u32; 2],
    addresses: [SocketAddr; 2],
    world: Arc<World>,
    state: Mutex<State>,
}

impl Connection {
    fn new(world: &Arc<World>, number: u64, processes: [u32; 2], addresses: [SocketAddr; 2]) -> Connection {
        let pipe = || Pipe {
            packets: VecDeque::new(),
            under_way: 0,
            latest: Instant::now(),
            last: None,
            in_doubt: None,
            reader: None,
            writer: None,
        };
        let state = State { pipes: [pipe(), pipe()], sides: [Side::default(), Side::default()] };
        Connection { number, processes, addresses, world: Arc::clone(world), state: Mutex::new(state) }
    }

    /// Until when nothing that this side writes arrives.
    fn blocked(&self, side: usize, now: Instant) -> Option<Instant> {
        self.world.blocked(self.processes[side], self.processes[1 - side], now).map(|(_, until)| until)
    }

    /// Whether something that was to arrive at a moment from this side has arrived; if not, when to look again.
    fn arrived(&self, side: usize, at: Instant, now: Instant) -> Result<(), Instant> {
        match self.blocked(side, now) {
            Some(until) => Err(at.max(until)),
            None if at > now => Err(at),
            None => Ok(()),
        }
    }

    /// What has become of the connection, as this side knows.
    fn failure(&self, state: &State, side: usize, now: Instant) -> Option<ErrorKind> {
        let reset = state.pipes[1 - side]
            .last
            .filter(|&(at, last)| last == Last::Reset && self.arrived(1 - side, at, now).is_ok());
        state.sides[side].failed.or(reset.map(|_| ErrorKind::ConnectionReset))
    }

    fn reset(&self, state: &mut State, by: usize) {
        let at = Instant::now() + self.world.packet();
        let pipe = &mut state.pipes[by];
        pipe.last = Some((at, Last::Reset));
        pipe.packets.clear();
        pipe.wake();
        state.pipes[1 - by].wake();
    }

    fn close(&self, state: &mut State, side: usize, last: Last) {
        if std::mem::replace(&mut state.sides[side].closed, true) {
            return;
        }
        self.world.note("close", format_args!("{} side {side}", self.number));
        let pipe = &mut state.pipes[side];
        if last == Last::Reset {
            self.reset(state, side);
        } else if pipe.last.is_none() {
            pipe.last = Some((pipe.latest, Last::Fin));
            pipe.wake();
        }
        state.pipes[1 - side].wake();
    }

    /// One of its processes has ended. Perhaps what it said last is lost, perhaps nobody hears of it.
    pub(super) fn process_ended(&self, process: u32, silently: bool) {
        for side in 0..2 {
            if self.processes[side] == process {
                let last = if self.world.random(|random| random.once_in(2)) { Last::Fin } else { Last::Reset };
                let mut state = locked(&self.state);
                if silently {
                    state.sides[side].closed = true;
                } else {
                    self.close(&mut state, side, last);
                }
            }
        }
    }

    /// Nothing passes any more between its processes, perhaps: what is under way is in doubt from now on.
    pub(super) fn parted(self: &Arc<Self>, one: u32, other: u32) {
        if self.processes == [one, other] || self.processes == [other, one] {
            for side in 0..2 {
                let mut state = locked(&self.state);
                if state.pipes[side].under_way > 0 {
                    self.doubt(&mut state, side);
                }
            }
        }
    }

    /// What this side has written is not acknowledged: if that lasts, the connection is broken for it.
    fn doubt(self: &Arc<Self>, state: &mut State, side: usize) {
        let now = Instant::now();
        let (one, other) = (self.processes[side], self.processes[1 - side]);
        let Some((since, _)) = self.world.parted(one, other, now) else { return };
        if state.pipes[side].in_doubt.is_some_and(|doubt| doubt >= since) {
            return;
        }
        state.pipes[side].in_doubt = Some(now);
        let connection = Arc::clone(self);
        self.world.handle.spawn(async move {
            tokio::time::sleep(UNACKNOWLEDGED).await;
            let parted = connection.world.parted(one, other, Instant::now());
            let mut state = locked(&connection.state);
            let still = parted.is_some_and(|(since, _)| since <= now) && state.pipes[side].in_doubt == Some(now);
            if still && !state.sides[side].patient && !state.sides[side].closed {
                connection.world.note("unacknowledged", format_args!("{} side {side}", connection.number));
                state.sides[side].failed = Some(ErrorKind::TimedOut);
                state.pipes.iter_mut().for_each(Pipe::wake);
            }
        });
    }
}

/// One side of a connection, which both of its halves have.
struct Shared {
    connection: Arc<Connection>,
    side: usize,
}

impl Shared {
    fn poll_read(
        &self,
        sleep: &mut Option<Pin<Box<Sleep>>>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let (connection, from) = (&self.connection, 1 - self.side);
        loop {
            let now = Instant::now();
            let mut state = locked(&connection.state);
            if let Some(failure) = connection.failure(&state, self.side, now) {
                return Poll::Ready(Err(failure.into()));
            }
            let pipe = &mut state.pipes[from];
            let next = pipe.packets.front().map(|packet| packet.arrives).or(pipe.last.map(|(at, _)| at));
            pipe.reader = Some(cx.waker().clone());
            let Some(next) = next else { return Poll::Pending };
            match connection.arrived(from, next, now) {
                Ok(()) => {
                    take(pipe, into);
                    return Poll::Ready(Ok(()));
                }
                Err(later) => {
                    drop(state);
                    let sleep = sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(later)));
                    if sleep.deadline() != later || sleep.is_elapsed() {
                        sleep.as_mut().reset(later);
                    }
                    ready!(sleep.as_mut().poll(cx));
                }
            }
        }
    }

    fn poll_write(&self, cx: &mut Context<'_>, slices: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let (connection, world) = (&self.connection, &self.connection.world);
        let mut state = locked(&connection.state);
        let now = Instant::now();
        if let Some(failure) = connection.failure(&state, self.side, now) {
            return Poll::Ready(Err(failure.into()));
        }
        let there = &state.sides[1 - self.side];
        let nobody = there.closed || there.failed.is_some();
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let room = ROOM.saturating_sub(state.pipes[self.side].under_way);
        if room == 0 && !nobody {
            state.pipes[self.side].writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let whole = all.min(room.max(1));
        // Now and then less is taken than there would be room for.
        let len =
            world.random(|random| if random.once_in(16) { random.of(1..=whole.max(1) as u64) as usize } else { whole });
        let bytes: VecDeque<u8> = beginning(slices, len);
        let len = bytes.len();
        if nobody {
            // It arrives where there is no connection any more, which is answered by a reset.
            if !silent(&state, 1 - self.side) {
                connection.reset(&mut state, 1 - self.side);
            }
            return Poll::Ready(Ok(len));
        }
        let pipe = &mut state.pipes[self.side];
        pipe.latest = pipe.latest.max(now + world.packet());
        pipe.under_way += len;
        pipe.packets.push_back(Packet { arrives: pipe.latest, bytes });
        world.note("packet", format_args!("{} side {} {len}", connection.number, self.side));
        if let Some(reader) = pipe.reader.take() {
            reader.wake();
        }
        connection.doubt(&mut state, self.side);
        drop(state);
        self.count_packet();
        Poll::Ready(Ok(len))
    }

    /// A process may be to die after some number of packets.
    fn count_packet(&self) {
        if let Some(process) = current()
            && process.number() == self.connection.processes[self.side]
            && process.has_sent()
        {
            process.end(End::Signal(9), false);
        }
    }

    fn finish(&self) {
        let mut state = locked(&self.connection.state);
        let pipe = &mut state.pipes[self.side];
        if pipe.last.is_none() {
            pipe.last = Some((pipe.latest, Last::Fin));
            pipe.wake();
        }
    }

    fn dropped(&self, halves: u8) {
        let mut state = locked(&self.connection.state);
        state.sides[self.side].dropped += halves;
        if state.sides[self.side].dropped == 2 {
            let unread = !state.pipes[1 - self.side].packets.is_empty();
            self.connection.close(&mut state, self.side, if unread { Last::Reset } else { Last::Fin });
        }
    }
}

/// The first bytes of slices.
fn beginning(slices: &[IoSlice<'_>], len: usize) -> VecDeque<u8> {
    let mut bytes = Vec::with_capacity(len);
    for slice in slices {
        bytes.extend_from_slice(&slice[..slice.len().min(len - bytes.len())]);
    }
    bytes.into()
}

/// Whether a side has gone with its machine.
fn silent(state: &State, side: usize) -> bool {
    state.sides[side].closed && state.pipes[side].last.is_none()
}

/// Takes what has arrived first.
fn take(pipe: &mut Pipe, into: &mut ReadBuf<'_>) {
    let Some(packet) = pipe.packets.front_mut() else { return };
    let len = packet.bytes.len().min(into.remaining());
    let (first, second) = packet.bytes.as_slices();
    let of_first = len.min(first.len());
    into.put_slice(&first[..of_first]);
    into.put_slice(&second[..len - of_first]);
    packet.bytes.drain(..len);
    if packet.bytes.is_empty() {
        pipe.packets.pop_front();
    }
    pipe.under_way -= len;
    if let Some(writer) = pipe.writer.take() {
        writer.wake();
    }
}

/// A connection.
pub struct Stream {
    read: ReadHalf,
    write: WriteHalf,
}

/// The direction of a connection that is read.
pub struct ReadHalf {
    shared: Shared,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// The direction of a connection that is written.
pub struct WriteHalf {
    shared: Shared,
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        self.shared.dropped(1);
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.shared.finish();
        self.shared.dropped(1);
    }
}

impl Stream {
    fn new(connection: &Arc<Connection>, side: usize) -> Stream {
        let shared = || Shared { connection: Arc::clone(connection), side };
        Stream { read: ReadHalf { shared: shared(), sleep: None }, write: WriteHalf { shared: shared() } }
    }

    /// Its address on this side.
    pub fn local_addr(&self) -> SocketAddr {
        self.read.shared.connection.addresses[self.read.shared.side]
    }

    /// Its address on the other side.
    pub fn peer_addr(&self) -> SocketAddr {
        self.read.shared.connection.addresses[1 - self.read.shared.side]
    }

    /// Whether it holds though nothing is acknowledged.
    pub fn be_patient(&self, patient: bool) {
        let shared = &self.read.shared;
        if patient {
            locked(&shared.connection.state).sides[shared.side].patient = true;
        }
    }

    /// Both directions, each for itself.
    pub fn into_split(self) -> (ReadHalf, WriteHalf) {
        (self.read, self.write)
    }
}

impl AsyncRead for ReadHalf {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.shared.poll_read(&mut this.sleep, cx, into)
    }
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().read).poll_read(cx, into)
    }
}

impl AsyncWrite for WriteHalf {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.poll_write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.shared.poll_write(cx, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.finish();
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().write).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().write).poll_write_vectored(cx, slices)
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().write).poll_shutdown(cx)
    }
}

/// What has come in at an address and was not accepted yet.
pub(super) struct Incoming {
    process: Arc<Process>,
    queue: Mutex<(VecDeque<Stream>, Option<Waker>)>,
}

/// Where connections come in.
pub struct Listener {
    address: SocketAddr,
    incoming: Arc<Incoming>,
}

impl Listener {
    /// Where it listens.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// The next connection.
    pub async fn accept(&self) -> (Stream, SocketAddr) {
        poll_fn(|cx| {
            let mut queue = locked(&self.incoming.queue);
            queue.1 = Some(cx.waker().clone());
            queue.0.pop_front().map_or(Poll::Pending, |stream| {
                let peer = stream.peer_addr();
                Poll::Ready((stream, peer))
            })
        })
        .await
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(world) = self.incoming.process.try_world() {
            locked(&world.state).listening.remove(&self.address);
        }
    }
}

fn parse(address: &str) -> io::Result<SocketAddr> {
    address.parse().map_err(|_| io::Error::new(ErrorKind::InvalidInput, "a simulation has no names"))
}

/// Listens, where this is a process of a simulation.
pub(crate) fn bind(address: &str) -> Option<io::Result<Listener>> {
    let process = current()?;
    Some(parse(address).map(|mut address| {
        let world = process.world();
        if address.port() == 0 {
            address.set_port(world.next_port());
        }
        let incoming = Arc::new(Incoming { process, queue: Mutex::default() });
        locked(&world.state).listening.insert(address, Arc::clone(&incoming));
        Listener { address, incoming }
    }))
}

/// Connects, where this is a process of a simulation.
pub(crate) async fn connect(address: &str) -> Option<io::Result<Stream>> {
    let process = current()?;
    Some(match parse(address) {
        Ok(address) => connect_to(&process, address).await,
        Err(error) => Err(error),
    })
}

async fn connect_to(process: &Arc<Process>, address: SocketAddr) -> io::Result<Stream> {
    let world = process.world();
    loop {
        let way = world.packet() + world.packet();
        tokio::time::sleep(way).await;
        let (one, now) = (process.number(), Instant::now());
        let incoming = locked(&world.state).listening.get(&address).cloned();
        let Some(incoming) = incoming else {
            return Err(ErrorKind::ConnectionRefused.into());
        };
        let other = incoming.process.number();
        if let Some((_, until)) = world.parted(one, other, now) {
            tokio::time::sleep_until(until).await;
            continue;
        }
        if incoming.process.ended().is_some() {
            return Err(ErrorKind::ConnectionRefused.into());
        }
        let own = SocketAddr::from((Ipv4Addr::LOCALHOST, world.next_port()));
        let number = {
            let mut state = locked(&world.state);
            state.next_connection += 1;
            state.next_connection
        };
        let connection = Arc::new(Connection::new(&world, number, [one, other], [own, address]));
        locked(&world.state).connections.insert(number, Arc::downgrade(&connection));
        world.note("connect", format_args!("{number}: {} to {}", process.name(), incoming.process.name()));
        let mut queue = locked(&incoming.queue);
        queue.0.push_back(Stream::new(&connection, 1));
        if let Some(accepting) = queue.1.take() {
            accepting.wake();
        }
        return Ok(Stream::new(&connection, 0));
    }
}
