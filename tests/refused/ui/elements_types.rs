//! Loops over elements of what has none that a body can be given.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let rows = DMatrix::from_fn(session, 9, 3, |i, k| (i + k) as f32)?;
    let texts = DVector::from_vec(session, vec![String::new(); 10])?;
    let numbers = vec![1usize, 2, 3];
    async_parallel_for!(&rows, [&mut x], |row| x[0] += row[1])?;
    async_parallel_for!(&texts, [&mut x], |text| x[0] += text.len() as f32)?;
    async_parallel_for!(&numbers, [&mut x], |i| x[i] += 1.0)?;
    Ok(())
}
