//! What bodies are given as values doesn't change, whatever a type hides.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use serde::{Deserialize, Serialize};
use stradsap::prelude::*;
use stradsap::{Error, LoopProblem};

use crate::common::session as on;

/// Nobody sees at its type that it holds an atomic.
#[derive(Serialize, Deserialize)]
struct Counter {
    name: String,
    hits: AtomicU64,
}

fn counter() -> Counter {
    Counter { name: "hits".into(), hits: AtomicU64::new(0) }
}

/// Values that stay what they are pass, large or small.
#[test]
fn values_that_stay_what_they_are_pass() {
    let session = on(2);
    let mut x = DVector::from_fn(&session, 1000, |i| i as f64).unwrap();
    let (table, read, rate) = (vec![0.5f64; 1 << 16], counter(), 2.0);
    async_parallel_for!(0..1000, [table, read, rate, &mut x], |i| {
        x[i] += rate * table[i] + read.hits.load(SeqCst) as f64 + read.name.len() as f64;
    })
    .unwrap();
    assert_eq!(x.get(3).unwrap(), 8.0);
}

/// A value that can't be written out is still a value where nothing has to be.
#[derive(Deserialize)]
struct Unwritable(f64);

impl Serialize for Unwritable {
    fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(serde::ser::Error::custom("not sorted"))
    }
}

#[test]
fn values_that_can_not_be_written_out_pass_in_one_process() {
    let session = on(2);
    let mut x = DVector::from_fn(&session, 10, |i| i as f64).unwrap();
    let factor = Unwritable(3.0);
    async_parallel_for!(0..10, [factor, &mut x], |i| x[i] *= factor.0).unwrap();
    assert_eq!(x.get(3).unwrap(), 9.0);
}

#[derive(Serialize, Deserialize)]
struct Counting {
    counter: Counter,
}

impl Program for Counting {
    type Shard = u64;
    type Local = u64;
    type Model = u64;
    type Job = usize;
    type Partial = u64;
    type Change = u64;

    fn update(&self, _: &usize, shard: &u64, _: &u64) -> u64 {
        self.counter.hits.fetch_add(1, SeqCst);
        *shard
    }
    fn aggregate(&self, _: &usize, partials: Partials<'_, u64>, model: &mut u64) -> u64 {
        *model = partials.sum();
        *model
    }
    fn apply(&self, _: &usize, change: &u64, _: &u64, local: &mut u64) {
        *local += *change;
    }
}

#[test]
fn a_scheduled_program_that_counts_in_itself_is_an_error() {
    let session = on(2);
    let shards = DVector::from_fn(&session, 4, |i| i as u64).unwrap();
    let mut locals = DVector::from_fn(&session, 4, |_| 0u64).unwrap();
    let program = Counting { counter: counter() };
    let mut schedule = schedule_round_robin(4, 2);
    let error = scheduled(&session, &program).run(&mut schedule, &mut 0, &shards, &mut locals, 3).unwrap_err();
    assert!(matches!(error, Error::Loop { problem: LoopProblem::SharedState { .. }, .. }), "{error:?}");
}
