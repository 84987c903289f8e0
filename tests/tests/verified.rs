//! A session that verifies says what it compared, and what it couldn't.

use stradsap::prelude::*;
use stradsap::{Unverified, Verified};

fn verifying(threads: usize) -> Session {
    Session::builder().threads(threads).verify(true).explain(false).build().unwrap()
}

#[test]
fn what_a_loop_may_change_is_compared() {
    let session = verifying(2);
    let at = DVector::from_fn(&session, 500, |i| i as u32 * 7 % 100).unwrap();
    let mut x = DVector::from_fn(&session, 100, |i| i as f64).unwrap();
    let (sum, seen) = (session.sum(0.0), session.relaxed(0u64));
    let mut run = || {
        let report = async_parallel_for!(
            0..500,
            [&at, &mut x, &sum, &seen],
            |n| {
                x[at[n]] += 1.0;
                sum.add(x[at[n]]);
                seen.add(1);
            },
            staleness = 1
        );
        report.unwrap()
    };
    let report = run();
    assert_eq!(report.verified(), Verified::Compared(vec!["x", "sum", "seen"]));
    assert!(report.to_string().contains("\n  verified: `x`, `sum`, `seen` have the bits"), "{report}");
    session.verify(false);
    let report = run();
    assert_eq!(report.verified(), Verified::NotAsked);
    assert!(!report.to_string().contains("bits"), "{report}");
}

#[test]
fn synchronous_loops_say_why_nothing_was_compared() {
    let stale = |verified: &Verified| matches!(verified, Verified::NotCompared(Unverified::Stale { reads: 1.. }));
    for threads in [1, 2] {
        let session = verifying(threads);
        let points = DVector::from_fn(&session, 1000, |n| n as f64).unwrap();
        let mut line = DVector::from_fn(&session, 2, |_| 0.0f64).unwrap();
        let seen = session.count();
        let mut run = |policy| {
            let report = sync_parallel_for!(
                points,
                10,
                [&mut line, &seen],
                |batch| {
                    for n in batch {
                        line[0].add(n - line[1].get());
                        seen.add(1);
                    }
                },
                policy
            );
            report.unwrap()
        };
        let compared = Verified::Compared(vec!["line", "seen"]);
        for policy in [SyncPolicy::Bsp, SyncPolicy::ModelAverage { every: 3 }] {
            assert_eq!(*run(policy).verified(), compared);
        }
        let (hybrid, ssp) = (run(SyncPolicy::Hybrid), run(SyncPolicy::Ssp { staleness: 2 }));
        if threads == 1 {
            assert_eq!((hybrid.verified(), ssp.verified()), (&compared, &compared));
        } else {
            assert_eq!(*hybrid.verified(), Verified::NotCompared(Unverified::SharedRows));
            assert!(stale(ssp.verified()), "{ssp}");
            for report in [&hybrid, &ssp] {
                assert!(report.to_string().contains("\n  not verified: under `"), "{report}");
            }
        }
        session.verify(false);
    }
}

/// What a macro's statements bind is not the loop's index, whatever it is called: the result is the plain loop's, and so is
/// the replay's, which runs the body with the indices that it computes.
#[test]
fn an_index_that_only_looks_like_the_loops_own_is_replayed_as_it_is() {
    let session = verifying(2);
    let mut x = DVector::from_fn(&session, 100, |n| n as u64).unwrap();
    let report = async_parallel_for!(0..100, [&mut x], |i| {
        let was = i;
        {
            let i = 99 - was;
            x[i] += x[was];
        }
    });
    let report = report.unwrap();
    assert_eq!(report.verified(), Verified::Compared(vec!["x"]));
    let mut plain: Vec<u64> = (0..100).collect();
    report.serial_order().for_each(|i| plain[99 - i] += plain[i]);
    assert_eq!(x.to_vec().unwrap(), plain);
}
