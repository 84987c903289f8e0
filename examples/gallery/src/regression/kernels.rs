//! Sums over columns. Their order is fixed, so that every program that uses them has the same bits; several sums run side by
//! side, so that one addition needn't wait for the last.

const LANES: usize = 8;

/// The inner product of two slices of one length.
#[inline]
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    let mut sums = [[0.0; LANES]; 2];
    let (mut left, mut right) = (a.chunks_exact(2 * LANES), b.chunks_exact(2 * LANES));
    for (x, y) in left.by_ref().zip(right.by_ref()) {
        for (half, sums) in sums.iter_mut().enumerate() {
            for (lane, sum) in sums.iter_mut().enumerate() {
                *sum += x[half * LANES + lane] * y[half * LANES + lane];
            }
        }
    }
    let [mut sums, others] = sums;
    sums.iter_mut().zip(others).for_each(|(sum, other)| *sum += other);
    let rest: f64 = left.remainder().iter().zip(right.remainder()).fold(0.0, |sum, (x, y)| sum + x * y);
    total(sums) + rest
}

/// The sum of a slice.
#[inline]
pub fn sum(a: &[f64]) -> f64 {
    let mut sums = [0.0; LANES];
    let mut chunks = a.chunks_exact(LANES);
    for x in chunks.by_ref() {
        for (sum, x) in sums.iter_mut().zip(x) {
            *sum += x;
        }
    }
    total(sums) + chunks.remainder().iter().fold(0.0, |sum, x| sum + x)
}

/// `y += a x`.
#[inline]
pub fn axpy(a: f64, x: &[f64], y: &mut [f64]) {
    for (y, x) in y.iter_mut().zip(x) {
        *y += a * x;
    }
}

/// The inner product of a sparse column with a dense one.
#[inline]
pub fn sparse_dot(rows: &[u32], values: &[f64], dense: &[f64]) -> f64 {
    let mut sums = [0.0; 4];
    let (mut at, mut x) = (rows.chunks_exact(4), values.chunks_exact(4));
    for (at, x) in at.by_ref().zip(x.by_ref()) {
        for lane in 0..4 {
            sums[lane] += x[lane] * dense[at[lane] as usize];
        }
    }
    let rest = at.remainder().iter().zip(x.remainder());
    let rest = rest.fold(0.0, |sum, (&row, x)| sum + x * dense[row as usize]);
    (sums[0] + sums[2]) + (sums[1] + sums[3]) + rest
}

/// `y += a x` of a sparse column x.
#[inline]
pub fn sparse_axpy(a: f64, rows: &[u32], values: &[f64], y: &mut [f64]) {
    for (&row, x) in rows.iter().zip(values) {
        y[row as usize] += a * x;
    }
}

fn total(s: [f64; LANES]) -> f64 {
    ((s[0] + s[4]) + (s[2] + s[6])) + ((s[1] + s[5]) + (s[3] + s[7]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_plain_loops() {
        for n in 0..70u32 {
            // Small whole numbers: every order of the additions is exact.
            let a: Vec<f64> = (0..n).map(|i| f64::from(i * 7 % 13) - 6.0).collect();
            let b: Vec<f64> = (0..n).map(|i| f64::from(i * 5 % 11) - 5.0).collect();
            let plain: f64 = a.iter().zip(&b).map(|(x, y)| x * y).sum();
            assert_eq!(dot(&a, &b), plain);
            assert_eq!(sum(&a), a.iter().sum::<f64>());
            let rows: Vec<u32> = (0..n).filter(|i| i % 3 != 1).collect();
            let values: Vec<f64> = rows.iter().map(|&i| b[i as usize]).collect();
            let plain: f64 = rows.iter().map(|&i| a[i as usize] * b[i as usize]).sum();
            assert_eq!(sparse_dot(&rows, &values, &a), plain);
            let (mut y, mut z) = (a.clone(), a.clone());
            sparse_axpy(2.0, &rows, &values, &mut y);
            let masked: Vec<f64> = (0..n).map(|i| if i % 3 != 1 { b[i as usize] } else { 0.0 }).collect();
            axpy(2.0, &masked, &mut z);
            assert_eq!(y, z);
        }
    }
}
