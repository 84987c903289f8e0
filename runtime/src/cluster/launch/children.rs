//! Workers and DDS servers that the driver starts on its own machine: none outlives it.
//!
//! # Why this is sound
//! The one unsafe thing is code that runs in the forked child before it becomes the new program, when only calls that
//! are safe in signal handlers are allowed: two system calls, and an error from a number, which allocates nothing.
#![allow(unsafe_code)]

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use stradsap_dds_server::{process, tasks};
use tokio::time::Instant;

use super::stderr::Stderr;
use crate::memory::spill::Spill;
use crate::session::error::{Error, Result};

/// What the driver's own environment says about it, which is not for its children.
const NOT_INHERITED: [&str; 20] = [
    "STRADSAP_ATTEMPTS",
    "STRADSAP_DDS_SERVERS",
    "STRADSAP_DRIVER_MEMORY",
    "STRADSAP_GENERATION",
    "STRADSAP_EXPLAIN",
    "STRADSAP_HOME",
    "STRADSAP_INDEX",
    "STRADSAP_JOB",
    "STRADSAP_JOIN",
    "STRADSAP_LISTEN",
    "STRADSAP_MEMORY",
    "STRADSAP_RENDEZVOUS",
    "STRADSAP_SECRET_FILE",
    "STRADSAP_SIZE",
    "STRADSAP_SNAPSHOT_EVERY",
    "STRADSAP_SPILL",
    "STRADSAP_THREADS",
    "STRADSAP_TRACE",
    "STRADSAP_VERIFY",
    "STRADSAP_WORKERS",
];

/// What passes between two looks at a child that is to end.
const LOOKING: Duration = Duration::from_millis(2);

/// What a child is started with.
#[derive(Clone)]
pub(crate) struct ChildSettings {
    /// Where the driver listens.
    pub(crate) join: String,
    pub(crate) secret: String,
    pub(crate) index: u32,
    pub(crate) threads: Option<usize>,
    pub(crate) generation: u64,
}

/// Starts processes, from a thread of its own: on Linux a child is killed when the *thread* that started it ends, so
/// that thread must live as long as any of its children may.
#[derive(Clone, Debug)]
pub(crate) struct Nursery {
    orders: Sender<Order>,
}

struct Order {
    command: Command,
    reply: Sender<std::io::Result<std::process::Child>>,
}

impl Nursery {
    /// A thread that ends after the last child, and the last clone of this, is gone.
    pub(crate) fn new() -> Result<Nursery> {
        let (orders, inbox) = channel();
        if tasks::is_simulated() {
            return Ok(Nursery { orders });
        }
        let started = std::thread::Builder::new().name("stradsap-nursery".into()).spawn(move || work(&inbox));
        started.map_err(|error| Error::Threads { threads: 1, reason: error.to_string() })?;
        Ok(Nursery { orders })
    }

    /// A worker: this program in the worker role.
    pub(crate) fn worker(&self, settings: &ChildSettings) -> Result<Child> {
        #[cfg(feature = "simulation")]
        if tasks::is_simulated() {
            return Ok(self.simulated(simulated::worker(settings)));
        }
        self.start(command(&this_program()?, "worker", settings))
    }

    /// A DDS server: the program for it where there is one, otherwise this program in the server role.
    pub(crate) fn server(&self, settings: &ChildSettings) -> Result<Child> {
        #[cfg(feature = "simulation")]
        if tasks::is_simulated() {
            return Ok(self.simulated(simulated::server(settings)));
        }
        let named = std::env::var_os("STRADSAP_DDS_SERVER").filter(|path| !path.is_empty()).map(PathBuf::from);
        let own = this_program()?;
        let program = server_program(named, &std::env::current_exe().unwrap_or_default())?;
        let mut command = command(program.as_deref().unwrap_or(&own), "server", settings);
        // Nobody tells it of a limit later.
        if let Some(spill) = Spill::current() {
            command.env("STRADSAP_MEMORY", spill.limit().to_string()).env("STRADSAP_SPILL", spill.folder());
        }
        self.start(command)
    }

    #[cfg(feature = "simulation")]
    fn simulated(&self, process: simulated::Process) -> Child {
        Child {
            process: Process::Simulated(process),
            stderr: None,
            memory_kills: 0,
            ended: None,
            _nursery: self.clone(),
        }
    }

    fn start(&self, mut command: Command) -> Result<Child> {
        let path = PathBuf::from(command.get_program());
        die_with_parent(&mut command);
        let stderr = Stderr::of(&mut command).map_err(|source| Error::File { path: path.clone(), source })?;
        let (reply, answer) = channel();
        let gone = || std::io::Error::other("the thread that starts processes has ended");
        let sent = self.orders.send(Order { command, reply }).map_err(|_| gone());
        let child = sent.and_then(|()| answer.recv().map_err(|_| gone())?);
        match child {
            Ok(child) => {
                let (process, stderr, memory_kills) = (Process::OfTheSystem(child), Some(stderr), memory_kills());
                Ok(Child { process, stderr, memory_kills, ended: None, _nursery: self.clone() })
            }
            Err(source) => Err(Error::File { path, source }),
        }
    }
}

fn work(inbox: &Receiver<Order>) {
    for Order { mut command, reply } in inbox {
        // The caller ordered and left: dropping a process does not end it.
        if let Err(unwanted) = reply.send(command.spawn())
            && let Ok(mut child) = unwanted.0
        {
            let _ = child.kill().and_then(|()| child.wait()); // gone already is as good
        }
    }
}

/// The file that this process runs: by its name where that is still the same file, since names are what `ps` shows.
fn this_program() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    let path = std::env::current_exe().map_err(|source| Error::File { path: running.to_path_buf(), source })?;
    let same = |a: &Path, b: &Path| match (a.metadata(), b.metadata()) {
        (Ok(a), Ok(b)) => (a.dev(), a.ino()) == (b.dev(), b.ino()),
        (_, Err(_)) => true, // no such link on this system
        _ => false,
    };
    Ok(if same(&path, running) { path } else { running.to_path_buf() })
}

/// The program for servers: the one that the environment names, or one beside this program or in the folder above.
fn server_program(named: Option<PathBuf>, own: &Path) -> Result<Option<PathBuf>> {
    if let Some(path) = named {
        return if path.is_file() {
            Ok(Some(path))
        } else {
            Err(Error::usage(format!("STRADSAP_DDS_SERVER={}: there is no such file", path.display())))
        };
    }
    let folders = own.ancestors().skip(1).take(2);
    Ok(folders.map(|folder| folder.join("dds-server")).find(|path| path.is_file()))
}

fn command(program: &Path, role: &str, settings: &ChildSettings) -> Command {
    let mut command = Command::new(program);
    for name in NOT_INHERITED {
        command.env_remove(name);
    }
    command.env("STRADSAP_ROLE", role).env("STRADSAP_JOIN", &settings.join).env("STRADSAP_SECRET", &settings.secret);
    command
        .env("STRADSAP_INDEX", settings.index.to_string())
        .env("STRADSAP_GENERATION", settings.generation.to_string());
    if let Some(threads) = settings.threads {
        command.env("STRADSAP_THREADS", threads.to_string());
    }
    if let Some(note) = process::build_note() {
        command.env(process::BUILD, note);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// How many processes Linux has ended for want of memory, those of control groups with them; 0 elsewhere.
fn memory_kills() -> i64 {
    let counters = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let count = counters.lines().find_map(|line| line.strip_prefix("oom_kill ")?.parse().ok());
    count.unwrap_or(0)
}

/// Has the system kill the child when the thread that started it ends, so also when this process is killed.
fn die_with_parent(command: &mut Command) {
    #[cfg(target_os = "linux")]
    {
        let parent = std::process::id().cast_signed();
        let before_exec = move || {
            // SAFETY: system calls with plain numbers.
            let (set, above) =
                unsafe { (libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0), libc::getppid()) };
            if set != 0 {
                Err(std::io::Error::last_os_error())
            } else if above != parent {
                // The parent died before the wish was known.
                Err(std::io::Error::from_raw_os_error(libc::ESRCH))
            } else {
                Ok(())
            }
        };
        // SAFETY: only system calls, no allocation, no locks (see the module's argument).
        unsafe { command.pre_exec(before_exec) };
    }
    #[cfg(not(target_os = "linux"))]
    let _ = command; // there, children notice the closed connection
}

/// A process that is ended and reaped when this is dropped.
#[derive(Debug)]
pub(crate) struct Child {
    process: Process,
    /// What it says; of a simulated one nothing.
    stderr: Option<Stderr>,
    /// How many processes the system had ended for want of memory when this one began.
    memory_kills: i64,
    ended: Option<ProcessEnd>,
    _nursery: Nursery,
}

#[derive(Debug)]
enum Process {
    OfTheSystem(std::process::Child),
    #[cfg(feature = "simulation")]
    Simulated(simulated::Process),
}

impl Child {
    pub(crate) fn pid(&self) -> u32 {
        match &self.process {
            Process::OfTheSystem(child) => child.id(),
            #[cfg(feature = "simulation")]
            Process::Simulated(process) => process.number(),
        }
    }

    /// How it ended, if it has.
    pub(crate) fn ended(&mut self) -> Option<ProcessEnd> {
        if self.ended.is_none() {
            self.ended = match &mut self.process {
                Process::OfTheSystem(child) => match child.try_wait() {
                    Ok(status) => status.map(ProcessEnd::from),
                    // It was reaped by others, so it has ended, nobody knows how.
                    Err(_) => Some(ProcessEnd::Unknown),
                },
                #[cfg(feature = "simulation")]
                Process::Simulated(process) => process.ended(),
            };
            self.look_for_memory();
        }
        self.ended
    }

    /// Whether it ended for want of memory: a process that gets none, or whose stack is full, says so and aborts; one that the system
    /// ends is counted.
    fn look_for_memory(&mut self) {
        let Some(stderr) = &self.stderr else { return };
        let named = match self.ended {
            Some(ProcessEnd::Signal(libc::SIGABRT)) => match stderr.failed_allocation() {
                Some(bytes) => Some(ProcessEnd::NoMemory { bytes }),
                None => stderr.overflowed().then_some(ProcessEnd::NoStack),
            },
            Some(ProcessEnd::Signal(libc::SIGKILL)) if memory_kills() > self.memory_kills => {
                Some(ProcessEnd::KilledForMemory)
            }
            _ => None,
        };
        self.ended = named.or(self.ended);
    }

    /// How it ended, if it does so by itself in this time.
    pub(crate) async fn ends_within(&mut self, patience: Duration) -> Option<ProcessEnd> {
        let since = Instant::now();
        loop {
            let ended = self.ended();
            if ended.is_some() || since.elapsed() >= patience {
                return ended;
            }
            tokio::time::sleep(LOOKING).await;
        }
    }

    fn signal_end(&mut self) {
        match &mut self.process {
            // It fails only where it has ended meanwhile.
            Process::OfTheSystem(child) => drop(child.kill()),
            #[cfg(feature = "simulation")]
            Process::Simulated(process) => process.kill(),
        }
    }

    /// Kills it, and waits for its end without holding up others.
    pub(crate) async fn end(&mut self) {
        self.signal_end();
        while self.ended().is_none() {
            tokio::time::sleep(LOOKING).await;
        }
    }

    /// Kills it, unless it has ended, and reaps it.
    pub(crate) fn kill(&mut self) -> ProcessEnd {
        if let Some(ended) = self.ended() {
            return ended;
        }
        self.signal_end();
        let ended = match &mut self.process {
            Process::OfTheSystem(child) => child.wait().map_or(ProcessEnd::Unknown, ProcessEnd::from),
            #[cfg(feature = "simulation")]
            Process::Simulated(process) => process.ended().unwrap_or(ProcessEnd::Unknown),
        };
        self.ended = Some(ended);
        ended
    }
}

/// Gives all of these time to end by themselves, then kills those that have not.
pub(crate) fn end_all(mut children: Vec<Child>, patience: Duration) {
    let since = Instant::now();
    while since.elapsed() < patience && children.iter_mut().any(|child| child.ended().is_none()) {
        tasks::pause(LOOKING);
    }
    for child in children.iter_mut().filter(|child| child.ended.is_none()) {
        // Each is reaped when it is dropped.
        child.signal_end();
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        self.kill();
        if let Some(stderr) = &self.stderr {
            stderr.wait();
        }
    }
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProcessEnd {
    /// By itself, with this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// By itself, since it didn't get so much memory.
    NoMemory {
        /// How much it asked for.
        bytes: u64,
    },
    /// By itself, since a thread went deeper than its stack.
    NoStack,
    /// By signal 9, and Linux has ended a process for want of memory since this one began.
    KilledForMemory,
    /// Nobody knows.
    Unknown,
}

impl From<ExitStatus> for ProcessEnd {
    fn from(status: ExitStatus) -> ProcessEnd {
        match (status.code(), status.signal()) {
            (Some(code), _) => ProcessEnd::Code(code),
            (None, Some(signal)) => ProcessEnd::Signal(signal),
            (None, None) => ProcessEnd::Unknown,
        }
    }
}

impl fmt::Display for ProcessEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProcessEnd::Code(code) => write!(f, "exit code {code}"),
            ProcessEnd::Signal(signal) => match signal_name(*signal) {
                Some(name) => write!(f, "signal {signal} ({name})"),
                None => write!(f, "signal {signal}"),
            },
            ProcessEnd::NoMemory { bytes } => write!(f, "signal 6 (SIGABRT): it got no memory for {bytes} bytes"),
            ProcessEnd::NoStack => f.write_str(
                "signal 6 (SIGABRT): a thread's stack was full; STRADSAP_STACK_SIZE sets how many bytes stacks of workers have",
            ),
            ProcessEnd::KilledForMemory => {
                f.write_str("signal 9 (SIGKILL), and the system has ended a process for want of memory")
            }
            ProcessEnd::Unknown => f.write_str("an unknown end"),
        }
    }
}

fn signal_name(signal: i32) -> Option<&'static str> {
    let names = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    names.iter().find(|&&(number, _)| number == signal).map(|&(_, name)| name)
}

#[cfg(feature = "simulation")]
#[path = "simulated.rs"]
mod simulated;

#[cfg(test)]
#[path = "children_tests.rs"]
mod tests;
