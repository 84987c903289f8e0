//! Elements captured as `&mut x` are shared: they are changed and read by their methods.
use stradsap::prelude::*;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let words = DVector::from_vec(session, vec![1u32; 10])?;
    let rate = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut bias = DVector::from_vec(session, vec![1.0f32; 10])?;
    let mut rows = DVector::from_vec(session, vec![[1.0f32; 3]; 10])?;
    let loss = session.sum(0.0f32);
    sync_parallel_for!(
        words,
        4,
        [&rate, &mut bias, &mut rows, &loss],
        |batch| {
            for &word in batch {
                bias[word] = 1.0;
                bias[word] += rate[word];
                bias[word] *= 0.5;
                rows[word][0] += 1.0;
                let row = &mut rows[word];
                row[1] = 2.0;
                for number in rows[word].iter_mut() {
                    *number = 0.0;
                }
                let (a, b) = rows.pair_mut(0, 1);
                rate[word] = 0.5;
                rate[word].add(0.5);
                bias = rate;

                let value = bias[word];
                let change = rate[word] * bias[word];
                loss.add(bias[word]);
                if rows[word][2] > value + change {
                    loss.add(rows[word].dot(&[1.0; 3]));
                }
            }
        },
        SyncPolicy::Hybrid
    )?;
    Ok(())
}
