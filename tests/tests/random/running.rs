//! Running a random loop, and the same on plain vectors.

// Not every target that shares this uses all of it.
#![allow(dead_code)]

use std::rc::Rc;

use stradsap::Result;
use stradsap::prelude::*;

use super::program::{INDIRECT, NOTHING, PAIR, Program, READ, Step, WRITE, mix};

/// The DDSs that loops work on, of four kinds of elements.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct State {
    pub(crate) a: Vec<u64>,
    pub(crate) b: Vec<f32>,
    pub(crate) c: Vec<[u32; 3]>,
    pub(crate) d: Vec<String>,
}

impl State {
    pub(crate) fn new(lens: &[usize; 4]) -> State {
        State {
            a: (0..lens[0]).map(|i| mix(i as u64)).collect(),
            b: (0..lens[1]).map(|i| (mix(i as u64) % 1000) as f32 / 7.0).collect(),
            c: (0..lens[2]).map(|i| [i as u32, 1, 2]).collect(),
            d: (0..lens[3]).map(|i| format!("{i}")).collect(),
        }
    }
}

/// How the elements of each kind take part: a number read from one, and a change by a number.
pub(crate) trait Cell {
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
pub(crate) enum Failing {
    Never,
    Err,
    Panic,
}

/// What a body returns when it fails.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("this iteration fails on purpose")]
pub(crate) struct OnPurpose;

/// One in this many iterations fails, if any.
pub(crate) const FAILING: u64 = 97;

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
pub(crate) struct Plain<T>(pub(crate) T);

impl<T: std::ops::AddAssign> Plain<T> {
    pub(crate) fn add(&mut self, value: T) {
        self.0 += value;
    }
}

pub(crate) fn plain_iteration(
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
pub(crate) struct Loop {
    pub(crate) session: Rc<Session>,
    pub(crate) steps: DVector<Step>,
    pub(crate) a: DVector<u64>,
    pub(crate) b: DVector<f32>,
    pub(crate) c: DVector<[u32; 3]>,
    pub(crate) d: DVector<String>,
    pub(crate) sum: stradsap::Sum<f64>,
    pub(crate) count: stradsap::Count,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct How {
    pub(crate) order: Order,
    pub(crate) strategy: Option<Strategy>,
}

pub(crate) const HOWS: [How; 7] = [
    How { order: Order::Any, strategy: None },
    How { order: Order::Any, strategy: Some(Strategy::Grid) },
    How { order: Order::Any, strategy: Some(Strategy::Coloured) },
    How { order: Order::Any, strategy: Some(Strategy::Serial) },
    How { order: Order::Preserve, strategy: None },
    How { order: Order::Preserve, strategy: Some(Strategy::Grid) },
    How { order: Order::Preserve, strategy: Some(Strategy::Coloured) },
];

impl Loop {
    pub(crate) fn new(session: Rc<Session>, program: &Program, state: &State) -> Result<Loop> {
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

    pub(crate) fn run(&mut self, how: How, failing: Failing) -> Result<LoopReport> {
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

    pub(crate) fn state(&self) -> State {
        State {
            a: self.a.to_vec().unwrap(),
            b: self.b.to_vec().unwrap(),
            c: self.c.to_vec().unwrap(),
            d: self.d.to_vec().unwrap(),
        }
    }
}

pub(crate) fn bits(state: &State) -> (Vec<u64>, Vec<u32>, Vec<[u32; 3]>, Vec<String>) {
    (state.a.clone(), state.b.iter().map(|x| x.to_bits()).collect(), state.c.clone(), state.d.clone())
}
