//! The name that MPICH's process manager gave to a run: it is in no variable, so it is asked for over the socket that
//! the manager opened for each rank (PMI 1, lines of text).
//!
//! # Why this is sound
//! The only unsafe call takes ownership of the descriptor in `PMI_FD`, once in a process. It belongs to a process that
//! the manager started for that very use; here it is used only if it is a socket, and only if no MPI library can have
//! taken it before: roles are found before a user's `main` runs.
#![allow(unsafe_code)]

use std::io::{BufRead, BufReader, Write};
use std::os::fd::FromRawFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use crate::launch::roles::Env;

const PATIENCE: Duration = Duration::from_secs(10);

/// The name of this run, if a Hydra manages it and says so. Later calls give nothing.
pub(super) fn job(env: Env<'_>) -> Option<String> {
    static ASKED: AtomicBool = AtomicBool::new(false);
    env("MPI_LOCALNRANKS")?;
    let fd: i32 = env("PMI_FD")?.trim().parse().ok().filter(|&fd| fd > 2)?;
    let is_socket = std::fs::metadata(format!("/proc/self/fd/{fd}")).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket || ASKED.swap(true, Relaxed) {
        return None;
    }
    // SAFETY: an open socket, given to this process for this conversation, and taken once.
    let manager = unsafe { UnixStream::from_raw_fd(fd) };
    manager.set_read_timeout(Some(PATIENCE)).ok()?;
    manager.set_write_timeout(Some(PATIENCE)).ok()?;
    converse(&manager)
}

/// A rank that spoke and leaves without a word counts as crashed, and the manager kills the others: hence the first line
/// and the last.
fn converse(manager: &UnixStream) -> Option<String> {
    let mut lines = BufReader::new(manager);
    let mut ask = |question: &str, answer: &str| {
        let mut manager = manager;
        manager.write_all(question.as_bytes()).ok()?;
        let mut line = String::new();
        lines.read_line(&mut line).ok()?;
        line.strip_prefix(answer).map(|rest| rest.trim().to_owned())
    };
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init ")?;
    let name = ask("cmd=get_my_kvsname\n", "cmd=my_kvsname kvsname=");
    ask("cmd=finalize\n", "cmd=finalize_ack")?;
    name.and_then(|name| name.split_whitespace().next().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manager(replies: &'static [(&'static str, &'static str)]) -> UnixStream {
        let (ours, theirs) = UnixStream::pair().unwrap();
        std::thread::spawn(move || {
            let mut lines = BufReader::new(theirs.try_clone().unwrap()).lines();
            for (question, reply) in replies {
                assert_eq!(lines.next().unwrap().unwrap(), *question);
                (&theirs).write_all(reply.as_bytes()).unwrap();
            }
        });
        ours
    }

    #[test]
    fn the_manager_names_the_run() {
        let ours = manager(&[
            ("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"),
            ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=kvs_5100_0_586840621_vm\n"),
            ("cmd=finalize", "cmd=finalize_ack\n"),
        ]);
        assert_eq!(converse(&ours).as_deref(), Some("kvs_5100_0_586840621_vm"));
    }

    #[test]
    fn a_manager_that_says_something_else_names_nothing() {
        let ours = manager(&[("cmd=init pmi_version=1 pmi_subversion=1", "cmd=what\n")]);
        assert_eq!(converse(&ours), None);
        let ours = manager(&[("cmd=init pmi_version=1 pmi_subversion=1", "")]);
        assert_eq!(converse(&ours), None);
    }
}
