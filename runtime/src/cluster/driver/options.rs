//! How many processes there are to be, and how a session gets them.

use std::path::PathBuf;
use std::time::Duration;

use crate::backend::roles;
use crate::cluster::driver::Cluster;
use crate::launch::roles::{DriverRole, Workers, one_per_core};
use crate::session::Session;
use crate::session::error::{Error, Result};

/// Loops from one snapshot to the next, by default.
const SNAPSHOT_EVERY: usize = 10;

/// How often a loop begins again, by default, after processes were killed from outside.
const ATTEMPTS: usize = 1000;

/// After how long a body is named that has not ended.
const SLOW_BODY: Duration = Duration::from_secs(60);

/// How many bytes of elements the driver keeps that others can store, by default.
const DRIVER_MEMORY: usize = 64 << 20;

/// Where the elements of DDSs are between two calls of loops, operators and scheduled programs on workers.
///
/// No bits depend on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Homes {
    /// With the workers that wrote them; DDS servers have snapshots, one every [`snapshot_every`](ClusterOptions::snapshot_every)
    /// calls. A loop that runs again finds its parts where it left them, and nothing is sent. After a loss the calls since the
    /// last snapshot run again.
    #[default]
    Workers,
    /// With the DDS servers, two of them for each element. Workers fetch what a call needs before it begins, write back what it has
    /// changed, and free that memory. After a loss only the call that was lost runs again. A server can keep elements in files
    /// ([`Session::set_memory`](crate::Session::set_memory)), so a program may have more elements than the workers' memory holds, if no
    /// single call touches that many.
    ///
    /// With one server the driver has the second copy of each element.
    Servers,
}

/// The processes on which a session runs its loops, for [`Session::start_workers`](crate::Session::start_workers).
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::ClusterOptions;
///
/// let options = ClusterOptions::new(2).threads(1).dds_servers(1).snapshot_every(5);
/// assert_eq!(options.workers(), 2);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct ClusterOptions {
    pub(super) workers: usize,
    fewest: usize,
    pub(super) threads: Option<usize>,
    pub(super) servers: usize,
    homes: Homes,
    pub(super) listen: Option<String>,
    pub(super) snapshot_every: usize,
    pub(super) attempts: usize,
    slow_body: Duration,
    driver_memory: Option<usize>,
    pub(super) trace: Option<PathBuf>,
    pub(super) join: bool,
    pub(super) rendezvous: Option<PathBuf>,
}

impl ClusterOptions {
    /// Options for this many workers, which are started on this machine.
    pub fn new(workers: usize) -> Self {
        ClusterOptions {
            workers,
            fewest: workers,
            threads: None,
            servers: 0,
            homes: Homes::default(),
            listen: None,
            snapshot_every: SNAPSHOT_EVERY,
            attempts: ATTEMPTS,
            slow_body: SLOW_BODY,
            driver_memory: None,
            trace: None,
            join: false,
            rendezvous: None,
        }
    }

    /// One worker for each core that this process may use, started on this machine. Each runs one thread, unless
    /// [`threads`](ClusterOptions::threads) says otherwise.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::ClusterOptions;
    ///
    /// assert!(ClusterOptions::one_per_core().workers() >= 1);
    /// ```
    pub fn one_per_core() -> Self {
        Self::new(one_per_core())
    }

    /// Sets with how many workers the job begins. The others, up to the number of workers, take part from the first loop on that begins
    /// after they have joined. By default the job waits for all of them.
    ///
    /// If all workers that joined it leave or are lost, such a job waits for others for five minutes. That needs DDS servers of its own,
    /// which have the elements meanwhile.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// let options = stradsap::ClusterOptions::new(8).at_least(2).listen("0.0.0.0:7350");
    /// ```
    ///
    /// # Cost
    /// A worker that joins or leaves costs a snapshot: what was written since the last one is stored with two processes.
    ///
    /// # Determinism
    /// No bits of asynchronous loops and scheduled programs depend on it. Synchronous loops have as many copies as the number of workers
    /// asks for, however many take part.
    pub fn at_least(mut self, workers: usize) -> Self {
        self.fewest = workers;
        self
    }

    /// Sets how many threads run blocks in each worker. By default the cores are shared evenly.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets how many DDS servers are started beside the workers. With 0, the default, each worker embeds one.
    pub fn dds_servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Sets where elements are between calls. With [`Homes::Servers`] there must be DDS servers.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::{ClusterOptions, Homes};
    ///
    /// let options = ClusterOptions::new(4).dds_servers(2).homes(Homes::Servers);
    /// ```
    ///
    /// # Cost
    /// With [`Homes::Servers`] what a call writes is sent three times: to two servers, and to the worker that needs it next.
    pub fn homes(mut self, homes: Homes) -> Self {
        self.homes = homes;
        self
    }

    /// Sets the address at which workers join that somebody else starts (`--join`). The driver then starts no workers.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self.join = true;
        self
    }

    /// Sets the number of loops from one snapshot to the next: at most that number has to run again when a process is lost. The
    /// default is 10.
    pub fn snapshot_every(mut self, loops: usize) -> Self {
        self.snapshot_every = loops.max(1);
        self
    }

    /// Sets how often in a row a loop may begin again after processes were killed from outside (by signal 9 or 15). The default is
    /// 1,000. If processes end in any other way, which a loop's body may have caused, a loop has 8 attempts.
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.attempts = attempts;
        self
    }

    /// Sets after how many whole seconds a warning names a body that has not ended. It says worker, loop, block or minibatch, and
    /// for how long the body has run. The warning comes again each time that this time has doubled. The default is a minute; 0
    /// means never.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use std::time::Duration;
    ///
    /// let options = stradsap::ClusterOptions::new(2).slow_body(Duration::from_secs(600));
    /// ```
    pub fn slow_body(mut self, after: Duration) -> Self {
        self.slow_body = Duration::from_secs(after.as_secs());
        self
    }

    /// Sets how many bytes of elements that loops on workers have used stay in this process. The default is 64 MiB, and 0 with
    /// [`Homes::Servers`]. At the end of a
    /// call, two workers or DDS servers store each element beyond that, and this process frees its own copy: the largest DVectors,
    /// DMatrices and maps first. So if two workers are lost at the same moment, data of the job may be lost. With
    /// `usize::MAX` everything that loops don't write stays here.
    ///
    /// With a single worker and no DDS servers, or with a single server, everything stays here.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// let options = stradsap::ClusterOptions::new(4).driver_memory(256 << 20);
    /// ```
    ///
    /// # Cost
    /// The elements that are freed are sent to two processes, once. They are fetched again when the program reads them, when a plan
    /// is made, and when a process is lost.
    ///
    /// # Determinism
    /// No bits depend on it.
    pub fn driver_memory(mut self, bytes: usize) -> Self {
        self.driver_memory = Some(bytes);
        self
    }

    /// Sets the file to which the timeline of all processes is written when the session ends.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }

    /// How many bytes of elements the driver keeps.
    pub(super) fn bytes_at_home(&self) -> usize {
        let usual = if self.homes == Homes::Servers { 0 } else { DRIVER_MEMORY };
        self.driver_memory.unwrap_or(usual)
    }

    /// The largest DDS that is fetched whole after reads here and there.
    pub(super) fn bytes_fetched_whole(&self) -> usize {
        self.driver_memory.unwrap_or(DRIVER_MEMORY) / 4
    }

    /// Whether elements go back to DDS servers after each call.
    pub(super) fn homes_on_servers(&self) -> bool {
        self.homes == Homes::Servers
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// With how many workers the job begins.
    pub(super) fn fewest(&self) -> usize {
        self.fewest.clamp(1, self.workers.max(1))
    }

    /// Whether the job waits for workers that join, when all have gone.
    pub(super) fn awaits_others(&self) -> bool {
        self.join && self.fewest < self.workers
    }

    /// Loops from one snapshot to the next.
    pub(crate) fn every(&self) -> usize {
        self.snapshot_every
    }

    /// After how long a body is named; 0 for never.
    pub(super) fn slow_body_after(&self) -> Duration {
        self.slow_body
    }

    pub(crate) fn servers(&self) -> usize {
        self.servers
    }

    pub(crate) fn of_role(role: &DriverRole) -> Option<Self> {
        let (workers, join) = match role.workers {
            Workers::None => return None,
            Workers::Spawn(workers) => (workers, false),
            Workers::Join(workers) => (workers, true),
        };
        Some(ClusterOptions {
            fewest: role.fewest.unwrap_or(workers),
            join,
            threads: role.threads,
            servers: role.servers,
            homes: if role.homes_on_servers { Homes::Servers } else { Homes::Workers },
            listen: role.listen.clone(),
            snapshot_every: role.snapshot_every.unwrap_or(SNAPSHOT_EVERY),
            attempts: role.attempts.unwrap_or(ATTEMPTS),
            slow_body: role.slow_body.map_or(SLOW_BODY, |seconds| Duration::from_secs(seconds as u64)),
            driver_memory: role.driver_memory,
            trace: role.trace.clone(),
            rendezvous: role.rendezvous.clone(),
            ..ClusterOptions::new(workers)
        })
    }

    pub(super) fn threads_each(&self) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(|| (cores / self.workers.max(1)).max(1))
    }
}

impl Session {
    /// Runs all later loops on worker processes of this same program, which are started now or awaited. No result of an
    /// asynchronous loop depends on how many there are. The workers end with the session.
    ///
    /// A program that starts workers must begin with [`#[stradsap::main]`](crate::private::launch). The workers run the same
    /// program, and never enter its `main`.
    ///
    /// # Errors
    /// [`Error::Usage`] if the session has workers already, [`Error::Cluster`] if they can't be started or don't join.
    pub fn start_workers(&self, options: &ClusterOptions) -> Result<()> {
        if self.workers() > 0 {
            return Err(Error::usage("this session has its workers already"));
        }
        if options.workers() == 0 {
            return Err(Error::usage("0 workers can't run loops: leave them out to run in this process"));
        }
        if options.fewest == 0 || options.fewest > options.workers {
            let (fewest, workers) = (options.fewest, options.workers);
            return Err(Error::usage(format!(
                "at least {fewest} workers of {workers}: from 1 to {workers} was expected"
            )));
        }
        if options.homes_on_servers() && options.servers == 0 {
            return Err(Error::usage(
                "elements can't be at home on DDS servers when there is none: ask for two servers",
            ));
        }
        let cluster = Cluster::start(options, self.inner().take_timeline())?;
        self.set_threads(cluster.threads())?;
        // Two threads that start workers at once: the first wins, and the other's end here.
        self.inner().hand_over(roles(cluster))
    }
}
