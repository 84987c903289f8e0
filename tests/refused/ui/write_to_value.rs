//! Assignments to values, and to a DDS as a whole.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let rate = 0.5;
    let weights = vec![1.0; 10];
    async_parallel_for!(0..x.len(), [rate, weights, &mut x], |i| {
        rate *= 0.5;
        weights[i] = rate;
        x = weights;
        x[i] = rate;
    })?;
    Ok(())
}
