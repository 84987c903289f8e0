//! `with!` around something that is not an operator with captures.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let alpha = 0.5f32;
    let a = with!(x.map(|x| alpha * x)).to_vec()?;
    let b = with!([alpha] x.map(|x| alpha * x)).to_vec()?;
    let c = with!([alpha], x.len());
    let d = with!([alpha], x.map(|x| alpha * x), 3).to_vec()?;
    let e = with!().to_vec()?;
    println!("{a:?} {b:?} {c:?} {d:?} {e:?}");
    Ok(())
}
