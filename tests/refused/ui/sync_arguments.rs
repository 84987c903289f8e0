//! Loops over minibatches that lack an argument, or have them in another order.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    sync_parallel_for!()?;
    sync_parallel_for!(data)?;
    sync_parallel_for!(data, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4)?;
    sync_parallel_for!(data, 4, |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x])?;
    sync_parallel_for!(data, 4, [&mut x], SyncPolicy::Bsp, |batch| x[0].add(batch[0]))?;
    sync_parallel_for!(data, 4, [&mut x], { x[0].add(1.0) }, SyncPolicy::Bsp)?;
    sync_parallel_for!(4, data, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!([&mut x], data, 4, |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 0, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4.5, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    Ok(())
}
