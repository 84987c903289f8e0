//! Rows lie with the workers that touch them: few bytes, and the same bits wherever they lie, through failures, changes by the program
//! and other loops over the same rows.

use stradsap::prelude::*;

use super::places::{PLACES, copies, note, policies};
use crate::common::{below, mix};
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

/// What one worker alone touches isn't sent any more. (With three workers the driver of these tests holds nothing, so rows stay cut by number.)
fn bytes() {
    for place in [PLACES[1][2], PLACES[3][2], PLACES[3][3]] {
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
    ]
}
