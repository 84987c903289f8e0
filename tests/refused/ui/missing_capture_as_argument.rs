//! Names that stand where a function could stand: only rustc can tell that they are variables.
use stradsap::prelude::*;

fn update(x: &mut f32, rate: f32) {
    *x *= rate;
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let rate = 0.5;
    let names = vec![String::new()];
    async_parallel_for!(0..x.len(), [&mut x], |i| {
        update(&mut x[i], rate);
    })?;
    async_parallel_for!(0..x.len(), [&mut x], move |i| {
        x[i] = rate;
        drop(names);
    })?;
    Ok(())
}
