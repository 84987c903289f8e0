//! A job of some seconds that is mostly scheduled programs, on shards that other loops write as well.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;

use crate::common::{below, mix};

/// Makes this executable that job.
pub const SCHEDULED: &str = "STRADSAP_TEST_SCHEDULED";

/// A program says so after every this many rounds.
pub const SAYS: usize = 6;

const SHARDS: usize = 7;
const ROUNDS: usize = 24;
/// In one epoch this many bytes travel that no log of them is kept.
const MANY_BYTES: usize = 5;

#[derive(Serialize, Deserialize)]
struct Mixing {
    epoch: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Step {
    word: u64,
    ballast: Vec<u8>,
}

impl Program for Mixing {
    type Shard = Vec<u64>;
    type Local = (Vec<u64>, [u64; 2]);
    type Model = Vec<u64>;
    type Job = Step;
    type Partial = u64;
    type Change = Vec<u64>;

    fn update(&self, job: &Step, shard: &Vec<u64>, local: &(Vec<u64>, [u64; 2])) -> u64 {
        // As long as something worth doing would take.
        std::thread::sleep(Duration::from_micros(60));
        let seen = local.0.iter().chain(&local.1).chain(shard).fold(job.word, |hash, &word| mix(hash ^ word));
        mix(seen ^ self.epoch)
    }
    fn aggregate(&self, job: &Step, partials: Partials<'_, u64>, model: &mut Vec<u64>) -> Vec<u64> {
        let word = partials.fold(job.word, |hash, word| mix(hash ^ word));
        let at = below(word, model.len());
        model[at] ^= word;
        vec![word; 1 + below(word, 3)]
    }
    fn apply(&self, job: &Step, change: &Vec<u64>, shard: &Vec<u64>, local: &mut (Vec<u64>, [u64; 2])) {
        for &word in change {
            local.1[(word % 2) as usize] = mix(word ^ local.1[0] ^ shard[0] ^ job.word);
            if local.0.len() < 20 { local.0.push(word) } else { local.0.clear() }
        }
    }
    fn applied_to(&self, job: &Step) -> Shards {
        if job.word.is_multiple_of(3) { Shards::One(below(job.word, SHARDS)) } else { Shards::All }
    }
}

#[derive(Clone)]
struct ByModel {
    state: u64,
    ballast: usize,
}

impl Schedule<Vec<u64>, Step, Vec<u64>> for ByModel {
    fn schedule(&mut self, round: usize, model: &Vec<u64>, jobs: &mut Vec<Step>) {
        self.state = mix(self.state ^ model[round % model.len()]);
        for k in 0..1 + self.state % 3 {
            jobs.push(Step { word: mix(self.state ^ k), ballast: vec![round as u8; self.ballast] });
        }
    }
    fn observe(&mut self, job: &Step, change: &Vec<u64>) {
        assert!(job.ballast.len() == self.ballast);
        self.state ^= change[0];
    }
}

/// Runs programs of every depth, with loops and changes of the driver between.
#[allow(clippy::print_stdout)]
pub fn run(session: &Session, epochs: usize) -> stradsap::Result<()> {
    let mut shards =
        DVector::from_fn(session, SHARDS, |s| (0..3 + s as u64).map(|k| mix(s as u64 * 9 + k)).collect::<Vec<u64>>())?;
    let mut locals = DVector::from_fn(session, SHARDS, |s| (vec![s as u64], [0u64; 2]))?;
    let (mut schedule, mut model) = (ByModel { state: 1, ballast: 3 }, vec![0u64; 5]);
    println!("begins at 0");
    for epoch in 0..epochs {
        let program = Mixing { epoch: epoch as u64 };
        schedule.ballast = if epoch == MANY_BYTES { 1 << 18 } else { 3 };
        let call = scheduled(session, &program).pipeline(1 + epoch % 4);
        let report = call.run_until(&mut schedule, &mut model, &shards, &mut locals, |settled, _| {
            if settled.is_multiple_of(SAYS) {
                println!("round {epoch}.{settled}");
            }
            settled == ROUNDS
        })?;
        assert_eq!(report.rounds(), ROUNDS + epoch % 4);
        println!("epoch {epoch} {:016x}", model[0]);
        std::thread::sleep(Duration::from_millis(8));
        match epoch % 5 {
            1 => drop(async_parallel_for!(0..SHARDS, [epoch, &mut locals], |i| locals[i].1[0] ^= epoch as u64)?),
            2 => drop(async_parallel_for!(0..SHARDS, [&locals, &mut shards], |i| shards[i][0] ^= locals[i].1[1])?),
            3 => locals.set(epoch % SHARDS, (vec![9], [epoch as u64; 2]))?,
            _ => {}
        }
        // What the program has seen stays so.
        let seen: Vec<u64> = locals.iter()?.map(|local| local.1[0]).collect();
        std::thread::sleep(Duration::from_millis(8));
        assert_eq!(locals.iter()?.map(|local| local.1[0]).collect::<Vec<_>>(), seen, "epoch {epoch}");
    }
    println!("digest {} {:?} {}", locals.digest()?, model, schedule.state);
    Ok(())
}
