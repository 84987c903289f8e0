//! Which part this process plays: the driver, a worker or a DDS server. It follows from the environment (what a driver
//! gives to the processes that it starts, what a launcher gives to each rank) and from `--join` on the command line.

use std::ffi::OsString;
use std::path::PathBuf;

use stradsap_dds_server::amounts;

use crate::launch::{launcher, pmi};
use crate::session::MAX_THREADS;
use crate::session::error::{Error, Result};

/// The most worker or server processes of a job.
pub(crate) const MAX_PROCESSES: usize = 1024;

/// The number of workers if each core that this process may use has one.
pub(crate) fn one_per_core() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(MAX_PROCESSES)
}

/// The part that a process plays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Driver(DriverRole),
    Worker(WorkerRole),
    Server(ServerRole),
}

/// The user's program runs here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DriverRole {
    pub(crate) workers: Workers,
    /// With how many of them the job begins, if not with all.
    pub(crate) fewest: Option<usize>,
    /// In each of them; none: the cores are shared evenly.
    pub(crate) threads: Option<usize>,
    /// Separate DDS servers, which the driver starts; 0: one is embedded in each worker.
    pub(crate) servers: usize,
    /// Whether elements are with the servers between calls.
    pub(crate) homes_on_servers: bool,
    /// Where workers may join; none: loopback, any port.
    pub(crate) listen: Option<String>,
    /// Loops from one snapshot to the next.
    pub(crate) snapshot_every: Option<usize>,
    /// How often a loop may begin again after kills from outside.
    pub(crate) attempts: Option<usize>,
    /// After how many seconds a body is named that has not ended.
    pub(crate) slow_body: Option<usize>,
    /// How many bytes of elements the driver keeps.
    pub(crate) driver_memory: Option<usize>,
    /// Where the timeline is written.
    pub(crate) trace: Option<PathBuf>,
    /// Under a launcher: the file through which the other ranks learn the address and the secret.
    pub(crate) rendezvous: Option<PathBuf>,
}

/// Where a driver's workers come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workers {
    /// Loops run in this process.
    None,
    /// The driver starts this many on this machine.
    Spawn(usize),
    /// This many are started by others and join.
    Join(usize),
}

/// Loops of a driver run here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WorkerRole {
    pub(crate) join: Join,
    /// As the worker was configured; otherwise it takes its share of the cores.
    pub(crate) threads: Option<usize>,
    /// Workers that share this machine's cores, where a launcher says so; otherwise 1.
    pub(crate) workers_here: usize,
    /// The worker's number from 0, where it is configured; otherwise the driver gives it one.
    pub(crate) index: Option<u32>,
    /// The generation of the job in which the driver started it.
    pub(crate) generation: u64,
}

/// Parts live here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServerRole {
    pub(crate) join: Join,
    /// The server's number from 0, where it is configured.
    pub(crate) index: Option<u32>,
    /// The generation of the job in which the driver started it.
    pub(crate) generation: u64,
}

/// How a worker or server finds its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Join {
    /// At `host:port`.
    Address(String),
    /// At what the driver writes to this file.
    Rendezvous(PathBuf),
}

/// The variables of an environment.
pub(crate) type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The role of this process. To be asked once: MPICH's process manager answers one question only.
pub(crate) fn here() -> Result<Role> {
    // Lossy, so that a variable that is not UTF-8 is refused by its reader, not overlooked.
    let given = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    role(std::env::args_os().skip(1), &|name| match name {
        launcher::JOB => given(name).or_else(|| pmi::job(&given)),
        _ => given(name),
    })
}

/// The role that a command line (without the program's name) and an environment give.
pub(crate) fn role(args: impl Iterator<Item = OsString>, env: Env<'_>) -> Result<Role> {
    let env: Env<'_> = &|name| env(name).map(|text| text.trim().to_owned()).filter(|text| !text.is_empty());
    let words = Words::of(args)?;
    match env("STRADSAP_ROLE").as_deref() {
        Some("driver") => return Ok(Role::Driver(driver(env)?)),
        Some("worker") => return Ok(Role::Worker(worker(env, &words, joined("worker", env, &words)?)?)),
        Some("server") => {
            let join = joined("server", env, &words)?;
            return Ok(Role::Server(ServerRole { join, index: index(env)?, generation: generation(env)? }));
        }
        Some(text) => {
            return Err(Error::usage(format!("STRADSAP_ROLE={text}: driver, worker or server was expected")));
        }
        None => {}
    }
    if let Some(address) = &words.join {
        let join = Join::Address(checked("--join ", address, false)?);
        return Ok(Role::Worker(worker(env, &words, join)?));
    }
    if let Some(role) = indexed_job(env, &words)? {
        return Ok(role);
    }
    match launcher::launched(env)? {
        Some(launched) if launched.size > 1 => ranked(&launched, env, &words),
        _ if let Some(address) = env("STRADSAP_JOIN") => {
            Err(Error::usage(format!("STRADSAP_JOIN={address}: with it, STRADSAP_ROLE=worker was expected")))
        }
        _ => Ok(Role::Driver(driver(env)?)),
    }
}

/// What this module wants from a command line that it otherwise leaves alone.
#[derive(Default)]
struct Words {
    join: Option<String>,
    threads: Option<String>,
}

impl Words {
    fn of(args: impl Iterator<Item = OsString>) -> Result<Words> {
        let mut words = Words::default();
        let mut args = args.map(|arg| arg.to_string_lossy().into_owned()).take_while(|arg| arg != "--");
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (arg.as_str(), None),
            };
            let slot = match name {
                "--join" => &mut words.join,
                "--threads" => &mut words.threads,
                _ => continue,
            };
            *slot = value.or_else(|| args.next());
            if slot.is_none() && name == "--join" {
                return Err(Error::usage("--join: the driver's address was expected, as host:port"));
            }
        }
        Ok(words)
    }
}

fn driver(env: Env<'_>) -> Result<DriverRole> {
    let listen = env("STRADSAP_LISTEN").map(|text| checked("STRADSAP_LISTEN=", &text, true)).transpose()?;
    let mut fewest = None;
    let workers = match env("STRADSAP_WORKERS").as_deref() {
        Some(text) if text.contains("..") => {
            let (least, most) = range_of_workers("STRADSAP_WORKERS=", text)?;
            fewest = Some(least);
            most
        }
        Some("cores") if listen.is_some() => {
            let expected = "with STRADSAP_LISTEN, the number of workers that will join was expected";
            return Err(Error::usage(format!("STRADSAP_WORKERS=cores: {expected}")));
        }
        Some("cores") => one_per_core(),
        _ => number(env, "STRADSAP_WORKERS", 0, MAX_PROCESSES)?.unwrap_or(0),
    };
    if workers == 0 && listen.is_some() && env("STRADSAP_WORKERS").is_some() {
        return Err(Error::usage(
            "STRADSAP_WORKERS=0: with STRADSAP_LISTEN, it needs the number of workers that will join",
        ));
    }
    let servers = number(env, "STRADSAP_DDS_SERVERS", 0, MAX_PROCESSES)?.unwrap_or(0);
    Ok(DriverRole {
        workers: match workers {
            0 => Workers::None,
            _ if listen.is_some() => Workers::Join(workers),
            _ => Workers::Spawn(workers),
        },
        fewest,
        threads: number(env, "STRADSAP_THREADS", 1, MAX_THREADS)?,
        servers,
        homes_on_servers: are_homes(env, servers)?,
        listen,
        snapshot_every: number(env, "STRADSAP_SNAPSHOT_EVERY", 1, usize::MAX)?,
        attempts: number(env, "STRADSAP_ATTEMPTS", 0, usize::MAX)?,
        slow_body: number(env, "STRADSAP_SLOW_BODY", 0, u32::MAX as usize)?,
        driver_memory: driver_memory(env)?,
        trace: env("STRADSAP_TRACE").map(PathBuf::from),
        rendezvous: None,
    })
}

/// Mebibytes, or an amount with a unit.
fn driver_memory(env: Env<'_>) -> Result<Option<usize>> {
    const NAME: &str = "STRADSAP_DRIVER_MEMORY";
    let Some(text) = env(NAME).filter(|text| amounts::has_unit(text)) else {
        return Ok(number(env, NAME, 0, usize::MAX)?.map(|mebibytes| mebibytes.saturating_mul(1 << 20)));
    };
    let bytes = amounts::bytes(&text).and_then(|bytes| usize::try_from(bytes).ok());
    bytes.map(Some).ok_or_else(|| {
        Error::usage(format!("{NAME}={text}: a number of mebibytes, or one with its unit such as 64MiB, was expected"))
    })
}

/// Whether elements are with the servers between calls.
fn are_homes(env: Env<'_>, servers: usize) -> Result<bool> {
    match env("STRADSAP_HOME").as_deref() {
        None | Some("workers") => Ok(false),
        Some("servers") if servers > 0 => Ok(true),
        Some("servers") => Err(Error::usage("STRADSAP_HOME=servers: it needs servers, as in STRADSAP_DDS_SERVERS=2")),
        Some(text) => Err(Error::usage(format!("STRADSAP_HOME={text}: workers or servers was expected"))),
    }
}

/// With how many workers a job begins and how many may take part, as `2..8`.
fn range_of_workers(option: &str, text: &str) -> Result<(usize, usize)> {
    let numbers = text.split_once("..").and_then(|(least, most)| Some((least.parse().ok()?, most.parse().ok()?)));
    numbers.filter(|&(least, most)| 0 < least && least <= most && most <= MAX_PROCESSES).ok_or_else(|| {
        let range = format!("a range such as 2..8, from 1 to {MAX_PROCESSES}");
        Error::usage(format!("{option}{text}: {range} was expected"))
    })
}

fn worker(env: Env<'_>, words: &Words, join: Join) -> Result<WorkerRole> {
    let threads = match &words.threads {
        Some(text) => Some(parsed("--threads ", text, 1, MAX_THREADS)?),
        None => number(env, "STRADSAP_THREADS", 1, MAX_THREADS)?,
    };
    Ok(WorkerRole { join, threads, workers_here: 1, index: index(env)?, generation: generation(env)? })
}

/// Where a process with a configured role finds its driver.
fn joined(role: &str, env: Env<'_>, words: &Words) -> Result<Join> {
    match (&words.join, env("STRADSAP_JOIN")) {
        (Some(address), _) => checked("--join ", address, false).map(Join::Address),
        (None, Some(address)) => checked("STRADSAP_JOIN=", &address, false).map(Join::Address),
        (None, None) => {
            Err(Error::usage(format!("STRADSAP_ROLE={role} needs STRADSAP_JOIN=HOST:PORT, the address of the driver")))
        }
    }
}

/// A pod of a Kubernetes Indexed Job, where its manifest says so (deploy/kubernetes.yaml): pod 0 is the driver.
fn indexed_job(env: Env<'_>, words: &Words) -> Result<Option<Role>> {
    let Some(size) = number(env, "STRADSAP_SIZE", 1, MAX_PROCESSES + 1)? else { return Ok(None) };
    let Some(rank) = number(env, "JOB_COMPLETION_INDEX", 0, usize::MAX)? else {
        return Err(Error::usage("STRADSAP_SIZE is for Kubernetes Indexed Jobs, and JOB_COMPLETION_INDEX is not set"));
    };
    if rank >= size {
        return Err(Error::usage(format!("JOB_COMPLETION_INDEX={rank}: less than STRADSAP_SIZE={size} was expected")));
    }
    if size == 1 {
        return driver(env).map(|driver| Some(Role::Driver(driver)));
    }
    let Some(address) = env("STRADSAP_JOIN") else {
        return Err(Error::usage("STRADSAP_SIZE needs STRADSAP_JOIN=HOST:PORT, the address of pod 0"));
    };
    let address = checked("STRADSAP_JOIN=", &address, false)?;
    if rank > 0 {
        let mut role = worker(env, words, Join::Address(address))?;
        role.index = Some(number_of_worker(rank));
        return Ok(Some(Role::Worker(role)));
    }
    let (_, port) = address.rsplit_once(':').unwrap_or_default();
    let mut role = joined_driver(env, "Kubernetes", size)?;
    role.listen.get_or_insert_with(|| format!("0.0.0.0:{port}"));
    Ok(Some(Role::Driver(role)))
}

/// A rank of a launcher: 0 is the driver, the others are its workers.
fn ranked(launched: &launcher::Launched, env: Env<'_>, words: &Words) -> Result<Role> {
    if launched.size > MAX_PROCESSES + 1 {
        let (launcher, size) = (launched.launcher, launched.size);
        return Err(Error::usage(format!(
            "{launcher} started {size} ranks: at most {} are offered",
            MAX_PROCESSES + 1
        )));
    }
    let file = launched.rendezvous(env)?;
    if launched.rank > 0 {
        let mut role = worker(env, words, Join::Rendezvous(file))?;
        role.index = Some(number_of_worker(launched.rank));
        role.threads = role.threads.or(launched.cores.map(|cores| cores.min(MAX_THREADS)));
        // The driver, which mostly waits, gets no cores.
        role.workers_here = if launched.one_machine() { launched.size - 1 } else { launched.here };
        return Ok(Role::Worker(role));
    }
    let mut role = joined_driver(env, &launched.launcher.to_string(), launched.size)?;
    let anywhere = if launched.one_machine() { "127.0.0.1:0" } else { "0.0.0.0:0" };
    role.listen.get_or_insert_with(|| anywhere.to_owned());
    role.rendezvous = Some(file);
    Ok(Role::Driver(role))
}

fn joined_driver(env: Env<'_>, launcher: &str, size: usize) -> Result<DriverRole> {
    let role = driver(env)?;
    let joining = size - 1;
    match role.workers {
        Workers::Spawn(n) | Workers::Join(n) if n != joining => Err(Error::usage(format!(
            "STRADSAP_WORKERS={n}: {launcher} started {size} processes, a driver and {joining} workers; unset it"
        ))),
        _ => Ok(DriverRole { workers: Workers::Join(joining), fewest: None, ..role }),
    }
}

/// The number of the worker in a rank above 0, of at most `MAX_PROCESSES`.
fn number_of_worker(rank: usize) -> u32 {
    u32::try_from(rank - 1).unwrap_or(u32::MAX)
}

fn index(env: Env<'_>) -> Result<Option<u32>> {
    let index = number(env, "STRADSAP_INDEX", 0, u32::MAX as usize)?;
    Ok(index.and_then(|index| u32::try_from(index).ok()))
}

fn generation(env: Env<'_>) -> Result<u64> {
    let Some(text) = env("STRADSAP_GENERATION") else { return Ok(0) };
    text.parse().map_err(|_| Error::usage(format!("STRADSAP_GENERATION={text}: a number was expected")))
}

pub(super) fn number(env: Env<'_>, name: &str, least: usize, most: usize) -> Result<Option<usize>> {
    env(name).map(|text| parsed(&format!("{name}="), &text, least, most)).transpose()
}

fn parsed(option: &str, text: &str, least: usize, most: usize) -> Result<usize> {
    let given = text.parse().ok().filter(|given| (least..=most).contains(given));
    given.ok_or_else(|| {
        let range = if most == usize::MAX { format!("from {least}") } else { format!("from {least} to {most}") };
        Error::usage(format!("{option}{text}: a number {range} was expected"))
    })
}

/// An address as `host:port`; port 0 (any) is for listeners.
fn checked(option: &str, text: &str, listens: bool) -> Result<String> {
    let parts = text.rsplit_once(':').filter(|(host, _)| !host.is_empty() && (!host.contains(':') || bracketed(host)));
    let port = parts.and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        Some(0) if !listens => {
            Err(Error::usage(format!("{option}{text}: the port that the driver listens on was expected")))
        }
        Some(_) => Ok(text.to_owned()),
        None => Err(Error::usage(format!("{option}{text}: host:port was expected, such as 192.168.1.5:7350"))),
    }
}

fn bracketed(host: &str) -> bool {
    host.starts_with('[') && host.ends_with(']')
}

#[cfg(test)]
#[path = "roles_tests.rs"]
mod tests;
