//! The driver's side of the network: who has joined, who is lost, and what the driver itself answers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use stradsap_dds_server::frame::{self, FrameError, Header};
use stradsap_dds_server::gate;
use stradsap_dds_server::heartbeat::{self, Lost};
use stradsap_dds_server::hello::{Hello, Purpose, Role};
use stradsap_dds_server::link::Link;
use stradsap_dds_server::records;
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::store::{Encoding, Store, StoreError};
use stradsap_dds_server::stream::Listener;
use stradsap_dds_server::tasks;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::cluster::driver::away::Inboxes;
use crate::cluster::launch::children::{Child, ProcessEnd};
use crate::cluster::wire::join;
use crate::cluster::wire::latest::Latest;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{ControlClient, DRIVER, Node};
use crate::cluster::wire::serve::{self, Blobs, Local, Memory};
use crate::memory::home::Home;
use crate::session::locked;
use crate::session::logging::warning;

/// How long a process may be silent. It says something every half second.
const SILENCE: Duration = Duration::from_secs(3);
/// How long a child that is lost may take to end by itself, and one that was let go.
const LINGERING: Duration = Duration::from_millis(100);
const GOING: Duration = Duration::from_secs(2);
/// How long a process may have a heartbeat here before it is a member.
const UNKNOWN: Duration = Duration::from_secs(2);
/// The exit code of a process that was told to end.
const TERMINATED: i32 = 128 + libc::SIGTERM;
/// The driver keeps the second copy of snapshots where there is only one other home.
const STORE_LIMIT: u64 = 1 << 40;

/// A worker or DDS server that has joined.
pub(crate) struct Member {
    pub(crate) hello: Hello,
    /// Workers only.
    pub(crate) client: Option<ControlClient>,
    /// Servers only: it ends with this connection.
    _control: Option<Link>,
    heart: Option<AbortHandle>,
    /// It was told to end, as its heartbeats say.
    leaving: Arc<AtomicBool>,
    /// The driver's end of its connection.
    reached_at: Option<std::net::SocketAddr>,
}

/// A process that is part of the job no more.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    pub(crate) who: String,
    pub(crate) why: String,
    pub(crate) worker: bool,
    /// How the driver's child ended by itself.
    pub(crate) ended: Option<ProcessEnd>,
}

/// A process that the driver has started.
struct Started {
    role: Role,
    since: Instant,
    child: Child,
}

impl Loss {
    /// Killed by somebody else, as far as one can tell: no body ends its process so.
    pub(crate) fn is_from_outside(&self) -> bool {
        matches!(
            self.ended,
            Some(
                ProcessEnd::Signal(libc::SIGKILL | libc::SIGTERM)
                    | ProcessEnd::KilledForMemory
                    | ProcessEnd::Code(TERMINATED)
            )
        )
    }
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
    /// How messages name every process that ever joined: what one said last may be read when it is lost.
    names: Mutex<BTreeMap<Node, String>>,
    /// The driver's own children, by process number.
    children: Mutex<BTreeMap<u32, Started>>,
    /// The machine that they run on.
    host: String,
    next_node: AtomicU32,
    losses: Arc<Mutex<Vec<Loss>>>,
    /// How many were lost so far.
    pub(crate) lost: Latest<usize>,
    /// Of how many it isn't known yet how they ended.
    unexplained: Latest<usize>,
    runtime: tokio::runtime::Handle,
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
                names: Mutex::default(),
                children: Mutex::default(),
                host: me.host.clone(),
                next_node: AtomicU32::new(1),
                losses: Arc::default(),
                lost: Latest::new(0),
                unexplained: Latest::new(0),
                runtime: tokio::runtime::Handle::current(),
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

    /// Elements in their encoded form, of `size` bytes each or of what they take, from a snapshot that the driver itself keeps.
    pub(crate) fn stored(
        &self,
        dds: u64,
        snapshot: u64,
        range: &Range<usize>,
        size: Option<usize>,
    ) -> Result<Vec<u8>, StoreError> {
        let encoding = size.map_or(Encoding::Encoded, |size| Encoding::Plain { size: size as u64 });
        let (lo, hi) = (range.start as u64, range.end as u64);
        let parts = locked(&self.store).get(dds, snapshot, lo, hi, encoding)?;
        let bytes: Vec<u8> = parts.iter().flat_map(AsRef::as_ref).copied().collect();
        match size {
            Some(_) => Ok(bytes),
            None => records::contents(&bytes, range.len()).ok_or(StoreError::Records { dds, lo, hi }),
        }
    }

    /// Snapshots that the driver itself keeps lie in files where it has a limit of memory.
    pub(crate) fn spill_snapshots(&self) {
        serve::spill_snapshots(&self.store);
    }

    /// Forgets snapshots of a DDS that the driver itself keeps.
    pub(crate) fn drop_snapshots(&self, dds: u64, tags: Range<u64>) {
        locked(&self.store).drop_between(dds, tags);
    }

    /// How messages name a process.
    pub(crate) fn name(&self, node: Node) -> String {
        locked(&self.names).get(&node).cloned().unwrap_or_else(|| format!("process {node}"))
    }

    /// Whether a process is part of the job.
    pub(crate) fn is_member(&self, node: Node) -> bool {
        locked(&self.members).contains_key(&node)
    }

    pub(crate) fn losses(&self) -> Vec<Loss> {
        locked(&self.losses).clone()
    }

    /// Puts a process out of the job: from here on nothing that it says counts.
    ///
    /// Nothing is waited for here, since this may be the network's thread. Who takes the member out, under the lock, is the
    /// one who makes its loss known, and does so before this returns: a loss is in the list and in the count once, so
    /// no recovery misses it, and none begins a second time for it. What comes later is how a child ended, which only
    /// alters what messages say; recoveries wait for that ([`Hub::explained`]), and with it for the end of the child.
    pub(crate) fn lose(&self, node: Node, why: &str) {
        let Some(member) = locked(&self.members).remove(&node) else { return };
        if let Some(heart) = &member.heart {
            heart.abort();
        }
        let worker = member.hello.role == Role::Worker;
        let loss = Loss { who: self.name(node), why: why.to_string(), worker, ended: None };
        let own = member.hello.host == self.host;
        let child = locked(&self.children).remove(&member.hello.pid).filter(|_| own);
        self.unexplained.change(|unexplained| *unexplained += usize::from(child.is_some()));
        let at = {
            let mut losses = locked(&self.losses);
            losses.push(loss.clone());
            losses.len() - 1
        };
        self.lost.change(|lost| *lost += 1);
        let Some(Started { mut child, .. }) = child else {
            tracing::info!(%loss, "lost");
            return;
        };
        let (losses, unexplained) = (Arc::clone(&self.losses), self.unexplained.clone());
        tasks::spawn_on(&self.runtime, async move {
            // A child's end is known exactly, if not at once.
            let ended = child.ends_within(LINGERING).await;
            let why = match ended {
                // One that is put out ends by itself: its code doesn't say why.
                Some(ended @ ProcessEnd::Code(_)) if loss.why != Lost::Ended.to_string() => {
                    format!("{}; {ended}", loss.why)
                }
                Some(ended) => ended.to_string(),
                None => {
                    child.end().await;
                    format!("{}, killed by the driver", loss.why)
                }
            };
            // It would end by itself if its connection did.
            drop(member);
            let loss = Loss { why, ended, ..loss };
            // The warning comes when the job goes on without it.
            tracing::info!(%loss, "lost");
            locked(&losses)[at] = loss;
            unexplained.change(|unexplained| *unexplained -= 1);
        });
    }

    /// A process says that it can't reach another one, which is lost then. Of two that say so of each other, the one that says it
    /// later is out already: its word doesn't count any more.
    pub(crate) fn lose_unreached(&self, by: Node, other: Node, why: &str) {
        if self.is_member(by) {
            // Who can't reach the driver is the one that is cut off.
            let gone = if other == DRIVER { by } else { other };
            self.lose(gone, &format!("{} can't reach it: {why}", self.name(by)));
        }
    }

    /// A worker's part in the job is over, and it knows.
    pub(crate) fn release(&self, node: Node) {
        let Some(member) = locked(&self.members).remove(&node) else { return };
        if let Some(heart) = &member.heart {
            heart.abort();
        }
        let own = member.hello.host == self.host;
        if let Some(Started { mut child, .. }) = locked(&self.children).remove(&member.hello.pid).filter(|_| own) {
            tasks::spawn_on(&self.runtime, async move {
                drop(member);
                if child.ends_within(GOING).await.is_none() {
                    child.end().await;
                }
            });
        }
    }

    fn leaving_of(&self, node: Node) -> Arc<AtomicBool> {
        locked(&self.members).get(&node).map(|member| Arc::clone(&member.leaving)).unwrap_or_default()
    }

    /// Whether a process was told to end.
    pub(crate) fn is_leaving(&self, node: Node) -> bool {
        self.leaving_of(node).load(Relaxed)
    }

    /// Waits until it is known how all lost children have ended.
    pub(crate) async fn explained(&self) {
        self.unexplained.wait(|&unexplained| (unexplained == 0).then_some(())).await;
    }

    /// Accepts processes of this job, for good.
    pub(crate) async fn accept(self: Arc<Self>, listener: Listener, me: Hello) {
        let secret = self.secret.clone();
        let hub = Arc::clone(&self);
        let check = move |peer: &Hello| match peer.purpose {
            Purpose::Control | Purpose::Heartbeat => Ok(()),
            Purpose::Data => serve::admit(peer, hub.links.generation()),
        };
        let me = || Hello { generation: self.links.generation(), ..me.clone() };
        let entered = |stream, _, peer| self.meet(stream, peer);
        match gate::watch(&listener, &secret, me, check, entered, |line| warning!("{line}")).await {}
    }

    /// A process has proved that it belongs to the job.
    fn meet(self: &Arc<Self>, stream: Link, peer: Hello) {
        match peer.purpose {
            Purpose::Control => {
                let node = self.next_node.fetch_add(1, Relaxed);
                let name = name_of(node, &peer);
                tracing::info!(who = name, "joined");
                locked(&self.names).insert(node, name);
                let reached_at = stream.local_addr().ok();
                let (client, control) = match peer.role {
                    Role::Worker => (Some(join::control_client(stream)), None),
                    Role::Server | Role::Driver => (None, Some(stream)),
                };
                let member =
                    Member { hello: peer, client, _control: control, heart: None, leaving: Arc::default(), reached_at };
                // One that has begun anew, because it was not heard the first time.
                let mut members = locked(&self.members);
                members.retain(|_, other| other.heart.is_some() || !same_process(&other.hello, &member.hello));
                members.insert(node, member);
            }
            Purpose::Heartbeat => {
                let hub = Arc::clone(self);
                tasks::spawn(async move {
                    // Its first connection counts when the last byte of the greeting has gone out: this one may be sooner.
                    let since = Instant::now();
                    loop {
                        match hub.by_process(&peer) {
                            Some(node) => return hub.hear(node, stream),
                            None if since.elapsed() > UNKNOWN => return,
                            None => sleep(Duration::from_millis(5)).await,
                        }
                    }
                });
            }
            Purpose::Data => {
                let hub = Arc::clone(self);
                tasks::spawn(async move { serve::serve_logged(stream, &peer, &*hub).await });
            }
        }
    }

    /// A member gives signs of life.
    fn hear(self: &Arc<Self>, node: Node, stream: Link) {
        let (hub, leaving) = (Arc::clone(self), self.leaving_of(node));
        let heart = tasks::spawn(async move {
            let heard = |header: &Header| {
                leaving.store(header.tag & heartbeat::LEAVING != 0, Relaxed);
                if header.tag & heartbeat::CUT_OFF != 0 && header.generation == hub.links.generation() {
                    hub.lose_unreached(node, header.lo as Node, "nothing arrives");
                }
            };
            let lost = heartbeat::beat(stream, heartbeat::EVERY, SILENCE, |_| {}, heard).await;
            // Not on this task, which `lose` ends.
            tasks::spawn(async move { hub.lose(node, &lost.to_string()) });
        });
        if let Some(member) = locked(&self.members).get_mut(&node) {
            member.heart = Some(heart.abort_handle());
        }
    }

    fn by_process(&self, peer: &Hello) -> Option<Node> {
        locked(&self.members).iter().find(|(_, member)| same_process(&member.hello, peer)).map(|(&node, _)| node)
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

    /// A child was born.
    pub(crate) fn adopt(&self, role: Role, child: Child) {
        locked(&self.children).insert(child.pid(), Started { role, since: Instant::now(), child });
    }

    /// The process numbers of the driver's children that are complete members.
    fn joined_children(&self) -> BTreeSet<u32> {
        let members = locked(&self.members);
        let own = members.values().filter(|member| member.heart.is_some() && member.hello.host == self.host);
        own.map(|member| member.hello.pid).collect()
    }

    /// How many children of a role have not joined yet.
    pub(crate) fn starting(&self, role: Role) -> usize {
        let joined = self.joined_children();
        let children = locked(&self.children);
        children.iter().filter(|(pid, started)| started.role == role && !joined.contains(pid)).count()
    }

    /// Gives all children that have not joined more time: this process was stopped for so long.
    pub(crate) fn give_time(&self, stopped: Duration) {
        locked(&self.children).values_mut().for_each(|started| started.since += stopped);
    }

    /// Takes out the children that have ended before they had joined, or did not join in this time: their role, process number,
    /// and what became of them.
    pub(crate) fn died_unjoined(&self, patience: Duration) -> Vec<(Role, u32, String)> {
        let joined = self.joined_children();
        let mut died = Vec::new();
        locked(&self.children).retain(|pid, started| {
            if joined.contains(pid) {
                return true;
            }
            let why = match started.child.ended() {
                Some(ended) => format!("ended with {ended}"),
                // It hangs.
                None if started.since.elapsed() > patience => {
                    let _killed = started.child.kill();
                    format!("had not joined after {} s", patience.as_secs())
                }
                None => return true,
            };
            died.push((started.role, *pid, why));
            false
        });
        let half = |member: &Member| member.heart.is_none() && member.hello.host == self.host;
        for (_, pid, _) in &died {
            locked(&self.members).retain(|_, member| !(half(member) && member.hello.pid == *pid));
        }
        died
    }

    /// Gives up all children: those that have joined, and the others.
    pub(crate) fn all_children(&self) -> (Vec<Child>, Vec<Child>) {
        let joined = self.joined_children();
        let all = std::mem::take(&mut *locked(&self.children));
        let (joined, others): (Vec<_>, Vec<_>) = all.into_iter().partition(|(pid, _)| joined.contains(pid));
        let children = |all: Vec<(u32, Started)>| all.into_iter().map(|(_, started)| started.child).collect();
        (children(joined), children(others))
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

fn same_process(one: &Hello, other: &Hello) -> bool {
    one.pid == other.pid && one.host == other.host && one.role == other.role
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

    async fn ready(&self, _header: &Header) {}

    async fn part(&self, header: Header, stream: &mut Link) -> Result<(), FrameError> {
        // The driver runs no blocks.
        frame::skip_payload(stream, &header).await
    }

    async fn message(&self, header: Header, stream: &mut Link) -> Result<(), FrameError> {
        if !self.scheduled.wants(&header) {
            return frame::skip_payload(stream, &header).await;
        }
        let payload = frame::read_payload(stream, &header).await?;
        self.scheduled.take(&header, payload);
        Ok(())
    }
}
