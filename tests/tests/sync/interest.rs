//! Under `Ssp` changes go to those that read the rows: few bytes, and yet no read is older than the bound, whether it was
//! foreseen or not.

use std::time::Duration;

use stradsap::prelude::*;

use super::places::{PLACES, copies};
use crate::common::below;
use crate::jobs::runner::{Test, long};
use crate::places::Place;

pub(crate) fn tests() -> Vec<Test> {
    let places = [PLACES[1][2], PLACES[2][1], PLACES[3][3]];
    let mut tests: Vec<Test> = places
        .map(|place| Test::new(format!("bytes that follow the readers: {place}"), 60, move || bytes(place)))
        .into();
    let places = [PLACES[1][0], PLACES[1][2], PLACES[2][1], PLACES[3][2], PLACES[3][3]];
    tests.extend(places.map(|place| Test::new(format!("rows read now and then: {place}"), 120, move || bound(place))));
    tests
}

/// The bytes of a loop's third call, when everybody knows who reads what.
fn bytes_of(session: &Session, shared: usize, own: usize, policy: SyncPolicy) -> u64 {
    let copies = copies(session);
    let (each, of_copy) = (40, 10 * own);
    let input = DVector::from_fn(session, each * copies, |i| i as u32).unwrap();
    let mut rows = DVector::from_fn(session, shared + copies * of_copy, |_| [0i32; 64]).unwrap();
    let mut bytes = 0;
    for _ in 0..3 {
        let report = sync_parallel_for!(
            input,
            1,
            [copies, shared, own, of_copy, &mut rows],
            |batch| {
                let (copy, clock) = (batch.number() % copies, batch.number() / copies);
                for k in 0..shared {
                    rows[k].add(&[1; 64]);
                }
                for k in 0..own {
                    // Another worker keeps most of them.
                    let row = (copy * 7 + 3) % copies * of_copy + (clock * own + k) % of_copy;
                    rows[shared + row].add(&[1; 64]);
                }
            },
            policy
        )
        .unwrap();
        bytes = report.bytes_sent();
    }
    let sum: i64 = rows.to_vec().unwrap().iter().map(|row| i64::from(row[63])).sum();
    assert_eq!(sum as usize, 3 * each * copies * (shared + own));
    bytes
}

fn bytes(place: Place) {
    let session = place.session();
    for (shared, own) in [(0, 20), (20, 0), (10, 10)] {
        let rounds = bytes_of(&session, shared, own, SyncPolicy::Bsp);
        for staleness in [0, 2] {
            let clocks = bytes_of(&session, shared, own, SyncPolicy::Ssp { staleness });
            assert!(
                clocks as f64 <= 1.5 * rounds as f64,
                "{clocks} bytes under Ssp({staleness}), {rounds} under Bsp: {shared} shared rows, {own} own on {place}"
            );
        }
    }
}

/// Rows of a copy's clock.
const SLOTS: usize = 5;

/// How many of a copy's first minibatches add to one of its slots.
fn added(slot: usize, minibatches: usize) -> u64 {
    (minibatches + SLOTS - 1).saturating_sub(slot) as u64 / SLOTS as u64
}

/// Where a copy's slot lies: among the rows that another worker keeps.
fn row(copies: usize, copy: usize, slot: usize) -> usize {
    (copy + 1) % copies * SLOTS + slot
}

/// Which slot of a copy a minibatch reads.
fn slot_of(pattern: u64, clock: usize, copy: usize, k: usize) -> usize {
    below(pattern.wrapping_mul(1_000_003) ^ ((clock * 64 + copy) * 8 + k) as u64, SLOTS)
}

/// Each minibatch adds 1 to one of its copy's slots, and reads some of the others'.
fn call(
    session: &Session,
    clocks: &mut DVector<[u64; 4]>,
    (before, pattern): (usize, u64),
    policy: SyncPolicy,
    prefetch: bool,
) -> u64 {
    let (copies, each) = (copies(session), if long() { 2000 } else { 120 });
    let SyncPolicy::Ssp { staleness } = policy else { unreachable!() };
    let input = DVector::from_fn(session, each * copies, |i| i as u32).unwrap();
    let wrong = session.count();
    let mut run = |prefetching: bool| {
        if prefetching {
            sync_parallel_for!(
                input,
                1,
                [copies, staleness, before, each, pattern, &mut *clocks, &wrong],
                |batch| {
                    let (me, clock) = (batch.number() % copies, batch.number() / copies);
                    if below(batch.number() as u64 ^ pattern, 20) == 0 {
                        std::thread::sleep(Duration::from_micros(300));
                    }
                    for copy in 0..copies {
                        for k in 0..3 {
                            let slot = slot_of(pattern, clock, copy, k);
                            let seen = clocks[row(copies, copy, slot)].get();
                            let least = if copy == me { clock } else { clock.saturating_sub(staleness) };
                            let base = before as u64 * added(slot, each);
                            if seen[0] < base + added(slot, least)
                                || (copy == me && seen[3] != base + added(slot, clock))
                            {
                                wrong.add(1);
                            }
                        }
                    }
                    clocks[row(copies, me, clock % SLOTS)].add(&[1; 4]);
                },
                policy
            )
        } else {
            sync_parallel_for!(
                input,
                1,
                [copies, staleness, before, each, pattern, &mut *clocks, &wrong],
                |batch| {
                    let (me, clock) = (batch.number() % copies, batch.number() / copies);
                    for copy in 0..copies {
                        let slot = slot_of(pattern, clock, copy, 0);
                        let seen = clocks[row(copies, copy, slot)].get();
                        let least = if copy == me { clock } else { clock.saturating_sub(staleness) };
                        if seen[1] < before as u64 * added(slot, each) + added(slot, least) {
                            wrong.add(1);
                        }
                    }
                    clocks[row(copies, me, clock % SLOTS)].add(&[1; 4]);
                },
                policy,
                prefetch = false
            )
        }
    };
    let report = run(prefetch).unwrap();
    let case = format!("call {before}, pattern {pattern}, {policy:?}, prefetch {prefetch}: {report}");
    assert_eq!(wrong.get(), 0, "{case}");
    assert!(report.staleness_seen() <= staleness as u64, "{case}");
    let expected: Vec<[u64; 4]> =
        (0..copies * SLOTS).map(|i| [(before as u64 + 1) * added(i % SLOTS, each); 4]).collect();
    assert_eq!(clocks.to_vec().unwrap(), expected, "{case}");
    report.rows_on_demand()
}

fn bound(place: Place) {
    let session = place.verified();
    for staleness in [0, 1, 4, usize::MAX] {
        for prefetch in [true, false] {
            let policy = SyncPolicy::Ssp { staleness };
            let mut clocks = DVector::from_fn(&session, copies(&session) * SLOTS, |_| [0u64; 4]).unwrap();
            // Recorded, foreseen twice; another pattern, and the first one again.
            let patterns = [0, 0, 0, 1, 0, 0];
            let calls = patterns.into_iter().enumerate();
            let on_demand: Vec<u64> =
                calls.map(|call_of| call(&session, &mut clocks, call_of, policy, prefetch)).collect();
            if place.workers > 1 {
                assert_eq!(on_demand[..3].iter().all(|&n| n == 0), prefetch, "{on_demand:?} on {place}, {policy:?}");
            }
        }
    }
}
