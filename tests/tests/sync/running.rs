//! A random program on a session.

use stradsap::prelude::*;
use stradsap::{Count, Max, Min, Sum};

use super::interpreter::{Plain, State, Totals};
use super::kinds::Chain;
use super::program::{Call, MOST_OPS, OnPurpose, Op, Program, element};

/// The input, of elements that are plain and of others.
enum Input {
    Lists(DVector<Vec<Op>>),
    Plain(DVector<([Op; MOST_OPS], u32)>),
}

/// The DDSs and reductions of one session.
pub(crate) struct Loop {
    input: Input,
    table: DVector<f32>,
    a: DVector<f64>,
    b: DVector<[f32; 6]>,
    c: DVector<i64>,
    d: DVector<Chain>,
    sum: Sum<f64>,
    low: Min<i64>,
    high: Max<f32>,
    count: Count,
}

fn packed(ops: &[Op]) -> ([Op; MOST_OPS], u32) {
    (std::array::from_fn(|k| ops.get(k).copied().unwrap_or_default()), ops.len() as u32)
}

impl Loop {
    pub(crate) fn new(session: &Session, program: &Program, plain: bool, totals: &Totals) -> stradsap::Result<Loop> {
        let state = State::new(&program.lens);
        let input = if plain {
            Input::Plain(DVector::from_iter(session, program.input.iter().map(|ops| packed(ops)))?)
        } else {
            Input::Lists(DVector::from_vec(session, program.input.clone())?)
        };
        Ok(Loop {
            input,
            table: DVector::from_vec(session, TABLE.into())?,
            a: DVector::from_vec(session, state.a.values())?,
            b: DVector::from_vec(session, state.b.values())?,
            c: DVector::from_vec(session, state.c.values())?,
            d: DVector::from_vec(session, state.d.values())?,
            sum: session.sum(totals.sum),
            low: session.min(totals.low),
            high: session.max(totals.high),
            count: session.count(),
        })
    }

    /// Before a call: what the program changes.
    pub(crate) fn prepare(&mut self, call: &Call) -> stradsap::Result<()> {
        for (i, ops) in &call.disturbed {
            match &mut self.input {
                Input::Lists(input) => input.set(*i, ops.clone())?,
                Input::Plain(input) => input.set(*i, packed(ops))?,
            }
        }
        if let Some([a, b, c, d]) = call.set {
            self.a.set(a, 0.5)?;
            self.b.set(b, [1.5; 6])?;
            self.c.set(c, -7)?;
            self.d.set(d, Chain(9))?;
        }
        Ok(())
    }

    pub(crate) fn run(&mut self, call: &Call) -> stradsap::Result<SyncReport> {
        let Loop { input, table, a, b, c, d, sum, low, high, count } = self;
        let (failing, size, prefetch) = (call.failing, call.minibatch, call.prefetch);
        match input {
            Input::Lists(input) => sync_parallel_for!(
                input,
                size,
                [failing, &table, &mut a, &mut b, &mut c, &mut d, &sum, &low, &high, &count],
                |batch| {
                    for (k, ops) in batch.into_iter().enumerate() {
                        let reductions = (&sum, &low, &high, &count);
                        element!(batch.start() + k, ops, failing, table, [a, b, c, d], &reductions);
                    }
                    Ok::<(), OnPurpose>(())
                },
                call.policy,
                merge = call.rule,
                interval = call.interval,
                prefetch = prefetch
            ),
            Input::Plain(input) => sync_parallel_for!(
                input,
                size,
                [failing, &table, &mut a, &mut b, &mut c, &mut d, &sum, &low, &high, &count],
                |batch| {
                    for (k, (ops, n)) in batch.into_iter().enumerate() {
                        let reductions = (&sum, &low, &high, &count);
                        element!(batch.start() + k, &ops[..*n as usize], failing, table, [a, b, c, d], &reductions);
                    }
                    Ok::<(), OnPurpose>(())
                },
                call.policy,
                merge = call.rule,
                interval = call.interval,
                prefetch = prefetch
            ),
        }
    }

    /// The bits of everything.
    pub(crate) fn bits(&self) -> Bits {
        Bits {
            a: self.a.to_vec().unwrap().into_iter().map(f64::to_bits).collect(),
            b: self.b.to_vec().unwrap().into_iter().map(|row| row.map(f32::to_bits)).collect(),
            c: self.c.to_vec().unwrap(),
            d: self.d.to_vec().unwrap(),
            totals: (self.sum.get().to_bits(), self.low.get(), self.high.get().to_bits(), self.count.get()),
        }
    }
}

pub(crate) const TABLE: [f32; 8] = [0.5, -1.0, 3.0, 0.1, 1e6, 1e-6, 0.0, 7.5];

#[derive(Debug, PartialEq)]
pub(crate) struct Bits {
    a: Vec<u64>,
    b: Vec<[u32; 6]>,
    c: Vec<i64>,
    d: Vec<Chain>,
    totals: (u64, i64, u32, u64),
}

impl Bits {
    /// Of the interpreter's state.
    pub(crate) fn of(state: &State, totals: &Totals) -> Bits {
        Bits {
            a: state.a.values().into_iter().map(f64::to_bits).collect(),
            b: state.b.0.iter().map(|row| Plain::get(row).map(f32::to_bits)).collect(),
            c: state.c.values(),
            d: state.d.values(),
            totals: (totals.sum.to_bits(), totals.low, totals.high.to_bits(), totals.count),
        }
    }
}
