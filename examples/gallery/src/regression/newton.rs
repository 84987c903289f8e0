//! Newton's step on the coefficients that aren't 0: with their signs as they are, a Lasso is a system of equations.

use crate::regression::kernels;
use crate::regression::solve::Gram;

/// This many coefficients are solved for at most.
pub const MOST: usize = 1024;

/// Goes to where the objective is least among coefficients of the same signs and zeros, as far as it is lower there; one that
/// would change its sign becomes 0. `gradient` is kept up to date. Whether anything has changed.
pub fn step(gram: &Gram, gradient: &mut [f64], coefficients: &mut [f64], lambda: f64) -> bool {
    let used: Vec<usize> = (0..coefficients.len()).filter(|&i| coefficients[i] != 0.0).collect();
    if used.is_empty() || used.len() > MOST {
        return false;
    }
    let mut right: Vec<f64> = used.iter().map(|&i| gradient[i] - lambda * coefficients[i].signum()).collect();
    let Some(factor) = Cholesky::of(gram, &used) else { return false };
    factor.solve(&mut right);
    if !right.iter().all(|step| step.is_finite()) {
        return false;
    }
    // As far as nothing changes its sign.
    let crossing = |(&i, &step): (&usize, &f64)| {
        let b = coefficients[i];
        (b + step) * b.signum() < 0.0
    };
    let pairs = || used.iter().zip(&right);
    let first = pairs().filter(|&pair| crossing(pair)).map(|(&i, step)| -coefficients[i] / step).fold(1.0, f64::min);
    let clipped: Vec<f64> =
        pairs().map(|(&i, step)| if crossing((&i, step)) { -coefficients[i] } else { *step }).collect();
    if take(gram, gradient, coefficients, lambda, &used, &clipped) {
        return true;
    }
    if first >= 1.0 {
        return false;
    }
    let part: Vec<f64> = pairs()
        .map(|(&i, step)| if -coefficients[i] == first * step { -coefficients[i] } else { first * step })
        .collect();
    take(gram, gradient, coefficients, lambda, &used, &part)
}

/// Takes a step, if the objective falls.
fn take(
    gram: &Gram,
    gradient: &mut [f64],
    coefficients: &mut [f64],
    lambda: f64,
    used: &[usize],
    steps: &[f64],
) -> bool {
    let mut there = gradient.to_vec();
    for (&i, &step) in used.iter().zip(steps) {
        kernels::axpy(-step, gram.row(i), &mut there);
    }
    let change = used.iter().zip(steps).fold(0.0, |sum, (&i, step)| {
        let b = coefficients[i];
        sum - 0.5 * step * (gradient[i] + there[i]) + lambda * ((b + step).abs() - b.abs())
    });
    if change.is_nan() || change >= 0.0 {
        return false;
    }
    for (&i, &step) in used.iter().zip(steps) {
        coefficients[i] += step;
    }
    gradient.copy_from_slice(&there);
    true
}

/// Rows that are computed together, while those before them are in the cache.
const TOGETHER: usize = 8;

/// A triangle L with L L' = the inner products of some columns, row by row.
struct Cholesky {
    size: usize,
    rows: Vec<f64>,
}

impl Cholesky {
    /// None where the columns are not independent, as far as can be told.
    fn of(gram: &Gram, used: &[usize]) -> Option<Cholesky> {
        let size = used.len();
        let mut rows = vec![0.0; size * size];
        for first in (0..size).step_by(TOGETHER) {
            let (done, group) = rows.split_at_mut(first * size);
            let mut group: Vec<&mut [f64]> = group.chunks_mut(size).take(TOGETHER).collect();
            for (m, other) in done.chunks(size).enumerate() {
                for (row, &i) in group.iter_mut().zip(&used[first..]) {
                    row[m] = (gram.row(i)[used[m]] - kernels::dot(&other[..m], &row[..m])) / other[m];
                }
            }
            for k in first..first + group.len() {
                let (done, rest) = group.split_at_mut(k - first);
                let row = &mut *rest[0];
                let products = gram.row(used[k]);
                for (other, m) in done.iter().zip(first..) {
                    row[m] = (products[used[m]] - kernels::dot(&other[..m], &row[..m])) / other[m];
                }
                let square = products[used[k]];
                let rest = square - kernels::dot(&row[..k], &row[..k]);
                if rest <= 1e-12 * square {
                    return None;
                }
                row[k] = rest.sqrt();
            }
        }
        Some(Cholesky { size, rows })
    }

    fn solve(&self, right: &mut [f64]) {
        let row = |k: usize| &self.rows[k * self.size..k * self.size + k + 1];
        for k in 0..self.size {
            let own = row(k);
            right[k] = (right[k] - kernels::dot(&own[..k], &right[..k])) / own[k];
        }
        for k in (0..self.size).rev() {
            let own = row(k);
            right[k] /= own[k];
            let x = right[k];
            kernels::axpy(-x, &own[..k], &mut right[..k]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_leads_to_the_optimum_of_its_signs() {
        // Columns that share a part, more than are computed together.
        let count = 2 * TOGETHER + 3;
        let product = |a: usize, b: usize| if a == b { 2.0 + a as f64 / 10.0 } else { 0.3 };
        let mut gram = Gram::with_room(count);
        (0..count).for_each(|k| gram.push((0..=k).map(|other| product(k, other))));
        let with_labels: Vec<f64> = (0..count).map(|k| 20.0 - k as f64 / 7.0).collect();
        let mut coefficients = vec![1.0; count];
        coefficients[4] = 0.0;
        let mut gradient: Vec<f64> = (0..count)
            .map(|k| with_labels[k] - (0..count).map(|other| product(k, other) * coefficients[other]).sum::<f64>())
            .collect();
        assert!(step(&gram, &mut gradient, &mut coefficients, 0.5));
        for k in 0..count {
            let share = with_labels[k] - (0..count).map(|other| product(k, other) * coefficients[other]).sum::<f64>();
            assert!((share - gradient[k]).abs() < 1e-10);
            assert!(k == 4 || (share - 0.5).abs() < 1e-10, "{k}: {share}");
        }
        assert_eq!(coefficients[4], 0.0);
        assert!(!step(&gram, &mut gradient, &mut coefficients, 0.5), "there is nothing left to do");
    }
}
