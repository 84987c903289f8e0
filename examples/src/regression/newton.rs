//! Newton's step on the coefficients that aren't 0: with their signs as they are, a Lasso is a system of equations.

use crate::regression::kernels;
use crate::regression::solve::Gram;

/// So many coefficients are solved for at most.
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
        for (k, &i) in used.iter().enumerate() {
            let (done, row) = rows.split_at_mut(k * size);
            let products = gram.row(i);
            for (m, &j) in used[..k].iter().enumerate() {
                let other = &done[m * size..m * size + m + 1];
                row[m] = (products[j] - kernels::dot(&other[..m], &row[..m])) / other[m];
            }
            let square = products[i];
            let rest = square - kernels::dot(&row[..k], &row[..k]);
            if rest <= 1e-12 * square {
                return None;
            }
            row[k] = rest.sqrt();
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
