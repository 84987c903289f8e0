//! Dense matrices, by rows or flat, and sums over all pairs.

use super::Trial;
use crate::common::{below, bits};
use crate::seen::Seen;
use stradsap::prelude::*;

fn entry(i: usize, j: usize) -> f64 {
    1.0 + below((i * 1000 + j) as u64, 100) as f64 / 50.0 + if i == j { 40.0 } else { 0.0 }
}

/// LU: step `k` takes row `k` off the rows below it.
pub(super) fn triangular_factors(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let n = trial.size(30, 300);
    let mut plain: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
    let begin = plain.clone();
    let matrix = DVector::from_vec(session, begin.clone())?;
    let mut a = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n * n, [&matrix, &mut a], |at| a[at] = matrix[at])?;
            let mut first = None;
            for k in 0..n - 1 {
                let report = async_parallel_for!(k + 1..n, [k, n, &mut a], |i| {
                    let by = a[i * n + k] / a[k * n + k];
                    a[i * n + k] = by;
                    for j in k + 1..n {
                        let above = a[k * n + j];
                        a[i * n + j] -= by * above;
                    }
                })?;
                first.get_or_insert(report);
            }
            Ok(first.unwrap())
        },
        || {
            plain.copy_from_slice(&begin);
            for k in 0..n - 1 {
                for i in k + 1..n {
                    let by = plain[i * n + k] / plain[k * n + k];
                    plain[i * n + k] = by;
                    (k + 1..n).for_each(|j| plain[i * n + j] -= by * plain[k * n + j]);
                }
            }
        },
    )?;
    trial.same(bits(a.to_vec()?), bits(plain));
    seen.digest("a", &a)?;
    Ok(report)
}

/// Forces of all on each, then a step.
pub(super) fn bodies_in_space(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(200, 5_000) as u64;
    let mut plain: Vec<[f64; 2]> = (0..n).map(|i| [below(i, 500) as f64, below(i + 900, 500) as f64]).collect();
    let mut plain_speed = vec![[0.0f64; 2]; n as usize];
    let mut place = DVector::from_vec(session, plain.clone())?;
    let mut speed = DVector::from_vec(session, plain_speed.clone())?;
    fn pull(all: &[[f64; 2]], [x, y]: [f64; 2]) -> [f64; 2] {
        all.iter().fold([0.0; 2], |[fx, fy], [ax, ay]| {
            let (dx, dy) = (ax - x, ay - y);
            let far = 1.0 / (dx * dx + dy * dy + 10.0);
            [fx + dx * far, fy + dy * far]
        })
    }
    let mut last = None;
    for _ in 0..trial.size(3, 1) {
        let report = trial.sweep(
            || {
                let report = async_parallel_for!(0..place.len(), [&place, &mut speed], |i| {
                    let force = pull(&place[..], place[i]);
                    speed[i] = [speed[i][0] + 0.1 * force[0], speed[i][1] + 0.1 * force[1]];
                })?;
                async_parallel_for!(0..place.len(), [&mut place, &speed], |i| {
                    place[i][0] += speed[i][0];
                    place[i][1] += speed[i][1];
                })?;
                Ok(report)
            },
            || {
                let before = plain.clone();
                for ((place, speed), from) in plain.iter_mut().zip(&mut plain_speed).zip(&before) {
                    let force = pull(&before, *from);
                    *speed = [speed[0] + 0.1 * force[0], speed[1] + 0.1 * force[1]];
                    *place = [place[0] + speed[0], place[1] + speed[1]];
                }
            },
        )?;
        last = Some(report);
    }
    trial.same(bits(place.to_vec()?.concat()), bits(plain.concat()));
    seen.digest("place", &place)?;
    Ok(last.unwrap())
}

/// Each iteration a row of the product, of slices of flat matrices.
pub(super) fn matrix_product(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(60, 400);
    let a = DVector::from_fn(session, n * n, |at| entry(at / n, at % n))?;
    let mut c = DVector::from_fn(session, n * n, |_| 0.0f64)?;
    let matrix: Vec<f64> = (0..n * n).map(|at| entry(at / n, at % n)).collect();
    let mut plain = vec![0.0; n * n];
    let report = trial.sweep(
        || {
            async_parallel_for!((0..n, 0..n), [n, &a, &mut c], |(i, j)| {
                let row = &a[i * n..(i + 1) * n];
                c[i * n + j] = row.iter().zip(a[j..].iter().step_by(n)).map(|(x, y)| x * y).sum();
            })
        },
        || {
            for i in 0..n {
                for j in 0..n {
                    plain[i * n + j] = (0..n).map(|k| matrix[i * n + k] * matrix[k * n + j]).sum();
                }
            }
        },
    )?;
    trial.same(bits(c.to_vec()?), bits(plain));
    seen.digest("c", &c)?;
    Ok(report)
}

/// Sums of the columns of a table, number by number.
pub(super) fn column_sums(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (rows, columns) = (trial.size(400, 3000), trial.size(150, 1000));
    let table: Vec<f64> = (0..rows * columns).map(|at| entry(at / columns, at % columns)).collect();
    let data = DVector::from_vec(session, table.clone())?;
    let mut sums = DVector::from_fn(session, columns, |_| 0.0f64)?;
    let mut plain = vec![0.0; columns];
    let report = trial.sweep(
        || {
            async_parallel_for!((0..rows, 0..columns), [columns, &data, &mut sums], |(i, j)| sums[j] +=
                data[i * columns + j])
        },
        || {
            for i in 0..rows {
                for j in 0..columns {
                    plain[j] += table[i * columns + j];
                }
            }
        },
    )?;
    trial.same(bits(sums.to_vec()?), bits(plain));
    seen.digest("sums", &sums)?;
    Ok(report)
}

/// Factors of a table without gaps: each number changes a row of each.
pub(super) fn factors_of_a_table(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    const RANK: usize = 8;
    let (rows, columns) = (trial.size(200, 1500), trial.size(150, 800));
    let table = DMatrix::from_fn(session, rows, columns, |i, j| entry(i, j) as f32)?;
    let begin = |k: usize, seed: usize| std::array::from_fn(|f| entry(k + seed, f) as f32 / 8.0);
    let mut of_rows: DVector<[f32; RANK]> = DVector::from_fn(session, rows, move |i| begin(i, 3))?;
    let mut of_columns: DVector<[f32; RANK]> = DVector::from_fn(session, columns, move |j| begin(j, 17))?;
    let (mut plain_rows, mut plain_columns) = (of_rows.to_vec()?, of_columns.to_vec()?);
    let numbers: Vec<f32> = (0..rows * columns).map(|at| entry(at / columns, at % columns) as f32).collect();
    fn step(p: &mut [f32; RANK], q: &mut [f32; RANK], number: f32) {
        let error = number - p.iter().zip(&*q).map(|(a, b)| a * b).sum::<f32>();
        for (a, b) in p.iter_mut().zip(q) {
            (*a, *b) = (*a + 1e-3 * error * *b, *b + 1e-3 * error * *a);
        }
    }
    let report = trial.sweep(
        || {
            async_parallel_for!((0..rows, 0..columns), [&table, &mut of_rows, &mut of_columns], |(i, j)| {
                step(&mut of_rows[i], &mut of_columns[j], table[i][j]);
            })
        },
        || {
            for i in 0..rows {
                for j in 0..columns {
                    step(&mut plain_rows[i], &mut plain_columns[j], numbers[i * columns + j]);
                }
            }
        },
    )?;
    seen.digest("rows", &of_rows)?;
    seen.digest("columns", &of_columns)?;
    Ok(report)
}

/// Few accesses, much work.
pub(super) fn few_long_iterations(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let rounds = trial.size(20_000, 200_000) as u32;
    let mut x = DVector::from_fn(session, 40, |i| i as f64)?;
    let step: fn(f64) -> f64 = |x| (x + 0.5).sqrt() * 1.5;
    let mut plain: Vec<f64> = (0..40).map(f64::from).collect();
    let report = trial.sweep(
        || {
            async_parallel_for!(0..40, [rounds, step, &mut x], |i| {
                x[i] = (0..rounds).fold(x[i], |x, _| step(x));
            })
        },
        || plain.iter_mut().for_each(|x| *x = (0..rounds).fold(*x, |x, _| step(x))),
    )?;
    trial.same(bits(x.to_vec()?), bits(plain));
    seen.digest("x", &x)?;
    Ok(report)
}

/// Hardly anything to do.
pub(super) fn a_short_loop(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let mut x = DVector::from_fn(session, 10, |i| i)?;
    let mut plain: Vec<usize> = (0..10).collect();
    let report = trial
        .sweep(|| async_parallel_for!(0..10, [&mut x], |i| x[i] += 1), || plain.iter_mut().for_each(|x| *x += 1))?;
    trial.same(x.to_vec()?, plain);
    seen.report("short", &report);
    Ok(report)
}
