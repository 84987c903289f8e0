//! Values that can't be copied into the loop's tasks.
use stradsap::prelude::*;

struct Table {
    entries: Vec<f32>,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let table = Table { entries: vec![0.0; 10] };
    let alpha = 0.5;
    async_parallel_for!(0..x.len(), [alpha, table, &mut x], |i| x[i] += alpha * table.entries[i])?;

    let behind = &table;
    async_parallel_for!(0..x.len(), [behind, &mut x], |i| x[i] = behind.entries[i])?;

    let mut own = vec![0.0f32; 10];
    let lent = &mut own;
    async_parallel_for!(0..x.len(), [lent, &mut x], |i| x[i] = lent[i])?;
    Ok(())
}
