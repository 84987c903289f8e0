//! Closures of operators that own a value without a size: it can't be made anew on a worker.
use stradsap::prelude::*;

/// Only its owner can make one.
struct Token(());

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let token = Token(());
    let a = x.map(move |&n| {
        let Token(()) = &token;
        n
    });
    println!("{}", a.count()?);
    Ok(())
}
