//! The driver's side of the network: who has joined, who is lost, and what the driver itself answers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use stradsap_dds_server::frame::{self, FrameError, Header};
use stradsap_dds_server::gate;
use stradsap_dds_server::heartbeat;
use stradsap_dds_server::hello::{Hello, Purpose, Role};
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::store::Store;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::cluster::driver::away::Inboxes;
use crate::cluster::launch::children::Child;
use crate::cluster::wire::join;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{ControlClient, Node};
use crate::cluster::wire::serve::{self, Blobs, Local, Memory};
use crate::memory::home::Home;
use crate::session::locked;

/// How long a process may be silent. It says something every half second.
const SILENCE: Duration = Duration::from_secs(3);
/// The driver keeps the second copy of snapshots where there is only one other home.
const STORE_LIMIT: u64 = 1 << 40;

/// A worker or DDS server that has joined.
pub(crate) struct Member {
    pub(crate) hello: Hello,
    /// Workers only.
    pub(crate) client: Option<ControlClient>,
    /// Servers only: it ends with this connection.
    _control: Option<TcpStream>,
    heart: Option<AbortHandle>,
    /// The driver's end of its connection.
    reached_at: Option<std::net::SocketAddr>,
}

/// A process that is part of the job no more.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) node: Node,
    pub(crate) who: String,
    pub(crate) why: String,
    pub(crate) worker: bool,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.who, self.why)
    }
}

pub(crate) struct Hub {
    pub(crate) secret: Secret,
    pub(crate) links: Arc<Links>,
    blobs: Blobs,
    store: Mutex<Store>,
    pub(crate) homes: Mutex<BTreeMap<u64, Home>>,
    pub(crate) members: Mutex<BTreeMap<Node, Member>>,
    /// The driver's own children, by process number.
    pub(crate) children: Mutex<BTreeMap<u32, Child>>,
    next_node: AtomicU32,
    losses: Mutex<Vec<Loss>>,
    /// How many were lost so far.
    pub(crate) lost: watch::Sender<usize>,
    pub(crate) control_messages: AtomicU64,
    /// Where messages of the running scheduled program go.
    pub(crate) scheduled: Inboxes,
}

impl Hub {
    /// Within the runtime.
    pub(crate) fn new(secret: Secret, me: &Hello) -> Arc<Hub> {
        Arc::new_cyclic(|hub: &Weak<Hub>| {
            let hub = Weak::clone(hub);
            // A process that doesn't hear of rounds would be waited for in vain.
            let links = Links::new(secret.clone(), me, tokio::runtime::Handle::current(), move |node, why| {
                if let Some(hub) = hub.upgrade() {
                    hub.lose(node, &format!("the driver can't reach it: {why}"));
                }
            });
            Hub {
                secret,
                links,
                blobs: Blobs::default(),
                store: Mutex::new(Store::new(STORE_LIMIT)),
                homes: Mutex::default(),
                members: Mutex::default(),
                children: Mutex::default(),
                next_node: AtomicU32::new(1),
                losses: Mutex::default(),
                lost: watch::Sender::new(0),
                control_messages: AtomicU64::new(0),
                scheduled: Inboxes::default(),
            }
        })
    }

    /// Lets others fetch bytes under the number that is given.
    pub(crate) fn offer(&self, bytes: Vec<u8>) -> u64 {
        self.blobs.offer(bytes)
    }

    pub(crate) fn withdraw(&self, blob: u64) {
        self.blobs.withdraw(blob);
    }

    /// How messages name a process.
    pub(crate) fn name(&self, node: Node) -> String {
        locked(&self.members)
            .get(&node)
            .map_or_else(|| format!("process {node}"), |member| name_of(node, &member.hello))
    }

    pub(crate) fn losses(&self) -> Vec<Loss> {
        locked(&self.losses).clone()
    }

    /// Puts a process out of the job: from here on nothing that it says counts.
    pub(crate) fn lose(&self, node: Node, why: &str) {
        let Some(member) = locked(&self.members).remove(&node) else { return };
        if let Some(heart) = &member.heart {
            heart.abort();
        }
        let mut why = why.to_string();
        // A child's end is known exactly, if not at once.
        if let Some(mut child) = locked(&self.children).remove(&member.hello.pid) {
            for _ in 0..20 {
                if child.ended().is_some() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            match child.ended() {
                Some(ended) => why = format!("{ended}"),
                None => {
                    child.kill();
                    why = format!("{why}, killed by the driver");
                }
            }
        }
        let worker = member.hello.role == Role::Worker;
        let loss = Loss { node, who: name_of(node, &member.hello), why, worker };
        // The warning comes when the job goes on without it.
        tracing::info!(%loss, "lost");
        locked(&self.losses).push(loss);
        self.lost.send_modify(|lost| *lost += 1);
    }

    /// Accepts processes of this job, for good.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener, me: Hello) {
        let secret = self.secret.clone();
        let hub = Arc::clone(&self);
        let check = move |peer: &Hello| match peer.purpose {
            Purpose::Control => Ok(()),
            Purpose::Data => serve::admit(peer, hub.links.generation()),
            Purpose::Heartbeat => {
                hub.by_process(peer).map(|_| ()).ok_or_else(|| "no such process has joined".to_string())
            }
        };
        let me = || Hello { generation: self.links.generation(), ..me.clone() };
        match gate::watch(&listener, &secret, me, check, |stream, _, peer| self.meet(stream, peer)).await {}
    }

    /// A process has proved that it belongs to the job.
    fn meet(self: &Arc<Self>, stream: TcpStream, peer: Hello) {
        match peer.purpose {
            Purpose::Control => {
                let node = self.next_node.fetch_add(1, Relaxed);
                tracing::info!(who = name_of(node, &peer), "joined");
                let reached_at = stream.local_addr().ok();
                let (client, control) = match peer.role {
                    Role::Worker => (Some(join::control_client(stream)), None),
                    Role::Server | Role::Driver => (None, Some(stream)),
                };
                let member = Member { hello: peer, client, _control: control, heart: None, reached_at };
                locked(&self.members).insert(node, member);
            }
            Purpose::Heartbeat => {
                let Some(node) = self.by_process(&peer) else { return };
                let hub = Arc::clone(self);
                let heart = tokio::spawn(async move {
                    let lost = heartbeat::beat(stream, heartbeat::EVERY, SILENCE, |_| {}).await;
                    // Not on this task, which `lose` ends.
                    tokio::spawn(async move { hub.lose(node, &lost.to_string()) });
                });
                if let Some(member) = locked(&self.members).get_mut(&node) {
                    member.heart = Some(heart.abort_handle());
                }
            }
            Purpose::Data => {
                let hub = Arc::clone(self);
                tokio::spawn(async move { serve::serve_logged(stream, &peer, &*hub).await });
            }
        }
    }

    fn by_process(&self, peer: &Hello) -> Option<Node> {
        let same = |hello: &Hello| hello.pid == peer.pid && hello.host == peer.host && hello.role == peer.role;
        locked(&self.members).iter().find(|(_, member)| same(&member.hello)).map(|(&node, _)| node)
    }

    /// The members that are complete: with a heartbeat.
    pub(crate) fn complete(&self, role: Role) -> Vec<Node> {
        let members = locked(&self.members);
        members
            .iter()
            .filter(|(_, member)| member.hello.role == role && member.heart.is_some())
            .map(|(&node, _)| node)
            .collect()
    }

    pub(crate) fn address(&self, node: Node) -> Option<String> {
        locked(&self.members).get(&node).map(|member| member.hello.address.clone())
    }

    /// Where a process reaches the driver.
    pub(crate) fn reached_at(&self, node: Node, otherwise: std::net::SocketAddr) -> String {
        let reached = locked(&self.members).get(&node).and_then(|member| member.reached_at);
        reached.unwrap_or(otherwise).to_string()
    }

    pub(crate) fn client(&self, node: Node) -> Option<ControlClient> {
        self.control_messages.fetch_add(1, Relaxed);
        locked(&self.members).get(&node).and_then(|member| member.client.clone())
    }
}

fn name_of(node: Node, hello: &Hello) -> String {
    let role = if hello.role == Role::Worker { "worker" } else { "DDS server" };
    format!("{role} {node} (host {}, pid {})", hello.host, hello.pid)
}

impl Local for Hub {
    fn blobs(&self) -> &Blobs {
        &self.blobs
    }

    fn links(&self) -> &Arc<Links> {
        &self.links
    }

    fn store(&self) -> &Mutex<Store> {
        &self.store
    }

    fn memory(&self, dds: u64, range: Range<usize>) -> Option<Memory> {
        let elements = locked(&self.homes).get(&dds)?.lend();
        if range.start > range.end || range.end > elements.len() {
            return None;
        }
        let mut bytes = Vec::new();
        elements.encode_range(range.start, range.end, &mut bytes);
        Some(Memory::Encoded(bytes))
    }

    fn trouble(&self, peer: Node, why: &str) {
        self.lose(peer, why);
    }

    async fn part(&self, header: Header, stream: &mut TcpStream) -> Result<(), FrameError> {
        // The driver runs no blocks.
        frame::skip_payload(stream, &header).await
    }

    async fn message(&self, header: Header, stream: &mut TcpStream) -> Result<(), FrameError> {
        if !self.scheduled.wants(&header) {
            return frame::skip_payload(stream, &header).await;
        }
        let payload = frame::read_payload(stream, &header).await?;
        self.scheduled.take(&header, payload);
        Ok(())
    }
}
