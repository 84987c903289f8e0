//! Operators' closures write nothing that they capture.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let mut counts = DMap::<u32, u64>::new(session)?;
    let mut y = DVector::from_vec(session, vec![1u32; 10])?;
    let mut total = 0;
    let a = with!([&mut counts], x.map(|n| { *counts.entry(*n).or_insert(0) += 1; *n })).to_vec()?;
    let b = with!([&mut y], x.filter(|n| y[*n as usize] > 1)).to_vec()?;
    let c = with!([&y], x.map(|n| { y[*n as usize] = 3; *n })).to_vec()?;
    let d = with!([&counts], x.map(|n| { counts.insert(*n, 1); *n })).to_vec()?;
    let e = with!([total], x.map(|n| { total += n; *n })).to_vec()?;
    println!("{a:?} {b:?} {c:?} {d:?} {e:?} {total}");
    total += 1;
    Ok(())
}
