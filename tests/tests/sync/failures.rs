//! Bodies that return errors, panic, or leave the range: all is as before, and the session goes on.

use stradsap::Error;
use stradsap::prelude::*;
use stradsap::{Element, Merge};

use super::places::{PLACES, copies, note, policies};
use crate::common::below;
use crate::jobs::runner::Test;
use crate::seen::Seen;

type Result = stradsap::Result<()>;

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("no words in element {0}")]
struct NoWords(usize);

const ERR: u32 = 1;
const PANIC: u32 = 2;
const OUTSIDE: u32 = 3;

/// The minibatches that share a round with one.
fn round_of(minibatch: usize, copies: usize, policy: SyncPolicy) -> std::ops::Range<usize> {
    let each = if let SyncPolicy::ModelAverage { every } = policy { every } else { 1 };
    let first = minibatch / (copies * each) * copies * each;
    first..first + copies * each
}

fn check(error: &Error, kind: u32, policy: SyncPolicy, copies: usize, minibatches: &[usize]) -> usize {
    let Error::Minibatch { minibatch, start, end, problem, .. } = error else { panic!("{error}") };
    let first = *minibatches.iter().min().unwrap();
    // Who runs in the same round may have failed first, as the clock has it; nobody later.
    let within = match policy {
        SyncPolicy::Ssp { .. } => 0..usize::MAX,
        _ => round_of(first, copies, policy),
    };
    assert!(minibatches.contains(minibatch) && within.contains(minibatch), "{policy}: {error}, of {minibatches:?}");
    assert_eq!((*start, *end), (minibatch * 4, minibatch * 4 + 4));
    let problem = problem.to_string();
    let expected = match kind {
        ERR => format!("failed: no words in element {}", minibatch * 4 + 1),
        PANIC => format!("element {} panics", minibatch * 4 + 1),
        _ => format!("`x[{}]`, but `x` has 50 elements", 5000 + minibatch * 4 + 1),
    };
    assert!(problem.contains(&expected), "{problem:?} instead of {expected:?}");
    *minibatch
}

fn fail(session: &Session, seen: &mut Seen, name: &str, policy: SyncPolicy, same_bits: bool) -> Result {
    let copies = copies(session);
    let mut input = DVector::from_fn(session, 240, |i| (below(i as u64, 50) as u32, 0u32))?;
    let mut x = DVector::from_fn(session, 50, |i| i as f64 / 3.0)?;
    let mut counts = DVector::from_fn(session, 50, |i| [i as u64; 2])?;
    let (sum, low, count) = (session.sum(0.5f64), session.min(7i64), session.count());
    // Where rows are recorded, where they are foreseen, and in between.
    for (epoch, kind) in [OUTSIDE, 0, 0, ERR, 0, PANIC, OUTSIDE, 0, ERR, ERR, 0].into_iter().enumerate() {
        // At the beginning, in the middle, in the last minibatch; and several at once.
        let minibatches = match epoch {
            0 | 3 => vec![below(epoch as u64, 60)],
            5 => vec![0],
            6 => vec![59],
            8 => vec![30, 31, 32, 33, 50],
            _ => (0..4).map(|k| below(epoch as u64 * 10 + k, 60)).collect(),
        };
        for &minibatch in &minibatches {
            input.set(minibatch * 4 + 1, (input.get(minibatch * 4 + 1)?.0, kind))?;
        }
        let before = (x.digest()?, counts.digest()?, sum.get().to_bits(), low.get(), count.get());
        let ended = sync_parallel_for!(
            input,
            4,
            [&mut x, &mut counts, &sum, &low, &count],
            |batch| {
                for (k, &(row, kind)) in batch.into_iter().enumerate() {
                    let i = batch.start() + k;
                    x[row].set(x[row].get() * 0.75 + i as f64);
                    counts[row].add(&[1, i as u64]);
                    sum.add(x[row].get());
                    low.min(-(i as i64));
                    count.add(1);
                    match kind {
                        ERR => return Err(NoWords(i)),
                        PANIC => panic!("element {i} panics"),
                        OUTSIDE => x[5000 + i].add(1.0),
                        _ => {}
                    }
                }
                Ok(())
            },
            policy
        );
        let after = (x.digest()?, counts.digest()?, sum.get().to_bits(), low.get(), count.get());
        match ended {
            Ok(report) => {
                assert_eq!(kind, 0);
                note(seen, name, &report);
                assert_ne!(before, after);
                assert_eq!(after.4 - before.4, 240);
                if same_bits {
                    seen.record(name, after);
                }
            }
            Err(error) => {
                check(&error, kind, policy, copies, &minibatches);
                let worker = error.to_string().contains("worker ");
                assert_eq!(worker, session.workers() > 0 && kind != OUTSIDE, "{error}");
                assert_eq!(before, after, "{policy}, epoch {epoch}");
            }
        }
        for &minibatch in &minibatches {
            input.set(minibatch * 4 + 1, (input.get(minibatch * 4 + 1)?.0, 0))?;
        }
    }
    Ok(())
}

pub(crate) fn failures(session: &Session, seen: &mut Seen) -> Result {
    for (name, policy) in policies(session) {
        fail(session, seen, name, policy, true)?;
    }
    // Others leave no bits of their own: but nothing of a failed loop.
    for staleness in [0, 3] {
        fail(session, seen, "bounded", SyncPolicy::Ssp { staleness }, false)?;
    }
    Ok(())
}

/// A body that fails while changes of others are still on their way: none of them is left.
fn in_mid_push() {
    for place in [PLACES[1][2], PLACES[3][3]] {
        let session = place.verified();
        let input = DVector::from_fn(&session, 64, |i| i as u32).unwrap();
        let mut x = DVector::from_fn(&session, 3000, |i| [i as f32; 64]).unwrap();
        let before = x.digest().unwrap();
        for round in 0..12u32 {
            let failed = sync_parallel_for!(
                input,
                1,
                [round, &mut x],
                |batch| {
                    for i in 0..3000u32 {
                        x[i].add(&[1.0; 64]);
                        if batch[0] == round && i % 1000 == round * 70 {
                            return Err(NoWords(i as usize));
                        }
                    }
                    Ok(())
                },
                SyncPolicy::Ssp { staleness: 3 }
            );
            assert!(failed.is_err());
            assert_eq!(x.digest().unwrap(), before, "round {round} on {place}");
        }
    }
}

/// A call that is broken off after some workers told others what they will want, before these heard of it.
fn wants_that_nobody_heard() {
    for place in [PLACES[1][2], PLACES[2][1], PLACES[3][2], PLACES[3][3]] {
        let session = place.verified();
        let rows = 90;
        let mut input = DVector::from_fn(&session, 60, |i| [i as u32 % 17, 0]).unwrap();
        let mut x = DVector::from_fn(&session, rows, |i| i as i64).unwrap();
        let mut call = |input: &DVector<[u32; 2]>| {
            sync_parallel_for!(
                input,
                1,
                [rows, &mut x],
                |batch| {
                    let [by, late] = batch[0];
                    (0..20).for_each(|k| x[(by as usize * 5 + k * 11) % rows].add(i64::from(by)));
                    if late == 1 {
                        std::thread::sleep(std::time::Duration::from_millis(40));
                        return Err(NoWords(0));
                    }
                    Ok(())
                },
                SyncPolicy::Bsp
            )
        };
        call(&input).unwrap();
        // The first of each round's, while the others are through already and ask for the next round's rows.
        input.set(0, [0, 1]).unwrap();
        call(&input).unwrap_err();
        input.set(0, [0, 0]).unwrap();
        let report = call(&input).unwrap();
        assert!(report.rows_prefetched() > 0 && report.rows_on_demand() == 0, "{place}: {report}");
        assert_eq!(x.iter().unwrap().sum::<i64>(), 89 * 45 + 2 * 20 * (0..60).map(|i| i % 17).sum::<i64>(), "{place}");
    }
}

/// Copies that differ can't be united.
#[derive(Clone, Copy, Debug, PartialEq, Element)]
struct Stubborn(u64);

impl Merge for Stubborn {
    fn change(base: &Self, local: &Self) -> Self {
        Stubborn(local.0 - base.0)
    }
    fn apply(&mut self, change: &Self) {
        assert!(self.0 < 3, "it is enough");
        self.0 += change.0;
    }
    fn share(&mut self, _copies: usize) {}
}

/// A union of copies that panics is a failure of the loop, as a body's is: it ends, and leaves nothing.
fn unions_that_panic() {
    for place in PLACES[1..].iter().copied().flatten() {
        let session = place.verified();
        let input = DVector::from_fn(&session, 40, |i| i as u32).unwrap();
        let mut x = DVector::from_fn(&session, 4, |_| Stubborn(0)).unwrap();
        let mut policies =
            vec![SyncPolicy::Bsp, SyncPolicy::ModelAverage { every: 2 }, SyncPolicy::Ssp { staleness: 1 }];
        if place.workers > 1 {
            policies.push(SyncPolicy::Hybrid);
        }
        for policy in policies {
            for _ in 0..2 {
                let ended = sync_parallel_for!(
                    input,
                    2,
                    [&mut x],
                    |batch| {
                        for i in batch {
                            let row = &x[i % 2];
                            row.set(Stubborn(row.get().0 + 1));
                        }
                    },
                    policy
                );
                let error = ended.unwrap_err().to_string();
                assert!(error.contains("it is enough"), "{policy} on {place}: {error}");
                assert_eq!(x.to_vec().unwrap(), [Stubborn(0); 4], "{policy} on {place}");
            }
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![
        Test::new("a failure while changes are on their way", 60, in_mid_push),
        Test::new("wants that nobody heard", 30, wants_that_nobody_heard),
        Test::new("unions that panic", 30, unions_that_panic),
    ]
}
