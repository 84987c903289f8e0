//! Several plans of one loop: captured values that choose which elements iterations touch, several models in turn, parts of a
//! range.

use crate::common::{below, bits, mix};
use crate::seen::{Alone, Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    kept::red_and_black_cells,
    kept::colours_beside_values_that_always_change,
    kept::elimination_below_the_pivot,
    kept::elimination_in_order,
    kept::factors_of_a_flat_table,
    kept::windows_that_overlap_in_a_part,
    kept::parts_with_sums,
    kept::parts_that_fail,
    kept::parts_that_stray,
    kept::models_in_turn,
    kept::values_that_are_always_new,
    kept::an_order_that_is_shuffled,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![
    memory_bounds_how_many_plans_are_kept,
    stages_by_a_captured_value_find_their_plans_again,
    many_ranges_find_their_plans_again
];

/// What must be the same everywhere.
pub(crate) mod kept {
    use super::*;

    /// How many calls recorded, and how many were undone.
    #[derive(Debug, Default, PartialEq)]
    struct Calls {
        recorded: usize,
        undone: usize,
    }

    impl Calls {
        fn add(&mut self, report: &LoopReport) {
            self.recorded += usize::from(!report.reused());
            self.undone += report.misspeculations();
        }
    }

    pub(crate) fn red_and_black_cells(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 3000;
        let mut plain: Vec<f64> = (0..n).map(|i| below(i as u64, 100) as f64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut calls = Calls::default();
        for sweep in 0..6 {
            for colour in 0..2 {
                let report = async_parallel_for!(1..n - 1, [colour, &mut x], |i| {
                    if i % 2 == colour {
                        let around = x[i - 1] + x[i + 1];
                        x[i] = 0.5 * around;
                    }
                })?;
                calls.add(&report);
                (1..n - 1).filter(|i| i % 2 == colour).for_each(|i| plain[i] = 0.5 * (plain[i - 1] + plain[i + 1]));
                assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "sweep {sweep}, colour {colour}");
                seen.report("sweep", &report);
            }
        }
        // The first call of the second colour tries the plan of the first.
        assert_eq!(calls, Calls { recorded: 2, undone: 1 });
        Ok(())
    }

    pub(crate) fn colours_beside_values_that_always_change(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 2000;
        let mut plain: Vec<f64> = (0..n).map(|i| below(i as u64, 100) as f64).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut calls = Calls::default();
        let names = ["one", "two", "three"].map(String::from);
        for turn in 0..15 {
            let (rate, name) = (1.0 / (turn + 1) as f64, &names[turn % 3]);
            let report = async_parallel_for!(
                0..n,
                [rate, name, n, &mut x],
                |i| {
                    let far = match name.as_str() {
                        "one" => 500,
                        "two" => 1000,
                        _ => 1500,
                    };
                    let other = x[(i + far) % n];
                    x[i] += rate * (other - x[i]);
                },
                order = Preserve
            )?;
            calls.add(&report);
            for i in 0..n {
                plain[i] += rate * (plain[(i + 500 * (turn % 3 + 1)) % n] - plain[i]);
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "turn {turn}");
            seen.report("turn", &report);
        }
        assert!(calls.recorded <= 3 && calls.undone <= 2, "{calls:?}");
        Ok(())
    }

    /// What a random neighbour holds is taken over, if it's more; and so is what it holds by rows.
    pub(crate) fn values_that_are_always_new(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 1500usize;
        let mut plain: Vec<u64> = (0..n as u64).map(mix).collect();
        let mut x = DVector::from_vec(session, plain.clone())?;
        let mut rows = DVector::from_fn(session, n, |i| [mix(i as u64); 16])?;
        // After eight calls in a row that needed plans of their own, epochs 3 and 12 come again.
        for (call, epoch) in (0..14u64).chain([3, 12, 12]).enumerate() {
            let report = async_parallel_for!(0..n, [epoch, n, &mut x], |i| {
                let other = below(mix(epoch) ^ i as u64, n);
                let most = x[i].max(x[other]);
                x[i] = most;
                x[other] = most;
            })?;
            for i in report.serial_order() {
                let other = below(mix(epoch) ^ i as u64, n);
                let most = plain[i].max(plain[other]);
                (plain[i], plain[other]) = (most, most);
            }
            assert_eq!(x.to_vec()?, plain, "call {call}");
            let serial = report.strategy() == Strategy::Serial;
            let as_ever = report.reason().starts_with("in each of the last 8 calls");
            match call {
                0..8 => assert!(!as_ever && !report.reused(), "call {call}: {report}"),
                8 => assert!(serial && as_ever && !report.reused(), "{report}"),
                9..14 => assert!(serial && as_ever && report.reused(), "call {call}: {report}"),
                // Its own plan was kept; for the other one there is one from now on.
                14 => assert!(!as_ever && report.reused(), "{report}"),
                15 => assert!(!as_ever && !report.reused(), "{report}"),
                _ => assert!(!as_ever && report.reused(), "{report}"),
            }
            seen.report("numbers", &report);
            let report = async_parallel_for!(0..n, [epoch, n, &mut rows], |i| {
                let other = below(mix(epoch) ^ i as u64, n);
                let most = rows[i][0].max(rows[other][0]);
                rows[i][0] = most;
                rows[other][0] = most;
            })?;
            // A plan for long rows pays for one call.
            assert!(!report.reason().starts_with("in each of"), "call {call}: {report}");
            seen.report("rows", &report);
        }
        seen.digest("numbers", &x)?;
        seen.digest("rows", &rows)
    }

    /// Each epoch goes through the data in another order, which stands in a DVector.
    pub(crate) fn an_order_that_is_shuffled(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 2000;
        let mut order = DVector::from_fn(session, n, |i| i as u32)?;
        let mut x = DVector::from_fn(session, 100, |i| i as f64)?;
        let mut plain = x.to_vec()?;
        for epoch in 0..10 {
            // The same one for two epochs, in the end.
            let mut to: Vec<u32> = (0..n as u32).collect();
            to.sort_by_key(|&i| mix(u64::from(i) ^ (epoch.min(8) + 1) << 32));
            order.set(0, to[0])?;
            order.write(1, &to[1..])?;
            let report = async_parallel_for!(0..n, [&order, &mut x], |k| {
                let at = order[k] as usize;
                let other = x[at % 100];
                x[at * 7 % 100] = 0.5 * x[at * 7 % 100] + 0.25 * other;
            })?;
            for k in report.serial_order() {
                let at = to[k] as usize;
                plain[at * 7 % 100] = 0.5 * plain[at * 7 % 100] + 0.25 * plain[at % 100];
            }
            assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "epoch {epoch}");
            let serial = report.strategy() == Strategy::Serial;
            assert!(serial || epoch < 4, "epoch {epoch}: {report}");
            assert!(report.misspeculations() == 0 || epoch <= 4, "epoch {epoch}: {report}");
            seen.report("epoch", &report);
        }
        seen.digest("x", &x)
    }

    /// The rows below row `k`, which is captured as a value.
    fn eliminate(
        rows: &mut DVector<[f64; 40]>,
        plain: &mut [[f64; 40]],
        k: usize,
        order: Order,
    ) -> stradsap::Result<LoopReport> {
        let pivot = rows.get(k)?;
        let pivot = &pivot[..];
        let report = async_parallel_for!(
            k + 1..40,
            [k, pivot, &mut rows],
            |i| {
                let row = &mut rows[i];
                let by = row[k] / pivot[k];
                row[k] = by;
                for j in k + 1..40 {
                    row[j] -= by * pivot[j];
                }
            },
            order = order
        )?;
        for row in &mut plain[k + 1..] {
            let by = row[k] / pivot[k];
            row[k] = by;
            (k + 1..40).for_each(|j| row[j] -= by * pivot[j]);
        }
        Ok(report)
    }

    fn elimination(session: &Session, seen: &mut Seen, order: Order) -> stradsap::Result<()> {
        let entry = |i: usize, j: usize| 1.0 + below((i * 40 + j) as u64, 50) as f64 + if i == j { 90.0 } else { 0.0 };
        let start: Vec<[f64; 40]> = (0..40).map(|i| std::array::from_fn(|j| entry(i, j))).collect();
        let mut rows = DVector::from_vec(session, start.clone())?;
        for pass in 0..3 {
            let mut plain = start.clone();
            for (i, row) in start.iter().enumerate() {
                rows.set(i, *row)?;
            }
            let mut calls = Calls::default();
            for k in 0..39 {
                let report = eliminate(&mut rows, &mut plain, k, order)?;
                assert_eq!(report.iterations(), 39 - k);
                assert!(report.serial_order().eq(k + 1..40));
                calls.add(&report);
                seen.report("step", &report);
            }
            assert_eq!(bits(rows.to_vec()?.concat()), bits(plain.concat()), "pass {pass}");
            // A plan serves ranges down to half its own.
            let most = if pass == 0 { 7 } else { 0 };
            assert!(calls.recorded <= most && calls.undone == 0, "pass {pass}: {calls:?}");
        }
        Ok(())
    }

    pub(crate) fn elimination_below_the_pivot(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        elimination(session, seen, Order::Any)
    }

    pub(crate) fn elimination_in_order(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        elimination(session, seen, Order::Preserve)
    }

    /// LU in place: iteration `i` writes in row `i`, and reads the pivot's, which the calls before wrote.
    pub(crate) fn factors_of_a_flat_table(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 48;
        let start: Vec<f64> = (0..n * n)
            .map(|at| 1.0 + below(at as u64, 50) as f64 + if at / n == at % n { 90.0 } else { 0.0 })
            .collect();
        let mut a = DVector::from_vec(session, start.clone())?;
        for pass in 0..3 {
            let mut plain = start.clone();
            (0..n * n).try_for_each(|at| a.set(at, start[at]))?;
            let mut calls = Calls::default();
            for k in 0..n - 1 {
                let report = async_parallel_for!(k + 1..n, [k, n, &mut a], |i| {
                    let by = a[i * n + k] / a[k * n + k];
                    a[i * n + k] = by;
                    for j in k + 1..n {
                        let above = a[k * n + j];
                        a[i * n + j] -= by * above;
                    }
                })?;
                for i in k + 1..n {
                    let by = plain[i * n + k] / plain[k * n + k];
                    plain[i * n + k] = by;
                    (k + 1..n).for_each(|j| plain[i * n + j] -= by * plain[k * n + j]);
                }
                calls.add(&report);
            }
            assert_eq!(bits(a.to_vec()?), bits(plain), "pass {pass}");
            // A plan serves ranges down to half its own; on workers each range has its own.
            let most = [if session.workers() == 0 { 7 } else { n }, 0, 0][pass];
            assert!(calls.recorded <= most && calls.undone == 0, "pass {pass}: {calls:?}");
        }
        seen.digest("a", &a)
    }

    /// Each iteration writes four neighbours, and later calls one more that the next one reads; some fail.
    pub(crate) fn windows_that_overlap_in_a_part(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 500;
        let mut x = DVector::from_fn(session, 4 * n + 1, |at| below(at as u64, 1000) as i64)?;
        let mut plain = x.to_vec()?;
        for (from, to, further, fails) in [
            (0, n, 0, n),
            (7, n, 0, n),
            (7, n, 1, n),
            (100, 400, 0, 300),
            (20, n - 5, 1, n),
            (20, n - 5, 0, n - 6),
            (3, n, 0, n),
        ] {
            let report = async_parallel_for!(
                from..to,
                [further, fails, from, &mut x],
                |i| {
                    let first = if from > 0 { x[4 * from - 1] } else { 0 };
                    for at in 4 * i..4 * i + 4 + further {
                        x[at] = x[at].wrapping_mul(3) ^ first;
                    }
                    if i == fails { Err(format!("no {i}")) } else { Ok(()) }
                },
                order = Preserve
            );
            match report {
                Ok(_) => {
                    assert!(!(from..to).contains(&fails));
                    let first = if from > 0 { plain[4 * from - 1] } else { 0 };
                    for i in from..to {
                        (4 * i..4 * i + 4 + further).for_each(|at| plain[at] = plain[at].wrapping_mul(3) ^ first);
                    }
                }
                Err(stradsap::Error::Body { iteration, .. }) => assert_eq!(iteration, fails),
                Err(error) => return Err(error),
            }
            assert_eq!(x.to_vec()?, plain, "{from}..{to}, {further}");
        }
        seen.digest("x", &x)
    }

    fn sum_of_part(
        x: &mut DVector<f64>,
        total: &stradsap::Sum<f64>,
        range: std::ops::Range<usize>,
        order: Order,
    ) -> stradsap::Result<LoopReport> {
        async_parallel_for!(
            range,
            [&mut x, &total],
            |i| {
                x[i] *= 1.0625;
                total.add(x[i]);
            },
            order = order
        )
    }

    /// The bits of a sum of floats depend on its blocks: they must be those of a plan for this range, whatever ran before.
    pub(crate) fn parts_with_sums(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 50_000;
        let fresh = || DVector::from_fn(session, n, |i| below(i as u64, 1000) as f64 / 7.0);
        for order in [Order::Any, Order::Preserve] {
            let mut x = fresh()?;
            for (k, start) in [0, 100, 5000, 100, 30_000].into_iter().enumerate() {
                let (total, alone) = (session.sum(0.0), session.sum(0.0));
                let mut own = DVector::from_vec(session, x.to_vec()?)?;
                let report = sum_of_part(&mut x, &total, start..n, order)?;
                assert_eq!(report.reused(), k == 3 || order == Order::Preserve && (k == 1 || k == 2), "{order:?}, {k}");
                let anew = sum_of_part(&mut own, &alone, start..n, order)?;
                assert!(!anew.reused());
                assert_eq!(total.get().to_bits(), alone.get().to_bits(), "{order:?}, from {start}");
                assert_eq!(bits(x.to_vec()?), bits(own.to_vec()?));
                if order == Order::Preserve {
                    let plain = own.to_vec()?[start..].iter().fold(0.0, |sum, x| sum + x);
                    assert_eq!(total.get().to_bits(), plain.to_bits());
                }
                seen.record("total", total.get().to_bits());
                seen.report("part", &report);
            }
        }
        Ok(())
    }

    fn refuse(x: &mut DVector<Vec<u32>>, from: usize, at: usize) -> stradsap::Result<LoopReport> {
        async_parallel_for!(from..1000, [at, &mut x], |i| {
            let new = x[i].len() as u32;
            x[i].push(new);
            if i == at { Err(format!("no {at}")) } else { Ok(()) }
        })
    }

    pub(crate) fn parts_that_fail(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 1000, |i| vec![i as u32])?;
        let mut plain = x.to_vec()?;
        for (from, at) in
            [(0, 2000), (10, 700), (10, 10), (300, 2000), (301, 5), (302, 999), (303, 2000), (0, 0), (0, 2000)]
        {
            let before = x.to_vec()?;
            match refuse(&mut x, from, at) {
                Ok(report) => {
                    assert!(!(from..1000).contains(&at));
                    assert_eq!((report.reused(), report.misspeculations()), (from > 0 || plain[0].len() > 1, 0));
                    plain[from..].iter_mut().for_each(|x| x.push(x.len() as u32));
                    seen.report("refuse", &report);
                }
                Err(stradsap::Error::Body { iteration, .. }) => {
                    assert!(from <= at && iteration == at, "{iteration} instead of {at}");
                    assert_eq!(x.to_vec()?, before);
                }
                Err(error) => return Err(error),
            }
            assert_eq!(x.to_vec()?, plain, "from {from}");
        }
        seen.digest("x", &x)
    }

    /// What the part touches besides, the whole didn't.
    pub(crate) fn parts_that_stray(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 1000;
        let mut x = DVector::from_fn(session, n, |i| below(i as u64, 1000) as u64)?;
        let mut plain = x.to_vec()?;
        let mut undone = 0;
        for from in 0..20 {
            let report = async_parallel_for!(
                from..n,
                [from, n, &mut x],
                |i| {
                    if from > 4 {
                        let other = x[n - 1 - i + from];
                        x[i] = x[i].wrapping_mul(3) ^ other;
                    } else {
                        x[i] += 1;
                    }
                },
                order = Preserve
            )?;
            undone += report.misspeculations();
            for i in from..n {
                plain[i] = if from > 4 { plain[i].wrapping_mul(3) ^ plain[n - 1 - i + from] } else { plain[i] + 1 };
            }
            assert_eq!(x.to_vec()?, plain, "from {from}");
            seen.report("part", &report);
        }
        // A plan that led a part astray serves no other.
        assert!(undone <= 2, "{undone}");
        Ok(())
    }

    /// One place in the source, for all models.
    fn train(model: &mut DVector<f64>, users: &DVector<u32>) -> stradsap::Result<LoopReport> {
        async_parallel_for!(0..users.len(), [&mut model, &users], |i| {
            let u = users[i];
            model[u] = 0.875 * model[u] + i as f64;
        })
    }

    pub(crate) fn models_in_turn(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let users = DVector::from_fn(session, 5000, |i| below(i as u64, 100 + i / 10) as u32)?;
        let mut models =
            (0..9).map(|m| DVector::from_fn(session, 700, |i| (i + m) as f64)).collect::<Result<Vec<_>, _>>()?;
        for epoch in 0..3 {
            for (m, model) in models.iter_mut().enumerate() {
                let mut plain = model.to_vec()?;
                let report = train(model, &users)?;
                assert_eq!((report.reused(), report.misspeculations()), (epoch > 0, 0), "model {m}, epoch {epoch}");
                report.serial_order().for_each(|i| {
                    let u = below(i as u64, 100 + i / 10);
                    plain[u] = 0.875 * plain[u] + i as f64;
                });
                assert_eq!(bits(model.to_vec()?), bits(plain));
                seen.report("model", &report);
            }
        }
        Ok(())
    }
}

/// Large plans push others out; of a loop under other values only those stay that fit beside each other.
fn memory_bounds_how_many_plans_are_kept() {
    fn visit(x: &mut DVector<u64>, k: usize) -> LoopReport {
        let n = x.len();
        async_parallel_for!(
            0..2 * n,
            [k, n, &mut x],
            |i| {
                let at = below((i / k) as u64, n);
                x[at] = x[at].wrapping_mul(3) + i as u64;
            },
            strategy = Grid
        )
        .unwrap()
    }
    let session = crate::common::session(2);
    let n = 500_000;
    let mut all: Vec<DVector<u64>> = (0..12).map(|_| DVector::from_fn(&session, n, |_| 0u64).unwrap()).collect();
    // Twelve plans of 4 MB don't fit beside each other; but some are there again, though they are used in turn.
    let mut again = 0;
    for round in 0..3 {
        for x in &mut all {
            let reused = visit(x, 1).reused();
            assert!(round > 0 || !reused);
            again += usize::from(reused);
        }
    }
    assert!((1..24).contains(&again), "{again} of 24");
    assert!(visit(&mut all[11], 1).reused());
    drop(all);
    let mut x = DVector::from_fn(&session, n, |_| 0u64).unwrap();
    let mut plain = x.to_vec().unwrap();
    let mut again = 0;
    for k in (1..13).chain(1..13).chain([12]) {
        let report = visit(&mut x, k);
        again += usize::from(report.reused());
        for i in report.serial_order() {
            let at = below((i / k) as u64, n);
            plain[at] = plain[at].wrapping_mul(3) + i as u64;
        }
        assert!(x.to_vec().unwrap() == plain, "{k}");
    }
    assert!((2..13).contains(&again), "{again} of 13");
}

/// An epoch of many short minibatches, each of which conflicts with itself.
fn many_ranges_find_their_plans_again() {
    let session = crate::common::session(2);
    let (batches, each) = (1500, 8);
    let mut x = DVector::from_fn(&session, 50, |i| i as u64).unwrap();
    let mut plain = x.to_vec().unwrap();
    for epoch in 0..2 {
        for batch in 0..batches {
            let range = batch * each..(batch + 1) * each;
            let report = async_parallel_for!(range, [&mut x], |i| {
                x[i % 50] = x[i % 50].wrapping_mul(5) ^ x[i * 3 % 50];
            })
            .unwrap();
            for i in report.serial_order() {
                plain[i % 50] = plain[i % 50].wrapping_mul(5) ^ plain[i * 3 % 50];
            }
            assert_eq!(report.reused(), epoch > 0, "epoch {epoch}, minibatch {batch}");
        }
        assert_eq!(x.to_vec().unwrap(), plain);
    }
}

/// The stages of a fast Fourier transform: one loop, whose pattern follows from a captured value.
fn stages_by_a_captured_value_find_their_plans_again() {
    let session = crate::common::session(2);
    let n = 1 << 17;
    let mut x = DVector::from_fn(&session, n, |i| [i as f64; 2]).unwrap();
    let mut plain = x.to_vec().unwrap();
    for round in 0..3 {
        for half in (0..17).map(|stage| 1usize << stage) {
            let report = async_parallel_for!(0..n / 2, [half, &mut x], |t| {
                let first = 2 * half * (t / half) + t % half;
                let (a, b) = x.pair_mut(first, first + half);
                (*a, *b) = ([a[0] + b[1], a[1] - b[0]], [b[0] / 2.0, a[1]]);
            });
            assert!(report.unwrap().reused() || round == 0, "round {round}, half {half}");
            for t in 0..n / 2 {
                let first = 2 * half * (t / half) + t % half;
                let (a, b) = (plain[first], plain[first + half]);
                (plain[first], plain[first + half]) = ([a[0] + b[1], a[1] - b[0]], [b[0] / 2.0, a[1]]);
            }
        }
    }
    assert_eq!(x.to_vec().unwrap(), plain);
}
