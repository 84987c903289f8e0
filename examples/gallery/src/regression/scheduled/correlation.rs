//! How much columns have in common, estimated on some rows.

use std::sync::{Mutex, PoisonError};

use crate::regression::columns::{Column, Part};
use crate::regression::kernels;

/// How columns are correlated, estimated on some rows.
#[derive(Debug)]
pub(super) struct Correlation {
    part: Part,
    /// Of each column: what is taken off its values, and the inverse of the length that it then has.
    means: Vec<(f64, f64)>,
    /// A column with its zeros, and which one: a candidate is compared with many others.
    wide: Mutex<(Option<usize>, Vec<f64>)>,
}

impl Correlation {
    /// On these rows, of columns that are shifted or not.
    pub(super) fn new(part: Part, centred: bool) -> Correlation {
        let rows = part.height() as f64;
        let mean = |column| {
            let mean = if centred { part.sum(column) / rows } else { 0.0 };
            let squares = match part.column(column) {
                Column::Dense(values) | Column::Sparse(_, values) => kernels::dot(values, values),
            } - rows * mean * mean;
            (mean, if squares > 0.0 { 1.0 / squares.sqrt() } else { 0.0 })
        };
        let means = (0..part.width()).map(mean).collect();
        let wide = Mutex::new((None, vec![0.0; part.height()]));
        Correlation { part, means, wide }
    }

    /// Of two columns.
    pub(super) fn between(&self, a: usize, b: usize) -> f64 {
        if a.max(b) >= self.part.width() {
            // The intercept: how far the other's mean is from 0.
            let other = a.min(b);
            return self.part.sum(other) * self.means[other].1 / (self.part.height() as f64).sqrt();
        }
        let mut wide = self.wide.lock().unwrap_or_else(PoisonError::into_inner);
        let (held, values) = &mut *wide;
        if *held != Some(a) {
            values.fill(0.0);
            self.part.add(a, 1.0, values);
            *held = Some(a);
        }
        let product = self.part.dot(b, values);
        let ((mean, inverse), (other_mean, other_inverse)) = (self.means[a], self.means[b]);
        (product - self.part.height() as f64 * mean * other_mean) * inverse * other_inverse
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::regression::scaling::{Columns, Constant, Scaling};
    use crate::regression::table::{Labels, Table};

    #[test]
    fn correlations_are_those_of_plain_loops() {
        let value = |i: usize, j: usize| {
            let x = ((i * (j + 3) * 5 + j) % 17) as f64 - 6.0;
            if j < 2 || (i + j).is_multiple_of(j + 2) { x + 0.5 } else { 0.0 }
        };
        let (rows, columns) = (60, 6);
        let values = |i: usize| (0..columns).map(move |j| (j, value(i, j))).filter(|(_, x)| *x != 0.0);
        let line = |i: usize| format!("{i}{}\n", values(i).map(|(j, x)| format!(" {}:{x}", j + 1)).collect::<String>());
        let text: String = (0..rows).map(line).collect();
        let table = Table::parse(Path::new("t"), text.as_bytes(), Labels::Numbers).unwrap();
        for centred in [true, false] {
            let scaling = Scaling::of(&table, Columns::Scaled, centred, Constant::Refuse).unwrap();
            let part = Part::of(&table, table.labels(), &scaling, 0..rows);
            let correlation = Correlation::new(part, centred);
            let column = |j: usize| -> Vec<f64> {
                let mean = (0..rows).map(|i| value(i, j)).sum::<f64>() / rows as f64;
                (0..rows).map(|i| value(i, j) - if centred { mean } else { 0.0 }).collect()
            };
            let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(x, y)| x * y).sum::<f64>();
            for a in 0..columns {
                for b in 0..columns {
                    let (x, y) = (column(a), column(b));
                    let plain = product(&x, &y) / (product(&x, &x) * product(&y, &y)).sqrt();
                    assert!((correlation.between(a, b) - plain).abs() < 1e-12, "{a} and {b}, {centred}");
                }
            }
        }
    }
}
