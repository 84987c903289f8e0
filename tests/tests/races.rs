//! A few loops of each strategy on three threads, small enough for race detectors (`tests/race-check.sh`).

#![allow(clippy::unwrap_used)]

mod common;

use common::{WAYS, Way, mix, session};
use stradsap::prelude::*;

const N: usize = 2500;

/// Rows with numbers and with text, shared and in step, reductions, a failure, a change of pattern.
fn exercise(way: Way, order: Order) {
    let session = session(3);
    let (rows, cols) = if way == Way::Aligned { (N, N) } else { (30, 50) };
    let mut pairs = DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap();
    let mut x = DVector::from_fn(&session, rows, |i| [i as u64; 4]).unwrap();
    let mut y = DVector::from_fn(&session, cols, |i| vec![i as u64]).unwrap();
    let mut own = DVector::from_fn(&session, N, |i| i as u64).unwrap();
    let (sum, low) = (session.sum(0.0f64), session.min(u64::MAX));
    let (mut px, mut py, mut pown) = (x.to_vec().unwrap(), y.to_vec().unwrap(), own.to_vec().unwrap());
    let strategy = way.option();
    let never = N;
    let mut run = |bad: usize, pairs: &DVector<[u32; 2]>| {
        async_parallel_for!(
            0..N,
            [bad, &pairs, &mut x, &mut y, &mut own, &sum, &low],
            |i| {
                let [a, b] = pairs[i];
                let seen = y[b][0];
                x[a][i % 4] = mix(x[a][i % 4] ^ seen);
                y[b][0] = mix(seen ^ i as u64);
                if y[b].len() < 5 {
                    y[b].push(i as u64);
                }
                own[i] ^= x[a][i % 4];
                sum.add((seen % 1000) as f64);
                low.min(seen);
                if i == bad { Err("as asked") } else { Ok(()) }
            },
            strategy = strategy,
            order = order,
            parts = 4
        )
    };
    for call in 0..4 {
        if call == 2 {
            assert!(run(N / 2, &pairs).is_err());
            for i in (0..N).step_by(100) {
                let [a, b] = pairs.get(i).unwrap();
                pairs.set(i, if way == Way::Aligned { [a, b] } else { [(a + 17) % rows as u32, b] }).unwrap();
            }
        }
        let report = run(never, &pairs).unwrap();
        assert_eq!(report.strategy(), way.strategy());
        let data = pairs.to_vec().unwrap();
        for i in report.serial_order() {
            let [a, b] = data[i].map(|k| k as usize);
            let seen = py[b][0];
            px[a][i % 4] = mix(px[a][i % 4] ^ seen);
            py[b][0] = mix(seen ^ i as u64);
            if py[b].len() < 5 {
                py[b].push(i as u64);
            }
            pown[i] ^= px[a][i % 4];
        }
    }
    assert!(x.to_vec().unwrap() == px && y.to_vec().unwrap() == py && own.to_vec().unwrap() == pown, "{way:?}");
}

#[test]
fn loops_of_each_strategy() {
    for way in WAYS {
        exercise(way, Order::Any);
    }
    exercise(Way::Coloured, Order::Preserve);
}

#[test]
fn threads_that_come_and_go() {
    let session = session(1);
    let mut x = DVector::from_fn(&session, 40, |_| 0u64).unwrap();
    for threads in [3, 2, 1, 3] {
        session.set_threads(threads).unwrap();
        async_parallel_for!(
            0..N,
            [&mut x],
            |i| {
                x[i % 40] += 1;
                x[i * i % 40] += 1;
            },
            strategy = Grid,
            parts = 4
        )
        .unwrap();
    }
    assert_eq!(x.iter().unwrap().sum::<u64>(), 4 * 2 * N as u64);
}

/// Read off a sample: recorded, grouped and laid out by all threads.
#[test]
fn a_long_loop() {
    let session = session(3);
    let n = 40_000;
    let data = DVector::from_vec(&session, common::ratings(n, 400, 300)).unwrap();
    let mut p = DVector::from_fn(&session, 400, |_| 1u64).unwrap();
    let mut q = DVector::from_fn(&session, 300, |_| 1u64).unwrap();
    for call in 0..2 {
        let report = async_parallel_for!(0..n, [&data, &mut p, &mut q], |i| {
            let r = data[i];
            p[r.user] += 1;
            q[r.item] += 1;
        })
        .unwrap();
        assert_eq!((report.reused(), report.strategy()), (call > 0, Strategy::Grid));
    }
    assert_eq!(p.iter().unwrap().sum::<u64>() + q.iter().unwrap().sum::<u64>(), 700 + 4 * n as u64);
}
