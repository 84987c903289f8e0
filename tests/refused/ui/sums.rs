//! What `sum x` may name, and what a body may do with it.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let n = 10usize;
    let mut counts = DVector::from_vec(session, vec![0u32; 10])?;
    let mut names: DMap<String, u32> = DMap::new(session)?;
    async_parallel_for!(0..n, [sum counts], |i| {
        counts[i] += 1;
        println!("{}", counts[i]);
    })?;
    async_parallel_for!(0..n, [sum counts], |i| counts[i] = 1)?;
    async_parallel_for!(0..n, [sum counts], |i| counts += 1)?;
    async_parallel_for!(0..n, [sum names], |i| names.insert(i.to_string(), 1))?;
    async_parallel_for!(0..n, [sum names], |i| *names.entry(i.to_string()).or_insert(1) += 1)?;
    async_parallel_for!(0..n, [sum counts, all = &counts], |i| counts[i] += all[i])?;
    sync_parallel_for!(counts, 5, [sum counts], |batch| counts[0] += 1, SyncPolicy::Bsp)?;
    Ok(())
}
