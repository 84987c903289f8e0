//! Inputs that are no DVector, or that the loop would write.
use stradsap::prelude::*;

struct Model {
    data: DVector<f32>,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut model = Model { data: DVector::from_vec(session, vec![1.0f32; 10])? };
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (list, total) = (vec![1.0f32; 10], session.sum(0.0f32));
    sync_parallel_for!(data, 4, [&mut data], |batch| data[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(&model.data, 4, [d = &mut model.data], |batch| d[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(&mut data, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(0..data.len(), 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut x], |batch| x[0].add(data[batch.start()]), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [data, &mut x], |batch| x[0].add(batch[0] + data[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(list, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    sync_parallel_for!(&total, 4, [&mut x], |batch| x[0].add(batch[0]), SyncPolicy::Bsp)?;
    Ok(())
}
