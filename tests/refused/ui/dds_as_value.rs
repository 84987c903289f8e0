//! A DDS and a reduction captured as if they were values.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f32; 10])?;
    let loss = session.sum(0.0f64);
    async_parallel_for!(0..x.len(), [x, loss, &mut y], |i| {
        y[i] = x[i];
        loss.add(1.0);
    })?;
    Ok(())
}
