//! What recording a loop costs: runs of the body, and copies of elements.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::common::session;
use stradsap::prelude::*;

static CLONES: AtomicUsize = AtomicUsize::new(0);

#[derive(Debug, Default, PartialEq, Element)]
struct Row {
    numbers: Vec<f64>,
}

impl Clone for Row {
    fn clone(&self) -> Row {
        CLONES.fetch_add(1, Relaxed);
        Row { numbers: self.numbers.clone() }
    }
}

#[test]
fn a_row_is_copied_once_an_iteration_however_often_it_is_reached() {
    let session = session(2);
    let rows = (0..50).map(|i| Row { numbers: vec![f64::from(i); 300] });
    let mut rows = DVector::from_vec(&session, rows.collect()).unwrap();
    let before = CLONES.load(Relaxed);
    async_parallel_for!(0..50, [&mut rows], |i| {
        for k in 1..300 {
            rows[i].numbers[k] = 0.5 * (rows[i].numbers[k] + rows[i].numbers[k - 1]);
        }
        rows[i..=i][0].numbers[0] += 1.0;
        rows[i..=i][0].numbers[0] += 1.0;
    })
    .unwrap();
    // One of a single row and one of a range to record, two to make the placeholders of each slice, one to undo.
    let clones = CLONES.load(Relaxed) - before;
    assert!(clones <= 50 * 5, "{clones} copies for 50 iterations");
    let mut plain = vec![7.0; 300];
    (1..300).for_each(|k| plain[k] = 0.5 * (plain[k] + plain[k - 1]));
    plain[0] += 2.0;
    assert_eq!(rows.get(7).unwrap().numbers, plain);
}

#[test]
fn a_body_that_reaches_every_element_is_recorded_once() {
    static RUNS: AtomicUsize = AtomicUsize::new(0);
    let session = session(2);
    let n = 150_000;
    let x = DVector::from_fn(&session, n, |i| i as u64).unwrap();
    let mut y = DVector::from_fn(&session, 4, |_| 0).unwrap();
    async_parallel_for!(0..4, [&x, &mut y], |i| {
        RUNS.fetch_add(1, Relaxed);
        for k in 0..x.len() {
            y[i] += x[k];
        }
    })
    .unwrap();
    assert_eq!(y.to_vec().unwrap(), vec![(0..n as u64).sum::<u64>(); 4]);
    assert_eq!(RUNS.swap(0, Relaxed), 2 * 4);
    // All at once.
    async_parallel_for!(0..4, [&x, &mut y], |i| {
        RUNS.fetch_add(1, Relaxed);
        (0..20).for_each(|_| y[i] -= x[..].iter().sum::<u64>() / 20);
    })
    .unwrap();
    assert_eq!(RUNS.swap(0, Relaxed), 2 * 4);
    let mut x = x;
    async_parallel_for!(0..2, [&mut x, &y], |i| {
        RUNS.fetch_add(1, Relaxed);
        for k in 0..x.len() {
            x[k] += y[i] + 1;
        }
        x[..].reverse();
    })
    .unwrap();
    assert_eq!(RUNS.swap(0, Relaxed), 2 * 2);
    assert_eq!(x.get(5).unwrap(), 7 + y.get(0).unwrap() + y.get(1).unwrap());
}
