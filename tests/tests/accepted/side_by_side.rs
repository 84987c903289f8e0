//! Elements that a body has borrowed side by side: what follows may do all that a body may.

#![allow(clippy::needless_late_init, reason = "it may be written so")]
use stradsap::prelude::*;

fn step(x: &mut [f32; 4], y: &mut [f32; 4], z: &[f32; 4]) -> f32 {
    for k in 0..4 {
        (x[k], y[k]) = (x[k] + y[k] * z[k], y[k] - 1.0);
    }
    x[0]
}

fn main() -> stradsap::Result<()> {
    let session = Session::builder().threads(2).build()?;
    let n = 40usize;
    let mut a = DVector::from_fn(&session, n, |i| [i as f32; 4])?;
    let mut b = DVector::from_fn(&session, n, |i| [i as f32 / 2.0; 4])?;
    let c = DVector::from_fn(&session, n, |i| [(i % 3) as f32; 4])?;
    let mut rows: DMatrix<f32> = DMatrix::from_fn(&session, n, 6, |i, k| (i + k) as f32)?;
    let names = DVector::from_fn(&session, n, |i| format!("name {i}"))?;
    let total = session.sum(0.0f64);

    // An early end, a value that is kept, an addition; rows that are called as their vectors.
    async_parallel_for!(0..n, [n, &mut a, &mut b, &c, &total], |i| {
        let j = (i * 7) % n;
        let mut last = 0.0;
        let (a, b, c) = (&mut a[i], &mut b[j], &c[j]);
        if c[0] > 1.5 {
            return;
        }
        for k in 0..4 {
            last = a[k];
            a[k] += b[k] * c[k];
            b[k] -= 1.0;
        }
        total.add(f64::from(last));
    })?;

    // An error, with and without a declared type; one after the other, with something between.
    let declared = async_parallel_for!(0..n, [&mut a, &mut b, &names], |i| -> Result<(), std::num::ParseIntError> {
        let x = &mut a[i];
        let name = names[i].clone();
        let y = &mut b[i];
        let number: usize = name.trim_start_matches("name ").parse()?;
        x[0] = number as f32;
        y[0] = x[0];
        Ok(())
    });
    declared?;
    async_parallel_for!(0..n, [&mut a, &mut b, &names], |i| {
        let x = &mut a[i];
        let y = &mut b[i];
        let text = names[i].strip_prefix("name ").ok_or("no name")?;
        x[1] = text.len() as f32;
        y[1] = x[1];
        drop(names[i].clone());
        Ok::<(), &str>(())
    })?;

    // Rows whose width is known at run time, slices, blocks within a body that jump or don't, a value of a block, scratch.
    async_parallel_for!(
        0..n,
        [n, &mut rows, &mut a, &mut b, &c],
        |i, sums| {
            let (row, x) = (&mut rows[i], &mut a[i]);
            for (k, number) in row.iter_mut().enumerate() {
                *number += x[k % 4];
                if k == 4 {
                    break;
                }
            }
            sums.push(x[0]);
            for k in 0..3 {
                let j = (i + k) % n;
                let (y, z) = (&mut b[j], &c[j]);
                if z[0] > 1.0 {
                    continue;
                }
                y[k] += z[k];
            }
            for k in 0..3 {
                let j = (i + k) % n;
                let (y, z) = (&mut b[j], &c[j]);
                y[k] += z[k];
            }
            let most = {
                let y = &mut b[i];
                let z = &c[i..];
                y[0] = z[0][0];
                if y[0] > z[0][1] { y[0] } else { z[0][1] }
            };
            sums.push(most);
        },
        scratch = Vec::new()
    )?;

    // What a closure couldn't do: a variable's first value behind the borrows; and the vector again, once its element isn't needed.
    async_parallel_for!(0..n, [&mut a, &mut b, &c], |i| {
        let first;
        let (x, y) = (&mut a[i], &mut b[i]);
        first = step(x, y, &c[i]);
        x[2] = first;
    })?;
    async_parallel_for!(0..n, [n, &mut a, &mut b], |i| {
        let (x, y) = (&mut a[i], &mut b[i]);
        std::mem::swap(x, y);
        a[(i + 1) % n][0] += 1.0;
    })?;
    assert!(total.get() > 0.0 && a.len() == b.len());
    Ok(())
}

#[test]
fn runs() -> stradsap::Result<()> {
    main()
}
