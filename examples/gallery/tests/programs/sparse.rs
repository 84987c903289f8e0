//! Small regressions.

#![allow(dead_code, reason = "each test program uses its part")]

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Numbers that look random, between -1 and 1.
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    }
}

/// Rows with their labels.
pub(crate) struct Data {
    pub(crate) rows: Vec<Vec<f64>>,
    pub(crate) labels: Vec<f64>,
}

impl Data {
    /// Of this many rows and columns, the values of every `every`th not 0; columns share a part of what they are.
    pub(crate) fn new(rows: usize, columns: usize, every: usize, shared: f64) -> Data {
        let mut numbers = Numbers(7 + rows as u64);
        let mut data = Data { rows: Vec::new(), labels: Vec::new() };
        for i in 0..rows {
            let common = numbers.next();
            let row: Vec<f64> = (0..columns)
                .map(|j| {
                    let x = shared * common + (1.0 - shared) * numbers.next() + 0.1 * (j % 3) as f64;
                    if (i + j * 7) % every == 0 { x * (1 + j % 4) as f64 } else { 0.0 }
                })
                .collect();
            let y = row.iter().enumerate().fold(0.3, |sum, (j, x)| sum + x * ((j % 5) as f64 - 1.5));
            data.labels.push(y + 0.2 * numbers.next());
            data.rows.push(row);
        }
        data
    }

    /// The same with labels of two classes.
    pub(crate) fn classes(mut self) -> Data {
        let mut sorted = self.labels.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted[sorted.len() / 3];
        self.labels.iter_mut().for_each(|y| *y = if *y > middle { 1.0 } else { -1.0 });
        // Some on the wrong side: a least objective exists for any lambda.
        (0..self.labels.len()).step_by(7).for_each(|i| self.labels[i] = -self.labels[i]);
        self
    }

    pub(crate) fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let line = |(row, y): (&Vec<f64>, &f64)| {
            let values = row.iter().enumerate().filter(|(_, x)| **x != 0.0);
            let values: String = values.map(|(j, x)| format!(" {}:{x}", j + 1)).collect();
            format!("{y}{values}\n")
        };
        let text: String = self.rows.iter().zip(&self.labels).map(line).collect();
        let path = folder.join(name);
        fs::write(&path, text).expect("a temporary file");
        path
    }

    /// Columns as the programs are asked to make them.
    pub(crate) fn scaled(&self, columns: &str, centred: bool) -> Vec<Vec<f64>> {
        let n = self.rows.len() as f64;
        let mut rows = self.rows.clone();
        for j in 0..rows[0].len() {
            let mean = rows.iter().map(|row| row[j]).sum::<f64>() / n;
            let about = |mean: f64| rows.iter().map(|row| (row[j] - mean).powi(2)).sum::<f64>();
            let factor = match columns {
                "standardised" => (n / about(mean)).sqrt(),
                "scaled" => (n / about(0.0)).sqrt(),
                _ => 1.0,
            };
            let taken_off = if centred { mean } else { 0.0 };
            rows.iter_mut().for_each(|row| row[j] = (row[j] - taken_off) * factor);
        }
        rows
    }
}

/// Gauss's elimination; None if there is no single solution.
pub(crate) fn solved(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Option<Vec<f64>> {
    let n = b.len();
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a[i][k].abs().total_cmp(&a[j][k].abs()))?;
        a.swap(k, pivot);
        b.swap(k, pivot);
        if a[k][k].abs() < 1e-12 {
            return None;
        }
        for i in k + 1..n {
            let f = a[i][k] / a[k][k];
            let row = a[k].clone();
            a[i].iter_mut().zip(row).for_each(|(x, y)| *x -= f * y);
            b[i] -= f * b[k];
        }
    }
    for k in (0..n).rev() {
        let known: f64 = (k + 1..n).map(|j| a[k][j] * b[j]).sum();
        b[k] = (b[k] - known) / a[k][k];
    }
    Some(b)
}

pub(crate) fn last(report: &Value) -> &Value {
    report["epochs"].as_array().and_then(|epochs| epochs.last()).expect("an epoch")
}

pub(crate) fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or(f64::NAN)
}
