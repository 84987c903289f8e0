//! Processes that don't belong together say so, and why.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use crate::jobs::job::{Job, Setting, joining};
use crate::jobs::processes::{Process, a_secret, free_port, this_program};

const SOON: Duration = Duration::from_secs(15);

/// A driver that waits for one worker; it is let in at last, so that the job ends well.
fn waiting_job() -> (Job, String, String) {
    let (at, secret) = (format!("127.0.0.1:{}", free_port("127.0.0.1")), a_secret(3));
    let job = Job::start(&Setting { workers: 1, epochs: 2, listen: Some((&at, &secret)), ..Setting::default() });
    (job, at, secret)
}

fn ends_well(job: Job, at: &str, secret: &str) {
    let mut worker = joining(at, secret, |_| {});
    let alone = Job::start(&Setting { epochs: 2, ..Setting::default() }).digest("a job in one process").0;
    assert_eq!(job.digest("a job whose right worker came last").0, alone);
    assert!(worker.wait("the right worker", SOON).success());
}

/// Its error, of one line.
fn refused(mut process: Process, code: i32) -> String {
    let status = process.wait("a process that is refused", SOON);
    let err = process.err();
    assert_eq!(status.code(), Some(code), "{err}");
    assert!(err.starts_with("error: ") && err.lines().count() == 1, "{err}");
    err
}

pub(crate) fn another_secret() {
    let (job, at, secret) = waiting_job();
    let err = refused(joining(&at, &a_secret(4), |_| {}), 1);
    assert!(err.contains("has another secret: is STRADSAP_SECRET or STRADSAP_SECRET_FILE the same"), "{err}");
    assert!(!err.contains(&secret) && !err.contains(&a_secret(4)), "{err}");
    ends_well(job, &at, &secret);
}

/// Both say how they differ.
pub(crate) fn another_build() {
    let (job, at, secret) = waiting_job();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other");
    let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    bytes.extend_from_slice(b"another build");
    std::fs::write(&other, bytes).unwrap();
    std::fs::set_permissions(&other, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new(&other);
    command.args(["--join", &at]).env("STRADSAP_SECRET", &secret).env("RUST_BACKTRACE", "0");
    let err = refused(Process::start(&mut command), 1);
    let ours = short_hash(&std::env::current_exe().unwrap());
    let theirs = short_hash(&other);
    assert!(err.contains(&format!("{ours} of version {0}, but this is {theirs} of version {0}", "0.1.0")), "{err}");
    ends_well(job, &at, &secret);
}

fn short_hash(path: &std::path::Path) -> String {
    blake3::hash(&std::fs::read(path).unwrap()).to_hex()[..16].to_string()
}

pub(crate) fn no_secret() {
    let mut command = this_program();
    command.args(["--join", "127.0.0.1:9"]);
    let err = refused(Process::start(&mut command), 2);
    assert!(err.contains("STRADSAP_SECRET"), "{err}");
}

pub(crate) fn exposed() {
    let mut command = this_program();
    command.env("STRADSAP_TEST_EPOCHS", "1").env("STRADSAP_WORKERS", "1").env("STRADSAP_LISTEN", "0.0.0.0:0");
    let err = refused(Process::start(&mut command), 1);
    assert!(err.contains("0.0.0.0:0: refusing to listen where other machines can connect without a secret"), "{err}");
}

pub(crate) fn readable_secret() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("secret");
    std::fs::write(&file, a_secret(5)).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o644)).unwrap();
    let mut command = this_program();
    command.args(["--join", "127.0.0.1:9"]).env("STRADSAP_SECRET_FILE", &file);
    let mut process = Process::start(&mut command);
    let status = process.wait("a process with a readable secret", SOON);
    let err = process.err();
    assert!(!status.success() && err.contains(file.to_str().unwrap()) && err.lines().count() == 1, "{err}");
}
