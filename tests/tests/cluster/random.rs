//! Random loops on workers against the same loops in this process.

use std::rc::Rc;
use std::time::Duration;

use stradsap::Error;
use stradsap::prelude::*;

use crate::jobs::runner::{Test, Watch, seeds};
use crate::places::{ALONE, Place, place};
use crate::random::program::{Program, Rng, SHAPES};
use crate::random::running::{Failing, HOWS, How, Loop, OnPurpose, State, bits};
use crate::random::sequences::{self, Length};

const PLACES: [Place; 4] = [ALONE, place(1, 2, 0), place(2, 1, 1), place(3, 2, 0)];

pub(crate) fn tests() -> Vec<Test> {
    vec![
        // (Seeds that found something once come first.)
        Test::new("small random loops", 4 * 3600, || run(0, &[184], 30..4000, 60)),
        Test::new("large random loops", 4 * 3600, || run(1_000_000, &[45], 8..400, 4000)),
        Test::new("sequences of short random loops", 4 * 3600, || in_sequence(2_000_000, 10, 2000, Length::Short)),
        Test::new("sequences of longer random loops", 4 * 3600, || in_sequence(3_000_000, 5, 200, Length::Middle)),
        Test::new("sequences around the threshold of sampling", 4 * 3600, || {
            in_sequence(4_000_000, 1, 20, Length::AroundTheThreshold);
        }),
    ]
}

/// As many seeds as `numbers` begins with; in the long mode as many as it ends with.
fn run(from: u64, first: &[u64], numbers: std::ops::Range<u64>, most_iterations: usize) {
    let sessions = PLACES.map(|place| Rc::new(place.session()));
    for seed in first.iter().copied().chain(seeds(numbers.start, numbers.end)) {
        let _watch = Watch::new(&format!("STRADSAP_SEED={seed} random loops"), Duration::from_secs(30));
        check(from + seed, &sessions, most_iterations);
    }
}

/// Loops of several kinds on the same DVectors.
fn in_sequence(from: u64, short: u64, long: u64, length: Length) {
    let start = || PLACES.map(|place| Rc::new(place.session()));
    let mut sessions = start();
    for (k, seed) in seeds(short, long).enumerate() {
        // A loop that went elsewhere than foreseen runs serially for the rest of its session.
        if k % 5 == 4 {
            sessions = start();
        }
        let _watch = Watch::new(&format!("STRADSAP_SEED={seed} sequences of loops"), Duration::from_secs(120));
        sequences::check(from + seed, length, &sessions);
    }
}

/// How a call ended: what must be the same everywhere.
#[derive(Debug, PartialEq)]
enum End {
    Well { order: Vec<usize>, strategy: Strategy, misspeculations: usize, reused: bool },
    Failed(usize),
    Panicked(usize),
}

fn end_of(case: &str, ended: stradsap::Result<LoopReport>) -> End {
    match ended {
        Ok(report) => End::Well {
            order: report.serial_order().collect(),
            strategy: report.strategy(),
            misspeculations: report.misspeculations(),
            reused: report.reused(),
        },
        Err(Error::Body { iteration, source, .. }) => {
            assert!(source.to_string().starts_with(&OnPurpose.to_string()), "{case}: {source}");
            End::Failed(iteration)
        }
        Err(Error::Panic { iteration, message, .. }) => {
            assert_eq!(message, "this iteration panics on purpose", "{case}");
            End::Panicked(iteration)
        }
        Err(other) => panic!("{case}: {other}"),
    }
}

/// Runs a random loop, twice or more, then with bodies that fail, and once more.
fn check(seed: u64, sessions: &[Rc<Session>], most_iterations: usize) {
    let mut rng = Rng::new(seed);
    let shape = SHAPES[rng.below(SHAPES.len())];
    let how = HOWS[rng.below(HOWS.len())];
    let mut program = Program::random(&mut rng, shape, most_iterations);
    let case = format!("seed {seed}: {shape:?}, {how:?}, {} iterations", program.steps.len());
    let state = State::new(&program.lens);
    let verify = rng.one_in(4);
    let mut loops: Vec<Loop> = Vec::new();
    for session in sessions {
        session.verify(verify);
        let new = Loop::new(Rc::clone(session), &program, &state);
        loops.push(new.unwrap_or_else(|error| panic!("{case}: {error}")));
    }
    let disturbed = rng.one_in(2);
    let rounds = [Failing::Never, Failing::Never, Failing::Err, Failing::Never, Failing::Panic, Failing::Never];
    for (round, failing) in rounds.into_iter().enumerate() {
        all_the_same(&format!("{case}, round {round}, {failing:?}"), &mut loops, how, failing);
        if disturbed && round == 0 {
            for i in program.disturb(&mut rng) {
                loops.iter_mut().for_each(|l| l.steps.set(i, program.steps[i]).unwrap());
            }
        }
    }
    sessions.iter().for_each(|session| session.verify(false));
}

fn all_the_same(case: &str, loops: &mut [Loop], how: How, failing: Failing) {
    let mut expected = None;
    for (l, place) in loops.iter_mut().zip(PLACES) {
        let case = format!("{case}, {place}");
        let end = end_of(&case, l.run(how, failing));
        let found = (end, bits(&l.state()), l.sum.get().to_bits(), l.count.get());
        match &expected {
            None => expected = Some(found),
            Some(expected) => assert!(found == *expected, "{case}:\n{found:?}\ninstead of\n{expected:?}"),
        }
    }
}
