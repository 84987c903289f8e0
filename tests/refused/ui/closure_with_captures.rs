//! A closure that captures variables, which only a build finds out.
use stradsap::prelude::*;

fn apply<F: Fn(f32) -> f32 + Copy + Send + Sync + 'static>(x: &mut DVector<f32>, f: F) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..x.len(), [f, &mut *x], |i| x[i] = f(x[i]))
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    apply(&mut x, |x| 2.0 * x)?;
    let by = 3.0;
    apply(&mut x, move |x| by * x)?;
    let scaled = move |x: f32| by * x;
    async_parallel_for!(0..x.len(), [scaled, &mut x], |i| x[i] = scaled(x[i]))?;
    Ok(())
}
