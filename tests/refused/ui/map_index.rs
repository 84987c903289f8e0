//! A map's entry is changed by `get_mut`, `entry` or `insert`, not by assignment.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut m = DMap::from_entries(session, [(1u32, 2u64)])?;
    let mut x = DVector::from_vec(session, vec![1u32; 10])?;
    async_parallel_for!(0..10, [&mut m, &mut x], |i| {
        m[&x[i]] += 1;
        m[&3] = 5;
    })?;
    println!("{:?}", m.to_vec()?);
    Ok(())
}
