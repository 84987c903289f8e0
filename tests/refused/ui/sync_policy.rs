//! Policies that are missing, in another place, or none.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]))?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), label = "epoch")?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), policy = SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, SyncPolicy::Hybrid)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), Bps)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SSP)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), Ssp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Ssp(2))?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), ModelAverage { every: 0 })?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), Ssp { bound: 2 })?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bps)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), "bsp")?;
    Ok(())
}
