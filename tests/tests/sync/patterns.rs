//! Which rows loops touch, from call to call, and what happens to DDSs between calls.

use std::time::Duration;

use stradsap::prelude::*;

use super::places::{copies, note, policies};
use crate::common::{below, mix};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

const ROWS: usize = 400;

/// Lists of rows: some that all have, most of them here and there.
fn lists(n: usize, seed: u64) -> Vec<Vec<u32>> {
    let row = |i: u64, k: u64| match below(seed ^ i, 5) {
        0 => below(k ^ i, 8),
        _ => below(seed ^ mix(i * 100 + k), ROWS),
    };
    (0..n as u64).map(|i| (0..1 + i % 6).map(|k| row(i, k) as u32).collect()).collect()
}

fn vectors(session: &Session) -> stradsap::Result<(DVector<[f32; 4]>, DVector<i64>)> {
    let rows = DVector::from_fn(session, ROWS, |i| [i as f32 / 100.0; 4])?;
    Ok((rows, DVector::from_fn(session, ROWS, |_| 0i64)?))
}

/// One call of a loop that reads and writes the rows of its lists.
macro_rules! touch {
    ($input:expr, $minibatch:expr, $rows:expr, $counts:expr, $policy:expr $(, $option:ident = $value:expr)?) => {{
        let (input, minibatch, rows, counts) = (&$input, $minibatch, &mut $rows, &mut $counts);
        sync_parallel_for!(input, minibatch, [&mut rows, &mut counts], |batch| {
            for list in batch {
                let mut mean = [0.0f32; 4];
                list.iter().for_each(|&i| rows[i].add_to(1.0 / list.len() as f32, &mut mean));
                for (k, &i) in list.iter().enumerate() {
                    rows[i].axpy(0.1, &mean);
                    rows[i].scale(0.95);
                    if k % 2 == 0 {
                        counts[ROWS - 1 - i as usize].add(1);
                    }
                }
            }
        }, $policy $(, $option = $value)?)?
    }};
}

fn digest(seen: &mut Seen, rows: &DVector<[f32; 4]>, counts: &DVector<i64>) -> Result {
    seen.digest("rows", rows)?;
    seen.digest("counts", counts)
}

/// The same rows in each call: from the second on they come before they are needed.
pub(crate) fn foreseen(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_vec(session, lists(300, 1))?;
    for (name, policy) in policies(session) {
        let (mut rows, mut counts) = vectors(session)?;
        for epoch in 0..4 {
            let report = touch!(input, 6, rows, counts, policy);
            note(seen, name, &report);
            if session.workers() > 1 {
                assert_eq!(report.rows_on_demand(), 0, "{name}, epoch {epoch}: {report}");
                assert!(report.rows_prefetched() > 0, "{name}, epoch {epoch}: {report}");
                assert!(report.bytes_sent() > 0);
            }
            digest(seen, &rows, &counts)?;
        }
    }
    Ok(())
}

/// Rows that nobody looks ahead for.
pub(crate) fn not_foreseen(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_vec(session, lists(120, 2))?;
    for (name, policy) in policies(session) {
        let (mut rows, mut counts) = vectors(session)?;
        let (mut ahead_rows, mut ahead_counts) = vectors(session)?;
        for _ in 0..3 {
            let report = touch!(input, 6, rows, counts, policy, prefetch = false);
            note(seen, name, &report);
            if session.workers() > 1 {
                assert!(report.rows_on_demand() > 0, "{name}: {report}");
            }
            touch!(input, 6, ahead_rows, ahead_counts, policy);
            digest(seen, &rows, &counts)?;
            assert_eq!(rows.digest()?, ahead_rows.digest()?, "{name}");
            assert_eq!(counts.digest()?, ahead_counts.digest()?, "{name}");
        }
    }
    Ok(())
}

/// Other rows than in the call before: few of them, then all.
pub(crate) fn another_pattern(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let mut input = DVector::from_vec(session, lists(200, 3))?;
        let (mut rows, mut counts) = vectors(session)?;
        let mut on_demand = 0;
        for epoch in 0..9u64 {
            let report = touch!(input, 5, rows, counts, policy);
            note(seen, name, &report);
            on_demand += report.rows_on_demand();
            digest(seen, &rows, &counts)?;
            let others = lists(200, 40 + epoch);
            match epoch {
                // Foreseen at first; then a list here and there.
                1 | 2 => (0..4).try_for_each(|k| input.set(below(epoch * 9 + k, 200), others[k as usize].clone()))?,
                4 => others.into_iter().enumerate().try_for_each(|(i, list)| input.set(i, list))?,
                // An input of another length, with other minibatches.
                6 => input = DVector::from_vec(session, lists(310, 77))?,
                _ => {}
            }
        }
        if session.workers() > 1 {
            assert!(on_demand > 0, "{name}: everything was foreseen");
        }
    }
    Ok(())
}

/// Policy and minibatches differ from call to call of one loop.
pub(crate) fn changing_policies(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_vec(session, lists(150, 4))?;
    let (mut rows, mut counts) = vectors(session)?;
    let all = policies(session);
    for round in 0..24u64 {
        let (name, policy) = all[below(round, all.len())];
        let minibatch = [1usize, 4, 4, 9, 50, 200][below(round + 100, 6)];
        let report = touch!(input, minibatch, rows, counts, policy);
        note(seen, name, &report);
        digest(seen, &rows, &counts)?;
    }
    // What has no bits of its own ends, and what comes after goes on from there.
    for policy in [SyncPolicy::Ssp { staleness: 1 }, SyncPolicy::Bsp, SyncPolicy::Hybrid, SyncPolicy::Bsp] {
        touch!(input, 4, rows, counts, policy);
        assert!(rows.to_vec()?.iter().flatten().all(|x| x.is_finite()), "{policy}");
    }
    Ok(())
}

/// Several loops on the same DDSs, of which each writes what others only read.
pub(crate) fn loops_that_share(session: &Session, seen: &mut Seen) -> Result {
    let (one, other) = (lists(120, 5), lists(90, 6));
    let (one, other) = (DVector::from_vec(session, one)?, DVector::from_vec(session, other)?);
    for (name, policy) in policies(session) {
        let (mut a, mut b) = vectors(session)?;
        let mut c = DVector::from_fn(session, ROWS, |i| i as f64)?;
        for _ in 0..3 {
            let report = sync_parallel_for!(
                &one,
                5,
                [&mut a, &b, &mut c],
                |batch| {
                    for list in batch {
                        for &i in list {
                            a[i].axpy(0.01, &[b[i as usize] as f32 % 10.0; 4]);
                            c[i].set(c[i].get() * 0.5 + f64::from(a[i].dot(&[0.25; 4])));
                        }
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            let report = sync_parallel_for!(
                &other,
                7,
                [&a, &mut b, &c],
                |batch| {
                    for &i in batch.into_iter().flatten() {
                        b[ROWS - 1 - i as usize].add((f64::from(a[i as usize][2]) + c[i as usize] * 10.0) as i64 % 100);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            touch!(other, 4, a, b, policy);
            // What is an input here is written there, and the other way round.
            sync_parallel_for!(
                c,
                32,
                [&mut a],
                |batch| {
                    for (k, x) in batch.into_iter().enumerate() {
                        a[(batch.start() + k) / 2].add(&[(x % 3.0) as f32; 4]);
                    }
                },
                policy
            )?;
            digest(seen, &a, &b)?;
            seen.digest("c", &c)?;
        }
    }
    Ok(())
}

/// DDSs that are written by both kinds of loops.
pub(crate) fn both_loops_in_turn(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_vec(session, lists(120, 7))?;
    for (name, policy) in policies(session) {
        let (mut rows, mut counts) = vectors(session)?;
        let mut names = DVector::from_fn(session, 50, |i| vec![i as u64])?;
        for epoch in 0..5usize {
            note(seen, name, &touch!(input, 6, rows, counts, policy));
            async_parallel_for!(0..900, [epoch, &mut rows, &mut counts, &mut names], |i| {
                let (at, name) = (i * 7 % ROWS, (i * i + epoch) % 50);
                rows[at][i % 4] = rows[at][i % 4] * 0.5 + names[name].len() as f32 / 8.0;
                names[name].push(rows[at][0].to_bits().into());
                let many = names[name].len();
                names[name].drain(..many.saturating_sub(5));
                counts[at] ^= i as i64;
            })?;
            // A loop in step with what the rounds have left.
            async_parallel_for!(0..ROWS, [&rows, &mut counts], |i| counts[i] += rows[i][1] as i64)?;
            digest(seen, &rows, &counts)?;
            seen.digest("names", &names)?;
            // The input changes its place, too.
            if epoch == 2 {
                sync_parallel_for!(
                    names,
                    3,
                    [&mut counts],
                    |batch| {
                        batch.into_iter().for_each(|name| counts[name.len()].add(name[0] as i64 % 1000));
                    },
                    policy
                )?;
            }
        }
    }
    Ok(())
}

/// The program reads and sets elements between calls.
pub(crate) fn between_loops(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_vec(session, lists(120, 8))?;
    for (name, policy) in policies(session) {
        let (mut rows, mut counts) = vectors(session)?;
        for epoch in 0..6usize {
            note(seen, name, &touch!(input, 6, rows, counts, policy));
            match epoch {
                0 => seen.record("some", (rows.get(ROWS - 1)?, counts.read(10..13)?)),
                1 => rows.set(3, [-1.0; 4])?,
                2 => (0..ROWS).try_for_each(|i| counts.set(i, i as i64))?,
                3 => {
                    rows.set(0, [0.0; 4])?;
                    rows.set(ROWS - 1, [1.0; 4])?;
                    seen.record("set", rows.get(0)?);
                }
                4 => seen.record("all", counts.iter()?.sum::<i64>()),
                _ => {}
            }
        }
        digest(seen, &rows, &counts)?;
    }
    Ok(())
}

/// DVectors that come and go.
pub(crate) fn made_and_dropped(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        let mut kept = DVector::from_fn(session, ROWS, |i| i as i64)?;
        for round in 0..8usize {
            let input = DVector::from_vec(session, lists(60 + round, 9))?;
            let mut fresh = DVector::from_fn(session, ROWS + round % 3, |i| [(i * round) as f32; 4])?;
            for _ in 0..1 + round % 3 {
                note(seen, name, &touch!(input, 6, fresh, kept, policy));
            }
            if round % 3 == 0 {
                drop(fresh);
            } else {
                seen.digest("fresh", &fresh)?;
            }
        }
        seen.digest("kept", &kept)?;
    }
    Ok(())
}

/// Copies that are slow and fast by turns.
pub(crate) fn uneven(session: &Session, seen: &mut Seen) -> Result {
    let copies = copies(session) as u64;
    let input = DVector::from_vec(session, lists(100, 10))?;
    for (name, policy) in policies(session) {
        let (mut rows, sum) = (vectors(session)?.0, session.sum(0.0f64));
        for epoch in 0..3u64 {
            let report = sync_parallel_for!(
                input,
                5,
                [epoch, copies, &mut rows, &sum],
                |batch| {
                    let number = batch.number() as u64;
                    if number % copies == (number / copies + epoch) % copies {
                        std::thread::sleep(Duration::from_micros(300 * below(number ^ epoch, 5) as u64));
                    }
                    for &i in batch.into_iter().flatten() {
                        rows[i].axpy(0.1, &[number as f32; 4]);
                        rows[i].scale(0.9);
                        sum.add(f64::from(rows[i].get()[1]) * 1e5 / 3.0);
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            seen.record("sum", sum.get().to_bits());
            seen.digest("rows", &rows)?;
        }
    }
    Ok(())
}
