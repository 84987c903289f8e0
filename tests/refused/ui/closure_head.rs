//! Heads of the closure that are not `|i|`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [&mut x], || x[0usize] = 1.0)?;
    async_parallel_for!(0..x.len(), [&mut x], |i, k| x[i] = k)?;
    async_parallel_for!(0..x.len(), [&mut x], |(i, k)| x[i] = k)?;
    async_parallel_for!(0..x.len(), [&mut x], |i: u32| x[i] = 1.0)?;
    Ok(())
}
