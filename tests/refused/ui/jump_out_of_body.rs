//! `break` and `continue` that would leave the body, beside those that don't.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    'epochs: for _epoch in 0..3 {
        async_parallel_for!(0..x.len(), [&x], |i| {
            if x[i] > 3.0 {
                break;
            }
            if x[i] > 2.0 {
                continue;
            }
            for k in 0..i {
                if x[k] > 1.0 {
                    break 'epochs;
                }
                if x[k] > 0.5 {
                    break;
                }
            }
            'search: {
                if x[i] < 0.0 {
                    break 'search;
                }
                continue 'epochs;
            }
        })?;
    }
    Ok(())
}
