//! Closures of operators use variables that stand in no capture list.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1u32; 10])?;
    let table = DVector::from_vec(session, vec![1.0f32; 10])?;
    let counts = x.count_by_key(|n| *n)?;
    let (alpha, beta) = (0.5f32, 0.1f32);
    let mut total = 0.0;
    let a = with!([alpha], x.map(|n| alpha * table[*n as usize] + beta)).to_vec()?;
    let b = with!([alpha], x.filter(|n| counts.contains_key(n) && alhpa > 0.0)).to_vec()?;
    let c = with!([alpha], x.fold(0.0, |sum, n| { total += alpha; sum + *n as f32 }, |a, b| a + b))?;
    let d = with!([&table], x.map(|n| shift(*n, beta) + table[0])).to_vec()?;
    println!("{a:?} {b:?} {c:?} {d:?} {total}");
    Ok(())
}

fn shift(n: u32, by: f32) -> f32 {
    n as f32 + by
}
