//! The driver of worker processes: starts or awaits them, knows what each holds, and has loops run on them.

pub(crate) mod access;
pub(crate) mod ahead;
pub(crate) mod away;
pub(crate) mod call;
pub(crate) mod collecting;
mod giving_up;
pub(crate) mod hub;
pub(crate) mod in_parts;
pub(crate) mod loops;
mod membership;
pub(crate) mod minibatch;
pub(crate) mod operate;
mod options;
mod ranges;
pub(crate) mod recover;
pub(crate) mod remote;
pub(crate) mod remote_plan;
mod results;
mod returning;
pub(crate) mod scheduled;
pub(crate) mod shares;
pub(crate) mod slow_bodies;
pub(crate) mod snapshots;
pub(crate) mod staff;
pub(crate) mod surveys;

pub(crate) use crate::planner::placement;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak, mpsc};
use std::thread::{ThreadId, available_parallelism};
use std::time::Duration;

use futures_util::future::{self, Either, select};
use stradsap_dds_server::hello::{Hello, Purpose, Role};
use stradsap_dds_server::link::Sealed;
use stradsap_dds_server::secret::Secret;
#[cfg(feature = "simulation")]
use stradsap_dds_server::simulation;
use stradsap_dds_server::{net, own_time, tasks};
use tarpc::client::RpcError;
use tarpc::context::Context;
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::cluster::driver::access::Nearby;
use crate::cluster::driver::hub::{Hub, Loss};
use crate::cluster::driver::minibatch::Sites;
use crate::cluster::driver::placement::Placement;
use crate::cluster::driver::remote::Logged;
use crate::cluster::driver::remote_plan::RemotePlan;
use crate::cluster::driver::staff::Staffing;
use crate::cluster::launch::children::{Nursery, end_all};
use crate::cluster::launch::rendezvous::{self, Invitation};
use crate::cluster::wire::join;
use crate::cluster::wire::latest::Latest;
use crate::cluster::wire::protocol::{ControlClient, DRIVER, Membership, Node, Peer, Problem};
use crate::memory::buffer::free_large_blocks_at_once;
use crate::memory::home::Home;
use crate::session::error::{ClusterError, Error, Result};
use crate::session::locked;
use crate::session::pool::Pool;
use crate::session::stack;
use crate::session::timeline::file::TimelineFile;
use crate::session::timeline::json::Process;

pub use options::{ClusterOptions, Homes};

/// How long processes may take to come.
const STARTING: Duration = Duration::from_secs(60);
const JOINING: Duration = Duration::from_secs(300);
/// After how long it is said who is waited for.
const TELLING: Duration = Duration::from_secs(5);
/// How long the end of a generation may take a worker: what runs there has to stop first.
const STOPPING: Duration = Duration::from_secs(60);
/// A loop may take long; who is lost is found otherwise.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60 * 60 * 24 * 30);
const LEAVING: Duration = Duration::from_secs(1);

/// Why an operation on all workers did not come to its end.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A process was lost on the way: what was under way has to begin again.
    Lost,
    Error(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

/// What a worker answers, if the answer comes.
pub(crate) type Answer<R> = std::result::Result<std::result::Result<R, Problem>, RpcError>;

/// What the driver knows of a DDS.
pub(crate) struct Entry {
    pub(crate) home: Home,
    pub(crate) len: usize,
    pub(crate) placement: Placement,
    /// Elements that are with workers in another order than that of ranges.
    pub(crate) scattered: Option<Scattered>,
    /// Whether such elements are also where the placement says.
    pub(crate) in_ranges: bool,
    pub(crate) version: u64,
    /// Where it was at the last snapshot, and its version then.
    pub(crate) base: Placement,
    pub(crate) base_version: u64,
    /// The snapshots that may have parts of it.
    pub(crate) stored: BTreeSet<u64>,
    /// The program has dropped it; the log may still need it.
    pub(crate) dropped: bool,
    /// What operators have looked at of a version without holding it as a whole, as pieces that would have taken as long to fetch.
    pub(crate) looked_at: (u64, usize),
}

impl Entry {
    /// Whether the placement does not say where the elements are.
    pub(crate) fn is_apart(&self) -> bool {
        self.scattered.is_some() && !self.in_ranges
    }
}

/// Which worker has which elements, where these are not ranges.
#[derive(Clone)]
pub(crate) enum Scattered {
    /// The one that ran their iteration of this plan, or that owns them, as this capture of it.
    ByPlan(Arc<RemotePlan>, usize),
    /// The one that keeps them, as the driver knows by this number.
    Kept(u64),
}

/// What the driver keeps.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) entries: BTreeMap<u64, Entry>,
    /// What has changed DDSs since the last snapshot, to be run again if need be.
    pub(crate) log: Vec<Arc<dyn Logged>>,
    pub(crate) generation: u32,
    /// In the order of their numbers in plans.
    pub(crate) workers: Vec<Node>,
    pub(crate) servers: Vec<Node>,
    pub(crate) seen_losses: usize,
    pub(crate) next_call: u64,
    pub(crate) next_plan: u64,
    pub(crate) next_snapshot: u64,
    pub(crate) gone_ddss: Vec<u64>,
    /// Of these snapshots may still be kept.
    pub(crate) gone_snapshots: Vec<u64>,
    /// How many losses the program's user was warned of.
    pub(crate) recovered: usize,
    pub(crate) staffing: Staffing,
    /// What workers had recorded that were let go.
    pub(crate) let_go: Vec<Process>,
    /// What workers hold is not known: to be set up again before anything else.
    pub(crate) tainted: bool,
    /// Recoveries since something was last done: after processes ended by themselves, and after they were killed from outside.
    pub(crate) in_vain: [usize; 2],
    pub(crate) nearby: Vec<Nearby>,
    pub(crate) sites: Sites,
    /// Plans whose order may follow from elements that are with workers.
    pub(crate) sorted: Vec<Weak<RemotePlan>>,
    /// DDSs whose homes are not what they should be, and why: nothing may be done with them.
    pub(crate) owed: BTreeMap<u64, String>,
}

/// Worker processes and DDS servers, as the driver has them.
pub(crate) struct Cluster {
    pub(crate) hub: Arc<Hub>,
    pub(crate) handle: tokio::runtime::Handle,
    /// The program's threads take turns.
    pub(crate) state: Mutex<State>,
    pub(crate) options: ClusterOptions,
    nursery: Option<Nursery>,
    address: SocketAddr,
    /// For recording's and planning's sake; the driver runs no blocks.
    pub(crate) pool: Arc<Pool>,
    pub(crate) gone_plans: Arc<Mutex<Vec<u64>>>,
    /// The thread on which the program's own code runs while that thread has the state, and the DVectors that such code
    /// has dropped.
    holder: Mutex<Option<ThreadId>>,
    late: Mutex<Vec<u64>>,
    network: Option<NetworkThread>,
    timeline: Option<TimelineFile>,
}

fn cant_start(what: impl std::fmt::Display) -> Error {
    Error::Cluster(ClusterError::Start(what.to_string()))
}

/// The network's thread, and what it has begun with.
struct Network {
    hub: Arc<Hub>,
    address: SocketAddr,
    handle: tokio::runtime::Handle,
    thread: Option<NetworkThread>,
}

/// A future without a type of its own: what waits for it is compiled once for each kind of answer, not for each question. Each
/// crosses a socket, beside which the box is nothing.
pub(crate) type Boxed<'a, R> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

/// What all of these give, which run at once.
pub(crate) async fn join_all<'a, F: Future + Send + 'a>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    future::join_all(futures.into_iter().map(|future| -> Boxed<'a, F::Output> { Box::pin(future) })).await
}

/// An answer; none if there are more losses first than `before`.
async fn unless_lost<A>(lost: Latest<usize>, before: usize, answer: Boxed<'static, A>) -> Option<A> {
    let lost = lost.wait(|&lost| (lost != before).then_some(()));
    match select(answer, std::pin::pin!(lost)).await {
        Either::Left((answer, _)) => Some(answer),
        Either::Right(_) => None,
    }
}

/// Ends with its sender. A simulation has none: there the program's own thread runs the network whenever it waits.
type NetworkThread = (oneshot::Sender<()>, std::thread::JoinHandle<()>);

impl Network {
    async fn begin(
        listen: String,
        secret: Secret,
        explicit: bool,
    ) -> Result<(Arc<Hub>, SocketAddr, tokio::runtime::Handle)> {
        let listener = net::bind(&listen, explicit).await.map_err(cant_start)?;
        let address = listener.local_addr().map_err(cant_start)?;
        let me = Hello::of_this_process(Role::Driver, Purpose::Control).map_err(cant_start)?;
        let hub = Hub::new(secret, &me);
        tasks::spawn(Arc::clone(&hub).accept(listener, me));
        Ok((hub, address, tokio::runtime::Handle::current()))
    }

    fn start(listen: String, secret: Secret, explicit: bool) -> Result<Network> {
        #[cfg(feature = "simulation")]
        if tasks::is_simulated() {
            let begun = simulation::block_on(Network::begin(listen, secret, explicit));
            return begun.map(|(hub, address, handle)| Network { hub, address, handle, thread: None });
        }
        let (ready, begun) = mpsc::channel();
        let (stop, stopped) = oneshot::channel::<()>();
        let run = move || {
            let runtime = match join::runtime() {
                Ok(runtime) => runtime,
                Err(error) => return drop(ready.send(Err(error))),
            };
            runtime.block_on(async {
                let begun = Network::begin(listen, secret, explicit).await;
                let failed = begun.is_err();
                if ready.send(begun).is_ok() && !failed {
                    let _ended = stopped.await;
                }
            });
        };
        let thread = std::thread::Builder::new().name("stradsap-network".into()).spawn(run);
        let thread = thread.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        let (hub, address, handle) = begun.recv().map_err(cant_start)??;
        Ok(Network { hub, address, handle, thread: Some((stop, thread)) })
    }
}

impl Cluster {
    /// Starts or awaits the processes that `options` ask for.
    pub(crate) fn start(options: &ClusterOptions, timeline: Option<TimelineFile>) -> Result<Arc<Cluster>> {
        free_large_blocks_at_once();
        let timeline = match &options.trace {
            Some(path) => Some(TimelineFile::begin(path)?),
            None => timeline,
        };
        // What is written to a file must be of no use after this job.
        let given = if options.rendezvous.is_none() { Secret::from_environment().map_err(cant_start)? } else { None };
        let explicit = given.is_some() || options.rendezvous.is_some();
        let secret = given.map_or_else(Secret::generate, Ok).map_err(cant_start)?;
        Sealed::from_environment().map_err(cant_start)?;
        let listen = options.listen.clone().unwrap_or_else(|| "127.0.0.1:0".to_string());

        let Network { hub, address, handle, thread } = Network::start(listen, secret.clone(), explicit)?;
        if options.join && !explicit {
            return Err(Error::usage(format!(
                "nobody could join at {address}: workers that others start need the job's secret; set STRADSAP_SECRET or \
                 STRADSAP_SECRET_FILE for this process and for each `--join {address}`"
            )));
        }
        let published = match &options.rendezvous {
            Some(path) => {
                let invitation = Invitation::at(address, secret.to_hex());
                Some(rendezvous::publish(path, &invitation)?)
            }
            None => None,
        };
        let cores = if tasks::is_simulated() { 1 } else { available_parallelism().map_or(1, usize::from) };
        let nursery = if options.join && options.servers == 0 { None } else { Some(Nursery::new()?) };
        let cluster = Cluster {
            hub,
            handle,
            state: Mutex::default(),
            options: options.clone(),
            nursery,
            address,
            pool: Arc::new(Pool::new(cores, stack::of_main())?),
            gone_plans: Arc::default(),
            holder: Mutex::default(),
            late: Mutex::default(),
            network: thread,
            timeline,
        };
        let mut state = locked(&cluster.state);
        cluster.await_members(&mut state)?;
        // All have read it: a process that is killed from here on leaves no secret.
        drop(published);
        match cluster.wait(cluster.begin_generation(&mut state)) {
            Ok(()) => {}
            Err(Fault::Error(error)) => return Err(error),
            Err(Fault::Lost) => cluster.wait(cluster.recover(&mut state))?,
        }
        drop(state);
        Ok(Arc::new(cluster))
    }

    pub(crate) fn threads(&self) -> usize {
        self.options.threads_each()
    }

    /// Whether workers are this process's children, rather than started by others.
    pub(crate) fn starts_workers(&self) -> bool {
        !self.options.join
    }

    fn children_reach(&self) -> String {
        let ip =
            if self.address.ip().is_unspecified() { "127.0.0.1".to_string() } else { self.address.ip().to_string() };
        SocketAddr::new(ip.parse().unwrap_or(self.address.ip()), self.address.port()).to_string()
    }

    /// Starts what is to be started, and waits until all have come.
    fn await_members(&self, state: &mut State) -> Result<()> {
        self.wait(self.staff(state, STARTING, true))?;
        if self.options.join { self.wait_for_workers() } else { Ok(()) }
    }

    /// Waits until all workers have joined that others start.
    fn wait_for_workers(&self) -> Result<()> {
        let (what, expected, since) = ("workers", self.options.fewest(), Instant::now());
        let mut reported = false;
        loop {
            let joined = self.hub.complete(Role::Worker).len();
            if joined >= expected {
                return Ok(());
            }
            if since.elapsed() >= JOINING {
                let seconds = JOINING.as_secs();
                return Err(ClusterError::Missing { what, joined, expected, seconds }.into());
            }
            if !reported && since.elapsed() >= TELLING {
                reported = true;
                eprintln!("waiting for {} of {expected} {what} to join at {}", expected - joined, self.address);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Sends all processes the new membership. A process that can't be reached is lost.
    pub(crate) async fn begin_generation(&self, state: &mut State) -> std::result::Result<(), Fault> {
        state.generation += 1;
        state.sites.clear();
        self.hub.spill_snapshots();
        state.workers = self.hub.complete(Role::Worker);
        // Others are there for when one of these is lost.
        state.workers.truncate(self.options.workers());
        state.servers = self.hub.complete(Role::Server);
        if state.workers.is_empty() {
            return Err(Fault::Lost);
        }
        let peer = |&node: &Node| self.hub.address(node).map(|address| Peer { node, address });
        let workers: Vec<Peer> = state.workers.iter().filter_map(peer).collect();
        let servers: Vec<Peer> = state.servers.iter().filter_map(peer).collect();
        self.hub.links.begin_generation(DRIVER, state.generation, workers.iter().chain(&servers).cloned());
        let sent = state.workers.iter().map(|&node| {
            let mut others = servers.clone();
            others.push(Peer { node: DRIVER, address: self.hub.reached_at(node, self.address) });
            let membership = Membership {
                generation: state.generation,
                you: node,
                workers: workers.clone(),
                others,
                timeline: self.timeline.is_some(),
                memory: access::memory_limit(),
            };
            async move {
                let joined = self.ask(node, |client, context| async move { client.join(context, membership).await });
                match own_time::timeout(STOPPING, joined).await {
                    Some(answer) => answer,
                    None => {
                        self.hub.lose(node, "it did not end what it was doing");
                        Err(Fault::Lost)
                    }
                }
            }
        });
        join_all(sent).await.into_iter().collect::<std::result::Result<Vec<()>, Fault>>()?;
        Ok(())
    }

    pub(crate) fn all_lost(&self) -> Error {
        ClusterError::AllLost(self.last_losses(|loss| loss.worker)).into()
    }

    /// All workers are lost, and this is why there are no others.
    fn all_lost_and(&self, why: &str) -> Error {
        ClusterError::AllLost(format!("{}; {why}", self.last_losses(|loss| loss.worker))).into()
    }

    /// The last processes that were lost: no more than there are to be.
    pub(crate) fn last_losses(&self, of_interest: impl Fn(&Loss) -> bool) -> String {
        let losses = self.hub.losses();
        let last: Vec<&Loss> = losses.iter().rev().filter(|loss| of_interest(loss)).collect();
        let last = last.into_iter().take(self.options.workers() + self.options.servers());
        last.map(ToString::to_string).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("; ")
    }

    /// Asks one worker something; ends when a process of the job is lost meanwhile.
    pub(crate) async fn ask<R, F>(
        &self,
        node: Node,
        question: impl FnOnce(ControlClient, Context) -> F,
    ) -> std::result::Result<R, Fault>
    where
        R: 'static,
        F: Future<Output = Answer<R>> + Send + 'static,
    {
        self.understand(node, self.pose(node, question)?.await)
    }

    /// A question that doesn't hold on to anything here. Gives what the worker answers; none if a process of the job was
    /// lost meanwhile.
    pub(crate) fn pose<R, F>(
        &self,
        node: Node,
        question: impl FnOnce(ControlClient, Context) -> F,
    ) -> std::result::Result<Boxed<'static, Option<Answer<R>>>, Fault>
    where
        R: 'static,
        F: Future<Output = Answer<R>> + Send + 'static,
    {
        let Some(client) = self.hub.client(node) else { return Err(Fault::Lost) };
        let mut context = tarpc::context::current();
        context.deadline = std::time::Instant::now() + PATIENCE;
        let lost = self.hub.lost.clone();
        let before = lost.get();
        Ok(Box::pin(unless_lost(lost, before, Box::pin(question(client, context)))))
    }

    /// What an answer means to the driver: a process that does not do its part is lost.
    pub(crate) fn understand<R>(&self, node: Node, answer: Option<Answer<R>>) -> std::result::Result<R, Fault> {
        let Some(answer) = answer else { return Err(Fault::Lost) };
        if !self.hub.is_member(node) {
            return Err(Fault::Lost);
        }
        match answer {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(Problem::Peer { node: other, why })) => {
                self.hub.lose_unreached(node, other, &why);
                Err(Fault::Lost)
            }
            Ok(Err(problem @ (Problem::Stopped | Problem::OldEpoch { .. } | Problem::Unfit(_)))) => {
                self.hub.lose(node, &problem.to_string());
                Err(Fault::Lost)
            }
            Ok(Err(Problem::Broken(problem))) => {
                Err(Fault::Error(ClusterError::Process { who: self.hub.name(node), problem }.into()))
            }
            Err(error) => {
                self.hub.lose(node, &error.to_string());
                Err(Fault::Lost)
            }
        }
    }

    /// Asks all of these workers the same at once.
    pub(crate) async fn ask_all<R, F>(
        &self,
        nodes: &[Node],
        question: impl Fn(usize, ControlClient, Context) -> F + Sync,
    ) -> std::result::Result<Vec<R>, Fault>
    where
        R: 'static,
        F: Future<Output = Answer<R>> + Send + 'static,
    {
        let asked = nodes.iter().enumerate().map(|(k, &node)| {
            let question = &question;
            self.ask(node, move |client, context| question(k, client, context))
        });
        let mut answers = Vec::with_capacity(nodes.len());
        for answer in join_all(asked).await {
            answers.push(answer?);
        }
        Ok(answers)
    }

    /// Does something on the network's time, from one of the program's own threads.
    pub(crate) fn wait<R>(&self, future: impl Future<Output = R>) -> R {
        #[cfg(feature = "simulation")]
        if tasks::is_simulated() {
            return simulation::block_on(future);
        }
        self.handle.block_on(future)
    }

    pub(crate) fn dropped_now(&self, state: &mut State, dds: u64) {
        state.owed.remove(&dds);
        state.nearby.retain(|near| near.dds() != dds);
        if state.entries.contains_key(&dds) {
            // What nobody has used isn't made again.
            if !state.log.iter().any(|logged| logged.uses(dds) && logged.makes() != Some(dds)) {
                state.log.retain(|logged| logged.makes() != Some(dds));
            }
            let needed = state.log.iter().any(|logged| logged.uses(dds));
            if needed {
                if let Some(entry) = state.entries.get_mut(&dds) {
                    entry.dropped = true;
                }
            } else {
                self.forget(state, dds);
            }
        }
    }

    pub(crate) fn forget(&self, state: &mut State, dds: u64) {
        let stored = state.entries.remove(&dds).is_some_and(|entry| !entry.stored.is_empty());
        state.gone_snapshots.extend(stored.then_some(dds));
        locked(&self.hub.homes).remove(&dds);
        state.gone_ddss.push(dds);
        let sites = state.sites.remove_users_of(dds);
        locked(&self.gone_plans).extend(sites);
    }

    /// Registers a DDS that loops are about to use.
    pub(crate) fn register(&self, state: &mut State, dds: u64, home: &Home, len: usize) {
        state.entries.entry(dds).or_insert_with(|| {
            locked(&self.hub.homes).insert(dds, home.clone());
            let version = crate::session::next_id();
            Entry {
                home: home.clone(),
                len,
                placement: Placement::home(len),
                scattered: None,
                in_ranges: false,
                version,
                base: Placement::home(len),
                base_version: version,
                stored: BTreeSet::new(),
                dropped: false,
                looked_at: (0, 0),
            }
        });
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some(mut file) = self.timeline.take() {
            self.write_timeline(&mut file);
        }
        let bye = async {
            let workers = self.hub.complete(Role::Worker);
            let sent = workers.into_iter().filter_map(|node| self.hub.client(node)).map(|client| async move {
                let _gone_already = client.bye(tarpc::context::current()).await;
            });
            tokio::time::timeout(LEAVING, join_all(sent)).await
        };
        let _impatient = self.wait(bye);
        let (joined, others) = self.hub.all_children();
        // The end of their connections is what ends workers and servers.
        let members = std::mem::take(&mut *locked(&self.hub.members));
        drop(members);
        if let Some((stop, thread)) = self.network.take() {
            let _ended_already = stop.send(());
            let _panicked = thread.join();
        }
        #[cfg(feature = "simulation")]
        if let Some(process) = simulation::current() {
            process.end_tasks();
        }
        end_all(others, Duration::ZERO);
        end_all(joined, Duration::from_secs(2));
    }
}
