//! Nothing is lost: every policy that loses no update counts exactly, wherever its copies are.

use std::time::Duration;

use stradsap::prelude::*;
use stradsap::{Unverified, Verified};

use super::places::PLACES;
use crate::common::below;
use crate::jobs::runner::Test;
use crate::places::Place;

pub(crate) fn tests() -> Vec<Test> {
    let places = PLACES.iter().copied().flatten().copied();
    places.map(|place| Test::new(format!("counters: {place}"), 60, move || exact(place))).collect()
}

const COUNTERS: usize = 13;

fn exact(place: Place) {
    let session = place.verified();
    let one_each = place.threads == 1;
    let mut policies = vec![
        SyncPolicy::Bsp,
        SyncPolicy::Ssp { staleness: 0 },
        SyncPolicy::Ssp { staleness: 1 },
        SyncPolicy::Ssp { staleness: 7 },
        SyncPolicy::Ssp { staleness: usize::MAX },
    ];
    if one_each {
        policies.push(SyncPolicy::Hybrid);
    }
    let n = 3000;
    let input = DVector::from_fn(&session, n, |i| [below(i as u64, COUNTERS) as u32, i as u32 % 7]).unwrap();
    let elements = || (0..n).map(|i| [below(i as u64, COUNTERS), i % 7]);
    let times = |counter: usize| elements().filter(|&[row, _]| row == counter).count() as u64;
    for policy in policies {
        let mut counts = DVector::from_fn(&session, COUNTERS, |i| i as u64).unwrap();
        let mut small = DVector::from_fn(&session, COUNTERS, |_| 250u8).unwrap();
        let mut pairs = DVector::from_fn(&session, COUNTERS, |_| [0i32; 2]).unwrap();
        let mut whole = DVector::from_fn(&session, 7, |_| 0.0f64).unwrap();
        let all = session.count();
        for epoch in 1..=3u64 {
            let report = sync_parallel_for!(
                input,
                8,
                [&mut counts, &mut small, &mut pairs, &mut whole, &all],
                |batch| {
                    if batch.number() % 97 == 5 {
                        std::thread::sleep(Duration::from_micros(500));
                    }
                    for &[row, other] in batch {
                        counts[row].add(1);
                        small[row].add(1);
                        pairs[row].add(&[2, -1]);
                        // Sums of whole numbers, which floats have exactly.
                        whole[other].add(1.0);
                        all.add(1);
                    }
                },
                policy
            )
            .unwrap();
            let case = format!("{policy:?} on {place}, epoch {epoch}");
            match report.verified() {
                Verified::Compared(names) => {
                    assert_eq!((place.workers, names.len()), (0, 5), "{case}");
                }
                Verified::NotCompared(Unverified::Stale { reads }) => {
                    assert!(*reads > 0 && matches!(policy, SyncPolicy::Ssp { .. }), "{case}");
                }
                other => {
                    assert_eq!(*other, Verified::NotCompared(Unverified::OnWorkers), "{case}");
                    assert!(place.workers > 0, "{case}");
                }
            }
            for k in 0..COUNTERS {
                let n = times(k) * epoch;
                assert_eq!(counts.get(k).unwrap(), k as u64 + n, "{case}");
                assert_eq!(small.get(k).unwrap(), 250u8.wrapping_add(n as u8), "{case}");
                assert_eq!(pairs.get(k).unwrap(), [2 * n as i32, -(n as i32)], "{case}");
            }
            let expected: Vec<f64> =
                (0..7).map(|k| (elements().filter(|&[_, other]| other == k).count() * epoch as usize) as f64).collect();
            assert_eq!(whole.to_vec().unwrap(), expected, "{case}");
            assert_eq!(all.get(), n as u64 * epoch, "{case}");
        }
    }
}
