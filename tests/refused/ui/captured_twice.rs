//! The same thing captured twice.
use stradsap::prelude::*;

struct Model {
    p: DVector<f32>,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut p = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut model = Model { p: DVector::from_vec(session, vec![1.0f32; 10])? };
    let alpha = 0.5;
    async_parallel_for!(0..p.len(), [&p, &mut p], |i| p[i] = 1.0)?;
    async_parallel_for!(0..p.len(), [alpha, &mut p, alpha], |i| p[i] = alpha)?;
    async_parallel_for!(0..p.len(), [p, &mut p], |i| p[i] = 1.0)?;
    async_parallel_for!(0..p.len(), [&p, p = &mut model.p], |i| p[i] = 1.0)?;
    async_parallel_for!(0..p.len(), [a = &model.p, b = &mut model.p], |i| b[i] = a[i])?;
    async_parallel_for!(0..p.len(), [i = 1, &mut p], |i| p[i] = 1.0)?;
    Ok(())
}
