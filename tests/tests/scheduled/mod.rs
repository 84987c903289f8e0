//! Scheduled programs: one body for every number of threads and workers and every depth of the pipeline.

mod failures;
mod interpreter;
mod models;
mod program;
mod random;
mod rotations;
mod trips;

use stradsap::prelude::*;

use crate::jobs::runner::Test;
use crate::places::{self, ALONE, Expected, Place, place};
use crate::scenarios;
use crate::seen::Scenario;

const SCENARIOS: &[Scenario] = scenarios![
    random::light,
    random::heavy,
    random::one_after_the_other,
    failures::panics,
    failures::misuse,
    failures::unsteady,
    models::lasso,
    models::rotation,
    models::factorisation,
    rotations::one_turn_after_the_other,
    rotations::from_any_round,
    rotations::blocks_pass_the_workers_once,
    rotations::failures_of_turns,
];

/// In which a worker is killed as well.
const KILLED: &[Scenario] = scenarios![rotations::from_any_round];

const PLACES: [Place; 10] = [
    ALONE,
    place(0, 2, 0),
    place(0, 3, 0),
    place(0, 4, 0),
    place(1, 1, 0),
    place(1, 2, 0),
    place(2, 1, 2),
    place(2, 2, 0),
    place(3, 1, 0),
    place(4, 2, 0),
];

/// Half of the sessions verify.
fn session(place: Place) -> Session {
    if place.threads == 2 { place.verified() } else { place.session() }
}

pub(crate) fn tests() -> Vec<Test> {
    let expected = Expected::new(ALONE, session);
    let mut tests = places::tests(&PLACES, &expected, 60, SCENARIOS);
    tests.extend(places::killed(place(3, 1, 0), &expected, 60, KILLED));
    tests.extend(trips::tests());
    tests
}
