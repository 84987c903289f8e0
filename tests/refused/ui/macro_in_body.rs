//! A macro from outside the body that uses a variable.
#![deny(deprecated)]
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    let rate = 2.0;
    macro_rules! bump {
        ($e:expr) => {
            $e += rate
        };
    }
    async_parallel_for!(0..x.len(), [rate, &mut x], |i| bump!(x[i]))?;
    Ok(())
}
