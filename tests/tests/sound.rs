//! Programs of safe code around what a view, a block or a copy of a row might outlive. Each is compared with the plain loop.

use stradsap::prelude::*;

use crate::seen::{Scenario, Seen};

type Result = stradsap::Result<()>;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    scratch::reads_what_all_read,
    scratch::writes_what_all_write,
    scratch::writes_in_step,
    scratch::reads_in_step,
    homes::numbers_in_step_twice,
    homes::texts_in_step_twice,
    hot::threads_of_a_body,
];

const ROWS: [usize; 2] = if cfg!(miri) { [17, 13] } else { [997, 991] };

fn edge(n: usize) -> [u32; 2] {
    [(n * 7919 % ROWS[0]) as u32, (n * 104_729 % ROWS[1]) as u32]
}

/// Loops whose `scratch` touches elements.
mod scratch {
    use super::*;

    /// Less than one slice of the recording.
    const N: usize = if cfg!(miri) { 100 } else { 12_000 };
    const EPOCHS: usize = if cfg!(miri) { 2 } else { 20 };

    /// What `scratch` may see without being in an iteration: values, elements by their index, relaxed state.
    pub(crate) fn reads_what_all_read(session: &Session, seen: &mut Seen) -> Result {
        let edges = DVector::from_fn(session, N, edge)?;
        let weights = DVector::from_fn(session, ROWS[0], |i| i as u64)?;
        let mut q = DVector::from_fn(session, ROWS[1], |_| 0u64)?;
        let (by, moved) = (3u64, session.relaxed(0u64));
        for epoch in 1..=EPOCHS as u64 {
            async_parallel_for!(
                0..N,
                [by, &edges, &weights, &mut q, &moved],
                |n, sum| {
                    let [a, b] = edges[n];
                    q[b] += *sum * weights[a];
                    moved.add(1);
                },
                scratch = by * (weights[5usize] + weights[16usize]) + moved.get() / (1 << 40)
            )?;
            let mut plain = vec![0u64; ROWS[1]];
            for [a, b] in (0..N).map(edge) {
                plain[b as usize] += epoch * 3 * 21 * u64::from(a);
            }
            assert_eq!(q.to_vec()?, plain);
        }
        seen.digest("q", &q)
    }

    /// An element of all iterations, which every block changes once more.
    pub(crate) fn writes_what_all_write(session: &Session, seen: &mut Seen) -> Result {
        let edges = DVector::from_fn(session, N, edge)?;
        let mut p = DVector::from_fn(session, ROWS[0], |_| 0u64)?;
        let mut q = DVector::from_fn(session, ROWS[1], |_| 0u64)?;
        let mut plain = vec![0u64; ROWS[0]];
        for _ in 0..EPOCHS {
            let report = async_parallel_for!(
                0..N,
                [&edges, &mut p, &mut q],
                |n, one| {
                    let [a, b] = edges[n];
                    p[a] += *one;
                    q[b] += *one;
                },
                scratch = {
                    p[0usize] += 1_000_000;
                    1u64
                }
            )?;
            (0..N).for_each(|n| plain[edge(n)[0] as usize] += 1);
            plain[0] += 1_000_000 * report.blocks() as u64;
            assert_eq!(p.to_vec()?, plain, "{report}");
        }
        assert_eq!(q.iter()?.sum::<u64>(), (N * EPOCHS) as u64);
        seen.digest("q", &q)
    }

    const OWN: &str = "the scratch of some block wrote this on the heap, too";

    fn text(n: usize, length: usize) -> String {
        format!("iteration {n} wrote a text that lives on the heap: {length:04}")
    }

    /// An element that belongs to one iteration, and that every block writes: its end is a whole text of one or the other.
    pub(crate) fn writes_in_step(session: &Session, seen: &mut Seen) -> Result {
        let edges = DVector::from_fn(session, N, edge)?;
        let mut q = DVector::from_fn(session, ROWS[1], |_| 0u64)?;
        let mut z = DVector::from_fn(session, N, |n| text(n, 0))?;
        let (mut plain_q, mut plain_z) = (q.to_vec()?, z.to_vec()?);
        for _ in 0..EPOCHS {
            let ended = async_parallel_for!(
                0..N,
                [&edges, &mut q, &mut z],
                |n, length| {
                    let [_, b] = edges[n];
                    q[b] += *length as u64;
                    z[n] = text(n, *length);
                },
                scratch = {
                    z[0usize] = String::from(OWN);
                    z[0usize].len()
                }
            );
            let found = z.to_vec()?;
            if ended.is_ok() {
                for n in 0..N {
                    plain_q[edge(n)[1] as usize] += OWN.len() as u64;
                    plain_z[n] = text(n, OWN.len());
                }
                assert!(found[0] == plain_z[0] || found[0] == OWN, "{:?}", found[0]);
                plain_z[0].clone_from(&found[0]);
            }
            assert!(found == plain_z && q.to_vec()? == plain_q, "{ended:?}");
        }
        seen.digest("q", &q)
    }

    /// As before, only read: each block has seen what was there before its iteration or after.
    pub(crate) fn reads_in_step(session: &Session, seen: &mut Seen) -> Result {
        let edges = DVector::from_fn(session, N, edge)?;
        let mut q = DVector::from_fn(session, ROWS[1], |_| 0u64)?;
        let mut z = DVector::from_fn(session, N, |n| text(n, 0).repeat(2))?;
        let before = [text(7, 0).len() * 2, text(7, 0).len()];
        let mut plain = q.to_vec()?;
        for epoch in 0..EPOCHS {
            let unchanged = z.to_vec()?;
            let ended = async_parallel_for!(
                0..N,
                [&edges, &mut q, &mut z],
                |n, length| {
                    let [_, b] = edges[n];
                    q[b] += *length as u64;
                    z[n] = text(n, *length);
                },
                scratch = z[7usize].len()
            );
            let found = z.to_vec()?;
            if ended.is_ok() {
                for (n, found) in found.iter().enumerate() {
                    let may_see = if epoch == 0 { &before[..] } else { &before[1..] };
                    let length = may_see.iter().find(|&&length| *found == text(n, length));
                    plain[edge(n)[1] as usize] += *length.unwrap_or_else(|| panic!("{found}")) as u64;
                }
            } else {
                assert!(found == unchanged);
            }
            assert_eq!(q.to_vec()?, plain, "{ended:?}");
        }
        seen.record("edges", edges.digest()?);
        Ok(())
    }
}

/// DVectors that one loop writes in step, and that others and the driver read: their elements have been elsewhere meanwhile.
mod homes {
    use super::*;

    pub(crate) fn numbers_in_step_twice(session: &Session, seen: &mut Seen) -> Result {
        for n in [12_000, 400_000] {
            let n = if cfg!(miri) { 500 } else { n };
            let edges = DVector::from_fn(session, n, edge)?;
            let mut p = DVector::from_fn(session, ROWS[0], |_| 0u64)?;
            let mut q = DVector::from_fn(session, ROWS[1], |_| 0u64)?;
            let mut z = DVector::from_fn(session, n, |_| 0u32)?;
            let mut counts = DVector::from_fn(session, 1000, |_| 0u64)?;
            let [mut plain_p, mut plain_q, mut plain_counts] = [p.to_vec()?, q.to_vec()?, counts.to_vec()?];
            let mut plain_z = vec![0u32; n];
            for round in 0..3 {
                let report = async_parallel_for!(0..n, [&edges, &mut p, &mut q, &mut z], |n| {
                    let [a, b] = edges[n];
                    p[a] += 1;
                    q[b] += 1;
                    z[n] = ((p[a] + q[b]) % 1000) as u32;
                })?;
                for n in report.serial_order() {
                    let [a, b] = edge(n).map(|k| k as usize);
                    plain_p[a] += 1;
                    plain_q[b] += 1;
                    plain_z[n] = ((plain_p[a] + plain_q[b]) % 1000) as u32;
                }
                seen.report("first", &report);
                // In the second round the driver has had it in between.
                if round == 1 {
                    assert!(z.to_vec()? == plain_z);
                    z.set(n / 2, 999)?;
                    plain_z[n / 2] = 999;
                }
                let report = async_parallel_for!(0..n, [&z, &mut counts], |n| counts[z[n]] += 1)?;
                plain_z.iter().for_each(|&k| plain_counts[k as usize] += 1);
                seen.report("second", &report);
                assert_eq!(counts.to_vec()?, plain_counts);
                let report = async_parallel_for!(0..n, [n, &z, &mut counts], |i| counts[z[(i * 7 + 3) % n]] += 2)?;
                (0..n).for_each(|i| plain_counts[plain_z[(i * 7 + 3) % n] as usize] += 2);
                seen.report("third", &report);
                assert_eq!(counts.to_vec()?, plain_counts);
            }
            assert!((p.to_vec()?, q.to_vec()?, z.to_vec()?) == (plain_p, plain_q, plain_z));
        }
        Ok(())
    }

    pub(crate) fn texts_in_step_twice(session: &Session, seen: &mut Seen) -> Result {
        let n = if cfg!(miri) { 300 } else { 40_000 };
        let edges = DVector::from_fn(session, n, edge)?;
        let mut p = DVector::from_fn(session, ROWS[0], |_| 0u64)?;
        let mut z = DVector::from_fn(session, n, |n| vec![format!("the first text of element {n}")])?;
        let mut lengths = DVector::from_fn(session, 100, |_| 0u64)?;
        let (mut plain_p, mut plain_z, mut plain_lengths) = (p.to_vec()?, z.to_vec()?, lengths.to_vec()?);
        for _ in 0..3 {
            let report = async_parallel_for!(0..n, [&edges, &mut p, &mut z], |n| {
                let [a, _] = edges[n];
                p[a] += 1;
                z[n].insert(0, format!("text {} of row {a}", p[a]));
                z[n].truncate(2);
            })?;
            for n in report.serial_order() {
                let a = edge(n)[0] as usize;
                plain_p[a] += 1;
                plain_z[n].insert(0, format!("text {} of row {a}", plain_p[a]));
                plain_z[n].truncate(2);
            }
            seen.report("first", &report);
            let report = async_parallel_for!(0..n, [&z, &mut lengths], |n| {
                let length = z[n].iter().map(String::len).sum::<usize>();
                lengths[length % 100] += 1;
            })?;
            plain_z.iter().for_each(|z| plain_lengths[z.iter().map(String::len).sum::<usize>() % 100] += 1);
            seen.report("second", &report);
            assert_eq!(lengths.to_vec()?, plain_lengths);
        }
        assert!(z.to_vec()? == plain_z && p.to_vec()? == plain_p);
        seen.digest("z", &z)
    }
}

/// Rows that a process caches, which threads of the body use as well.
mod hot {
    use super::*;

    const ADDITIONS: u64 = if cfg!(miri) { 20 } else { 5_000 };
    const CALLS: u64 = 3;

    /// Updates that meet may be lost, but a row holds nothing that was never added; and a row that others only read holds all.
    pub(crate) fn threads_of_a_body(session: &Session, seen: &mut Seen) -> Result {
        let data = DVector::from_fn(session, 4000, |n| n as u32)?;
        for policy in [SyncPolicy::Hybrid, SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 1 }] {
            let mut w = DVector::from_fn(session, 64, |_| [0u64; 8])?;
            for _ in 0..CALLS {
                sync_parallel_for!(
                    data,
                    100,
                    [&mut w],
                    |batch| {
                        let (hot, read) = (&w[3usize], &w[5usize]);
                        std::thread::scope(|scope| {
                            scope.spawn(|| {
                                for _ in 0..ADDITIONS {
                                    hot.add(&[1; 8]);
                                    assert!(read.get().iter().all(|&sum| sum < 1 << 40));
                                }
                            });
                            for _ in 0..ADDITIONS {
                                w[3usize].add(&[1; 8]);
                            }
                        });
                        w[5usize].add(&[batch.len() as u64; 8]);
                    },
                    policy
                )?;
            }
            let most = 40 * CALLS * 2 * ADDITIONS;
            let row = w.get(3)?;
            assert!(row.iter().all(|sum| (1..=most).contains(sum)), "{policy:?}: {row:?}");
            // Threads of one process lose additions of each other under `Hybrid`, too.
            let exact = policy != SyncPolicy::Hybrid || session.threads() == 1;
            let row = w.get(5)?;
            let all = 4000 * CALLS;
            assert!(row.iter().all(|&sum| sum == all || !exact && (100..all).contains(&sum)), "{policy:?}: {row:?}");
            for k in (0..64).filter(|k| ![3, 5].contains(k)) {
                assert_eq!(w.get(k)?, [0; 8]);
            }
        }
        seen.record("data", data.digest()?);
        Ok(())
    }
}
