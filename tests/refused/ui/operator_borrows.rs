//! A closure of an operator that borrows a variable, without `with!`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let table = vec![1u32; 10];
    let a = x.filter(|n| table[*n as usize] > 1).to_vec()?;
    println!("{a:?}");
    Ok(())
}
