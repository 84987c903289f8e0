//! Keys of maps that can't be keys, and values that can't travel.
use stradsap::prelude::*;

#[derive(Clone, PartialEq, Element)]
struct Point {
    x: f32,
    y: f32,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Name(String);

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let a = DMap::<Point, u32>::new(session)?;
    let b = DMap::from_entries(session, [(1.5f32, 1u32)])?;
    let c = DMap::from_entries(session, [(Name(String::new()), 1u32)])?;
    let d = DMap::from_entries(session, [(1u32, Name(String::new()))])?;
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let e = x.count_by_key(|n| *n as f32)?;
    println!("{} {} {} {} {}", a.len()?, b.len()?, c.len()?, d.len()?, e.len()?);
    Ok(())
}
