//! Captures that the body doesn't use: a warning, here denied.
#![deny(deprecated)]
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (alpha, beta, gamma) = (0.5f32, 0.1f32, 1.5f32);
    async_parallel_for!(0..x.len(), [alpha, beta, gamma, &x, &mut y], |i| {
        y[i] = beta;
        println!("{gamma}");
    })?;
    Ok(())
}
