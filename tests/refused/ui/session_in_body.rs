//! A session in a body.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        let total = session.sum(0.0);
        total.add(x[i]);
    })?;
    Ok(())
}
