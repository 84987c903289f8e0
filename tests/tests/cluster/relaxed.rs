//! Relaxed state, and scratch.

use stradsap::prelude::*;

use crate::common::{Way, below, mix};
use crate::seen::{Seen, without_worker};

type Result = stradsap::Result<()>;

/// A row of counts, as in topic models: not plain.
#[derive(Clone, Default, Element)]
struct Row {
    counts: Vec<u32>,
}

/// Where a token moves depends on both of its rows and on the totals, which are as stale as they are allowed to be.
pub(crate) fn relaxed_counts(session: &Session, seen: &mut Seen) -> Result {
    let (n, documents, words, topics) = (20_000, 120, 300, 6u64);
    // The last cut is so fine that a stratum has more blocks than one ends with where nothing is shared.
    for (staleness, parts) in [(1, 6), (2, 6), (3, 6), (1000, 6), (2, 36)] {
        let tokens =
            DVector::from_fn(session, n, |t| [below(t as u64 * 2, documents) as u32, below(t as u64, words) as u32])?;
        let first = |t: usize| (mix(t as u64 + 5) % topics) as u32;
        let mut of = DVector::from_fn(session, n, first)?;
        let table = |len: usize, side: usize| {
            let mut rows = vec![Row { counts: vec![0; topics as usize] }; len];
            for t in 0..n {
                let at = [below(t as u64 * 2, documents), below(t as u64, words)][side];
                rows[at].counts[first(t) as usize] += 1;
            }
            rows
        };
        let mut in_documents = DVector::from_vec(session, table(documents, 0))?;
        let mut in_words = DVector::from_vec(session, table(words, 1))?;
        let mut totals = vec![0i64; topics as usize];
        (0..n).for_each(|t| totals[first(t) as usize] += 1);
        let totals = session.relaxed_vector(totals);
        for epoch in 0..3u64 {
            let report = async_parallel_for!(
                0..n,
                [epoch, topics, &tokens, &mut of, &mut in_documents, &mut in_words, &totals],
                |t, moved| {
                    let [d, w] = tokens[t];
                    let (document, word) = (&mut in_documents[d], &mut in_words[w]);
                    let old = of[t] as usize;
                    let weight = |k: usize| {
                        let (d, w) = (u64::from(document.counts[k]), u64::from(word.counts[k]));
                        mix(epoch << 32 ^ t as u64 ^ ((k as u64) << 20))
                            % ((d + 1) * (w + 1) * 1000 / (totals[k] as u64 + 9) + 1)
                    };
                    let new = (0..topics as usize).max_by_key(|&k| weight(k)).unwrap_or(old);
                    if document.counts[old] > 0 && word.counts[old] > 0 {
                        document.counts[old] -= 1;
                        word.counts[old] -= 1;
                        document.counts[new] += 1;
                        word.counts[new] += 1;
                        totals.add(old, -1);
                        totals.add(new, 1);
                        of[t] = new as u32;
                        *moved += usize::from(new != old);
                    }
                },
                scratch = 0usize,
                staleness = staleness,
                parts = parts
            )?;
            seen.report("sampling", &report);
            seen.record("stale", (report.strata(), report.staleness()));
            seen.record("totals", totals.to_vec());
            // Tables, assignments and totals agree, whatever was stale.
            let counted = |rows: &DVector<Row>| -> stradsap::Result<Vec<i64>> {
                let mut sums = vec![0i64; topics as usize];
                rows.iter()?
                    .for_each(|row| row.counts.iter().zip(&mut sums).for_each(|(&c, sum)| *sum += i64::from(c)));
                Ok(sums)
            };
            assert_eq!(counted(&in_documents)?, totals.to_vec());
            assert_eq!(counted(&in_words)?, totals.to_vec());
            let mut assigned = vec![0i64; topics as usize];
            of.iter()?.for_each(|k| assigned[k as usize] += 1);
            assert_eq!(assigned, totals.to_vec());
        }
        seen.digest("of", &of)?;
        seen.digest("documents", &in_documents)?;
        seen.digest("words", &in_words)?;
    }
    Ok(())
}

/// Additions of floats are made in an order of the plan's.
pub(crate) fn relaxed_floats(session: &Session, seen: &mut Seen) -> Result {
    let n = 12_000;
    let pairs = DVector::from_fn(session, n, |i| [below(i as u64 * 3, 200) as u32, below(i as u64 * 5, 90) as u32])?;
    let mut x = DVector::from_fn(session, 200, |i| i as f32)?;
    let mut y = DVector::from_fn(session, 90, |i| -(i as f64))?;
    let (drift, level) = (session.relaxed_vector(vec![0.5f32; 3]), session.relaxed(1.0f64));
    for _ in 0..4 {
        let report = async_parallel_for!(0..n, [&pairs, &mut x, &mut y, &drift, &level], |i| {
            let [a, b] = pairs[i];
            x[a] = x[a] * 0.9 + drift[i % 3] + level.get() as f32 * 1e-3;
            y[b] = y[b] * 0.8 + f64::from(x[a]) + level.get().sin();
            drift.add(i % 3, (y[b] * 1e-7) as f32 - drift.as_slice().iter().sum::<f32>() * 1e-5);
            level.add(1e-6 * (f64::from(x[a]) - y[b]));
        })?;
        seen.report("floats", &report);
        seen.record("stale", report.staleness());
        seen.record("level", level.get().to_bits());
        seen.record("drift", drift.to_vec().into_iter().map(f32::to_bits).collect::<Vec<_>>());
    }
    seen.digest("x", &x)?;
    seen.digest("y", &y)
}

/// Plans of all kinds, with and without the loop's own order, verified by a replay.
pub(crate) fn relaxed_everywhere(session: &Session, seen: &mut Seen) -> Result {
    let n = 3000;
    for way in [Way::Aligned, Way::Grid, Way::Coloured, Way::Serial] {
        for order in [Order::Any, Order::Preserve] {
            let strategy = way.option();
            let pairs = DVector::from_fn(session, n, |i| way.pair(i, 40, 50))?;
            let mut x = DVector::from_fn(session, if way == Way::Aligned { n } else { 50 }, |_| 0u64)?;
            let totals = session.relaxed_vector(vec![3u64, 4]);
            for _ in 0..2 {
                let report = async_parallel_for!(
                    0..n,
                    [&pairs, &mut x, &totals],
                    |i| {
                        let [a, b] = pairs[i];
                        x[a] = x[a].wrapping_mul(31).wrapping_add(totals[i % 2]);
                        x[b] = x[b].wrapping_add(x[a] >> 7);
                        totals.add(0usize, x[b] % 3);
                        totals.add(1usize, 1);
                    },
                    strategy = strategy,
                    order = order,
                    parts = 4,
                    staleness = 1
                )?;
                seen.report("loop", &report);
                seen.record("totals", (report.strata() > 0, totals.to_vec()));
            }
            seen.digest("x", &x)?;
        }
    }
    Ok(())
}

/// After a loop that fails relaxed state is what it was.
pub(crate) fn relaxed_failures(session: &Session, seen: &mut Seen) -> Result {
    let n = 5000;
    let mut x = DVector::from_fn(session, 64, |_| 0u32)?;
    let totals = session.relaxed_vector(vec![7i64; 4]);
    let before = x.digest()?;
    let failed = async_parallel_for!(0..n, [&mut x, &totals], |i| {
        x[i % 64] += 1;
        totals.add(i % 4, 1);
        assert!(i != 3777, "enough");
    });
    let text = failed.unwrap_err().to_string();
    seen.record("panic", without_worker(session, &text).split(" (").next());
    let failed = async_parallel_for!(0..n, [&mut x, &totals], |i| {
        x[i % 64] += 1;
        totals.add(if i == 4000 { 4 } else { i % 4 }, 1);
    });
    seen.record("index", failed.unwrap_err().to_string());
    assert_eq!((x.digest()?, totals.to_vec()), (before, vec![7; 4]));

    let failed = async_parallel_for!(0..n, [&mut x, &totals, again = &totals], |i| {
        x[i % 64] += 1;
        totals.add(i % 4, 1);
        again.add(i % 4, 1);
    });
    seen.record("twice", failed.unwrap_err().to_string());
    let none = 0;
    let failed = async_parallel_for!(0..n, [&mut x, &totals], |i| totals.add(x[i % 64] as usize, 1), staleness = none);
    seen.record("no staleness", failed.unwrap_err().to_string());
    let mut y = DVector::from_fn(session, 64, |_| 0.0f32)?;
    let failed = sync_parallel_for!(
        x,
        16,
        [&mut y, &totals],
        |batch| {
            y[0].set(totals[0usize] as f32);
            assert!(!batch.is_empty());
        },
        SyncPolicy::Bsp
    );
    seen.record("synchronous", failed.unwrap_err().to_string());
    let failed = with!([&totals], x.map(|&e| i64::from(e) + totals[0usize])).collect();
    seen.record("operator", failed.unwrap_err().to_string());
    seen.record("length", totals.set(&[1, 2]).unwrap_err().to_string());
    assert_eq!(totals.to_vec(), [7; 4]);
    Ok(())
}

/// Each block sets up its own, and its iterations come in the loop's order.
pub(crate) fn scratch(session: &Session, seen: &mut Seen) -> Result {
    struct Run {
        start: u64,
        last: Option<usize>,
        name: String,
    }
    let n = 30_000;
    let pairs = DVector::from_fn(session, n, |i| [(i / 70) as u32, below(i as u64, 100) as u32])?;
    let mut x = DVector::from_fn(session, n.div_ceil(70), |_| 0u64)?;
    let mut y = DVector::from_fn(session, 100, |_| 0u64)?;
    let mut nth = DVector::from_fn(session, n, |_| 0u32)?;
    let (start, total) = (17u64, session.relaxed(0u64));
    for _ in 0..2 {
        let report = async_parallel_for!(
            0..n,
            [start, &pairs, &mut x, &mut y, &mut nth, &total],
            |i, run| {
                assert!(run.last.is_none_or(|last| last < i), "{i} after {:?}", run.last);
                run.last = Some(i);
                run.name.push('.');
                nth[i] = run.name.len() as u32;
                let [a, b] = pairs[i];
                x[a] = x[a].wrapping_mul(3).wrapping_add(run.start);
                y[b] = y[b].wrapping_add(x[a] ^ run.name.len() as u64);
                total.add(1);
            },
            scratch = Run { start: start + total.get(), last: None, name: String::new() },
            parts = 5
        )?;
        seen.report("loop", &report);
        seen.record("total", total.get());
        let starts = nth.iter()?.filter(|&nth| nth == 1).count();
        assert_eq!(starts, report.blocks());
    }
    seen.digest("nth", &nth)?;
    seen.digest("x", &x)?;
    seen.digest("y", &y)
}
