//! A limit of memory in one process: what lies in files, for how long, and which limits are refused. (What loops leave under one:
//! `spilled`.)

#![cfg(target_os = "linux")]

use stradsap::prelude::*;

use crate::common::session;

/// A folder on the disk that the tests are built on: that of temporary files may lie in memory.
fn folder() -> tempfile::TempDir {
    let test = std::env::current_exe().unwrap();
    tempfile::tempdir_in(test.parent().unwrap()).unwrap()
}

/// The limit is the whole process's.
fn turn() -> std::sync::MutexGuard<'static, ()> {
    crate::TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// So little that all that can leave memory does, again and again.
const LITTLE: u64 = 1 << 20;

#[test]
fn operators_and_changes_find_what_has_left() {
    let _turn = turn();
    let session = session(2);
    let folder = folder();
    session.set_memory(LITTLE, folder.path()).unwrap();
    let mut x = DVector::from_fn(&session, 1_000_000, |i| i as u64).unwrap();
    x.set(999_999, 7).unwrap();
    let odd = x.filter(|&n| n % 2 == 1).collect().unwrap();
    let sorted = odd.sort_by_key(|&n| std::cmp::Reverse(n)).unwrap();
    let mut expected: Vec<u64> = (0..999_999).filter(|n| n % 2 == 1).chain([7]).collect();
    expected.sort_unstable_by_key(|&n| std::cmp::Reverse(n));
    assert_eq!(sorted.to_vec().unwrap(), expected);
}

#[test]
fn what_lies_in_files_ends_with_its_owners() {
    let _turn = turn();
    let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    let folder = folder();
    let kept = {
        let session = session(1);
        session.set_memory(LITTLE, folder.path()).unwrap();
        let before = open();
        let kept = DVector::from_fn(&session, 1_000_000, |i| i as u64).unwrap();
        for _ in 0..20 {
            let other = DVector::from_fn(&session, 1_000_000, |i| 2 * i as u64).unwrap();
            assert_eq!(other.get(999_999).unwrap(), 1_999_998);
        }
        assert!(open() <= before + 4, "{} descriptors, {before} before", open());
        kept
    };
    assert_eq!(kept.get(123_456).unwrap(), 123_456, "it outlives its session");
}

#[test]
fn what_cannot_be_is_refused() {
    let _turn = turn();
    let session = session(1);
    let folder = folder();
    let refused = |limit, folder: &std::path::Path| session.set_memory(limit, folder).unwrap_err().to_string();
    assert_eq!(refused(1000, folder.path()), "a limit of 1000 bytes of memory: at least 1048576 were expected");
    let absent = folder.path().join("absent");
    assert!(refused(LITTLE, &absent).starts_with(&format!("{}: ", absent.display())));
    if let Ok(shm) = std::path::Path::new("/dev/shm").canonicalize() {
        assert!(refused(LITTLE, &shm).ends_with("it lies in memory itself (tmpfs): a folder on a disk was expected"));
    }
}
