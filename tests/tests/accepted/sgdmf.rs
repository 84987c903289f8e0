//! The program that the documentation shows.
use stradsap::prelude::*;

const K: usize = 4;

#[derive(Clone, Copy, Element)]
struct Rating {
    user: u32,
    item: u32,
    stars: f32,
}

fn dot(a: &[f32; K], b: &[f32; K]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let stars = |user, item, stars| Rating { user, item, stars };
    let ratings = DVector::from_vec(session, vec![stars(0, 0, 4.0), stars(0, 1, 2.0), stars(1, 1, 5.0)])?;
    let mut p: DVector<[f32; K]> = DVector::from_fn(session, 2, |i| [0.1 * (i + 1) as f32; K])?;
    let mut q: DVector<[f32; K]> = DVector::from_fn(session, 2, |i| [0.2 * (i + 1) as f32; K])?;
    // Without a suffix: what the body does with them says which floats they are.
    let (alpha, lambda) = (0.01, 0.05);
    let mut last = f64::INFINITY;
    for _epoch in 0..3 {
        let loss = session.sum(0.0f64);
        async_parallel_for!(
            0..ratings.len(),
            [alpha, lambda, &ratings, &mut p, &mut q, &loss],
            |i| {
                let r = ratings[i];
                let (pu, qi) = (&mut p[r.user], &mut q[r.item]);
                let e = r.stars - dot(pu, qi);
                for k in 0..K {
                    let (a, b) = (pu[k], qi[k]);
                    pu[k] += alpha * (e * b - lambda * a);
                    qi[k] += alpha * (e * a - lambda * b);
                }
                loss.add((e * e) as f64);
            },
            order = Preserve,
            parts = 2,
            label = "epoch"
        )?;
        assert!(loss.get() < last);
        last = loss.get();
    }
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}
