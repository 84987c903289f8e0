//! A DVector of a type that is no element.
use stradsap::prelude::*;

#[derive(Clone, Copy)]
struct Rating {
    user: u32,
    item: u32,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let ratings = DVector::from_vec(session, vec![Rating { user: 0, item: 0 }])?;
    drop(ratings);
    Ok(())
}
