//! A DVector of a type that is no element.
use stradsap::prelude::*;

#[derive(Clone, Copy)]
struct Rating {
    user: u32,
    stars: f32,
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let ratings = DVector::from_vec(session, vec![Rating { user: 0, stars: 1.0 }])?;
    let mut sums = DVector::from_fn(session, 10, |_| 0.0f32)?;
    async_parallel_for!(0..ratings.len(), [&ratings, &mut sums], |i| {
        let r = ratings[i];
        sums[r.user] += r.stars;
    })?;
    Ok(())
}
