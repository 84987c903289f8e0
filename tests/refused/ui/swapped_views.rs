//! Two DDSs of one type can't change places inside a body.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_fn(session, 10, |_| 0.0f32)?;
    let mut y = DVector::from_fn(session, 10, |_| 1.0f32)?;
    async_parallel_for!(0..10, [&mut x, &mut y], |i| {
        std::mem::swap(x, y);
        x[i] += y[i];
    })?;
    Ok(())
}
