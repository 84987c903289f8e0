//! Steps and operators whose items don't have what they need.

use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = session.range(10).map(|i| *i as f64).collect()?;
    let numbered = x.filter(|v| *v > 1.0).enumerate();
    let sorted = x.sort_by_key(|v| *v)?;
    let best = x.top_k(3, |v| -*v)?;
    Ok(())
}
