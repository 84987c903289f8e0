//! Runs seeds.

use std::collections::BTreeMap;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use stradsap::prelude::*;
use stradsap::{ClusterOptions, Error};
use stradsap_dds_server::simulation::World;

use crate::plan::{Fault, Plan};
use crate::program;

/// No program takes longer, whatever happens, on its own clock.
const LONGEST: Duration = Duration::from_secs(600);

/// What came of a seed.
#[derive(Debug, PartialEq)]
pub(crate) struct Came {
    digest: u64,
    took: Duration,
    /// The error that it ended with, where the faults allow one.
    error: Option<String>,
    /// How many workers and servers there were to be.
    started: u64,
    /// What happened how often.
    counted: BTreeMap<&'static str, u64>,
}

pub(crate) fn run(seed: u64) -> Came {
    play(&Plan::of(seed))
}

pub(crate) fn play(plan: &Plan) -> Came {
    World::run(plan.seed, plan.pace, LONGEST, |world| {
        plan.begin(world);
        let ended = catch_unwind(AssertUnwindSafe(|| attempt(world, plan)));
        let error = match ended {
            Ok(Ok(())) => None,
            Ok(Err(error)) if allowed(plan, &error) => Some(error.to_string()),
            Ok(Err(error)) => fail(plan, world, &error.to_string()),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_string()));
                fail(plan, world, &text.unwrap_or_default())
            }
        };
        if world.panics() > 0 {
            fail(plan, world, "a task or thread of a process has panicked");
        }
        Came {
            digest: world.digest(),
            took: world.now(),
            error,
            started: (plan.workers + plan.servers) as u64,
            counted: world.counted(),
        }
    })
}

fn attempt(world: &World, plan: &Plan) -> stradsap::Result<()> {
    let session = Session::builder().threads(1).verify(false).explain(false).build()?;
    let options = ClusterOptions::new(plan.workers).threads(1).dds_servers(plan.servers);
    session.start_workers(&options.snapshot_every(plan.snapshot_every).slow_body(Duration::ZERO))?;
    program::run(&session, world, plan)
}

/// Whether these faults may end a program with this error.
fn allowed(plan: &Plan, error: &Error) -> bool {
    let Error::Cluster(error) = error else { return false };
    match error {
        stradsap::ClusterError::PartLost { .. } => plan.losses() > 1,
        stradsap::ClusterError::AllLost(_) => plan.losses() >= plan.workers.min(2),
        _ => false,
    }
}

fn fail(plan: &Plan, world: &World, why: &str) -> ! {
    let last = world.last_events();
    let last = last[last.len().saturating_sub(60)..].join("\n");
    panic!(
        "{why}\n{plan:?}\nThe last events:\n{last}\nAgain: STRADSAP_SEED={} cargo test -p stradsap-tests --test simulation",
        plan.seed
    );
}

/// A number that the environment gives.
fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: not a number")))
}

fn seeds(most: u64) -> Range<u64> {
    if let Some(seed) = number("STRADSAP_SEED") {
        return seed..seed + 1;
    }
    let from = number("STRADSAP_FROM").unwrap_or(0);
    from..from + number("STRADSAP_SEEDS").unwrap_or(most)
}

#[test]
fn clusters_under_faults_compute_what_one_piece_of_memory_does() {
    let (seeds, since) = (seeds(1000), Instant::now());
    let (next, failed) = (AtomicU64::new(seeds.start), Mutex::new(Vec::new()));
    let (took, errors) = (Mutex::new(Duration::ZERO), Mutex::new(BTreeMap::new()));
    let counted = Mutex::new(BTreeMap::new());
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= seeds.end {
                        break;
                    }
                    match catch_unwind(|| run(seed)) {
                        Ok(came) => {
                            if number("STRADSAP_DIGESTS").is_some() {
                                println!("{seed} {:016x}", came.digest);
                            }
                            *took.lock().unwrap() += came.took;
                            for (kind, n) in came.counted {
                                *counted.lock().unwrap().entry(kind).or_insert(0) += n;
                            }
                            let kind = came.error.map(|error| error.chars().take(24).collect::<String>());
                            *errors.lock().unwrap().entry(kind).or_insert(0) += 1;
                        }
                        Err(_) => failed.lock().unwrap().push(seed),
                    }
                }
            });
        }
    });
    println!(
        "{seeds:?} in {:?}: {} s of simulated time, {:?}",
        since.elapsed(),
        took.lock().unwrap().as_secs(),
        errors.lock().unwrap()
    );
    println!("{:?}", counted.lock().unwrap());
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "these seeds failed: {failed:?}");
}

#[test]
fn a_seed_gives_the_same_events_each_time() {
    for seed in seeds(40) {
        assert_eq!(run(seed), run(seed), "seed {seed}");
    }
}

/// Each of the two says that it can't reach the other one. Both had to go where the driver heard both before it had acted on either.
#[test]
fn of_two_workers_that_are_cut_off_from_each_other_one_goes() {
    let mut lost = 0;
    for seed in seeds(150) {
        let plan = Plan::of(seed);
        let faults = vec![(seed % 700, Fault::Between(60_000))];
        let came = play(&Plan { workers: 2 + seed as usize % 3, servers: 0, faults, ..plan });
        assert_eq!(came.error, None, "seed {seed}");
        let gone = came.counted["start"] - 1 - came.started;
        assert!(gone <= 1, "seed {seed}: {gone} processes were lost");
        lost += gone;
    }
    assert!(lost > 0, "nobody was lost");
}

/// Some workers may have heard of the next loop, and sent parts to others that had not, when the driver was stopped.
#[test]
fn a_driver_that_is_stopped_loses_nobody() {
    for seed in seeds(150) {
        let plan = Plan::of(seed);
        // All have joined by then: who is still on the way is started again.
        let faults = vec![(100 + seed * 7 % 700, Fault::StopDriver(5_000 + seed * 100))];
        let came = play(&Plan { workers: 2 + seed as usize % 3, faults, ..plan });
        assert_eq!(came.error, None, "seed {seed}");
        assert_eq!(came.counted["start"], 1 + came.started, "seed {seed}: processes were lost");
    }
}

/// What workers had sent it is lost where they give it up while it is stopped. They may have answered by then, and the driver, which
/// is stopped itself, takes the worker for silent no sooner than it goes on.
#[test]
fn a_worker_that_is_stopped_beside_the_driver_waits_for_nobody_for_ever() {
    let mut lost = 0;
    for seed in seeds(150) {
        let plan = Plan::of(seed);
        let since = 300 + seed * 7 % 700;
        let faults = vec![(since, Fault::Stop(5_000)), (since + 500 + seed * 11 % 1_500, Fault::StopDriver(15_000))];
        let came = play(&Plan { workers: 2 + seed as usize % 3, servers: 0, faults, ..plan });
        assert_eq!(came.error, None, "seed {seed}");
        lost += came.counted["start"] - 1 - came.started;
    }
    assert!(lost > 0, "nobody was lost");
}
