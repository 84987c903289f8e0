//! Tests that start workers, which are this executable once more: hence a `main` of its own instead of the standard harness.
//! A test's name begins with its module's: `cargo test -p stradsap-tests --test workers -- sync::`.

#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod advice;
mod born;
mod captured;
mod chaos;
mod cluster;
mod coloured;
mod data;
mod everywhere;
mod generated;
mod homes;
mod hostile;
mod inner;
mod kept_plans;
mod long;
mod looked_at;
mod matrices;
mod odd;
mod old;
mod outcomes;
mod places;
mod poisoned;
mod programs;
mod random;
mod ranges;
mod rows;
mod scheduled;
mod seen;
mod sharing;
mod slices;
mod sound;
mod spilled;
mod sums;
mod sync;
mod tables;
mod undone;
mod views;

use places::{ALONE, Expected, Place, at_servers, each_second, place};
use stradsap::prelude::*;
use stradsap_test_jobs::job;
use stradsap_test_jobs::runner;
use stradsap_test_jobs::{self as jobs, common};

/// Where `sound` runs.
const SOUND: [Place; 9] = [
    ALONE,
    place(0, 2, 0),
    place(0, 4, 0),
    place(1, 1, 0),
    place(1, 4, 0),
    place(2, 1, 0),
    place(2, 2, 0),
    place(3, 1, 2),
    place(3, 2, 0),
];

/// Where `captured`, `generated`, `inner`, `kept_plans`, `looked_at`, `matrices`, `odd`, `old`, `outcomes`, `poisoned`, `sharing`, `ranges`, `rows`, `slices`, `sums`, `tables`, `undone` and `views` run.
const OUTCOMES: [Place; 5] = [place(0, 2, 0), place(0, 4, 0), place(1, 1, 0), place(2, 2, 0), place(3, 1, 0)];

/// Where `coloured` runs: on each number of workers, each number of threads. Each second one has all numbers, and servers.
const COLOURED: [Place; 14] = [
    place(0, 2, 0),
    place(0, 3, 0),
    place(1, 1, 0),
    place(1, 2, 0),
    place(1, 3, 0),
    place(2, 1, 0),
    place(2, 2, 0),
    place(2, 3, 0),
    place(3, 1, 0),
    place(3, 2, 2),
    place(3, 3, 0),
    place(4, 1, 0),
    place(4, 2, 0),
    place(4, 3, 2),
];

/// Where `programs` run.
const PROGRAMS: [Place; 6] =
    [place(0, 3, 0), place(0, 8, 0), place(2, 1, 0), place(2, 2, 0), place(3, 1, 0), place(3, 8, 0)];

/// Where `spilled` runs: with little memory.
const SPILLED: [Place; 5] = [
    place(0, 3, 0).spilled(),
    place(1, 2, 0).spilled(),
    place(2, 3, 0).spilled(),
    place(3, 1, 2).spilled(),
    place(4, 1, 0).spilled(),
];

/// Where elements are with two servers between calls.
const AT_SERVERS: [Place; 4] = [at_servers(1, 2), at_servers(2, 3), at_servers(3, 1), at_servers(4, 1).spilled()];

#[stradsap::main]
fn main(session: &Session) -> Result<(), Box<dyn std::error::Error>> {
    // Some tests start this executable to be the program that they look at.
    if let Some(ended) = job::asked_for(session)
        .or_else(|| cluster::asked_for(session))
        .or_else(|| born::memory::asked_for(session))
        .or_else(|| born::saved::asked_for(session))
    {
        return Ok(ended?);
    }
    let spilled = Expected::new(ALONE, Place::session);
    runner::run(vec![
        // Those that take longest first.
        ("chaos", chaos::tests()),
        ("chaos::losses", chaos::losses::tests()),
        ("born", born::tests()),
        ("sync", sync::tests()),
        ("chaos::given_up", chaos::given_up::tests()),
        ("chaos::second", chaos::second::tests()),
        ("scheduled", scheduled::tests()),
        ("chaos::slow", chaos::slow::tests()),
        ("chaos::pairs", chaos::pairs::tests()),
        ("chaos::operators", chaos::operators::tests()),
        ("chaos::minibatches", chaos::minibatches::tests()),
        ("chaos::scheduled", chaos::scheduled::tests()),
        (cluster::GROUP, cluster::tests()),
        (
            "coloured",
            places::tests(&each_second(&COLOURED), &Expected::new(ALONE, Place::session), 120, coloured::SCENARIOS),
        ),
        ("data", data::tests()),
        ("everywhere", everywhere::tests()),
        ("generated", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, generated::SCENARIOS)),
        (
            "generated::killed",
            places::killed(place(3, 1, 0), &Expected::new(ALONE, Place::session), 120, generated::SCENARIOS),
        ),
        ("hostile", hostile::tests()),
        ("sound", places::tests(&SOUND, &Expected::new(ALONE, Place::session), 60, sound::SCENARIOS)),
        ("spilled", places::tests(&SPILLED, &spilled, 120, spilled::SCENARIOS)),
        ("spilled::killed", places::killed(place(3, 1, 0).spilled(), &spilled, 120, spilled::SCENARIOS)),
        ("spilled::alone", places::alone(120, spilled::ALONE)),
        ("outcomes", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, outcomes::SCENARIOS)),
        ("poisoned", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, poisoned::SCENARIOS)),
        ("sharing", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, sharing::SCENARIOS)),
        ("ranges", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, ranges::SCENARIOS)),
        ("inner", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, inner::SCENARIOS)),
        ("odd", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, odd::SCENARIOS)),
        ("old", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, old::SCENARIOS)),
        ("kept_plans", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, kept_plans::SCENARIOS)),
        ("captured", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, captured::SCENARIOS)),
        ("programs", places::tests(&PROGRAMS, &Expected::new(ALONE, Place::session), 60, programs::SCENARIOS)),
        ("matrices", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, matrices::SCENARIOS)),
        (
            "programs::killed",
            places::killed(place(3, 1, 0), &Expected::new(ALONE, Place::session), 60, programs::SCENARIOS),
        ),
        ("programs::servers", at_home(programs::SCENARIOS)),
        ("coloured::servers", at_home(coloured::SCENARIOS)),
        ("slices", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, slices::SCENARIOS)),
        ("views", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, views::SCENARIOS)),
        ("rows", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, rows::SCENARIOS)),
        ("tables", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, tables::SCENARIOS)),
        ("undone", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 60, undone::SCENARIOS)),
        ("sums", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, sums::SCENARIOS)),
        ("advice", places::alone(120, advice::ALONE)),
        ("generated::alone", places::alone(120, generated::ALONE)),
        ("homes", places::alone(60, homes::ALONE)),
        ("long", long::tests()),
        ("looked_at", places::tests(&OUTCOMES, &Expected::new(ALONE, Place::session), 120, looked_at::SCENARIOS)),
        ("looked_at::servers", at_home(looked_at::SCENARIOS)),
        ("looked_at::alone", places::alone(60, looked_at::ALONE)),
        ("kept_plans::alone", places::alone(120, kept_plans::ALONE)),
        ("old::alone", places::alone(60, old::ALONE)),
        ("poisoned::alone", places::alone(60, poisoned::ALONE)),
        ("tables::alone", places::alone(60, tables::ALONE)),
        ("undone::alone", places::alone(60, undone::ALONE)),
        ("inner::verified", verified(inner::SCENARIOS)),
        ("odd::verified", verified(odd::SCENARIOS)),
        ("old::verified", verified(old::SCENARIOS)),
        ("rows::verified", verified(rows::SCENARIOS)),
        ("tables::verified", verified(tables::SCENARIOS)),
    ])
}

/// With elements at servers: undisturbed, and with a worker and with a server killed.
fn at_home(scenarios: &'static [seen::Scenario]) -> Vec<runner::Test> {
    let expected = Expected::new(ALONE, Place::session);
    let mut tests = places::tests(&AT_SERVERS, &expected, 120, scenarios);
    tests.extend(places::killed(at_servers(3, 1), &expected, 120, scenarios));
    tests.extend(places::killed_as("server", at_servers(2, 2), &expected, 120, scenarios));
    tests
}

/// In this process, where each loop is replayed.
fn verified(scenarios: &'static [seen::Scenario]) -> Vec<runner::Test> {
    places::tests(&[place(0, 3, 0)], &Expected::new(ALONE, Place::verified), 120, scenarios)
}
