//! What `scratch` may be.

use stradsap::prelude::*;

struct Cache<'a> {
    name: &'a str,
    seen: Vec<usize>,
}

fn generic<T: Element + Default>(session: &Session, n: usize) -> stradsap::Result<usize> {
    let x = DVector::from_fn(session, n, |_| T::default())?;
    let count = session.count();
    async_parallel_for!(
        0..x.len(),
        [&x, &count],
        |i, last: &mut Option<T>| {
            *last = Some(x[i].clone());
            count.add(u64::from(last.is_some()));
        },
        scratch = None
    )?;
    Ok(count.get() as usize)
}

fn main() -> stradsap::Result<()> {
    let session = Session::builder().threads(2).build()?;
    let mut x = DVector::from_fn(&session, 100, |i| i)?;
    let totals = session.relaxed_vector(vec![0u64; 3]);
    let (name, size) = ("names".to_string(), 4usize);
    async_parallel_for!(
        0..x.len(),
        [name, size, &mut x, &totals],
        |i, cache| {
            cache.seen[i % size] += name.len();
            x[i] += cache.seen[i % size] + cache.name.len();
            totals.add(i % 3, totals[0usize] + 1);
        },
        scratch = Cache { name: "cache", seen: vec![totals[0usize] as usize; size] },
        staleness = 1,
        label = "cached"
    )?;
    // Errors and `return` work as ever, and a tuple is fine.
    let failed = async_parallel_for!(
        0..x.len(),
        [&mut x],
        |i, (odd, even)| -> Result<(), std::num::ParseIntError> {
            if i % 2 == 0 {
                *even += 1;
                return Ok(());
            }
            *odd += 1;
            x[i] = "1".parse()?;
            Ok(())
        },
        scratch = (0, 0),
        order = Preserve
    );
    failed?;
    assert_eq!(generic::<u8>(&session, 7)?, 7);
    Ok(())
}

#[test]
fn runs() -> stradsap::Result<()> {
    main()
}
