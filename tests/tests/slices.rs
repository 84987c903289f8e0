//! Ranges of a DVector's elements as slices: `&x[a..b]` and `&mut x[a..b]`, as of a `Vec`.

use crate::common::{below, bits};
use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    bodies::of_what_is_only_read,
    bodies::of_every_form,
    bodies::that_are_written,
    bodies::of_texts_and_rows,
    bodies::beside_single_elements,
    bodies::of_few_of_many,
    bodies::that_nobody_foresaw,
    bodies::in_minibatches_and_operators,
    bodies::that_dont_exist
];

const STRATEGIES: [Strategy; 3] = [Strategy::Grid, Strategy::Coloured, Strategy::Serial];

/// What must be the same everywhere.
pub(crate) mod bodies {
    use super::*;

    pub(crate) fn of_what_is_only_read(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        // A sparse matrix by rows, times a vector.
        let n = 700;
        let mut starts = vec![0u32];
        let mut columns = Vec::new();
        for row in 0..n {
            columns.extend((0..below(row as u64, 9)).map(|k| below((row * 10 + k) as u64, n) as u16));
            starts.push(columns.len() as u32);
        }
        let (plain_starts, plain_columns) = (starts.clone(), columns.clone());
        let starts = DVector::from_vec(session, starts)?;
        let columns = DVector::from_vec(session, columns)?;
        let x = DVector::from_fn(session, n, |i| (i as f64).sqrt())?;
        let plain_x = x.to_vec()?;
        let mut y = DVector::from_fn(session, n, |_| 0.0f64)?;
        for _ in 0..2 {
            let report = async_parallel_for!(0..n, [&starts, &columns, &x, &mut y], |row| {
                y[row] = columns[starts[row]..starts[row + 1]].iter().map(|&at| x[at]).sum();
            })?;
            assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0));
            seen.report("sparse", &report);
        }
        let row = |row: usize| {
            let columns = &plain_columns[plain_starts[row] as usize..plain_starts[row + 1] as usize];
            columns.iter().map(|&at| plain_x[usize::from(at)]).sum::<f64>()
        };
        assert_eq!(bits(y.to_vec()?), bits((0..n).map(row)));
        Ok(())
    }

    pub(crate) fn of_every_form(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut x = DVector::from_fn(session, 40, |i| i as u64)?;
            let mut plain = x.to_vec()?;
            let report = async_parallel_for!(
                0..40u8,
                [&mut x],
                |i| {
                    let k = u64::from(i);
                    let sum: u64 = match i % 6 {
                        0 => x[i..].iter().sum(),
                        1 => x[..i].iter().sum(),
                        2 => x[..=i].iter().sum(),
                        3 => x[..].iter().sum(),
                        4 => x[i / 2..=i].iter().sum(),
                        _ => x[1..3].iter().sum::<u64>() + x[i64::from(i)..i64::from(i)].len() as u64,
                    };
                    match i % 5 {
                        0 => x[i..].reverse(),
                        1 => x[..i].rotate_left(1),
                        2 => x[..=i / 2].fill(k),
                        3 => x[..].swap(0, 39),
                        _ => x[i..=i][0] += 1,
                    }
                    x[i] ^= sum;
                },
                order = Preserve,
                strategy = strategy,
                parts = 3
            )?;
            for i in 0..40usize {
                let sum: u64 = match i % 6 {
                    0 => plain[i..].iter().sum(),
                    1 => plain[..i].iter().sum(),
                    2 => plain[..=i].iter().sum(),
                    3 => plain[..].iter().sum(),
                    4 => plain[i / 2..=i].iter().sum(),
                    _ => plain[1..3].iter().sum::<u64>(),
                };
                match i % 5 {
                    0 => plain[i..].reverse(),
                    1 => plain[..i].rotate_left(1),
                    2 => plain[..=i / 2].fill(i as u64),
                    3 => plain.swap(0, 39),
                    _ => plain[i] += 1,
                }
                plain[i] ^= sum;
            }
            assert_eq!(x.to_vec()?, plain, "{strategy}");
            seen.report("report", &report);
        }
        Ok(())
    }

    pub(crate) fn that_are_written(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut x = DVector::from_fn(session, 500, |i| below(i as u64, 1000) as f64)?;
            let y = DVector::from_fn(session, 500, |i| i as f64 / 7.0)?;
            let (mut plain, plain_y) = (x.to_vec()?, y.to_vec()?);
            for _ in 0..2 {
                // Windows that overlap here and there, and cross parts.
                let report = async_parallel_for!(
                    0..300,
                    [&mut x, &y],
                    |i| {
                        let at = below(i as u64, 480);
                        let n = 1 + i % 20;
                        let mean = x[at..at + n].iter().sum::<f64>() / n as f64;
                        for (x, y) in x[at..at + n].iter_mut().zip(&y[at..]) {
                            *x = 0.5 * (*x + mean) + y;
                        }
                    },
                    strategy = strategy,
                    parts = 4
                )?;
                assert_eq!(report.strategy(), strategy);
                assert_eq!(report.misspeculations(), 0, "{strategy}");
                for i in report.serial_order() {
                    let at = below(i as u64, 480);
                    let n = 1 + i % 20;
                    let mean = plain[at..at + n].iter().sum::<f64>() / n as f64;
                    for (x, y) in plain[at..at + n].iter_mut().zip(&plain_y[at..]) {
                        *x = 0.5 * (*x + mean) + y;
                    }
                }
                assert_eq!(bits(x.to_vec()?), bits(plain.clone()), "{strategy}");
                seen.report("report", &report);
            }
        }
        // Each its own stretch: nothing conflicts.
        let mut x = DVector::from_fn(session, 800, |i| below(i as u64, 1000) as u32)?;
        let mut plain = x.to_vec()?;
        let report = async_parallel_for!(0..100, [&mut x], |i| x[8 * i..8 * i + 8].sort_unstable())?;
        plain.chunks_mut(8).for_each(<[u32]>::sort_unstable);
        assert_eq!(x.to_vec()?, plain);
        assert_eq!(report.strategy(), Strategy::Aligned, "{report}");
        Ok(())
    }

    pub(crate) fn of_texts_and_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut texts = DVector::from_fn(session, 60, |i| i.to_string())?;
            let mut rows = DVector::from_fn(session, 60, |i| vec![i as u32; i % 5])?;
            let (mut plain_texts, mut plain_rows) = (texts.to_vec()?, rows.to_vec()?);
            let report = async_parallel_for!(
                0..200,
                [&mut texts, &mut rows],
                |i| {
                    let (a, n) = (below(i as u64, 50), i % 7);
                    let joined = texts[a..a + n].concat();
                    for row in &mut rows[a..a + n] {
                        row.push(joined.len() as u32);
                    }
                    if joined.len() < 200 {
                        texts[a..=a + n].rotate_left(1);
                        texts[a + n] += &joined;
                    } else {
                        texts[a..=a + n].iter_mut().for_each(String::clear);
                    }
                },
                strategy = strategy,
                parts = 3
            )?;
            for i in report.serial_order() {
                let (a, n) = (below(i as u64, 50), i % 7);
                let joined = plain_texts[a..a + n].concat();
                for row in &mut plain_rows[a..a + n] {
                    row.push(joined.len() as u32);
                }
                if joined.len() < 200 {
                    plain_texts[a..=a + n].rotate_left(1);
                    plain_texts[a + n] += &joined;
                } else {
                    plain_texts[a..=a + n].iter_mut().for_each(String::clear);
                }
            }
            assert_eq!((texts.to_vec()?, rows.to_vec()?), (plain_texts, plain_rows), "{strategy}");
            seen.report("report", &report);
        }
        Ok(())
    }

    /// Elements and slices of one iteration are of one DVector: what one writes, the other reads. Indices stand in what the
    /// loop writes, so that the loop comes to be recorded with real values, too.
    pub(crate) fn beside_single_elements(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut x = DVector::from_fn(session, 64, |i| below(i as u64, 64) as u32)?;
            let mut plain = x.to_vec()?;
            for round in 0..3u32 {
                let report = async_parallel_for!(
                    0..90,
                    [round, &mut x],
                    |i| {
                        let a = below(i as u64, 50);
                        x[a + 2] = (x[a + 2] + round) % 64;
                        let copy: Vec<u32> = x[a..a + 6].to_vec();
                        x[a + 1..a + 5].reverse();
                        let at = x[a + 3] as usize;
                        x[at] = (x[at] + copy[4]) % 64;
                        x[at.min(a)..at.min(a) + 3].sort_unstable();
                        let sum: u32 = x[a..a + 10].iter().sum();
                        x[a..a + 10][i % 10] = sum % 64;
                    },
                    order = Preserve,
                    strategy = strategy,
                    parts = 3
                )?;
                for i in 0..90 {
                    let a = below(i as u64, 50);
                    plain[a + 2] = (plain[a + 2] + round) % 64;
                    let copy: Vec<u32> = plain[a..a + 6].to_vec();
                    plain[a + 1..a + 5].reverse();
                    let at = plain[a + 3] as usize;
                    plain[at] = (plain[at] + copy[4]) % 64;
                    plain[at.min(a)..at.min(a) + 3].sort_unstable();
                    let sum: u32 = plain[a..a + 10].iter().sum();
                    plain[a..a + 10][i % 10] = sum % 64;
                }
                assert_eq!(x.to_vec()?, plain, "{strategy}, round {round}");
                seen.report("report", &report);
            }
        }
        Ok(())
    }

    /// Elements are saved one by one there, before they change.
    pub(crate) fn of_few_of_many(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let mut x = DVector::from_fn(session, 50_000, |i| i as u64)?;
            let mut plain = x.to_vec()?;
            for fails in [true, false] {
                let ended = async_parallel_for!(
                    0..60,
                    [fails, &mut x],
                    |i| {
                        let at = below(i as u64, 30) * 1000;
                        let first = x[at];
                        x[at..at + 5].iter_mut().for_each(|x| *x = x.wrapping_mul(first) + 1);
                        if fails && i == 40 { Err("half-way") } else { Ok(()) }
                    },
                    strategy = strategy
                );
                let Ok(report) = ended else {
                    assert!(fails);
                    assert_eq!(x.to_vec()?, plain, "{strategy}");
                    continue;
                };
                for i in report.serial_order() {
                    let at = below(i as u64, 30) * 1000;
                    let first = plain[at];
                    plain[at..at + 5].iter_mut().for_each(|x| *x = x.wrapping_mul(first) + 1);
                }
                assert_eq!(x.to_vec()?, plain, "{strategy}");
                seen.report("report", &report);
            }
        }
        Ok(())
    }

    pub(crate) fn that_nobody_foresaw(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        for strategy in STRATEGIES {
            let n = 400;
            // Where each iteration works stands in what the loop writes.
            let mut at = DVector::from_fn(session, n, |i| below(i as u64, 300) as u32)?;
            let mut x = DVector::from_fn(session, 330, |i| i.to_string())?;
            let (mut plain_at, mut plain) = (at.to_vec()?, x.to_vec()?);
            for round in 0..3 {
                let report = async_parallel_for!(
                    0..n,
                    [round, &mut at, &mut x],
                    |i| {
                        let a = at[i];
                        let last = x[a..a + 9].iter().map(String::len).max();
                        x[a + 3..a + 6].rotate_right(1);
                        x[a].truncate(last.unwrap_or(0) / 2);
                        x[a + 1] += "+";
                        if i + 7 < at.len() && (i + round) % 3 == 0 {
                            at[i + 5..i + 7].iter_mut().for_each(|at| *at = (*at * 7 + 11) % 300);
                        }
                    },
                    order = Preserve,
                    strategy = strategy,
                    parts = 4
                )?;
                for i in 0..n {
                    let a = plain_at[i] as usize;
                    let last = plain[a..a + 9].iter().map(String::len).max();
                    plain[a + 3..a + 6].rotate_right(1);
                    plain[a].truncate(last.unwrap_or(0) / 2);
                    plain[a + 1] += "+";
                    if i + 7 < n && (i + round) % 3 == 0 {
                        plain_at[i + 5..i + 7].iter_mut().for_each(|at| *at = (*at * 7 + 11) % 300);
                    }
                }
                assert_eq!((at.to_vec()?, x.to_vec()?), (plain_at.clone(), plain.clone()), "{strategy}, round {round}");
                seen.report("report", &report);
            }
        }
        Ok(())
    }

    pub(crate) fn in_minibatches_and_operators(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let table = DVector::from_fn(session, 50, |i| i as u64)?;
        let points = DVector::from_fn(session, 90, |i| below(i as u64, 45) as u64)?;
        let mut sums = DVector::from_fn(session, 3, |_| 0u64)?;
        sync_parallel_for!(
            points,
            10,
            [&table, &mut sums],
            |batch| {
                for &k in batch {
                    sums[k % 3].add(table[k..k + 5].iter().sum());
                }
            },
            SyncPolicy::Bsp
        )?;
        let mut plain = [0; 3];
        for k in points.to_vec()? {
            plain[k as usize % 3] += (k..k + 5).sum::<u64>();
        }
        assert_eq!(sums.to_vec()?, plain);
        let mapped = with!([&table], points.map(|&k| table[..k].len() as u64 + table[k])).collect()?;
        assert_eq!(mapped.to_vec()?, points.to_vec()?.iter().map(|k| 2 * k).collect::<Vec<_>>());
        seen.digest("sums", &sums)
    }

    pub(crate) fn that_dont_exist(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut x = DVector::from_fn(session, 10, |i| i)?;
        for (a, b, missing) in [(3, 11usize, 10), (0, 15, 14), (12, 12, 12), (11, 14, 13)] {
            let error = async_parallel_for!(0..2, [a, b, &mut x], |_| x[a..b].fill(1)).unwrap_err();
            assert!(
                matches!(error, stradsap::Error::IndexOutOfRange { index, len: 10, .. } if index == missing),
                "{a}..{b}: {error:?}"
            );
            let error = async_parallel_for!(0..2, [a, b, &x], |_| assert!(x[a..b].is_empty())).unwrap_err();
            assert!(matches!(error, stradsap::Error::IndexOutOfRange { len: 10, .. }), "{a}..{b}: {error:?}");
        }
        for (a, b) in [(0, 10), (3, 11), (0, usize::MAX), (1, usize::MAX), (9, usize::MAX - 1)] {
            let error = async_parallel_for!(0..2, [a, b, &mut x], |_| x[a..=b].fill(1)).unwrap_err();
            assert!(matches!(error, stradsap::Error::IndexOutOfRange { len: 10, .. }), "{a}..={b}: {error:?}");
            let error = async_parallel_for!(0..2, [a, b, &x], |_| assert!(x[a..=b].is_empty())).unwrap_err();
            assert!(matches!(error, stradsap::Error::IndexOutOfRange { len: 10, .. }), "{a}..={b}: {error:?}");
        }
        async_parallel_for!(0..2, [&mut x], |i| {
            let (a, b) = (5 + i, 4 + i);
            assert!(x[a..=b].is_empty() && x[a..=a + 2].len() == 3 && x[..=b].len() == b + 1);
            x[a..=b].fill(77);
        })?;
        let (five, three) = (5, 3);
        let error = async_parallel_for!(0..2, [five, three, &mut x], |_| x[five..three].fill(1)).unwrap_err();
        assert!(error.to_string().contains("a range of elements starts at 5 but ends at 3"), "{error}");
        let error = async_parallel_for!(0..2, [&mut x], |i| x[i as i32 - 1..3].fill(1)).unwrap_err();
        assert!(error.to_string().contains("starts at"), "{error}");
        // No element at all is no access.
        async_parallel_for!(0..11, [&mut x], |i| assert!(x[i..i].is_empty() && x[10..].is_empty()))?;
        assert_eq!(x.to_vec()?, (0..10).collect::<Vec<_>>());
        seen.digest("x", &x)?;
        let empty: DVector<String> = DVector::from_vec(session, Vec::new())?;
        async_parallel_for!(0..3, [&empty], |_| assert!(empty[..].is_empty() && empty[0..0].is_empty()))?;
        Ok(())
    }
}
