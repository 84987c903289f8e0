//! Captures that a loop over minibatches can't share.
use stradsap::prelude::*;

#[derive(Clone, Copy, Element)]
struct Point {
    at: [f32; 2],
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![0u32; 10])?;
    let mut points = DVector::from_vec(session, vec![Point { at: [0.0; 2] }; 10])?;
    let mut names = DVector::from_vec(session, vec![String::new(); 10])?;
    let mut list = vec![1.0f32; 10];
    let mut total = session.sum(0.0f32);
    let fixed = DVector::from_vec(session, vec![0.0f32; 10])?;
    sync_parallel_for!(data, 4, [&mut points], |batch| points[batch[0]].set(points[0].get()), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut names], |batch| println!("{} {}", batch.len(), names.len()), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut list], |batch| list[0].set(batch[0] as f32), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut total], |batch| total.add(batch[0] as f32), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut fixed], |batch| fixed[batch[0]].set(1.0), SyncPolicy::Bsp)?;
    println!("{}", points.get(0)?.at[0]);
    Ok(())
}
