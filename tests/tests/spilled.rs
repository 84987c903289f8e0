//! Less memory than a program needs: its large DDSs lie in files, and nothing else changes.

#![cfg(target_os = "linux")]

use stradsap::prelude::*;

use crate::common::{below, ratings, session};

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

/// What a sequence of loops of all strategies over the same DDSs comes to.
fn trained(session: &Session) -> stradsap::Result<Vec<String>> {
    let (users, items, rank) = (4_000, 3_000, 64);
    let data = DVector::from_vec(session, ratings(150_000, users, items))?;
    let mut p: DMatrix<f32> =
        DMatrix::from_fn(session, users, rank, |i, k| (below((i * rank + k) as u64, 100)) as f32)?;
    let mut q: DMatrix<f32> =
        DMatrix::from_fn(session, items, rank, |i, k| (below((i + k * items) as u64, 90)) as f32)?;
    let mut line = DVector::from_fn(session, 400_000, |i| below(i as u64, 1000) as f64)?;
    let mut names = DVector::from_fn(session, 50_000, |i| format!("name {i}"))?;
    let mut seen = Vec::new();
    for round in 0..3u32 {
        let rate = 0.0001 / f64::from(round + 1);
        let loss = session.sum(0.0f64);
        let grid = async_parallel_for!(0..data.len(), [rate, &data, &mut p, &mut q, &loss], |n| {
            let r = data[n];
            let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
            let e = f64::from(r.stars) - f64::from(pu.iter().zip(&*qi).map(|(a, b)| a * b).sum::<f32>());
            pu.iter_mut().zip(&mut *qi).for_each(|(a, b)| (*a, *b) = (*a + (rate * e) as f32 * *b, *b * 0.999));
            loss.add(e);
        })?;
        let steps = async_parallel_for!(1..line.len(), [&mut line], |i| {
            line[i] = 0.5 * line[i] + 1.0;
        })?;
        let serial = async_parallel_for!(
            1..line.len(),
            [&mut line],
            |i| {
                line[i] += 0.25 * line[i - 1];
            },
            order = Preserve
        )?;
        async_parallel_for!(0..names.len(), [&mut names], |i| {
            names[i].push('.');
        })?;
        let failed = async_parallel_for!(0..data.len(), [&data, &mut p], |n| {
            p[data[n].user][0] += 1.0;
            if n == 140_000 {
                return Err(std::io::Error::other("far on"));
            }
            Ok(())
        });
        seen.push(format!("{:?} {:?} {:?}", grid.strategy(), steps.strategy(), serial.strategy()));
        seen.push(format!("{:x} {}", loss.get().to_bits(), failed.unwrap_err().to_string().ends_with("far on")));
        seen.extend([p.digest()?, q.digest()?, line.digest()?, names.digest()?]);
    }
    Ok(seen)
}

#[test]
fn loops_leave_the_same_bits() {
    let _turn = turn();
    let expected = trained(&session(2)).unwrap();
    let folder = folder();
    for threads in [1, 2, 4] {
        let session = session(threads);
        session.set_memory(LITTLE, folder.path()).unwrap();
        assert_eq!(trained(&session).unwrap(), expected, "{threads} threads");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "files without names");
}

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
