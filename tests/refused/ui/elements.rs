//! Loops over pairs and over elements that can't be understood.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut order = DVector::from_vec(session, vec![1u32; 10])?;
    async_parallel_for!(&mut order, [&mut x], |i| x[i] = 1.0)?;
    async_parallel_for!(&order.clone_of(3), [&mut x], |i| x[i] = 1.0)?;
    async_parallel_for!(&order, [&mut x], |x| x[0] = 1.0)?;
    async_parallel_for!((0..3, 0..4), [&mut x], |(i, x)| x[i] = 1.0)?;
    async_parallel_for!((0..3, 0..4), [&mut x], |(i, j, k)| x[i] = 1.0)?;
    Ok(())
}
