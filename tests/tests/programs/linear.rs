//! Linear systems and linear models, row by row.

use std::array::from_fn;

use super::Trial;
use crate::common::{below, bits};
use crate::seen::Seen;
use stradsap::prelude::*;

/// A sparse row: columns, values and the right-hand side.
type Row = ([u32; 3], [f64; 3], f64);

fn sparse(n: usize, columns: usize) -> Vec<Row> {
    let third = columns / 3;
    let row = |i: usize| {
        let at = from_fn(|k| (k * third + below((3 * i + k) as u64, third)) as u32);
        (at, from_fn(|k| 1.0 + below((7 * i + k) as u64, 10) as f64 / 10.0), below(i as u64, 20) as f64 / 10.0)
    };
    (0..n).map(row).collect()
}

/// Each row of a sparse system is met in turn.
pub(super) fn kaczmarz(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, columns) = (trial.size(20_000, 500_000), trial.size(9_000, 300_000));
    let rows = sparse(n, columns);
    let mut plain = vec![0.0f64; columns];
    let data = DVector::from_vec(session, rows.clone())?;
    let mut x = DVector::from_vec(session, plain.clone())?;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(&data, [&mut x], |(at, values, wanted)| {
                let found: f64 = at.iter().zip(&values).map(|(&j, a)| a * x[j]).sum();
                let step = (wanted - found) / values.iter().map(|a| a * a).sum::<f64>();
                for (j, a) in at.into_iter().zip(values) {
                    x[j] += step * a;
                }
            })
        },
        |i| {
            let (at, values, wanted) = rows[i];
            let found: f64 = at.iter().zip(&values).map(|(&j, a)| a * plain[j as usize]).sum();
            let step = (wanted - found) / values.iter().map(|a| a * a).sum::<f64>();
            at.into_iter().zip(values).for_each(|(j, a)| plain[j as usize] += step * a);
        },
    )?;
    trial.same(bits(x.to_vec()?), bits(plain));
    seen.report("kaczmarz", &report);
    Ok(report)
}

/// Each row of a dense one.
pub(super) fn kaczmarz_of_dense_rows(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (n, m) = (trial.size(300, 30_000), trial.size(60, 300));
    let a: Vec<f64> = (0..n * m).map(|at| below(at as u64, 100) as f64 / 100.0).collect();
    let mut plain = vec![0.0f64; m];
    let matrix = DVector::from_vec(session, a.clone())?;
    let mut x = DVector::from_vec(session, plain.clone())?;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(0..n, [m, &matrix, &mut x], |i| {
                let row = &matrix[i * m..(i + 1) * m];
                let found: f64 = row.iter().zip(&x[..]).map(|(a, x)| a * x).sum();
                let step = (i as f64 / 300.0 - found) / row.iter().map(|a| a * a).sum::<f64>();
                x[..].iter_mut().zip(row).for_each(|(x, a)| *x += step * a);
            })
        },
        |i| {
            let row = &a[i * m..(i + 1) * m];
            let found: f64 = row.iter().zip(&plain).map(|(a, x)| a * x).sum();
            let step = (i as f64 / 300.0 - found) / row.iter().map(|a| a * a).sum::<f64>();
            plain.iter_mut().zip(row).for_each(|(x, a)| *x += step * a);
        },
    )?;
    trial.same(bits(x.to_vec()?), bits(plain));
    seen.report("dense", &report);
    Ok(report)
}

/// The dual of a linear SVM over examples of twenty features out of forty.
pub(super) fn svm_by_dual_coordinates(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let example = |i: usize| -> ([u32; 20], f64) {
        (from_fn(|k| (2 * k + below((i * 20 + k) as u64, 2)) as u32), if i.is_multiple_of(3) { 1.0 } else { -1.0 })
    };
    let n = trial.size(1_500, 300_000);
    let (mut plain_alpha, mut plain_w) = (vec![0.0f64; n], vec![0.0f64; 40]);
    let examples: Vec<([u32; 20], f64)> = (0..n).map(example).collect();
    let data = DVector::from_vec(session, examples.clone())?;
    let mut alpha = DVector::from_vec(session, plain_alpha.clone())?;
    let mut w = DVector::from_vec(session, plain_w.clone())?;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(0..n, [&data, &mut alpha, &mut w], |i| {
                let (at, label) = data[i];
                let margin = label * at.iter().map(|&j| w[j]).sum::<f64>();
                let next = (alpha[i] - (margin - 1.0) / 20.0).clamp(0.0, 1.0);
                let step = (next - alpha[i]) * label;
                alpha[i] = next;
                at.iter().for_each(|&j| w[j] += step);
            })
        },
        |i| {
            let (at, label) = examples[i];
            let margin = label * at.iter().map(|&j| plain_w[j as usize]).sum::<f64>();
            let next = (plain_alpha[i] - (margin - 1.0) / 20.0).clamp(0.0, 1.0);
            let step = (next - plain_alpha[i]) * label;
            plain_alpha[i] = next;
            at.iter().for_each(|&j| plain_w[j as usize] += step);
        },
    )?;
    trial.same((bits(alpha.to_vec()?), bits(w.to_vec()?)), (bits(plain_alpha), bits(plain_w)));
    seen.report("svm", &report);
    Ok(report)
}

/// Sparse examples, a gradient step each.
pub(super) fn logistic_regression(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (n, columns) = (trial.size(20_000, 500_000), trial.size(9_000, 300_000));
    let rows = sparse(n, columns);
    let mut plain = vec![0.0f64; columns];
    let data = DVector::from_vec(session, rows.clone())?;
    let mut w = DVector::from_vec(session, plain.clone())?;
    let (rates, mut last) = ([0.5, 0.25], None);
    for rate in &rates {
        let report = trial.steps(
            0..n,
            || {
                async_parallel_for!(0..data.len(), [rate, &data, &mut w], |i| {
                    let (at, values, label) = data[i];
                    let score: f64 = at.iter().zip(&values).map(|(&j, a)| a * w[j]).sum();
                    let step = *rate * (f64::from(u8::from(label > 1.0)) - 1.0 / (1.0 + (-score).exp()));
                    at.iter().zip(&values).for_each(|(&j, a)| w[j] += step * a);
                })
            },
            |i| {
                let (at, values, label) = rows[i];
                let score: f64 = at.iter().zip(&values).map(|(&j, a)| a * plain[j as usize]).sum();
                let step = rate * (f64::from(u8::from(label > 1.0)) - 1.0 / (1.0 + (-score).exp()));
                at.iter().zip(&values).for_each(|(&j, a)| plain[j as usize] += step * a);
            },
        )?;
        trial.same(bits(w.to_vec()?), bits(plain.clone()));
        seen.report("logistic", &report);
        last = Some(report);
    }
    Ok(last.unwrap())
}

/// Each mistake is counted in an element, which all iterations read.
pub(super) fn perceptron_in_order(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let columns = trial.size(900, 90_000);
    let rows = sparse(trial.size(5_000, 1_500_000), columns);
    let (mut plain, mut plain_mistakes) = (vec![0.0f64; columns], vec![0u32]);
    let data = DVector::from_vec(session, rows.clone())?;
    let mut w = DVector::from_vec(session, plain.clone())?;
    let mut mistakes = DVector::from_vec(session, plain_mistakes.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                0..data.len(),
                [&data, &mut w, &mut mistakes],
                |i| {
                    let (at, values, label) = data[i];
                    let sign = if label > 1.0 { 1.0 } else { -1.0 };
                    let rate = 1.0 / (1.0 + f64::from(mistakes[0]));
                    if sign * at.iter().zip(&values).map(|(&j, a)| a * w[j]).sum::<f64>() <= 0.0 {
                        mistakes[0] += 1;
                        at.iter().zip(&values).for_each(|(&j, a)| w[j] += rate * sign * a);
                    }
                },
                order = Preserve
            )
        },
        || {
            for &(at, values, label) in &rows {
                let sign = if label > 1.0 { 1.0 } else { -1.0 };
                let rate = 1.0 / (1.0 + f64::from(plain_mistakes[0]));
                if sign * at.iter().zip(&values).map(|(&j, a)| a * plain[j as usize]).sum::<f64>() <= 0.0 {
                    plain_mistakes[0] += 1;
                    at.iter().zip(&values).for_each(|(&j, a)| plain[j as usize] += rate * sign * a);
                }
            }
        },
    )?;
    trial.same((bits(w.to_vec()?), mistakes.to_vec()?), (bits(plain), plain_mistakes));
    seen.report("perceptron", &report);
    Ok(report)
}
