//! Random programs of operators and loops on each other's results.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use stradsap::prelude::*;

use super::pool::{Pool, Rng};
use super::{keyed, loops, steps};
use crate::jobs::runner::seeds;
use crate::seen::Seen;

pub(crate) type Step = fn(&mut Pool<'_>, &mut Rng, &mut Seen) -> stradsap::Result<()>;

const STEPS: usize = 16;

fn program(session: &Session, seed: u64, seen: &mut Seen) -> stradsap::Result<()> {
    let all: Vec<(&str, Step)> = [steps::STEPS, keyed::STEPS, loops::STEPS].concat();
    let mut rng = Rng::new(seed);
    let mut pool = Pool::new(session, &mut rng)?;
    for _ in 0..STEPS {
        let (name, step) = all[rng.index(&all)];
        seen.record("seed and step", (seed, name));
        step(&mut pool, &mut rng, seen)?;
    }
    pool.check(seen)
}

pub(crate) fn random_programs(session: &Session, seen: &mut Seen) -> stradsap::Result<()> {
    for seed in seeds(8, 2_000) {
        let ran = catch_unwind(AssertUnwindSafe(|| program(session, seed, seen)));
        let case = || {
            let last = seen.0.iter().rev().find(|line| line.starts_with("seed and step")).cloned().unwrap_or_default();
            eprintln!(
                "STRADSAP_SEED={seed} cargo test -p stradsap-tests --test workers -- data::random_programs; {last}"
            );
        };
        match ran {
            Ok(ended) => ended.inspect_err(|_| case())?,
            Err(panic) => {
                case();
                resume_unwind(panic);
            }
        }
    }
    Ok(())
}
