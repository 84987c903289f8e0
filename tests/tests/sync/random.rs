//! Random programs against their interpreter, bit for bit.

use std::time::Duration;

use stradsap::Error;
use stradsap::prelude::*;

use super::interpreter::{self, State, Totals};
use super::places::{PLACES, copies};
use super::program::{Failing, Program, Rng};
use super::running::{Bits, Loop, TABLE};
use crate::jobs::runner::{Test, Watch, seeds};
use crate::places::Place;

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = vec![
        Test::new("small random programs", 4 * 3600, || here(0, 200, 6000, 40)),
        Test::new("large random programs", 4 * 3600, || here(1_000_000, 20, 500, 600)),
    ];
    for place in PLACES.iter().flat_map(|places| &places[1..]).copied() {
        tests.push(Test::new(format!("random programs: {place}"), 4 * 3600, move || on(place)));
    }
    tests
}

/// In this process, on one to four threads.
fn here(from: u64, short: u64, long: u64, most: usize) {
    for seed in seeds(short, long) {
        let _watch = Watch::new(&format!("STRADSAP_SEED={seed} random programs"), Duration::from_secs(60));
        for places in PLACES {
            check(from + seed, &places[0].verified(), places[0], most);
        }
    }
}

/// On workers: all on the same session, one after the other.
fn on(place: Place) {
    let session = place.verified();
    for seed in seeds(6, 600) {
        let _watch = Watch::new(&format!("STRADSAP_SEED={seed} random programs: {place}"), Duration::from_secs(60));
        check(seed, &session, place, if seed % 4 == 0 { 300 } else { 50 });
    }
}

fn check(seed: u64, session: &Session, place: Place, most: usize) {
    let mut rng = Rng::new(seed);
    let copies = copies(session);
    let one_each = place.workers > 0 && place.threads == 1;
    let mut program = Program::random(&mut rng, copies, one_each, most);
    let (mut state, mut totals) =
        (State::new(&program.lens), Totals { sum: 0.25, low: i64::MAX, high: -1.0, count: 0 });
    let mut own = Loop::new(session, &program, rng.one_in(2), &totals).unwrap();
    for (k, call) in program.calls.clone().iter().enumerate() {
        let case = || format!("STRADSAP_SEED={seed} on {place}, call {k}: {call:?}");
        own.prepare(call).unwrap();
        for (i, ops) in &call.disturbed {
            program.input[*i].clone_from(ops);
        }
        if let Some([a, b, c, d]) = call.set {
            state.a[a].set(0.5);
            state.b[b].set([1.5; 6]);
            state.c[c].set(-7);
            state.d[d].set(super::kinds::Chain(9));
        }
        let as_what = (call.policy, call.rule, call.interval, copies);
        let input = &program.input;
        let expected = interpreter::call(input, call.minibatch, as_what, call.failing, &TABLE, &mut state, &mut totals);
        match (own.run(call), expected) {
            (Ok(report), Ok(())) => {
                assert_eq!((report.minibatches(), report.copies()), (input.len().div_ceil(call.minibatch), copies));
            }
            (Err(Error::Minibatch { minibatch, problem, .. }), Err(expected)) => {
                assert!(expected.contains(&minibatch), "{minibatch} of {expected:?}: {}", case());
                let word = if call.failing == Failing::Err { "fails" } else { "panics" };
                assert!(problem.to_string().contains(&format!("this element {word} on purpose")), "{problem}");
            }
            (ended, expected) => panic!("{}: {ended:?} instead of {expected:?}", case()),
        }
        let (found, expected) = (own.bits(), Bits::of(&state, &totals));
        assert!(found == expected, "{}:\n{found:?}\ninstead of\n{expected:?}", case());
    }
}
