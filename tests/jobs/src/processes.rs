//! Other processes: starting them with what they write kept, looking at them in `/proc`, and sending them signals.

use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::runner::GROUP;

/// Waits until something is there.
pub fn wait_for<T>(what: &str, limit: Duration, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(since.elapsed() < limit, "{what}: not within {} s", limit.as_secs_f64());
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process whose output is kept; killed when this is dropped.
pub struct Process {
    child: Child,
    out: Arc<Mutex<String>>,
    err: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    status: Option<ExitStatus>,
}

fn keep(mut from: impl Read + Send + 'static) -> (Arc<Mutex<String>>, JoinHandle<()>) {
    let kept = Arc::new(Mutex::new(String::new()));
    let its = Arc::clone(&kept);
    let reader = std::thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(n @ 1..) = from.read(&mut bytes) {
            its.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..n]));
        }
    });
    (kept, reader)
}

/// This executable once more, with nothing of a job in its environment.
pub fn this_program() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    for (name, _) in std::env::vars_os() {
        let ours = name.to_str().is_some_and(|name| name.starts_with("STRADSAP_"));
        if ours && name != "STRADSAP_LOG" {
            command.env_remove(name);
        }
    }
    command
}

impl Process {
    pub fn start(command: &mut Command) -> Process {
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let (out, reading_out) = keep(child.stdout.take().unwrap());
        let (err, reading_err) = keep(child.stderr.take().unwrap());
        Process { child, out, err, readers: vec![reading_out, reading_err], status: None }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written so far.
    pub fn out(&self) -> String {
        self.out.lock().unwrap().clone()
    }

    pub fn err(&self) -> String {
        self.err.lock().unwrap().clone()
    }

    pub fn ended(&mut self) -> Option<ExitStatus> {
        if self.status.is_none() {
            self.status = self.child.try_wait().unwrap();
        }
        self.status
    }

    /// Waits for its end, and for all that it wrote.
    pub fn wait(&mut self, what: &str, limit: Duration) -> ExitStatus {
        let since = Instant::now();
        while self.ended().is_none() {
            if since.elapsed() > limit {
                let (out, err) = (self.out(), self.err());
                panic!("{what}: no end within {} s\n--- stdout\n{out}\n--- stderr\n{err}", limit.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(3));
        }
        // Its children have the other ends of the pipes as well: they must end, but not at once.
        for reader in self.readers.drain(..) {
            wait_for("the end of a process's output", Duration::from_secs(8), || reader.is_finished().then_some(()));
        }
        self.status.unwrap()
    }

    /// Waits until it has written a line that begins so, and gives the rest of that line.
    pub fn line(&mut self, begins: &str, limit: Duration) -> String {
        let since = Instant::now();
        loop {
            let ended = self.ended();
            let all_read = |readers: &[JoinHandle<()>]| readers.iter().all(JoinHandle::is_finished);
            if ended.is_some() && !all_read(&self.readers) && since.elapsed() < limit {
                // What it wrote last is still to be read, unless children of its own have the other ends of the pipes.
                let until = Instant::now() + Duration::from_secs(2);
                while !all_read(&self.readers) && Instant::now() < until {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
            let out = self.out();
            let whole = &out[..out.rfind('\n').map_or(0, |end| end + 1)];
            if let Some(rest) = whole.lines().find_map(|line| line.strip_prefix(begins)) {
                return rest.to_string();
            }
            if ended.is_some() || since.elapsed() > limit {
                let err = self.err();
                panic!("no line {begins:?} (end: {ended:?})\n--- stdout\n{out}\n--- stderr\n{err}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    pub fn signal(&self, signal: &str) {
        signal_to(self.pid(), signal);
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            let _gone_already = self.child.kill();
            let _status = self.child.wait();
        }
    }
}

/// Sends a signal such as `KILL`, `STOP` or `CONT`.
pub fn signal_to(pid: u32, signal: &str) {
    let number = match signal {
        "KILL" => "9",
        "CONT" => "18",
        "STOP" => "19",
        other => other,
    };
    let status = Command::new("sh").arg("-c").arg(format!("kill -{number} {pid}")).stderr(Stdio::null()).status();
    assert!(status.unwrap().success(), "SIG{signal} to {pid}: it is gone");
}

fn field(path: PathBuf, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(|rest| rest.trim().to_string())
}

fn status_of(pid: u32, name: &str) -> Option<String> {
    field(Path::new("/proc").join(pid.to_string()).join("status"), name)
}

/// Peak and present memory of a process, in KiB.
pub fn memory(pid: u32) -> Option<(u64, u64)> {
    let kib = |name| status_of(pid, name)?.trim_end_matches("kB").trim().parse().ok();
    Some((kib("VmHWM:")?, kib("VmRSS:")?))
}

/// KiB of it that are pages of files, such as the program's own, which all processes of a program share.
pub fn memory_of_files(pid: u32) -> Option<u64> {
    status_of(pid, "RssFile:")?.trim_end_matches("kB").trim().parse().ok()
}

/// Whether a process runs: it exists, and is not only waiting for its parent to hear of its end.
pub fn runs(pid: u32) -> bool {
    status_of(pid, "State:").is_some_and(|state| !state.starts_with('Z') && !state.starts_with('X'))
}

pub fn pids() -> BTreeSet<u32> {
    let entries = std::fs::read_dir("/proc").unwrap();
    entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect()
}

/// The running children of a process.
pub fn children(of: u32) -> BTreeSet<u32> {
    let parent = of.to_string();
    pids().into_iter().filter(|&pid| runs(pid) && status_of(pid, "PPid:").as_ref() == Some(&parent)).collect()
}

/// A variable of the environment that a process was started with.
pub fn variable(pid: u32, name: &str) -> Option<String> {
    let bytes = std::fs::read(Path::new("/proc").join(pid.to_string()).join("environ")).ok()?;
    let prefix = format!("{name}=");
    bytes
        .split(|&byte| byte == 0)
        .find_map(|one| String::from_utf8_lossy(one).strip_prefix(&prefix).map(str::to_string))
}

/// The running children of a process that were started in a role.
pub fn children_as(of: u32, role: &str) -> Vec<u32> {
    children(of).into_iter().filter(|&pid| variable(pid, "STRADSAP_ROLE").as_deref() == Some(role)).collect()
}

/// The TCP ports that a process listens on.
pub fn ports(of: u32) -> Vec<u16> {
    let sockets: BTreeSet<String> = std::fs::read_dir(format!("/proc/{of}/fd"))
        .map(|entries| entries.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect::<Vec<_>>())
        .unwrap_or_default()
        .into_iter()
        .filter_map(|target| Some(target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.to_string()))
        .collect();
    let table = std::fs::read_to_string(format!("/proc/{of}/net/tcp")).unwrap_or_default();
    let listening = table.lines().skip(1).filter_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        let port = u16::from_str_radix(local.rsplit_once(':')?.1, 16).ok()?;
        (*state == "0A" && sockets.contains(*inode)).then_some(port)
    });
    listening.collect()
}

/// All running processes of an executable, but for this one and those of other groups of tests.
pub fn others_of(executable: &Path) -> Vec<u32> {
    let (own, group) = (std::process::id(), std::env::var(GROUP).ok());
    let same = |pid: u32| {
        std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == executable)
            && variable(pid, GROUP) == group
    };
    pids().into_iter().filter(|&pid| pid != own && same(pid) && runs(pid)).collect()
}

/// Asserts that nothing of this executable runs any more, or will not after so long.
pub fn assert_alone(limit: Duration) {
    let own = std::env::current_exe().unwrap();
    let since = Instant::now();
    loop {
        let left = others_of(&own);
        if left.is_empty() {
            return;
        }
        assert!(since.elapsed() < limit, "processes {left:?} are left after {} s", limit.as_secs_f64());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A secret for a job.
pub fn a_secret(of: u64) -> String {
    (0..32u64).map(|k| format!("{:02x}", (of.wrapping_mul(31).wrapping_add(k * 7) % 251) as u8)).collect()
}

/// A TCP port that is free now.
pub fn free_port(host: &str) -> u16 {
    std::net::TcpListener::bind((host, 0)).unwrap().local_addr().unwrap().port()
}
