//! What a plain loop begins with.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    async_parallel_for!(i in 0..x.len(), [&mut x], { x[i] += 1.0; })?;
    async_parallel_for!(for i in 0..x.len() { x[i] += 1.0; })?;
    async_parallel_for!((i, j) in (0..10, 0..10), [&mut x], |i| x[i] += 1.0)?;
    sync_parallel_for!(batch in x, 5, [], |batch| (), SyncPolicy::Bsp)?;
    Ok(())
}
