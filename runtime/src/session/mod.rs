//! A session: the threads that loops run on, their plans, and how much is said and checked.

pub(crate) mod advice;
pub(crate) mod backend;
pub(crate) mod clock;
pub(crate) mod condition;
pub(crate) mod dot;
pub(crate) mod error;
pub(crate) mod late;
pub(crate) mod logging;
pub(crate) mod memory;
mod nodes;
pub(crate) mod options;
pub(crate) mod plan_file;
pub(crate) mod pool;
pub(crate) mod report;
pub(crate) mod slots;
pub(crate) mod slow_bodies;
pub(crate) mod stack;
pub(crate) mod stopping;
pub(crate) mod timeline;
mod variables;
pub(crate) mod verified;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, RwLock};

pub(crate) use crate::memory::locked;
use crate::memory::spill::Spill;
use crate::session::backend::Roles;
use crate::session::error::{Error, Result};
use crate::session::pool::Pool;
use crate::session::slots::Slots;
use crate::session::timeline::file::TimelineFile;

/// Numbers that are never given twice in a process.
pub(crate) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed)
}

/// The most threads that a session can have. A machine with fewer cores has a lower limit: as many threads as it has cores, but at
/// least 256.
pub const MAX_THREADS: usize = 1024;

/// The threads that loops run on, and the plans of the loops that ran. Each DDS and each reduction belongs to one session.
///
/// A program gets its session from `#[stradsap::main]`, configured by the environment: `STRADSAP_THREADS`, `STRADSAP_VERIFY=1`,
/// `STRADSAP_EXPLAIN=1`, `STRADSAP_MEMORY` and `STRADSAP_SPILL`. No result of an asynchronous loop, an operator or a scheduled
/// program depends on any of these; that of a synchronous loop may depend on the number of threads.
///
/// Threads are started when the first loop runs, and end with the session and all DDSs and reductions that belong to it.
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Session;
///
/// let session = Session::builder().threads(2).build()?;
/// assert_eq!(session.threads(), 2);
/// session.set_threads(3)?;
/// assert_eq!(session.threads(), 3);
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
pub struct Session {
    inner: Arc<SessionInner>,
}

pub(crate) struct SessionInner {
    threads: AtomicUsize,
    seed: AtomicU64,
    /// Of each thread, in bytes.
    stack: usize,
    pool: Mutex<Option<Arc<Pool>>>,
    verify: AtomicBool,
    explain: AtomicBool,
    dot: Mutex<Option<PathBuf>>,
    slots: Slots,
    roles: RwLock<Roles>,
    timeline: Mutex<Option<TimelineFile>>,
    /// Its limit of memory.
    spill: Mutex<Option<Arc<Spill>>>,
}

/// Builder for a [`Session`]: [`Session::builder`].
///
/// ```
/// # use stradsap_runtime as stradsap;
/// use stradsap::Session;
///
/// let session = Session::builder().threads(2).verify(true).explain(false).build()?;
/// assert_eq!(session.threads(), 2);
/// # Ok::<(), stradsap_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct SessionBuilder {
    threads: Option<usize>,
    seed: Option<u64>,
    stack: Option<usize>,
    verify: Option<bool>,
    explain: Option<bool>,
}

impl SessionBuilder {
    /// Sets the number of threads that loops run on, from 1 to the number of cores or 256, whichever is larger, and at most
    /// [`MAX_THREADS`]. The default is `STRADSAP_THREADS`, or else one thread for each core.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// assert_eq!(Session::builder().threads(4).build()?.threads(), 4);
    /// assert!(Session::builder().threads(0).build().is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Sets the seed of the session's random numbers, as [`Session::set_seed`] does.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the size of each thread's stack, in bytes. The default is `STRADSAP_STACK_SIZE`, or else the size of the main thread's
    /// stack (at most 256 MiB), so that a body can recurse as deeply as in a plain loop. Workers take the size from the
    /// environment. A session of one thread runs loops on the calling thread, with that thread's stack.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(2).stack_size(64 << 20).build()?;
    /// assert!(Session::builder().stack_size(100).build().is_err());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack = Some(bytes);
        self
    }

    /// With `true` every loop is replayed in its serial order, and the results are compared bit by bit. The default is set by
    /// `STRADSAP_VERIFY`.
    pub fn verify(mut self, verify: bool) -> Self {
        self.verify = Some(verify);
        self
    }

    /// With `true` every new plan is explained on standard error. The default is set by `STRADSAP_EXPLAIN`.
    pub fn explain(mut self, explain: bool) -> Self {
        self.explain = Some(explain);
        self
    }

    /// A session whose loops run on a backend.
    pub(crate) fn build_on(self, roles: Roles) -> Result<Session> {
        refuse_in_children()?;
        variables::warn_of_misspelt();
        let threads = match self.threads {
            Some(threads) => threads,
            None => match env("STRADSAP_THREADS")? {
                Some(text) => {
                    text.trim().parse().ok().filter(|n| (1..=most_threads()).contains(n)).ok_or_else(|| {
                        Error::usage(format!(
                            "STRADSAP_THREADS={text}: a number from 1 to {} was expected",
                            most_threads()
                        ))
                    })?
                }
                None => std::thread::available_parallelism().map_or(1, usize::from),
            },
        };
        let stack = stack::size(self.stack, env("STRADSAP_STACK_SIZE")?.as_deref())?;
        let verify = self.verify.map_or_else(|| switch("STRADSAP_VERIFY"), Ok)?;
        let explain = self.explain.map_or_else(|| switch("STRADSAP_EXPLAIN"), Ok)?;
        let session = Session {
            inner: Arc::new(SessionInner {
                threads: AtomicUsize::new(1),
                seed: AtomicU64::new(self.seed.unwrap_or_default()),
                stack,
                pool: Mutex::new(None),
                verify: AtomicBool::new(verify),
                explain: AtomicBool::new(explain),
                dot: Mutex::new(None),
                slots: Slots::default(),
                roles: RwLock::new(roles),
                timeline: Mutex::default(),
                spill: Mutex::default(),
            }),
        };
        session.set_threads(threads)?;
        session.limit_memory()?;
        Ok(session)
    }
}

/// How many threads make progress here. One that has nothing to do looks for work at each of the others, so that many more than
/// there are cores do nothing else.
fn most_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).clamp(256, MAX_THREADS)
}

/// Whether `#[stradsap::main]` has begun this program.
static LAUNCHED: AtomicBool = AtomicBool::new(false);

/// To be called before a program's own code runs.
pub(crate) fn record_launch() {
    LAUNCHED.store(true, Relaxed);
}

pub(crate) fn is_launched() -> bool {
    LAUNCHED.load(Relaxed)
}

/// A worker never gets as far as its program's code. If it does, it would start workers in turn, and these theirs.
fn refuse_in_children() -> Result<()> {
    match env("STRADSAP_ROLE")?.as_deref().map(str::trim) {
        Some(role @ ("worker" | "server")) if !is_launched() => Err(Error::usage(format!(
            "this process was started as a {role} of a job (STRADSAP_ROLE={role}), but its program has a `main` that knows \
             nothing of it: write `#[stradsap::main] fn main(session: &Session)`; for tests that start workers, set \
             `harness = false` for the target in Cargo.toml and give it such a `main`"
        ))),
        _ => Ok(()),
    }
}

fn env(name: &str) -> Result<Option<String>> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text)),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(std::env::VarError::NotUnicode(_)) => Err(Error::usage(format!("{name} is not UTF-8"))),
    }
}

fn switch(name: &str) -> Result<bool> {
    match env(name)?.as_deref() {
        None | Some("" | "0" | "false") => Ok(false),
        Some("1" | "true") => Ok(true),
        Some(text) => Err(Error::usage(format!("{name}={text}: 0, 1, false or true was expected"))),
    }
}

impl Session {
    /// A session that the environment configures.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::new()?;
    /// assert!(session.threads() >= 1);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for a variable with a value that isn't understood.
    pub fn new() -> Result<Self> {
        Self::builder().build()
    }

    /// A builder, to configure a session.
    pub fn builder() -> SessionBuilder {
        SessionBuilder::default()
    }

    /// The number of threads that loops run on.
    pub fn threads(&self) -> usize {
        self.inner.threads.load(Relaxed)
    }

    /// Sets the number of threads that later loops run on. No result of an asynchronous loop depends on it.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).build()?;
    /// session.set_threads(2)?;
    /// assert_eq!(session.threads(), 2);
    /// assert_eq!(session.set_threads(0).unwrap_err().exit_code(), 2);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] if the number isn't from 1 to the limit of [`SessionBuilder::threads`].
    pub fn set_threads(&self, threads: usize) -> Result<()> {
        let most = most_threads();
        if !(1..=most).contains(&threads) {
            let problem = format!("{threads} threads are not offered on this machine: give a number from 1 to {most}");
            return Err(Error::usage(problem));
        }
        self.inner.threads.store(threads, Relaxed);
        Ok(())
    }

    /// Sets the seed of the session's random numbers. The same seed gives the same numbers. The default is 0. Streams that exist
    /// already keep their seed.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// use stradsap::Session;
    ///
    /// let session = Session::builder().threads(1).seed(7).build()?;
    /// assert_eq!(session.seed(), 7);
    /// session.set_seed(8);
    /// assert_eq!(session.seed(), 8);
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn set_seed(&self, seed: u64) {
        self.inner.seed.store(seed, Relaxed);
    }

    /// The seed of the session's random numbers.
    pub fn seed(&self) -> u64 {
        self.inner.seed.load(Relaxed)
    }

    /// With `true` every later loop is replayed in its serial order, and the results are compared bit by bit. This costs a serial
    /// execution, and a copy of what the loop may write. A difference is an [`Error::Verification`]. The report says what was
    /// compared, or why nothing was ([`LoopReport::verified`](crate::LoopReport::verified)).
    ///
    /// ```
    /// # let session = stradsap_runtime::Session::builder().threads(1).build()?;
    /// session.verify(true); // every loop from here on is checked
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn verify(&self, on: bool) {
        self.inner.verify.store(on, Relaxed);
    }

    /// With `true` every new plan is explained on standard error.
    ///
    /// ```
    /// # let session = stradsap_runtime::Session::builder().threads(1).build()?;
    /// session.set_explain(true); // the next loop's plan is printed
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn set_explain(&self, on: bool) {
        self.inner.explain.store(on, Relaxed);
    }

    /// Writes the conflict graph of each new plan to this file, in the DOT language. The graph of a later plan replaces it; `None`
    /// ends this.
    ///
    /// ```
    /// # let session = stradsap_runtime::Session::builder().threads(1).build()?;
    /// session.set_dot(Some(std::path::Path::new("plan.dot"))); // then: dot -Tsvg plan.dot
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    pub fn set_dot(&self, path: Option<&Path>) {
        *locked(&self.inner.dot) = path.map(Path::to_path_buf);
    }

    /// Writes a timeline to this file when the session ends. It shows what each thread of each process did when, in Chrome's trace
    /// format, which [Perfetto](https://ui.perfetto.dev) opens. Call this before you start workers.
    ///
    /// ```
    /// # use stradsap_runtime as stradsap;
    /// # let folder = tempfile::tempdir().map_err(|error| stradsap_runtime::Error::usage(error.to_string()))?;
    /// # let file = folder.path().join("timeline.json");
    /// let session = stradsap::Session::builder().threads(1).build()?;
    /// session.trace(&file)?;
    /// drop(session);
    /// assert!(file.is_file());
    /// # Ok::<(), stradsap_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::File`] if the file can't be written, [`Error::Usage`] if the session already has a timeline or workers.
    pub fn trace(&self, path: impl AsRef<Path>) -> Result<()> {
        if self.workers() > 0 {
            return Err(Error::usage("name the timeline's file before the workers are started"));
        }
        let mut timeline = locked(&self.inner.timeline);
        if timeline.is_some() {
            return Err(Error::usage("this session has a timeline already"));
        }
        *timeline = Some(TimelineFile::begin(path.as_ref())?);
        Ok(())
    }

    /// The number of workers that loops run on; 0 in one process.
    pub fn workers(&self) -> usize {
        self.inner.elements().workers()
    }

    /// How many control messages the driver has sent to its workers so far. Each loop that runs takes a constant number.
    pub fn control_messages(&self) -> u64 {
        self.inner.elements().control_messages()
    }

    /// Runs `f` once on each of up to `most` of the session's threads at the same time. Readers of files use this. With `most` of
    /// 1, `f` runs on the calling thread and no thread is started.
    ///
    /// # Errors
    /// [`Error::Threads`].
    #[doc(hidden)]
    pub fn everywhere(&self, most: usize, f: impl Fn() + Sync + Send) -> Result<()> {
        if most <= 1 {
            f();
        } else {
            self.inner.pool()?.everywhere(most, |_| f());
        }
        Ok(())
    }

    pub(crate) fn inner(&self) -> Arc<SessionInner> {
        Arc::clone(&self.inner)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("threads", &self.threads()).finish_non_exhaustive()
    }
}

impl SessionInner {
    pub(crate) fn is(&self, other: &SessionInner) -> bool {
        std::ptr::eq(self, other)
    }

    pub(crate) fn verifies(&self) -> bool {
        self.verify.load(Relaxed)
    }

    pub(crate) fn explains(&self) -> bool {
        self.explain.load(Relaxed)
    }

    pub(crate) fn dot(&self) -> Option<PathBuf> {
        locked(&self.dot).clone()
    }

    /// Bytes of each thread's stack.
    pub(crate) fn stack(&self) -> usize {
        self.stack
    }

    /// The threads, started when they are first needed.
    pub(crate) fn pool(&self) -> Result<Arc<Pool>> {
        let threads = self.threads.load(Relaxed);
        let mut pool = locked(&self.pool);
        match &*pool {
            Some(pool) if pool.threads() == threads => Ok(Arc::clone(pool)),
            _ => {
                let fresh = Arc::new(Pool::new(threads, self.stack)?);
                *pool = Some(Arc::clone(&fresh));
                Ok(fresh)
            }
        }
    }

    /// The file that a timeline is to be written to, for what writes it instead.
    pub(crate) fn take_timeline(&self) -> Option<TimelineFile> {
        locked(&self.timeline).take()
    }
}
