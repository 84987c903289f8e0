//! `x.old` where there is none.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_fn(session, 10, |i| i)?;
    let mut y = DVector::from_fn(session, 10, |i| i)?;
    async_parallel_for!(0..10, [&x, &mut y], |i| y[i] = x.old[i])?;
    async_parallel_for!(0..10, [&mut y], |i| y.old[i] = y[i])?;
    Ok(())
}
