//! What the policies promise: the plain loop with one copy, the same bits for the same number of copies.

use stradsap::Error;
use stradsap::prelude::*;

use crate::jobs::runner::Test;

const POLICIES: [SyncPolicy; 5] = [
    SyncPolicy::Bsp,
    SyncPolicy::Ssp { staleness: 0 },
    SyncPolicy::Ssp { staleness: 3 },
    SyncPolicy::Hybrid,
    SyncPolicy::ModelAverage { every: 2 },
];

fn session(threads: usize) -> Session {
    Session::builder().threads(threads).verify(true).build().unwrap()
}

/// Rows of an input, each a few indices.
fn inputs(n: usize) -> Vec<Vec<u32>> {
    (0..n).map(|i| (0..i % 5).map(|k| ((i * 7 + k * 13) % 50) as u32).collect()).collect()
}

fn train(session: &Session, policy: SyncPolicy, minibatch: usize) -> (Vec<[f32; 6]>, f64, SyncReport) {
    let input = DVector::from_vec(session, inputs(333)).unwrap();
    let weights = DVector::from_fn(session, 50, |i| 1.0 / (i + 1) as f32).unwrap();
    let mut rows = DVector::from_fn(session, 50, |i| [i as f32 * 0.1; 6]).unwrap();
    let sum = session.sum(0.0f64);
    let rate = 0.25f32;
    let report = sync_parallel_for!(
        input,
        minibatch,
        [rate, &weights, &mut rows, &sum],
        |batch| {
            for (k, indices) in batch.into_iter().enumerate() {
                for &i in indices {
                    let x = [weights[i]; 6];
                    let e = rows[i].dot(&x) + (batch.start() + k) as f32 * 0.01;
                    rows[i].axpy(-rate * e, &x);
                    sum.add(f64::from(e));
                }
            }
        },
        policy
    )
    .unwrap();
    (rows.to_vec().unwrap(), sum.get(), report)
}

fn twin() -> (Vec<[f32; 6]>, f64) {
    let weights: Vec<f32> = (0..50).map(|i| 1.0 / (i + 1) as f32).collect();
    let mut rows: Vec<[f32; 6]> = (0..50).map(|i| [i as f32 * 0.1; 6]).collect();
    let mut sum = 0.0f64;
    for (k, indices) in inputs(333).iter().enumerate() {
        for &i in indices {
            let (i, x) = (i as usize, [weights[i as usize]; 6]);
            let e = kernels::dot(&rows[i], &x) + k as f32 * 0.01;
            kernels::axpy(-0.25 * e, &x, &mut rows[i]);
            sum += f64::from(e);
        }
    }
    (rows, sum)
}

fn one_copy_is_the_plain_loop_to_the_bit() {
    let (rows, sum) = twin();
    for policy in POLICIES {
        for minibatch in [1, 10, 1000] {
            let (got, total, report) = train(&session(1), policy, minibatch);
            assert_eq!(got, rows, "{policy:?}, minibatches of {minibatch}");
            assert_eq!((total, report.rounds()), (sum, 0), "{policy:?}");
        }
    }
}

fn rounds_have_the_same_bits_each_time() {
    for policy in [SyncPolicy::Bsp, SyncPolicy::ModelAverage { every: 3 }] {
        for threads in 2..5 {
            let (rows, sum, report) = train(&session(threads), policy, 10);
            assert_eq!(report.copies(), threads);
            for _ in 0..3 {
                let (again, total, _) = train(&session(threads), policy, 10);
                assert!(again == rows && total == sum, "{policy:?} on {threads} threads");
            }
        }
    }
}

fn every_policy_learns() {
    let (expected, _) = twin();
    for policy in POLICIES {
        let (rows, _, report) = train(&session(3), policy, 5);
        assert!(report.to_string().contains(policy.as_str()), "{report}");
        let off = rows.iter().zip(&expected).flat_map(|(a, b)| a.iter().zip(b)).map(|(a, b)| (a - b).abs());
        assert!(off.fold(0.0, f32::max) < 1.5, "{policy:?}");
    }
}

fn counts_add_up_under_every_policy_that_loses_none() {
    for policy in [SyncPolicy::Bsp, SyncPolicy::Ssp { staleness: 2 }] {
        let session = session(4);
        let input = DVector::from_fn(&session, 1000, |i| i as u32).unwrap();
        let mut counts = DVector::from_fn(&session, 7, |_| 0u64).unwrap();
        let batches = session.count();
        let report = sync_parallel_for!(
            input,
            16,
            [&mut counts, &batches],
            |batch| {
                batch.into_iter().for_each(|&i| counts[i % 7].add(1));
                batches.add(1);
            },
            policy
        )
        .unwrap();
        let expected: Vec<u64> = (0..7).map(|k| (0..1000).filter(|i| i % 7 == k).count() as u64).collect();
        assert_eq!(counts.to_vec().unwrap(), expected, "{policy:?}");
        assert_eq!((batches.get(), report.minibatches()), (63, 63));
    }
}

fn a_failure_leaves_everything_as_it_was() {
    for policy in POLICIES {
        for threads in [1, 3] {
            let session = session(threads);
            let input = DVector::from_fn(&session, 100, |i| i as u32).unwrap();
            let mut x = DVector::from_fn(&session, 10, |i| i as f64).unwrap();
            let sum = session.sum(1.5f64);
            let failed = sync_parallel_for!(
                input,
                10,
                [&mut x, &sum],
                |batch| {
                    for &i in batch {
                        x[i % 10].add(1.0);
                        sum.add(1.0);
                        if i == 57 {
                            return Err("no");
                        }
                    }
                    Ok(())
                },
                policy
            );
            let message = failed.unwrap_err().to_string();
            assert!(message.ends_with("minibatch 5 (elements 50..60) failed: no"), "{message}");
            let failed = sync_parallel_for!(
                input,
                10,
                [&mut x],
                |batch| {
                    batch.into_iter().for_each(|&i| x[i].add(1.0));
                },
                policy
            );
            let message = failed.unwrap_err().to_string();
            assert!(message.contains("`, but `x` has 10 elements"), "{message}");
            let failed = sync_parallel_for!(
                input,
                10,
                [&mut x],
                |batch| {
                    x[batch[0] % 10].add(1.0);
                    assert!(batch[0] < 80, "too far");
                },
                policy
            );
            assert!(matches!(failed, Err(Error::Minibatch { minibatch: 8.., .. })));
            assert_eq!(x.to_vec().unwrap(), (0..10).map(|i| i as f64).collect::<Vec<_>>());
            assert_eq!(sum.get(), 1.5);
        }
    }
}

fn odd_shapes() {
    let session = session(3);
    let mut x = DVector::from_fn(&session, 5, |_| 0i32).unwrap();
    let none = DVector::from_vec(&session, Vec::<u8>::new()).unwrap();
    let one = DVector::from_vec(&session, vec![1u8]).unwrap();
    for policy in POLICIES {
        let report = sync_parallel_for!(none, 4, [&mut x], |batch| x[batch.len()].add(1), policy).unwrap();
        assert_eq!(report.minibatches(), 0);
        sync_parallel_for!(&one, 4, [&mut x], |batch| x[batch.len()].add(1), policy).unwrap();
    }
    assert_eq!(x.to_vec().unwrap(), [0, 5, 0, 0, 0]);
    let nothing = 0;
    assert!(sync_parallel_for!(one, nothing, [&mut x], |batch| x[batch.len()].add(1), SyncPolicy::Bsp).is_err());
    let never = SyncPolicy::ModelAverage { every: 0 };
    assert!(sync_parallel_for!(one, 1, [&mut x], |batch| x[batch.len()].add(1), never).is_err());
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("one copy is the plain loop to the bit", 60, one_copy_is_the_plain_loop_to_the_bit),
        Test::new("rounds have the same bits each time", 60, rounds_have_the_same_bits_each_time),
        Test::new("every policy learns", 60, every_policy_learns),
        Test::new(
            "counts add up under every policy that loses none",
            60,
            counts_add_up_under_every_policy_that_loses_none,
        ),
        Test::new("a failure leaves everything as it was", 60, a_failure_leaves_everything_as_it_was),
        Test::new("odd shapes", 60, odd_shapes),
    ]
}
