//! Loops of all shapes: what is read and written where.

use stradsap::prelude::*;

use crate::common::{Rating, Way, below, mix, ratings};
use crate::seen::Seen;

type Result = stradsap::Result<()>;

/// Matrix factorisation, with a step that changes from one epoch to the next.
fn factorise(
    session: &Session,
    seen: &mut Seen,
    (n, users, items): (usize, usize, usize),
    epochs: usize,
    order: Order,
) -> Result {
    let data = DVector::from_vec(session, ratings(n, users, items))?;
    let row = |i: usize| -> [f32; 8] { std::array::from_fn(|k| below((i * 8 + k) as u64, 1000) as f32 / 2500.0) };
    let mut p = DVector::from_fn(session, users, row)?;
    let mut q = DVector::from_fn(session, items, |i| row(i + 1_000_000))?;
    let lambda = 0.02f32;
    for epoch in 0..epochs {
        let alpha = 0.02 / (1.0 + epoch as f32);
        let (loss, single) = (session.sum(0.0f64), session.sum(0.5f32));
        let report = async_parallel_for!(
            0..data.len(),
            [alpha, lambda, &data, &mut p, &mut q, &loss, &single],
            |n| {
                let r = data[n];
                let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
                let e = r.stars - kernels::dot(pu, qi);
                for k in 0..8 {
                    let (a, b) = (pu[k], qi[k]);
                    pu[k] += alpha * (e * b - lambda * a);
                    qi[k] += alpha * (e * a - lambda * b);
                }
                loss.add(f64::from(e * e));
                single.add(e);
            },
            order = order
        )?;
        seen.report("training", &report);
        seen.record("loss", (loss.get().to_bits(), single.get().to_bits()));
        let test = session.sum(0.0f64);
        let report = async_parallel_for!(0..data.len(), [&data, &p, &q, &test], |n| {
            let r = data[n];
            let e = r.stars - kernels::dot(&p[r.user], &q[r.item]);
            test.add(f64::from(e * e));
        })?;
        seen.report("testing", &report);
        seen.record("test", test.get().to_bits());
    }
    seen.digest("p", &p)?;
    seen.digest("q", &q)
}

pub(crate) fn factorisation(session: &Session, seen: &mut Seen) -> Result {
    factorise(session, seen, (6000, 300, 120), 4, Order::Any)
}

/// Long enough for the pattern to be read off a sample.
pub(crate) fn long_factorisation(session: &Session, seen: &mut Seen) -> Result {
    factorise(session, seen, (60_000, 700, 400), 3, Order::Any)
}

pub(crate) fn preserving_factorisation(session: &Session, seen: &mut Seen) -> Result {
    factorise(session, seen, (3000, 200, 90), 2, Order::Preserve)
}

/// With `order = Preserve` the plain loop's own bits.
pub(crate) fn preserve_is_the_plain_loop(session: &Session, seen: &mut Seen) -> Result {
    let data = ratings(3000, 50, 60);
    let ratings = DVector::from_vec(session, data.clone())?;
    let mut x = DVector::from_fn(session, 50, |i| i as f32 / 7.0)?;
    let mut y = DVector::from_fn(session, 60, |i| i as f32 / 11.0)?;
    let (mut px, mut py, mut total) = (x.to_vec()?, y.to_vec()?, 0.25f32);
    let sum = session.sum(0.25f32);
    for _ in 0..2 {
        async_parallel_for!(
            0..ratings.len(),
            [&ratings, &mut x, &mut y, &sum],
            |n| {
                let Rating { user, item, stars } = ratings[n];
                x[user] = 0.9 * x[user] + 0.1 * stars * y[item];
                y[item] = 0.8 * y[item] + 0.2 * x[user];
                sum.add(y[item]);
            },
            order = Preserve
        )?;
        for Rating { user, item, stars } in &data {
            let (u, i) = (*user as usize, *item as usize);
            px[u] = 0.9 * px[u] + 0.1 * stars * py[i];
            py[i] = 0.8 * py[i] + 0.2 * px[u];
            total += py[i];
        }
    }
    assert_eq!((x.to_vec()?, y.to_vec()?, sum.get().to_bits()), (px, py, total.to_bits()));
    seen.record("sum", sum.get().to_bits());
    Ok(())
}

pub(crate) fn stencil(session: &Session, seen: &mut Seen) -> Result {
    let n = 5000;
    let mut x = DVector::from_fn(session, n, |i| mix(i as u64) as f64 / 1e18)?;
    let mut y = DVector::from_fn(session, n, |_| 0.0f64)?;
    for _ in 0..3 {
        // Jacobi's: from one DVector to another.
        let report = async_parallel_for!(1..n - 1, [&x, &mut y], |i| y[i] = (x[i - 1] + x[i] + x[i + 1]) / 3.0)?;
        seen.report("there", &report);
        let report = async_parallel_for!(1..n - 1, [&mut x, &y], |i| x[i] = (y[i - 1] + y[i] + y[i + 1]) / 3.0)?;
        seen.report("back", &report);
        // Gauss's: in place.
        let report = async_parallel_for!(1..n - 1, [&mut x], |i| x[i] = (x[i - 1] + x[i + 1]) / 2.0)?;
        seen.report("in place", &report);
        let report = async_parallel_for!(
            1..n - 1,
            [&mut x],
            |i| x[i] = (x[i - 1] + x[i + 1]) / 2.0,
            strategy = Coloured,
            order = Preserve
        )?;
        seen.report("coloured", &report);
    }
    seen.digest("x", &x)?;
    seen.digest("y", &y)
}

/// Elements that one iteration each touches, at a distance from it and without.
pub(crate) fn in_step(session: &Session, seen: &mut Seen) -> Result {
    let n = 4000;
    let mut x = DVector::from_fn(session, n, |i| i as u64)?;
    let mut y = DVector::from_fn(session, n + 10, |i| i as f32)?;
    let z = DVector::from_fn(session, n, |i| mix(i as u64))?;
    for round in 0..3u64 {
        let report = async_parallel_for!(0..n, [round, &mut x, &z], |i| x[i] = x[i].wrapping_add(z[i] ^ round))?;
        seen.report("aligned", &report);
        let report = async_parallel_for!(100..n, [&mut x, &mut y], |i| {
            x[i - 100] ^= 1;
            y[i + 10] += x[i - 100] as f32;
        })?;
        seen.report("at a distance", &report);
        // Written in step by one loop, then read at random by another.
        let total = session.sum(0u64);
        async_parallel_for!(0..n, [&x, &total], |i| total.add(x[i * 7 % 4000]))?;
        seen.record("total", total.get());
        seen.record("one", (x.get(5)?, x.read(n - 3..n)?, y.get(n)?));
    }
    seen.digest("x", &x)?;
    seen.digest("y", &y)
}

/// Elements that are read in step, but by an index that is computed.
pub(crate) fn in_step_by_index(session: &Session, seen: &mut Seen) -> Result {
    let n = 3000;
    let own = DVector::from_fn(session, n, |i| i as u32)?;
    let x = DVector::from_fn(session, n, |i| i as f64 / 3.0)?;
    let words = DVector::from_fn(session, n, |i| format!("word {i}"))?;
    let mut cells = DVector::from_fn(session, 97, |_| 0.0f64)?;
    let mut lens = DVector::from_fn(session, n, |_| 0usize)?;
    for _ in 0..2 {
        let report = async_parallel_for!(0..n, [&own, &x, &words, &mut cells, &mut lens], |i| {
            let j = own[i];
            cells[i * 13 % 97] += x[j];
            lens[j] += words[j].len();
        })?;
        seen.report("by index", &report);
    }
    seen.digest("cells", &cells)?;
    seen.digest("lens", &lens)
}

/// Every strategy over the same shared elements, in turn.
pub(crate) fn strategies(session: &Session, seen: &mut Seen) -> Result {
    for way in [Way::Grid, Way::Coloured, Way::Serial] {
        for order in [Order::Any, Order::Preserve] {
            if way == Way::Grid && order == Order::Preserve {
                continue;
            }
            let strategy = way.option();
            let pairs = DVector::from_fn(session, 2500, |i| way.pair(i, 60, 45))?;
            let mut x = DVector::from_fn(session, 60, |i| i as f64)?;
            let mut y = DVector::from_fn(session, 45, |i| vec![i as u32])?;
            for _ in 0..2 {
                let report = async_parallel_for!(
                    0..pairs.len(),
                    [&pairs, &mut x, &mut y],
                    |i| {
                        let [a, b] = pairs[i];
                        x[a] = x[a] * 0.5 + f64::from(y[b][0]);
                        let new = y[b][0].rotate_left(3) ^ (x[a] as u32);
                        y[b].insert(0, new);
                        y[b].truncate(4);
                    },
                    strategy = strategy,
                    order = order,
                    parts = 5
                )?;
                seen.report("strategy", &report);
            }
            seen.digest("x", &x)?;
            seen.digest("y", &y)?;
        }
    }
    Ok(())
}

/// One element that all iterations write.
pub(crate) fn nothing_is_parallel(session: &Session, seen: &mut Seen) -> Result {
    let x = DVector::from_fn(session, 800, |i| i as f64 / 3.0)?;
    let mut total = DVector::from_vec(session, vec![0.0f64])?;
    for _ in 0..2 {
        let report = async_parallel_for!(0..800, [&x, &mut total], |i| total[0] += x[i])?;
        seen.report("total", &report);
    }
    seen.record("total", total.get(0)?.to_bits());
    Ok(())
}

/// Few elements of a large DVector.
pub(crate) fn sparse(session: &Session, seen: &mut Seen) -> Result {
    let len = 2_000_000;
    let mut x = DVector::from_fn(session, len, |i| i as u64)?;
    let stride = len / 500;
    for round in 0..3u64 {
        let report = async_parallel_for!(0..2000, [round, stride, &mut x], |i| {
            let (a, b) = (i % 500 * stride, (i * 7 + 3) % 500 * stride);
            x[a] = x[a].rotate_left(5) ^ x[b] ^ round;
        })?;
        seen.report("sparse", &report);
        // Parts travel whole: each at most once to each worker.
        let most = 8 * len * session.workers() + (1 << 20);
        assert!(report.bytes_sent() < most as u64, "{} bytes were sent", report.bytes_sent());
        x.set(stride, round)?;
        seen.record("some", (x.get(0)?, x.get(1)?, x.read(stride - 1..stride + 2)?));
    }
    seen.digest("x", &x)
}

/// Fewer blocks than workers, one iteration, none.
pub(crate) fn small(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 3, |i| i as u64)?;
    let mut none: DVector<String> = DVector::from_vec(session, Vec::new())?;
    let count = session.count();
    for n in [0, 1, 2, 3] {
        let report = async_parallel_for!(0..n, [&mut x, &count], |i| {
            x[i] += 1;
            count.add(1);
        })?;
        seen.report("in step", &report);
        let report = async_parallel_for!(0..n, [&mut x], |i| x[(i * 2) % 3] *= 3, parts = 1)?;
        seen.report("one part", &report);
        let report = async_parallel_for!(0..none.len(), [&mut none, &count], |i| {
            none[i].push('x');
            count.add(100);
        })?;
        seen.report("none", &report);
    }
    let (from, to) = (2, 2);
    async_parallel_for!(from..to, [&mut x], |i| x[i] += 1)?;
    seen.record("x", (x.to_vec()?, count.get(), none.len()));
    Ok(())
}

/// Different plans over the same DDSs in turn.
pub(crate) fn alternating(session: &Session, seen: &mut Seen) -> Result {
    let (n, cells) = (2000, 150);
    let mut x = DVector::from_fn(session, cells, |i| i as u64)?;
    let mut y = DVector::from_fn(session, n, |i| i as f64)?;
    for round in 0..4u64 {
        let report = async_parallel_for!(0..n, [round, &mut x, &mut y], |i| {
            let at = i * 17 % 150;
            x[at] = x[at].rotate_left(1) ^ i as u64 ^ round;
            y[i] += x[at] as f64;
        })?;
        seen.report("one", &report);
        let report = async_parallel_for!(0..cells, [&mut x, &y], |i| x[i] = x[i].wrapping_add(y[i * 13] as u64))?;
        seen.report("another", &report);
        let report = async_parallel_for!(
            0..n,
            [&mut x, &mut y],
            |i| {
                y[n_minus(i)] += 0.5;
                x[i % 7] ^= y[n_minus(i)] as u64;
            },
            strategy = Coloured
        )?;
        seen.report("a third", &report);
        seen.digest("x", &x)?;
    }
    seen.digest("y", &y)
}

fn n_minus(i: usize) -> usize {
    1999 - i
}
