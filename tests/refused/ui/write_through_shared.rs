//! Writes to a DDS that is captured as `&x`.
use stradsap::prelude::*;

#[derive(Clone, Copy, Element)]
struct Point {
    at: [f32; 2],
    seen: u32,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let x = DVector::from_vec(session, vec![1.0f32; 10])?;
    let points = DVector::from_vec(session, vec![Point { at: [0.0; 2], seen: 0 }; 10])?;
    let total = session.sum(0.0f64);
    async_parallel_for!(0..x.len(), [&x, &points, &total], |i| {
        x[i] = 1.0;
        x[i + 1] += 1.0;
        points[i].at[0] = x[i];
        points[i].seen += 1;
        let point = &mut points[i];
        point.seen += 1;
        let (a, b) = x.pair_mut(0, 1);
        let [a, b] = x.many_mut([0, 1]);
        for coordinate in points[i].at.iter_mut() {
            *coordinate = 0.0;
        }
        (x[i], x[i + 1]) = (0.0, 0.0);
        total += 1.0;
        let mut x = [0.0, 1.0];
        x[i] = 2.0;
    })?;
    Ok(())
}
