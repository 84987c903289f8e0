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

/// The processes that a session is to run its loops on: [`Session::start_workers`](crate::Session::start_workers).
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
    pub(super) threads: Option<usize>,
    pub(super) servers: usize,
    pub(super) listen: Option<String>,
    pub(super) snapshot_every: usize,
    pub(super) attempts: usize,
    slow_body: Duration,
    driver_memory: usize,
    pub(super) trace: Option<PathBuf>,
    pub(super) join: bool,
    pub(super) rendezvous: Option<PathBuf>,
}

impl ClusterOptions {
    /// This many workers, started on this machine.
    pub fn new(workers: usize) -> Self {
        ClusterOptions {
            workers,
            threads: None,
            servers: 0,
            listen: None,
            snapshot_every: SNAPSHOT_EVERY,
            attempts: ATTEMPTS,
            slow_body: SLOW_BODY,
            driver_memory: DRIVER_MEMORY,
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

    /// How many threads run blocks in each worker; otherwise the cores are shared evenly.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// How many DDS servers are started beside the workers. With none, each worker embeds one.
    pub fn dds_servers(mut self, servers: usize) -> Self {
        self.servers = servers;
        self
    }

    /// Where workers join that are started by others (`--join`); none is started then.
    pub fn listen(mut self, address: impl Into<String>) -> Self {
        self.listen = Some(address.into());
        self.join = true;
        self
    }

    /// Loops from one snapshot to the next: what has to run again when a process is lost.
    pub fn snapshot_every(mut self, loops: usize) -> Self {
        self.snapshot_every = loops.max(1);
        self
    }

    /// How often in a row a loop may begin again after processes were killed by others (by signal 9 or 15), without being done
    /// once; 1,000 otherwise. Those that end in any other way, as a loop's body may cause it, have 8 attempts.
    pub fn attempts(mut self, attempts: usize) -> Self {
        self.attempts = attempts;
        self
    }

    /// After how long, in whole seconds, a body that has not ended is named by a warning (worker, loop, block or minibatch, and for
    /// how long it has run), and again each time that this has doubled; a minute otherwise, and never for 0.
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

    /// How many bytes of elements this process keeps that loops on workers have used; 64 MiB otherwise. What is more is stored by the
    /// workers or DDS servers, twice each, and this process's memory of it is freed at the end of a call: the largest DVectors and
    /// DMatrices of plain numbers first. So the data of a job may be lost with two workers that are lost at the same moment; with
    /// `usize::MAX` all that loops don't write stays here.
    ///
    /// With a single worker and no DDS servers, or with a single server, all of it stays.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// let options = stradsap::ClusterOptions::new(4).driver_memory(256 << 20);
    /// ```
    ///
    /// # Cost
    /// What goes is sent twice, once. It is fetched again where the program reads it, and where a plan is made or a process lost.
    ///
    /// # Determinism
    /// No bits depend on it.
    pub fn driver_memory(mut self, bytes: usize) -> Self {
        self.driver_memory = bytes;
        self
    }

    /// Where the timeline of all processes is written when the session ends.
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }

    /// How many bytes of elements the driver keeps.
    pub(super) fn bytes_at_home(&self) -> usize {
        self.driver_memory
    }

    /// How many workers there are to be.
    pub fn workers(&self) -> usize {
        self.workers
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
            join,
            servers: role.servers,
            listen: role.listen.clone(),
            snapshot_every: role.snapshot_every.unwrap_or(SNAPSHOT_EVERY),
            attempts: role.attempts.unwrap_or(ATTEMPTS),
            slow_body: role.slow_body.map_or(SLOW_BODY, |seconds| Duration::from_secs(seconds as u64)),
            driver_memory: role.driver_memory.map_or(DRIVER_MEMORY, |mebibytes| mebibytes.saturating_mul(1 << 20)),
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
    /// Runs all loops from here on on worker processes: of this same program, started now or awaited. No result depends
    /// on how many there are. They end with the session.
    ///
    /// A program that starts workers must begin with [`#[stradsap::main]`](crate::private::launch): its workers are the
    /// program itself, which goes no further than that.
    ///
    /// # Errors
    /// [`Error::Usage`] if the session has workers already, [`Error::Cluster`] if they don't come.
    pub fn start_workers(&self, options: &ClusterOptions) -> Result<()> {
        if self.workers() > 0 {
            return Err(Error::usage("this session has its workers already"));
        }
        if options.workers() == 0 {
            return Err(Error::usage("0 workers can't run loops: leave them out to run in this process"));
        }
        let cluster = Cluster::start(options, self.inner().take_timeline())?;
        self.set_threads(cluster.threads())?;
        // Two threads that start workers at once: the first wins, and the other's end here.
        self.inner().hand_over(roles(cluster))
    }
}
