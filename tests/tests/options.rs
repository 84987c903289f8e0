//! The options of a loop: order, parts, strategy, label; over which ranges; with which captures.

use crate::common::{Rating, bits, bits32, ratings, session};
use stradsap::prelude::*;
use stradsap::{Error, LoopProblem, Result};

const RANK: usize = 4;

/// A matrix factorisation, as far as options are concerned.
struct Model {
    data: DVector<Rating>,
    p: DVector<[f32; RANK]>,
    q: DVector<[f32; RANK]>,
    loss: stradsap::Sum<f64>,
    loss32: stradsap::Sum<f32>,
}

/// Its bits.
#[derive(Clone, PartialEq, Debug)]
struct Bits {
    p: Vec<u32>,
    q: Vec<u32>,
    loss: u64,
    loss32: u32,
}

macro_rules! update {
    ($r:expr, $p:expr, $q:expr, $loss:expr, $loss32:expr) => {{
        let r = $r;
        let (pu, qi) = (&mut $p, &mut $q);
        let e = r.stars - kernels::dot(pu, qi);
        for (a, b) in pu.iter_mut().zip(qi.iter_mut()) {
            let (x, y) = (*a, *b);
            *a += 0.05 * (e * y - 0.02 * x);
            *b += 0.05 * (e * x - 0.02 * y);
        }
        $loss.add(f64::from(e) * f64::from(e));
        $loss32.add(e);
    }};
}

struct PlainSum<T>(T);

impl<T: std::ops::AddAssign> PlainSum<T> {
    fn add(&mut self, value: T) {
        self.0 += value;
    }
}

fn start(i: usize) -> [f32; RANK] {
    std::array::from_fn(|k| ((i * 31 + k * 7) % 19) as f32 / 40.0)
}

impl Model {
    fn new(session: &Session, n: usize, users: usize, items: usize) -> Model {
        Model {
            data: DVector::from_vec(session, ratings(n, users, items)).unwrap(),
            p: DVector::from_fn(session, users, start).unwrap(),
            q: DVector::from_fn(session, items, start).unwrap(),
            loss: session.sum(0.1),
            loss32: session.sum(0.1),
        }
    }

    fn epoch(&mut self, order: Order, parts: Option<usize>, strategy: Option<Strategy>) -> Result<LoopReport> {
        let Model { data, p, q, loss, loss32 } = self;
        let n = data.len();
        macro_rules! run {
            ($($option:tt)*) => {
                async_parallel_for!(0..n, [&data, &mut p, &mut q, &loss, &loss32], |i| {
                    let r = data[i];
                    update!(r, p[r.user], q[r.item], loss, loss32);
                }, order = order $($option)*)
            };
        }
        match (parts, strategy) {
            (None, None) => run!(),
            (Some(parts), None) => run!(, parts = parts),
            (None, Some(strategy)) => run!(, strategy = strategy),
            (Some(parts), Some(strategy)) => run!(, strategy = strategy, parts = parts),
        }
    }

    fn bits(&self) -> Bits {
        Bits {
            p: bits32(self.p.iter().unwrap().flatten()),
            q: bits32(self.q.iter().unwrap().flatten()),
            loss: self.loss.get().to_bits(),
            loss32: self.loss32.get().to_bits(),
        }
    }
}

/// The same without the library: epochs, each in an order.
fn plain(data: &[Rating], users: usize, items: usize, orders: &[Vec<usize>]) -> Bits {
    let mut p: Vec<[f32; RANK]> = (0..users).map(start).collect();
    let mut q: Vec<[f32; RANK]> = (0..items).map(start).collect();
    let (mut loss, mut loss32) = (PlainSum(0.1f64), PlainSum(0.1f32));
    for order in orders {
        for &i in order {
            let r = data[i];
            update!(r, p[r.user as usize], q[r.item as usize], loss, loss32);
        }
    }
    Bits {
        p: bits32(p.into_iter().flatten()),
        q: bits32(q.into_iter().flatten()),
        loss: loss.0.to_bits(),
        loss32: loss32.0.to_bits(),
    }
}

#[test]
fn preserve_equals_the_plain_loop_bit_for_bit() {
    let (n, users, items) = (3000, 200, 90);
    let own: Vec<usize> = (0..n).collect();
    let expected = plain(&ratings(n, users, items), users, items, &[own.clone(), own]);
    for strategy in [None, Some(Strategy::Grid), Some(Strategy::Coloured), Some(Strategy::Serial)] {
        for parts in [None, Some(3), Some(16)] {
            for threads in [1, 2, 3, 8] {
                let session = session(threads);
                let mut model = Model::new(&session, n, users, items);
                for _ in 0..2 {
                    model.epoch(Order::Preserve, parts, strategy).unwrap();
                }
                assert_eq!(model.bits(), expected, "{strategy:?}, {parts:?} parts, {threads} threads");
            }
        }
    }
}

/// Large enough to be read off a sample, and to have many blocks.
#[test]
fn preserve_equals_the_plain_loop_for_many_ratings() {
    let (n, users, items) = (50_000, 5000, 3000);
    let own: Vec<usize> = (0..n).collect();
    let expected = plain(&ratings(n, users, items), users, items, &[own]);
    for strategy in [None, Some(Strategy::Coloured)] {
        for threads in [1, 3] {
            let session = session(threads);
            let mut model = Model::new(&session, n, users, items);
            let report = model.epoch(Order::Preserve, None, strategy).unwrap();
            assert_eq!(model.bits(), expected, "{strategy:?}, {threads} threads, {}", report.strategy());
        }
    }
}

#[test]
fn without_preserve_the_claimed_order_gives_the_rows() {
    let (n, users, items) = (3000, 200, 90);
    for strategy in [None, Some(Strategy::Grid), Some(Strategy::Coloured)] {
        let mut sums = Vec::new();
        for threads in [1, 2, 3, 8] {
            let session = session(threads);
            let mut model = Model::new(&session, n, users, items);
            let order: Vec<usize> = model.epoch(Order::Any, Some(4), strategy).unwrap().serial_order().collect();
            let expected = plain(&ratings(n, users, items), users, items, &[order]);
            let found = model.bits();
            assert_eq!((&found.p, &found.q), (&expected.p, &expected.q), "{strategy:?}, {threads} threads");
            sums.push((found.loss, found.loss32));
        }
        assert!(sums.iter().all(|sum| *sum == sums[0]), "{strategy:?}: {sums:?}");
    }
}

#[test]
fn any_number_of_parts_up_to_1024() {
    let (n, users, items) = (3000, 200, 90);
    for (parts, expected) in [(1, 1), (3, 9), (7, 49), (1024, usize::MAX)] {
        for threads in [1, 3] {
            let session = session(threads);
            let mut model = Model::new(&session, n, users, items);
            let report = model.epoch(Order::Any, Some(parts), Some(Strategy::Grid)).unwrap();
            let order: Vec<usize> = report.serial_order().collect();
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..n), "{parts} parts: no permutation");
            let found = model.bits();
            let replay = plain(&ratings(n, users, items), users, items, &[order]);
            assert_eq!((found.p, found.q), (replay.p, replay.q), "{parts} parts, {threads} threads");
            if expected < usize::MAX {
                assert_eq!((report.strategy(), report.blocks()), (Strategy::Grid, expected));
                if parts > 1 {
                    let text = format!("{parts} parts of `p`, {parts} parts of `q`");
                    assert!(report.to_string().contains(&text), "{report}");
                }
            }
        }
    }
}

#[test]
fn other_numbers_of_parts_are_refused() {
    let session = session(1);
    let mut model = Model::new(&session, 30, 5, 5);
    let before = model.bits();
    for given in [0, 1025, usize::MAX] {
        let error = model.epoch(Order::Any, Some(given), None).unwrap_err();
        let text = error.to_string();
        match &error {
            Error::Loop { site, problem: LoopProblem::Parts { given: told, max: 1024 } } => {
                assert_eq!(*told, given);
                assert!(site.contains("tests/options.rs:"), "{site}");
                let expected = format!("{site}: `parts` must be from 1 to 1024, not {given}");
                assert_eq!(text, expected);
            }
            _ => panic!("{error:?}"),
        }
    }
    assert_eq!(model.bits(), before);
}

#[test]
fn the_strategy_that_was_asked_for_and_the_label_are_reported() {
    let session = session(2);
    let mut model = Model::new(&session, 3000, 200, 90);
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let report = model.epoch(Order::Any, Some(4), Some(strategy)).unwrap();
        assert_eq!(report.strategy(), strategy);
        assert_eq!(report.label(), None);
        assert!(report.to_string().contains(strategy.as_str()), "{report}");
    }
    let mut x = DVector::from_fn(&session, 10, |i| i).unwrap();
    let name = String::from("doubling");
    let report = async_parallel_for!(0..10, [&mut x], |i| x[i] *= 2, label = name).unwrap();
    assert_eq!(report.label(), Some("doubling"));
    assert!(report.to_string().starts_with(&format!("loop {} (doubling): aligned", report.site())), "{report}");
    assert_eq!(report.site(), format!("{}:{}", file!(), line!() - 3));
    let report = async_parallel_for!(0..10, [&mut x], |i| x[i] *= 2, label = "again").unwrap();
    assert_eq!(report.label(), Some("again"));
    assert!(x.iter().unwrap().eq((0..10).map(|i| 4 * i)));
}

/// Runs a loop over a range, and says which iterations ran.
macro_rules! visited {
    ($session:expr, $range:expr) => {{
        let mut times = DVector::from_fn($session, 50, |_| 0u32).unwrap();
        let sum = $session.sum(0u64);
        let report = async_parallel_for!($range, [&mut times, &sum], |i| {
            times[i] += 1;
            sum.add(u64::try_from(i).unwrap());
        })
        .unwrap();
        assert!(times.iter().unwrap().all(|times| times <= 1));
        let ran: Vec<usize> =
            times.iter().unwrap().enumerate().filter(|(_, times)| *times == 1).map(|(i, _)| i).collect();
        assert_eq!(sum.get(), ran.iter().sum::<usize>() as u64);
        assert_eq!(report.iterations(), ran.len());
        let mut order: Vec<usize> = report.serial_order().collect();
        order.sort_unstable();
        assert_eq!(order, ran);
        ran
    }};
}

#[test]
fn ranges() {
    for threads in [1, 3] {
        let session = session(threads);
        let session = &session;
        let none: Vec<usize> = Vec::new();
        assert_eq!(visited!(session, 0..0), none);
        assert_eq!(visited!(session, 7..7usize), none);
        #[allow(clippy::reversed_empty_ranges)]
        let backwards = 9..3usize;
        assert_eq!(visited!(session, backwards), none);
        assert_eq!(visited!(session, 0..1), [0]);
        assert_eq!(visited!(session, 49..50usize), [49]);
        assert_eq!(visited!(session, 0..50), (0..50).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..27usize), (13..27).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..27u32), (13..27).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..=27usize), (13..=27).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..=27u32), (13..=27).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..=27i32), (13..=27).collect::<Vec<_>>());
        assert_eq!(visited!(session, 13..=13u64), [13]);
        let end = 20i64;
        assert_eq!(visited!(session, 13..end), (13..20).collect::<Vec<_>>());
    }
}

#[test]
fn ranges_that_no_index_can_be_are_refused() {
    let session = session(1);
    let mut x = DVector::from_fn(&session, 10, |i| i).unwrap();
    let begin = -1i32;
    let error = async_parallel_for!(begin..5, [&mut x], |i| x[i] += 1).unwrap_err();
    assert!(matches!(error, Error::Loop { problem: LoopProblem::NegativeIndex, .. }), "{error:?}");
    assert!(error.to_string().ends_with(": the range has numbers below 0, or too large for an index"));
    let error = async_parallel_for!(0..=usize::MAX, [&mut x], |i| x[i] += 1).unwrap_err();
    assert!(matches!(error, Error::Loop { .. }), "{error:?}");
    let error = async_parallel_for!(5..1usize << 50, [&mut x], |i| x[i] += 1).unwrap_err();
    let expected = LoopProblem::TooLong { len: (1 << 50) - 5, max: 1 << 48 };
    assert!(matches!(&error, Error::Loop { problem, .. } if *problem == expected), "{error:?}");
    // Far from zero, and short.
    let error = async_parallel_for!(1usize << 40..(1 << 40) + 2, [&mut x], |i| x[i] += 1).unwrap_err();
    assert!(
        matches!(error, Error::IndexOutOfRange { index, iteration, len: 10, dds: "x", .. }
            if index == 1 << 40 && iteration == 1 << 40),
        "{error:?}"
    );
    assert!(x.iter().unwrap().eq(0..10));
}

#[test]
fn a_range_far_from_zero_is_shared_and_written() {
    for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
        let session = session(3);
        let data = DVector::from_fn(&session, 3000, |i| [(i * 7 % 40) as u32, (i * 11 % 60) as u32]).unwrap();
        let mut x = DVector::from_fn(&session, 40, |i| i as f64).unwrap();
        let mut y = DVector::from_fn(&session, 60, |i| i as f64).unwrap();
        let report = async_parallel_for!(
            1700..=2799usize,
            [&data, &mut x, &mut y],
            |i| {
                let [a, b] = data[i];
                x[a] = x[a] * 0.9 + i as f64;
                y[b] = y[b] * 0.8 + x[a];
            },
            strategy = strategy,
            parts = 4
        )
        .unwrap();
        assert_eq!(report.strategy(), strategy);
        let order: Vec<usize> = report.serial_order().collect();
        assert_eq!(order.len(), 1100);
        assert!(order.iter().all(|i| (1700..2800).contains(i)));
        let (mut px, mut py): (Vec<f64>, Vec<f64>) =
            ((0..40).map(f64::from).collect(), (0..60).map(f64::from).collect());
        for i in order {
            let (a, b) = (i * 7 % 40, i * 11 % 60);
            px[a] = px[a] * 0.9 + i as f64;
            py[b] = py[b] * 0.8 + px[a];
        }
        assert_eq!((bits(x.iter().unwrap()), bits(y.iter().unwrap())), (bits(px), bits(py)), "{strategy}");
    }
}

#[test]
fn captures_that_make_no_loop() {
    let (one, other) = (session(1), session(1));
    let a = one.sum(0.0);
    let b = &a;
    let error = async_parallel_for!(0..10, [&a, &b], |i| {
        a.add(i as f64);
        b.add(1.0);
    })
    .unwrap_err();
    assert!(error.to_string().ends_with(": `a` and `b` are the same DDS: capture it once"), "{error}");
    assert!(
        matches!(error, Error::Loop { problem: LoopProblem::CapturedTwice { first: "a", second: "b" }, .. }),
        "{error:?}"
    );
    assert_eq!(a.get(), 0.0);

    let error = async_parallel_for!(0..10, [], |_i| {}).unwrap_err();
    assert!(matches!(error, Error::Loop { problem: LoopProblem::NothingCaptured, .. }), "{error:?}");
    let k = 3;
    let error = async_parallel_for!(0..10, [k], |i| assert!(i > k)).unwrap_err();
    assert!(
        error.to_string().ends_with(": the capture list holds no DDS and no reduction: such a loop can have no effect"),
        "{error}"
    );

    let mut x = DVector::from_fn(&one, 10, |_| 0).unwrap();
    let y = DVector::from_fn(&other, 10, |i| i).unwrap();
    let error = async_parallel_for!(0..10, [&y, &mut x], |i| x[i] += y[i]).unwrap_err();
    assert!(error.to_string().ends_with(": `y` and `x` belong to different sessions"), "{error}");
    assert_eq!(x.to_vec().unwrap(), [0; 10]);
    let count = other.count();
    let error = async_parallel_for!(0..10, [&mut x, &count], |i| {
        x[i] += 1;
        count.add(1);
    })
    .unwrap_err();
    assert!(
        matches!(error, Error::Loop { problem: LoopProblem::TwoSessions { first: "x", second: "count" }, .. }),
        "{error:?}"
    );
    assert_eq!((x.to_vec().unwrap(), count.get()), (vec![0; 10], 0));
}

/// The same vector may be read under two names, and two reductions of one kind are two.
#[test]
fn captures_that_look_alike() {
    let session = session(2);
    let x = DVector::from_fn(&session, 100, |i| i as u64).unwrap();
    let also_x = &x;
    let (a, b) = (session.sum(0u64), session.sum(0u64));
    async_parallel_for!(0..99, [&x, &also_x, &a, &b], |i| {
        a.add(x[i]);
        b.add(also_x[i + 1]);
    })
    .unwrap();
    assert_eq!((a.get(), b.get()), ((0..99).sum(), (1..100).sum()));
}

fn parse(text: &str) -> std::result::Result<i64, std::num::ParseIntError> {
    text.trim().parse::<i64>()
}

#[test]
fn bodies_may_end_with_a_question_mark() {
    let session = session(2);
    let mut words: DVector<String> = DVector::from_fn(&session, 500, |i| format!(" {} ", i * 3)).unwrap();
    let total = session.sum(0i64);
    let run = |words: &DVector<String>| {
        async_parallel_for!(0..words.len(), [&words, &total], |i| {
            if i % 5 == 0 {
                return Ok(());
            }
            total.add(parse(&words[i])?);
            Ok::<(), std::num::ParseIntError>(())
        })
    };
    run(&words).unwrap();
    let expected: i64 = (0..500).filter(|i| i % 5 != 0).map(|i| 3 * i).sum();
    words.set(321, "three".to_string()).unwrap();
    // Where nobody looks.
    words.set(320, "four".to_string()).unwrap();
    match run(&words).unwrap_err() {
        Error::Body { iteration: 321, source, .. } => {
            assert!(source.downcast_ref::<std::num::ParseIntError>().is_some());
            assert_eq!(source.to_string(), "invalid digit found in string");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(total.get(), expected);
}

fn inner_total() -> Result<u64> {
    let session = session(2);
    let sum = session.sum(0u64);
    async_parallel_for!(0..10, [&sum], |i| sum.add(i as u64))?;
    Ok(sum.get())
}

/// A loop in a function that another loop's body calls.
#[test]
fn loops_in_loops_are_refused() {
    assert_eq!(inner_total().unwrap(), 45);
    let session = session(2);
    let mut x = DVector::from_fn(&session, 100, |_| 0u64).unwrap();
    let result = async_parallel_for!(0..100, [&mut x], |i| {
        x[i] = inner_total()?;
        Ok::<(), Error>(())
    });
    match result.unwrap_err() {
        Error::Body { iteration: 0, source, .. } => {
            let inner = source.downcast_ref::<Error>();
            assert!(matches!(inner, Some(Error::Loop { problem: LoopProblem::Nested, .. })), "{source}");
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(x.to_vec().unwrap(), [0; 100]);
}
