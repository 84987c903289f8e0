//! A small Lasso whose inner products are all known: what is left of a block of columns once their correlations with each
//! other and with the residual have been computed. Coordinate descent then needs no column any more.

use stradsap::Element;

use crate::regression::gap::Gap;
use crate::regression::{kernels, newton};

/// The inner products of some columns with each other: a square that can grow.
#[derive(Debug, Clone, Default, Element)]
pub struct Gram {
    /// The distance of two rows.
    stride: usize,
    known: usize,
    values: Vec<f64>,
}

impl Gram {
    /// For up to this many columns.
    pub fn with_room(columns: usize) -> Gram {
        Gram { stride: columns, known: 0, values: vec![0.0; columns * columns] }
    }

    /// How many columns it knows.
    pub fn known(&self) -> usize {
        self.known
    }

    /// How many columns it has room for.
    pub fn room(&self) -> usize {
        self.stride
    }

    /// Adds a column: its products with those that are known already, and with itself.
    pub fn push(&mut self, products: impl Iterator<Item = f64>) {
        let k = self.known;
        for (i, product) in products.take(k + 1).enumerate() {
            self.values[k * self.stride + i] = product;
            self.values[i * self.stride + k] = product;
        }
        self.known += 1;
    }

    /// The products of a column with all.
    #[inline]
    pub fn row(&self, column: usize) -> &[f64] {
        let start = column * self.stride;
        &self.values[start..start + self.known]
    }
}

/// `x` drawn towards 0 by `by`.
#[inline]
pub fn soft_threshold(x: f64, by: f64) -> f64 {
    if x > by {
        x - by
    } else if x < -by {
        x + by
    } else {
        0.0
    }
}

/// One pass of coordinate descent over a block. `gradient` is what each column has in common with the residual, and is kept
/// up to date; the penalty is `lambda` times the absolute value, but for columns from `free` on. Gives the sum of what
/// the objective fell by, at least.
pub fn sweep(gram: &Gram, gradient: &mut [f64], coefficients: &mut [f64], lambda: f64, free: usize) -> f64 {
    let mut fell = 0.0;
    for i in 0..coefficients.len() {
        let (g, old) = (gradient[i], coefficients[i]);
        let penalty = if i < free { lambda } else { 0.0 };
        if old == 0.0 && g.abs() <= penalty {
            continue;
        }
        let row = gram.row(i);
        let square = row[i];
        if square <= 0.0 {
            continue;
        }
        let new = soft_threshold(old * square + g, penalty) / square;
        let step = new - old;
        if step != 0.0 {
            coefficients[i] = new;
            kernels::axpy(-step, row, gradient);
            fell += 0.5 * square * step * step;
        }
    }
    fell
}

/// This many passes at most are made to reach a gap.
const MOST_PASSES: u64 = 20_000;
/// The gap is computed once in this many passes.
const EVERY: u64 = 5;

/// Passes over a block of all coefficients that aren't 0 until the duality gap, of these columns alone, is not above `goal`;
/// `square` is the square of the residual's length. Gives the gap and the number of passes.
pub fn to_gap(
    gram: &Gram,
    gradient: &mut [f64],
    coefficients: &mut [f64],
    lambda: f64,
    square: f64,
    goal: f64,
) -> (Gap, u64) {
    let (first, at_first) = (coefficients.to_vec(), gradient.to_vec());
    let mut anderson = Anderson::default();
    let (mut passes, mut work) = (0, 0);
    let free = coefficients.len();
    loop {
        let fell = sweep(gram, gradient, coefficients, lambda, free);
        passes += 1;
        let nonzeros = coefficients.iter().filter(|&&b| b != 0.0).count();
        work += nonzeros * coefficients.len();
        // A system of equations is worth as much time as the passes since the last have taken.
        if work >= nonzeros.pow(3) / 6 && passes % EVERY == 0 {
            work = 0;
            if newton::step(gram, gradient, coefficients, lambda) {
                anderson.clear();
            }
        }
        if let Some(guess) = anderson.push(coefficients) {
            extrapolate(gram, gradient, coefficients, lambda, &guess);
        }
        if passes % EVERY != 0 && fell > 0.0 {
            continue;
        }
        let (mut now, mut shared, mut norm, mut largest) = (square, 0.0, 0.0, 0.0f64);
        for (i, &b) in coefficients.iter().enumerate() {
            // |r - X d|² = |r|² - d.(X'r + X'(r - X d))
            now -= (b - first[i]) * (at_first[i] + gradient[i]);
            shared += b * gradient[i];
            norm += b.abs();
            largest = largest.max(gradient[i].abs());
        }
        let gap = Gap::of_lasso(lambda, now.max(0.0), shared, norm, largest);
        if gap.absolute() <= goal || fell <= 1e-17 * gap.primal || passes >= MOST_PASSES {
            return (gap, passes);
        }
    }
}

/// Goes to a guess if the objective is lower there.
fn extrapolate(gram: &Gram, gradient: &mut [f64], coefficients: &mut [f64], lambda: f64, guess: &[f64]) {
    let mut there = gradient.to_vec();
    for (i, (new, old)) in guess.iter().zip(coefficients.iter()).enumerate() {
        if new != old {
            kernels::axpy(old - new, gram.row(i), &mut there);
        }
    }
    let change = coefficients.iter().enumerate().fold(0.0, |sum, (i, &old)| {
        let step = guess[i] - old;
        sum - 0.5 * step * (gradient[i] + there[i]) + lambda * (guess[i].abs() - old.abs())
    });
    if change < 0.0 {
        coefficients.copy_from_slice(guess);
        gradient.copy_from_slice(&there);
    }
}

/// Anderson extrapolation: from the last iterates of a method that converges linearly to where they seem to go (Bertrand and
/// Massias, "Anderson acceleration of coordinate descent", 2021).
#[derive(Debug, Clone, Default)]
pub struct Anderson {
    iterates: Vec<Vec<f64>>,
}

/// This many differences are combined.
const DEPTH: usize = 5;

impl Anderson {
    /// Forgets all iterates.
    pub fn clear(&mut self) {
        self.iterates.clear();
    }

    /// Adds an iterate. Gives a guess once there are enough; then it begins anew.
    pub fn push(&mut self, iterate: &[f64]) -> Option<Vec<f64>> {
        if self.iterates.first().is_some_and(|first| first.len() != iterate.len()) {
            self.iterates.clear();
        }
        self.iterates.push(iterate.to_vec());
        if self.iterates.len() <= DEPTH {
            return None;
        }
        let guess = self.guess();
        self.iterates.clear();
        guess
    }

    fn guess(&self) -> Option<Vec<f64>> {
        let differences: Vec<Vec<f64>> = self
            .iterates
            .windows(2)
            .map(|pair| pair[1].iter().zip(&pair[0]).map(|(new, old)| new - old).collect())
            .collect();
        let mut system = [[0.0; DEPTH + 1]; DEPTH];
        for i in 0..DEPTH {
            for j in 0..=i {
                system[i][j] = kernels::dot(&differences[i], &differences[j]);
                system[j][i] = system[i][j];
            }
            system[i][DEPTH] = 1.0;
        }
        let scale = (0..DEPTH).fold(0.0f64, |most, i| most.max(system[i][i]));
        if scale == 0.0 {
            return None;
        }
        (0..DEPTH).for_each(|i| system[i][i] += 1e-14 * scale);
        let weights = solve(system)?;
        let total: f64 = weights.iter().sum();
        if !total.is_finite() || total == 0.0 {
            return None;
        }
        let mut guess = vec![0.0; self.iterates[0].len()];
        for (weight, iterate) in weights.iter().zip(&self.iterates[1..]) {
            kernels::axpy(weight / total, iterate, &mut guess);
        }
        guess.iter().all(|x| x.is_finite()).then_some(guess)
    }
}

/// Gauss's elimination with pivots; the last column is the right side.
fn solve<const N: usize, const M: usize>(mut system: [[f64; M]; N]) -> Option<[f64; N]> {
    for k in 0..N {
        let pivot = (k..N).max_by(|&a, &b| system[a][k].abs().total_cmp(&system[b][k].abs()))?;
        system.swap(k, pivot);
        if system[k][k] == 0.0 {
            return None;
        }
        for i in k + 1..N {
            let factor = system[i][k] / system[k][k];
            let row = system[k];
            system[i].iter_mut().zip(row).skip(k).for_each(|(x, y)| *x -= factor * y);
        }
    }
    let mut solution = [0.0; N];
    for k in (0..N).rev() {
        let known: f64 = (k + 1..N).map(|j| system[k][j] * solution[j]).sum();
        solution[k] = (system[k][N] - known) / system[k][k];
    }
    Some(solution)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns that have much in common.
    fn alike(count: usize) -> (Gram, Vec<f64>) {
        let mut gram = Gram::with_room(count + 3);
        (0..count).for_each(|k| gram.push((0..=k).map(|other| if other == k { 1.0 } else { 0.95 })));
        (gram, (0..count).map(|k| (k as f64 * 2.7).sin() + 2.0).collect())
    }

    #[test]
    fn a_gap_is_reached_and_the_gradient_stays_true() {
        let (gram, with_labels) = alike(40);
        let (mut gradient, mut coefficients) = (with_labels.clone(), vec![0.0; 40]);
        let (gap, passes) = to_gap(&gram, &mut gradient, &mut coefficients, 0.1, 100.0, 1e-10);
        assert!(gap.absolute() <= 1e-10 && passes < 1000, "{gap:?} {passes}");
        for k in 0..40 {
            let fitted: f64 = gram.row(k).iter().zip(&coefficients).map(|(product, b)| product * b).sum();
            assert!((with_labels[k] - fitted - gradient[k]).abs() < 1e-9);
            let off = if coefficients[k] == 0.0 {
                (gradient[k].abs() - 0.1).max(0.0)
            } else {
                (gradient[k] - 0.1 * coefficients[k].signum()).abs()
            };
            assert!(off < 1e-5, "{k}: {off}");
        }
    }

    #[test]
    fn extrapolation_finds_where_a_linear_iteration_goes() {
        // x' = a x + b in each place: five differences span all that happens.
        let rates = [0.9, 0.7, -0.5, 0.2];
        let mut x = vec![5.0, -3.0, 2.0, 1.0];
        let mut anderson = Anderson::default();
        let mut guess = None;
        for _ in 0..=DEPTH {
            assert!(guess.is_none());
            guess = anderson.push(&x);
            x.iter_mut().zip(rates).for_each(|(x, rate)| *x = rate * *x + 1.0);
        }
        for (found, rate) in guess.unwrap().iter().zip(rates) {
            assert!((found - 1.0 / (1.0 - rate)).abs() < 1e-4, "{found} for rate {rate}");
        }
        assert!(anderson.push(&x).is_none(), "it begins anew");
    }
}
