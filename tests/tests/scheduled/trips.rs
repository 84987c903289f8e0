//! Rounds of one light job on two workers: the same bits at each depth as in one process. With `STRADSAP_MEASURE=1` it says how
//! many there are in a second: `STRADSAP_MEASURE=1 cargo test --release -p stradsap-tests --test workers -- 'scheduled::round trips'`.

use std::time::Instant;

use serde::{Deserialize, Serialize};
use stradsap::ClusterOptions;
use stradsap::prelude::*;

use crate::jobs::runner::Test;

#[derive(Serialize, Deserialize)]
struct Light;

impl Program for Light {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = usize;
    type Partial = u64;
    type Change = u64;

    fn update(&self, job: &usize, shard: &u64, local: &u64) -> u64 {
        (*job as u64).wrapping_mul(*shard) ^ local
    }
    fn aggregate(&self, _: &usize, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model = partials.fold(*model, |sum, part| sum.rotate_left(9) ^ part);
        *model
    }
    fn apply(&self, _: &usize, change: &u64, _: &u64, local: &mut u64) {
        *local = local.wrapping_mul(31).wrapping_add(*change);
    }
}

fn run(session: &Session, depth: usize, rounds: usize) -> (u64, String, f64) {
    let shards = DVector::from_fn(session, 2, |i| i as u64 + 3).unwrap();
    let mut locals = DVector::from_fn(session, 2, |i| i as u64).unwrap();
    let (mut schedule, mut model) = (schedule_round_robin(1000, 1), 0);
    let since = Instant::now();
    let call = scheduled(session, &Light).pipeline(depth);
    let report = call.run(&mut schedule, &mut model, &shards, &mut locals, rounds).unwrap();
    assert!(report.seconds_running() <= since.elapsed().as_secs_f64());
    (model, locals.digest().unwrap(), report.seconds_running())
}

fn trips() {
    let measures = std::env::var_os("STRADSAP_MEASURE").is_some();
    let rounds = if measures { 20_000 } else { 300 };
    let here = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
    let session = Session::builder().threads(1).verify(false).explain(false).build().unwrap();
    session.start_workers(&ClusterOptions::new(2).threads(1)).unwrap();
    for depth in [1, 2, 3, 4, 8] {
        let (expected, found) = (run(&here, depth, rounds), run(&session, depth, rounds));
        assert_eq!((found.0, found.1), (expected.0, expected.1), "depth {depth}");
        if measures {
            eprintln!("depth {depth}: {:.0} rounds a second on 2 workers", rounds as f64 / found.2);
        }
    }
}

pub(crate) fn tests() -> Vec<Test> {
    vec![Test::new("round trips", 60, trips)]
}
