//! What a light round costs: `cargo test --release -p stradsap-runtime --lib scheduled::cost -- --ignored --nocapture`.

use std::hint::black_box;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::{Partials, Program, Schedule, scheduled};
use crate::{DVector, Session};

/// One addition a shard.
#[derive(Serialize, Deserialize)]
struct Light;

impl Program for Light {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = u64;
    type Partial = u64;
    type Change = u64;

    fn update(&self, job: &u64, shard: &u64, local: &u64) -> u64 {
        job.wrapping_mul(*shard) ^ local
    }
    fn aggregate(&self, _: &u64, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model = partials.fold(*model, u64::wrapping_add);
        *model
    }
    fn apply(&self, _: &u64, change: &u64, _: &u64, local: &mut u64) {
        *local = local.rotate_left(7) ^ change;
    }
}

#[derive(Clone)]
struct One(u64);

impl Schedule<u64, u64, u64> for One {
    fn schedule(&mut self, _: usize, _: &u64, jobs: &mut Vec<u64>) {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        jobs.push(self.0);
    }
}

/// The same rounds without any engine.
fn by_hand(shards: &[u64], locals: &mut [u64], rounds: usize) -> u64 {
    let (mut schedule, mut model, program, mut jobs) = (One(1), 0, Light, Vec::new());
    let mut partials: Vec<Option<u64>> = Vec::new();
    for t in 0..rounds {
        jobs.clear();
        schedule.schedule(t, &model, &mut jobs);
        for job in &jobs {
            partials.clear();
            partials.extend(shards.iter().zip(&*locals).map(|(shard, local)| Some(program.update(job, shard, local))));
            let change = program.aggregate(job, Partials::new(&mut partials), &mut model);
            shards.iter().zip(&mut *locals).for_each(|(shard, local)| program.apply(job, &change, shard, local));
        }
    }
    model
}

#[test]
#[ignore = "a measurement"]
fn rounds_of_one_light_job() {
    let rounds = 2_000_000;
    for shards in [1, 4, 16] {
        let data: Vec<u64> = (1..=shards).collect();
        let (mut best_plain, mut by_depth) = (f64::MAX, Vec::new());
        let mut model = 0;
        for _ in 0..5 {
            let mut locals = vec![0; data.len()];
            let since = Instant::now();
            model = black_box(by_hand(black_box(&data), black_box(&mut locals), rounds));
            best_plain = best_plain.min(since.elapsed().as_nanos() as f64 / rounds as f64);
        }
        for (threads, depth) in [(1, 1), (2, 1), (1, 3)] {
            let session = Session::builder().threads(threads).build().unwrap();
            let shards = DVector::from_vec(&session, data.clone()).unwrap();
            let mut best = f64::MAX;
            for _ in 0..5 {
                let mut locals = DVector::from_fn(&session, data.len(), |_| 0).unwrap();
                let (mut schedule, mut ours) = (One(1), 0);
                let since = Instant::now();
                let call = scheduled(&session, &Light).pipeline(depth);
                call.run(&mut schedule, &mut ours, &shards, &mut locals, rounds).unwrap();
                best = best.min(since.elapsed().as_nanos() as f64 / rounds as f64);
                assert!(depth > 1 || ours == model);
            }
            by_depth.push(format!("{threads} threads, depth {depth}: +{:.0} ns", best - best_plain));
        }
        eprintln!("{shards} shards: {best_plain:.0} ns a round by hand; {}", by_depth.join("; "));
    }
}
