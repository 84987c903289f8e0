//! Reductions are read after the loop.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    let (total, largest, found, count) = (session.sum(0.0), session.max(0.0), session.any(), session.count());
    async_parallel_for!(0..x.len(), [&total, &mut x], |i| {
        total.add(x[i]);
        x[i] = total.get();
    })?;
    async_parallel_for!(0..x.len(), [&largest, &mut x], |i| x[i] = largest.get())?;
    async_parallel_for!(0..x.len(), [&found, &count, &mut x], |i| {
        if found.get() {
            x[i] = count.get() as f64;
        }
    })?;
    Ok(())
}
