//! Captures by reference of what is neither a DDS nor a reduction.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let weights = vec![1.0f32; 10];
    let mut sums = vec![0.0f32; 10];
    let mut total = session.sum(0.0f64);
    async_parallel_for!(0..x.len(), [&x, &weights, &mut sums, &mut total], |i| {
        sums[i] = x[i] * weights[i];
        total.add(1.0);
    })?;
    Ok(())
}
