//! How work is shared out: few long iterations use all threads, in the recording too, and `grain` and `parts` are obeyed.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::common::session;
use crate::seen::Seen;
use crate::sharing::SCENARIOS;
use stradsap::prelude::*;

#[test]
fn scenarios() {
    for scenario in SCENARIOS {
        let seen = [1, 2, 5].map(|threads| {
            let mut seen = Seen::default();
            (scenario.run)(&session(threads), &mut seen).unwrap();
            seen
        });
        assert!(seen.iter().all(|other| *other == seen[0]), "{}: {seen:?}", scenario.name);
    }
}

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
fn a_loop_without_iterations_sets_up_no_scratch() {
    static SET_UP: AtomicUsize = AtomicUsize::new(0);
    let session = session(2);
    let mut x = DVector::from_fn(&session, 10, |i| i).unwrap();
    for end in [0, 1] {
        let run = |x: &mut DVector<usize>| {
            async_parallel_for!(0..end, [&mut x], |i, add| x[i] += *add, scratch = SET_UP.fetch_add(1, SeqCst))
        };
        run(&mut x).unwrap();
        assert_eq!(SET_UP.load(SeqCst) > 0, end > 0);
    }
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
    assert!(error.to_string().contains("`grain` must be at least 1"), "{error}");
}

#[test]
fn two_long_calls_and_no_single_one_cut_a_loop_anew() {
    let session = session(2);
    let mut x = DVector::from_fn(&session, 64, |_| 0u32).unwrap();
    let mut blocks = Vec::new();
    for pause in [0, 1, 0, 1, 1, 0].map(Duration::from_millis) {
        let report = async_parallel_for!(0..64, [pause, &mut x], |i| {
            if !pause.is_zero() {
                std::thread::sleep(pause);
            }
            x[i] += 1;
        });
        blocks.push(report.unwrap().blocks());
    }
    assert_eq!(x.to_vec().unwrap(), [6; 64]);
    // On a machine that is slow enough the recording itself asks for more than one.
    let first = blocks[0];
    assert!(blocks[..5].iter().all(|&blocks| blocks == first), "{blocks:?}");
    assert!(blocks[5] > first || first == 64, "{blocks:?}");
}
