//! Methods that change what is captured by value.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f64; 10])?;
    let log: Vec<usize> = Vec::new();
    let text = String::new();
    let row = [0.0, 1.0];
    async_parallel_for!(0..x.len(), [log, text, row, &mut x], |i| {
        log.push(i);
        text.push_str("a");
        row.swap(0, 1);
        x[i] = row[0];
    })?;
    Ok(())
}
