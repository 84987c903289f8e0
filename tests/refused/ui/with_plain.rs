//! Operators whose closures can't capture.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let table = DVector::from_vec(session, vec![1u32; 10])?;
    let names = DMap::from_entries(session, [(1u32, 2u32)])?;
    let by = 3;
    let a = with!([&table], x.sort_by_key(|n| table[*n as usize]))?;
    let b = with!([by], x.count_by_key(|n| n / by))?;
    let c = with!([by], x.reduce(|a, b| a + by * b))?;
    let d = with!([by], x.join(&names, |n| n / by)).to_vec()?;
    let e = with!([by], x.map(|n| (n % 2, *n)).reduce_by_key(|a, b| a + by * b))?;
    println!("{:?} {:?} {c:?} {d:?} {:?}", a.to_vec()?, b.to_vec()?, e.to_vec()?);
    Ok(())
}
