//! `on_failure = Poison`: a loop whose body fails leaves what it writes unusable, and says so at each later use.

use crate::common::{below, mix};
use crate::seen::{Alone, Scenario, Seen};
use stradsap::Error;
use stradsap::prelude::*;

pub(crate) const SCENARIOS: &[Scenario] = crate::scenarios![
    poison::loops_that_end_well_are_as_ever,
    poison::what_a_loop_wrote_when_it_failed_is_refused,
    poison::whatever_the_plan_is,
    poison::loops_that_stray_still_begin_again,
];

/// Tests that need no workers.
pub(crate) const ALONE: &[Alone] = crate::alone![a_checkpoint_brings_back_what_was_poisoned];

const N: usize = 5000;

/// Whether an error is that of using `dds` after the loop in this file.
fn is_poisoned<T>(result: stradsap::Result<T>, named: &str) -> bool {
    let Err(error) = result else { return false };
    let said = error.to_string();
    let told = said.contains("tests/poisoned.rs:") && said.contains("on_failure = Poison");
    matches!(&error, Error::Poisoned { dds, .. } if *dds == named) && told
}

/// The words of a loop's own error, which may name one iteration or a few.
fn blames(error: &Error, iteration: usize, words: &str) -> bool {
    let known = match error {
        &Error::SomeIteration { first, last, .. } => (first..=last).contains(&iteration),
        error => error.to_string().contains(&format!("iteration {iteration} ")),
    };
    known && error.to_string().contains(words)
}

pub(crate) mod poison {
    use super::*;

    /// Light loops over integers, elements that own memory, and rows found by index.
    pub(crate) fn loops_that_end_well_are_as_ever(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let at = DVector::from_fn(session, N, |i| below(i as u64, N) as u32)?;
        let from = DVector::from_fn(session, N, |i| mix(i as u64) >> 32)?;
        let mut to = DVector::from_fn(session, N, |i| i as u64)?;
        let mut words = DVector::from_fn(session, N, |i| "x".repeat(i % 5))?;
        let mut plain: Vec<u64> = (0..N as u64).collect();
        for _ in 0..3 {
            let report = async_parallel_for!(
                0..N,
                [&at, &from, &mut to, &mut words],
                |i| {
                    to[i] = to[i] / 2 + from[at[i]];
                    words[i].push('y');
                },
                on_failure = Poison
            )?;
            assert_eq!((report.strategy(), report.misspeculations()), (Strategy::Aligned, 0));
            for (i, x) in plain.iter_mut().enumerate() {
                *x = *x / 2 + (mix(below(i as u64, N) as u64) >> 32);
            }
        }
        assert_eq!(to.to_vec()?, plain);
        seen.digest("words", &words)
    }

    /// By an error, a panic, and an index that isn't there; nothing else of the program is touched.
    pub(crate) fn what_a_loop_wrote_when_it_failed_is_refused(
        session: &Session,
        seen: &mut Seen,
    ) -> stradsap::Result<()> {
        let from = DVector::from_fn(session, N, |i| i as u32 % 7)?;
        for what in 0..3 {
            let (mut to, sum) = (DVector::from_fn(session, N, |i| i as u32)?, session.sum(5u64));
            let failed = async_parallel_for!(
                0..N,
                [what, &from, &mut to, &sum],
                |i| {
                    to[i] += from[i];
                    sum.add(1);
                    if i == 3210 && to[i] > 0 {
                        match what {
                            0 => return Err(std::io::Error::other("enough")),
                            1 => panic!("at {i}"),
                            _ => to[i] = from[N + i],
                        }
                    }
                    Ok(())
                },
                on_failure = stradsap::OnFailure::Poison
            );
            let error = failed.unwrap_err();
            assert!(blames(&error, 3210, ["enough", "at 3210", "from["][what]), "{error}");
            assert!(is_poisoned(to.get(0), "to") && is_poisoned(to.set(0, 1), "to") && is_poisoned(to.digest(), "to"));
            assert!(is_poisoned(to.iter().map(drop), "to") && is_poisoned(to.map(|x| x + 1).collect().map(drop), "to"));
            assert!(is_poisoned(async_parallel_for!(0..N, [&mut to], |i| to[i] = 0), "to"));
            let mut total = DVector::from_vec(session, vec![0u64])?;
            let read = sync_parallel_for!(
                to,
                10,
                [&mut total],
                |batch| batch.into_iter().for_each(|&x| total[0].add(u64::from(x))),
                SyncPolicy::Bsp
            );
            assert!(is_poisoned(read, "to"));
            assert_eq!((sum.get(), total.get(0)?, from.get(8)?), (5, 0, 1));

            // Made anew it is as good as any.
            to = DVector::from_fn(session, N, |i| i as u32)?;
            async_parallel_for!(0..N, [&from, &mut to], |i| to[i] += from[i], on_failure = Poison)?;
            seen.digest("to", &to)?;
        }
        Ok(())
    }

    /// Also where copies are made all the same; maps and matrices, too.
    pub(crate) fn whatever_the_plan_is(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let to = DVector::from_fn(session, N, |k| below(k as u64, 300) as u32)?;
        for strategy in [Strategy::Grid, Strategy::Coloured, Strategy::Serial] {
            for order in [Order::Any, Order::Preserve] {
                let mut m = DMatrix::from_fn(session, 300, 5, |i, k| (i * k) as u32)?;
                let mut counts = DMap::from_entries(session, (0..300u32).map(|key| (key, 0u32)))?;
                let failed = async_parallel_for!(
                    0..to.len(),
                    [&to, &mut m, &mut counts],
                    |k| {
                        m[to[k]][k % 5] ^= k as u32;
                        if let Some(count) = counts.get_mut(&to[k]) {
                            *count ^= k as u32;
                        }
                        assert!(k != 4000 || m[to[k]][0] == u32::MAX, "too far");
                    },
                    order = order,
                    strategy = strategy,
                    on_failure = Poison
                );
                let error = failed.unwrap_err();
                assert!(blames(&error, 4000, "too far"), "{error}");
                assert!(is_poisoned(m.get(0), "m") && is_poisoned(counts.get(&1), "counts"));
                assert!(is_poisoned(counts.insert(1, 1), "counts") && is_poisoned(m.set(0, &[0; 5]), "m"));
                seen.record("to", to.digest()?);
            }
        }
        Ok(())
    }

    /// A body that touches what nobody foresaw has not failed.
    pub(crate) fn loops_that_stray_still_begin_again(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
        let mut next = DVector::from_fn(session, N, |i| ((i * 7 + 1) % N) as u32)?;
        let mut plain: Vec<u32> = next.to_vec()?;
        for turn in 0..3u32 {
            async_parallel_for!(
                0..N,
                [turn, &mut next],
                |i| {
                    let at = next[i] as usize;
                    if at % 50 == 7 {
                        next[at] = (next[at] + turn * i as u32) % N as u32;
                    }
                    next[i] = (next[i] + 13) % N as u32;
                },
                order = Preserve,
                on_failure = Poison
            )?;
            for i in 0..N {
                let at = plain[i] as usize;
                if at % 50 == 7 {
                    plain[at] = (plain[at] + turn * i as u32) % N as u32;
                }
                plain[i] = (plain[i] + 13) % N as u32;
            }
        }
        assert_eq!(next.to_vec()?, plain);
        seen.digest("next", &next)
    }
}

/// What was poisoned is not stored, and comes back from where it was stored before.
fn a_checkpoint_brings_back_what_was_poisoned() {
    let folder = tempfile::tempdir().unwrap();
    let session = crate::common::session(2);
    let mut x = DVector::from_fn(&session, 100, |i| i as u32).unwrap();
    let mut checkpoints = Checkpoints::new(folder.path(), 1).unwrap();
    checkpoints.save(1, &(), &[("x", &x)]).unwrap();
    let ran = async_parallel_for!(
        0..x.len(),
        [&mut x],
        |i| {
            x[i] *= 2;
            assert!(x[i] != 140, "half way");
        },
        on_failure = Poison
    );
    assert!(blames(&ran.unwrap_err(), 70, "half way"));
    assert!(is_poisoned(checkpoints.save(2, &(), &[("x", &x)]), "x"));
    checkpoints.finish().unwrap();
    x = checkpoints.resume().unwrap().unwrap().vector(&session, "x").unwrap();
    assert_eq!(x.to_vec().unwrap(), (0..100).collect::<Vec<u32>>());
}
