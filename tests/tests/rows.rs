//! Loops over pairs that leave out borders of the tables that they go over: what the plain loop makes of them, bit by bit. Under `Preserve` they
//! run by tiles in one process; where each row writes elements of its own, rows run at the same time.

use crate::seen::{Scenario, Seen};
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    self::relaxation_inside_a_border,
    self::alignment_with_moves_beside,
    self::parts_of_a_table_in_turn,
    self::a_failure_inside_a_border,
    self::a_cell_that_reaches_far,
    self::rows_of_their_own,
    self::few_elements_of_long_rows,
    self::sums_along_rows,
    self::a_row_that_touches_another,
];

fn start(i: usize) -> f64 {
    (i * 7919 % 1013) as f64 / 97.0
}

fn is_tiled(session: &Session, report: &LoopReport) {
    assert_eq!(report.strategy() == Strategy::Tiled, session.workers() == 0, "{report}");
    assert!(report.strategy() != Strategy::Tiled || report.parallelism() > 2.0, "{report}");
}

fn same(x: &DVector<f64>, plain: &[f64], seen: &mut Seen, what: &str) -> stradsap::Result<()> {
    for (k, (one, other)) in x.to_vec()?.iter().zip(plain).enumerate() {
        assert_eq!(one.to_bits(), other.to_bits(), "{what}[{k}]: {one} and {other}");
    }
    seen.digest(what, x)
}

/// One table that is recorded as a whole, and one of more cells than are recorded.
pub(crate) fn relaxation_inside_a_border(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for (rows, width, grain) in [(61, 83, 100), (260, 170, 1000)] {
        let mut x = DVector::from_fn(session, rows * width, start)?;
        let mut plain = x.to_vec()?;
        for epoch in 0..3 {
            let report = async_parallel_for!(
                (1..rows - 1, 1..width - 1),
                [&mut x, width],
                |(i, j)| {
                    let k = i * width + j;
                    x[k] = 0.25 * (x[k - width] + x[k + width] + x[k - 1] + x[k + 1]);
                },
                order = Preserve,
                grain = grain
            )?;
            is_tiled(session, &report);
            assert_eq!((report.reused(), report.misspeculations()), (epoch > 0, 0), "{report}");
            async_parallel_for!(0..rows * width, [&mut x], |k| x[k] *= 0.999)?;
            for (i, j) in (1..rows - 1).flat_map(|i| (1..width - 1).map(move |j| (i, j))) {
                let k = i * width + j;
                plain[k] = 0.25 * (plain[k - width] + plain[k + width] + plain[k - 1] + plain[k + 1]);
            }
            plain.iter_mut().for_each(|x| *x *= 0.999);
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// Each iteration writes few elements of its long row, later many, and some fail: all are put back.
pub(crate) fn few_elements_of_long_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (90usize, 160usize);
    let mut x = DVector::from_fn(session, rows * width, start)?;
    let mut plain = x.to_vec()?;
    let mut names = DVector::from_fn(session, rows * width, |k| k.to_string())?;
    let mut plain_names = names.to_vec()?;
    for (round, bad) in [rows, 5, 80, rows, 1, rows, 44, rows].into_iter().enumerate() {
        let (first, many) = (1 + round % 3, if round < 4 { 2 } else { width });
        let called = async_parallel_for!(first..rows, [bad, many, width, &mut x, &mut names], |i| {
            let mut sum = x[i] + x[i * width..i * width + 7].iter().sum::<f64>();
            for k in 0..many {
                let at = i * width + (k * 11 + i) % width;
                sum = sum * 0.5 + x[at];
                x[at] = sum;
                x[at] += 1.0;
                names[at].push('x');
            }
            if i == bad { Err("bad") } else { Ok(()) }
        });
        match called {
            Ok(_) => {
                for i in first..rows {
                    let mut sum = plain[i] + plain[i * width..i * width + 7].iter().sum::<f64>();
                    for k in 0..many {
                        let at = i * width + (k * 11 + i) % width;
                        sum = sum * 0.5 + plain[at];
                        plain[at] = sum;
                        plain[at] += 1.0;
                        plain_names[at].push('x');
                    }
                }
                assert!(bad == rows || bad < first, "round {round}");
            }
            Err(stradsap::Error::Body { iteration, .. }) => assert_eq!(iteration, bad),
            Err(error) => return Err(error),
        }
        assert!(names.to_vec()? == plain_names, "round {round}");
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// Three tables of three widths: one with a border above and on the left, one without, and one with room behind each row.
pub(crate) fn alignment_with_moves_beside(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for (n, m) in [(60usize, 82usize), (230, 190)] {
        let (width, wide) = (m + 1, m + 7);
        let letters = |n: usize, seed: usize| (0..n).map(move |i| (i * seed + i / 7) as u8 % 5).collect::<Vec<u8>>();
        let (one, other) = (letters(n, 31), letters(m, 17));
        let begin = |k: usize| if k < width { k } else { k / width } as f64;
        let mut cost = DVector::from_fn(session, (n + 1) * width, begin)?;
        let mut moves = DVector::from_fn(session, n * m, |_| 0u8)?;
        let mut best = DVector::from_fn(session, (n + 1) * wide, |k| start(k) + 60.0)?;
        let (mut plain, mut plain_moves, mut plain_best) = (cost.to_vec()?, vec![0u8; n * m], best.to_vec()?);
        let report = async_parallel_for!(
            (1..=n, 1..=m),
            [&mut cost, &mut moves, &mut best, one, other, m],
            |(i, j)| {
                let at = i * (m + 1) + j;
                let changed = cost[at - m - 2] + f64::from(u8::from(one[i - 1] != other[j - 1]));
                let (left, above) = (cost[at - 1] + 1.0, cost[at - m - 1] + 1.0);
                cost[at] = changed.min(left).min(above);
                moves[(i - 1) * m + j - 1] = if cost[at] == changed { 0 } else { 1 + u8::from(cost[at] == left) };
                let here = i * (m + 7) + j;
                best[here] = cost[at].min(best[here - m - 7]);
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        assert_eq!(report.misspeculations(), 0, "{report}");
        let (one, other) = (letters(n, 31), letters(m, 17));
        for (i, j) in (1..=n).flat_map(|i| (1..=m).map(move |j| (i, j))) {
            let at = i * width + j;
            let changed = plain[at - width - 1] + f64::from(u8::from(one[i - 1] != other[j - 1]));
            let (left, above) = (plain[at - 1] + 1.0, plain[at - width] + 1.0);
            plain[at] = changed.min(left).min(above);
            plain_moves[(i - 1) * m + j - 1] = if plain[at] == changed { 0 } else { 1 + u8::from(plain[at] == left) };
            plain_best[i * wide + j] = plain[at].min(plain_best[(i - 1) * wide + j]);
        }
        same(&cost, &plain, seen, "cost")?;
        same(&best, &plain_best, seen, "best")?;
        assert_eq!(moves.to_vec()?, plain_moves);
    }
    Ok(())
}

/// One loop, called with one part of its table after the other, by signed numbers.
pub(crate) fn parts_of_a_table_in_turn(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (70i32, 90i32);
    let mut x = DVector::from_fn(session, (rows * width) as usize, start)?;
    let mut plain = x.to_vec()?;
    let parts = [
        (1, 70, 1, 89),
        (2, 69, 3, 80),
        (10, 60, 1, 89),
        (1, 70, 1, 89),
        (1, 2, 1, 89),
        (5, 70, 40, 48),
        (30, 30, 1, 9),
    ];
    for (top, bottom, left, right) in parts {
        async_parallel_for!(
            (top..bottom, left - 1..right - 1),
            [&mut x, width],
            |(i, j)| {
                let k = i * width + j + 1;
                x[k] = 0.5 * x[k] + 0.25 * x[k - width + 1] + 0.25 * x[k - 1];
            },
            order = Preserve,
            grain = 50
        )?;
        for (i, j) in (top..bottom).flat_map(|i| (left..right).map(move |j| (i, j))) {
            let (k, width) = ((i * width + j) as usize, width as usize);
            plain[k] = 0.5 * plain[k] + 0.25 * plain[k - width + 1] + 0.25 * plain[k - 1];
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// The plain loop comes to the failure of its first such cell; nothing is left of what it did.
pub(crate) fn a_failure_inside_a_border(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (61usize, 83usize);
    let mut x = DVector::from_fn(session, rows * width, start)?;
    let mut plain = x.to_vec()?;
    let never = (0, 0);
    for (panics, fails) in
        [(never, never), ((40, 13), (22, 61)), ((22, 61), (40, 13)), (never, (59, 81)), (never, never)]
    {
        let ended = async_parallel_for!(
            (1..rows - 1, 1..width - 1),
            [&mut x, width, panics, fails],
            |(i, j)| {
                assert!((i, j) != panics, "cell {i}, {j} is bad");
                let k = i * width + j;
                x[k] = 0.25 * (x[k - width] + x[k + width] + x[k - 1] + x[k + 1]);
                if (i, j) == fails { Err(format!("cell {i}, {j} is wrong")) } else { Ok(()) }
            },
            order = Preserve,
            grain = 100
        );
        let first = [(panics, "bad"), (fails, "wrong")].into_iter().filter(|(cell, _)| *cell != never).min();
        match (ended, first) {
            (Ok(report), None) => {
                is_tiled(session, &report);
                for (i, j) in (1..rows - 1).flat_map(|i| (1..width - 1).map(move |j| (i, j))) {
                    let k = i * width + j;
                    plain[k] = 0.25 * (plain[k - width] + plain[k + width] + plain[k - 1] + plain[k + 1]);
                }
            }
            (Err(error), Some(((i, j), what))) => {
                assert!(error.to_string().contains(&format!("cell {i}, {j} is {what}")), "{error}");
            }
            (ended, first) => panic!("{ended:?}, but {first:?}"),
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// It touches an element that no other cell's pattern shows.
pub(crate) fn a_cell_that_reaches_far(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (260usize, 170usize);
    let mut x = DVector::from_fn(session, rows * width, start)?;
    let mut plain = x.to_vec()?;
    for odd in [(131, 67), (131, 67), (200, 168)] {
        async_parallel_for!(
            (1..rows, 1..width),
            [&mut x, width, odd],
            |(i, j)| {
                let k = i * width + j;
                x[k] = 0.5 * (x[k - width] + x[k - 1]) - x[k];
                if (i, j) == odd {
                    x[3] += x[k / 2];
                }
            },
            order = Preserve
        )?;
        for (i, j) in (1..rows).flat_map(|i| (1..width).map(move |j| (i, j))) {
            let k = i * width + j;
            plain[k] = 0.5 * (plain[k - width] + plain[k - 1]) - plain[k];
            if (i, j) == odd {
                plain[3] += plain[k / 2];
            }
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// Heat from one table to another, in place from the values before, and in place along each row; small tables and larger ones.
pub(crate) fn rows_of_their_own(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for (rows, width) in [(70usize, 60usize), (290, 200)] {
        let mut now = DVector::from_fn(session, rows * width, start)?;
        let mut next = DVector::from_fn(session, rows * width, start)?;
        let (mut plain, mut plain_next) = (now.to_vec()?, next.to_vec()?);
        for epoch in 0..3 {
            let aligned = |report: &LoopReport| {
                assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0), "{report}");
                assert_eq!(report.reused(), epoch > 0);
            };
            aligned(&async_parallel_for!((1..rows - 1, 1..width - 1), [width, &now, &mut next], |(i, j)| {
                let k = i * width + j;
                next[k] = now[k] + 0.2 * (now[k - width] + now[k + width] + now[k - 1] + now[k + 1] - 4.0 * now[k]);
            })?);
            aligned(&async_parallel_for!((1..rows - 1, 2..width - 2), [width, &mut now], |(i, j)| {
                let k = i * width + j;
                now[k] += 0.1 * (now.old[k - width] + now.old[k + 2] - 2.0 * now.old[k]);
            })?);
            aligned(&async_parallel_for!(
                (0..rows, 1..width),
                [width, &mut next],
                |(i, j)| next[i * width + j] = 0.5 * (next[i * width + j] + next[i * width + j - 1]),
                order = Preserve
            )?);
            let old = plain.clone();
            for (i, j) in (1..rows - 1).flat_map(|i| (1..width - 1).map(move |j| (i, j))) {
                let k = i * width + j;
                plain_next[k] =
                    old[k] + 0.2 * (old[k - width] + old[k + width] + old[k - 1] + old[k + 1] - 4.0 * old[k]);
                if (2..width - 2).contains(&j) {
                    plain[k] += 0.1 * (old[k - width] + old[k + 2] - 2.0 * old[k]);
                }
            }
            for (i, j) in (0..rows).flat_map(|i| (1..width).map(move |j| (i, j))) {
                plain_next[i * width + j] = 0.5 * (plain_next[i * width + j] + plain_next[i * width + j - 1]);
            }
        }
        same(&now, &plain, seen, "now")?;
        same(&next, &plain_next, seen, "next")?;
    }
    Ok(())
}

/// All cells of a row add to one element, in the loop's order.
pub(crate) fn sums_along_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (300usize, 150usize);
    let table = DVector::from_fn(session, rows * width, start)?;
    let mut sums = DVector::from_fn(session, rows + 2, |_| 0.1f64)?;
    let (cells, mut plain) = (table.to_vec()?, sums.to_vec()?);
    for _ in 0..2 {
        let report = async_parallel_for!((0..rows, 1..width), [width, &table, &mut sums], |(i, j)| {
            let largest = sums[i + 1].max(table[i * width + j]);
            sums[i + 1] = 0.9 * largest + 0.01 * table[i * width + j - 1];
        })?;
        assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0), "{report}");
        for (i, j) in (0..rows).flat_map(|i| (1..width).map(move |j| (i, j))) {
            plain[i + 1] = 0.9 * plain[i + 1].max(cells[i * width + j]) + 0.01 * cells[i * width + j - 1];
        }
        same(&sums, &plain, seen, "sums")?;
    }
    Ok(())
}

/// A row that no sample shows, and one that touches another row in some calls.
pub(crate) fn a_row_that_touches_another(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (300usize, 150usize);
    let mut x = DVector::from_fn(session, rows * width, start)?;
    let mut plain = x.to_vec()?;
    for odd in [(77, 93), (0, 0), (201, 5), (77, 93)] {
        async_parallel_for!(
            (1..rows - 1, 1..width - 1),
            [width, odd, &mut x],
            |(i, j)| {
                let k = i * width + j;
                x[k] = 0.5 * (x[k] + x[k - 1]);
                if (i, j) == odd {
                    x[k] += x[k - width] + x[k + width];
                }
            },
            order = Preserve
        )?;
        for (i, j) in (1..rows - 1).flat_map(|i| (1..width - 1).map(move |j| (i, j))) {
            let k = i * width + j;
            plain[k] = 0.5 * (plain[k] + plain[k - 1]);
            if (i, j) == odd {
                plain[k] += plain[k - width] + plain[k + width];
            }
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}
