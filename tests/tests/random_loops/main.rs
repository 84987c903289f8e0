//! Random loops against their promise: the result equals the replay of the claimed serial order bit by bit, for every
//! strategy and any number of threads; with `order = Preserve` that order is the loop's own. Failing bodies leave
//! everything as it was.
//!
//! `STRADSAP_LONG=1 cargo test --release -p stradsap-tests --test random_loops` runs 10,000 loops instead of some
//! hundreds; `STRADSAP_SEED=n` runs the one with that seed.

#![allow(clippy::unwrap_used)]

mod program;

use program::{INDIRECT, NOTHING, PAIR, Program, READ, Rng, SHAPES, Shape, Step, WRITE, mix};
use stradsap::prelude::*;
use stradsap::{Error, Result};

/// The DDSs that loops work on, of four kinds of elements.
#[derive(Clone, PartialEq, Debug)]
struct State {
    a: Vec<u64>,
    b: Vec<f32>,
    c: Vec<[u32; 3]>,
    d: Vec<String>,
}

impl State {
    fn new(lens: &[usize; 4]) -> State {
        State {
            a: (0..lens[0]).map(|i| mix(i as u64)).collect(),
            b: (0..lens[1]).map(|i| (mix(i as u64) % 1000) as f32 / 7.0).collect(),
            c: (0..lens[2]).map(|i| [i as u32, 1, 2]).collect(),
            d: (0..lens[3]).map(|i| format!("{i}")).collect(),
        }
    }
}

/// How the elements of each kind take part: a number read from one, and a change by a number.
trait Cell {
    fn look(&self) -> u64;
    fn change(&mut self, by: u64);
}

impl Cell for u64 {
    fn look(&self) -> u64 {
        *self
    }
    fn change(&mut self, by: u64) {
        *self = mix(*self ^ by);
    }
}

impl Cell for f32 {
    fn look(&self) -> u64 {
        u64::from(self.to_bits())
    }
    // Rounding makes the order of changes show.
    fn change(&mut self, by: u64) {
        *self = *self * 0.9 + (by % 1000) as f32 * 0.37;
    }
}

impl Cell for [u32; 3] {
    fn look(&self) -> u64 {
        u64::from(self[0]) << 32 ^ u64::from(self[1] ^ self[2])
    }
    fn change(&mut self, by: u64) {
        self[(by % 3) as usize] = (self[0] ^ by as u32).wrapping_mul(3);
    }
}

impl Cell for String {
    fn look(&self) -> u64 {
        self.bytes().fold(7, |h, b| mix(h ^ u64::from(b)))
    }
    fn change(&mut self, by: u64) {
        self.push(char::from(b'a' + (by % 26) as u8));
        if self.len() > 12 {
            *self = self[5..].to_string();
        }
    }
}

/// When iterations fail.
#[derive(Clone, Copy, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
enum Failing {
    Never,
    Err,
    Panic,
}

/// What a body returns when it fails.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("this iteration fails on purpose")]
struct OnPurpose;

/// One in so many iterations fails, if any.
const FAILING: u64 = 97;

/// One iteration's work; in a loop body on views, in the oracle on plain vectors.
macro_rules! iterate {
    ($i:expr, $step:expr, $failing:expr, $a:expr, $b:expr, $c:expr, $d:expr, $pair:ident, $sum:expr, $count:expr) => {{
        let mut seen = mix($i as u64);
        for op in &$step.ops {
            if op.kind == NOTHING {
                continue;
            }
            macro_rules! on {
                ($x:expr) => {{
                    let index = op.index as usize;
                    match op.kind {
                        READ => seen = mix(seen ^ $x[index].look()),
                        WRITE => {
                            $x[index].change(seen);
                            seen ^= $x[index].look();
                        }
                        PAIR if index / 2 != index => {
                            let (one, other) = $pair!($x, index, index / 2);
                            one.change(seen ^ other.look());
                            other.change(seen);
                        }
                        INDIRECT => {
                            let target = $x[index].look() as usize % $x.len();
                            $x[target].change(seen);
                        }
                        _ => $x[index].change(1),
                    }
                }};
            }
            match op.dds {
                0 => on!($a),
                1 => on!($b),
                2 => on!($c),
                _ => on!($d),
            }
        }
        if $failing != Failing::Never && seen % FAILING == 0 {
            if $failing == Failing::Panic {
                panic!("this iteration panics on purpose");
            }
            return Err(OnPurpose);
        }
        $sum.add((seen % 1000) as f64 / 3.0);
        $count.add(1);
    }};
}

macro_rules! pair_of_view {
    ($x:expr, $i:expr, $j:expr) => {
        $x.pair_mut($i, $j)
    };
}

macro_rules! pair_of_slice {
    ($x:expr, $i:expr, $j:expr) => {{
        let (low, high) = $x.split_at_mut($i);
        (&mut high[0], &mut low[$j])
    }};
}

/// A running sum as the oracle has it.
#[derive(Default)]
struct Plain<T>(T);

impl<T: std::ops::AddAssign> Plain<T> {
    fn add(&mut self, value: T) {
        self.0 += value;
    }
}

fn plain_iteration(
    i: usize,
    steps: &[Step],
    failing: Failing,
    state: &mut State,
    sum: &mut Plain<f64>,
    count: &mut Plain<u64>,
) -> std::result::Result<(), OnPurpose> {
    let State { a, b, c, d } = state;
    iterate!(i, steps[i], failing, a, b, c, d, pair_of_slice, sum, count);
    Ok(())
}

/// The DDSs and reductions of one session.
struct Loop {
    session: Session,
    steps: DVector<Step>,
    a: DVector<u64>,
    b: DVector<f32>,
    c: DVector<[u32; 3]>,
    d: DVector<String>,
    sum: stradsap::Sum<f64>,
    count: stradsap::Count,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct How {
    order: Order,
    strategy: Option<Strategy>,
}

const HOWS: [How; 7] = [
    How { order: Order::Any, strategy: None },
    How { order: Order::Any, strategy: Some(Strategy::Grid) },
    How { order: Order::Any, strategy: Some(Strategy::Coloured) },
    How { order: Order::Any, strategy: Some(Strategy::Serial) },
    How { order: Order::Preserve, strategy: None },
    How { order: Order::Preserve, strategy: Some(Strategy::Grid) },
    How { order: Order::Preserve, strategy: Some(Strategy::Coloured) },
];

impl Loop {
    fn new(program: &Program, state: &State, threads: usize, verify: bool) -> Result<Loop> {
        let session = Session::builder().threads(threads).verify(verify).build()?;
        Ok(Loop {
            steps: DVector::from_vec(&session, program.steps.clone())?,
            a: DVector::from_vec(&session, state.a.clone())?,
            b: DVector::from_vec(&session, state.b.clone())?,
            c: DVector::from_vec(&session, state.c.clone())?,
            d: DVector::from_vec(&session, state.d.clone())?,
            sum: session.sum(0.0),
            count: session.count(),
            session,
        })
    }

    fn run(&mut self, how: How, failing: Failing) -> Result<LoopReport> {
        let Loop { steps, a, b, c, d, sum, count, .. } = self;
        macro_rules! parallel {
            ($($option:tt)*) => {
                async_parallel_for!(0..steps.len(), [failing, &steps, &mut a, &mut b, &mut c, &mut d, &sum, &count], |i| {
                    let step = steps[i];
                    iterate!(i, step, failing, a, b, c, d, pair_of_view, sum, count);
                    Ok::<(), OnPurpose>(())
                } $($option)*)
            };
        }
        match (how.order, how.strategy) {
            (Order::Any, None) => parallel!(),
            (Order::Any, Some(Strategy::Grid)) => parallel!(, strategy = Grid),
            (Order::Any, Some(Strategy::Coloured)) => parallel!(, strategy = Coloured),
            (Order::Any, _) => parallel!(, strategy = Serial),
            (Order::Preserve, None) => parallel!(, order = Preserve),
            (Order::Preserve, Some(Strategy::Grid)) => parallel!(, order = Preserve, strategy = Grid),
            (Order::Preserve, _) => parallel!(, order = Preserve, strategy = Coloured),
        }
    }

    fn state(&self) -> State {
        State {
            a: self.a.to_vec().unwrap(),
            b: self.b.to_vec().unwrap(),
            c: self.c.to_vec().unwrap(),
            d: self.d.to_vec().unwrap(),
        }
    }
}

fn bits(state: &State) -> (Vec<u64>, Vec<u32>, Vec<[u32; 3]>, Vec<String>) {
    (state.a.clone(), state.b.iter().map(|x| x.to_bits()).collect(), state.c.clone(), state.d.clone())
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
        .map(|threads| Loop::new(&program, &before, threads, verify).unwrap_or_else(|e| panic!("{case}: {e}")))
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

/// Bodies that fail: the error is the first in the serial order, and nothing has changed. Where accesses hang on data
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
        let first = orders[0].iter().copied().find(|&i| {
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
        let want = if foreseeable { first } else { failed[0] };
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
                *op = program::Op { dds: k as u32, index: rng.below(most) as u32, kind: WRITE };
            }
        }
        // Sometimes one iteration, far from any sample, breaks the rule.
        let broken = rng.one_in(2);
        if broken {
            steps[31_234].ops[2] = program::Op { dds: 0, index: 5, kind: WRITE };
        }
        program.steps = steps;
        let before = State::new(&program.lens);
        let mut digests = Vec::new();
        for threads in [1, 2, 3] {
            let mut l = Loop::new(&program, &before, threads, false).unwrap();
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
