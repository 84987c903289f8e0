//! A name that stands where a function could stand: only rustc can tell that it is a variable.
use stradsap::prelude::*;

fn update(x: &mut f32, rate: f32) {
    *x *= rate;
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let rate = 0.5;
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        update(&mut x[i], rate);
    })?;
    Ok(())
}
