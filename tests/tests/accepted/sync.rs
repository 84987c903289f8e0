//! Loops over minibatches.
#![deny(warnings)]
use stradsap::prelude::*;

const K: usize = 3;

#[stradsap::main]
fn main(session: &Session) -> stradsap::Result<()> {
    let sentences = DVector::from_vec(session, vec![vec![0u32, 2, 1], vec![], vec![1, 1, 3], vec![2]])?;
    let tree = DVector::from_fn(session, 4, |w| w as u32 % 2)?;
    let mut syn0 = DVector::from_fn(session, 4, |w| [w as f32; K])?;
    let mut counts = DVector::from_vec(session, vec![0u64; 4])?;
    let (alpha, table, words) = (0.5f32, vec![1.0f32, 2.0], session.sum(0u64));
    for policy in
        [SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 2 }, SyncPolicy::Hybrid, SyncPolicy::ModelAverage { every: 2 }]
    {
        let report = sync_parallel_for!(
            sentences,
            2,
            [alpha, table, &tree, &mut syn0, &mut counts, &words],
            |batch| {
                let mut neu = [0.0; K];
                for (at, sentence) in batch.into_iter().enumerate() {
                    assert_eq!(batch.start() + at, 2 * batch.number() + at);
                    for &word in sentence {
                        syn0[word].add_to(table[tree[word] as usize], &mut neu);
                        syn0[word].axpy(alpha, &neu);
                        counts[word].add(1);
                    }
                    words.add(sentence.len() as u64);
                }
                counts[0].add(0);
            },
            policy,
            label = "epoch",
            prefetch = true,
            early = 20,
            caches = 64
        )?;
        let _: SyncReport = report;
    }
    assert_eq!(words.get(), 28);

    // Bare names of policies, inputs by reference and by place.
    let mut counts = DVector::from_vec(session, vec![0u64; 4])?;
    let model = (&sentences, 3usize);
    sync_parallel_for!(&sentences, 1, [&mut counts], |_| counts[0].add(7), Bsp)?;
    sync_parallel_for!(
        model.0,
        model.1 * 2,
        [&mut counts],
        |batch| counts[1].add(batch.len() as u64),
        Ssp { staleness: 1 }
    )?;
    sync_parallel_for!(
        sentences,
        1,
        [&sentences, &mut counts],
        |batch| {
            for i in 0..batch.len() {
                if batch[i].is_empty() || batch.number() < 3 {
                    return;
                }
                counts[3].set(sentences[i].len() as u64);
            }
        },
        Hybrid
    )?;
    assert_eq!(counts.to_vec()?, [28, 4, 0, 3]);
    let report = sync_parallel_for!(sentences, 2, [&mut counts], |_| counts[2].add(0), ModelAverage { every: 1 })?;
    assert_eq!((report.policy(), report.minibatches()), (SyncPolicy::ModelAverage { every: 1 }, 2));
    Ok(())
}

#[test]
fn runs() -> std::process::ExitCode {
    main()
}
