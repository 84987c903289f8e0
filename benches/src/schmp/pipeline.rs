//! Rounds in flight (figure 12): the Lasso on two worker processes with pipelines of depth 1 to 4, behind slow links and
//! without them.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use super::curve::Curve;
use super::link::Link;
use super::programs::{Held, Programs, Run};
use super::regression::{LASSO, Set, solved};
use super::study::{Goal, Study};

const DEPTHS: [u32; 4] = [1, 2, 3, 4];
const WORKERS: usize = 2;
/// How long a worker may take until it listens.
const PATIENCE: Duration = Duration::from_secs(20);

/// Depths 1 to 4. With a delay, workers join through links with it, and are reached through others; else the program starts
/// them by itself.
///
/// # Errors
/// A program fails, or where delays aren't possible.
pub fn study(programs: &Programs, delay: Option<Duration>, quick: bool) -> Result<Study> {
    let set = Set { name: "reuters".to_owned(), path: None };
    let (least, columns) = solved(programs, LASSO, &set)?;
    let (parts, passes) = (8, if quick { 2 } else { 6 });
    let updates = (columns as u32 / parts).max(1);
    let where_ = delay.map_or_else(|| "no-delay".to_owned(), |delay| format!("{:?}", delay));
    let mut curves = Vec::new();
    for depth in DEPTHS {
        let options = format!(
            "--schedule priority+dependency --concurrent 16 --updates-per-epoch {updates} --parts {WORKERS} \
             --workers {WORKERS} --threads 1 --tolerance 1e-6 --pipeline {depth}"
        );
        let label = format!("pipeline-{where_}-{depth}");
        let ran = match delay {
            None => programs.run(&label, &Run::new(LASSO.program, passes * parts, &options))?,
            Some(delay) => {
                let at = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()?));
                let run = Run::new(LASSO.program, passes * parts, &format!("{options} --listen {at}"));
                programs.run_with(&label, &run, |driver| behind_links(programs, driver, at, delay))?
            }
        };
        let updated = |epoch: &super::programs::Epoch| epoch.measure("updates").unwrap_or(f64::NAN);
        curves.push(Curve::of(format!("depth {depth}"), &ran, updated, |epoch| epoch.objective));
    }
    let slowed = delay.map_or_else(|| "links as they are".to_owned(), |delay| format!("links slowed by {delay:?}"));
    Ok(Study {
        name: format!("pipeline-{where_}"),
        title: format!("Lasso on {}, {WORKERS} worker processes, {slowed}", set.name),
        samples: "updates of a coefficient",
        objective: "objective",
        goal: Goal::Least { least, part: LASSO.part },
        curves,
        pictures: Vec::new(),
    })
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").context("no free port")?.local_addr()?.port())
}

/// 64 hexadecimal digits that nobody else knows.
fn secret() -> Result<String> {
    let mut bytes = [0u8; 32];
    getrandom::fill(&mut bytes).context("the system gives no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The delays of what leads to workers. They tell the driver their results at an address that it gives them itself, past all
/// links; so the way to a worker has the delay of both ways. A round takes as long as if each had its own.
pub fn delays(delay: Duration) -> [Duration; 2] {
    [2 * delay, Duration::ZERO]
}

/// Runs a driver that listens, and its workers, so that a round trip to a worker takes twice the delay.
fn behind_links(programs: &Programs, mut driver: Command, at: SocketAddr, delay: Duration) -> Result<Output> {
    let secret = secret()?;
    let (to_driver, entry) = Link::new([delay; 2])?;
    to_driver.leads_to(at);
    driver.env("STRADSAP_SECRET", &secret).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let driver = Held(driver.spawn().context("an example can't be started")?);
    // What joins finds the driver only when it listens; a connection that is refused at the far end would count as lost.
    wait_for("the driver", || listens(&driver.0, at.port()))?;
    let mut workers = Vec::new();
    for _ in 0..WORKERS {
        let (to_worker, its_entry) = Link::new(delays(delay))?;
        let mut worker = programs.command(LASSO.program)?;
        worker.env_remove("STRADSAP_ROLE").env("STRADSAP_SECRET", &secret);
        worker.env("STRADSAP_BIND", "127.0.0.1").env("STRADSAP_ADVERTISE", its_entry.to_string());
        worker.args(["--threads", "1", "--join"]).arg(entry.to_string());
        worker.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let worker = Held(worker.spawn().context("a worker can't be started")?);
        let port = wait_for("a worker", || Ok(ports(worker.0.id())?.first().copied()))?;
        to_worker.leads_to(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        workers.push(worker);
    }
    driver.output()
}

fn listens(driver: &Child, port: u16) -> Result<Option<()>> {
    Ok(ports(driver.id())?.contains(&port).then_some(()))
}

fn wait_for<T>(who: &str, mut look: impl FnMut() -> Result<Option<T>>) -> Result<T> {
    let start = Instant::now();
    loop {
        if let Some(found) = look()? {
            return Ok(found);
        }
        if start.elapsed() > PATIENCE {
            bail!("{who} doesn't listen within {} s", PATIENCE.as_secs());
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether this system tells where a process listens.
pub fn possible() -> bool {
    ports(std::process::id()).is_ok()
}

/// The ports that a process listens at, as Linux tells in /proc.
fn ports(of: u32) -> Result<Vec<u16>> {
    let folder = format!("/proc/{of}/fd");
    let mut sockets = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("{folder} can't be read"))? {
        // It may be closed meanwhile.
        let Ok(target) = std::fs::read_link(entry?.path()) else { continue };
        let target = target.to_string_lossy();
        sockets.extend(target.strip_prefix("socket:[").and_then(|rest| rest.strip_suffix(']')).map(str::to_owned));
    }
    let path = format!("/proc/{of}/net/tcp");
    let table = std::fs::read_to_string(&path).with_context(|| format!("{path} can't be read"))?;
    let listening = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (*state == "0A" && sockets.iter().any(|socket| socket == inode)).then_some(port)
    });
    Ok(listening.collect())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn where_a_process_listens_is_found() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert!(possible() && ports(std::process::id()).expect("/proc").contains(&port));
    }

    #[test]
    fn secrets_are_64_digits_and_differ() {
        let (one, other) = (secret().expect("a secret"), secret().expect("a secret"));
        assert!(one.len() == 64 && one.bytes().all(|byte| byte.is_ascii_hexdigit()) && one != other);
    }
}
