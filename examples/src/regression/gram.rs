//! Inner products of columns with each other.

use crate::regression::columns::{Column, Part};

/// Rows are sums over dense vectors where at least one value in this many is stored.
const DENSE: usize = 4;

/// For each of the columns from `known` on its inner products with those before it and with itself, one after the other; where
/// rows have weights, weighted. Each is the same whatever is known.
pub fn products(part: &Part, columns: &[u32], known: usize, weights: Option<&[f64]>) -> Vec<f64> {
    let height = part.height();
    let count = columns.len();
    let mut all = Vec::with_capacity((known + count + 1) * (count - known) / 2);
    let mut stored: usize = columns[..known].iter().map(|&c| part.stored(c as usize)).sum();
    let mut rows: Option<Rows> = None;
    let mut wide = vec![0.0; height];
    for (k, &column) in columns.iter().enumerate().skip(known) {
        let column = column as usize;
        stored += part.stored(column);
        if stored * DENSE >= height * (k + 1) {
            wide.fill(0.0);
            weighted(part, column, weights, |i, x| wide[i] = x);
            all.extend(columns[..=k].iter().map(|&other| part.dot(other as usize, &wide)));
        } else {
            let rows = rows.get_or_insert_with(|| Rows::of(part, columns));
            let start = all.len();
            all.resize(start + k + 1, 0.0);
            let sums = &mut all[start..];
            weighted(part, column, weights, |i, x| {
                for &(other, y) in rows.row(i) {
                    let Some(sum) = sums.get_mut(other as usize) else { break };
                    *sum += x * y;
                }
            });
        }
    }
    all
}

fn weighted(part: &Part, column: usize, weights: Option<&[f64]>, mut each: impl FnMut(usize, f64)) {
    let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
    match part.column(column) {
        Column::Dense(values) => values.iter().enumerate().for_each(|(i, x)| each(i, x * weight(i))),
        Column::Sparse(rows, values) => {
            rows.iter().zip(values).for_each(|(&i, x)| each(i as usize, x * weight(i as usize)));
        }
    }
}

/// Some columns by row.
struct Rows {
    ends: Vec<usize>,
    /// The place of a column in the list, ascending in each row, and the value.
    values: Vec<(u32, f64)>,
}

impl Rows {
    fn of(part: &Part, columns: &[u32]) -> Rows {
        let mut ends = vec![0usize; part.height() + 1];
        for &column in columns {
            weighted(part, column as usize, None, |i, _| ends[i + 1] += 1);
        }
        for i in 1..ends.len() {
            ends[i] += ends[i - 1];
        }
        let mut next = ends.clone();
        let mut values = vec![(0, 0.0); ends[part.height()]];
        for (k, &column) in columns.iter().enumerate() {
            weighted(part, column as usize, None, |i, x| {
                values[next[i]] = (k as u32, x);
                next[i] += 1;
            });
        }
        Rows { ends, values }
    }

    fn row(&self, i: usize) -> &[(u32, f64)] {
        &self.values[self.ends[i]..self.ends[i + 1]]
    }
}
