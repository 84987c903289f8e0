//! A worker process: what it does for its driver.
//!
//! The network has the main thread, with a runtime of its own; loops, recordings and whatever else takes time run on a
//! second thread and those of the pool.

pub(crate) mod answer;
pub(crate) mod bench;
pub(crate) mod dispatch;
pub(crate) mod exchange;
pub(crate) mod minibatch;
pub(crate) mod operate;
pub(crate) mod pager;
pub(crate) mod running;
pub(crate) mod scheduled;
pub(crate) mod site;

use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use stradsap_dds_server::codec;
use stradsap_dds_server::frame::{self, FrameError, Header};
use stradsap_dds_server::hello::{Hello, Role};
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::store::Store;
use tarpc::context::Context;
use tokio::net::TcpStream;
use tokio::sync::{Notify, oneshot, watch};

use crate::body::lease::Lease;
use crate::body::slow_path::Pager;
use crate::cluster::launch::roles::WorkerRole;
use crate::cluster::wire::join::{self, Joined};
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{
    Control, DRIVER, GatherJob, Install, KeepJob, Membership, Node, OperateEnd, OperateJob, Prepare, Problem,
    RecordJob, Recorded, RemoteFailure, RunEnd, RunJob, ScheduleEnd, ScheduleJob, SnapshotJob, SyncEnd, SyncJob,
};
use crate::cluster::wire::serve::{self, Blobs, Local, Memory};
use crate::cluster::worker::bench::Workbench;
use crate::cluster::worker::dispatch::Room;
use crate::cluster::worker::exchange::Syncing;
use crate::cluster::worker::pager::{Elements, Pages};
use crate::cluster::worker::running::{Place, Running};
use crate::cluster::worker::scheduled::Scheduling;
use crate::dds::relaxed::board;
use crate::loops::record::record_slices;
use crate::memory::shard::Shard;
use crate::planner::share::Share;
use crate::session::error::{ClusterError, Result};
use crate::session::logging;
use crate::session::timeline::{self, Category, span, task_span};
use crate::session::{Session, locked};

/// Bytes of snapshots that a worker keeps for others.
const STORE_LIMIT: u64 = 1 << 40;
/// How long the question to run a loop may be behind the question how it ended.
const BEGINNING: Duration = Duration::from_secs(20);
/// Logs of so many slices travel together.
const SLICES_A_BLOB: usize = 64;

/// A worker from its start to its end.
pub(crate) fn run(role: &WorkerRole) -> Result<ExitCode> {
    let session = Session::builder().threads(role.threads()).verify(false).explain(false).build()?;
    let runtime = join::runtime()?;
    runtime.block_on(async {
        let threads = session.threads() as u32;
        let Joined { me, secret, control, listener, heart } =
            join::join(&role.join, Role::Worker, threads, role.index).await?;
        let worker = Worker::new(&me, secret.clone(), session);
        tokio::spawn(serve::accept(listener, secret, me, Arc::clone(&worker)));
        let service = join::serve_control(control, Server(Arc::clone(&worker)));
        let why = tokio::select! {
            () = service => "it ended the connection".to_string(),
            why = heart => why,
        };
        worker.stop();
        if worker.dismissed.load(Relaxed) {
            tracing::info!("the driver has ended the job");
            return Ok(ExitCode::SUCCESS);
        }
        Err(ClusterError::DriverLost(why).into())
    })
}

pub(crate) struct Worker {
    pub(crate) node: AtomicU32,
    pub(crate) links: Arc<Links>,
    pub(crate) blobs: Blobs,
    store: Mutex<Store>,
    pub(crate) bench: Workbench,
    running: watch::Sender<Option<Arc<Running>>>,
    syncing: watch::Sender<Option<Arc<Syncing>>>,
    scheduling: watch::Sender<Option<Arc<Scheduling>>>,
    /// Set while an epoch ends: whatever takes long is to stop.
    pub(crate) stopped: Mutex<Arc<AtomicBool>>,
    pub(crate) trouble: Arc<Trouble>,
    jobs: mpsc::Sender<Box<dyn FnOnce() + Send>>,
    /// The driver has said that the job is over.
    dismissed: AtomicBool,
}

/// The first process that could not be reached in this epoch.
#[derive(Default)]
pub(crate) struct Trouble {
    first: Mutex<Option<(Node, String)>>,
    news: Notify,
}

impl Worker {
    fn new(me: &Hello, secret: Secret, session: Session) -> Arc<Worker> {
        let (jobs, queue) = mpsc::channel::<Box<dyn FnOnce() + Send>>();
        let trouble = Arc::new(Trouble::default());
        let told = Arc::clone(&trouble);
        let links = Links::new(secret, me, tokio::runtime::Handle::current(), move |node, why| {
            told.tell(node, why);
        });
        // It ends with the last sender, which the worker holds.
        std::thread::spawn(move || queue.into_iter().for_each(|job| job()));
        Arc::new(Worker {
            node: AtomicU32::new(me.index.unwrap_or_default()),
            links,
            blobs: Blobs::default(),
            store: Mutex::new(Store::new(STORE_LIMIT)),
            bench: Workbench::new(session),
            running: watch::Sender::new(None),
            syncing: watch::Sender::new(None),
            scheduling: watch::Sender::new(None),
            stopped: Mutex::default(),
            trouble,
            jobs,
            dismissed: AtomicBool::new(false),
        })
    }

    fn stop(&self) {
        locked(&self.stopped).store(true, Relaxed);
        if let Some(running) = self.running.borrow().as_ref() {
            running.blocks.stop();
        }
        if let Some(syncing) = self.syncing.borrow().as_ref() {
            syncing.stop();
        }
        if let Some(scheduling) = self.scheduling.borrow().as_ref() {
            scheduling.stop();
        }
        self.trouble.news.notify_waiters();
    }

    /// Runs something on the second thread.
    pub(crate) async fn apart<R: Send + 'static>(
        self: &Arc<Self>,
        f: impl FnOnce(&Arc<Worker>) -> R + Send + 'static,
    ) -> std::result::Result<R, Problem> {
        let (reply, answer) = oneshot::channel();
        let worker = Arc::clone(self);
        let job = Box::new(move || {
            let _whoever_asked_left = reply.send(f(&worker));
        });
        self.jobs.send(job).map_err(|_| Problem::Stopped)?;
        answer.await.map_err(|_| Problem::Broken("a job of the worker panicked".to_string()))
    }

    fn check(&self, epoch: u32) -> std::result::Result<(), Problem> {
        let ours = self.links.epoch();
        if epoch == ours { Ok(()) } else { Err(Problem::OldEpoch { theirs: epoch, ours }) }
    }

    async fn join(self: &Arc<Self>, membership: Membership) -> std::result::Result<(), Problem> {
        logging::set_name(format!("worker {}", membership.you));
        tracing::info!(epoch = membership.epoch, workers = membership.workers.len(), "a new epoch");
        timeline::switch(membership.timeline);
        self.stop();
        // What runs ends before anything is forgotten.
        self.apart(|_| ()).await?;
        self.node.store(membership.you, Relaxed);
        let workers: Vec<Node> = membership.workers.iter().map(|peer| peer.node).collect();
        let peers = membership.workers.into_iter().chain(membership.others);
        self.links.begin_epoch(membership.you, membership.epoch, peers);
        *locked(&self.stopped) = Arc::default();
        *locked(&self.trouble.first) = None;
        self.running.send_replace(None);
        self.syncing.send_replace(None);
        self.scheduling.send_replace(None);
        self.blobs.clear();
        self.bench.clear(membership.you, workers);
        Ok(())
    }

    async fn record(self: &Arc<Self>, job: RecordJob) -> std::result::Result<Recorded, Problem> {
        let stopped = Arc::clone(&locked(&self.stopped));
        let me = self.node.load(Relaxed);
        let runtime = tokio::runtime::Handle::current();
        let logs = self
            .apart(move |worker| {
                let _span = span(Category::Record, job.slices.len() as u64);
                let bench = &worker.bench;
                bench.commit();
                let task = bench.task(&job.task)?;
                let captured = bench.captured(&job.captures)?;
                let relaxed = board::of_bytes(&captured, &job.relaxed)
                    .ok_or_else(|| Problem::Broken("relaxed state of another length".to_string()))?;
                let shards = bench.shards_of(&job.captures);
                let ids = job.captures.iter().map(crate::cluster::worker::bench::dds_of);
                let paged = ids
                    .zip(shards)
                    .zip(job.held)
                    .map(|((id, shard), held)| Some(Elements { dds: id?, shard: shard?, held }));
                let pages = Pages::new(me, paged.collect(), Arc::clone(&worker.links), runtime, stopped);
                for (c, capture) in captured.iter().enumerate() {
                    // Blank copies are made of the middle element.
                    if let crate::body::capture::Kind::Vector { len: len @ 1.., .. } = capture.kind {
                        pages.bring(c, len / 2);
                    }
                }
                let pool = bench.pool().map_err(|error| Problem::Broken(error.to_string()))?;
                let logs = match pages.failed() {
                    // SAFETY: the driver names the captures that the task was made for; no loop runs meanwhile.
                    #[allow(unsafe_code)]
                    None => unsafe {
                        let lease = Lease::of(&captured);
                        record_slices(&*task, &lease, &relaxed, &job.slices, job.exact, &pool, Some(&pages))
                    },
                    Some(_) => Vec::new(),
                };
                drop(captured);
                pages.forget();
                pages.failed().map_or(Ok(logs), Err)
            })
            .await??;
        let mut blobs = Vec::new();
        for logs in logs.chunks(SLICES_A_BLOB) {
            let bytes = codec::encode(logs).map_err(|error| Problem::Broken(error.to_string()))?;
            blobs.push(self.blobs.offer(bytes));
        }
        Ok(Recorded { blobs })
    }

    async fn install(self: &Arc<Self>, job: Install) -> std::result::Result<(), Problem> {
        let driver = |why: String| Problem::Peer { node: DRIVER, why };
        let Some(blob) = job.share else { return Ok(()) };
        let bytes = self.links.blob(DRIVER, blob).await.map_err(|error| driver(error.to_string()))?;
        self.apart(move |worker| {
            let _span = span(Category::Install, job.plan);
            let share: Share =
                codec::decode(&bytes, codec::MAX_BYTES).map_err(|error| Problem::Broken(error.to_string()))?;
            worker.bench.install(job.plan, &job.captures, share)
        })
        .await?
    }

    async fn prepare(self: &Arc<Self>, job: Prepare) -> std::result::Result<(), Problem> {
        let _span = task_span(Category::Prepare, (job.pulls.len() + job.laid_out.len()) as u64);
        self.apart(|worker| worker.bench.commit()).await?;
        for pull in job.pulls {
            let shard = self.bench.shard(pull.dds).ok_or_else(|| Problem::Broken("an unknown DDS".to_string()))?;
            self.links.fill(&shard, pull.dds, pull.range, pull.from).await?;
        }
        for (capture, blob, version) in job.laid_out {
            let (plan, links) = (job.plan, Arc::clone(&self.links));
            let mut fresh = self.bench.begin_layout(plan, capture)?;
            let mut buffer = Vec::new();
            for range in fresh.pieces() {
                buffer.resize(range.len(), 0);
                let read = links.blob_into(DRIVER, blob, range.start, &mut buffer).await;
                read.map_err(|error| Problem::Peer { node: DRIVER, why: error.to_string() })?;
                fresh.push(&buffer)?;
            }
            self.bench.end_layout(plan, capture, fresh, version)?;
        }
        Ok(())
    }

    async fn run(self: &Arc<Self>, epoch: u32, job: RunJob) -> std::result::Result<RunEnd, Problem> {
        let call = job.call;
        // The driver has fetched what it wanted of what was offered before.
        self.blobs.clear();
        self.bench.commit();
        let installed = self.bench.installed(job.plan)?;
        let sent_before = self.links.sent();
        let running = locked(&installed).start(epoch, &job, &self.links, &self.bench)?;
        if locked(&self.stopped).load(Relaxed) {
            running.blocks.stop();
        }
        self.running.send_replace(Some(Arc::clone(&running)));
        let (at_work, its) = (Arc::clone(&installed), Arc::clone(&running));
        self.bench.remember(call, &installed);
        let work = self.apart(move |worker| locked(&at_work).run(&its, &job, &worker.bench));
        let trouble = self.trouble.wait();
        let ports = running.blocks.ports();
        tokio::select! {
            biased;
            end = work => match end?? {
                Some(mut ran) => {
                    ran.bytes_sent = self.links.sent() - sent_before;
                    ran.relaxed = running.added().map(|added| self.blobs.offer(added));
                    Ok(RunEnd::Done(ran))
                }
                None => match ports.first_failed.load(Relaxed) {
                    u32::MAX if running.blocks.is_broken() => Err(Problem::Broken("a part that can't be read".into())),
                    u32::MAX => Ok(RunEnd::Stopped),
                    block => Ok(RunEnd::Failed { block: running.global[block as usize] }),
                },
            },
            () = ports.news.notified() => {
                let block = ports.first_failed.load(Relaxed);
                tracing::debug!(call, block, "a block failed");
                Ok(RunEnd::Failed { block: running.global[block as usize] })
            }
            (node, why) = trouble => {
                running.blocks.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    async fn sync(self: &Arc<Self>, epoch: u32, job: SyncJob) -> std::result::Result<SyncEnd, Problem> {
        let since = Instant::now();
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        let threads = self.bench.threads();
        let begun = minibatch::begin(&self.bench, &job, epoch, self.bench.workers(), &self.links, threads)?;
        let syncing = Arc::clone(&begun.syncing);
        // From here on messages of the loop find it.
        self.syncing.send_replace(Some(Arc::clone(&syncing)));
        if locked(&self.stopped).load(Relaxed) {
            syncing.stop();
        }
        let preparing = task_span(Category::Prepare, job.pulls.len() as u64);
        for pull in &job.pulls {
            let shard = self.bench.shard(pull.dds).ok_or_else(|| Problem::Broken("an unknown DDS".to_string()))?;
            self.links.fill(&shard, pull.dds, pull.range.clone(), pull.from).await?;
        }
        let input = self.bench.sync.input(&job.input, &self.links).await?;
        drop(preparing);
        let (sent_before, prepared) = (self.links.sent(), since.elapsed().as_secs_f64());
        let work = self.apart(move |worker| minibatch::run(&begun, &job, &input, &worker.bench, prepared));
        let trouble = self.trouble.wait();
        tokio::select! {
            biased;
            end = work => match end?? {
                SyncEnd::Done(mut ran) => {
                    ran.counts.bytes_sent = self.links.sent() - sent_before;
                    Ok(SyncEnd::Done(ran))
                }
                end => Ok(end),
            },
            (node, why) = trouble => {
                syncing.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    /// The synchronous loop of a call, when it has begun here; none if it is over.
    async fn syncing(&self, call: u64) -> Option<Arc<Syncing>> {
        let mut current = self.syncing.subscribe();
        loop {
            let now = current.borrow_and_update().clone();
            match now {
                Some(syncing) if syncing.call == call => return Some(syncing),
                Some(syncing) if syncing.call > call => return None,
                // A neighbour was quicker to begin.
                _ => current.changed().await.ok()?,
            }
        }
    }

    async fn scheduled(self: &Arc<Self>, epoch: u32, job: ScheduleJob) -> std::result::Result<ScheduleEnd, Problem> {
        self.blobs.clear();
        self.apart(|worker| worker.bench.commit()).await?;
        let sent_before = self.links.sent();
        let begun = scheduled::begin(&self.bench, &job)?;
        for pull in &job.pulls {
            let shard = self.bench.shard(pull.dds).ok_or_else(|| Problem::Broken("an unknown DDS".to_string()))?;
            self.links.fill(&shard, pull.dds, pull.range.clone(), pull.from).await?;
        }
        let scheduling = Arc::clone(&begun.scheduling);
        self.scheduling.send_replace(Some(Arc::clone(&scheduling)));
        if locked(&self.stopped).load(Relaxed) {
            scheduling.stop();
        }
        let work = self.apart(move |worker| scheduled::run(&begun, &job, &worker.bench, &worker.links, epoch));
        let trouble = self.trouble.wait();
        tokio::select! {
            biased;
            end = work => {
                let end = end??;
                Ok(ScheduleEnd { bytes_sent: self.links.sent() - sent_before, ..end })
            }
            (node, why) = trouble => {
                scheduling.stop();
                Err(Problem::Peer { node, why })
            }
        }
    }

    /// The scheduled program of a call, when it has begun here; none if it is over.
    async fn scheduling(&self, call: u64) -> Option<Arc<Scheduling>> {
        let mut current = self.scheduling.subscribe();
        loop {
            let now = current.borrow_and_update().clone();
            match now {
                Some(scheduling) if scheduling.call == call => return Some(scheduling),
                Some(scheduling) if scheduling.call > call => return None,
                // The question to run it is on its way.
                _ => current.changed().await.ok()?,
            }
        }
    }

    async fn settle(self: &Arc<Self>, call: u64, cut: u32) -> std::result::Result<Option<RemoteFailure>, Problem> {
        let mut current = self.running.subscribe();
        let beginning = async {
            loop {
                let now = current.borrow_and_update().clone();
                match now {
                    Some(running) if running.call >= call => return Some(running),
                    // The question to run it is on its way.
                    _ => current.changed().await.ok()?,
                }
            }
        };
        let running = tokio::select! {
            begun = tokio::time::timeout(BEGINNING, beginning) => begun.ok().flatten(),
            (node, why) = self.trouble.wait() => return Err(Problem::Peer { node, why }),
        };
        let Some(running) = running.filter(|running| running.call == call) else {
            return Err(Problem::Broken("a run that never began can't be settled".to_string()));
        };
        running.blocks.cut_at(running.local_cut(cut));
        loop {
            let end = running.end.notified();
            if let Some(ending) = locked(&running.ended).clone() {
                return Ok(ending.failure);
            }
            tokio::select! {
                () = end => {}
                (node, why) = self.trouble.wait() => {
                    running.blocks.stop();
                    return Err(Problem::Peer { node, why });
                }
            }
        }
    }

    async fn snapshot(self: &Arc<Self>, job: SnapshotJob) -> std::result::Result<u64, Problem> {
        let _span = task_span(Category::Snapshot, job.snapshot);
        self.apart(|worker| worker.bench.commit()).await?;
        let mut bytes_stored = 0;
        for (dds, range, to) in job.parts {
            let shard = self.bench.shard(dds).ok_or_else(|| Problem::Broken("an unknown DDS".to_string()))?;
            let mut encoded = Vec::new();
            // SAFETY: no loop runs while a snapshot is taken.
            #[allow(unsafe_code)]
            let bytes = unsafe {
                if shard.is_plain() {
                    shard.bytes(range.clone())
                } else {
                    shard.encode(range.clone(), &mut encoded);
                    encoded.as_slice()
                }
            };
            bytes_stored += bytes.len() as u64;
            if to == self.node.load(Relaxed) {
                let (lo, hi) = (range.start as u64, range.end as u64);
                let put = locked(&self.store).put(dds, job.snapshot, lo, hi, bytes.to_vec());
                put.map_err(|error| Problem::Broken(error.to_string()))?;
            } else {
                let put = self.links.put(to, dds, &range, job.snapshot, bytes).await;
                put.map_err(|error| Problem::Peer { node: to, why: error.to_string() })?;
            }
        }
        Ok(bytes_stored)
    }
}

impl Trouble {
    fn tell(&self, node: Node, why: String) {
        tracing::warn!(node, %why, "a process can't be reached");
        locked(&self.first).get_or_insert((node, why));
        self.news.notify_waiters();
    }

    pub(crate) async fn wait(&self) -> (Node, String) {
        loop {
            let news = self.news.notified();
            if let Some(first) = locked(&self.first).clone() {
                return first;
            }
            news.await;
        }
    }
}

impl Local for Worker {
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
        let shard: Arc<Shard> = self.bench.shard(dds)?;
        if range.start > range.end || range.end > shard.len() {
            return None;
        }
        if shard.is_plain() {
            return Some(Memory::InPlace(shard, range));
        }
        let mut bytes = Vec::new();
        // SAFETY: as for elements in place; the driver asks for what is here.
        #[allow(unsafe_code)]
        unsafe {
            shard.encode_there(range, &mut bytes)?;
        }
        Some(Memory::Encoded(bytes))
    }

    fn trouble(&self, peer: Node, why: &str) {
        self.trouble.tell(peer, why.to_string());
    }

    async fn message(&self, header: Header, stream: &mut TcpStream) -> std::result::Result<(), FrameError> {
        if Scheduling::is_one(&header) {
            let Some(scheduling) = self.scheduling(header.call).await else {
                return frame::skip_payload(stream, &header).await;
            };
            let payload = frame::read_payload(stream, &header).await?;
            scheduling.take(&header, payload);
            return Ok(());
        }
        let Some(syncing) = self.syncing(header.call).await else {
            return frame::skip_payload(stream, &header).await;
        };
        let _span = task_span(Category::Receive, header.len);
        let payload = frame::read_payload(stream, &header).await?;
        syncing.take(&header, payload);
        Ok(())
    }

    async fn part(&self, header: Header, stream: &mut TcpStream) -> std::result::Result<(), FrameError> {
        let mut current = self.running.subscribe();
        let running = loop {
            let now = current.borrow_and_update().clone();
            match now {
                Some(running) if running.call == header.call => break running,
                Some(running) if running.call > header.call => return frame::skip_payload(stream, &header).await,
                // A neighbour was quicker to begin.
                _ => {
                    if current.changed().await.is_err() {
                        return Ok(());
                    }
                }
            }
        };
        let Some(&k) = u32::try_from(header.tag).ok().and_then(|transfer| running.arrivals.get(&transfer)) else {
            return frame::skip_payload(stream, &header).await;
        };
        let since = std::time::Instant::now();
        let _span = task_span(Category::Receive, header.len);
        let place = &running.blocks.ports().places[k];
        let fits = (header.dds, header.lo, header.hi) == place.label();
        let room = if fits { running.blocks.room_for(k) } else { Room::Nowhere };
        match (room, place) {
            (Room::Nowhere, _) => frame::skip_payload(stream, &header).await?,
            (Room::InPlace, Place::Part { shard, range, .. }) if shard.is_plain() => {
                // SAFETY: the blocks that used what lies there have ended, and those that wait for this part start
                // only when it has arrived.
                #[allow(unsafe_code)]
                let into = unsafe { shard.bytes_mut(range.clone()) };
                match frame::read_payload_into(stream, &header, into).await {
                    Ok(()) => running.blocks.arrived(k),
                    Err(error) => {
                        running.blocks.broke_off(k);
                        return Err(error);
                    }
                }
            }
            (Room::InPlace | Room::Aside, _) => match frame::read_payload(stream, &header).await {
                Ok(bytes) => running.blocks.arrived_aside(k, bytes),
                Err(error) => {
                    running.blocks.broke_off(k);
                    return Err(error);
                }
            },
        }
        running.received.fetch_add(since.elapsed().as_nanos() as u64, Relaxed);
        Ok(())
    }
}

/// The worker as the driver calls it.
#[derive(Clone)]
pub(crate) struct Server(Arc<Worker>);

impl Control for Server {
    async fn join(self, _: Context, membership: Membership) -> std::result::Result<(), Problem> {
        self.0.join(membership).await
    }

    async fn record(self, _: Context, epoch: u32, job: RecordJob) -> std::result::Result<Recorded, Problem> {
        self.0.check(epoch)?;
        self.0.record(job).await
    }

    async fn install(self, _: Context, epoch: u32, job: Install) -> std::result::Result<(), Problem> {
        self.0.check(epoch)?;
        self.0.install(job).await
    }

    async fn prepare(self, _: Context, epoch: u32, job: Prepare) -> std::result::Result<(), Problem> {
        self.0.check(epoch)?;
        self.0.prepare(job).await
    }

    async fn run(self, _: Context, epoch: u32, job: RunJob) -> std::result::Result<RunEnd, Problem> {
        self.0.check(epoch)?;
        self.0.run(epoch, job).await
    }

    async fn settle(
        self,
        _: Context,
        epoch: u32,
        call: u64,
        cut: u32,
    ) -> std::result::Result<Option<RemoteFailure>, Problem> {
        self.0.check(epoch)?;
        self.0.settle(call, cut).await
    }

    async fn undo(self, _: Context, epoch: u32, call: u64) -> std::result::Result<Vec<u32>, Problem> {
        self.0.check(epoch)?;
        self.0.apart(move |worker| worker.bench.undo(call)).await
    }

    async fn sync(self, _: Context, epoch: u32, job: SyncJob) -> std::result::Result<SyncEnd, Problem> {
        self.0.check(epoch)?;
        self.0.sync(epoch, job).await
    }

    async fn halt(self, _: Context, epoch: u32, call: u64) -> std::result::Result<(), Problem> {
        self.0.check(epoch)?;
        let syncing = self.0.syncing.borrow().clone();
        if let Some(syncing) = syncing.filter(|syncing| syncing.call == call) {
            syncing.stop();
        }
        Ok(())
    }

    async fn operate(self, _: Context, epoch: u32, job: OperateJob) -> std::result::Result<OperateEnd, Problem> {
        self.0.check(epoch)?;
        self.0.operate(job).await
    }

    async fn gather(self, _: Context, epoch: u32, job: GatherJob) -> std::result::Result<OperateEnd, Problem> {
        self.0.check(epoch)?;
        self.0.gather(job).await
    }

    async fn keep(self, _: Context, epoch: u32, job: KeepJob) -> std::result::Result<(), Problem> {
        self.0.check(epoch)?;
        self.0.apart(move |worker| operate::keep(&worker.bench, &job)).await?
    }

    async fn give(self, _: Context, epoch: u32, call: u64) -> std::result::Result<u64, Problem> {
        self.0.check(epoch)?;
        let bytes = self.0.apart(move |worker| operate::give(&worker.bench, call)).await??;
        Ok(self.0.blobs.offer(bytes))
    }

    async fn scheduled(self, _: Context, epoch: u32, job: ScheduleJob) -> std::result::Result<ScheduleEnd, Problem> {
        self.0.check(epoch)?;
        self.0.scheduled(epoch, job).await
    }

    async fn snapshot(self, _: Context, epoch: u32, job: SnapshotJob) -> std::result::Result<u64, Problem> {
        self.0.check(epoch)?;
        self.0.snapshot(job).await
    }

    async fn collect(self, _: Context, epoch: u32, plan: u64, capture: usize) -> std::result::Result<u64, Problem> {
        self.0.check(epoch)?;
        let bytes = self.0.apart(move |worker| worker.bench.collect(plan, capture)).await??;
        Ok(self.0.blobs.offer(bytes))
    }

    async fn forget(self, _: Context, epoch: u32, ddss: Vec<u64>, plans: Vec<u64>) -> std::result::Result<(), Problem> {
        self.0.check(epoch)?;
        self.0.apart(move |worker| worker.bench.forget(&ddss, &plans)).await
    }

    async fn bye(self, _: Context) {
        self.0.dismissed.store(true, Relaxed);
    }

    async fn timeline(self, _: Context, epoch: u32) -> std::result::Result<u64, Problem> {
        self.0.check(epoch)?;
        let bytes = codec::encode(&timeline::take()).map_err(|error| Problem::Broken(error.to_string()))?;
        Ok(self.0.blobs.offer(bytes))
    }

    async fn clock(self, _: Context) -> std::result::Result<u64, Problem> {
        Ok(timeline::now())
    }
}
