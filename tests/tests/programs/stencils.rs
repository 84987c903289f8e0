//! Tables in one vector: stencils, colours, butterflies and columns.

use super::Trial;
use crate::common::{below, bits, bits32, mix};
use crate::seen::Seen;
use stradsap::prelude::*;

/// Heat in a plate: each cell from what was around it before; the edge stays.
pub(super) fn heat(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let (rows, columns) = (trial.size(60, 2_000), trial.size(70, 2_000));
    let mut plain: Vec<f32> = (0..rows * columns).map(|k| below(k as u64, 100) as f32).collect();
    let mut t = DVector::from_vec(session, plain.clone())?;
    let rate = 0.2f32;
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..3 {
                let report = async_parallel_for!((1..rows - 1, 1..columns - 1), [rate, columns, &mut t], |(i, j)| {
                    let k = i * columns + j;
                    let around = t.old[k - columns] + t.old[k - 1] + t.old[k + 1] + t.old[k + columns];
                    t[k] += rate * (around - 4.0 * t.old[k]);
                })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..3 {
                before.clone_from(&plain);
                for i in 1..rows - 1 {
                    for j in 1..columns - 1 {
                        let k = i * columns + j;
                        let around = before[k - columns] + before[k - 1] + before[k + 1] + before[k + columns];
                        plain[k] += rate * (around - 4.0 * before[k]);
                    }
                }
            }
        },
    )?;
    trial.same(bits32(t.to_vec()?), bits32(plain));
    seen.digest("t", &t)?;
    Ok(report)
}

/// Gauss-Seidel on a square with over-relaxation, in the plain loop's order.
pub(super) fn gauss_seidel_of_a_square(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let side = trial.size(200, 2_048);
    let mut plain: Vec<f64> = (0..side * side).map(|k| below(k as u64, 100) as f64).collect();
    let mut x = DVector::from_vec(session, plain.clone())?;
    let omega = 1.3;
    let report = trial.sweep(
        || {
            async_parallel_for!(
                (0..side, 0..side),
                [side, omega, &mut x],
                |(i, j)| {
                    if i > 0 && i < side - 1 && j > 0 && j < side - 1 {
                        let k = i * side + j;
                        let mean = 0.25 * (x[k - side] + x[k - 1] + x[k + 1] + x[k + side]);
                        x[k] += omega * (mean - x[k]);
                    }
                },
                order = Preserve
            )
        },
        || {
            for i in 1..side - 1 {
                for j in 1..side - 1 {
                    let k = i * side + j;
                    let mean = 0.25 * (plain[k - side] + plain[k - 1] + plain[k + 1] + plain[k + side]);
                    plain[k] += omega * (mean - plain[k]);
                }
            }
        },
    )?;
    trial.same(bits(x.to_vec()?), bits(plain));
    seen.digest("x", &x)?;
    Ok(report)
}

/// Metropolis steps of all spins of one colour, then of the other, on a torus.
pub(super) fn ising_by_colours(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let side = trial.size(80, 1_000);
    let mut plain: Vec<i8> = (0..side * side).map(|k| if mix(k as u64).is_multiple_of(2) { 1 } else { -1 }).collect();
    let mut spins = DVector::from_vec(session, plain.clone())?;
    fn turned(spin: i8, around: i8, random: u64) -> i8 {
        let energy = f64::from(2 * spin * around);
        if (random >> 40) as f64 / f64::from(1 << 24) < (-0.4 * energy).exp() { -spin } else { spin }
    }
    let report = trial.sweep(
        || {
            let mut last = None;
            for sweep in 0..2u64 {
                for colour in 0..2 {
                    let report = async_parallel_for!(0..side * side, [side, sweep, colour, &mut spins], |k| {
                        let (i, j) = (k / side, k % side);
                        if (i + j) % 2 == colour {
                            let (up, down) = ((i + side - 1) % side * side + j, (i + 1) % side * side + j);
                            let (left, right) = (i * side + (j + side - 1) % side, i * side + (j + 1) % side);
                            let around = spins[up] + spins[down] + spins[left] + spins[right];
                            spins[k] = turned(spins[k], around, mix((sweep << 32) ^ k as u64));
                        }
                    })?;
                    last = Some(report);
                }
            }
            Ok(last.unwrap())
        },
        || {
            for sweep in 0..2u64 {
                for colour in 0..2 {
                    for k in 0..side * side {
                        let (i, j) = (k / side, k % side);
                        if (i + j) % 2 == colour {
                            let (up, down) = ((i + side - 1) % side * side + j, (i + 1) % side * side + j);
                            let (left, right) = (i * side + (j + side - 1) % side, i * side + (j + 1) % side);
                            let around = plain[up] + plain[down] + plain[left] + plain[right];
                            plain[k] = turned(plain[k], around, mix((sweep << 32) ^ k as u64));
                        }
                    }
                }
            }
        },
    )?;
    trial.same(spins.to_vec()?, plain);
    seen.digest("spins", &spins)?;
    Ok(report)
}

/// The butterflies of a Fourier transform, stage by stage.
pub(super) fn fourier_transform(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = 1usize << trial.size(9, 18);
    type Complex = (f64, f64);
    fn butterfly(a: &mut Complex, b: &mut Complex, turn: f64) {
        let (sin, cos) = turn.sin_cos();
        let c = (b.0 * cos - b.1 * sin, b.0 * sin + b.1 * cos);
        (*a, *b) = ((a.0 + c.0, a.1 + c.1), (a.0 - c.0, a.1 - c.1));
    }
    let mut plain: Vec<Complex> = (0..n as u64).map(|i| (below(i, 100) as f64 / 100.0, 0.0)).collect();
    let mut x = DVector::from_vec(session, plain.clone())?;
    let report = trial.sweep(
        || {
            let (mut half, mut last) = (1, None);
            while half < n {
                let report = async_parallel_for!(0..n / 2, [half, &mut x], |t| {
                    let (block, at) = (t / half, t % half);
                    let (a, b) = x.pair_mut(2 * half * block + at, 2 * half * block + at + half);
                    butterfly(a, b, -std::f64::consts::PI * at as f64 / half as f64);
                })?;
                half *= 2;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            let mut half = 1;
            while half < n {
                for block in plain.chunks_mut(2 * half) {
                    let (left, right) = block.split_at_mut(half);
                    for at in 0..half {
                        butterfly(&mut left[at], &mut right[at], -std::f64::consts::PI * at as f64 / half as f64);
                    }
                }
                half *= 2;
            }
        },
    )?;
    let flat = |all: Vec<Complex>| bits(all.into_iter().flat_map(|(a, b)| [a, b]));
    trial.same(flat(x.to_vec()?), flat(plain));
    seen.digest("x", &x)?;
    Ok(report)
}

/// Cholesky's factor of a flat matrix, column by column.
pub(super) fn cholesky(session: &Session, seen: &mut Seen, trial: &mut Trial) -> stradsap::Result<LoopReport> {
    let n = trial.size(24, 400);
    let entry =
        |at: usize| if at / n == at % n { 2.0 * n as f64 } else { below((at / n * (at % n)) as u64, 9) as f64 / 9.0 };
    fn rest(value: f64, one: &[f64], other: &[f64]) -> f64 {
        one.iter().zip(other).fold(value, |rest, (a, b)| rest - a * b)
    }
    let begin: Vec<f64> = (0..n * n).map(entry).collect();
    let mut plain = begin.clone();
    let matrix = DVector::from_vec(session, begin.clone())?;
    let mut l = DVector::from_vec(session, begin.clone())?;
    let report = trial.sweep(
        || {
            async_parallel_for!(0..n * n, [&matrix, &mut l], |at| l[at] = matrix[at])?;
            let mut first = None;
            for j in 0..n {
                let row = l.read(j * n..j * n + j + 1)?;
                let pivot = rest(row[j], &row[..j], &row[..j]).sqrt();
                l.set(j * n + j, pivot)?;
                let report = async_parallel_for!(j + 1..n, [j, n, pivot, &mut l], |i| {
                    let below = rest(l[i * n + j], &l[i * n..i * n + j], &l[j * n..j * n + j]);
                    l[i * n + j] = below / pivot;
                })?;
                first.get_or_insert(report);
            }
            Ok(first.unwrap())
        },
        || {
            plain.copy_from_slice(&begin);
            for j in 0..n {
                let pivot = rest(plain[j * n + j], &plain[j * n..j * n + j], &plain[j * n..j * n + j]).sqrt();
                plain[j * n + j] = pivot;
                for i in j + 1..n {
                    let below = rest(plain[i * n + j], &plain[i * n..i * n + j], &plain[j * n..j * n + j]);
                    plain[i * n + j] = below / pivot;
                }
            }
        },
    )?;
    trial.same(bits(l.to_vec()?), bits(plain));
    seen.digest("l", &l)?;
    Ok(report)
}

/// What a cell hears from its neighbours above, below, left and right: how much each of two states is worth.
type Messages = [[f32; 2]; 4];

/// Belief propagation on a grid of noisy black and white, all messages from those before.
pub(super) fn belief_propagation(
    session: &Session,
    seen: &mut Seen,
    trial: &mut Trial,
) -> stradsap::Result<LoopReport> {
    let (rows, columns) = (trial.size(40, 1_000), trial.size(50, 600));
    let image: Vec<[f32; 2]> = (0..rows * columns)
        .map(|k| if below(k as u64, 10) < 3 + 4 * (k % columns * 2 / columns) { [0.7, 0.3] } else { [0.3, 0.7] })
        .collect();
    /// What a cell says to the neighbour from which it has heard `but`.
    fn said(heard: &Messages, own: [f32; 2], but: usize) -> [f32; 2] {
        let mut worth = own;
        for from in (0..4).filter(|&from| from != but) {
            (0..2).for_each(|s| worth[s] *= heard[from][s]);
        }
        let told = [0.8 * worth[0] + 0.2 * worth[1], 0.2 * worth[0] + 0.8 * worth[1]];
        told.map(|part| part / (told[0] + told[1]))
    }
    let mut plain = vec![[[0.5f32; 2]; 4]; rows * columns];
    let pixels = DVector::from_vec(session, image.clone())?;
    let mut heard = DVector::from_vec(session, plain.clone())?;
    let mut before = plain.clone();
    let report = trial.sweep(
        || {
            let mut last = None;
            for _ in 0..3 {
                let report =
                    async_parallel_for!((0..rows, 0..columns), [rows, columns, &pixels, &mut heard], |(i, j)| {
                        let k = i * columns + j;
                        if i > 0 {
                            heard[k][0] = said(&heard.old[k - columns], pixels[k - columns], 1);
                        }
                        if i + 1 < rows {
                            heard[k][1] = said(&heard.old[k + columns], pixels[k + columns], 0);
                        }
                        if j > 0 {
                            heard[k][2] = said(&heard.old[k - 1], pixels[k - 1], 3);
                        }
                        if j + 1 < columns {
                            heard[k][3] = said(&heard.old[k + 1], pixels[k + 1], 2);
                        }
                    })?;
                last = Some(report);
            }
            Ok(last.unwrap())
        },
        || {
            for _ in 0..3 {
                before.clone_from(&plain);
                for k in 0..rows * columns {
                    let (i, j) = (k / columns, k % columns);
                    if i > 0 {
                        plain[k][0] = said(&before[k - columns], image[k - columns], 1);
                    }
                    if i + 1 < rows {
                        plain[k][1] = said(&before[k + columns], image[k + columns], 0);
                    }
                    if j > 0 {
                        plain[k][2] = said(&before[k - 1], image[k - 1], 3);
                    }
                    if j + 1 < columns {
                        plain[k][3] = said(&before[k + 1], image[k + 1], 2);
                    }
                }
            }
        },
    )?;
    let flat = |all: Vec<Messages>| bits32(all.into_iter().flatten().flatten());
    trial.same(flat(heard.to_vec()?), flat(plain));
    seen.digest("heard", &heard)?;
    Ok(report)
}
