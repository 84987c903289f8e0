//! A parallel loop in the body of another.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [&mut x, &mut y], |i| {
        x[i] = 1.0;
        async_parallel_for!(0..y.len(), [&mut y], |k| y[k] += 1.0).ok();
        stradsap::async_parallel_for!(0..y.len(), [&mut y], |k| y[k] += 1.0).ok();
    })?;
    Ok(())
}
