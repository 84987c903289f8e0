//! Heads of the closure that are not `|batch|`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![[1.0f32; 2]; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    sync_parallel_for!(data, 4, [&mut x], || x[0].set(1.0), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch, k| x[k].set(batch[k][0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |[a, b]| x[0].set(a + b), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |i: usize| x[i].set(1.0), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [batch = 1, &mut x], |batch| x[0].set(batch[0][0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], async |batch| x[0].set(batch[0][0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch: &[[f32; 2]]| x[0].set(batch[0][0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch: Vec<[f32; 2]>| x[0].set(batch[0][0]), SyncPolicy::Bsp)?;
    Ok(())
}
