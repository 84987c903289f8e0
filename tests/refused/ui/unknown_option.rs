//! Options that are not offered.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, ordered = Preserve, lable = "x")?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, order = preserve, strategy = Colored)?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, parts = 4, parts = 8)?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, parts = 0)?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, Preserve)?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, parts: 8)?;
    async_parallel_for!(0..x.len(), [&mut x], |i| x[i] = 1.0, parts = "many")?;
    Ok(())
}
