//! Ranges, bodies and programs of types that are not offered.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> f32 {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10]).unwrap();
    let n = x.len();
    async_parallel_for!(n, [&mut x], |i| x[i] = 1.0).unwrap();
    async_parallel_for!(0.0..1.0, [&mut x], |i| x[i] = 1.0).unwrap();
    async_parallel_for!(0..n, [&mut x], |i| x[i]).unwrap();
    async_parallel_for!(0..n, [&mut x], |i| {
        x[i] = 1.0;
        Some(x[i])
    })
    .unwrap();
    async_parallel_for!(0..n, [&mut x], |i| -> Result<(), f32> {
        x[i] = 1.0;
        Ok(())
    })
    .unwrap();
    0.0
}
