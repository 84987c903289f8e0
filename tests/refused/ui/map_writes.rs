//! A loop's body writes a map that it captured to be read, or that it did not capture.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut m = DMap::from_entries(session, [(1u32, 2u64)])?;
    let mut lists = DMultiMap::from_pairs(session, [(1u32, 2u64)])?;
    let mut x = DVector::from_vec(session, vec![1u32; 10])?;
    async_parallel_for!(0..10, [&m, &mut x], |i| {
        m.insert(i as u32, 1);
        *m.entry(i as u32).or_insert(3) += 1;
        x[i] += 1;
    })?;
    async_parallel_for!(0..10, [&lists, &mut x], |i| {
        lists.insert(i as u32, 1);
        lists.remove(&3);
        x[i] += 1;
    })?;
    async_parallel_for!(0..10, [&mut x], |i| {
        lists.insert(i as u32, 1);
        x[i] += 1;
    })?;
    println!("{:?} {:?}", m.to_vec()?, lists.insert(1, 1));
    Ok(())
}
