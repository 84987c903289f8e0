//! Models that are trained, and what is done with them.

use std::array::from_fn;

use super::Trial;
use crate::common::{below, bits, bits32, mix};
use crate::seen::Seen;
use serde::{Deserialize, Serialize};
use stradsap::prelude::*;

fn unit(x: u64) -> f32 {
    (mix(x) % 1000) as f32 / 1000.0
}

const FIELDS: usize = 3;
/// A vector for each field that the feature may meet.
type Latent = [[f32; 4]; FIELDS];

/// FFM: each pair of an example's features by the vectors that they have for each other's field.
pub(super) fn field_aware_machine(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (n, features) = (trial.size(4_000, 400_000), trial.size(1_500, 60_000));
    let third = features / FIELDS;
    let example = |n: usize| -> ([u32; FIELDS], f32) {
        (from_fn(|f| (f * third + below((3 * n + f) as u64, third)) as u32), (n % 2) as f32)
    };
    let latent = |i: usize| -> Latent { from_fn(|f| from_fn(|k| unit((i * 12 + f * 4 + k) as u64) - 0.5)) };
    let examples: Vec<([u32; FIELDS], f32)> = (0..n).map(example).collect();
    let mut plain: Vec<Latent> = (0..features).map(latent).collect();
    let data = DVector::from_vec(session, examples.clone())?;
    let mut v = DVector::from_vec(session, plain.clone())?;
    let rate = 0.1f32;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(0..data.len(), [rate, &data, &mut v], |n| {
                let (at, label) = data[n];
                let mut score = 0.0;
                for a in 0..FIELDS {
                    for b in a + 1..FIELDS {
                        for k in 0..4 {
                            score += v[at[a]][b][k] * v[at[b]][a][k];
                        }
                    }
                }
                let step = rate * (label - 1.0 / (1.0 + (-score).exp()));
                for a in 0..FIELDS {
                    for b in a + 1..FIELDS {
                        let (x, y) = v.pair_mut(at[a], at[b]);
                        for k in 0..4 {
                            let (p, q) = (x[b][k], y[a][k]);
                            x[b][k] += step * q;
                            y[a][k] += step * p;
                        }
                    }
                }
            })
        },
        |n| {
            let (at, label) = examples[n];
            let at = at.map(|i| i as usize);
            let mut score = 0.0;
            for a in 0..FIELDS {
                for b in a + 1..FIELDS {
                    for k in 0..4 {
                        score += plain[at[a]][b][k] * plain[at[b]][a][k];
                    }
                }
            }
            let step = rate * (label - 1.0 / (1.0 + (-score).exp()));
            for a in 0..FIELDS {
                for b in a + 1..FIELDS {
                    for k in 0..4 {
                        let (p, q) = (plain[at[a]][b][k], plain[at[b]][a][k]);
                        plain[at[a]][b][k] += step * q;
                        plain[at[b]][a][k] += step * p;
                    }
                }
            }
        },
    )?;
    let flat = |all: Vec<Latent>| bits32(all.into_iter().flatten().flatten());
    trial.same(flat(v.to_vec()?), flat(plain));
    seen.report("machine", &report);
    Ok(report)
}

/// The row that fits ratings of the other side's rows best: a ridge regression, solved by elimination.
fn fitted(ratings: &[(u32, f64)], row: impl Fn(u32) -> [f64; 3]) -> [f64; 3] {
    let mut a = [[0.1, 0.0, 0.0, 0.0], [0.0, 0.1, 0.0, 0.0], [0.0, 0.0, 0.1, 0.0]];
    for &(other, stars) in ratings {
        let x = row(other);
        for i in 0..3 {
            for j in 0..3 {
                a[i][j] += x[i] * x[j];
            }
            a[i][3] += x[i] * stars;
        }
    }
    for k in 0..3 {
        for i in (0..3).filter(|&i| i != k) {
            let by = a[i][k] / a[k][k];
            for j in k..4 {
                a[i][j] -= by * a[k][j];
            }
        }
    }
    from_fn(|k| a[k][3] / a[k][k])
}

/// ALS: users' rows from items', then items' from users'.
pub(super) fn alternating_least_squares(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (n, users, items) = (trial.size(6_000, 1_800_000), trial.size(300, 60_000), trial.size(200, 20_000));
    let (mut of_user, mut of_item) = (vec![Vec::new(); users], vec![Vec::new(); items]);
    for k in 0..n as u64 {
        let (user, item, stars) = (below(3 * k, users), below(3 * k + 1, items), below(3 * k + 2, 5) as f64);
        of_user[user].push((item as u32, stars));
        of_item[item].push((user as u32, stars));
    }
    let row = |i: usize| -> [f64; 3] { from_fn(|k| f64::from(unit((3 * i + k) as u64))) };
    let (mut plain_p, mut plain_q): (Vec<_>, Vec<_>) = ((0..users).map(row).collect(), (0..items).map(row).collect());
    let (by_user, by_item) =
        (DVector::from_vec(session, of_user.clone())?, DVector::from_vec(session, of_item.clone())?);
    let (mut p, mut q) = (DVector::from_vec(session, plain_p.clone())?, DVector::from_vec(session, plain_q.clone())?);
    let report = trial.sweep(
        || {
            let report = async_parallel_for!(0..users as u32, [&by_user, &mut p, &q], |u| {
                p[u] = fitted(&by_user[u], |i| q[i]);
            })?;
            async_parallel_for!(0..items as u32, [&by_item, &p, &mut q], |i| q[i] = fitted(&by_item[i], |u| p[u]))?;
            Ok(report)
        },
        || {
            for u in 0..users {
                plain_p[u] = fitted(&of_user[u], |i| plain_q[i as usize]);
            }
            for i in 0..items {
                plain_q[i] = fitted(&of_item[i], |u| plain_p[u as usize]);
            }
        },
    )?;
    trial.same(bits(p.to_vec()?.concat()), bits(plain_p.concat()));
    trial.same(bits(q.to_vec()?.concat()), bits(plain_q.concat()));
    seen.digest("p", &p)?;
    seen.digest("q", &q)?;
    Ok(report)
}

/// All products of the columns of a tall matrix.
fn gram(rows: &[[f64; 4]]) -> [[f64; 4]; 4] {
    let mut g = [[0.0; 4]; 4];
    for row in rows {
        for i in 0..4 {
            for j in 0..4 {
                g[i][j] += row[i] * row[j];
            }
        }
    }
    g
}

/// One row of a factor, scaled by what it should give over what it gives.
fn rescaled(own: &[f64; 4], target: impl Iterator<Item = f64>, others: &[[f64; 4]], gram: &[[f64; 4]; 4]) -> [f64; 4] {
    let mut wanted = [0.0; 4];
    for (value, other) in target.zip(others) {
        (0..4).for_each(|k| wanted[k] += value * other[k]);
    }
    from_fn(|k| own[k] * wanted[k] / (1e-9 + (0..4).map(|j| own[j] * gram[j][k]).sum::<f64>()))
}

/// NMF by multiplicative updates: rows of one factor, then rows of the other, of a flat matrix.
pub(super) fn factors_by_multiplication(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (n, m) = (trial.size(90, 3_000), trial.size(70, 2_500));
    let matrix: Vec<f64> = (0..n * m).map(|at| 1.0 + below(at as u64, 9) as f64).collect();
    let row = |seed: usize| -> [f64; 4] { from_fn(|k| 0.1 + f64::from(unit((4 * seed + k) as u64))) };
    let (mut plain_w, mut plain_h): (Vec<_>, Vec<_>) = ((0..n).map(row).collect(), (n..n + m).map(row).collect());
    let v = DVector::from_vec(session, matrix.clone())?;
    let (mut w, mut h) = (DVector::from_vec(session, plain_w.clone())?, DVector::from_vec(session, plain_h.clone())?);
    let report = trial.sweep(
        || {
            let all = gram(&h.to_vec()?);
            let report = async_parallel_for!(0..n, [m, all, &v, &mut w, &h], |i| {
                w[i] = rescaled(&w[i], v[i * m..(i + 1) * m].iter().copied(), &h[..], &all);
            })?;
            let all = gram(&w.to_vec()?);
            async_parallel_for!(0..m, [n, m, all, &v, &w, &mut h], |j| {
                h[j] = rescaled(&h[j], (0..n).map(|i| v[i * m + j]), &w[..], &all);
            })?;
            Ok(report)
        },
        || {
            let all = gram(&plain_h);
            for i in 0..n {
                plain_w[i] = rescaled(&plain_w[i], matrix[i * m..(i + 1) * m].iter().copied(), &plain_h, &all);
            }
            let all = gram(&plain_w);
            for j in 0..m {
                plain_h[j] = rescaled(&plain_h[j], (0..n).map(|i| matrix[i * m + j]), &plain_w, &all);
            }
        },
    )?;
    trial.same(bits(w.to_vec()?.concat()), bits(plain_w.concat()));
    trial.same(bits(h.to_vec()?.concat()), bits(plain_h.concat()));
    seen.digest("w", &w)?;
    seen.digest("h", &h)?;
    Ok(report)
}

/// A bell on the line.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Bell {
    share: f64,
    mean: f64,
    variance: f64,
}

/// A Gaussian mixture by expectation and maximisation.
pub(super) fn gaussian_mixture(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(3_000, 400_000);
    let points: Vec<f64> = (0..n as u64).map(|i| 10.0 * f64::from(unit(i)).powi(2) + f64::from(unit(i + 7))).collect();
    fn parts(bells: &[Bell], x: f64) -> [f64; 3] {
        let dense: [f64; 3] = from_fn(|k| {
            let Bell { share, mean, variance } = bells[k];
            share * (-(x - mean).powi(2) / (2.0 * variance)).exp() / variance.sqrt()
        });
        dense.map(|part| part / (1e-300 + dense.iter().sum::<f64>()))
    }
    fn fit(k: usize, points: &[f64], parts: &[[f64; 3]]) -> Bell {
        let all: f64 = parts.iter().map(|part| part[k]).sum();
        let mean = points.iter().zip(parts).map(|(x, part)| part[k] * x).sum::<f64>() / all;
        let spread: f64 = points.iter().zip(parts).map(|(x, part)| part[k] * (x - mean).powi(2)).sum();
        Bell { share: all / points.len() as f64, mean, variance: 1e-6 + spread / all }
    }
    let mut plain: Vec<Bell> =
        (0..3).map(|k| Bell { share: 1.0 / 3.0, mean: 4.0 * f64::from(k), variance: 2.0 }).collect();
    let mut plain_of = vec![[0.0; 3]; n];
    let x = DVector::from_vec(session, points.clone())?;
    let mut of = DVector::from_vec(session, plain_of.clone())?;
    let mut bells = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..2 {
                let report = async_parallel_for!(0..n, [&x, &bells, &mut of], |i| of[i] = parts(&bells[..], x[i]))?;
                async_parallel_for!(0..3u8, [&x, &of, &mut bells], |k| {
                    bells[k] = fit(usize::from(k), &x[..], &of[..]);
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..2 {
                for i in 0..n {
                    plain_of[i] = parts(&plain, points[i]);
                }
                for k in 0..3 {
                    plain[k] = fit(k, &points, &plain_of);
                }
            }
        },
    )?;
    trial.same(bells.to_vec()?, plain);
    seen.digest("bells", &bells)?;
    Ok(report)
}

/// A weight, and the sum of its squared gradients.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Weight {
    value: f32,
    squares: f32,
}

/// AdaGrad on sparse rows of unequal length, each label a number.
pub(super) fn adaptive_rates(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, columns) = (trial.size(9_000, 400_000), trial.size(8_000, 200_000));
    let row = |i: usize| -> Vec<u32> {
        let mut at: Vec<u32> = (0..1 + i % 4).map(|k| below((4 * i + k) as u64, columns) as u32).collect();
        at.sort_unstable();
        at.dedup();
        at
    };
    let rows: Vec<(Vec<u32>, f32)> = (0..n).map(|i| (row(i), unit(i as u64))).collect();
    let mut plain = vec![Weight { value: 0.0, squares: 1e-3 }; columns];
    let data = DVector::from_vec(session, rows.clone())?;
    let mut w = DVector::from_vec(session, plain.clone())?;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(0..data.len(), [&data, &mut w], |i| {
                let (at, label) = &data[i];
                let error = at.iter().map(|&j| w[j].value).sum::<f32>() - label;
                for &j in at {
                    let weight = &mut w[j];
                    weight.squares += error * error;
                    weight.value -= 0.1 * error / weight.squares.sqrt();
                }
            })
        },
        |i| {
            let (at, label) = &rows[i];
            let error = at.iter().map(|&j| plain[j as usize].value).sum::<f32>() - label;
            for &j in at {
                let weight = &mut plain[j as usize];
                weight.squares += error * error;
                weight.value -= 0.1 * error / weight.squares.sqrt();
            }
        },
    )?;
    trial.same(w.to_vec()?, plain);
    seen.report("adaptive", &report);
    Ok(report)
}

const BINS: usize = 16;
const COLUMNS: usize = 6;

/// Where to cut which column, and what is added on either side.
fn best_cut(histogram: &[(i64, i64)]) -> (usize, usize, [i64; 2]) {
    let mut best = (i64::MIN, (0, 0, [0, 0]));
    for column in 0..COLUMNS {
        let bins = &histogram[column * BINS..(column + 1) * BINS];
        let all = bins.iter().fold((0, 0), |all, bin| (all.0 + bin.0, all.1 + bin.1));
        let mut left = (0, 0);
        for (cut, bin) in bins.iter().enumerate() {
            left = (left.0 + bin.0, left.1 + bin.1);
            let right = (all.0 - left.0, all.1 - left.1);
            let mean = |(sum, n): (i64, i64)| sum / n.max(1);
            let gain = mean(left) * left.0 + mean(right) * right.0;
            if gain > best.0 {
                best = (gain, (column, cut, [mean(left) / 2, mean(right) / 2]));
            }
        }
    }
    best.1
}

/// Gradient-boosted stumps: histograms of whole-numbered residuals, the best cut, and what is left of the residuals.
pub(super) fn boosted_stumps(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(8_000, 1_600_000);
    let binned = |i: usize| -> [u8; COLUMNS] { from_fn(|c| below((i * COLUMNS + c) as u64, BINS) as u8) };
    let rows: Vec<[u8; COLUMNS]> = (0..n).map(binned).collect();
    let mut plain: Vec<i64> = rows.iter().map(|row| 1000 * i64::from(row[2] / 5) + 10 * i64::from(row[4])).collect();
    let data = DVector::from_vec(session, rows.clone())?;
    let mut residual = DVector::from_vec(session, plain.clone())?;
    let mut histogram = DVector::from_fn(session, COLUMNS * BINS, |_| (0i64, 0i64))?;
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..3 {
                async_parallel_for!(0..histogram.len(), [&mut histogram], |k| histogram[k] = (0, 0))?;
                let report = async_parallel_for!(0..n, [&data, &residual, sum histogram], |i| {
                    for (column, &bin) in data[i].iter().enumerate() {
                        histogram.add(column * BINS + usize::from(bin), (residual[i], 1));
                    }
                })?;
                let (column, cut, by) = best_cut(&histogram.to_vec()?);
                async_parallel_for!(0..n, [column, cut, by, &data, &mut residual], |i| {
                    residual[i] -= by[usize::from(usize::from(data[i][column]) > cut)];
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..3 {
                let mut histogram = [(0i64, 0i64); COLUMNS * BINS];
                for i in 0..n {
                    for (column, &bin) in rows[i].iter().enumerate() {
                        let bin = &mut histogram[column * BINS + usize::from(bin)];
                        *bin = (bin.0 + plain[i], bin.1 + 1);
                    }
                }
                let (column, cut, by) = best_cut(&histogram);
                for i in 0..n {
                    plain[i] -= by[usize::from(usize::from(rows[i][column]) > cut)];
                }
            }
        },
    )?;
    trial.same(residual.to_vec()?, plain);
    seen.digest("residual", &residual)?;
    Ok(report)
}

/// A node of a tree: an inner one, or a leaf.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Node {
    Inner { column: u8, cut: f32, left: u16 },
    Leaf { class: u8 },
}

/// What most trees of a forest say of each row.
pub(super) fn random_forest(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(3_000, 200_000);
    // Complete trees of four levels; the children of node `k` are `2 k + 1` and the next.
    let node = |tree: u64, k: u64| match k {
        0..7 => {
            Node::Inner { column: below(100 * tree + k, 5) as u8, cut: unit(tree + 31 * k), left: 2 * k as u16 + 1 }
        }
        _ => Node::Leaf { class: below(7 * tree + k, 4) as u8 },
    };
    let forest: Vec<Vec<Node>> = (0..25).map(|tree| (0..15).map(|k| node(tree, k)).collect()).collect();
    fn class(tree: &[Node], row: &[f32; 5]) -> u8 {
        let mut at = 0;
        loop {
            match tree[at] {
                Node::Inner { column, cut, left } => {
                    at = usize::from(left) + usize::from(row[usize::from(column)] > cut);
                }
                Node::Leaf { class } => return class,
            }
        }
    }
    fn vote(forest: &[Vec<Node>], row: &[f32; 5]) -> u8 {
        let mut votes = [0u32; 4];
        for tree in forest {
            votes[usize::from(class(tree, row))] += 1;
        }
        (0..4u8).max_by_key(|&class| votes[usize::from(class)]).unwrap_or(0)
    }
    let rows: Vec<[f32; 5]> = (0..n).map(|i| from_fn(|c| unit((5 * i + c) as u64))).collect();
    let (mut plain, mut plain_zeros) = (vec![0u8; n], 0u64);
    let data = DVector::from_vec(session, rows.clone())?;
    let mut classes = DVector::from_fn(session, n, |_| 0u8)?;
    let zeros = session.count();
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n as u32, [forest, &data, &mut classes, &zeros], |i| {
                classes[i] = vote(forest, &data[i]);
                zeros.add(u64::from(classes[i] == 0));
            })
        },
        || {
            for i in 0..n {
                plain[i] = vote(&forest, &rows[i]);
                plain_zeros += u64::from(plain[i] == 0);
            }
        },
    )?;
    trial.same((classes.to_vec()?, zeros.get()), (plain, plain_zeros));
    seen.digest("classes", &classes)?;
    Ok(report)
}

/// Of each item the three nearest others, by cosine.
pub(super) fn nearest_neighbours(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let n = trial.size(200, 2_000);
    let rows: Vec<[f32; 16]> = (0..n).map(|i| from_fn(|k| unit((16 * i + k) as u64) - 0.3)).collect();
    fn nearest(i: usize, rows: &[[f32; 16]]) -> [(u32, f32); 3] {
        let dot = |a: &[f32; 16], b: &[f32; 16]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f32>();
        let mut best = [(u32::MAX, f32::NEG_INFINITY); 3];
        for (j, row) in rows.iter().enumerate().filter(|(j, _)| *j != i) {
            let near = dot(&rows[i], row) / dot(row, row).sqrt();
            if near > best[2].1 {
                best[2] = (j as u32, near);
                best.sort_by(|a, b| b.1.total_cmp(&a.1));
            }
        }
        best
    }
    let mut plain = vec![[(0u32, 0.0f32); 3]; n];
    let data = DVector::from_vec(session, rows.clone())?;
    let mut near = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || async_parallel_for!(0..n, [&data, &mut near], |i| near[i] = nearest(i, &data[..])),
        || {
            for i in 0..n {
                plain[i] = nearest(i, &rows);
            }
        },
    )?;
    trial.same(near.to_vec()?, plain);
    seen.digest("near", &near)?;
    Ok(report)
}

/// Steps of t-SNE: points attract their neighbours, and all push each other away, from where they were before.
pub(super) fn embedded_points(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(150, 2_000);
    let near: Vec<[(u32, f32); 4]> =
        (0..n).map(|i| from_fn(|k| (below((4 * i + k) as u64, n) as u32, unit((i + k) as u64)))).collect();
    fn moved(i: usize, near: &[(u32, f32); 4], all: &[[f32; 2]]) -> [f32; 2] {
        let kernel = |a: [f32; 2], b: [f32; 2]| 1.0 / (1.0 + (a[0] - b[0]).powi(2) + (a[1] - b[1]).powi(2));
        let own = all[i];
        let mut force = [0.0f32; 2];
        for &other in all {
            let close = kernel(own, other);
            (0..2).for_each(|d| force[d] += close * close * (own[d] - other[d]) / all.len() as f32);
        }
        for &(j, share) in near {
            let other = all[j as usize];
            let close = kernel(own, other);
            (0..2).for_each(|d| force[d] -= share * close * (own[d] - other[d]));
        }
        [own[0] + 0.5 * force[0], own[1] + 0.5 * force[1]]
    }
    let mut plain: Vec<[f32; 2]> = (0..n as u64).map(|i| [unit(2 * i), unit(2 * i + 1)]).collect();
    let links = DVector::from_vec(session, near.clone())?;
    let mut y = DVector::from_vec(session, plain.clone())?;
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..2 {
                last = Some(async_parallel_for!(0..n, [&links, &mut y], |i| y[i] = moved(i, &links[i], &y.old[..]))?);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..2 {
                before.clone_from(&plain);
                for i in 0..n {
                    plain[i] = moved(i, &near[i], &before);
                }
            }
        },
    )?;
    trial.same(bits32(y.to_vec()?.concat()), bits32(plain.concat()));
    seen.digest("y", &y)?;
    Ok(report)
}

/// MinHash: of each set eight least hashes, and how many pairs of neighbours share the first.
pub(super) fn least_hashes(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(2_000, 400_000);
    let sets: Vec<Vec<u32>> =
        (0..n).map(|i| (0..3 + i % 9).map(|k| below((9 * i + k) as u64, 500) as u32).collect()).collect();
    fn least(set: &[u32]) -> [u32; 8] {
        from_fn(|k| set.iter().map(|&x| (mix(u64::from(x) * 8 + k as u64) >> 32) as u32).min().unwrap_or(u32::MAX))
    }
    let (mut plain, mut plain_alike) = (vec![[0u32; 8]; n], 0u64);
    let data = DVector::from_vec(session, sets.clone())?;
    let mut signatures = DVector::from_vec(session, plain.clone())?;
    let alike = session.count();
    let report = trial.sweep(
        || {
            let report = async_parallel_for!(0..n, [&data, &mut signatures], |i| signatures[i] = least(&data[i]))?;
            async_parallel_for!(1..n, [&signatures, &alike], |i| {
                if signatures[i][0] == signatures[i - 1][0] {
                    alike.add(1);
                }
            })?;
            Ok(report)
        },
        || {
            for i in 0..n {
                plain[i] = least(&sets[i]);
            }
            plain_alike += plain.windows(2).filter(|pair| pair[0][0] == pair[1][0]).count() as u64;
        },
    )?;
    trial.same((signatures.to_vec()?, alike.get()), (plain, plain_alike));
    seen.digest("signatures", &signatures)?;
    Ok(report)
}
