//! What can't stand in the body of a loop over minibatches.
use stradsap::prelude::*;

async fn fetch(i: usize) -> f32 {
    i as f32
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let rate = 0.5;
    'epochs: for _epoch in 0..3 {
        sync_parallel_for!(
            data,
            4,
            [rate, &mut x],
            |batch| {
                if batch[0] > 3.0 {
                    break;
                }
                for &value in batch {
                    if value > 2.0 {
                        continue 'epochs;
                    }
                    if value > 1.0 {
                        return value > rate;
                    }
                    if value > 0.0 {
                        break;
                    }
                }
                x[0].set(fetch(batch.number()).await);
                sync_parallel_for!(data, 4, [&mut x], |batch| x[1].add(batch[0]), SyncPolicy::Bsp).ok();
                async_parallel_for!(0..4, [&mut x], |i| x[i] += 1.0).ok();
                rate *= 0.5;
                return 1.0;
            },
            SyncPolicy::Bsp
        )?;
    }
    Ok(())
}
