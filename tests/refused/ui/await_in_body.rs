//! `.await` in a body, and an async body.
use stradsap::prelude::*;

async fn fetch(i: usize) -> f32 {
    i as f32
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        x[i] = fetch(i).await;
    })?;
    async_parallel_for!(0..x.len(), [&mut x], async |i| {
        x[i] = 1.0;
    })?;
    Ok(())
}
