//! A key that a map doesn't have: the message names the map as the body does.
use stradsap::prelude::*;

fn main() -> stradsap::Result<()> {
    let session = Session::builder().threads(2).build()?;
    let mut ages: DMap<String, u32> = DMap::from_entries(&session, [("a".to_string(), 1)])?;
    let mut numbers = DMap::from_entries(&session, [(1u32, 2.0f64)])?;
    let mut x = DVector::from_fn(&session, 5, |i| i as u32)?;
    let missing = |ended: stradsap::Result<()>, text: &str| {
        let error = ended.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
    };

    let ended = async_parallel_for!(0..x.len(), [&ages, &mut x], |i| x[i] = ages["b"]);
    missing(ended.map(drop), "`ages` has no such key: use `get` where that may be");
    let ended = async_parallel_for!(0..x.len(), [all = &mut ages, &x], |i| {
        all.insert("c".to_string(), x[i]);
        all.insert("d".to_string(), all[&i.to_string()]);
    });
    missing(ended.map(drop), "`all` has no such key");
    let ended = sync_parallel_for!(x, 1, [&mut numbers], |batch| numbers[&batch[0]].add(1.0), SyncPolicy::Bsp);
    missing(ended.map(drop), "`numbers` has no such key: use `get` or `entry` where that may be");
    let ended = with!([&numbers], x.map(|key| numbers[&(key + 1)])).collect();
    missing(ended.map(drop), "`numbers` has no such key");
    let ended = with!([&numbers], x.map(|key| numbers[key])).collect();
    missing(ended.map(drop), "the map has no such key");
    Ok(())
}
