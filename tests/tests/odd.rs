//! Few iterations that nobody can foresee, since what they touch depends on what others write while the loop runs.

use crate::common::{below, mix};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    few::one_among_thousands,
    few::several,
    few::with_sums_and_strings,
    few::that_fail,
    few::others_each_time,
    few::too_many,
    few::of_what_nobody_reads,
];

const N: usize = 12_000;
const CELLS: usize = 900;

/// What must be the same everywhere.
pub(crate) mod few {
    use super::*;

    /// What the loop makes has it read a DVector that it seemed not to touch.
    pub(crate) fn of_what_nobody_reads(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let aside = DVector::from_fn(session, 100, |k| k as u64 + 1)?;
        let mut x = DVector::from_fn(session, N, |_| 0u64)?;
        for round in 0..3 {
            x.transform(|x| *x = 0)?;
            let report = async_parallel_for!(0..N, [round, &aside, &mut x], |i| {
                x[i] += round;
                if x[i] > 0 {
                    for k in 0..3 {
                        x[i] += aside[(i + k) % 100];
                    }
                }
            })?;
            let plain =
                (0..N).map(|i| round + if round > 0 { (0..3).map(|k| ((i + k) % 100) as u64 + 1).sum() } else { 0 });
            assert_eq!(x.to_vec()?, plain.collect::<Vec<u64>>(), "{report}");
            seen.digest("x", &x)?;
        }
        // One index that is out of range, among reads of all the rest.
        let error = async_parallel_for!(0..N, [&aside, &mut x], |i| x[i] = aside[if i == 77 { 100 } else { i % 100 }]);
        assert!(error.unwrap_err().to_string().contains("`aside[100]`"));
        seen.digest("undone", &x)
    }

    /// Where iteration `i` goes, unless it is odd.
    fn way(i: usize) -> usize {
        below(i as u64, CELLS)
    }

    fn plain_step(i: usize, odd: &[usize], x: &mut [u64], hits: &mut [u32]) {
        let at = way(i);
        x[at] = mix(x[at] ^ i as u64);
        if odd.contains(&i) {
            let to = (x[at] % CELLS as u64) as usize;
            x[to] ^= 5;
            hits[to] += 3;
        }
        hits[at] = hits[at].wrapping_mul(7) + 1;
    }

    /// Odd iterations go on to where a value points that the loop has made.
    fn walk(
        x: &mut DVector<u64>,
        hits: &mut DVector<u32>,
        odd: &[usize],
        order: Order,
        strategy: Strategy,
    ) -> stradsap::Result<LoopReport> {
        async_parallel_for!(
            0..N,
            [odd, &mut x, &mut hits],
            |i| {
                let at = way(i);
                x[at] = mix(x[at] ^ i as u64);
                if odd.contains(&i) {
                    let to = (x[at] % CELLS as u64) as usize;
                    x[to] ^= 5;
                    hits[to] += 3;
                }
                hits[at] = hits[at].wrapping_mul(7) + 1;
            },
            order = order,
            strategy = strategy
        )
    }

    const WAYS: [(Order, Strategy); 4] = [
        (Order::Any, Strategy::Grid),
        (Order::Any, Strategy::Coloured),
        (Order::Preserve, Strategy::Grid),
        (Order::Preserve, Strategy::Coloured),
    ];

    /// Three calls, each beside the plain loop in the order that the report says, or in its own. Gives what each said.
    fn calls(
        session: &Session,
        seen: &mut Seen,
        odd: &[usize],
        (order, strategy): (Order, Strategy),
    ) -> stradsap::Result<Vec<LoopReport>> {
        let mut x = DVector::from_fn(session, CELLS, |i| mix(i as u64))?;
        let mut hits = DVector::from_fn(session, CELLS, |i| i as u32)?;
        let (mut plain_x, mut plain_hits) = (x.to_vec()?, hits.to_vec()?);
        let mut reports = Vec::new();
        for call in 0..3 {
            let report = walk(&mut x, &mut hits, odd, order, strategy)?;
            let case = format!("{order:?}, {strategy}, call {call}: {report}");
            match order {
                Order::Any => {
                    report.serial_order().for_each(|i| plain_step(i, odd, &mut plain_x, &mut plain_hits));
                }
                Order::Preserve => (0..N).for_each(|i| plain_step(i, odd, &mut plain_x, &mut plain_hits)),
            }
            assert!(x.to_vec()? == plain_x && hits.to_vec()? == plain_hits, "{case}");
            let mut all: Vec<usize> = report.serial_order().collect();
            all.sort_unstable();
            assert!(all.into_iter().eq(0..N), "{case}");
            seen.report("walk", &report);
            reports.push(report);
        }
        seen.digest("x", &x)?;
        Ok(reports)
    }

    pub(crate) fn one_among_thousands(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for way in WAYS {
            // (The first finds the value from before the loop, so that it is foreseen: each call has a plan of its own.)
            for odd in [0, N / 2, N - 1] {
                let reports = calls(session, seen, &[odd], way)?;
                assert!(reports.iter().all(|report| report.strategy() == way.1), "{way:?}, {odd}: {reports:?}");
                let last = &reports[2];
                assert!(last.misspeculations() == 0 && last.reused() || odd == 0, "{way:?}, {odd}: {last}");
                assert!(last.reason().contains("1 iteration can't be foreseen, and runs alone") || odd == 0, "{last}");
            }
        }
        Ok(())
    }

    pub(crate) fn several(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for way in WAYS {
            let reports = calls(session, seen, &[N / 5, N / 2, N / 2 + 1, N - 7], way)?;
            let last = &reports[2];
            assert_eq!(last.strategy(), way.1, "{last}");
            assert!(last.reason().contains("can't be foreseen"), "{last}");
        }
        Ok(())
    }

    pub(crate) fn with_sums_and_strings(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let n = 4000;
        let mut x = DVector::from_fn(session, 300, |i| format!("{i}"))?;
        let mut plain = x.to_vec()?;
        for call in 0..3 {
            let (total, longest) = (session.sum(0.0), session.max(0));
            let report = async_parallel_for!(
                0..n,
                [n, &mut x, &total, &longest],
                |i| {
                    let at = below(i as u64, 300);
                    let text = format!("{:x}", mix(x[at].len() as u64 ^ i as u64));
                    x[at].push_str(&text[..2]);
                    if x[at].len() > 12 {
                        x[at].drain(..6);
                    }
                    if i == n / 3 {
                        let to = x[at].bytes().map(usize::from).sum::<usize>() % 300;
                        x[to].push('!');
                    }
                    total.add(x[at].len() as f64 / 3.0);
                    longest.max(x[at].len());
                },
                strategy = Grid
            )?;
            let (mut plain_longest, mut visited) = (0, 0);
            for i in report.serial_order() {
                let at = below(i as u64, 300);
                let text = format!("{:x}", mix(plain[at].len() as u64 ^ i as u64));
                plain[at].push_str(&text[..2]);
                if plain[at].len() > 12 {
                    plain[at].drain(..6);
                }
                if i == n / 3 {
                    let to = plain[at].bytes().map(usize::from).sum::<usize>() % 300;
                    plain[to].push('!');
                }
                plain_longest = plain_longest.max(plain[at].len());
                visited += 1;
            }
            assert_eq!((visited, longest.get()), (n, plain_longest));
            assert_eq!(x.to_vec()?, plain, "call {call}: {report}");
            assert_eq!(report.strategy(), Strategy::Grid);
            seen.record("total", total.get().to_bits());
            seen.report("strings", &report);
        }
        seen.digest("x", &x)
    }

    /// Failures of the odd iteration, of those before it and behind it: all is as it was.
    pub(crate) fn that_fail(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let odd = N / 2;
        for order in [Order::Any, Order::Preserve] {
            let mut x = DVector::from_fn(session, CELLS, |i| mix(i as u64))?;
            let mut plain = x.to_vec()?;
            for bad in [N, odd, N, 10, N - 1, odd, N] {
                let called = async_parallel_for!(
                    0..N,
                    [odd, bad, &mut x],
                    |i| {
                        let at = way(i);
                        x[at] = mix(x[at] ^ i as u64);
                        if i == odd {
                            let to = (x[at] % CELLS as u64) as usize;
                            x[to] ^= 5;
                            let further = (x[to] % CELLS as u64) as usize;
                            x[further] ^= 9;
                        }
                        if i == bad { Err(format!("no {i}")) } else { Ok(()) }
                    },
                    order = order,
                    strategy = Grid
                );
                match called {
                    Ok(report) => {
                        assert_eq!(bad, N);
                        let own: Vec<usize> =
                            if order == Order::Any { report.serial_order().collect() } else { (0..N).collect() };
                        for i in own {
                            let at = way(i);
                            plain[at] = mix(plain[at] ^ i as u64);
                            if i == odd {
                                let to = (plain[at] % CELLS as u64) as usize;
                                plain[to] ^= 5;
                                let further = (plain[to] % CELLS as u64) as usize;
                                plain[further] ^= 9;
                            }
                        }
                        seen.report("ended well", &report);
                    }
                    Err(stradsap::Error::Body { iteration, .. }) => assert_eq!(iteration, bad),
                    Err(error) => return Err(error),
                }
                assert!(x.to_vec()? == plain, "{order:?}, bad at {bad}");
            }
            seen.digest("x", &x)?;
        }
        Ok(())
    }

    /// Another iteration each time, by values: what it costs is bounded.
    pub(crate) fn others_each_time(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, CELLS, |i| mix(i as u64))?;
        let mut turn = DVector::from_fn(session, 1, |_| 0usize)?;
        let mut plain = x.to_vec()?;
        let mut undone = Vec::new();
        for call in 0..20 {
            turn.set(0, 1000 + below(call, N - 2000))?;
            let odd = turn.get(0)?;
            let report = async_parallel_for!(
                0..N,
                [&turn, &mut x],
                |i| {
                    let at = way(i);
                    x[at] = mix(x[at] ^ i as u64);
                    if i == turn[0] {
                        let to = (x[at] % CELLS as u64) as usize;
                        x[to] ^= 5;
                    }
                },
                order = Preserve,
                strategy = Grid
            )?;
            for i in 0..N {
                let at = way(i);
                plain[at] = mix(plain[at] ^ i as u64);
                if i == odd {
                    let to = (plain[at] % CELLS as u64) as usize;
                    plain[to] ^= 5;
                }
            }
            assert!(x.to_vec()? == plain, "call {call}");
            undone.push(report.misspeculations());
            seen.report("turn", &report);
        }
        // After some calls in a row, each of which finds another one, it runs serially.
        assert!(undone.iter().all(|&undone| undone <= 3) && undone[17..] == [0; 3], "{undone:?}");
        Ok(())
    }

    /// Every tenth is odd: that is no exception.
    pub(crate) fn too_many(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let odd: Vec<usize> = (0..N).step_by(10).collect();
        for way in WAYS {
            let reports = calls(session, seen, &odd, way)?;
            assert!(reports[0].misspeculations() <= 6, "{}", reports[0]);
            assert_eq!((reports[2].strategy(), reports[2].misspeculations()), (Strategy::Serial, 0), "{}", reports[2]);
        }
        Ok(())
    }
}
