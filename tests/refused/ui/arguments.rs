//! Calls that lack an argument, or have another one in its place.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!()?;
    async_parallel_for!(0..x.len())?;
    async_parallel_for!(0..x.len(), |i| x[i] = 1.0)?;
    async_parallel_for!(0..x.len(), [&mut x])?;
    async_parallel_for!(0..x.len(), [&mut x], { x[i] = 1.0 })?;
    async_parallel_for!(0..x.len(), [&mut x], order = Preserve, |i| x[i] = 1.0)?;
    async_parallel_for!(0..x.len(), [mut x], |i| x[i] = 1.0)?;
    async_parallel_for!(0..x.len(), [&x.clone(), f(3)], |i| println!("{}", x[i]))?;
    Ok(())
}
