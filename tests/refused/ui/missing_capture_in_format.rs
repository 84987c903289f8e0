//! Variables that only a format string or a macro's arguments name.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (beta, gamma, limit, width) = (0.1f32, 1.5f32, 9.0f32, 8);
    async_parallel_for!(0..x.len(), [&x], |i| {
        println!("{beta} {:>width$}", x[i]);
        println!("{}", gamma);
        assert!(x[i] < limit, "{}", x[i]);
    })?;
    Ok(())
}
