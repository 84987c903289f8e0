//! Reductions: what all iterations come to, the same on any number of threads.

use crate::common::{Way, mix, session};
use stradsap::prelude::*;

const N: usize = 5000;
const THREADS: [usize; 4] = [1, 2, 3, 8];

/// Numbers of very different sizes: any other order of additions shows.
fn number(i: usize) -> f64 {
    let scale = [1e-9, 1.0, 1e9, 1e16][i % 4];
    (mix(i as u64) % 10_000) as f64 * scale / 7.0 * if i.is_multiple_of(3) { -1.0 } else { 1.0 }
}

/// What all reductions hold after a loop.
#[derive(Clone, Debug, PartialEq)]
struct Totals {
    sum: u64,
    sum32: u32,
    ints: i32,
    big: u64,
    low: u64,
    high: u32,
    lowest: i64,
    count: u64,
}

/// Runs loops that strain all kinds at once, in step (`Aligned`) or over shared elements.
fn totals(way: Way, threads: usize, order: Order, loops: usize) -> (Totals, Vec<usize>) {
    let session = session(threads);
    let numbers = DVector::from_fn(&session, N, number).unwrap();
    let pairs = DVector::from_fn(&session, N, |i| way.pair(i, 40, 50)).unwrap();
    let cells = if way == Way::Aligned { N } else { 50 };
    let mut x = DVector::from_fn(&session, cells, |_| 0.0f64).unwrap();
    let mut y = DVector::from_fn(&session, cells, |_| 0.0f64).unwrap();
    let (sum, sum32) = (session.sum(1.0f64), session.sum(1.0f32));
    let (ints, big) = (session.sum(i32::MAX - 5), session.sum(u64::MAX));
    let (low, high) = (session.min(1e30f64), session.max(f32::NEG_INFINITY));
    let (lowest, count) = (session.min(i64::MAX), session.count());
    let strategy = way.option();
    let mut serial_order = Vec::new();
    for _ in 0..loops {
        let report = async_parallel_for!(
            0..N,
            [&numbers, &pairs, &mut x, &mut y, &sum, &sum32, &ints, &big, &low, &high, &lowest, &count],
            |i| {
                let [a, b] = pairs[i];
                let number = numbers[i];
                x[a] += number;
                y[b] += number;
                sum.add(number);
                sum32.add(number as f32);
                ints.add((i as i32).wrapping_mul(1_000_003));
                big.add(i as u64);
                low.min(number);
                high.max(number as f32);
                lowest.min(i as i64 - 70);
                count.add(2);
            },
            strategy = strategy,
            order = order,
            parts = 4
        )
        .unwrap();
        assert_eq!(report.strategy(), way.strategy());
        serial_order = report.serial_order().collect();
    }
    let totals = Totals {
        sum: sum.get().to_bits(),
        sum32: sum32.get().to_bits(),
        ints: ints.get(),
        big: big.get(),
        low: low.get().to_bits(),
        high: high.get().to_bits(),
        lowest: lowest.get(),
        count: count.get(),
    };
    (totals, serial_order)
}

fn plain(loops: usize) -> Totals {
    let (mut sum, mut sum32) = (1.0f64, 1.0f32);
    let (mut ints, mut big) = (i32::MAX - 5, u64::MAX);
    let (mut low, mut high) = (1e30f64, f32::NEG_INFINITY);
    for _ in 0..loops {
        for i in 0..N {
            sum += number(i);
            sum32 += number(i) as f32;
            ints = ints.wrapping_add((i as i32).wrapping_mul(1_000_003));
            big = big.wrapping_add(i as u64);
            low = low.min(number(i));
            high = high.max(number(i) as f32);
        }
    }
    Totals {
        sum: sum.to_bits(),
        sum32: sum32.to_bits(),
        ints,
        big,
        low: low.to_bits(),
        high: high.to_bits(),
        lowest: -70,
        count: 2 * (N * loops) as u64,
    }
}

#[test]
fn totals_do_not_depend_on_threads() {
    for way in [Way::Aligned, Way::Grid, Way::Coloured, Way::Serial] {
        for loops in [1, 3] {
            let (expected, order) = totals(way, 1, Order::Any, loops);
            for threads in THREADS {
                assert_eq!(totals(way, threads, Order::Any, loops), (expected.clone(), order.clone()), "{way:?}");
            }
            // All but the sums of floats are what they are in any order; those are near.
            let plain = plain(loops);
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-5 * a.abs();
            assert!(near(f64::from_bits(expected.sum), f64::from_bits(plain.sum)), "{way:?}");
            assert_eq!(Totals { sum: expected.sum, sum32: expected.sum32, ..plain }, expected, "{way:?}");
        }
    }
}

#[test]
fn preserve_adds_floats_in_the_order_of_the_plain_loop() {
    for way in [Way::Aligned, Way::Coloured, Way::Serial] {
        for threads in THREADS {
            let (found, _) = totals(way, threads, Order::Preserve, 2);
            assert_eq!(found, plain(2), "{way:?}, {threads} threads");
        }
    }
}

#[test]
fn a_reduction_alone_makes_a_loop() {
    for threads in THREADS {
        let session = session(threads);
        let sum = session.sum(0usize);
        for round in 1..=3 {
            let report = async_parallel_for!(0..10_000, [&sum], |i| sum.add(i)).unwrap();
            assert_eq!(report.strategy(), Strategy::Aligned);
            assert_eq!(sum.get(), round * 49_995_000);
        }
        sum.set(5);
        async_parallel_for!(0..2, [&sum], |i| sum.add(i)).unwrap();
        assert_eq!(sum.get(), 6);
        async_parallel_for!(0..0, [&sum], |i| sum.add(i)).unwrap();
        assert_eq!(sum.get(), 6);
    }
}

#[test]
fn nan_is_passed_over_and_minus_zero_is_smaller() {
    let cases: [(&[f64], f64, f64); 5] = [
        (&[f64::NAN, 3.0, f64::NAN, -2.0], -2.0, 3.0),
        (&[0.0, -0.0, 0.0], -0.0, 0.0),
        (&[-0.0, -0.0], -0.0, -0.0),
        (&[f64::NAN], f64::INFINITY, f64::NEG_INFINITY),
        (&[f64::NEG_INFINITY, f64::INFINITY, f64::NAN], f64::NEG_INFINITY, f64::INFINITY),
    ];
    for threads in THREADS {
        let session = session(threads);
        for (numbers, low, high) in cases {
            // In every rotation, and often enough for many blocks.
            for shift in 0..numbers.len() {
                let rotated = |i: usize| numbers[(i + shift) % numbers.len()];
                let data = DVector::from_fn(&session, 4096 + numbers.len(), rotated).unwrap();
                let (lo, hi) = (session.min(f64::INFINITY), session.max(f64::NEG_INFINITY));
                let (lo32, hi32) = (session.min(f32::INFINITY), session.max(f32::NEG_INFINITY));
                async_parallel_for!(0..data.len(), [&data, &lo, &hi, &lo32, &hi32], |i| {
                    lo.min(data[i]);
                    hi.max(data[i]);
                    lo32.min(data[i] as f32);
                    hi32.max(data[i] as f32);
                })
                .unwrap();
                assert_eq!(lo.get().to_bits(), low.to_bits(), "the least of {numbers:?}");
                assert_eq!(hi.get().to_bits(), high.to_bits(), "the largest of {numbers:?}");
                assert_eq!(lo32.get().to_bits(), (low as f32).to_bits(), "the least of {numbers:?}");
                assert_eq!(hi32.get().to_bits(), (high as f32).to_bits(), "the largest of {numbers:?}");
            }
        }
        let sum = session.sum(1.0f64);
        async_parallel_for!(0..3000, [&sum], |i| sum.add(if i == 2000 { f64::NAN } else { 1.0 })).unwrap();
        assert!(sum.get().is_nan());
    }
}

#[test]
fn integers_wrap_around_in_every_width() {
    macro_rules! wraps {
        ($($t:ty)*) => {$(
            for threads in [1, 3] {
                let session = session(threads);
                let sum = session.sum(<$t>::MAX);
                let lo = session.min(<$t>::MAX);
                let hi = session.max(<$t>::MIN);
                async_parallel_for!(0..4000, [&sum, &lo, &hi], |i| {
                    let value = (i as $t).wrapping_mul(<$t>::MAX - 3);
                    sum.add(value);
                    lo.min(value);
                    hi.max(value);
                })
                .unwrap();
                let values = || (0..4000usize).map(|i| (i as $t).wrapping_mul(<$t>::MAX - 3));
                assert_eq!(sum.get(), values().fold(<$t>::MAX, <$t>::wrapping_add), stringify!($t));
                assert_eq!((Some(lo.get()), Some(hi.get())), (values().min(), values().max()), stringify!($t));
            }
        )*};
    }
    wraps!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
}

#[test]
fn what_is_no_number_gives_way_to_any_number() {
    let session = Session::builder().threads(2).build().unwrap();
    let (low, high) = (session.min(f64::NAN), session.max(f64::NAN));
    async_parallel_for!(0..100, [&low, &high], |i| {
        low.min(i as f64);
        high.max(if i == 50 { f64::NAN } else { i as f64 });
    })
    .unwrap();
    assert_eq!((low.get(), high.get()), (0.0, 99.0));
}

#[test]
fn a_sum_of_negative_zeros_is_one() {
    for threads in [1, 3] {
        let session = session(threads);
        let mut x = DVector::from_fn(&session, 3000, |i| i as f64).unwrap();
        for order in [Order::Any, Order::Preserve] {
            let (sum, none) = (session.sum(-0.0f64), session.sum(-0.0f32));
            async_parallel_for!(
                0..3000,
                [&mut x, &sum, &none],
                |i| {
                    x[i * 7 % 3000] += 1.0;
                    sum.add(-0.0);
                    if i > 3000 {
                        none.add(1.0);
                    }
                },
                order = order
            )
            .unwrap();
            assert!(sum.get().is_sign_negative() && none.get().is_sign_negative(), "{order:?}");
        }
    }
}
