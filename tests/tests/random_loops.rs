//! Random loops against their promise: the result equals the replay of the claimed serial order bit by bit, for every
//! strategy and any number of threads; with `order = Preserve` that order is the loop's own. Failing bodies leave
//! everything as it was.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test one_process random_loops` runs 10,000 loops instead of some
//! hundreds; `STRADSAP_SEED=n` runs the one with that seed.

use std::rc::Rc;

use crate::random::program::{Op, Program, Rng, SHAPES, Shape, Step, WRITE};
use crate::random::running::{Failing, HOWS, How, Loop, OnPurpose, Plain, State, bits, plain_iteration};
use crate::random::sequences::{self, Length};
use stradsap::Error;
use stradsap::prelude::*;

fn new_loop(program: &Program, state: &State, threads: usize, verify: bool) -> stradsap::Result<Loop> {
    let session = Session::builder().threads(threads).verify(verify).build()?;
    Loop::new(Rc::new(session), program, state)
}

/// Runs one random loop in one way on several numbers of threads, and compares everything.
fn check(seed: u64, most_iterations: usize) {
    let mut rng = Rng::new(seed);
    let shape = SHAPES[rng.below(SHAPES.len())];
    let how = HOWS[rng.below(HOWS.len())];
    let mut program = Program::random(&mut rng, shape, most_iterations);
    let case = format!("STRADSAP_SEED={seed}: {shape:?}, {how:?}, {} iterations", program.steps.len());
    let before = State::new(&program.lens);
    let verify = rng.one_in(3);
    let mut loops: Vec<Loop> = [1, 2, 3, 8]
        .into_iter()
        .map(|threads| new_loop(&program, &before, threads, verify).unwrap_or_else(|e| panic!("{case}: {e}")))
        .collect();
    let mut expected = before;
    let mut sum = 0.0f64;
    let mut rounds = 2 + rng.below(2);
    let disturbed = rng.one_in(2);
    while rounds > 0 {
        rounds -= 1;
        let reports: Vec<LoopReport> =
            loops.iter_mut().map(|l| l.run(how, Failing::Never).unwrap_or_else(|e| panic!("{case}: {e}"))).collect();
        let order: Vec<usize> = reports[0].serial_order().collect();
        if how.order == Order::Preserve {
            let mut own = Plain(sum);
            replay(&(0..program.steps.len()).collect::<Vec<_>>(), &program, &mut expected.clone(), &mut own);
            assert!(order_is_equivalent(&order, &program, &expected), "{case}: another order than the loop's own");
            sum = own.0;
        }
        let mut total = Plain(0.0);
        replay(&order, &program, &mut expected, &mut total);
        for (l, report) in loops.iter().zip(&reports) {
            let threads = l.session.threads();
            assert_eq!(bits(&l.state()), bits(&expected), "{case}: {threads} threads, {}", report.strategy());
            assert_eq!(report.serial_order().collect::<Vec<_>>(), order, "{case}: {threads} threads, the order");
            assert_eq!(l.sum.get().to_bits(), loops[0].sum.get().to_bits(), "{case}: {threads} threads, the sum");
            if how.order == Order::Preserve {
                assert_eq!(l.sum.get().to_bits(), sum.to_bits(), "{case}: {threads} threads, the plain sum");
            }
        }
        let mut seen = order.clone();
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..program.steps.len()), "{case}: the order is no permutation");
        if disturbed && rounds > 0 {
            let changed = program.disturb(&mut rng);
            for l in &mut loops {
                for &i in &changed {
                    l.steps.set(i, program.steps[i]).unwrap_or_else(|e| panic!("{case}: {e}"));
                }
            }
        }
    }
    check_failures(&case, &mut loops, how, &program, &expected, shape != Shape::Indirect);
}

fn replay(order: &[usize], program: &Program, state: &mut State, sum: &mut Plain<f64>) {
    for &i in order {
        plain_iteration(i, &program.steps, Failing::Never, state, sum, &mut Plain(0)).unwrap();
    }
}

/// Whether an order gives what the loop's own does.
fn order_is_equivalent(order: &[usize], program: &Program, state: &State) -> bool {
    let own: Vec<usize> = (0..program.steps.len()).collect();
    let (mut a, mut b) = (state.clone(), state.clone());
    replay(&own, program, &mut a, &mut Plain(0.0));
    replay(order, program, &mut b, &mut Plain(0.0));
    bits(&a) == bits(&b)
}

/// Bodies that fail: the error is the first in the serial order, and nothing has changed. Where accesses depend on data
/// (not `foreseeable`) a call may be planned anew, in another order: then all threads must agree with each other.
fn check_failures(case: &str, loops: &mut [Loop], how: How, program: &Program, before: &State, foreseeable: bool) {
    // A run that doesn't fail shows the order; its effects are taken over.
    let mut after = before.clone();
    let mut orders = Vec::new();
    for l in loops.iter_mut() {
        orders.push(l.run(how, Failing::Never).unwrap().serial_order().collect::<Vec<_>>());
    }
    replay(&orders[0], program, &mut after, &mut Plain(0.0));
    for failing in [Failing::Err, Failing::Panic] {
        let mut state = after.clone();
        let preserves = how.order == Order::Preserve;
        let order = if preserves { (0..orders[0].len()).collect() } else { orders[0].clone() };
        let first = order.into_iter().find(|&i| {
            let mut ran =
                || plain_iteration(i, &program.steps, Failing::Err, &mut state, &mut Plain(0.0), &mut Plain(0));
            ran().is_err()
        });
        let mut failed = Vec::new();
        for l in loops.iter_mut() {
            let threads = l.session.threads();
            let (sum, count) = (l.sum.get(), l.count.get());
            failed.push(match l.run(how, failing) {
                Ok(_) => None,
                Err(Error::Body { iteration, source, .. }) if failing == Failing::Err => {
                    assert!(source.is::<OnPurpose>(), "{case}: {source}");
                    Some(iteration)
                }
                Err(Error::Panic { iteration, message, .. }) if failing == Failing::Panic => {
                    assert_eq!(message, "this iteration panics on purpose");
                    Some(iteration)
                }
                Err(other) => panic!("{case}: {threads} threads, unexpected error {other}"),
            });
            if failed.last() != Some(&None) {
                assert_eq!(bits(&l.state()), bits(&after), "{case}: {threads} threads, after a failure");
                let now = (l.sum.get().to_bits(), l.count.get());
                assert_eq!(now, (sum.to_bits(), count), "{case}: {threads} threads, reductions after a failure");
            }
        }
        let want = if foreseeable || preserves { first } else { failed[0] };
        assert!(failed.iter().all(|iteration| *iteration == want), "{case}: {failed:?} failed, expected {want:?}");
        if want.is_none() {
            return;
        }
    }
}

fn seeds(short: u64, long: u64) -> std::ops::Range<u64> {
    if let Ok(seed) = std::env::var("STRADSAP_SEED") {
        let seed = seed.parse().expect("STRADSAP_SEED is a number");
        return seed..seed + 1;
    }
    0..if std::env::var_os("STRADSAP_LONG").is_some() { long } else { short }
}

#[test]
fn small_loops_are_serialisable() {
    seeds(400, 9_000).for_each(|seed| check(seed, 60));
}

#[test]
fn large_loops_are_serialisable() {
    seeds(40, 1_000).for_each(|seed| check(1_000_000 + seed, 4_000));
}

fn sequences(from: u64, seeds: std::ops::Range<u64>, length: Length) {
    for seed in seeds {
        let sessions = [1, 2, 4].map(|threads| Rc::new(crate::common::session(threads)));
        sequences::check(from + seed, length, &sessions);
    }
}

#[test]
fn sequences_of_short_loops() {
    sequences(2_000_000, seeds(200, 6_000), Length::Short);
}

#[test]
fn sequences_of_longer_loops() {
    sequences(3_000_000, seeds(20, 600), Length::Middle);
}

#[test]
fn sequences_around_the_threshold_of_sampling() {
    sequences(4_000_000, seeds(2, 40), Length::AroundTheThreshold);
}

/// Large enough for the pattern to be inferred from a sample.
#[test]
fn inferred_loops_are_serialisable() {
    for seed in seeds(2, 40) {
        let mut rng = Rng::new(seed);
        let mut program = Program::random(&mut rng, Shape::Ratings, 1);
        program.lens = [3000, 900, 2, 2];
        let mut steps = vec![Step::default(); 60_000];
        for step in &mut steps {
            for (k, op) in step.ops.iter_mut().take(2).enumerate() {
                let most = 1 + rng.below(program.lens[k]);
                *op = Op { dds: k as u32, index: rng.below(most) as u32, kind: WRITE };
            }
        }
        // Sometimes one iteration, far from any sample, breaks the rule.
        let broken = rng.one_in(2);
        if broken {
            steps[31_234].ops[2] = Op { dds: 0, index: 5, kind: WRITE };
        }
        program.steps = steps;
        let before = State::new(&program.lens);
        let mut digests = Vec::new();
        for threads in [1, 2, 3] {
            let mut l = new_loop(&program, &before, threads, false).unwrap();
            let report = l.run(HOWS[0], Failing::Never).unwrap();
            assert!(broken || report.inferred(), "seed {seed}");
            assert_eq!(report.strategy(), Strategy::Grid);
            let mut expected = before.clone();
            replay(&report.serial_order().collect::<Vec<_>>(), &program, &mut expected, &mut Plain(0.0));
            assert_eq!(bits(&l.state()), bits(&expected), "seed {seed}, {threads} threads");
            digests.push((l.a.digest().unwrap(), l.b.digest().unwrap()));
        }
        assert!(digests.iter().all(|d| *d == digests[0]));
    }
}
