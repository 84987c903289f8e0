//! The body of a loop over minibatches uses variables that nobody captured.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let data = DVector::from_vec(session, vec![1.0f32; 10])?;
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut z = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (alpha, beta) = (0.5f32, 0.1f32);
    let (offset, mut total) = (3, 0.0);
    sync_parallel_for!(
        data,
        4,
        [alpha, &mut y],
        |batch| {
            y[0].add(alpha * x[0] + beta);
            z[0] += alhpa;
            for value in data {
                total += value;
            }
        },
        SyncPolicy::Bsp
    )?;
    sync_parallel_for!(data, 4, [&mut y], |batch| y[batch.start()].set(f32::from(offset)), SyncPolicy::Bsp)?;
    sync_parallel_for!(data, 4, [&mut y], |batch| y[batch.start()].set(shift(offset)), SyncPolicy::Bsp)?;
    println!("{total} {}", z.len());
    Ok(())
}

fn shift(by: i32) -> f32 {
    by as f32
}
