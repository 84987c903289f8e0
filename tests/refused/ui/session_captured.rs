//! A session in capture lists.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    async_parallel_for!(0..x.len(), [&session, &mut x], |i| x[i] = session.threads() as f64)?;
    async_parallel_for!(0..x.len(), [session, &mut x], |i| x[i] = session.threads() as f64)?;
    Ok(())
}
