//! Options that a loop over minibatches doesn't have.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    sync_parallel_for!(
        data,
        4,
        [&mut x],
        |batch| x[0].add(batch[0]),
        SyncPolicy::Bsp,
        order = Preserve,
        parts = 8,
        strategy = Grid
    )?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, prefetching = true, sync = 3)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, label = "a", label = "b")?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, "epoch")?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, prefetch = 1, caches = "no")?;
    Ok(())
}
