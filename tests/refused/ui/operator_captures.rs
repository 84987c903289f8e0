//! A closure of an operator that uses a variable, without `with!`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let by = 3;
    let a = x.map(move |n| n * by).to_vec()?;
    println!("{a:?}");
    Ok(())
}
