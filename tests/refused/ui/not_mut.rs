//! A DVector that is to be written must be declared `mut`, as anywhere in Rust.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0)?;
    Ok(())
}
