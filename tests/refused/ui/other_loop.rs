//! Each loop given what belongs to the other.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(data, 4, [&mut x], |batch| x[0] += batch[0])?;
    async_parallel_for!(0..data.len(), [&data, &mut x], |i| x[i] += data[i], SyncPolicy::Bsp)?;
    async_parallel_for!(0..data.len(), [&data, &mut x], |i| x[i] += data[i], Ssp { staleness: 2 })?;
    async_parallel_for!(0..data.len(), [&data, &mut x], |i| x[i] += data[i], prefetch = true)?;
    sync_parallel_for!(0..data.len(), [&data, &mut x], |i| x[i].add(data[i]))?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, order = Preserve)?;
    Ok(())
}
