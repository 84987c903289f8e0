//! Answering other processes: ranges of DDSs from this one's memory, blobs, snapshots, and parts that are pushed here.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use stradsap_dds_server::frame::{self, FrameError, HEADER_LEN, Header, Kind};
use stradsap_dds_server::gate;
use stradsap_dds_server::hello::{Hello, Purpose};
use stradsap_dds_server::link::Link;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::server;
use stradsap_dds_server::store::Store;
use stradsap_dds_server::stream::Listener;
use stradsap_dds_server::tasks;

use crate::cluster::wire::links::{EMPTY, Links, NO_ANSWER, PING_EVERY};
use crate::cluster::wire::protocol::Node;
use crate::memory::reservation::Reservation;
use crate::memory::spill::Spill;
use crate::session::locked;

/// No frame of a store may be larger.
const LARGEST: u64 = 8 << 30;

/// Large things that are about to be fetched, by number.
#[derive(Default)]
pub(crate) struct Blobs {
    held: Mutex<Offered>,
}

#[derive(Default)]
struct Offered {
    last: u64,
    blobs: BTreeMap<u64, Arc<Vec<u8>>>,
}

impl Blobs {
    pub(crate) fn offer(&self, bytes: Vec<u8>) -> u64 {
        let mut held = locked(&self.held);
        held.last += 1;
        let tag = held.last;
        held.blobs.insert(tag, Arc::new(bytes));
        tag
    }

    fn get(&self, tag: u64) -> Option<Arc<Vec<u8>>> {
        locked(&self.held).blobs.get(&tag).cloned()
    }

    /// What this process has offered to itself.
    pub(crate) fn take(&self, tag: u64) -> Option<Vec<u8>> {
        let blob = locked(&self.held).blobs.remove(&tag)?;
        Some(Arc::try_unwrap(blob).unwrap_or_else(|blob| blob.to_vec()))
    }

    pub(crate) fn withdraw(&self, tag: u64) {
        locked(&self.held).blobs.remove(&tag);
    }

    pub(crate) fn clear(&self) {
        locked(&self.held).blobs.clear();
    }
}

/// Elements to be sent.
pub(crate) enum Memory {
    /// Plain ones, where they lie. Nobody writes them while a question is open.
    InPlace(Arc<Reservation>, Range<usize>),
    Encoded(Vec<u8>),
}

/// Where the process has a limit of memory, snapshots that come from now on lie in files.
pub(crate) fn spill_snapshots(store: &Mutex<Store>) {
    if let Some(spill) = Spill::current() {
        locked(store).spill_to(spill.folder(), 0);
    }
}

/// What a process answers from.
pub(crate) trait Local: Send + Sync + 'static {
    fn blobs(&self) -> &Blobs;
    fn links(&self) -> &Arc<Links>;
    fn store(&self) -> &Mutex<Store>;
    /// The elements of a DDS that are in memory here.
    fn memory(&self, dds: u64, range: Range<usize>) -> Option<Memory>;
    /// Hears that a process can't be understood.
    fn trouble(&self, peer: Node, why: &str);
    /// Waits until what is pushed can be taken off its stream: the call that it is for may not have begun here.
    fn ready(&self, header: &Header) -> impl Future<Output = ()> + Send;
    /// Takes a pushed part off the stream.
    fn part(&self, header: Header, stream: &mut Link) -> impl Future<Output = Result<(), FrameError>> + Send;
    /// Takes a message of a synchronous loop or a scheduled program off the stream.
    fn message(&self, header: Header, stream: &mut Link) -> impl Future<Output = Result<(), FrameError>> + Send;
}

/// Accepts data connections of this job's processes, for good.
pub(crate) async fn accept<L: Local>(listener: Listener, secret: Secret, me: Hello, local: Arc<L>) {
    let generation_of = Arc::clone(&local);
    let check = move |peer: &Hello| admit(peer, generation_of.links().generation());
    let me = || Hello { generation: local.links().generation(), purpose: Purpose::Data, ..me.clone() };
    let entered = |stream, _, peer: Hello| {
        let local = Arc::clone(&local);
        tasks::spawn(async move { serve_logged(stream, &peer, &*local).await });
    };
    match gate::watch(&listener, &secret, me, check, entered, |line| tracing::warn!("{line}")).await {}
}

/// Whether a process may ask for data: it must know of the same losses.
pub(crate) fn admit(peer: &Hello, generation: u32) -> Result<(), String> {
    match (peer.purpose == Purpose::Data, peer.generation == generation) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("generation {} is over: this is generation {generation}", peer.generation)),
        (false, _) => Err("only data connections are accepted here".to_string()),
    }
}

pub(crate) async fn serve_logged<L: Local>(stream: Link, peer: &Hello, local: &L) {
    if let Err(error) = serve(stream, peer, peer.generation, local).await {
        tracing::debug!(peer = peer.index, %error, "data connection ended");
    }
}

async fn serve<L: Local>(mut stream: Link, peer: &Hello, generation: u32, local: &L) -> Result<(), FrameError> {
    let links = local.links();
    stream.be_patient(peer.role);
    while let Some(header) = frame::read_header(&mut stream, LARGEST).await? {
        // What a process of an older generation says no longer counts.
        if links.generation() != generation || header.generation != generation {
            return refuse(&mut stream, "that generation is over").await;
        }
        if let Kind::Part | Kind::Blob = header.kind {
            wait_until_ready(&mut stream, &header, local).await?;
        }
        match header.kind {
            Kind::Part => {
                if let Err(error) = local.part(header, &mut stream).await {
                    local.trouble(peer.index.unwrap_or_default(), &error.to_string());
                    return Err(error);
                }
            }
            Kind::Blob => {
                if let Err(error) = local.message(header, &mut stream).await {
                    local.trouble(peer.index.unwrap_or_default(), &error.to_string());
                    return Err(error);
                }
            }
            Kind::Get if header.dds == 0 => match local.blobs().get(header.tag) {
                Some(blob) => {
                    let all = header.lo == 0 && header.hi == 0;
                    let range = if all { 0..blob.len() } else { header.lo as usize..header.hi as usize };
                    match blob.get(range) {
                        Some(bytes) => answer(&mut stream, links, header, bytes).await?,
                        None => refuse(&mut stream, "the blob is shorter").await?,
                    }
                }
                None => refuse(&mut stream, "no such blob").await?,
            },
            Kind::Get if header.tag == 0 => answer_elements(&mut stream, header, local).await?,
            Kind::Get | Kind::Put | Kind::Drop => {
                let answered = server::answer(&mut stream, &header, peer, local.store()).await;
                answered.map_err(|error| FrameError::Io(std::io::Error::other(error.to_string())))?;
            }
            Kind::Ping => frame::write_frame(&mut stream, Header { kind: Kind::Pong, ..header }, &[]).await?,
            Kind::Data | Kind::Done | Kind::Refused | Kind::Pong => {
                tracing::warn!(peer = peer.index, kind = ?header.kind, "an answer that nobody asked for");
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Answers with a range of a DDS, or with single elements of it that the question lists.
async fn answer_elements<L: Local>(stream: &mut Link, header: Header, local: &L) -> Result<(), FrameError> {
    let memory = if header.len > 0 {
        let list = frame::read_payload(stream, &header).await?;
        listed(&header, &list, local).map(Memory::Encoded)
    } else {
        local.memory(header.dds, header.lo as usize..header.hi as usize)
    };
    match memory {
        Some(Memory::Encoded(bytes)) => answer(stream, local.links(), header, &bytes).await,
        Some(Memory::InPlace(reservation, range)) => {
            // SAFETY: questions are asked while no loop runs, or for elements that the running loop does not write; their asker
            // waits for the answer.
            #[allow(unsafe_code)]
            let bytes = unsafe { reservation.bytes(range) };
            answer(stream, local.links(), header, bytes).await
        }
        None => refuse(stream, "no such elements here").await,
    }
}

/// Single elements of a DDS as bytes. Their indices are within the range that is asked for.
fn listed<L: Local>(header: &Header, list: &[u8], local: &L) -> Option<Vec<u8>> {
    let (list, []) = list.as_chunks::<8>() else { return None };
    let mut bytes = Vec::new();
    for at in list.iter().map(|at| u64::from_le_bytes(*at)) {
        if !(header.lo..header.hi).contains(&at) {
            return None;
        }
        match local.memory(header.dds, at as usize..at as usize + 1)? {
            Memory::Encoded(element) => bytes.extend_from_slice(&element),
            Memory::InPlace(reservation, range) => {
                // SAFETY: as for ranges.
                #[allow(unsafe_code)]
                bytes.extend_from_slice(unsafe { reservation.bytes(range) });
            }
        }
    }
    Some(bytes)
}

/// Waits with what is pushed until it can be taken. Meanwhile its sender sees that what it sends arrives, though nobody comes to the
/// pings behind it: the call may begin late where the driver is stopped, or where much is to be fetched first.
async fn wait_until_ready<L: Local>(stream: &mut Link, header: &Header, local: &L) -> Result<(), FrameError> {
    let mut ready = std::pin::pin!(local.ready(header));
    while tokio::time::timeout(PING_EVERY, &mut ready).await.is_err() {
        frame::write_frame(stream, Header { kind: Kind::Pong, call: NO_ANSWER, ..*header }, &[]).await?;
    }
    Ok(())
}

async fn answer(stream: &mut Link, links: &Links, header: Header, bytes: &[u8]) -> Result<(), FrameError> {
    frame::write_frame(stream, Header { kind: Kind::Data, ..header }, bytes).await?;
    links.count_sent((HEADER_LEN + bytes.len()) as u64);
    Ok(())
}

async fn refuse(stream: &mut Link, why: &str) -> Result<(), FrameError> {
    frame::write_frame(stream, Header { kind: Kind::Refused, ..EMPTY }, why.as_bytes()).await
}
