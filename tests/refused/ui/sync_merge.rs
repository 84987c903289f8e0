//! Rules for merging where they can't hold, and words that are none.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), Ssp { staleness: 2 }, merge = Combine)?;
    sync_parallel_for!(
        data,
        4,
        [&mut x],
        |batch| x[0].add(batch[0]),
        SyncPolicy::ModelAverage { every: 2 },
        merge = MergeRule::Combine,
        interval = 4
    )?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, merge = Combined, interval = 0)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, merge = "sum", interval = 0.5)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp, merging = Combine)?;
    async_parallel_for!(0..10, [&mut x], |i| x[i] += 1.0, merge = Combine)?;
    Ok(())
}
