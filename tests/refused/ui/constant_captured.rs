//! A constant in the capture list.
use stradsap::prelude::*;

const RATE: f32 = 0.5;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [RATE, &mut x], |i| x[i] *= RATE)?;
    Ok(())
}
