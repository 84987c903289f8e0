//! A worker process: what it does for its driver.
//!
//! The network has the main thread, with a runtime of its own; loops, recordings and whatever else takes time run on a
//! second thread and those of the pool.

pub(crate) mod again;
pub(crate) mod answer;
pub(crate) mod bench;
mod calls;
pub(crate) mod dispatch;
pub(crate) mod exchange;
mod fetching;
mod input;
mod jobs;
mod messages;
pub(crate) mod minibatch;
pub(crate) mod operate;
pub(crate) mod pager;
mod ranges;
mod returning;
pub(crate) mod running;
pub(crate) mod scheduled;
mod server;
pub(crate) mod site;
mod surveys;

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use stradsap_dds_server::frame::Header;
use stradsap_dds_server::heartbeat;
use stradsap_dds_server::hello::{Hello, Role};
use stradsap_dds_server::secret::Secret;
use stradsap_dds_server::signals;
use stradsap_dds_server::store::Store;
use stradsap_dds_server::tasks;
use tokio::sync::{Notify, oneshot};

use crate::cluster::launch::host;
use crate::cluster::wire::join::{self, Joined};
use crate::cluster::wire::latest::Latest;
use crate::cluster::wire::links::Links;
use crate::cluster::wire::protocol::{Membership, MemoryLimit, Node, Problem};
use crate::cluster::wire::serve::{self, Blobs};
use crate::cluster::worker::bench::Workbench;
use crate::cluster::worker::exchange::Syncing;
use crate::cluster::worker::jobs::Jobs;
use crate::cluster::worker::running::Running;
use crate::cluster::worker::scheduled::Scheduling;
pub(crate) use crate::cluster::worker::server::Server;
use crate::launch::roles::WorkerRole;
use crate::session::error::{ClusterError, Error, Result};
use crate::session::{MAX_THREADS, Session, locked, logging, slow_bodies, timeline};

/// Bytes of snapshots that a worker keeps for others.
const STORE_LIMIT: u64 = 1 << 40;

/// A worker from its start to its end.
pub(crate) fn run(role: &WorkerRole) -> Result<ExitCode> {
    let session = Session::builder().threads(threads(role)).verify(false).explain(false).build()?;
    let (runtime, since) = (join::runtime()?, Instant::now());
    runtime.block_on(async {
        tokio::spawn(signals::end_when_told());
        let ended = serve(role, session).await;
        if let Err(Error::Cluster(ClusterError::DriverLost(why))) = &ended
            && !signals::is_told()
        {
            again::join_again(role, since, why).await;
        }
        ended.map(|()| ExitCode::SUCCESS)
    })
}

/// Takes part in a job until the driver ends it.
pub(crate) async fn serve(role: &WorkerRole, session: Session) -> Result<()> {
    let threads = session.threads() as u32;
    let Joined { me, secret, control, listener, heart } =
        join::join(&role.join, Role::Worker, threads, role.index).await?;
    let worker = Worker::new(&me, secret.clone(), session)?;
    let _stopped_at_the_end = AtWork(Arc::clone(&worker));
    tasks::spawn(serve::accept(listener, secret, me, Arc::clone(&worker)));
    let heart = heartbeat::beat(
        heart,
        heartbeat::EVERY,
        heartbeat::pause(),
        |header| worker.say_who_is_cut_off(header),
        |_| {},
    );
    let service = join::serve_control(control, Server(Arc::clone(&worker)));
    let why = tokio::select! {
        biased;
        () = service => "it ended the connection".to_string(),
        why = heart => why.to_string(),
    };
    if let Some(error) = locked(&worker.unfit).take() {
        return Err(error);
    }
    if worker.dismissed.load(Relaxed) {
        tracing::info!("the driver has ended the job");
        return Ok(());
    }
    Err(ClusterError::DriverLost(why).into())
}

/// Whatever takes long stops when this is dropped.
struct AtWork(Arc<Worker>);

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// How many threads run loops: as configured, otherwise the worker's share of the cores.
fn threads(role: &WorkerRole) -> usize {
    role.threads.unwrap_or_else(|| {
        // Where ranks are bound to cores of their own, these are not to be divided once more.
        let own = std::thread::available_parallelism().map_or(1, usize::from);
        own.min((host::cores() / role.workers_here.max(1)).max(1)).min(MAX_THREADS)
    })
}

pub(crate) struct Worker {
    pub(crate) node: AtomicU32,
    pub(crate) links: Arc<Links>,
    pub(crate) blobs: Blobs,
    store: Mutex<Store>,
    pub(crate) bench: Workbench,
    running: Latest<Option<Arc<Running>>>,
    syncing: Latest<Option<Arc<Syncing>>>,
    scheduling: Latest<Option<Arc<Scheduling>>>,
    /// Set while a generation ends: whatever takes long is to stop.
    pub(crate) stopped: Mutex<Arc<AtomicBool>>,
    pub(crate) trouble: Arc<PeerTrouble>,
    jobs: Jobs,
    /// The driver has said that the job is over.
    dismissed: AtomicBool,
    /// Why this process can't be a worker of the job.
    unfit: Mutex<Option<Error>>,
}

/// The first process that could not be reached in this generation.
#[derive(Default)]
pub(crate) struct PeerTrouble {
    first: Mutex<Option<(Node, String)>>,
    news: Notify,
}

impl Worker {
    fn new(me: &Hello, secret: Secret, session: Session) -> Result<Arc<Worker>> {
        let trouble = Arc::new(PeerTrouble::default());
        let reported = Arc::clone(&trouble);
        let links = Links::new(secret, me, tokio::runtime::Handle::current(), move |node, why| {
            reported.report(node, why);
        });
        let store = Mutex::new(Store::new(STORE_LIMIT));
        serve::spill_snapshots(&store);
        let jobs = Jobs::new(session.inner().stack())?;
        Ok(Arc::new(Worker {
            node: AtomicU32::new(me.index.unwrap_or_default()),
            links,
            blobs: Blobs::default(),
            store,
            bench: Workbench::new(session),
            running: Latest::new(None),
            syncing: Latest::new(None),
            scheduling: Latest::new(None),
            stopped: Mutex::default(),
            trouble,
            jobs,
            dismissed: AtomicBool::new(false),
            unfit: Mutex::default(),
        }))
    }

    fn stop(&self) {
        locked(&self.stopped).store(true, Relaxed);
        if let Some(running) = self.running.get() {
            running.blocks.stop();
        }
        if let Some(syncing) = self.syncing.get() {
            syncing.stop();
        }
        if let Some(scheduling) = self.scheduling.get() {
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
            let _caller_left = reply.send(f(&worker));
        });
        if !self.jobs.add(job) {
            return Err(Problem::Stopped);
        }
        answer.await.map_err(|_| Problem::Broken("a job of the worker panicked".to_string()))
    }

    fn check(&self, generation: u32) -> std::result::Result<(), Problem> {
        let ours = self.links.generation();
        if generation == ours { Ok(()) } else { Err(Problem::OldEpoch { theirs: generation, ours }) }
    }

    /// Says in a heartbeat who can't be reached from here. While a loop runs here its answer says so, but others may still wait for
    /// what was on its way to them when it had ended here.
    fn say_who_is_cut_off(&self, heartbeat: &mut Header) {
        if let Some((node, _)) = &*locked(&self.trouble.first) {
            heartbeat.tag |= heartbeat::CUT_OFF;
            (heartbeat.generation, heartbeat.lo) = (self.links.generation(), u64::from(*node));
        }
    }

    async fn join(self: &Arc<Self>, membership: Membership) -> std::result::Result<(), Problem> {
        logging::set_name(format!("worker {}", membership.you));
        tracing::info!(generation = membership.generation, workers = membership.workers.len(), "a new generation");
        timeline::switch(membership.timeline);
        slow_bodies::switch_on();
        self.stop();
        if let Some(limit) = &membership.memory
            && let Err(error) = self.limit_memory(limit)
        {
            let problem = Problem::Unfit(error.to_string());
            *locked(&self.unfit) = Some(error);
            return Err(problem);
        }
        // What runs ends before anything is forgotten.
        self.apart(|_| ()).await?;
        self.node.store(membership.you, Relaxed);
        let workers: Vec<Node> = membership.workers.iter().map(|peer| peer.node).collect();
        let peers = membership.workers.into_iter().chain(membership.others);
        self.links.begin_generation(membership.you, membership.generation, peers);
        *locked(&self.stopped) = Arc::default();
        *locked(&self.trouble.first) = None;
        self.running.set(None);
        self.syncing.set(None);
        self.scheduling.set(None);
        self.blobs.clear();
        self.bench.clear(membership.you, workers);
        Ok(())
    }
}

impl Worker {
    /// Keeps near the driver's limit, unless this process's environment has one of its own.
    fn limit_memory(&self, limit: &MemoryLimit) -> Result<()> {
        // Simulated workers are in the driver's process.
        if !tasks::is_simulated() {
            self.bench.session().follow_memory(limit.bytes, &limit.folder)?;
        }
        serve::spill_snapshots(&self.store);
        Ok(())
    }
}

impl PeerTrouble {
    fn report(&self, node: Node, why: String) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::launch::roles::Join;

    #[test]
    fn workers_share_the_cores_of_a_machine() {
        let join = Join::Address("h:9".into());
        let mut role = WorkerRole { join, threads: None, workers_here: 1, index: None, generation: 0 };
        assert_eq!(threads(&role), std::thread::available_parallelism().unwrap().get());
        role.workers_here = 4;
        assert!((1..=(host::cores() / 4).max(1)).contains(&threads(&role)));
        role.threads = Some(3);
        assert_eq!(threads(&role), 3);
    }
}
