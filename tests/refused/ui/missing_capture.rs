//! The body uses variables that nobody captured.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut z = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (alpha, beta, gamma) = (0.5f32, 0.1f32, 1.5f32);
    let mut total = 0.0;
    async_parallel_for!(0..x.len(), [alpha, &mut y], |i| {
        y[i] = alpha * x[i] + beta;
        if y[i] > beta && y[i].max(0.0) > gamma {
            z[i] = 0.0;
        }
        total += y[i];
        y[i] *= alhpa;
    })?;
    println!("{total} {}", z.len());
    Ok(())
}
