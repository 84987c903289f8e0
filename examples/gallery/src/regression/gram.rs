//! Inner products of columns with each other.

use crate::regression::columns::{Column, Part};

/// Rows are sums over dense vectors where at least one value in this many is stored.
const DENSE: usize = 4;

/// For each of the columns from `known` on its inner products with those before it and with itself, one after the other; where
/// rows have weights, weighted. Each is the same whatever is known.
pub fn products(part: &Part, columns: &[u32], known: usize, weights: Option<&[f64]>) -> Vec<f64> {
    let height = part.height();
    let count = columns.len();
    if known == count {
        return Vec::new();
    }
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

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::regression::scaling::{Columns, Constant, Scaling};
    use crate::regression::table::{Labels, Table};

    /// Columns that have fewer and fewer values: the first is in all rows, the last in hardly any.
    fn part(rows: usize, columns: usize) -> Part {
        let value = |i: usize, j: usize| ((i * 13 + j * 7) % 11) as f64 - 4.5;
        let line = |i: usize| -> String {
            let there = (0..columns).filter(|j| (i * 7 + j).is_multiple_of(j + 1));
            format!("{i}{}\n", there.map(|j| format!(" {}:{}", j + 1, value(i, j))).collect::<String>())
        };
        let text: String = (0..rows).map(line).collect();
        let table = Table::parse(Path::new("t"), text.as_bytes(), Labels::Numbers).unwrap();
        let scaling = Scaling::of(&table, Columns::Given, true, Constant::Refuse).unwrap();
        Part::of(&table, table.labels(), &scaling, 0..rows)
    }

    #[test]
    fn products_are_those_of_plain_loops_whatever_is_known() {
        let part = part(120, 30);
        let weights: Vec<f64> = (0..120).map(|i| 0.1 + f64::from(i % 7)).collect();
        let wide = |column: usize| {
            let mut values = vec![0.0; 120];
            part.add(column, 1.0, &mut values);
            values
        };
        // From the emptiest to the fullest, and back: both ways of summing up are used.
        let upwards: Vec<u32> = (0..30).rev().collect();
        let downwards: Vec<u32> = (0..30).collect();
        for columns in [upwards, downwards] {
            for weights in [None, Some(&weights[..])] {
                let all = products(&part, &columns, 0, weights);
                let mut next = all.iter();
                for (k, &a) in columns.iter().enumerate() {
                    for &b in &columns[..=k] {
                        let (x, y) = (wide(a as usize), wide(b as usize));
                        let weight = |i: usize| weights.map_or(1.0, |weights| weights[i]);
                        let plain: f64 = (0..120).map(|i| x[i] * y[i] * weight(i)).sum();
                        let found = *next.next().unwrap();
                        assert!((found - plain).abs() < 1e-9 * (1.0 + plain.abs()), "{a} {b}: {found} and {plain}");
                    }
                }
                for known in [1, 7, 29, 30] {
                    let rest = products(&part, &columns, known, weights);
                    assert_eq!(rest, all[known * (known + 1) / 2..], "{known}");
                }
            }
        }
    }
}
