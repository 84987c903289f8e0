use std::sync::Mutex;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::session::locked;
use crate::{DVector, Partials, Program, Session, schedule_round_robin, scheduled};

/// The updates in the order in which they were begun: round and shard.
static BEGUN: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// Shards whose number says how long they take; the last is the heaviest.
#[derive(Serialize, Deserialize)]
struct Uneven;

impl Program for Uneven {
    type Shard = usize;
    type Local = usize;
    type Model = usize;
    type Job = usize;
    type Partial = usize;
    type Change = usize;

    fn update(&self, &job: &usize, &shard: &usize, local: &usize) -> usize {
        locked(&BEGUN).push((job, shard));
        std::thread::sleep(Duration::from_micros(200 + 100 * shard as u64));
        shard + local
    }
    fn aggregate(&self, _: &usize, partials: Partials<'_, usize>, model: &mut usize) -> usize {
        assert!(partials.enumerate().all(|(shard, partial)| partial == shard + *model), "in the order of the shards");
        *model += 1;
        *model
    }
    fn apply(&self, _: &usize, change: &usize, _: &usize, local: &mut usize) {
        *local = *change;
    }
    fn weight(&self, _: &usize, &shard: &usize) -> u64 {
        shard as u64
    }
}

#[test]
fn the_heaviest_are_begun_first() {
    const SHARDS: usize = 6;
    let session = Session::builder().threads(2).build().unwrap();
    let shards = DVector::from_fn(&session, SHARDS, |shard| shard).unwrap();
    let mut locals = DVector::from_fn(&session, SHARDS, |_| 0).unwrap();
    let (mut schedule, mut model) = (schedule_round_robin(10, 1), 0);
    scheduled(&session, &Uneven).run(&mut schedule, &mut model, &shards, &mut locals, 10).unwrap();
    let begun = std::mem::take(&mut *locked(&BEGUN));
    let of =
        |round: usize| begun.iter().filter(move |(job, _)| *job == round).map(|&(_, shard)| shard).collect::<Vec<_>>();
    // Nobody knows yet how long an update takes.
    assert_eq!(of(0), [0, 1, 2, 3, 4, 5]);
    for round in 1..10 {
        let mut first = of(round);
        // Two threads: they may pass each other by one.
        let ordered = first.windows(2).filter(|pair| pair[0] > pair[1]).count();
        assert!(first[0] >= 4 && ordered >= 3, "round {round}: {first:?}");
        first.sort_unstable();
        assert_eq!(first, [0, 1, 2, 3, 4, 5]);
    }
}
