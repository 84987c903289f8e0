//! Bodies that are misspeculated, fail and panic, and programs that do between loops what programs do.

use stradsap::Error;
use stradsap::prelude::*;

use crate::common::{Way, below, mix, ratings};
use crate::seen::{Seen, without_worker};

type Result = stradsap::Result<()>;

const CELLS: usize = 200;

/// A pattern of accesses that the program changes between calls.
pub(crate) fn changing_patterns(session: &Session, seen: &mut Seen) -> Result {
    let n = 1200;
    let visit = |i: usize, round: u64| {
        let at = |k| below(5 * i as u64 + k + 1_000_003 * round, CELLS) as u32;
        [at(0), at(1)]
    };
    for (strategy, order) in
        [(Strategy::Grid, Order::Any), (Strategy::Coloured, Order::Any), (Strategy::Coloured, Order::Preserve)]
    {
        let mut data = DVector::from_fn(session, n, |i| visit(i, 0))?;
        let mut x = DVector::from_fn(session, CELLS, |i| mix(i as u64))?;
        let mut y = DVector::from_fn(session, CELLS, |i| vec![i as u64])?;
        for round in [0, 0, 1, 2, 2] {
            for i in 0..n {
                data.set(i, visit(i, round))?;
            }
            let report = async_parallel_for!(
                0..n,
                [&data, &mut x, &mut y],
                |i| {
                    let [from, to] = data[i];
                    let seen = x[from];
                    x[to] = mix(seen ^ i as u64);
                    y[from].push(seen);
                    y[from].truncate(3);
                    y[from][0] = y[from][0].rotate_left(7) ^ seen;
                },
                strategy = strategy,
                order = order,
                parts = 5
            )?;
            seen.report("visits", &report);
            seen.digest("x", &x)?;
            seen.digest("y", &y)?;
        }
        // One index is enough.
        let [from, to] = data.get(n / 2)?;
        data.set(n / 2, [from, (to + 1) % CELLS as u32])?;
    }
    Ok(())
}

/// Pointers that the loop itself sets.
pub(crate) fn unforeseeable(session: &Session, seen: &mut Seen) -> Result {
    let (n, half) = (1000usize, 500usize);
    for order in [Order::Any, Order::Preserve] {
        let mut next = DVector::from_fn(session, half, |i| (i % CELLS) as u32)?;
        let mut x = DVector::from_fn(session, CELLS, |i| i as u64)?;
        for _ in 0..3 {
            let report = async_parallel_for!(
                0..n,
                [half, &mut next, &mut x],
                |i| {
                    if i < half {
                        next[i] = (mix(u64::from(next[i]) + i as u64) % 200) as u32;
                    } else {
                        let at = next[i - half];
                        x[at] = mix(x[at] ^ i as u64);
                    }
                },
                order = order
            )?;
            seen.report("chase", &report);
            seen.digest("next", &next)?;
            seen.digest("x", &x)?;
        }
    }
    Ok(())
}

/// A sample that misleads: one iteration, far from any that was recorded, breaks the rule.
pub(crate) fn misleading_sample(session: &Session, seen: &mut Seen) -> Result {
    let mut data = ratings(60_000, 500, 300);
    data[31_234].user = 499;
    let data = DVector::from_vec(session, data)?;
    let mut p = DVector::from_fn(session, 500, |i| i as u64)?;
    let mut q = DVector::from_fn(session, 300, |i| i as u64)?;
    for _ in 0..2 {
        let report = async_parallel_for!(0..data.len(), [&data, &mut p, &mut q], |i| {
            let r = data[i];
            p[r.user] = p[r.user].rotate_left(3) ^ q[r.item];
            q[r.item] = q[r.item].wrapping_add(i as u64);
            if i == 31_234 {
                p[3] ^= 1;
            }
        })?;
        seen.report("misled", &report);
    }
    seen.digest("p", &p)?;
    seen.digest("q", &q)
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no stars in iteration {0}")]
struct NoStars(usize);

const KINDS: [u32; 5] = [0, 1, 2, 3, 0];

/// Bodies that return errors, panic, or leave the range: all is as before, and the loop runs again.
pub(crate) fn failures(session: &Session, seen: &mut Seen) -> Result {
    let n = 600;
    for way in [Way::Aligned, Way::Grid, Way::Coloured, Way::Serial] {
        let (rows, cols) = if way == Way::Aligned { (n, n) } else { (24, 30) };
        let strategy = way.option();
        let pairs = DVector::from_fn(session, n, |i| way.pair(i, rows, cols))?;
        let mut fails = DVector::from_fn(session, n, |_| 0u32)?;
        let mut names = DVector::from_fn(session, rows, |i| vec![format!("row {i}")])?;
        let mut x = DVector::from_fn(session, cols, |i| i as f64 / 3.0)?;
        let mut own = DVector::from_fn(session, n, |i| i as u32)?;
        let (sum, low, count) = (session.sum(0.5f64), session.min(7i64), session.count());
        for (round, kind) in KINDS.into_iter().enumerate() {
            // Several fail: the first in the serial order is reported.
            let at = [below(round as u64, n), below(round as u64 + 100, n), n - 1];
            at.iter().try_for_each(|&i| fails.set(i, kind))?;
            let before = (names.digest()?, x.digest()?, own.digest()?, sum.get().to_bits(), low.get(), count.get());
            let ended = async_parallel_for!(
                0..n,
                [&pairs, &fails, &mut names, &mut x, &mut own, &sum, &low, &count],
                |i| {
                    let [row, col] = pairs[i];
                    names[row].push(format!("iteration {i}"));
                    names[row].truncate(5);
                    own[i] += 1;
                    x[col] = x[col] * 0.75 + i as f64;
                    sum.add(x[col]);
                    low.min(-(i as i64));
                    count.add(1);
                    match fails[i] {
                        0 => Ok(()),
                        1 => Err(NoStars(i)),
                        2 => panic!("iteration {i} panics"),
                        _ => {
                            x[1000 + i] += 1.0;
                            Ok(())
                        }
                    }
                },
                strategy = strategy,
                parts = 3
            );
            let after = (names.digest()?, x.digest()?, own.digest()?, sum.get().to_bits(), low.get(), count.get());
            match ended {
                Ok(report) => {
                    assert_eq!(kind, 0);
                    seen.report("well", &report);
                    assert_ne!(before, after);
                }
                Err(error) => {
                    assert_eq!(before, after, "{way:?}, kind {kind}");
                    let text = error.to_string();
                    let iteration = match &error {
                        Error::Body { iteration, .. } if kind == 1 => *iteration,
                        Error::Panic { iteration, .. } if kind == 2 => *iteration,
                        Error::IndexOutOfRange { iteration, dds: "x", index, .. } if kind == 3 => {
                            assert_eq!(*index, 1000 + iteration);
                            *iteration
                        }
                        other => panic!("{way:?}, kind {kind}: {other}"),
                    };
                    assert!(at.contains(&iteration) && text.contains(&format!("iteration {iteration}")), "{text}");
                    // What an index is does not depend on the worker.
                    let text = if kind == 3 { text } else { without_worker(session, &text) };
                    seen.record("failure", text);
                }
            }
            at.iter().try_for_each(|&i| fails.set(i, 0))?;
            seen.record("after", after);
        }
    }
    Ok(())
}

/// Loops within loops are refused.
pub(crate) fn nested(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 50, |i| i as u32)?;
    let ended = async_parallel_for!(0..50, [&mut x], |i| {
        x[i] += 1;
        let inner = Session::builder().threads(1).build()?;
        let mut y = DVector::from_fn(&inner, 4, |k| k)?;
        another_loop(&mut y)
    });
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("can't be called from the body of another one"), "{error}");
    seen.record("nested", without_worker(session, &error));
    assert_eq!(x.to_vec()?, (0..50).collect::<Vec<u32>>());
    async_parallel_for!(0..50, [&mut x], |i| x[i] += 1)?;
    seen.digest("x", &x)
}

fn another_loop(y: &mut DVector<usize>) -> stradsap::Result<()> {
    async_parallel_for!(0..4, [&mut y], |i| y[i] += 1).map(drop)
}

/// A body may catch its own panics.
pub(crate) fn caught(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 100, |i| i as u64)?;
    let report = async_parallel_for!(0..500, [&mut x], |i| {
        let result = std::panic::catch_unwind(|| if i % 3 == 0 { panic!("on purpose") } else { i as u64 });
        x[i % 100] = x[i % 100].rotate_left(1) ^ result.unwrap_or(7);
    })?;
    seen.report("caught", &report);
    seen.digest("x", &x)
}

/// Reading and setting elements between loops, many at once and one by one.
pub(crate) fn between_loops(session: &Session, seen: &mut Seen) -> Result {
    let n = 1500;
    let pairs = DVector::from_fn(session, n, |i| Way::Grid.pair(i, 70, 80))?;
    let mut x = DVector::from_fn(session, 70, |i| i as f64)?;
    let mut y = DVector::from_fn(session, 80, |i| i.to_string())?;
    let mut own = DVector::from_fn(session, n, |i| i as u64)?;
    for round in 0..6usize {
        let report = async_parallel_for!(
            0..n,
            [&pairs, &mut x, &mut y, &mut own],
            |i| {
                let [a, b] = pairs[i];
                x[a] = x[a] * 0.5 + y[b].len() as f64;
                y[b].push('x');
                if y[b].len() > 9 {
                    y[b].clear();
                }
                own[i] = own[i].rotate_left(9) ^ x[a].to_bits();
            },
            strategy = Grid,
            parts = 4
        )?;
        seen.report("loop", &report);
        match round {
            0 => seen.record("x", (x.get(69)?, x.read(10..13)?)),
            1 => x.set(3, -1.0)?,
            2 => y.set(79, "new".to_string())?,
            3 => own.set(n - 1, 12)?,
            4 => {
                seen.digest("own", &own)?;
                (0..70).try_for_each(|i| x.set(i, i as f64))?;
            }
            _ => {}
        }
        assert!(matches!(x.get(70), Err(Error::OutOfBounds { start: 70, len: 70, .. })));
    }
    seen.record("y", y.iter()?.map(|text| text.len()).sum::<usize>());
    seen.digest("x", &x)?;
    seen.digest("own", &own)
}

/// DVectors that come and go between loops.
pub(crate) fn made_and_dropped(session: &Session, seen: &mut Seen) -> Result {
    let mut kept = DVector::from_fn(session, 90, |i| i as u64)?;
    for round in 0..12usize {
        let mut x = DVector::from_fn(session, 200 + round, |i| format!("{round} {i}"))?;
        let y = DVector::from_fn(session, 500, |i| (i * round) as u32)?;
        async_parallel_for!(0..500, [&mut x, &y, &mut kept], |i| {
            let at = (i * 3) % 90;
            x[i % 200].push(char::from(b'a' + (y[i] % 26) as u8));
            kept[at] = kept[at].wrapping_mul(31) ^ x[i % 200].len() as u64;
        })?;
        if round % 3 == 0 {
            drop(x);
        } else {
            seen.digest("x", &x)?;
        }
    }
    seen.digest("kept", &kept)
}

/// Every loop is replayed in its claimed order and compared.
pub(crate) fn verified(session: &Session, seen: &mut Seen) -> Result {
    session.verify(true);
    let ended = (|| {
        super::strategies::stencil(session, seen)?;
        super::strategies::strategies(session, seen)?;
        super::values::strings(session, seen)?;
        unforeseeable(session, seen)
    })();
    session.verify(false);
    ended
}

/// Plans are used again until something differs.
pub(crate) fn reuse(session: &Session, seen: &mut Seen) -> Result {
    let mut x = DVector::from_fn(session, 100, |i| i as u64)?;
    let mut other = DVector::from_fn(session, 100, |i| i as u64)?;
    let mut run = |x: &mut DVector<u64>, n: usize| -> stradsap::Result<bool> {
        let report = async_parallel_for!(0..n, [&mut x], |i| x[i * 3 % 100] += 1, label = "reuse")?;
        assert_eq!(report.label(), Some("reuse"));
        if session.workers() > 0 {
            assert!(report.workers().len() <= session.workers() && !report.workers().is_empty());
            assert!(
                report.workers().iter().all(|worker| worker.worker.starts_with("worker ")),
                "{:?}",
                report.workers()
            );
        }
        seen.report("run", &report);
        Ok(report.reused())
    };
    let found = [
        run(&mut x, 300)?,
        run(&mut x, 300)?,
        run(&mut x, 299)?,
        run(&mut x, 300)?,
        run(&mut other, 300)?,
        run(&mut other, 300)?,
    ];
    assert_eq!(found[..3], [false, true, false]);
    assert_eq!(found[4..], [false, true]);
    seen.digest("x", &x)?;
    seen.digest("other", &other)
}
