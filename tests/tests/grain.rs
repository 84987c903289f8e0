//! How work is shared out: few long iterations use all threads, in the recording too, and `grain` and `parts` are obeyed.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::{below, bits, session};
use stradsap::prelude::*;

/// How many iterations are under way at once, and how many were at most.
static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

fn long(i: usize) -> f64 {
    MOST.fetch_max(NOW.fetch_add(1, SeqCst) + 1, SeqCst);
    std::thread::sleep(Duration::from_millis(10));
    NOW.fetch_sub(1, SeqCst);
    (i as f64).sqrt()
}

/// One test, since it counts what runs in the whole process.
#[test]
fn few_long_iterations_use_all_threads() {
    let session = session(8);
    let mut x = DVector::from_fn(&session, 16, |_| 0.0f64).unwrap();
    let sum = session.sum(0.0f64);
    for (call, threads) in [(0, 8), (1, 8), (2, 3)] {
        session.set_threads(threads).unwrap();
        MOST.store(0, SeqCst);
        let report = async_parallel_for!(0..16, [&mut x], |i| x[i] = long(i)).unwrap();
        assert_eq!(MOST.load(SeqCst), threads, "call {call}: {report}");
        MOST.store(0, SeqCst);
        let report = async_parallel_for!(0..16, [&x, &sum], |i| sum.add(x[i] + long(i))).unwrap();
        assert_eq!(MOST.load(SeqCst), threads, "call {call}, with a sum: {report}");
        // Two iterations share each element.
        MOST.store(0, SeqCst);
        let report = async_parallel_for!(0..32, [&mut x], |i| x[i / 2] += long(i), grain = 1).unwrap();
        assert_eq!(report.strategy(), Strategy::Grid);
        assert_eq!(MOST.load(SeqCst), threads, "call {call}, with conflicts: {report}");
    }
    // The recording alone, since the plan is a serial one: each iteration needs what all others wrote.
    MOST.store(0, SeqCst);
    let report = async_parallel_for!(1..16, [&mut x], |i| x[i] = x[i - 1] + long(i)).unwrap();
    assert_eq!((MOST.load(SeqCst), report.strategy()), (3, Strategy::Serial));
    let advice = report.advice().unwrap();
    assert!(advice.contains("`grain = 1`"), "{advice}");
}

#[test]
fn parts_and_grain_make_the_blocks_of_a_loop_without_conflicts() {
    let session = session(2);
    let mut x = DVector::from_fn(&session, 1000, |i| i as f64).unwrap();
    for grain in [1, 7, 100, 1000, 5000] {
        let report = async_parallel_for!(0..1000, [&mut x], |i| x[i] += 1.0, grain = grain).unwrap();
        assert_eq!(report.blocks(), 1000usize.div_ceil(grain), "{report}");
        let report = async_parallel_for!(0..1000, [&mut x], |i| x[i] += 1.0, parts = 64, grain = grain).unwrap();
        assert_eq!(report.blocks(), 64);
    }
    let report = async_parallel_for!(0..10, [&mut x], |i| x[i] += 1.0, parts = 64).unwrap();
    assert_eq!(report.blocks(), 10, "no block without iterations");
    let error = async_parallel_for!(0..10, [&mut x], |i| x[i] += 1.0, grain = x.len() - 1000).unwrap_err();
    assert!(error.to_string().contains("`grain = 0` is not offered"), "{error}");
}

#[test]
fn bits_depend_on_grain_and_not_on_threads() {
    let (n, len) = (5000, 300);
    for grain in [1, 40, 3000] {
        let mut expected = None;
        for threads in [1, 2, 5] {
            let session = session(threads);
            let at = DVector::from_fn(&session, n, |i| below(i as u64, len) as u32).unwrap();
            let mut x = DVector::from_fn(&session, len, |i| i as f64).unwrap();
            let sum = session.sum(0.1);
            let report = async_parallel_for!(
                0..n,
                [&at, &mut x, &sum],
                |i| {
                    x[at[i]] = x[at[i]] * 0.9 + i as f64;
                    sum.add(x[at[i]]);
                },
                grain = grain
            )
            .unwrap();
            let mut plain: Vec<f64> = (0..len).map(|i| i as f64).collect();
            for i in report.serial_order() {
                let k = below(i as u64, len);
                plain[k] = plain[k] * 0.9 + i as f64;
            }
            assert_eq!(bits(x.to_vec().unwrap()), bits(plain), "{report}");
            let found = (bits(x.to_vec().unwrap()), sum.get().to_bits(), report.blocks());
            assert_eq!(expected.get_or_insert_with(|| found.clone()), &found);
        }
    }
}

#[test]
fn parts_that_cannot_be_had_are_refused() {
    let session = session(2);
    let mut x = DVector::from_fn(&session, 5000, |i| i as u64).unwrap();
    let before = x.to_vec().unwrap();
    // Iterations touch so many parts, each other ones, that each would be a block.
    let all = async_parallel_for!(
        0..100_000,
        [&mut x],
        |i| (0..8).for_each(|k| x[below(8 * i as u64 + k, 5000)] += 1),
        parts = 64
    )
    .unwrap_err();
    assert!(all.to_string().contains("`parts = 64` can't be had"), "{all}");
    assert_eq!(x.to_vec().unwrap(), before);
    // Every iteration with every other: a chain, but one of so many parts.
    let report = async_parallel_for!(1..5000, [&mut x], |i| x[i] += x[i - 1], parts = 4, order = Preserve).unwrap();
    assert_eq!(report.strategy(), Strategy::Grid);
    let sums: Vec<u64> = (0..5000u64).map(|i| i * (i + 1) / 2).collect();
    assert_eq!(x.to_vec().unwrap(), sums);
}
