//! The same operator as in `operator_captures.rs`, with `with!`.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let by = 3;
    assert_eq!(with!([by], x.map(|n| n * by)).to_vec()?, [3; 10]);
    Ok(())
}
