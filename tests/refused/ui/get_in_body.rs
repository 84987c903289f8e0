//! `get` of a view is an `Option`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f64; 10])?;
    let mut y = DVector::from_vec(session, vec![1.0f64; 10])?;
    let names: DMap<String, f64> = DMap::new(session)?;
    async_parallel_for!(0..x.len(), [&x, &mut y], |i| {
        y[i] += x.get(i + 1)?;
        Ok(())
    })?;
    async_parallel_for!(0..x.len(), [&names, &mut y], |i| {
        y[i] += *names.get("a")?;
        Ok(())
    })?;
    Ok(())
}
