//! Random programs at every place and depth, against the interpreter.

use std::marker::PhantomData;

use stradsap::prelude::*;

use super::interpreter::{Outcome, interpret};
use super::program::{AtRandom, Keeps, Mixing, THREADS, shard};
use crate::common::below;
use crate::seen::Seen;

/// What is the same wherever it runs.
struct Case {
    seed: u64,
    shards: usize,
    rounds: usize,
    depth: usize,
    stop_after: Option<usize>,
    work: u64,
}

impl Case {
    fn new(seed: u64, work: u64) -> Case {
        let pick = |k: u64, n: usize| below(seed * 100 + k, n);
        let rounds = pick(0, 24);
        Case {
            seed,
            shards: 1 + pick(1, 9),
            rounds,
            depth: 1 + (seed % 4) as usize,
            stop_after: (pick(3, 3) == 0).then(|| 1 + pick(4, rounds + 1)),
            work,
        }
    }

    fn program<L>(&self) -> Mixing<L> {
        let parts = below(self.seed * 100 + 5, 3) > 0;
        Mixing { salt: self.seed, shards: self.shards, work: self.work, parts, fails: Vec::new(), local: PhantomData }
    }

    fn schedule(&self) -> AtRandom {
        AtRandom { state: self.seed, most: 1 + below(self.seed * 100 + 6, 5), fails: Vec::new(), calls: [0; 3] }
    }

    fn check<L: Keeps>(&self, session: &Session) -> stradsap::Result<()> {
        let (program, mut schedule, mut model) = (self.program::<L>(), self.schedule(), vec![5, 6, 7]);
        let Outcome {
            locals: expected,
            model: expected_model,
            schedule: expected_schedule,
            rounds,
            jobs,
            updates,
            behind,
        } = interpret(&program, schedule.clone(), self.depth, self.rounds, self.stop_after);
        let shards = DVector::from_fn(session, self.shards, shard)?;
        let mut locals = DVector::from_fn(session, self.shards, L::first)?;
        let call = scheduled(session, &program).pipeline(self.depth).label("random");
        let report = match self.stop_after {
            None => call.run(&mut schedule, &mut model, &shards, &mut locals, self.rounds)?,
            Some(k) => {
                let (end, mut asked) = (self.rounds, Vec::new());
                // As many rounds at most, which the interpreter counts from the other side.
                let begun = |settled: usize| settled + self.depth - 1;
                if k + self.depth - 1 <= end {
                    let until = |settled: usize, _: &Vec<u64>| {
                        asked.push(settled);
                        settled >= k
                    };
                    let report = call.run_until(&mut schedule, &mut model, &shards, &mut locals, until)?;
                    assert!(report.rounds() == begun(k) && asked[..k].iter().copied().eq(1..=k), "{asked:?}");
                    report
                } else {
                    call.run(&mut schedule, &mut model, &shards, &mut locals, end)?
                }
            }
        };
        assert_eq!(model, expected_model);
        assert_eq!(schedule, expected_schedule);
        assert_eq!(locals.to_vec()?, expected);
        assert_eq!((report.rounds(), report.jobs(), report.updates()), (rounds, jobs, updates));
        let mean = behind.iter().sum::<usize>() as f64 / behind.len().max(1) as f64;
        assert_eq!(
            (report.staleness_max(), report.staleness_mean()),
            (behind.iter().copied().max().unwrap_or(0), mean)
        );
        assert_eq!((report.pipeline(), report.shards(), report.label()), (self.depth, self.shards, Some("random")));
        assert_eq!(
            (report.bytes_sent() > 0, report.workers().is_empty()),
            match session.workers() {
                0 => (false, true),
                _ => (true, false),
            }
        );
        Ok(())
    }
}

/// Light rounds, which run where they are scheduled.
pub(crate) fn light(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for seed in 0..24 {
        let case = Case::new(seed, 1);
        let checked =
            if seed.is_multiple_of(3) { case.check::<Vec<u64>>(session) } else { case.check::<[u64; 3]>(session) };
        checked.inspect_err(|_| eprintln!("seed {seed}"))?;
        seen.record("seed", seed);
    }
    Ok(())
}

/// Heavy rounds, which the threads share.
pub(crate) fn heavy(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    THREADS.lock().unwrap().clear();
    for seed in 100..108 {
        let case = Case { shards: 6, rounds: 10, ..Case::new(seed, 4000) };
        if seed % 2 == 0 {
            case.check::<Vec<u64>>(session)?;
        } else {
            case.check::<[u64; 3]>(session)?;
        }
        seen.record("seed", seed);
    }
    // The interpreter's own, and in this process those of the session.
    let threads = THREADS.lock().unwrap().len();
    let more = session.workers() == 0 && session.threads() > 1;
    assert_eq!(threads > 1, more, "{threads} threads ran updates");
    Ok(())
}

/// Calls that follow each other go on where the last one ended, with whatever happens between.
pub(crate) fn one_after_the_other(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    let case = Case { shards: 5, stop_after: None, ..Case::new(7, 1) };
    let (program, mut schedule, mut model) = (case.program::<[u64; 3]>(), case.schedule(), vec![1; 4]);
    let shards = DVector::from_fn(session, 5, shard)?;
    let mut locals = DVector::from_fn(session, 5, <[u64; 3]>::first)?;
    for epoch in 0..6 {
        let report = scheduled(session, &program).pipeline(1 + epoch % 4).run(
            &mut schedule,
            &mut model,
            &shards,
            &mut locals,
            7,
        )?;
        seen.record("epoch", (epoch, report.jobs(), &model, schedule.state));
        match epoch {
            // The driver changes a shard's state.
            1 => locals.set(2, [epoch as u64; 3])?,
            // And a loop all of them.
            3 => drop(async_parallel_for!(0..locals.len(), [epoch, &mut locals], |i| locals[i][1] ^= epoch as u64)?),
            _ => seen.digest("locals", &locals)?,
        }
    }
    seen.digest("locals", &locals)?;
    seen.record("shards", shards.get(4)?);
    Ok(())
}
