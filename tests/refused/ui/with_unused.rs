//! A capture that no closure uses.
#![deny(warnings)]
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let table = DVector::from_vec(session, vec![1.0f32; 10])?;
    let (alpha, beta) = (0.5f32, 0.1f32);
    let a = with!([alpha, beta, &table], x.map(|n| alpha * *n as f32)).to_vec()?;
    println!("{a:?} {beta}");
    Ok(())
}
