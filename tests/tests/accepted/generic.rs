//! Loops in generic functions.
use stradsap::prelude::*;

fn decay<const K: usize>(p: &mut DVector<[f32; K]>, rate: f32) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..p.len(), [rate, &mut p], |i| {
        for x in p[i].iter_mut() {
            *x *= rate;
        }
        assert_eq!(p[i].len(), K);
    })
}

fn copy<T: Element>(from: &DVector<T>, to: &mut DVector<T>) -> stradsap::Result<LoopReport> {
    async_parallel_for!(0..from.len(), [&from, &mut to], |i| to[i] = from[i].clone())
}

fn shift<T>(by: T, to: &mut DVector<T>) -> stradsap::Result<LoopReport>
where
    T: Element + Copy + std::ops::AddAssign + stradsap::Value,
{
    async_parallel_for!(0..to.len(), [by, &mut to], |i| to[i] += by)
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut rows = DVector::from_fn(session, 5, |i| [i as f32; 3])?;
    decay(&mut rows, 0.5)?;
    let mut again = DVector::from_fn(session, 5, |_| [0.0; 3])?;
    copy(&rows, &mut again)?;
    assert_eq!(again.to_vec()?[4], [2.0; 3]);
    let mut counts = DVector::from_vec(session, vec![1u32, 2])?;
    shift(3, &mut counts)?;
    assert_eq!(counts.to_vec()?, [4, 5]);
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}
