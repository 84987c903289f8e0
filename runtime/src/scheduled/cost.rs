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

/// Shards that take their time.
#[derive(Serialize, Deserialize)]
struct Heavy {
    steps: u64,
}

impl Program for Heavy {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = u64;
    type Partial = u64;
    type Change = u64;

    fn update(&self, job: &u64, shard: &u64, local: &u64) -> u64 {
        (0..self.steps)
            .fold(job ^ shard ^ local, |x, _| black_box(x.wrapping_mul(6_364_136_223_846_793_005) ^ (x >> 29)))
    }
    fn aggregate(&self, _: &u64, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model = partials.fold(*model, u64::wrapping_add);
        *model
    }
    fn apply(&self, _: &u64, change: &u64, _: &u64, local: &mut u64) {
        *local = local.rotate_left(7) ^ change;
    }
}

#[test]
#[ignore = "a measurement"]
fn heavy_rounds_on_two_threads() {
    for (steps, rounds) in [(5_000, 20_000), (20_000, 5_000), (200_000, 500)] {
        let mut seconds = Vec::new();
        let mut models = Vec::new();
        for threads in [1, 2] {
            let session = Session::builder().threads(threads).build().unwrap();
            let shards = DVector::from_fn(&session, 8, |i| i as u64).unwrap();
            let mut best = f64::MAX;
            for _ in 0..3 {
                let mut locals = DVector::from_fn(&session, 8, |_| 0).unwrap();
                let (mut schedule, mut model) = (One(1), 0);
                let heavy = Heavy { steps };
                let call = scheduled(&session, &heavy);
                let report = call.run(&mut schedule, &mut model, &shards, &mut locals, rounds).unwrap();
                best = best.min(report.seconds_running());
                models.push(model);
            }
            seconds.push(best);
        }
        assert!(models.iter().all(|model| *model == models[0]));
        let each = seconds[0] / rounds as f64 * 1e6;
        eprintln!("rounds of {each:.0} us: 2 threads are {:.2} times as fast", seconds[0] / seconds[1]);
    }
}
