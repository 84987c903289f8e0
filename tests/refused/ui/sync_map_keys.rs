//! A synchronous loop changes values of a map and adds keys, and does nothing else to it.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let words = DVector::from_vec(session, vec!["a".to_string(); 10])?;
    let mut counts = DMap::from_entries(session, [("a".to_string(), 0u64)])?;
    let mut names = DMap::from_entries(session, [(1u32, "a".to_string())])?;
    let mut links = DMultiMap::from_pairs(session, [(1u32, 2u32)])?;
    let old = DMultiMap::from_pairs(session, [(1u32, 2u32)])?;
    sync_parallel_for!(
        words,
        4,
        [&mut counts],
        |batch| {
            for word in batch {
                *counts.entry(word.clone()).or_insert(0) += 1;
                *counts.entry(word.clone()).or_default() = 1;
                counts.remove(word);
                if let Some(count) = counts.get_mut(word) {
                    *count += 1;
                }
                counts[word] += 1;
                let count = &mut counts[word];
            }
        },
        SyncPolicy::Bsp
    )?;
    sync_parallel_for!(words, 4, [&mut names], |batch| println!("{}", names.len() + batch.len()), SyncPolicy::Bsp)?;
    sync_parallel_for!(words, 4, [&mut links], |batch| drop((links.remove(&1), batch.len())), SyncPolicy::Bsp)?;
    sync_parallel_for!(words, 4, [&old], |batch| old.insert(1, batch.len() as u32), SyncPolicy::Bsp)?;
    Ok(())
}
