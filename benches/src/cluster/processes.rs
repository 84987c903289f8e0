//! The processes that this one started, as Linux shows them in /proc.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The workers among this process's children.
///
/// # Errors
/// /proc can't be read.
pub fn workers() -> Result<BTreeSet<u32>> {
    let me = std::process::id();
    let mut workers = BTreeSet::new();
    for entry in fs::read_dir("/proc").context("/proc can't be read")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        if parent_of(pid) == Some(me) && is_worker(pid) {
            workers.insert(pid);
        }
    }
    Ok(workers)
}

/// None for a process that has ended meanwhile.
fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name is in parentheses and may hold anything, spaces and parentheses as well.
    let (_, after) = stat.rsplit_once(')')?;
    after.split_whitespace().nth(1)?.parse().ok()
}

fn is_worker(pid: u32) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|variable| variable == b"STRADSAP_ROLE=worker")
}

/// The most memory that a process has had in use at any time, in bytes.
///
/// # Errors
/// The process has ended, or its peak is not told.
pub fn peak(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("{path} can't be read"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kilobytes.map(|n| n * 1024).with_context(|| format!("{path}: a line `VmHWM: N kB` was expected"))
}

/// Counts this process's own peak from here on.
///
/// # Errors
/// The system has no such thing.
pub fn forget_peak() -> Result<()> {
    fs::write("/proc/self/clear_refs", "5").context("/proc/self/clear_refs can't be written")
}

/// Ends a process at once, with SIGKILL.
///
/// # Errors
/// It has ended already.
pub fn kill(pid: u32) -> Result<()> {
    // The shell's own, since not every machine has a program for it.
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("kill -KILL {pid}")]).stderr(Stdio::null());
    let status = shell.status().context("sh can't be started")?;
    if !status.success() {
        bail!("process {pid} can't be killed");
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent_a_role_and_a_peak() {
        let mut child = Command::new("sleep").arg("60").env("STRADSAP_ROLE", "worker").spawn().expect("sleep");
        while !is_worker(child.id()) {
            std::thread::yield_now(); // it is still being started
        }
        assert!(workers().expect("/proc").contains(&child.id()));
        assert!(peak(child.id()).expect("a peak") > 0);
        kill(child.id()).expect("alive");
        assert!(!child.wait().expect("its end").success());
        assert!(kill(child.id()).is_err());
    }
}
