//! Loops over minibatches whose arguments have other types.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let size = 4.0;
    sync_parallel_for!(data, size, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].get() + batch[0], SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(1u32), SyncPolicy::Bsp)?;
    let mut seen: DMap<usize, u32> = DMap::new(session)?;
    sync_parallel_for!(data, 4, [&mut seen], |batch| seen.insert(batch.len(), 1), SyncPolicy::Bsp)?;
    Ok(())
}
