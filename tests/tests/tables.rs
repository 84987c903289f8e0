//! Loops over tables that lie in a vector row by row, in the loop's own order: what the plain loop makes of them, bit by bit. In one
//! process they run by tiles; on workers they don't.

use std::fmt::Debug;

use crate::seen::{Alone, Scenario, Seen};
use stradsap::Element;
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    self::gauss_seidel_with_a_loop_between,
    self::sor_by_parity,
    self::nine_points_as_pairs,
    self::edit_distance,
    self::longest_common_subsequence_of_owned_rows,
    self::prefix_sums_of_sub_ranges,
    self::two_fields_that_need_each_other,
    self::ranges_and_pairs_of_elements,
    self::an_access_that_strays_now_and_then,
    self::a_panic_in_the_middle,
    self::a_reduction_beside_a_table,
    self::tables_of_many_cells,
    self::a_cell_that_no_outline_shows,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![a_report_says_how_a_table_was_cut];

const ROWS: usize = 61;
const WIDTH: usize = 83;
const CELLS: usize = ROWS * WIDTH;

fn start(i: usize) -> f64 {
    (i * 7919 % 1013) as f64 / 97.0
}

fn is_inner(k: usize, width: usize) -> bool {
    let (row, column) = (k / width, k % width);
    row > 0 && row < ROWS - 1 && column > 0 && column < width - 1
}

fn is_tiled(session: &Session, report: &LoopReport) {
    assert_eq!(report.strategy() == Strategy::Tiled, session.workers() == 0, "{report}");
    assert!(report.strategy() != Strategy::Tiled || report.parallelism() > 2.0, "{report}");
}

/// Floats by their bits.
fn same<T: Element + Debug>(x: &DVector<T>, plain: &[T], seen: &mut Seen, what: &str) -> stradsap::Result<()> {
    for (k, (one, other)) in x.to_vec()?.iter().zip(plain).enumerate() {
        assert_eq!(format!("{one:?}"), format!("{other:?}"), "{what}[{k}]");
    }
    seen.digest(what, x)
}

pub(crate) fn gauss_seidel_with_a_loop_between(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let width = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut moved = DVector::from_fn(session, CELLS, |_| 0.0f64)?;
    let (mut plain, mut plain_moved) = (x.to_vec()?, vec![0.0; CELLS]);
    for epoch in 0..4 {
        let report = async_parallel_for!(
            0..CELLS,
            [&mut x, &mut moved, width],
            |k| {
                if is_inner(k, width) {
                    let old = x[k];
                    x[k] = 0.25 * (x[k - width] + x[k + width] + x[k - 1] + x[k + 1]);
                    moved[k] += x[k] - old;
                }
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        assert_eq!((report.reused(), report.misspeculations()), (epoch > 0, 0));
        async_parallel_for!(0..CELLS, [&mut x], |k| x[k] *= 0.999)?;
        for k in (0..CELLS).filter(|&k| is_inner(k, width)) {
            let old = plain[k];
            plain[k] = 0.25 * (plain[k - width] + plain[k + width] + plain[k - 1] + plain[k + 1]);
            plain_moved[k] += plain[k] - old;
        }
        plain.iter_mut().for_each(|x| *x *= 0.999);
        same(&x, &plain, seen, "x")?;
        same(&moved, &plain_moved, seen, "moved")?;
    }
    Ok(())
}

pub(crate) fn sor_by_parity(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    const W: usize = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, |i| start(i) as f32)?;
    let mut plain = x.to_vec()?;
    for epoch in 0..3 {
        for parity in 0..2 {
            let omega = 1.5f32;
            let report = async_parallel_for!(
                0..CELLS,
                [&mut x, parity, omega],
                |k| {
                    if !is_inner(k, W) || (k / W + k % W) % 2 != parity {
                        return;
                    }
                    let around = x[k - W] + x[k + W] + x[k - 1] + x[k + 1];
                    x[k] += omega * (0.25 * around - x[k]);
                },
                order = Preserve,
                strategy = Tiled,
                grain = 60
            )?;
            assert_eq!(report.misspeculations(), 0, "epoch {epoch}: {report}");
            for k in (0..CELLS).filter(|&k| is_inner(k, W) && (k / W + k % W) % 2 == parity) {
                let around = plain[k - W] + plain[k + W] + plain[k - 1] + plain[k + 1];
                plain[k] += omega * (0.25 * around - plain[k]);
            }
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// The row above is shifted against this one: each cell needs one to its right there.
pub(crate) fn nine_points_as_pairs(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let width = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut plain = x.to_vec()?;
    for _ in 0..3 {
        let report = async_parallel_for!(
            (0..ROWS, 0..WIDTH),
            [&mut x, width],
            |(r, c)| {
                if r > 0 && r + 1 < ROWS && c > 0 && c + 1 < width {
                    let mut sum = 0.0;
                    for row in r - 1..=r + 1 {
                        for column in c - 1..=c + 1 {
                            sum += x[row * width + column];
                        }
                    }
                    x[r * width + c] = sum / 9.0;
                }
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        for k in (0..CELLS).filter(|&k| is_inner(k, width)) {
            let rows = [k - width, k, k + width];
            plain[k] = rows.iter().flat_map(|&k| [k - 1, k, k + 1]).fold(0.0, |sum, k| sum + plain[k]) / 9.0;
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

pub(crate) fn edit_distance(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let letters = |n: usize, seed: usize| (0..n).map(move |i| (i * seed + i / 7) as u8 % 5).collect::<Vec<u8>>();
    let (one, other) = (letters(ROWS - 1, 31), letters(WIDTH - 1, 17));
    let (a, b) = (DVector::from_vec(session, one.clone())?, DVector::from_vec(session, other.clone())?);
    let begin = |k: usize| if k < WIDTH { k } else if k.is_multiple_of(WIDTH) { k / WIDTH } else { 0 } as u32;
    let (mut d, w) = (DVector::from_fn(session, CELLS, begin)?, WIDTH);
    let mut plain = d.to_vec()?;
    let report = async_parallel_for!(
        0..CELLS,
        [&mut d, &a, &b, w],
        |k| {
            let (row, column) = (k / w, k % w);
            if row > 0 && column > 0 {
                let cost = u32::from(a[row - 1] != b[column - 1]);
                d[k] = (d[k - 1] + 1).min(d[k - w] + 1).min(d[k - w - 1] + cost);
            }
        },
        order = Preserve,
        grain = 100
    )?;
    is_tiled(session, &report);
    for k in (w..CELLS).filter(|k| k % w > 0) {
        let cost = u32::from(one[k / w - 1] != other[k % w - 1]);
        plain[k] = (plain[k - 1] + 1).min(plain[k - w] + 1).min(plain[k - w - 1] + cost);
    }
    seen.record("distance", plain[CELLS - 1]);
    same(&d, &plain, seen, "d")
}

/// Elements that own memory.
pub(crate) fn longest_common_subsequence_of_owned_rows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    const W: usize = 40;
    const N: usize = 40 * W;
    let letter = |i: usize, seed: usize| (i * seed + i / 5) % 3;
    let mut d = DVector::from_fn(session, N, |_| Vec::<u8>::new())?;
    let mut plain = d.to_vec()?;
    let report = async_parallel_for!(
        0..N,
        [&mut d],
        |k| {
            let (row, column) = (k / W, k % W);
            if row > 0 && column > 0 {
                let (a, b) = ((row * 7 + row / 5) % 3, (column * 11 + column / 5) % 3);
                d[k] = if a == b {
                    let mut longer = d[k - W - 1].clone();
                    longer.push(a as u8);
                    longer
                } else if d[k - 1].len() >= d[k - W].len() {
                    d[k - 1].clone()
                } else {
                    d[k - W].clone()
                };
            }
        },
        order = Preserve,
        strategy = Tiled,
        grain = 40
    )?;
    assert_eq!(report.strategy() == Strategy::Tiled, session.workers() == 0, "{report}");
    for k in (W..N).filter(|k| k % W > 0) {
        let (a, b) = (letter(k / W, 7), letter(k % W, 11));
        plain[k] = if a == b {
            [&*plain[k - W - 1], &[a as u8]].concat()
        } else if plain[k - 1].len() >= plain[k - W].len() {
            plain[k - 1].clone()
        } else {
            plain[k - W].clone()
        };
    }
    same(&d, &plain, seen, "d")
}

pub(crate) fn prefix_sums_of_sub_ranges(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, |i| i as i64 % 11 - 5)?;
    let mut plain = x.to_vec()?;
    for range in [0..CELLS, 5 * w + 17..CELLS - 9 * w - 40, w + 1..CELLS, 0..CELLS] {
        let report = async_parallel_for!(
            range.clone(),
            [&mut x, w],
            |k| {
                let up = if k >= w { x[k - w] } else { 0 };
                let left = if k % w > 0 { x[k - 1] } else { 0 };
                let both = if k >= w && k % w > 0 { x[k - w - 1] } else { 0 };
                x[k] = x[k].wrapping_add(up).wrapping_add(left).wrapping_sub(both);
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        for k in range {
            let up = if k >= w { plain[k - w] } else { 0 };
            let left = if k % w > 0 { plain[k - 1] } else { 0 };
            let both = if k >= w && k % w > 0 { plain[k - w - 1] } else { 0 };
            plain[k] = plain[k].wrapping_add(up).wrapping_add(left).wrapping_sub(both);
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// One is written a row further down than where it is read; the vectors differ in length.
pub(crate) fn two_fields_that_need_each_other(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut u = DVector::from_fn(session, CELLS, start)?;
    let mut v = DVector::from_fn(session, CELLS + w, |i| start(i + 3))?;
    let (mut plain_u, mut plain_v) = (u.to_vec()?, v.to_vec()?);
    for _ in 0..3 {
        let report = async_parallel_for!(
            0..CELLS,
            [&mut u, &mut v, w],
            |k| {
                if is_inner(k, w) {
                    u[k] = 0.5 * u[k - 1] + 0.3 * v[k] + 0.2 * u[k + w];
                    v[k + w] = 0.5 * v[k + w - 1] + 0.5 * u[k];
                }
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        for k in (0..CELLS).filter(|&k| is_inner(k, w)) {
            plain_u[k] = 0.5 * plain_u[k - 1] + 0.3 * plain_v[k] + 0.2 * plain_u[k + w];
            plain_v[k + w] = 0.5 * plain_v[k + w - 1] + 0.5 * plain_u[k];
        }
        same(&u, &plain_u, seen, "u")?;
        same(&v, &plain_v, seen, "v")?;
    }
    Ok(())
}

/// Elements taken as slices, several at once, and exchanged.
pub(crate) fn ranges_and_pairs_of_elements(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut plain = x.to_vec()?;
    for _ in 0..2 {
        let report = async_parallel_for!(
            0..CELLS,
            [&mut x, w],
            |k| {
                if is_inner(k, w) {
                    let above: f64 = x[k - w - 1..k - w + 2].iter().sum();
                    let (left, own) = x.pair_mut(k - 1, k);
                    *own += 0.1 * *left + 0.01 * above;
                    x.swap(k - 1, k);
                    assert_eq!(x.get(CELLS + k), None);
                }
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        for k in (0..CELLS).filter(|&k| is_inner(k, w)) {
            let above: f64 = plain[k - w - 1..k - w + 2].iter().sum();
            plain[k] += 0.1 * plain[k - 1] + 0.01 * above;
            plain.swap(k - 1, k);
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

pub(crate) fn an_access_that_strays_now_and_then(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut jumps = DVector::from_fn(session, CELLS, |_| 0u32)?;
    let (mut plain, mut plain_jumps) = (x.to_vec()?, vec![0u32; CELLS]);
    for epoch in 0..5usize {
        let report = async_parallel_for!(
            0..CELLS,
            [&mut x, &jumps, w],
            |k| {
                if is_inner(k, w) {
                    let far = jumps[k] as usize;
                    x[k] = 0.5 * x[k - w] + 0.5 * x[k - 1];
                    if far > 0 {
                        x[far] += x[k];
                    }
                }
            },
            order = Preserve,
            grain = 100
        )?;
        seen.record("epoch", epoch);
        if epoch == 0 {
            is_tiled(session, &report);
        }
        for k in (0..CELLS).filter(|&k| is_inner(k, w)) {
            plain[k] = 0.5 * plain[k - w] + 0.5 * plain[k - 1];
            if plain_jumps[k] > 0 {
                plain[plain_jumps[k] as usize] += plain[k];
            }
        }
        same(&x, &plain, seen, "x")?;
        let (from, to) = (2000 + 31 * epoch, (4500 - 700 * epoch) as u32);
        async_parallel_for!(0..1usize, [&mut jumps, from, to], |_i| jumps[from] = to)?;
        plain_jumps[from] = to;
    }
    Ok(())
}

/// The plain loop comes to the panic, or the error, of its first such iteration; nothing is left of what it did.
pub(crate) fn a_panic_in_the_middle(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut plain = x.to_vec()?;
    for (first, second) in [(CELLS, CELLS), (3000, 1777), (1777, 3000), (CELLS, 90), (CELLS, CELLS)] {
        let result = async_parallel_for!(
            0..CELLS,
            [&mut x, w, first, second],
            |k| {
                if k == first {
                    panic!("cell {k} is bad");
                }
                if is_inner(k, w) {
                    x[k] = 0.25 * (x[k - w] + x[k + w] + x[k - 1] + x[k + 1]);
                }
                if k == second { Err(format!("cell {k} is wrong")) } else { Ok(()) }
            },
            order = Preserve,
            grain = 100
        );
        let failing = first.min(second);
        if failing == CELLS {
            is_tiled(session, &result?);
            for k in (0..CELLS).filter(|&k| is_inner(k, w)) {
                plain[k] = 0.25 * (plain[k - w] + plain[k + w] + plain[k - 1] + plain[k + 1]);
            }
        } else {
            let error = result.err().map(|error| error.to_string()).unwrap_or_default();
            let what = if failing == first { "bad" } else { "wrong" };
            assert!(error.contains(&format!("cell {failing} is {what}")), "{error}");
        }
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// Floats are added in the loop's order; whole numbers in any.
pub(crate) fn a_reduction_beside_a_table(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let w = WIDTH;
    let mut x = DVector::from_fn(session, CELLS, start)?;
    let mut plain = x.to_vec()?;
    for _ in 0..3 {
        let (sum, count, largest) = (session.sum(0.0f64), session.sum(0u64), session.max(0.0f64));
        let report = async_parallel_for!(
            0..CELLS,
            [&mut x, &sum, &count, &largest, w],
            |k| {
                if is_inner(k, w) {
                    let old = x[k];
                    x[k] = 0.25 * (x[k - w] + x[k + w] + x[k - 1] + x[k + 1]);
                    sum.add((x[k] - old).abs());
                    largest.max(x[k]);
                    count.add(1);
                }
            },
            order = Preserve,
            grain = 100
        )?;
        is_tiled(session, &report);
        let (mut plain_sum, mut plain_count, mut plain_largest) = (0.0f64, 0, 0.0f64);
        for k in (0..CELLS).filter(|&k| is_inner(k, w)) {
            let old = plain[k];
            plain[k] = 0.25 * (plain[k - w] + plain[k + w] + plain[k - 1] + plain[k + 1]);
            plain_sum += (plain[k] - old).abs();
            plain_largest = plain_largest.max(plain[k]);
            plain_count += 1;
        }
        assert_eq!(sum.get().to_bits(), plain_sum.to_bits());
        assert_eq!((count.get(), largest.get().to_bits()), (plain_count, plain_largest.to_bits()));
        same(&x, &plain, seen, "x")?;
    }
    Ok(())
}

/// More cells than are recorded.
pub(crate) fn tables_of_many_cells(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (260, 170);
    let mut x = DVector::from_fn(session, rows * width, start)?;
    let mut distance = DVector::from_fn(session, rows * width, |k| if k < width { k as u32 } else { 0 })?;
    let mut plain = (x.to_vec()?, distance.to_vec()?);
    for epoch in 0..3 {
        let report = async_parallel_for!(
            width..(rows - 1) * width,
            [&mut x, width],
            |k| {
                if k % width > 0 && k % width < width - 1 {
                    x[k] = 0.25 * (x[k - width] + x[k + width] + x[k - 1] + x[k + 1]);
                }
            },
            order = Preserve
        )?;
        is_tiled(session, &report);
        assert_eq!((report.reused(), report.misspeculations()), (epoch > 0, 0), "{report}");
        let report = async_parallel_for!(
            width..rows * width,
            [&mut distance, &x, width],
            |k| {
                let column = k % width;
                distance[k] = if column == 0 {
                    (k / width) as u32
                } else {
                    let cost = u32::from(x[k] > 5.0);
                    (distance[k - 1] + 1).min(distance[k - width] + 1).min(distance[k - width - 1] + cost)
                };
            },
            order = Preserve
        )?;
        is_tiled(session, &report);
        for k in width..(rows - 1) * width {
            if k % width > 0 && k % width < width - 1 {
                let x = &mut plain.0;
                x[k] = 0.25 * (x[k - width] + x[k + width] + x[k - 1] + x[k + 1]);
            }
        }
        for k in width..rows * width {
            let d = &mut plain.1;
            d[k] = match k % width {
                0 => (k / width) as u32,
                _ => (d[k - 1] + 1).min(d[k - width] + 1).min(d[k - width - 1] + u32::from(plain.0[k] > 5.0)),
            };
        }
    }
    same(&x, &plain.0, seen, "x")?;
    same(&distance, &plain.1, seen, "distance")
}

/// It touches more than all others, or fails.
pub(crate) fn a_cell_that_no_outline_shows(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let (rows, width) = (260, 170);
    let odd = 131 * width + 67;
    for fails in [false, true] {
        let mut x = DVector::from_fn(session, rows * width, start)?;
        for _ in 0..3 {
            let mut plain = x.to_vec()?;
            let ended = async_parallel_for!(
                0..rows * width,
                [&mut x, width, odd, fails],
                |k| {
                    if k == odd {
                        if fails {
                            return Err("the odd cell");
                        }
                        x[k] += x[k.div_ceil(2)];
                        x[3] += 1.0;
                    }
                    if k >= width && k % width > 0 {
                        x[k] = 0.5 * (x[k - width] + x[k - 1]) - x[k];
                    }
                    Ok(())
                },
                order = Preserve
            );
            match ended {
                Ok(_) => assert!(!fails),
                Err(stradsap::Error::Body { iteration, .. }) => assert!(fails && iteration == odd),
                Err(other) => return Err(other),
            }
            if !fails {
                for k in 0..rows * width {
                    if k == odd {
                        plain[k] += plain[k.div_ceil(2)];
                        plain[3] += 1.0;
                    }
                    if k >= width && k % width > 0 {
                        plain[k] = 0.5 * (plain[k - width] + plain[k - 1]) - plain[k];
                    }
                }
            }
            same(&x, &plain, seen, "x")?;
        }
    }
    Ok(())
}

fn a_report_says_how_a_table_was_cut() {
    let session = Session::builder().threads(2).build().unwrap();
    let (n, w) = (300usize, 200usize);
    let mut x = DVector::from_fn(&session, n * w, |i| i as f64).unwrap();
    let report = async_parallel_for!(
        0..n * w,
        [&mut x, n, w],
        |k| {
            let (row, column) = (k / w, k % w);
            if row > 0 && row < n - 1 && column > 0 && column < w - 1 {
                x[k] = 0.25 * (x[k - w] + x[k + w] + x[k - 1] + x[k + 1]);
            }
        },
        order = Preserve
    )
    .unwrap();
    let text = report.to_string();
    assert!(text.contains("tiled") && text.contains("on the diagonals of rows of 200"), "{text}");
    assert!(report.parallelism() > 4.0, "{text}");
    let mut order: Vec<usize> = report.serial_order().collect();
    assert_ne!(order, (0..n * w).collect::<Vec<_>>());
    order.sort_unstable();
    assert_eq!(order, (0..n * w).collect::<Vec<_>>(), "each iteration once");
}
