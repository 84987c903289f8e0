//! Mistakes around `scratch` and relaxed state.

use stradsap::prelude::*;

fn main() {
    let session = Session::builder().threads(1).build().unwrap();
    let x = DVector::from_fn(&session, 10, |i| i).unwrap();
    let totals = session.relaxed_vector(vec![0i64; 3]);
    let (topics, n) = (3usize, x.len());

    // The body doesn't take it.
    let _ = async_parallel_for!(0..n, [&x, &totals], |i| totals.add(x[i] % 3, 1), scratch = Vec::<u32>::new());
    // Nothing says what it is.
    let _ = async_parallel_for!(0..n, [&x, &totals], |i, seen| totals.add(x[i] % 3, 1));
    // It uses what isn't captured.
    let _ = async_parallel_for!(0..n, [&x, &totals], |i, seen| seen[x[i] % 3] += totals[0], scratch = vec![0; topics]);
    let _ = async_parallel_for!(0..n, [&x, &totals], |i, _| totals.add(x[i] % 3, 1), staleness = 0);
    // It would be written without `add`.
    let _ = async_parallel_for!(0..n, [&x, &totals], |i| totals[x[i] % 3] += 1);
    let _ = async_parallel_for!(0..n, [&x, &mut totals], |i| totals.add(x[i] % 3, 1));
}
