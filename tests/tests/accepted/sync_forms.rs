//! The forms that loops over minibatches may have.
#![deny(warnings)]
#![allow(clippy::unwrap_used, reason = "a test")]
use stradsap::prelude::*;

struct Model<const K: usize> {
    texts: DVector<Vec<u32>>,
    rows: DVector<[f64; K]>,
    rate: f64,
}

impl<const K: usize> Model<K> {
    fn epoch(&mut self, session: &Session, policy: SyncPolicy) -> stradsap::Result<SyncReport> {
        let tokens = session.count();
        let report = sync_parallel_for!(
            self.texts,
            self.texts.len() / 2,
            [rate = self.rate, rows = &mut self.rows, &tokens],
            |batch| {
                let mut sum = [0.0; K];
                for text in batch {
                    for (&word, &next) in text.iter().zip(&text[1..]) {
                        rows[word].add_to(1.0, &mut sum);
                        rows[next].axpy(rate, &sum);
                    }
                    tokens.add(text.len() as u64);
                }
            },
            policy,
            label = format!("{policy}")
        );
        assert_eq!(tokens.get(), 8);
        report
    }
}

fn count<T: Element + Into<u64> + Copy>(
    data: &DVector<T>,
    counts: &mut DVector<u64>,
    size: u32,
) -> stradsap::Result<SyncReport> {
    sync_parallel_for!(
        data,
        size,
        [&mut counts],
        |batch| {
            for &value in batch {
                let value: u64 = value.into();
                counts[value as usize].add(1);
            }
        },
        SyncPolicy::Bsp
    )
}

fn gather<T>(data: &DVector<u32>, to: &mut DVector<T>, table: &[T]) -> stradsap::Result<SyncReport>
where
    T: Merge + Copy + stradsap::Value,
{
    let table = table.to_vec();
    sync_parallel_for!(
        data,
        2u8,
        [table, &mut to],
        |batch| {
            for &at in batch {
                to[at].set(table[at as usize]);
            }
        },
        SyncPolicy::Hybrid
    )
}

macro_rules! each {
    ($data:expr, [$($captured:tt)*], $body:expr, $policy:expr) => {
        sync_parallel_for!($data, 3, [$($captured)*], $body, $policy)
    };
}

macro_rules! with_list {
    ($data:ident, $list:expr, $batch:ident, $body:block) => {
        sync_parallel_for!($data, 3, $list, |$batch| $body, Hybrid)
    };
}

#[derive(Debug)]
struct Odd;

impl std::fmt::Display for Odd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an odd number")
    }
}

impl std::error::Error for Odd {}

fn check(value: u32) -> Result<u32, Odd> {
    if value.is_multiple_of(2) { Ok(value) } else { Err(Odd) }
}

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let mut model = Model::<3> {
        texts: DVector::from_vec(session, vec![vec![0, 1, 2], vec![3], vec![0, 3], vec![2, 2]])?,
        rows: DVector::from_fn(session, 4, |i| [i as f64; 3])?,
        rate: 0.5,
    };
    for policy in [SyncPolicy::Bsp, SyncPolicy::Hybrid] {
        model.epoch(session, policy)?;
    }

    let data = DVector::from_vec(session, vec![0u32, 2, 2, 4, 6, 2, 0])?;
    let mut counts = DVector::from_vec(session, vec![0u64; 7])?;
    count(&data, &mut counts, 2)?;
    assert_eq!(counts.to_vec()?, [2, 0, 3, 0, 1, 0, 1]);
    let mut table = DVector::from_vec(session, vec![[0i16; 2]; 7])?;
    gather(&data, &mut table, &[[5, 1]; 7])?;
    assert_eq!(table.to_vec()?[..2], [[5, 1], [0, 0]]);

    each!(&data, [&mut counts], |batch| counts[batch.start()].add(batch.len() as u64), Bsp)?;
    with_list!(data, [&mut counts], batch, {
        if batch.number() == 0 {
            counts[1].set(batch.iter().map(|&value| u64::from(value)).sum());
        }
    })?;
    assert_eq!(counts.to_vec()?[..4], [5, 4, 3, 3]);

    sync_parallel_for!(
        data,
        4,
        [&mut counts],
        |batch: stradsap::Batch<'_, u32>| {
            counts[batch[0]].add(0);
        },
        Bsp
    )?;

    // Bodies with results: `?` and `return` end a minibatch.
    sync_parallel_for!(
        data,
        2,
        [&data, &mut counts],
        |batch| -> Result<(), Odd> {
            for (at, &value) in batch.iter().enumerate() {
                if check(value)? == 6 {
                    return Ok(());
                }
                counts[5].add(u64::from(data[batch.start() + at]));
            }
            Ok(())
        },
        SyncPolicy::Ssp { staleness: 1 }
    )?;
    assert_eq!(counts.get(5)?, 8);
    let before = counts.to_vec()?;
    let error = sync_parallel_for!(
        data,
        2,
        [&mut counts],
        |batch| {
            counts[0].set(9);
            if batch.number() == 1 { Err(Odd) } else { Ok(()) }
        },
        SyncPolicy::ModelAverage { every: 1 }
    )
    .map(|_| ())
    .unwrap_err();
    assert!(error.to_string().contains("an odd number"), "{error}");
    assert_eq!(counts.to_vec()?, before);

    // Nothing of the input is needed, and a name in the body may be bound anew.
    let fast = true;
    sync_parallel_for!(
        data,
        data.len(),
        [fast, &mut counts],
        move |_| {
            let kept = counts[0u32].get();
            let mut counts = [kept; 3];
            counts[1] += u64::from(fast);
            assert_eq!(counts[1], kept + 1);
        },
        if fast { SyncPolicy::Hybrid } else { SyncPolicy::Bsp },
        prefetch = fast,
        caches = !fast,
    )?;
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}
