//! What `sum x` can't add up.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut texts = DVector::from_vec(session, vec![String::new(); 10])?;
    let total = session.sum(0.0);
    async_parallel_for!(0..texts.len(), [sum texts], |i| texts[i] += "a")?;
    async_parallel_for!(0..10, [sum total], |i| total[i] += 1.0)?;
    Ok(())
}
