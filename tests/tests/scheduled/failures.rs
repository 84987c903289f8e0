//! Functions that panic, and calls that can't be run: the error says which, and everything is as before.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Error, RoundProblem};

use super::program::{AtRandom, Fails, Function, Keeps, Mixing, shard};
use crate::common::below;
use crate::seen::{Seen, without_worker};

const SHARDS: usize = 5;

fn program<L>(fails: &[Fails], work: u64) -> Mixing<L> {
    Mixing { salt: 3, shards: SHARDS, work, parts: false, fails: fails.to_vec(), local: PhantomData }
}

fn check<L: Keeps>(
    session: &Session,
    seen: &mut Seen,
    depth: usize,
    fails: &[Fails],
    work: u64,
) -> stradsap::Result<()> {
    let shards = DVector::from_fn(session, SHARDS, shard)?;
    let mut locals = DVector::from_fn(session, SHARDS, L::first)?;
    let (mut schedule, mut model) = (AtRandom { state: 9, most: 4, fails: Vec::new(), calls: [0; 3] }, vec![3; 3]);
    // Something happens first, so that there is something to go back to.
    let good = program::<L>(&[], work);
    scheduled(session, &good).run(&mut schedule, &mut model, &shards, &mut locals, 3)?;
    schedule.fails = fails.to_vec();
    let before = (locals.to_vec()?, model.clone(), schedule.clone());
    let call = scheduled(session, &program::<L>(fails, work)).pipeline(depth).run(
        &mut schedule,
        &mut model,
        &shards,
        &mut locals,
        12,
    );
    match call {
        Ok(report) => seen.record("nothing failed", report.jobs()),
        Err(error) => {
            assert_eq!((locals.to_vec()?, model.clone(), schedule.clone()), before, "{error}");
            assert_eq!(error.exit_code(), 1);
            let Error::Round { function, .. } = &error else { panic!("{error}") };
            let on_shards = ["update", "apply"].contains(function);
            let text = error.to_string();
            seen.record("failed", if on_shards { without_worker(session, &text) } else { text });
        }
    }
    schedule.fails.clear();
    scheduled(session, &good).pipeline(depth).run(&mut schedule, &mut model, &shards, &mut locals, 4)?;
    seen.digest("after all", &locals)?;
    seen.record("model", &model);
    Ok(())
}

pub(crate) fn panics(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    use Function::{Aggregate, Apply, Observe, Schedule, Update};
    let fails = |function, round, job, shard| Fails { function, round, job, shard };
    for depth in [1, 3] {
        for function in [Schedule, Update, Aggregate, Apply, Observe] {
            check::<[u64; 3]>(session, seen, depth, &[fails(function, 5, 0, 3)], 1)?;
            check::<Vec<u64>>(session, seen, depth, &[fails(function, 0, 0, 0)], 1)?;
            // At the end, while the pipeline runs dry.
            check::<Vec<u64>>(session, seen, depth, &[fails(function, 11, 0, 4), fails(function, 11, 1, 1)], 1)?;
        }
        // Of several the same one everywhere.
        for seed in 0..12u64 {
            let pick = |k: u64, n: usize| below(seed * 50 + k, n);
            let some: Vec<Fails> = (0..6)
                .map(|k| {
                    let function = [Update, Apply, Update, Apply, Aggregate, Schedule][pick(k * 5, 6)];
                    fails(function, 3 + pick(k * 5 + 1, 4), pick(k * 5 + 2, 3), pick(k * 5 + 3, SHARDS))
                })
                .collect();
            check::<[u64; 3]>(session, seen, depth, &some, if seed.is_multiple_of(3) { 3000 } else { 1 })?;
        }
    }
    Ok(())
}

/// An update that uses more than it is given.
#[derive(Serialize, Deserialize)]
struct Unsteady;

static TOLD: AtomicU64 = AtomicU64::new(0);

impl Program for Unsteady {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = u64;
    type Partial = u64;
    type Change = u64;

    fn update(&self, _: &u64, _: &u64, _: &u64) -> u64 {
        // No call gives what another gave, in this process or in others. (The sum of a count and a process's number was once the
        // same in two.) Sums of some of these have room.
        let mut hasher = DefaultHasher::new();
        (TOLD.fetch_add(1, Relaxed), std::process::id()).hash(&mut hasher);
        hasher.finish() >> 16
    }
    fn aggregate(&self, _: &u64, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model = partials.sum();
        *model
    }
    fn apply(&self, _: &u64, change: &u64, shard: &u64, local: &mut u64) {
        if *shard == 2 {
            // No two runs have the same sums, and so none end alike.
            *local = local.wrapping_mul(31).wrapping_add(*change);
        }
    }
}

pub(crate) fn unsteady(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let shards = DVector::from_fn(session, 4, |i| i as u64)?;
    let mut locals = DVector::from_fn(session, 4, |_| 0u64)?;
    session.verify(true);
    let ran = scheduled(session, &Unsteady).run(&mut Twice, &mut 0, &shards, &mut locals, 3);
    session.verify(session.threads() == 2);
    let error = ran.unwrap_err();
    assert!(matches!(error, Error::Verification { dds: "locals", index: 2, .. }), "{error}");
    seen.record("found", error.exit_code());
    Ok(())
}

/// Jobs for shards that aren't there.
#[derive(Serialize, Deserialize)]
struct Astray {
    updated: usize,
    applied: usize,
}

impl Program for Astray {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = u64;
    type Partial = u64;
    type Change = u64;

    fn update(&self, _: &u64, shard: &u64, _: &u64) -> u64 {
        *shard
    }
    fn aggregate(&self, _: &u64, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model += 1;
        partials.sum()
    }
    fn apply(&self, _: &u64, _: &u64, _: &u64, local: &mut u64) {
        *local += 1;
    }
    fn updated_on(&self, _: &u64) -> Shards {
        Shards::One(self.updated)
    }
    fn applied_to(&self, _: &u64) -> Shards {
        Shards::One(self.applied)
    }
}

#[derive(Clone)]
struct Twice;

impl Schedule<u64, u64, u64> for Twice {
    fn schedule(&mut self, round: usize, _: &u64, jobs: &mut Vec<u64>) {
        jobs.extend([round as u64; 2]);
    }
}

pub(crate) fn misuse(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let shards = DVector::from_fn(session, 3, |i| i as u64)?;
    let mut locals = DVector::from_fn(session, 3, |_| 0u64)?;
    let mut model = 0;
    for (updated, applied) in [(3, 0), (0, 7), (2, 2)] {
        let program = Astray { updated, applied };
        let ran = scheduled(session, &program).pipeline(2).run(&mut Twice, &mut model, &shards, &mut locals, 2);
        match ran {
            Ok(report) => seen.record("ran", report.updates()),
            Err(error) => {
                let Error::Round { round: 0, job: Some(0), shard: Some(at), ref problem, .. } = error else {
                    panic!("{error}")
                };
                assert!(at == updated.max(applied) && **problem == (RoundProblem::NoSuchShard { shards: 3 }));
                seen.record("astray", error.to_string());
            }
        }
    }
    assert_eq!((model, locals.to_vec()?), (4, vec![0, 0, 4]));
    let program = Astray { updated: 0, applied: 0 };
    let mut two = DVector::from_fn(session, 2, |_| 0u64)?;
    let call = |depth| scheduled(session, &program).pipeline(depth);
    let errors = [
        call(1).run(&mut Twice, &mut model, &shards, &mut two, 1).unwrap_err(),
        call(0).run(&mut Twice, &mut model, &shards, &mut locals, 1).unwrap_err(),
        call(1 << 20).run(&mut Twice, &mut model, &shards, &mut locals, 1).unwrap_err(),
    ];
    seen.record("errors", errors.map(|error| error.to_string()));
    // A DDS of the session, used where it can't be: it ends the call or it works, but it doesn't hang.
    let other = DVector::from_fn(session, 4, |i| i as u64)?;
    let mut looked = 0;
    call(2).run_until(&mut Twice, &mut model, &shards, &mut locals, |settled, _| {
        let made = DVector::from_fn(session, 2, |_| 1u8);
        looked += usize::from(made.is_ok());
        drop(made);
        settled == 3
    })?;
    assert_eq!((looked, other.get(3)?), (3, 3));
    let nested = call(1).run_until(&mut Twice, &mut model, &shards, &mut locals, |_, _| {
        let mut inner = 0;
        let mut others = DVector::from_fn(session, 3, |_| 0u64).unwrap();
        let error = call(1).run(&mut Twice, &mut inner, &shards, &mut others, 1).unwrap_err();
        assert!(error.to_string().contains("another one"), "{error}");
        true
    })?;
    seen.record("nested", nested.rounds());
    // No shards, and no rounds.
    let (none, mut neither) = (DVector::from_fn(session, 0, |_| 0u64)?, DVector::from_fn(session, 0, |_| 0u64)?);
    let failed = call(1).run(&mut Twice, &mut model, &none, &mut neither, 3).unwrap_err();
    seen.record("no shard", failed.to_string());
    seen.record("no round", call(3).run(&mut Twice, &mut model, &shards, &mut locals, 0)?.rounds());
    seen.digest("locals", &locals)?;
    Ok(())
}
