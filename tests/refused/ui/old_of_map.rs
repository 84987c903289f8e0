//! Only DVectors can be read as they were before the loop.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut counts = DMap::from_entries(session, [(1usize, 2usize)])?;
    async_parallel_for!(0..10usize, [&mut counts], |i| {
        let before = counts.old.len();
        counts.insert(i, before);
    })?;
    Ok(())
}
