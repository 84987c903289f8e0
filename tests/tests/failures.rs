//! Iterations that fail: the error names the iteration and the cause, and nothing has changed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::common::{WAYS, Way, below, session};
use stradsap::prelude::*;
use stradsap::{Count, Error, Max, Min, Result, Sum};

const N: usize = 600;

#[derive(Clone, Debug, PartialEq, Element)]
struct Entry {
    words: Vec<String>,
    weight: f64,
}

/// What an iteration that fails does.
const FINE: u32 = 0;
const ERROR: u32 = 1;
const PANIC: u32 = 2;
const STATIC_PANIC: u32 = 3;
const OUT_OF_RANGE: u32 = 4;
const HIDDEN_OUT_OF_RANGE: u32 = 5;
const KINDS: [u32; 5] = [ERROR, PANIC, STATIC_PANIC, OUT_OF_RANGE, HIDDEN_OUT_OF_RANGE];

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no stars in iteration {0}")]
struct NoStars(usize);

/// DDSs and reductions of many kinds, and loops over them.
struct World {
    pairs: DVector<[u32; 2]>,
    fails: DVector<u32>,
    rows: DVector<Vec<String>>,
    cols: DVector<f64>,
    own: DVector<Entry>,
    sum: Sum<f64>,
    low: Min<i64>,
    high: Max<f32>,
    count: Count,
}

/// Everything that a loop may change.
#[derive(Clone, Debug, PartialEq)]
struct State {
    rows: Vec<Vec<String>>,
    cols: Vec<f64>,
    own: Vec<Entry>,
    reductions: (f64, i64, f32, u64),
}

impl World {
    fn new(way: Way, threads: usize) -> World {
        let session = session(threads);
        let (rows, cols) = if way == Way::Aligned { (N, N) } else { (24, 30) };
        World {
            pairs: DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap(),
            fails: DVector::from_fn(&session, N, |_| FINE).unwrap(),
            rows: DVector::from_fn(&session, rows, |i| vec![format!("row {i}")]).unwrap(),
            cols: DVector::from_fn(&session, cols, |i| i as f64 / 3.0).unwrap(),
            own: DVector::from_fn(&session, N, |i| Entry { words: vec![i.to_string()], weight: 0.25 }).unwrap(),
            sum: session.sum(0.5),
            low: session.min(7),
            high: session.max(-2.5),
            count: session.count(),
        }
    }

    fn state(&self) -> State {
        State {
            rows: self.rows.to_vec().unwrap(),
            cols: self.cols.to_vec().unwrap(),
            own: self.own.to_vec().unwrap(),
            reductions: (self.sum.get(), self.low.get(), self.high.get(), self.count.get()),
        }
    }

    fn run(&mut self, way: Way) -> Result<LoopReport> {
        let World { pairs, fails, rows, cols, own, sum, low, high, count, .. } = self;
        let strategy = way.option();
        async_parallel_for!(
            0..N,
            [&pairs, &fails, &mut rows, &mut cols, &mut own, &sum, &low, &high, &count],
            |i| {
                let [row, col] = pairs[i];
                rows[row].push(format!("iteration {i}"));
                own[i].words[0].push('!');
                own[i].weight += 1.0;
                cols[col] = cols[col] * 0.75 + i as f64;
                sum.add(cols[col]);
                low.min(-(i as i64));
                high.max(i as f32);
                count.add(1);
                match fails[i] {
                    FINE => {}
                    ERROR => return Err(NoStars(i)),
                    PANIC => panic!("iteration {i} panics"),
                    STATIC_PANIC => panic!("no arguments"),
                    OUT_OF_RANGE => cols[1000 + i] += 1.0,
                    _ => {
                        // Nobody can hide it.
                        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cols[1000 + i] += 1.0));
                    }
                }
                Ok(())
            },
            strategy = strategy,
            parts = 3
        )
    }
}

fn check_error(error: &Error, kind: u32, iteration: usize, cols: usize, case: &str) {
    let text = error.to_string();
    assert_eq!(error.exit_code(), 1, "{case}");
    match (kind, error) {
        (ERROR, Error::Body { iteration: at, source, .. }) => {
            assert_eq!(*at, iteration, "{case}");
            assert_eq!(source.downcast_ref::<NoStars>(), Some(&NoStars(iteration)), "{case}");
            assert!(
                text.ends_with(&format!(": iteration {iteration} failed: no stars in iteration {iteration}")),
                "{text}"
            );
        }
        (PANIC | STATIC_PANIC, Error::Panic { iteration: at, message, location, .. }) => {
            assert_eq!(*at, iteration, "{case}");
            let said = if kind == PANIC { format!("iteration {iteration} panics") } else { "no arguments".into() };
            assert_eq!(*message, said, "{case}");
            let mut place = location.rsplitn(3, ':');
            let (column, line, file) = (place.next(), place.next(), place.next());
            assert!(file.is_some_and(|file| file.ends_with("tests/failures.rs")), "{case}: {location}");
            assert!(line.is_some_and(|line| line.parse::<u32>().unwrap() > 80), "{case}: {location}");
            assert!(column.is_some_and(|column| column.parse::<u32>().unwrap() > 1), "{case}: {location}");
        }
        (
            OUT_OF_RANGE | HIDDEN_OUT_OF_RANGE,
            Error::IndexOutOfRange { dds: "cols", index, len, rows: false, iteration: at, site },
        ) => {
            assert_eq!((*index, *len), (1000 + iteration, cols), "{case}");
            assert_eq!(*at, iteration, "{case}: {error}");
            let expected =
                format!("{site}: iteration {at} uses `cols[{}]`, but `cols` has {cols} elements", 1000 + iteration);
            assert_eq!(text, expected, "{case}");
            assert!(site.contains("tests/failures.rs:"), "{case}: {site}");
        }
        (_, other) => panic!("{case}: {other:?}"),
    }
    assert!(!text.contains('\n'), "{case}: {text}");
}

fn check_failures(way: Way) {
    for threads in [1, 2, 3] {
        let mut world = World::new(way, threads);
        for (round, kind) in KINDS.into_iter().enumerate() {
            let case = format!("{way:?}, {threads} threads, kind {kind}");
            let bad = below(round as u64, N);
            world.fails.set(bad, kind).unwrap();
            let before = world.state();
            let error = world.run(way).unwrap_err();
            check_error(&error, kind, bad, world.cols.len(), &case);
            assert_eq!(world.state(), before, "{case}: something changed");
            // The session is none the worse for it.
            world.fails.set(bad, FINE).unwrap();
            let report = world.run(way).unwrap();
            assert_eq!(report.strategy(), way.strategy(), "{case}");
            assert_eq!(world.count.get(), before.reductions.3 + N as u64, "{case}");
            assert_ne!(world.state(), before, "{case}");
        }
    }
}

#[test]
fn aligned_loops_that_fail_change_nothing() {
    check_failures(Way::Aligned);
}

#[test]
fn grids_that_fail_change_nothing() {
    check_failures(Way::Grid);
}

#[test]
fn coloured_loops_that_fail_change_nothing() {
    check_failures(Way::Coloured);
}

#[test]
fn serial_loops_that_fail_change_nothing() {
    check_failures(Way::Serial);
}

#[test]
fn of_several_failures_the_first_in_the_serial_order_is_reported() {
    for way in WAYS {
        for threads in [1, 2, 3] {
            let mut world = World::new(way, threads);
            let order: Vec<usize> = world.run(way).unwrap().serial_order().collect();
            let bad: Vec<usize> = (0..20).map(|k| below(k, N)).collect();
            for (k, &i) in bad.iter().enumerate() {
                world.fails.set(i, KINDS[k % KINDS.len()]).unwrap();
            }
            let first = *order.iter().find(|i| bad.contains(i)).unwrap();
            let kind = world.fails.get(first).unwrap();
            let before = world.state();
            for _ in 0..3 {
                let error = world.run(way).unwrap_err();
                check_error(&error, kind, first, world.cols.len(), &format!("{way:?}, {threads} threads"));
                assert_eq!(world.state(), before);
            }
        }
    }
}

/// 50 of 200,000 elements are touched: those are saved one by one.
#[test]
fn sparse_loops_that_fail_change_nothing() {
    const LEN: usize = 200_000;
    for way in [Way::Grid, Way::Coloured, Way::Serial] {
        for threads in [1, 3] {
            let session = session(threads);
            let mut floats = DVector::from_fn(&session, LEN, |i| i as f64).unwrap();
            let mut lists = DVector::from_fn(&session, LEN, |i| vec![i.to_string()]).unwrap();
            let targets = DVector::from_fn(&session, 100, |i| below((i % 50) as u64, LEN) as u32).unwrap();
            let total = session.sum(0i64);
            let strategy = way.option();
            let mut run = |bad: usize| {
                async_parallel_for!(
                    0..100,
                    [bad, &targets, &mut floats, &mut lists, &total],
                    |i| {
                        let target = targets[i];
                        floats[target] *= 2.0;
                        lists[target].push(i.to_string());
                        total.add(1);
                        if i == bad { Err("bad luck") } else { Ok(()) }
                    },
                    strategy = strategy
                )
            };
            let case = format!("{way:?}, {threads} threads");
            for bad in [99, 0, 57] {
                match run(bad).unwrap_err() {
                    Error::Body { iteration, source, .. } => {
                        assert_eq!((iteration, source.to_string()), (bad, "bad luck".to_string()), "{case}");
                    }
                    other => panic!("{case}: {other}"),
                }
            }
            let report = run(1000).unwrap();
            assert_eq!(report.strategy(), way.strategy(), "{case}");
            assert!(run(3).is_err(), "{case}");
            assert_eq!(total.get(), 100, "{case}");
            let mut touched: Vec<usize> = targets.iter().unwrap().map(|target| target as usize).collect();
            touched.sort_unstable();
            let (floats, lists) = (floats.to_vec().unwrap(), lists.to_vec().unwrap());
            for i in 0..LEN {
                let times = touched.partition_point(|&t| t <= i) - touched.partition_point(|&t| t < i);
                assert_eq!(floats[i], i as f64 * (1 << times) as f64, "{case}: floats[{i}]");
                assert_eq!((lists[i].len(), &*lists[i][0]), (1 + times, &*i.to_string()), "{case}: lists[{i}]");
            }
        }
    }
}

/// A loop of one iteration records nothing, so the failure comes from the run alone.
#[test]
fn sparse_loops_of_one_iteration_that_fail_change_nothing() {
    let session = session(2);
    let mut lists = DVector::from_fn(&session, 100_000, |i| vec![i.to_string()]).unwrap();
    let before = lists.digest().unwrap();
    let error = async_parallel_for!(5..6, [&mut lists], |i| {
        lists[i * 1000].push("changed".to_string());
        let (one, other) = lists.pair_mut(i, 99_999u32);
        one.append(other);
        lists[7 * i].clear();
        lists[100_000].clear();
    })
    .unwrap_err();
    assert!(
        matches!(error, Error::IndexOutOfRange { dds: "lists", index: 100_000, len: 100_000, iteration: 5, .. }),
        "{error}"
    );
    assert_eq!(lists.digest().unwrap(), before);
}

#[test]
fn a_body_may_catch_its_own_panics() {
    for way in WAYS {
        let session = session(2);
        let (rows, cols) = if way == Way::Aligned { (N, N) } else { (24, 30) };
        let pairs = DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap();
        let mut x = DVector::from_fn(&session, rows, |_| 0u32).unwrap();
        let mut y = DVector::from_fn(&session, cols, |_| 0u32).unwrap();
        let strategy = way.option();
        let report = async_parallel_for!(
            0..N,
            [&pairs, &mut x, &mut y],
            |i| {
                let [a, b] = pairs[i];
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    x[a] += 1;
                    if i % 2 == 0 {
                        panic!("even");
                    }
                }));
                y[b] += if caught.is_err() { 10 } else { 1 };
            },
            strategy = strategy,
            parts = 3
        )
        .unwrap();
        assert_eq!((report.strategy(), report.misspeculations()), (way.strategy(), 0));
        let (mut px, mut py) = (vec![0; rows], vec![0; cols]);
        for (i, [a, b]) in pairs.iter().unwrap().enumerate() {
            px[a as usize] += 1;
            py[b as usize] += if i % 2 == 0 { 10 } else { 1 };
        }
        assert_eq!((x.to_vec().unwrap(), y.to_vec().unwrap()), (px, py), "{way:?}");
    }
}

/// A body that catches the end of its iteration where it is misspeculated is begun again all the same.
#[test]
fn a_body_that_catches_its_unwinding_cannot_hide_a_misspeculation() {
    let (rows, cols) = (60, 60);
    for way in [Way::Grid, Way::Coloured] {
        for threads in [1, 2, 3] {
            let session = session(threads);
            let mut pairs = DVector::from_fn(&session, N, |i| way.pair(i, rows, cols)).unwrap();
            let mut x = DVector::from_fn(&session, rows, |_| 0u32).unwrap();
            let mut y = DVector::from_fn(&session, cols, |_| 0u32).unwrap();
            let strategy = way.option();
            let mut run = |pairs: &DVector<[u32; 2]>| {
                async_parallel_for!(
                    0..N,
                    [&pairs, &mut x, &mut y],
                    |i| {
                        let [a, b] = pairs[i];
                        let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| x[a] += 1));
                        y[b] += 1;
                    },
                    strategy = strategy,
                    parts = 3
                )
                .unwrap()
            };
            assert_eq!(run(&pairs).misspeculations(), 0);
            for i in 0..N {
                let [a, b] = pairs.get(i).unwrap();
                pairs.set(i, [(a + 31) % rows as u32, b]).unwrap();
            }
            assert_eq!(run(&pairs).misspeculations(), 1, "{way:?}, {threads} threads");
            let mut expected = vec![0; rows];
            for (i, [a, _]) in pairs.iter().unwrap().enumerate() {
                expected[a as usize] += 1;
                expected[way.pair(i, rows, cols)[0] as usize] += 1;
            }
            assert_eq!(x.to_vec().unwrap(), expected, "{way:?}, {threads} threads");
            assert_eq!(y.iter().unwrap().sum::<u32>(), 2 * N as u32);
        }
    }
}

static FRAGILE: AtomicBool = AtomicBool::new(false);

/// An element that can be cloned while all is well.
#[derive(Debug, PartialEq, Element)]
struct Fragile(u32, String);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        assert!(self.0 < 1000 || !FRAGILE.load(Relaxed), "element {} can't be cloned", self.0 - 1000);
        Fragile(self.0, self.1.clone())
    }
}

#[test]
fn elements_whose_clone_panics_fail_the_loop_and_keep_their_values() {
    // 13: one of many. Usize::MAX: all of them, those that placeholders are made from as well.
    for broken in [13, usize::MAX] {
        for way in WAYS {
            // A large vector is saved element by element.
            for (len, threads) in [(N, 1), (N, 2), (N, 3), (40_000, 2)] {
                if way == Way::Aligned && len != N {
                    continue;
                }
                let case = format!("{way:?}, {len} elements, {threads} threads, broken: {broken}");
                let session = session(threads);
                let number = |i: usize| if i == broken || broken == usize::MAX { 1000 + i as u32 } else { i as u32 };
                let mut x = DVector::from_fn(&session, len, |i| Fragile(number(i % N), format!("{i}"))).unwrap();
                let mut other = DVector::from_fn(&session, N, |i| vec![i.to_string()]).unwrap();
                let count = session.count();
                let before = (x.digest().unwrap(), other.digest().unwrap());
                let strategy = way.option();
                let aligned = way == Way::Aligned;
                let mut run = || {
                    async_parallel_for!(
                        0..N,
                        [aligned, &mut x, &mut other, &count],
                        |i| {
                            other[i].push("touched".to_string());
                            count.add(1);
                            if aligned {
                                x[i].1.push('x');
                            } else {
                                x[i / 7].1.push('x');
                                x[i / 2 + 2].1.push('y');
                            }
                        },
                        strategy = strategy,
                        parts = 3
                    )
                };
                FRAGILE.store(true, Relaxed);
                let result = run();
                FRAGILE.store(false, Relaxed);
                match result.unwrap_err() {
                    Error::Panic { message, iteration, .. } => {
                        assert!(message.starts_with("element ") && message.ends_with(" can't be cloned"), "{message}");
                        assert!(iteration < N, "{case}");
                    }
                    error => panic!("{case}: {error}"),
                }
                assert_eq!(count.get(), 0, "{case}");
                // Then it works.
                let second = run();
                assert_eq!(second.unwrap().iterations(), N, "{case}");
                assert_eq!(count.get(), N as u64, "{case}");
                let after: Vec<usize> = x.iter().unwrap().map(|x| x.1.matches(['x', 'y']).count()).collect();
                let touches = if aligned { N } else { 2 * N };
                assert_eq!(after.iter().sum::<usize>(), touches, "{case}: more than one loop left a trace");
                assert!(other.iter().unwrap().all(|list| list.len() == 2), "{case}");
                assert_ne!((x.digest().unwrap(), other.digest().unwrap()), before, "{case}");
            }
        }
    }
}

/// The child of the test below.
#[test]
fn child_whose_loops_panic() {
    if std::env::var_os("STRADSAP_TESTS_CHILD").is_none() {
        return;
    }
    for threads in [1, 3] {
        let mut world = World::new(Way::Grid, threads);
        world.fails.set(5, PANIC).unwrap();
        world.fails.set(500, STATIC_PANIC).unwrap();
        assert!(matches!(world.run(Way::Grid), Err(Error::Panic { .. })));
    }
    // Panics that are not a loop's are still told.
    let _ = catch_unwind(AssertUnwindSafe(|| panic!("outside of loops")));
    eprintln!("the child is done");
}

#[test]
fn panics_of_bodies_are_not_printed_and_others_are() {
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "failures::child_whose_loops_panic", "--nocapture", "--test-threads=1"])
        .env("STRADSAP_TESTS_CHILD", "1")
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.contains("the child is done"), "{text}");
    assert!(text.contains("outside of loops"), "{text}");
    assert_eq!(text.matches("panicked at").count(), 1, "{text}");
    assert!(!text.contains("panics") && !text.contains("no arguments"), "{text}");
}
