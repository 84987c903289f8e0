//! Models that are products of factors, trained by stochastic gradient descent.

use std::array::from_fn;

use super::Trial;
use crate::common::{below, bits, mix, ratings};
use crate::seen::Seen;
use stradsap::prelude::*;

const K: usize = 4;
type Row = [f64; K];

fn rows(n: usize, seed: u64) -> Vec<Row> {
    (0..n).map(|i| from_fn(|k| (mix(seed + (i * K + k) as u64) % 1000) as f64 / 1000.0 - 0.4)).collect()
}

fn flat(rows: Vec<Row>) -> Vec<u64> {
    bits(rows.into_iter().flatten())
}

/// CP decomposition of a sparse tensor of three modes.
pub(super) fn tensor_decomposition(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let [i, j, k] = [300, 200, 250].map(|n| trial.size(n, 100 * n));
    let entries: Vec<[u32; 3]> = (0..trial.size(20_000, 2_000_000) as u64)
        .map(|n| [below(3 * n, i) as u32, below(3 * n + 1, j) as u32, below(3 * n + 2, k) as u32])
        .collect();
    let (mut plain_a, mut plain_b, mut plain_c) = (rows(i, 1), rows(j, 2), rows(k, 3));
    let mut a = DVector::from_vec(session, plain_a.clone())?;
    let mut b = DVector::from_vec(session, plain_b.clone())?;
    let mut c = DVector::from_vec(session, plain_c.clone())?;
    let data = DVector::from_vec(session, entries.clone())?;
    let rate = 0.05;
    let report = trial.steps(
        0..entries.len(),
        || {
            async_parallel_for!(0..data.len(), [rate, &data, &mut a, &mut b, &mut c], |n| {
                let [i, j, k] = data[n];
                let (x, y, z) = (&mut a[i], &mut b[j], &mut c[k]);
                let error = f64::from(i % 7) / 7.0 - (0..K).map(|r| x[r] * y[r] * z[r]).sum::<f64>();
                for r in 0..K {
                    let (p, q, s) = (x[r], y[r], z[r]);
                    x[r] += rate * error * q * s;
                    y[r] += rate * error * p * s;
                    z[r] += rate * error * p * q;
                }
            })
        },
        |n| {
            let [i, j, k] = entries[n].map(|at| at as usize);
            let (x, y, z) = (&mut plain_a[i], &mut plain_b[j], &mut plain_c[k]);
            let error = (i % 7) as f64 / 7.0 - (0..K).map(|r| x[r] * y[r] * z[r]).sum::<f64>();
            for r in 0..K {
                let (p, q, s) = (x[r], y[r], z[r]);
                x[r] += rate * error * q * s;
                y[r] += rate * error * p * s;
                z[r] += rate * error * p * q;
            }
        },
    )?;
    trial.same(flat(a.to_vec()?), flat(plain_a));
    trial.same(flat(b.to_vec()?), flat(plain_b));
    trial.same(flat(c.to_vec()?), flat(plain_c));
    seen.report("tensor", &report);
    Ok(report)
}

/// BPR: a user prefers an item that was bought to one that is drawn.
pub(super) fn bayesian_ranking(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (n, users, items) = (trial.size(20_000, 1_500_000), trial.size(500, 20_000), trial.size(2_000, 30_000));
    let bought = ratings(n, users, items);
    let (mut plain_p, mut plain_q) = (rows(users, 4), rows(items, 5));
    let mut p = DVector::from_vec(session, plain_p.clone())?;
    let mut q = DVector::from_vec(session, plain_q.clone())?;
    let data = DVector::from_vec(session, bought.clone())?;
    let (seed, items) = (77u64, items as u64);
    let drawn = move |n: usize, item: u32| (u64::from(item) + 1 + mix(77 + n as u64) % (items - 1)) % items;
    let report = trial.steps(
        0..bought.len(),
        || {
            async_parallel_for!(0..data.len(), [seed, items, &data, &mut p, &mut q], |n| {
                let bought = data[n];
                let other = (u64::from(bought.item) + 1 + mix(seed + n as u64) % (items - 1)) % items;
                let user = &mut p[bought.user];
                let (good, bad) = q.pair_mut(bought.item, other);
                let margin: f64 = (0..K).map(|k| user[k] * (good[k] - bad[k])).sum();
                let step = 0.05 / (1.0 + margin.exp());
                for k in 0..K {
                    let (u, g, b) = (user[k], good[k], bad[k]);
                    user[k] += step * (g - b);
                    good[k] += step * u;
                    bad[k] -= step * u;
                }
            })
        },
        |n| {
            let (user, item) = (bought[n].user as usize, bought[n].item);
            let (item, other) = (item as usize, drawn(n, item) as usize);
            let margin: f64 = (0..K).map(|k| plain_p[user][k] * (plain_q[item][k] - plain_q[other][k])).sum();
            let step = 0.05 / (1.0 + margin.exp());
            for k in 0..K {
                let (u, g, b) = (plain_p[user][k], plain_q[item][k], plain_q[other][k]);
                plain_p[user][k] += step * (g - b);
                plain_q[item][k] += step * u;
                plain_q[other][k] -= step * u;
            }
        },
    )?;
    trial.same((flat(p.to_vec()?), flat(q.to_vec()?)), (flat(plain_p), flat(plain_q)));
    seen.report("ranking", &report);
    Ok(report)
}

/// Each example has twelve features out of a hundred.
pub(super) fn factorisation_machine(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let features = |n: usize| -> [u32; 12] { from_fn(|k| (k * 8 + below((n * 12 + k) as u64, 8)) as u32) };
    let n = trial.size(3_000, 400_000);
    let mut plain_w: Vec<f64> = vec![0.0; 100];
    let mut plain_v = rows(100, 6);
    let examples: Vec<[u32; 12]> = (0..n).map(features).collect();
    let data = DVector::from_vec(session, examples.clone())?;
    let mut w = DVector::from_vec(session, plain_w.clone())?;
    let mut v = DVector::from_vec(session, plain_v.clone())?;
    let report = trial.steps(
        0..n,
        || {
            async_parallel_for!(0..data.len(), [&data, &mut w, &mut v], |n| {
                let at = &data[n];
                let mut sums = [0.0; K];
                let mut guess = 0.0;
                for &i in at {
                    guess += w[i];
                    (0..K).for_each(|k| sums[k] += v[i][k]);
                }
                let error = guess + sums.iter().map(|s| 0.5 * s * s).sum::<f64>() - f64::from(at[0] % 3);
                for &i in at {
                    w[i] -= 0.01 * error;
                    let row = &mut v[i];
                    (0..K).for_each(|k| row[k] -= 0.01 * error * (sums[k] - row[k]));
                }
            })
        },
        |n| {
            let at = examples[n];
            let mut sums = [0.0; K];
            let mut guess = 0.0;
            for i in at.map(|i| i as usize) {
                guess += plain_w[i];
                (0..K).for_each(|k| sums[k] += plain_v[i][k]);
            }
            let error = guess + sums.iter().map(|s| 0.5 * s * s).sum::<f64>() - f64::from(at[0] % 3);
            for i in at.map(|i| i as usize) {
                plain_w[i] -= 0.01 * error;
                (0..K).for_each(|k| plain_v[i][k] -= 0.01 * error * (sums[k] - plain_v[i][k]));
            }
        },
    )?;
    trial.same((bits(w.to_vec()?), flat(v.to_vec()?)), (bits(plain_w), flat(plain_v)));
    seen.report("machine", &report);
    Ok(report)
}

/// Users and items have a bias each.
pub(super) fn biased_ratings(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (users, items) = (trial.size(800, 50_000), trial.size(600, 30_000));
    let all = ratings(trial.size(20_000, 6_000_000), users, items);
    let (mut plain_users, mut plain_items) = (vec![0.0f64; users], vec![0.0f64; items]);
    let data = DVector::from_vec(session, all.clone())?;
    let mut users = DVector::from_vec(session, plain_users.clone())?;
    let mut items = DVector::from_vec(session, plain_items.clone())?;
    let report = trial.steps(
        0..all.len(),
        || {
            async_parallel_for!(&data, [&mut users, &mut items], |rating| {
                let error = f64::from(rating.stars) - 3.0 - users[rating.user] - items[rating.item];
                users[rating.user] += 0.1 * (error - 0.02 * users[rating.user]);
                items[rating.item] += 0.1 * (error - 0.02 * items[rating.item]);
            })
        },
        |n| {
            let (user, item) = (all[n].user as usize, all[n].item as usize);
            let error = f64::from(all[n].stars) - 3.0 - plain_users[user] - plain_items[item];
            plain_users[user] += 0.1 * (error - 0.02 * plain_users[user]);
            plain_items[item] += 0.1 * (error - 0.02 * plain_items[item]);
        },
    )?;
    trial.same((bits(users.to_vec()?), bits(items.to_vec()?)), (bits(plain_users), bits(plain_items)));
    seen.report("biases", &report);
    Ok(report)
}

/// The same with a mean that each rating moves.
pub(super) fn biased_ratings_with_their_mean(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (users, items) = (trial.size(800, 50_000), trial.size(600, 30_000));
    let all = ratings(trial.size(8_000, 6_000_000), users, items);
    let (mut plain_users, mut plain_mean) = (vec![0.0f64; users], 3.0);
    let data = DVector::from_vec(session, all.clone())?;
    let mut users = DVector::from_vec(session, plain_users.clone())?;
    let mut mean = DVector::from_vec(session, vec![plain_mean])?;
    let report = trial.steps(
        0..all.len(),
        || {
            async_parallel_for!(0..data.len(), [&data, &mut users, &mut mean], |n| {
                let rating = data[n];
                let error = f64::from(rating.stars) - mean[0] - users[rating.user];
                users[rating.user] += 0.1 * error;
                mean[0] += 0.001 * error;
            })
        },
        |n| {
            let user = all[n].user as usize;
            let error = f64::from(all[n].stars) - plain_mean - plain_users[user];
            plain_users[user] += 0.1 * error;
            plain_mean += 0.001 * error;
        },
    )?;
    trial.same((bits(users.to_vec()?), bits(mean.to_vec()?)), (bits(plain_users), bits([plain_mean])));
    seen.report("mean", &report);
    Ok(report)
}
