//! Rows lie with the workers that touch them: few bytes, and the same bits wherever they lie, through failures, changes by the program
//! and other loops over the same rows.

use std::time::{Duration, Instant};

use stradsap::prelude::*;

use super::places::{PLACES, copies, note, policies};
use crate::common::{below, mix};
use crate::jobs::processes::{children_as, runs, signal_to, wait_for};
use crate::jobs::runner::Test;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

#[derive(Debug, thiserror::Error)]
#[error("not this one")]
struct NotThisOne;

const ROWS: usize = 300;

/// Rows that one copy alone touches are not near each other, and by number another worker keeps most of them.
fn own_row(copies: usize, minibatch: usize, k: usize) -> usize {
    let (copy, of_each) = (minibatch % copies, ROWS / copies);
    (k * 37 + minibatch / copies * 3) % of_each * copies + (copy + 1) % copies
}

/// One call of a loop, of which the minibatch `bad` fails at its end.
fn call(
    (input, copies): (&DVector<u32>, usize),
    rows: &mut DVector<[f32; 8]>,
    bad: u32,
    policy: SyncPolicy,
) -> stradsap::Result<SyncReport> {
    sync_parallel_for!(
        input,
        1,
        [copies, bad, &mut *rows],
        |batch| {
            let mut mean = [0.0f32; 8];
            for k in 0..12 {
                rows[own_row(copies, batch.number(), k)].add_to(0.1, &mut mean);
                rows[own_row(copies, batch.number(), k)].axpy(0.01, &[batch[0] as f32; 8]);
            }
            for k in 0..3u64 {
                rows[below(mix(u64::from(batch[0]) * 8 + k), ROWS)].axpy(0.2, &mean);
            }
            if batch[0] == bad { Err(NotThisOne) } else { Ok(()) }
        },
        policy
    )
}

/// Others still fetch their rows from where a loop before has left them.
pub(crate) fn on_demand_from_the_first_call(session: &Session, seen: &mut Seen) -> Result {
    const WIDE: usize = 256;
    let batches = DVector::from_fn(session, 60, |b| b)?;
    for (name, policy) in policies(session) {
        for written in [200, 350, 600] {
            let mut rows = DMatrix::from_fn(session, 600, WIDE, |i, k| (i + k) as f32)?;
            let mut twin =
                DMatrix::from_fn(session, 600, WIDE, |i, k| (i + k * usize::from(k != 1 || i >= written)) as f32)?;
            async_parallel_for!(0..written, [&mut rows], |i| rows[i][1] = i as f32)?;
            let report = sync_parallel_for!(
                batches,
                1,
                [&mut rows, &mut twin],
                |batch| for k in 0..10 {
                    let i = (batch[0] * 10 + k) * 7 % 600;
                    rows[i].axpy(0.5, &[1.0; WIDE]);
                    twin[i].axpy(0.5, &[1.0; WIDE]);
                },
                policy,
                prefetch = false
            )?;
            note(seen, name, &report);
            assert!(rows.to_vec()? == twin.to_vec()?, "{name}: {written} written");
        }
    }
    Ok(())
}

/// Calls that end well, that fail once and twice in a row, with what programs do between them.
pub(crate) fn wherever_rows_lie(session: &Session, seen: &mut Seen) -> Result {
    let (input, n) = (DVector::from_fn(session, 96, |i| i as u32)?, copies(session));
    let every_third = DVector::from_fn(session, ROWS / 3, |i| i as u32 * 3)?;
    for (name, policy) in policies(session) {
        let mut rows = DVector::from_fn(session, ROWS, |i| [i as f32 / 50.0; 8])?;
        for epoch in 0..10u32 {
            let before = rows.digest()?;
            for bad in match epoch {
                // Where they have just been dealt out; later, and again when that has been put back.
                1 => vec![95],
                4 => vec![3, 60],
                7 => vec![0, 0, 31],
                _ => vec![],
            } {
                let failed = call((&input, n), &mut rows, bad, policy).unwrap_err();
                assert!(failed.to_string().contains("not this one"), "{failed}");
                assert_eq!(rows.digest()?, before, "{name}, epoch {epoch}");
            }
            note(seen, name, &call((&input, n), &mut rows, u32::MAX, policy)?);
            match epoch {
                2 => rows.set(7, [0.5; 8])?,
                3 => seen.record(name, rows.get(ROWS - 1)?.map(f32::to_bits)),
                5 => {
                    async_parallel_for!(0..ROWS, [&mut rows], |i| rows[i][i % 8] *= 0.5)?;
                }
                6 => {
                    // Another loop over the same rows, which touches them otherwise.
                    let halve = |rows: &mut DVector<[f32; 8]>| {
                        sync_parallel_for!(
                            every_third,
                            5,
                            [&mut *rows],
                            |batch| batch.into_iter().for_each(|&i| rows[i].scale(0.75)),
                            policy
                        )
                    };
                    for _ in 0..3 {
                        note(seen, name, &halve(&mut rows)?);
                        note(seen, name, &call((&input, n), &mut rows, u32::MAX, policy)?);
                    }
                }
                8 => {
                    // And one that only reads them.
                    let sum = session.sum(0u64);
                    sync_parallel_for!(
                        every_third,
                        5,
                        [&rows, &sum],
                        |batch| batch.into_iter().for_each(|&i| sum.add(u64::from(rows[i as usize][3].to_bits()))),
                        policy
                    )?;
                    seen.record(name, sum.get());
                }
                _ => {}
            }
            if epoch % 2 == 0 {
                seen.digest(name, &rows)?;
            }
        }
        seen.digest(name, &rows)?;
    }
    Ok(())
}

/// Loops of both kinds take turns over the same rows: a grid leaves them in an order of its own, a map gets keys, and checkpoints are
/// written and read. What is added are whole numbers: under `Ssp` they come in any order.
pub(crate) fn in_turns(session: &Session, seen: &mut Seen) -> Result {
    let input = DVector::from_fn(session, 240, |i| i as u32)?;
    let pairs = DVector::from_fn(session, ROWS, |i| [i as u32 * 7 % 40, i as u32 * 11 % 30])?;
    let folder = tempfile::tempdir().unwrap();
    for (name, policy) in policies(session).into_iter().chain([("stale", SyncPolicy::Ssp { staleness: 1 })]) {
        let mut checkpoints = Checkpoints::new(folder.path().join(name), 1)?;
        let mut rows = DMatrix::from_fn(session, ROWS, 3, |i, k| (i * 3 + k) as f64)?;
        let mut map = DMap::from_entries(session, (0..90u32).map(|i| (i, i64::from(i))))?;
        let mut p = DVector::from_fn(session, 40, |i| i as f64)?;
        let mut q = DVector::from_fn(session, 30, |i| i as f64)?;
        for epoch in 0..9u32 {
            let report = sync_parallel_for!(
                input,
                3,
                [epoch, &mut rows, &mut map],
                |batch| {
                    for &i in batch {
                        (0..6).for_each(|k| rows[below(u64::from(i) * 6 + k, ROWS)].add(&[1.0, f64::from(epoch), 2.0]));
                        map.entry(i % 90 + epoch / 8).or_insert(0).add(i64::from(epoch));
                    }
                },
                policy
            )?;
            note(seen, name, &report);
            match epoch {
                1 | 3 | 5 => {
                    let report = async_parallel_for!(
                        0..ROWS,
                        [&pairs, &mut rows, &mut p, &mut q],
                        |i| {
                            let [a, b] = pairs[i];
                            rows[i][1] = (rows[i][1] + p[a] + q[b]) % 1000.0;
                            p[a] = rows[i][1] + 1.0;
                            q[b] = (q[b] + rows[i][0]) % 100.0;
                        },
                        strategy = Grid
                    )?;
                    assert_eq!(report.strategy(), Strategy::Grid);
                }
                4 => {
                    checkpoints.save(epoch.into(), &(), &[("rows", &rows), ("map", &map)])?;
                    checkpoints.finish()?;
                }
                6 => {
                    let checkpoint = checkpoints.resume()?.unwrap();
                    (rows, map) = (checkpoint.matrix(session, "rows")?, checkpoint.map(session, "map")?);
                }
                _ => seen.record(name, rows.digest()?),
            }
        }
        seen.digest(name, &p)?;
        seen.digest(name, &q)?;
        seen.record(name, (map.digest()?, rows.digest()?));
    }
    Ok(())
}

/// A worker is killed at some moment while rows, which a loop of the other kind has changed, go to their keepers, and soon after.
fn killed_on_the_way() {
    const MANY: usize = 6000;
    let session = PLACES[2][1].session();
    let n = copies(&session);
    let input = DVector::from_fn(&session, 20 * n, |i| i).unwrap();
    let mut rows = DVector::from_fn(&session, MANY, |i| [i as f64; 256]).unwrap();
    let mut expected: Vec<f64> = (0..MANY).map(|i| i as f64).collect();
    let each = MANY / (20 * n);
    let call = |rows: &mut DVector<[f64; 256]>, expected: &mut [f64]| {
        let since = Instant::now();
        sync_parallel_for!(
            input,
            1,
            [each, &mut *rows],
            |batch| (0..each).for_each(|k| rows[(batch[0] * each + k) * 7919 % MANY].axpy(1.0, &[1.0; 256])),
            SyncPolicy::Bsp
        )
        .unwrap();
        (0..20 * n * each).for_each(|at| expected[at * 7919 % MANY] += 1.0);
        since.elapsed()
    };
    let halve = |rows: &mut DVector<[f64; 256]>, expected: &mut [f64]| {
        async_parallel_for!(0..MANY, [&mut *rows], |i| rows[i].iter_mut().for_each(|x| *x *= 0.5)).unwrap();
        expected.iter_mut().for_each(|x| *x *= 0.5);
    };
    for round in 0..6u32 {
        call(&mut rows, &mut expected);
        call(&mut rows, &mut expected);
        halve(&mut rows, &mut expected);
        let took = call(&mut rows, &mut expected);
        halve(&mut rows, &mut expected);
        let victim = children_as(std::process::id(), "worker")[round as usize % 3];
        let killer = std::thread::spawn(move || {
            std::thread::sleep(took * round / 8);
            signal_to(victim, "KILL");
            wait_for("the killed worker's end", Duration::from_secs(5), || (!runs(victim)).then_some(()));
        });
        call(&mut rows, &mut expected);
        killer.join().unwrap();
        for (i, (row, &expected)) in rows.to_vec().unwrap().iter().zip(&expected).enumerate() {
            assert!(row.iter().all(|&x| x == expected), "row {i} in round {round}: {} for {expected}", row[0]);
        }
    }
}

/// The bytes of a call in which each row is touched by one copy alone.
fn bytes_of_call((input, copies): (&DVector<u32>, usize), rows: &mut DVector<[f32; 128]>, policy: SyncPolicy) -> u64 {
    let report = sync_parallel_for!(
        input,
        1,
        [copies, &mut *rows],
        |batch| (0..10).for_each(|k| rows[own_row(copies, batch.number(), k)].axpy(1.0, &[1.0; 128])),
        policy
    );
    report.unwrap().bytes_sent()
}

/// What one worker alone touches isn't sent any more. (With three workers the driver of these tests holds nothing.)
fn bytes() {
    for place in [PLACES[1][2], PLACES[2][1], PLACES[3][2], PLACES[3][3]] {
        for policy in [SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 1 }] {
            let session = place.verified();
            let n = copies(&session);
            let input = DVector::from_fn(&session, 60 * n, |i| i as u32).unwrap();
            let mut rows = DVector::from_fn(&session, ROWS, |_| [0.0f32; 128]).unwrap();
            let call = |rows: &mut DVector<[f32; 128]>| bytes_of_call((&input, n), rows, policy);
            let (first, _second) = (call(&mut rows), call(&mut rows));
            let later = call(&mut rows).max(call(&mut rows));
            assert!(later * 3 < first, "{policy} on {place}: {first} bytes at first, {later} later");
            // What the program changes goes to where the rows lie.
            rows.set(5, [7000.0; 128]).unwrap();
            call(&mut rows);
            let again = call(&mut rows);
            assert!(again * 3 < first, "{policy} on {place}: {first} bytes at first, {again} after a change");
            let of_call = |row| (0..60 * n).map(|batch| (0..10).filter(|&k| own_row(n, batch, k) == row).count()).sum();
            for (row, value) in rows.to_vec().unwrap().into_iter().enumerate() {
                let times: usize = of_call(row);
                let expected = if row == 5 { 7000 + 2 * times } else { 6 * times };
                assert_eq!(value, [expected as f32; 128], "row {row}, {policy} on {place}");
            }
        }
    }
}

/// Rows that are read one by one, of two DVectors in turn, and as a whole.
fn read_one_by_one() {
    let session = PLACES[3][3].session();
    let n = copies(&session);
    let input = DVector::from_fn(&session, 90, |i| i as u32).unwrap();
    let mut a = DVector::from_fn(&session, ROWS, |i| i as i64).unwrap();
    let mut b = DMatrix::from_fn(&session, ROWS, 3, |i, k| (i * 3 + k) as f64).unwrap();
    for epoch in 1..=4i64 {
        sync_parallel_for!(
            input,
            1,
            [n, &mut a, &mut b],
            |batch| {
                for k in 0..10 {
                    let row = own_row(n, batch.number(), k);
                    a[row].add(1);
                    b[row].add(&[1.0, 0.0, 2.0]);
                }
            },
            SyncPolicy::Bsp
        )
        .unwrap();
        let mut touched = vec![0i64; ROWS];
        (0..90).for_each(|batch| (0..10).for_each(|k| touched[own_row(n, batch, k)] += 1));
        for (i, &times) in touched.iter().enumerate() {
            let times = epoch * times;
            assert_eq!(a.get(i).unwrap(), i as i64 + times, "row {i}, epoch {epoch}");
            let row = b.get(i).unwrap();
            assert_eq!(row[2], (i * 3 + 2) as f64 + 2.0 * times as f64, "row {i}, epoch {epoch}");
        }
        let sum: i64 = a.to_vec().unwrap().iter().sum();
        assert_eq!(sum, (ROWS * (ROWS - 1) / 2) as i64 + epoch * 900);
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("bytes that follow where rows lie", 120, bytes),
        Test::new("rows that are read one by one", 60, read_one_by_one),
        Test::new("a worker is killed while rows go to their keepers", 120, killed_on_the_way),
    ]
}
