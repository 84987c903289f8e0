//! Grids whose cells look at their neighbours.

use super::Trial;
use crate::common::{below, bits, mix};
use crate::seen::Seen;
use stradsap::prelude::*;

/// Metropolis steps at random sites of a torus of 120 by 120 spins.
pub(super) fn ising_model(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (side, seed, steps) = (trial.size(120, 1_000), 9u64, trial.size(30_000, 1_000_000));
    let mut plain: Vec<i8> = (0..side * side).map(|i| if mix(i as u64).is_multiple_of(2) { 1 } else { -1 }).collect();
    let plain_sites: Vec<u32> = (0..steps).map(|n| below(mix(n as u64), side * side) as u32).collect();
    let sites = DVector::from_vec(session, plain_sites.clone())?;
    let mut spins = DVector::from_vec(session, plain.clone())?;
    let report = trial.steps(
        0..steps,
        || {
            async_parallel_for!(0..steps, [side, seed, &sites, &mut spins], |n| {
                let at = sites[n] as usize;
                let (row, column) = (at / side, at % side);
                let around = i32::from(spins[row * side + (column + 1) % side])
                    + i32::from(spins[row * side + (column + side - 1) % side])
                    + i32::from(spins[(row + 1) % side * side + column])
                    + i32::from(spins[(row + side - 1) % side * side + column]);
                let energy = 2 * i32::from(spins[at]) * around;
                let chance = (mix(seed ^ n as u64) % 1000) as f64 / 1000.0;
                // Written in any case: whether it changes depends on its neighbours.
                spins[at] = if chance < (-0.4 * f64::from(energy)).exp() { -spins[at] } else { spins[at] };
            })
        },
        |n| {
            let at = plain_sites[n] as usize;
            let (row, column) = (at / side, at % side);
            let around = i32::from(plain[row * side + (column + 1) % side])
                + i32::from(plain[row * side + (column + side - 1) % side])
                + i32::from(plain[(row + 1) % side * side + column])
                + i32::from(plain[(row + side - 1) % side * side + column]);
            let energy = 2 * i32::from(plain[at]) * around;
            if ((mix(seed ^ n as u64) % 1000) as f64 / 1000.0) < (-0.4 * f64::from(energy)).exp() {
                plain[at] = -plain[at];
            }
        },
    )?;
    trial.same(spins.to_vec()?, plain);
    seen.report("ising", &report);
    Ok(report)
}

/// A line, each point from its neighbours' values at that moment.
pub(super) fn gauss_seidel(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(5_000, 5_000_000);
    let mut plain: Vec<f64> = (0..n).map(|i| below(i as u64, 100) as f64).collect();
    let mut x = DVector::from_vec(session, plain.clone())?;
    let mut last = None;
    for _ in 0..trial.size(2, 1) {
        let report = trial.sweep(
            || async_parallel_for!(1..n - 1, [&mut x], |i| x[i] = 0.5 * (x[i - 1] + x[i + 1]), order = Preserve),
            || (1..n - 1).for_each(|i| plain[i] = 0.5 * (plain[i - 1] + plain[i + 1])),
        )?;
        trial.same(bits(x.to_vec()?), bits(plain.clone()));
        last = Some(report);
    }
    seen.digest("x", &x)?;
    Ok(last.unwrap())
}

/// From the neighbours as they were before.
pub(super) fn jacobi(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(20_000, 12_000_000);
    let mut plain: Vec<f64> = (0..n).map(|i| below(i as u64, 100) as f64).collect();
    let mut plain_next = plain.clone();
    let mut now = DVector::from_vec(session, plain.clone())?;
    let mut next = DVector::from_vec(session, plain.clone())?;
    let mut last = None;
    for _ in 0..trial.size(2, 1) {
        let report = trial.sweep(
            || {
                let report = async_parallel_for!(1..n - 1, [&now, &mut next], |i| {
                    next[i] = now[i - 1..=i + 1].iter().sum::<f64>() / 3.0;
                })?;
                std::mem::swap(&mut now, &mut next);
                Ok(report)
            },
            || {
                (1..n - 1).for_each(|i| plain_next[i] = plain[i - 1..=i + 1].iter().sum::<f64>() / 3.0);
                std::mem::swap(&mut plain, &mut plain_next);
            },
        )?;
        trial.same(bits(now.to_vec()?), bits(plain.clone()));
        seen.report("jacobi", &report);
        last = Some(report);
    }
    Ok(last.unwrap())
}

/// Successive over-relaxation on a square: cells of one colour, then those of the other, each from its neighbours.
pub(super) fn over_relaxation_by_colours(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let side = trial.size(64, 4_000);
    let mut plain: Vec<Vec<f64>> = (0..2)
        .map(|colour| (0..side * side / 2).map(|k| below((2 * k + colour) as u64, 50) as f64).collect())
        .collect();
    let mut red = DVector::from_vec(session, plain[0].clone())?;
    let mut black = DVector::from_vec(session, plain[1].clone())?;
    let half = side / 2;
    let mut last = None;
    // Cell (row, k) of one colour stands between two of the other in its row.
    for (turn, omega) in [1.5, 1.25].iter().enumerate() {
        let (own, other) = if turn == 0 { (&mut red, &black) } else { (&mut black, &red) };
        let report = trial.sweep(
            || {
                async_parallel_for!((1..side - 1, 1..half - 1), [omega, half, turn, &mut *own, &other], |(row, k)| {
                    let at = row * half + k;
                    let beside = if (row + turn) % 2 == 0 { at - 1 } else { at + 1 };
                    let around = other[at] + other[beside] + other[at - half] + other[at + half];
                    own[at] += *omega * (0.25 * around - own[at]);
                })
            },
            || {
                let (own, other) = if turn == 0 { (0, 1) } else { (1, 0) };
                for row in 1..side - 1 {
                    for k in 1..half - 1 {
                        let at = row * half + k;
                        let beside = if (row + turn) % 2 == 0 { at - 1 } else { at + 1 };
                        let other = &plain[other];
                        let around = other[at] + other[beside] + other[at - half] + other[at + half];
                        plain[own][at] += omega * (0.25 * around - plain[own][at]);
                    }
                }
            },
        )?;
        seen.report("colour", &report);
        last = Some(report);
    }
    trial.same((bits(red.to_vec()?), bits(black.to_vec()?)), (bits(plain[0].clone()), bits(plain[1].clone())));
    Ok(last.unwrap())
}

/// Of two texts, by the whole table, cell by cell.
pub(super) fn edit_distance(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let text = |seed: u64, n: usize| -> Vec<u8> { (0..n).map(|i| b'a' + below(seed + i as u64, 4) as u8).collect() };
    let (left, right) = (text(1, trial.size(70, 2_000)), text(10_000, trial.size(60, 2_500)));
    let (rows, columns) = (left.len() + 1, right.len() + 1);
    let mut plain = vec![0u32; rows * columns];
    (0..rows).for_each(|i| plain[i * columns] = i as u32);
    (0..columns).for_each(|j| plain[j] = j as u32);
    let mut table = DVector::from_vec(session, plain.clone())?;
    let (one, other) = (&left, right.as_slice());
    let report = trial.sweep(
        || {
            async_parallel_for!(
                (1..rows, 1..columns),
                [one, other, columns, &mut table],
                |(i, j)| {
                    let at = i * columns + j;
                    let changed = table[at - columns - 1] + u32::from(one[i - 1] != other[j - 1]);
                    table[at] = changed.min(table[at - 1] + 1).min(table[at - columns] + 1);
                },
                order = Preserve
            )
        },
        || {
            for i in 1..rows {
                for j in 1..columns {
                    let at = i * columns + j;
                    let changed = plain[at - columns - 1] + u32::from(left[i - 1] != right[j - 1]);
                    plain[at] = changed.min(plain[at - 1] + 1).min(plain[at - columns] + 1);
                }
            }
        },
    )?;
    trial.same(table.to_vec()?, plain);
    seen.digest("table", &table)?;
    Ok(report)
}

/// From one board to the next.
pub(super) fn game_of_life(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (rows, columns) = (trial.size(80, 1_000), trial.size(90, 1_200));
    let mut plain: Vec<bool> = (0..rows * columns).map(|k| mix(k as u64).is_multiple_of(3)).collect();
    let mut now = DVector::from_vec(session, plain.clone())?;
    let mut next = DVector::from_fn(session, rows * columns, |_| false)?;
    let mut last = None;
    let mut before = plain.clone();
    for _ in 0..trial.size(3, 1) {
        let report = trial.sweep(
            || {
                let report = async_parallel_for!((0..rows, 0..columns), [rows, columns, &now, &mut next], |(i, j)| {
                    let mut alive = 0;
                    for (a, b) in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)] {
                        let (a, b) = ((i + a + rows - 1) % rows, (j + b + columns - 1) % columns);
                        alive += u8::from(now[a * columns + b]);
                    }
                    next[i * columns + j] = alive == 3 || alive == 2 && now[i * columns + j];
                })?;
                std::mem::swap(&mut now, &mut next);
                Ok(report)
            },
            || {
                before.clone_from(&plain);
                for k in 0..rows * columns {
                    let (i, j) = (k / columns, k % columns);
                    let cells = (0..9)
                        .filter(|&c| c != 4)
                        .map(|c| before[(i + c / 3 + rows - 1) % rows * columns + (j + c % 3 + columns - 1) % columns]);
                    let alive = cells.filter(|&cell| cell).count();
                    plain[k] = alive == 3 || alive == 2 && before[k];
                }
            },
        )?;
        trial.same(now.to_vec()?, plain.clone());
        seen.report("life", &report);
        last = Some(report);
    }
    Ok(last.unwrap())
}
