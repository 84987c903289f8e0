//! What the first call of a loop finds out soon: that most iterations end early on values from before the loop, that all of them
//! write one element, or conflict with one another. And elements that own memory, which are laid out in the order of execution.

use crate::common::{below, bits, session};
use stradsap::prelude::*;

/// Depths in a tree whose parents come first, some of which are known before.
fn depths(session: &Session, n: usize, known: impl Fn(usize) -> bool) -> LoopReport {
    let parents: Vec<u32> = (0..n).map(|i| if i == 0 { 0 } else { below(i as u64, i) as u32 }).collect();
    let mut plain: Vec<Option<u32>> = (0..n).map(|i| known(i).then_some(0)).collect();
    let parent = DVector::from_vec(session, parents.clone()).unwrap();
    let mut depth = DVector::from_vec(session, plain.clone()).unwrap();
    let run = |depth: &mut DVector<Option<u32>>| {
        async_parallel_for!(
            1..n,
            [&parent, &mut depth],
            |i| {
                let above = depth[parent[i]].expect("parents come first");
                depth[i] = Some(above + 1);
            },
            order = Preserve
        )
        .unwrap()
    };
    let report = run(&mut depth);
    let step =
        |plain: &mut [Option<u32>]| (1..n).for_each(|i| plain[i] = plain[parents[i] as usize].map(|above| above + 1));
    step(&mut plain);
    assert_eq!(depth.to_vec().unwrap(), plain);
    run(&mut depth);
    step(&mut plain);
    assert_eq!(depth.to_vec().unwrap(), plain);
    report
}

#[test]
fn iterations_that_end_early_are_not_all_tried() {
    let session = session(2);
    for n in [200, 5_000, 60_000] {
        let report = depths(&session, n, |i| i == 0);
        assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Serial, 0), "{n}: {report}");
        let advice = report.advice().unwrap();
        assert!(advice.contains("`expect` what others write after that"), "{n}: {advice}");
    }
}

#[test]
fn iterations_that_end_early_here_and_there_leave_a_plan() {
    let session = session(2);
    for n in [200, 5_000, 60_000] {
        // Of 128, 16 of them at the beginning.
        let report = depths(&session, n, |i| i % 128 > 16 || i == 0);
        assert!(!report.reason().starts_with("most iterations"), "{n}: {report}");
    }
}

/// A pass over a tree, a running mean from behind, and counts that hang together: in the loop's own order little could run at the same
/// time, and a sample says so.
#[test]
fn loops_that_keep_their_order_and_hang_together_are_sampled() {
    let session = session(2);
    let n = 100_000;
    let parents: Vec<u32> = (0..n).map(|i| if i == 0 { 0 } else { below(i as u64, i) as u32 }).collect();
    let parent = DVector::from_vec(&session, parents.clone()).unwrap();
    let mut plain = vec![1.0; n];
    let mut x = DVector::from_vec(&session, plain.clone()).unwrap();
    let down =
        async_parallel_for!(1..n, [&parent, &mut x], |i| x[i] = 0.5 * x[parent[i]] + 1.0, order = Preserve).unwrap();
    (1..n).for_each(|i| plain[i] = 0.5 * plain[parents[i] as usize] + 1.0);
    let back = async_parallel_for!((0..n - 1).rev(), [&mut x], |i| x[i] = 0.5 * x[i + 1] + x[i], order = Preserve);
    let back = back.unwrap();
    (0..n - 1).rev().for_each(|i| plain[i] += 0.5 * plain[i + 1]);
    let counts = async_parallel_for!(
        0..n,
        [n, &mut x],
        |i| {
            for k in 0..5 {
                let at = below((5 * i + k) as u64, n / 400);
                x[at] = 0.5 * x[at] + 1.0;
            }
        },
        order = Preserve
    );
    let counts = counts.unwrap();
    for i in 0..n {
        for k in 0..5 {
            let at = below((5 * i + k) as u64, n / 400);
            plain[at] = 0.5 * plain[at] + 1.0;
        }
    }
    assert_eq!(bits(x.to_vec().unwrap()), bits(plain));
    for report in [&down, &counts] {
        assert_eq!(report.strategy(), Strategy::Serial, "{report}");
        assert!(report.reason().ends_with("could run at the same time, by a sample"), "{report}");
        let advice = report.advice().unwrap();
        assert!(advice.contains("leave out `order = Preserve` if any order will do"), "{advice}");
    }
    assert_eq!(back.reason(), "each iteration touches what the one before writes");
}

/// Numbers that are added up in the loop's own order: once and twice in an iteration.
#[test]
fn sums_in_the_loops_own_order() {
    let session = session(3);
    let n = 60_000;
    let x = DVector::from_fn(&session, n, |i| 1.0 / (1.0 + i as f64)).unwrap();
    let mut halves = DVector::from_fn(&session, n, |_| 0.0f64).unwrap();
    let plain = x.to_vec().unwrap();
    for _call in 0..2 {
        let (light, heavy) = (session.sum(0.5f64), session.sum(0.5f64));
        async_parallel_for!(0..n, [&x, &light], |i| light.add(x[i]), order = Preserve).unwrap();
        let report = async_parallel_for!(
            0..n,
            [n, &x, &heavy, &mut halves],
            |i| {
                halves[i] = 0.5 * (0..6).map(|k| x[(i + k) % n]).sum::<f64>();
                heavy.add(x[i]);
                heavy.add(halves[i]);
            },
            order = Preserve
        )
        .unwrap();
        assert_eq!(report.strategy(), Strategy::Aligned, "{report}");
        let half = |i: usize| 0.5 * (0..6).map(|k| plain[(i + k) % n]).sum::<f64>();
        assert_eq!(light.get().to_bits(), plain.iter().fold(0.5, |sum, x| sum + x).to_bits());
        assert_eq!(heavy.get().to_bits(), (0..n).fold(0.5, |sum, i| sum + plain[i] + half(i)).to_bits());
    }
}

/// What a loop that fails taught is forgotten.
#[test]
fn a_loop_that_failed_is_recorded_anew() {
    let session = session(2);
    let n = 50_000;
    let mut x = DVector::from_vec(&session, vec![None; n]).unwrap();
    let run = |x: &mut DVector<Option<u64>>| {
        async_parallel_for!(0..n, [&mut x], |i| {
            let old = x[i].expect("a number");
            x[i] = Some(old + 1);
        })
    };
    let error = run(&mut x).unwrap_err().to_string();
    assert!(error.contains("iteration 0") && error.contains("a number"), "{error}");
    (0..n).for_each(|i| x.set(i, Some(i as u64)).unwrap());
    let report = run(&mut x).unwrap();
    assert_eq!((report.strategy(), report.reused()), (Strategy::Aligned, false), "{report}");
    assert!((0..n).all(|i| x.get(i).unwrap() == Some(i as u64 + 1)));
}

/// Projections onto the planes of dense rows: each iteration reads and writes all of one vector.
fn projections(session: &Session, n: usize, m: usize) -> LoopReport {
    let rows: Vec<f64> = (0..n * m).map(|at| below(at as u64, 100) as f64 / 100.0).collect();
    let matrix = DVector::from_vec(session, rows.clone()).unwrap();
    let mut x = DVector::from_vec(session, vec![0.0f64; m]).unwrap();
    let mut plain = vec![0.0f64; m];
    let mut last = None;
    for call in 0..2 {
        let report = async_parallel_for!(
            0..n,
            [m, &matrix, &mut x],
            |i| {
                let row = &matrix[i * m..(i + 1) * m];
                let found: f64 = row.iter().zip(&x[..]).map(|(a, x)| a * x).sum();
                x[..].iter_mut().zip(row).for_each(|(x, a)| *x += 0.01 * (1.0 - found) * a);
            },
            order = Preserve
        )
        .unwrap();
        for row in rows.chunks(m) {
            let found: f64 = row.iter().zip(&plain).map(|(a, x)| a * x).sum();
            plain.iter_mut().zip(row).for_each(|(x, a)| *x += 0.01 * (1.0 - found) * a);
        }
        assert_eq!(bits(x.to_vec().unwrap()), bits(plain.clone()));
        assert_eq!((report.strategy(), report.reused(), report.misspeculations()), (Strategy::Serial, call > 0, 0));
        last = Some(report);
    }
    last.unwrap()
}

/// Few iterations, and long ones, are sampled as many are.
#[test]
fn long_iterations_that_touch_the_same_elements_are_seen_in_a_sample() {
    let session = session(2);
    let report = projections(&session, 6_000, 200);
    assert!(report.reason().ends_with("by a sample"), "{report}");
    for (n, m) in [(6_000, 3), (600, 200)] {
        let report = projections(&session, n, m);
        assert!(!report.reason().contains("sample"), "{report}");
    }
}

#[test]
fn an_element_that_all_write_is_seen_in_a_sample() {
    let session = session(2);
    let n = 100_000;
    let at = DVector::from_fn(&session, n, |i| below(i as u64, 1000) as u32 + 1).unwrap();
    let mut x = DVector::from_vec(&session, vec![1.0f64; 1001]).unwrap();
    let mut plain = vec![1.0f64; 1001];
    for call in 0..2 {
        let report = async_parallel_for!(0..n, [&at, &mut x], |i| {
            let mean = x[0];
            let own = at[i];
            x[own] += 0.125 * mean;
            x[0] = mean + 0.001 * (x[own] - mean);
        })
        .unwrap();
        assert_eq!(report.strategy(), Strategy::Serial, "{report}");
        assert_eq!(report.reused(), call > 0);
        assert!(report.reason().contains("by a sample"), "{report}");
        assert!(report.advice().unwrap().contains("every iteration touches `x[0]`"), "{report}");
        for i in 0..n {
            let own = below(i as u64, 1000) + 1;
            plain[own] += 0.125 * plain[0];
            plain[0] += 0.001 * (plain[own] - plain[0]);
        }
        assert_eq!(bits(x.to_vec().unwrap()), bits(plain.clone()));
    }
}

/// Of each pair of features an example has one: two examples that share none are not to be found.
#[test]
fn iterations_that_all_conflict_are_seen_in_a_sample() {
    let session = session(2);
    let n = 100_000;
    let example = |i: usize| -> [u32; 20] { std::array::from_fn(|k| (2 * k + below((i * 20 + k) as u64, 2)) as u32) };
    let data = DVector::from_fn(&session, n, example).unwrap();
    let mut w = DVector::from_vec(&session, vec![0.5f64; 40]).unwrap();
    let mut plain = vec![0.5f64; 40];
    for call in 0..2 {
        let report = async_parallel_for!(0..n, [&data, &mut w], |i| {
            let margin: f64 = data[i].iter().map(|&j| w[j]).sum();
            data[i].iter().for_each(|&j| w[j] -= 0.001 * margin);
        })
        .unwrap();
        assert_eq!((report.strategy(), report.reused()), (Strategy::Serial, call > 0), "{report}");
        assert!(report.reason().contains("conflicts with all others, by a sample"), "{report}");
        assert!(report.advice().unwrap().contains("`sync_parallel_for!`"), "{report}");
        for i in 0..n {
            let margin: f64 = example(i).iter().map(|&j| plain[j as usize]).sum();
            example(i).iter().for_each(|&j| plain[j as usize] -= 0.001 * margin);
        }
        assert_eq!(bits(w.to_vec().unwrap()), bits(plain.clone()));
    }
}

/// Examples have some of few features each: two that share none are there to be found, but no plan would be faster.
#[test]
fn iterations_that_mostly_conflict_are_seen_in_a_sample() {
    let session = session(2);
    let n = 100_000;
    let example = |i: usize| -> [u32; 10] { std::array::from_fn(|k| below((i * 10 + k) as u64, 60) as u32) };
    let data = DVector::from_fn(&session, n, example).unwrap();
    let mut w = DVector::from_vec(&session, vec![0.5f64; 60]).unwrap();
    let mut plain = vec![0.5f64; 60];
    let report = async_parallel_for!(0..n, [&data, &mut w], |i| {
        let margin: f64 = data[i].iter().map(|&j| w[j]).sum();
        data[i].iter().for_each(|&j| w[j] -= 0.001 * margin);
    })
    .unwrap();
    assert_eq!(report.strategy(), Strategy::Serial, "{report}");
    assert!(report.reason().contains("most iterations conflict with most others, by a sample"), "{report}");
    for i in 0..n {
        let margin: f64 = example(i).iter().map(|&j| plain[j as usize]).sum();
        example(i).iter().for_each(|&j| plain[j as usize] -= 0.001 * margin);
    }
    assert_eq!(bits(w.to_vec().unwrap()), bits(plain));
}

/// Where others than those of one row conflict, and rows lie one behind the other or in turn, rows run at the same time.
#[test]
fn iterations_that_conflict_in_rows_only_are_recorded_in_full() {
    let session = session(2);
    let (rows, columns) = (64, 1000);
    for in_turn in [false, true] {
        let mut x = DVector::from_vec(&session, vec![1.0f64; rows]).unwrap();
        let report = async_parallel_for!(0..rows * columns, [rows, columns, in_turn, &mut x], |i| {
            let row = if in_turn { i % rows } else { i / columns };
            x[row] = 0.5 * x[row] + i as f64;
        })
        .unwrap();
        assert!(report.strategy() != Strategy::Serial && report.parallelism() > 4.0, "{report}");
    }
}

/// Rows that change between calls are laid out anew, and so are those whose clones panic, which stay where they are.
#[test]
fn rows_are_laid_out_in_the_order_of_execution() {
    #[derive(Element)]
    struct Entry(u32);
    impl Clone for Entry {
        fn clone(&self) -> Self {
            assert!(self.0 != u32::MAX, "no clone of this one");
            Entry(self.0)
        }
    }
    let (n, columns) = (70_000, 3_000);
    let row = |i: usize, by: usize| (0..i % 4).map(|k| Entry(below((by + 4 * i + k) as u64, columns) as u32)).collect();
    let rows = |by: usize| -> Vec<(Vec<Entry>, u64)> { (0..n).map(|i| (row(i, by), (i + by) as u64)).collect() };
    let mut seen = Vec::new();
    for threads in [1, 3] {
        let session = session(threads);
        let mut data = DVector::from_vec(&session, rows(0)).unwrap();
        let mut x = DVector::from_vec(&session, vec![1u64; columns]).unwrap();
        let mut plain = vec![1u64; columns];
        for call in 0..4 {
            if call == 2 {
                let bomb = (vec![Entry(7), Entry(u32::MAX)], 3);
                data.set(n / 2, bomb).unwrap();
            }
            let report = async_parallel_for!(0..n, [&data, columns, &mut x], |i| {
                let (row, by) = &data[i];
                for entry in row {
                    let at = entry.0 as usize % columns;
                    x[at] = x[at].wrapping_mul(5) ^ by;
                }
            })
            .unwrap();
            assert_ne!(report.strategy(), Strategy::Serial, "{report}");
            for i in report.serial_order() {
                let (row, by) =
                    if call >= 2 && i == n / 2 { (vec![Entry(7), Entry(u32::MAX)], 3) } else { (row(i, 0), i as u64) };
                for entry in row {
                    let at = entry.0 as usize % columns;
                    plain[at] = plain[at].wrapping_mul(5) ^ by;
                }
            }
            assert!(x.to_vec().unwrap() == plain, "{threads} threads, call {call}");
        }
        seen.push(x.to_vec().unwrap());
    }
    assert!(seen[0] == seen[1]);
}
